# SPDX-License-Identifier: Apache-2.0
"""A guest for arm64: its kernel, init and envd in an emulated machine, QEMU's `virt`. User emulation has neither clone3 nor
shared memory between a parent and its child, so what depends on them is tested here. The driver of microVMs names the machine.
By hand: make test-arm64.
"""

import base64
import os
import pathlib
import re
import shutil
import socket
import subprocess
import time

import pytest

from envd_peer import Envd, Result, basic, wait_for

MACHINE = pathlib.Path(os.environ["ARM64_MACHINE"])
ENVD_PORT = 49983
BOOT_S = 170
COUNT = "i=0; while :; do i=$((i+1)); echo $i >/tmp/new; mv /tmp/new /tmp/count; sleep 0.01; done"


class Guest(Envd):
    """The machine's envd, through a port of this host."""

    def start(self):
        console, monitor = self.dir / "console", self.dir / "monitor"
        shutil.copy(MACHINE / "disk.img", self.dir)
        words = subprocess.run(os.environ["ARM64_WORDS"].split(), check=True, capture_output=True, text=True, timeout=60).stdout
        program, machine, model, arguments = words.splitlines()
        options = ["-M", machine, "-cpu", model, "-accel", "tcg", "-m", "512M", "-nodefaults", "-no-user-config", "-display", "none",
                   "-action", "reboot=shutdown", "-global", "virtio-mmio.force-legacy=false", "-serial", f"file:{console}",
                   "-monitor", f"unix:{monitor},server=on,wait=off",
                   "-kernel", MACHINE / "kernel", "-initrd", MACHINE / "initramfs", "-append", arguments,
                   "-drive", f"file={self.dir}/disk.img,format=raw,if=none,id=disk", "-device", "virtio-blk-device,drive=disk",
                   "-netdev", f"user,id=n0,restrict=on,hostfwd=tcp:127.0.0.1:0-:{ENVD_PORT}", "-device", "virtio-net-device,netdev=n0",
                   "-object", "rng-builtin,id=entropy", "-device", "virtio-rng-device,rng=entropy"]
        self.process = subprocess.Popen([program, *options], stdin=subprocess.DEVNULL)
        wait_for(lambda: self.process.poll() is not None or (console.exists() and b"\nready port=" in console.read_bytes()), BOOT_S)
        assert self.process.poll() is None, console.read_text(errors="replace")[-2000:]
        self.port = self.forwarded(monitor)

    @staticmethod
    def forwarded(monitor):
        """The port that QEMU has chosen."""
        with socket.socket(socket.AF_UNIX) as sock:
            sock.connect(str(monitor))
            sock.settimeout(60)
            sock.sendall(b"info usernet\n")
            text = b""
            while not (found := re.search(rb"HOST_FORWARD\]\s+\d+\s+127\.0\.0\.1\s+(\d+)", text)):
                text += sock.recv(4096)
            return int(found[1])

    def close(self):
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self.dir)


@pytest.fixture(scope="module")
def guest():
    machine = Guest()
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    assert machine.init(defaultUser="root", hostname="box-1", timestamp=now, entropy=base64.b64encode(os.urandom(64)).decode())[0] == 204
    yield machine
    machine.close()


def test_it_is_an_arm64_machine_with_names(guest):
    assert guest.sh("uname -m; uname -n; cat /proc/1/comm").stdout == b"aarch64\nbox-1\ninit\n"
    assert b"127.0.1.1 box-1\n" in guest.read("/etc/hosts")[2]


def test_files_and_exit_codes(guest):
    data = os.urandom(3 << 20)
    assert guest.write("/tmp/data", data)[0] == 200 and guest.read("/tmp/data")[2] == data
    assert guest.sh("exit 7").code == 7
    assert guest.run("/bin/none").code == 127


def test_an_error_of_the_child_before_the_program(guest):
    """The child shares envd's memory, and writes there why it failed."""
    assert guest.sh("mkdir -m 700 /tmp/closed").code == 0
    failed = guest.run("/bin/id", cwd="/tmp/closed", headers=basic("user"))
    assert failed.error["code"] == "invalid_argument" and "/tmp/closed" in failed.error["message"]


def test_a_command_starts_in_its_control_group(guest):
    """Its end reaches a process that left its group, session and parents."""
    stream = guest.begin("/bin/sh", "-c", "sh -c 'setsid sleep 300 & echo $! >/tmp/pid'; sleep 300")
    wait_for(lambda: guest.read("/tmp/pid")[0] == 200 and guest.read("/tmp/pid")[2].endswith(b"\n"))
    pid = guest.read("/tmp/pid")[2].decode().strip()
    assert b"/commands/" in guest.sh(f"cat /proc/{pid}/cgroup").stdout
    guest.proc("SendSignal", process={"pid": stream.pid}, signal="SIGNAL_SIGKILL", group=True)
    assert Result(stream).end["status"] == "signal: killed"
    wait_for(lambda: guest.sh(f"kill -0 {pid}").code == 1)


def test_freeze(guest):
    def count():
        status, _, text = guest.read("/tmp/count")
        return int(text) if status == 200 and text.strip() else 0

    def runs():
        before = count()
        wait_for(lambda: count() > before)

    stream = guest.begin("/bin/sh", "-c", COUNT)
    runs()
    wait_for(lambda: guest.request("POST", "/freeze")[0] == 204)
    before = count()
    for _ in range(50):
        assert guest.request("GET", "/health")[0] == 204
    assert count() == before
    assert guest.request("POST", "/unfreeze")[0] == 204
    runs()
    guest.proc("SendSignal", process={"pid": stream.pid}, signal="SIGNAL_SIGKILL", group=True)
    stream.close()
