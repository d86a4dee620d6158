# SPDX-License-Identifier: Apache-2.0
"""A host whose disk is full: which requests are refused, and guests that stand still until there is
room.
"""

import base64
import contextlib
import os
import re
import signal
import subprocess

import pytest

from cubbyd import BIN, MicroVMs, events, read_all, wait_for
from harness import TEST_HOME, tmpfs
from machine_fixtures import *  # noqa: F401,F403
from machine_peer import output_of

FULL = "the host's disk is full: "
BIG = "head -c 60000000 /dev/urandom >/root/big && sync && sha256sum </root/big && cat /root/big | sha256sum"


def free_bytes(where):
    fs = os.statvfs(where)
    return fs.f_bavail * fs.f_frsize


def fill(where, left):
    """Leaves so many bytes free; returns the file to remove."""
    filler = where / ".filler"
    with open(filler, "wb") as file:
        os.posix_fallocate(file.fileno(), 0, free_bytes(where) - left)
    return filler


@pytest.fixture
def full():
    """A daemon whose sandboxes are on a small file system; returns that directory."""
    daemon = MicroVMs()
    with tmpfs(daemon.home / "sandboxes", "700m") as where, daemon:
        yield daemon, where
        (where / ".filler").unlink(missing_ok=True)


def stats_of(daemon, sandbox):
    (one,) = [s for s in daemon.request("GET", "/sandboxes/stats").json["sandboxes"] if s["sandboxID"] == sandbox]
    return one


def output(data):
    return b"".join(base64.b64decode(e.get("data", {}).get("stdout", "")) for e in events(data)).decode()


def test_a_create_is_refused_below_what_a_sandbox_needs(full):
    daemon, where = full
    filler = fill(where, 499_000_000)
    answer = daemon.request("POST", "/v2/sandboxes", {"templateID": "default"})
    assert answer.status == 507, answer.body
    assert re.match(FULL + r"49\d MB are free in .*, and a sandbox needs 500 MB; make room", answer.json["message"])
    assert daemon.directories() == [".filler"]
    filler.unlink()
    daemon.kill(daemon.create()["sandboxID"])


def test_a_guest_waits_for_room_and_goes_on(full):
    daemon, where = full
    made = daemon.create()
    sandbox = made["sandboxID"]
    assert daemon.command(made, "echo ready", "root") == (0, b"ready\n")
    filler = fill(where, 20_000_000)
    stream = daemon.open_command(made, BIG, "root")
    wait_for(lambda: "machine.disk_full" in daemon.log.read_text(), 60, "the disk is full")
    # Everyone is told, and the sandbox is not ended.
    wait_for(lambda: stats_of(daemon, sandbox).get("diskFull") is True, 30, "the statistics say so")
    answer = daemon.through(sandbox, token=made["envdAccessToken"])
    assert answer.status == 507 and answer.json["error_code"] == "host_disk_full", answer.body
    assert answer.json["message"].startswith(FULL + "the sandbox stands still until there are 16 MB free in ")
    for path in ("pause", "snapshots"):
        answer = daemon.request("POST", f"/sandboxes/{sandbox}/{path}", {})
        assert answer.status >= 400 and FULL in answer.json["message"], (path, answer.body)
    assert daemon.get(sandbox).json["state"] == "running"
    filler.unlink()
    one, other = output(read_all(stream)).split("\n")[:2]
    stream.close()
    assert one == other and len(one.split()[0]) == 64
    assert "machine.disk_room" in daemon.log.read_text()
    logs = daemon.request("GET", f"/v2/sandboxes/{sandbox}/logs").json["logs"]
    told = [e["message"] for e in logs if e["message"].startswith("the host's disk ")]
    assert [t.split(":")[0] for t in reversed(told)] == ["the host's disk is full", "the host's disk has room again"]
    assert "diskFull" not in stats_of(daemon, sandbox)
    assert daemon.command(made, "dmesg | grep -ci 'i/o error'", "root")[1] == b"0\n"


def test_a_guest_that_waits_is_adopted(full):
    daemon, where = full
    made = daemon.create()
    filler = fill(where, 20_000_000)
    daemon.open_command(made, BIG, "root").close()
    wait_for(lambda: "machine.disk_full" in daemon.log.read_text(), 60, "the disk is full")
    daemon.stop(signal.SIGKILL)
    daemon.start()
    assert daemon.through(made["sandboxID"], token=made["envdAccessToken"]).status == 507
    filler.unlink()
    wait_for(lambda: "machine.disk_room" in daemon.log.read_text(), 30, "it goes on")
    assert daemon.command(made, "echo on", "root") == (0, b"on\n")


@pytest.fixture
def template_on_tmpfs(tmp_path):
    """A template whose memory file is on a tmpfs, where reading a hole in it takes room."""
    real = TEST_HOME / "templates" / "default"

    def make(size):
        where = stack.enter_context(tmpfs(tmp_path / "m", size))
        subprocess.run(["cp", "--sparse=always", real / "memory", where], check=True)
        template = tmp_path / "t"
        template.mkdir()
        for path in real.iterdir():
            (template / path.name).symlink_to(where / "memory" if path.name == "memory" else path)
        return template, where
    with contextlib.ExitStack() as stack:
        yield make


def test_memory_of_a_template_on_tmpfs(shell, template_on_tmpfs):
    """The first sandbox reserves the room for the whole file: a disk that fills up later ends no
    QEMU by SIGBUS."""
    template, where = template_on_tmpfs("600m")
    memory = where / "memory"
    assert memory.stat().st_blocks * 512 < memory.stat().st_size
    vmnet = shell.create(template=template)["vmnet"]
    fill(where, 0)
    said = output_of(vmnet, "mount -t tmpfs -o size=400m none /mnt; head -c 80000000 /dev/zero >/mnt/x; "
                            "wc -c </mnt/x")
    assert said == "80000000\n"
    shell.ask("gone", "kill")


def test_memory_of_a_template_without_room(shell, template_on_tmpfs):
    template, where = template_on_tmpfs("420m")
    refused = shell.create(template=template, event="failed")
    assert refused["error"].startswith(FULL + "the memory of a sandbox's template ")


def test_cubbyd_that_cannot_start_says_why(tmp_path):
    with tmpfs(tmp_path / "h", "2m") as home:
        (home / "templates").symlink_to(TEST_HOME / "templates")
        fill(home, 0)
        done = subprocess.run([BIN / "cubby", "create"], env=dict(os.environ, CUBBY_HOME=str(home)),
                              capture_output=True, text=True, timeout=60)
        assert done.returncode != 0 and "the host's disk is full" in done.stderr, done.stderr
        assert str(home) in done.stderr
