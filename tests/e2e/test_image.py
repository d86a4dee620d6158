# SPDX-License-Identifier: Apache-2.0
"""The microvm driver alone, with real QEMU: saving a machine, and other machines that go on from
there.
"""

import json
import os
import shutil
import signal
import socket
import subprocess

import pytest

from harness import process_exists, wait_for
from machine_fixtures import shell, shells  # noqa: F401
from machine_peer import TEMPLATE, adopt, health, output_of
from proc import descriptors

# A process that counts into a file which it keeps open, and that has no name any more.
# The number is written over the one before it: who reads it meanwhile finds one of the two.
COUNT = ("(exec 3<>/root/count; rm /root/count; i=0; while :; do i=$((i+1)); echo $i >&3; "
         "printf %08d $i 1<>/tmp/n; sleep 0.01; done) >/dev/null 2>&1 & echo $!")


def save(shell, image, *words):
    image.mkdir(exist_ok=True)
    return shell.ask("saved", "save", image, *words)


def count(vmnet):
    return int(output_of(vmnet, "cat /tmp/n") or 0)


def await_more(vmnet):
    seen = count(vmnet)
    wait_for(lambda: count(vmnet) > seen, 30, "the guest counts on")
    return seen


def held(vmnet, pid):
    """The bytes in the process's file that has no name."""
    return output_of(vmnet, f"tail -n 1 /proc/{pid}/fd/3").strip()


def test_children_go_on_and_so_does_the_parent(shells):
    parent = shells()
    vmnet = parent.create()["vmnet"]
    pid = int(output_of(vmnet, COUNT))
    wait_for(lambda: count(vmnet) > 0, 30, "it counts")
    # One file that is on the disk and one that is only in the guest's memory.
    output_of(vmnet, "seq 200000 >/root/synced; sync; seq 150000 >/root/unsynced; echo of the moment >/root/word")
    sums = output_of(vmnet, "md5sum /root/synced /root/unsynced")
    image = shells.place / "image"
    saved = save(parent, image)
    assert not saved["paused"] and saved["standstill_us"] > 0
    assert saved["bytes"] == sum(p.stat().st_blocks * 512 for p in image.iterdir())
    assert {p.name for p in image.iterdir()} == {"image.json", "vmstate", "pages", "disk.qcow2"}
    assert {p.name for p in parent.dir.iterdir()} == {"qmp.sock", "vm.net", "net.ctl", "net.stats", "disk.qcow2"}
    at_save = count(vmnet)
    output_of(vmnet, "echo later >/root/word; seq 100000 >/root/later; rm /root/synced; sync")

    children = []
    for name in ("one", "two"):
        child = shells(name)
        children.append((name, child, child.create(image=image)["vmnet"]))
    for name, child, of_child in children:
        assert output_of(of_child, "md5sum /root/synced /root/unsynced; cat /root/word; ls /root") == \
            sums + "of the moment\nsynced\nunsynced\nword\n"
        await_more(of_child)
        first = int(held(of_child, pid))
        wait_for(lambda: int(held(of_child, pid)) > first, 30, "its file grows")
        output_of(of_child, f"echo {name} >/root/own; sync")
    for name, _, of_child in children:
        assert output_of(of_child, "cat /root/own") == name + "\n"
    assert await_more(vmnet) >= at_save
    assert output_of(vmnet, "cat /root/word; ls /root") == "later\nlater\nunsynced\nword\n"

    # A child can be saved as well, and what it was made from is not needed for that.
    second = shells.place / "second"
    save(children[0][1], second)
    shutil.rmtree(image)
    grandchild = shells("three")
    of_grandchild = grandchild.create(image=second)["vmnet"]
    assert output_of(of_grandchild, "md5sum /root/synced /root/unsynced; cat /root/own") == \
        sums + "one\n"
    await_more(of_grandchild)
    for machine in [parent, grandchild, *(child for _, child, _ in children)]:
        machine.ask("gone", "kill")


