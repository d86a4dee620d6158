# SPDX-License-Identifier: Apache-2.0
"""A QEMU that its guest has taken over leaves an image whose disk names files of the host. The next
QEMU would open them: the image is refused, and can be used again once the name is gone.
"""

import subprocess

import pytest

from cubbyd import MicroVMs, wait_for

FEATURES = 72  # of the head of a qcow2 file: what a reader must know
EXTENSIONS = 112


@pytest.fixture(scope="module", name="daemon")
def fixture_daemon():
    with MicroVMs() as d:
        yield d


def external_data(head):
    """An external file of data: /etc/shadow."""
    name = b"/etc/shadow"
    return head[:FEATURES + 7] + b"\4" + head[FEATURES + 8:EXTENSIONS] + b"DATA" + len(name).to_bytes(4, "big") + \
        name.ljust(16, b"\0") + b"\0" * 8


def backing_file(head):
    name = b"/etc/shadow"
    at = 1024
    return (head[:8] + at.to_bytes(8, "big") + len(name).to_bytes(4, "big") + head[20:]).ljust(at, b"\0") + name


def test_a_disk_that_names_other_files(daemon):
    made = daemon.create()
    where = made["sandboxID"]
    assert daemon.command(made, "echo kept > ~/file")[0] == 0
    assert daemon.request("POST", f"/sandboxes/{where}/pause", {"depth": "hibernate"}, timeout=120).status == 204
    disk = daemon.directory(where) / "image/disk.qcow2"
    wait_for(disk.exists, 30, "it is on the disk")
    good = disk.read_bytes()
    for change, word in (external_data, "features"), (backing_file, "backing file"):
        head = change(good[:512])
        disk.write_bytes(head + good[len(head):])
        # control: QEMU's own reader does believe it
        told = subprocess.run(["qemu-img", "info", str(disk)], capture_output=True, check=False)
        assert b"/etc/shadow" in told.stdout + told.stderr, told
        answer = daemon.request("POST", f"/sandboxes/{where}/resume", {"timeout": 300}, timeout=120)
        assert answer.status >= 400 and word in answer.json["message"], answer.body
    # control: without the change it goes on
    disk.write_bytes(good)
    answer = daemon.request("POST", f"/sandboxes/{where}/resume", {"timeout": 300}, timeout=120)
    assert answer.status in (200, 201), answer.body
    assert daemon.command(made, "cat ~/file") == (0, b"kept\n")
    assert daemon.kill(where) == 204
