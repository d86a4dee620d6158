# SPDX-License-Identifier: Apache-2.0
"""A QEMU that its guest has taken over lies on its control connection. The driver starts qemu()
below in its place. A lie must not decide anything that belongs to the driver.
"""

import inspect
import json
import os
import shutil
import struct
import subprocess

from machine_fixtures import shells  # noqa: F401

VERSION = "7.2.22"
RAM_MB = 64
PAGE = 4096
FACTS = {"created_at": "2026", "qemu": VERSION, "machine": "none", "cpu_model": "none", "accel": "tcg",
         "memory_mb": RAM_MB, "cpus": 1}


def qemu():
    """Has the guest's memory, and answers every command with success; it reports that the state is
    loaded both before and when it is told to load it."""
    import json, mmap, os, socket, sys  # pylint: disable=all
    if "--version" in sys.argv:
        print("QEMU emulator version " + os.path.basename(sys.argv[0]).split("-")[-1])
        return
    size = os.fstat(6).st_size
    memory = mmap.mmap(6, size, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE)
    peer = socket.socket(fileno=3).accept()[0]
    with open(sys.argv[0] + ".told", "w", buffering=1, encoding="ascii") as told:
        peer.sendall(b'{"QMP": {}}\n')
        for line in peer.makefile():
            command = json.loads(line)
            name = command["execute"]
            told.write(f"{name} {memory[0]} {memory[size - 1]}\n")
            loaded = {"event": "MIGRATION", "data": {"status": "completed"}}
            says = [{"return": {}, "id": command["id"]}]
            if name in ("migrate-set-capabilities", "migrate-incoming"):
                says = [loaded, *says, loaded]
            peer.sendall("".join(json.dumps(one) + "\n" for one in says).encode())


def fake_qemu(place):
    program = place / f"qemu-{VERSION}"
    lines = inspect.getsource(qemu)
    program.write_text(f"#!/usr/bin/python3\n{lines}\nqemu()\n")
    program.chmod(0o755)
    return program


def fake_template(where):
    where.mkdir()
    (where / "template.json").write_text(json.dumps(
        {**FACTS, "format": 1, "name": "default", "kernel": "none", "envd_version": "0", "disk_mb": 64}))
    for name in "memory", "vmstate", "disk.ext4":
        (where / name).touch()
    os.truncate(where / "memory", RAM_MB << 20)
    subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", where / "overlay.qcow2", "64M"], check=True)
    return where


def fake_image(where, template):
    """All pages of the memory are its own, so filling them in takes some milliseconds."""
    where.mkdir()
    (where / "image.json").write_text(json.dumps({**FACTS, "format": 1}))
    (where / "vmstate").touch()
    shutil.copy(template / "overlay.qcow2", where / "disk.qcow2")
    pages = (RAM_MB << 20) // PAGE
    head = struct.pack("<8sIIQQQ", b"cubbypg1", PAGE, 0, RAM_MB << 20, pages, 1)
    (where / "pages").write_bytes(head.ljust(PAGE, b"\0") + b"\7" * (RAM_MB << 20) + struct.pack("<QII", 0, pages, 0))
    return where


def test_loaded_before_it_was_told_to_load(tmp_path, monkeypatch, shells):  # noqa: F811
    """Pages are being written into its memory at that moment. A driver that believed it would let
    the guest run before all pages are there, and free their source while it is being read."""
    template = fake_template(tmp_path / "template")
    program = fake_qemu(tmp_path)
    monkeypatch.setenv("CUBBY_QEMU", str(program))
    one = shells()
    one.create(template=template, image=fake_image(tmp_path / "image", template))
    one.ask("gone", "kill")
    told = [line.split() for line in program.with_name(program.name + ".told").read_text().splitlines()]
    names = [name for name, *_ in told]
    assert names[:4] == ["qmp_capabilities", "migrate-set-capabilities", "migrate-incoming", "cont"], told
    assert told[1][1:] == ["0", "0"], "control: nothing was filled in before"
    assert told[2][1:] == told[3][1:] == ["7", "7"], "all of it was filled in"