def test_a_paused_machine_and_one_that_stays(shells):
    shell = shells()
    vmnet = shell.create()["vmnet"]
    output_of(vmnet, COUNT)
    wait_for(lambda: count(vmnet) > 0, 30, "it counts")
    stayed, paused = shells.place / "stayed", shells.place / "paused"
    assert save(shell, stayed, "stay")["paused"]
    again = save(shell, paused)
    assert again["paused"] and again["standstill_us"] == 0
    # Requests wait for a save, and for each other.
    third = shells.place / "third"
    third.mkdir()
    shell.say("resume\nsave", third, "\npause\nresume")
    assert [shell.lines.get(timeout=60)["event"] for _ in range(4)] == ["done", "saved", "done", "done"]
    await_more(vmnet)
    for name, image in (("one", stayed), ("two", paused), ("three", third)):
        child = shells(name)
        await_more(child.create(image=image)["vmnet"])
        child.ask("gone", "kill")
    shell.ask("gone", "kill")


def test_an_image_that_cannot_be_used(shells):
    shell = shells()
    shell.create()
    image = shells.place / "image"
    save(shell, image)
    shell.ask("gone", "kill")
    facts = json.loads((image / "image.json").read_text())

    def cut(name, size):
        return lambda d: os.truncate(d / name, size)

    def put(name, at, data):
        def change(d):
            with open(d / name, "r+b") as f:
                f.seek(at)
                f.write(data)
        return change

    def say(**changed):
        return lambda d: (d / "image.json").write_text(json.dumps(facts | changed))

    def older(change):
        def both(d):
            (d / "image.json").write_text(json.dumps({k: v for k, v in facts.items() if k != "files"}))
            change(d)
        return both

    pages, devices, disk = ((image / name).stat().st_size for name in ("pages", "vmstate", "disk.qcow2"))
    assert {k: v["bytes"] for k, v in facts["files"].items()} == \
        {"pages": pages, "vmstate": devices, "disk.qcow2": disk}
    for what, change, words, code in [
            ("cut", cut("pages", pages - 4096), "damaged", "invalid_argument"),
            ("empty", cut("pages", 0), "pages has 0 bytes", "invalid_argument"),
            ("magic", put("pages", 0, b"CUBBY"), "cannot read the file of pages", "invalid_argument"),
            ("ranges", put("pages", pages - 16, b"\xff" * 16), "range", "invalid_argument"),
            ("built", say(created_at="2020-01-01T00:00:00Z"), "another build of template default",
             "failed_precondition"),
            ("size", say(memory_mb=1024), "memory_mb", "failed_precondition"),
            ("format", say(format=99), "cannot read the image", "invalid_argument"),
            ("none", lambda d: (d / "image.json").unlink(), "no saved machine", "not_found"),
            ("no pages", lambda d: (d / "pages").unlink(), "pages", "not_found"),
            ("no disk", lambda d: (d / "disk.qcow2").unlink(), "disk.qcow2", "not_found"),
            ("devices", cut("vmstate", 4096), "vmstate has 4096 bytes", "invalid_argument"),
            ("disk", cut("disk.qcow2", disk // 2), "disk.qcow2 has", "invalid_argument"),
            ("no disk's", put("disk.qcow2", 0, b"\xff" * 64), "is not a disk", "invalid_argument"),
            ("a page", put("pages", pages // 2, os.urandom(4096)), "pages is not what was saved",
             "invalid_argument"),
            ("a device", put("vmstate", devices // 2, os.urandom(4096)), "vmstate is not what was saved",
             "invalid_argument"),
            # As they were before image.json said what the files are.
            ("older", older(cut("pages", pages - 4096)), "its size is not what its header says",
             "invalid_argument"),
            ("older devices", older(cut("vmstate", 4096)), "QEMU", None)]:
        damaged = shells.place / "damaged"
        shutil.copytree(image, damaged)
        change(damaged)
        other = shells("other")
        refused = other.create(image=damaged, event="failed")
        assert words in refused["error"], (what, refused)
        assert code in (None, refused["connect"]), (what, refused)
        other.silent(0.05)
        other.end(killed=False)
        shutil.rmtree(damaged)
        shutil.rmtree(other.dir)
    older(lambda d: None)(image)
    child = shells("good")
    assert health(child.create(image=image)["vmnet"]) == 204
    child.ask("gone", "kill")


def test_no_room_for_the_image(shells):
    """The directory is left empty, and the guest goes on."""
    shell = shells()
    vmnet = shell.create()["vmnet"]
    output_of(vmnet, COUNT)
    wait_for(lambda: count(vmnet) > 0, 30, "it counts")
    small, room = shells.place / "small", shells.place / "room"
    small.mkdir()
    # For not even the disk's empty file; for no devices; for not all pages.
    for size in ("64k", "260k", "1m"):
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", small], check=True)
        try:
            for words in ([], ["stay"]):
                refused = shell.ask("refused", "save", small, *words)
                assert refused["connect"] == "resource_exhausted", (size, refused)
                assert list(small.iterdir()) == [], size
                await_more(vmnet)
        finally:
            # Lazily: QEMU 7.2 keeps the file open to which it could not write its devices.
            subprocess.run(["umount", "--lazy", small], check=True)
    refused = shell.ask("refused", "save", shells.place / "missing")
    assert "missing" in refused["error"]
    assert not save(shell, room)["paused"], "and what failed is in nobody's way"
    child = shells("one")
    await_more(child.create(image=room)["vmnet"])
    child.ask("gone", "kill")
    shell.ask("gone", "kill")


@pytest.mark.parametrize("how", ["kill", "release", "end"])
def test_save_that_the_end_overtakes(shells, how):
    shell = shells()
    shell.create()
    qemu, netd = shell.pids()
    image = shells.place / "image"
    image.mkdir()
    os.kill(qemu, signal.SIGSTOP)  # so that it cannot be done before
    if how == "end":
        shell.say("save", image)
        wait_for(lambda: (image / "disk.qcow2").exists(), 30, "the save has begun")
        os.kill(qemu, signal.SIGKILL)
        assert shell.hear("refused")["connect"] == "unavailable"
        assert shell.hear("exit")["reason"] == "QEMU was killed (signal 9)"
        assert list(image.iterdir()) == []
        shell.ask("gone", "kill")
        return
    shell.say("save", image)
    wait_for(lambda: (image / "disk.qcow2").exists(), 30, "the save has begun")
    shell.say(how)
    assert shell.hear("refused")["connect"] == "canceled"
    shell.hear("gone")
    assert list(image.iterdir()) == []
    shell.silent()
    if how == "release":
        os.kill(qemu, signal.SIGKILL)
        wait_for(lambda: not process_exists(qemu) and not process_exists(netd), 30, "they end")


class Qmp:
    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(30)
        self.socket.connect(str(path))
        self.lines = self.socket.makefile("rb")
        self.lines.readline()
        self.ask("qmp_capabilities")

    def ask(self, command, **arguments):
        self.socket.sendall(json.dumps({"execute": command, "arguments": arguments}).encode() + b"\n")
        while True:
            answer = json.loads(self.lines.readline())
            if "event" not in answer:
                assert "return" in answer, answer
                return answer

    def close(self):
        self.lines.close()
        self.socket.close()


@pytest.mark.parametrize("before", ["running", "paused"])
def test_adopt_of_one_whose_save_was_cut_off(shells, before):
    """The state that a daemon leaves when it is killed while the guest stands still and its disk is
    copied."""
    first = shells()
    vmnet = first.create()["vmnet"]
    output_of(vmnet, COUNT + "; seq 200000 >/root/x; sync")
    wait_for(lambda: count(vmnet) > 0, 30, "it counts")
    record = first.record()
    first.end()
    image = shells.place / "image"
    image.mkdir()
    shutil.copy(TEMPLATE / "overlay.qcow2", image / "disk.qcow2")
    qmp = Qmp(first.dir / "qmp.sock")
    qmp.ask("blockdev-add", driver="qcow2", backing="base", **{"node-name": "save"},
            file={"driver": "file", "filename": str(image / "disk.qcow2")})
    qmp.ask("stop")
    qmp.ask("blockdev-backup", device="disk0", target="save", sync="top", speed=1, **{"job-id": "save"})
    qmp.close()
    (first.dir / "saving").write_text(before)
    shutil.rmtree(image)

    second = shells()
    adopt(second, record)
    assert not (second.dir / "saving").exists()
    if before == "paused":
        assert "already paused" in second.ask("refused", "pause")["error"]
        assert not second.ask("done", "resume")["paused"]
    await_more(vmnet)
    save(second, image)
    child = shells("one")
    await_more(child.create(image=image)["vmnet"])
    child.ask("gone", "kill")
    second.ask("gone", "kill")


# ---- what QEMU can reach

def files_of(pid):
    """{path: mode} of the regular files that a process has open; a file open for writing anywhere
    counts as that."""
    found = {}
    for fd, path in descriptors(pid).items():
        if not path.startswith("/") or path.startswith(("/dev/", "/memfd:")):
            continue
        with open(f"/proc/{pid}/fdinfo/{fd}", encoding="ascii") as info:
            flags = next(int(line.split()[1], 8) for line in info if line.startswith("flags:"))
        found[path] = max(found.get(path, 0), flags & os.O_ACCMODE)
    return found


def test_qemu_has_descriptors_and_no_names(shells):
    shell = shells()
    vmnet = shell.create()["vmnet"]
    qemu, _ = shell.pids()
    real = TEMPLATE.resolve()
    base = {str(real / "memory"): os.O_RDONLY, str(real / "disk.ext4"): os.O_RDONLY,
            str(shell.dir / "disk.qcow2"): os.O_RDWR}
    with open(f"/proc/{qemu}/cmdline", "rb") as f:
        words = f.read()
    assert str(real).encode() not in words and str(TEMPLATE).encode() not in words
    assert str(shell.dir).encode() not in words

    def own():
        files = files_of(qemu)
        files.pop(str(real / "vmstate"), None)
        return files

    assert own() == base
    # What it wrote for an image is taken away again; where it stood still, the next time.
    for name in ("one", "two"):
        save(shell, shells.place / name)
        wait_for(lambda: own() == base, 30, "QEMU lets go of the image")
    save(shell, shells.place / "three", "stay")
    save(shell, shells.place / "four")
    shell.ask("done", "resume")
    save(shell, shells.place / "five")
    wait_for(lambda: own() == base, 30, "QEMU lets go of all images")
    assert output_of(vmnet, "echo alive") == "alive\n"
    for name in ("three", "four", "five"):
        child = shells(name + "-child")
        assert output_of(child.create(image=shells.place / name)["vmnet"], "echo alive") == "alive\n"
        child.ask("gone", "kill")
    shell.ask("gone", "kill")


@pytest.mark.parametrize("change, words", [
    (lambda so: so.unlink(), ["cubby-qemu.so is missing"]),
    (lambda so: (so.unlink(), so.write_text("not an object\n")), ["/dev/null/cubby-memory"]),
], ids=["missing", "not-loaded"])
def test_without_the_preload_nothing_starts(shell, shells, change, words):
    before = (TEMPLATE / "memory").stat()
    so = shells.place / "cubby-qemu.so"
    change(so)
    failed = shell.create(event="failed")
    assert all(word in failed["error"] for word in words), failed
    shell.silent()
    after = (TEMPLATE / "memory").stat()
    assert (before.st_mtime_ns, before.st_blocks) == (after.st_mtime_ns, after.st_blocks)
