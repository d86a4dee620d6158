# SPDX-License-Identifier: Apache-2.0
"""cubby-nest without a daemon, for the tier none: the start and the end of a guest."""

import os
import pathlib
import shutil
import signal
import socket
import stat
import subprocess
import tempfile

import pytest

from harness import BIN, process_exists, wait_for
from jail_peer import AS_USER, USER
from proc import descriptors

NEST = BIN / "cubby-nest"
ENVD = BIN.parent / "guest/envd"
SIGTERM_BIT = 1 << (signal.SIGTERM - 1)


def below(pid):
    """All processes that descend from this one."""
    found = []
    for tasks in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
        for child in tasks.read_text().split():
            found += [int(child), *below(int(child))]
    return found


def users_of(pid):
    return pathlib.Path(f"/proc/{pid}/status").read_text().partition("Uid:")[2].split()[:4]


class Nest:
    """A cubby-nest that waits for the name of its guest."""

    running = []

    def __init__(self, where, program=ENVD, wrap=(), daemon=None, waits=True):
        Nest.running.append(self)
        self.where = where
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(where / "vm.net"))
        self.listener.listen()
        directory = os.open(where, os.O_RDONLY)
        theirs, self.go = os.pipe()
        fds = [directory, theirs, self.listener.fileno(), *([daemon] if daemon else [])]
        words = ["--kind", "none", "--dir-fd", str(directory), "--go-fd", str(theirs), "--vmnet-fd", str(fds[2])]
        words += ["--daemon-fd", str(daemon)] if daemon else []
        with open(where / "said", "wb") as said:  # a process that is left would keep a pipe open
            self.process = subprocess.Popen([*wrap, NEST, *words, "--", program], pass_fds=fds, stderr=said)
        os.close(directory)
        os.close(theirs)
        if waits:
            wait_for(self.takes_signals, 20, "it takes over SIGTERM")

    def takes_signals(self):
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return "cubby-nest" in status and int(status.partition("SigBlk:\t")[2].split()[0], 16) & SIGTERM_BIT

    def begin(self):
        os.write(self.go, b"name\n")

    def connect(self, port):
        s = socket.socket(socket.AF_UNIX)
        s.settimeout(20)
        s.connect(str(self.where / "vm.net"))
        s.sendall(b"CONNECT %d\n" % port)
        return s, s.recv(100)

    def end(self):
        """Returns its exit status and what it said."""
        return self.process.wait(60), (self.where / "said").read_text()

    def close(self):
        Nest.running.remove(self)
        os.close(self.go)
        if self.process.poll() is None:
            for pid in [*below(self.process.pid), self.process.pid]:
                os.kill(pid, signal.SIGKILL)
            self.process.wait()
        self.listener.close()


@pytest.fixture(autouse=True)
def nothing_is_left():
    yield
    for nest in list(Nest.running):
        nest.close()


@pytest.fixture(name="where")
def fixture_where(tmp_path):
    tmp_path.chmod(0o700)
    return tmp_path


def test_an_end_before_the_start(where):
    """The daemon asks with SIGTERM, while the pipe with the guest's name is still open."""
    nest = Nest(where)
    nest.process.terminate()
    status, said = nest.end()
    assert status == 126 and "the guest was ended while it started" in said


def test_an_end_before_envd_listens(where):
    mute = where / "mute"
    mute.write_text("#!/bin/sh\nsleep 1000 & sleep 1001\n")
    mute.chmod(0o755)
    nest = Nest(where, mute)
    nest.begin()
    wait_for(lambda: len(below(nest.process.pid)) == 3, 20, "it has started the program")
    processes = below(nest.process.pid)
    nest.process.terminate()
    status, said = nest.end()
    assert status == 126 and "the guest was ended while it started" in said
    assert [pid for pid in processes if process_exists(pid)] == []


def test_the_end_of_the_daemon_before_the_start(where):
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as daemon:
        pidfd = os.pidfd_open(daemon.pid)
        nest = Nest(where, daemon=pidfd)
        os.close(pidfd)
    assert nest.end()[0] == 126


def test_an_envd_that_does_not_start(where):
    nest = Nest(where, "/bin/false")
    nest.begin()
    status, said = nest.end()
    assert status == 126 and ("envd did not start" in said or "ended while it started" in said)


def test_envd_is_for_its_user_alone(where):
    """It has no token before the daemon's first request, so it must not listen where others can connect."""
    nest = Nest(where)
    nest.begin()
    s, answer = nest.connect(49983)
    wait_for(lambda: answer == b"OK\n" or (where / "run/envd.sock").exists(), 20, "envd listens")
    if answer != b"OK\n":
        s.close()
        s, answer = nest.connect(49983)
    s.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    assert answer == b"OK\n" and s.recv(100).startswith(b"HTTP/1.1 204")
    s.close()
    (envd,) = below(nest.process.pid)
    sockets = set(descriptors(envd).values())
    listening = [line.split() for name in ("tcp", "tcp6", "udp", "udp6") for line in
                 pathlib.Path(f"/proc/{envd}/net/{name}").read_text().splitlines()[1:]]
    assert [line for line in listening if f"socket:[{line[9]}]" in sockets] == []
    for path, mode in (where / "run", 0o700), (where / "run/envd.sock", 0o600):
        assert stat.S_IMODE(path.stat().st_mode) == mode, path
    unix = pathlib.Path("/proc/net/unix").read_text().splitlines()
    assert not [line for line in unix if str(where / "run") in line], "no path in /proc/net/unix"
    nest.process.terminate()
    assert nest.end()[0] == 0


def test_a_directory_that_no_line_of_passwd_can_name(where):
    odd = where / "a:b"
    odd.mkdir(mode=0o700)
    nest = Nest(odd, waits=False)
    status, said = nest.end()
    assert status == 126 and "needs a CUBBY_HOME without colons" in said and not (odd / "etc").exists()


@pytest.mark.parametrize("subuid, subgid, says", [
    ("", "nester:1:65535", "/etc/subuid gives user nester no range of 65535 ids or more"),
    ("nester:700000:65536", "nester:700000:65534", "/etc/subgid gives user nester no range of 65535 ids or more"),
])
def test_a_user_without_further_ids(where, subuid, subgid, says):
    """The refusal names the file, and what root can do."""
    for name, text in ("passwd", f"nester:x:{USER}:{USER}::/:/bin/sh"), ("subuid", subuid), ("subgid", subgid):
        (where / name).write_text(text + "\n")
    (where / "image").touch()
    script = 'for f in passwd subuid subgid; do mount --bind "$1/$f" /etc/$f; done; shift; exec "$@"'
    world = tempfile.mkdtemp(prefix="cubby-test-")
    os.chown(world, USER, USER)
    (pathlib.Path(world) / "image").touch()
    done = subprocess.run(["unshare", "--mount", "sh", "-c", script, "sh", where, *AS_USER, NEST, "--kind", "unpack", "--dir", world,
                           "--image", f"{world}/image", "--", "/bin/true"], capture_output=True, text=True, timeout=60, check=False)
    shutil.rmtree(world)
    assert done.returncode == 126 and says in done.stderr and f"usermod --add-sub{'g' if subuid else 'u'}ids" in done.stderr


def test_a_process_that_cannot_be_killed():
    """A set-uid program of the host may change its user for good. cubby-nest ends all the same."""
    where = pathlib.Path(tempfile.mkdtemp(prefix="cubby-test-"))  # the directories of tmp_path are root's alone
    python = where / "python"
    python.write_bytes(pathlib.Path(os.path.realpath("/usr/bin/python3")).read_bytes())
    python.chmod(0o4755)
    program = where / "program"
    program.write_text(f"#!/bin/sh\nexec {python} -c 'import os, time; os.setresuid(0, 0, 0); time.sleep(1000)'\n")
    program.chmod(0o755)
    os.chown(where, USER, USER)
    nest = Nest(where, program, wrap=AS_USER)
    nest.begin()
    wait_for(lambda: ["0"] * 4 in [users_of(p) for p in below(nest.process.pid)], 20, "it has become root")
    (other,) = below(nest.process.pid)
    nest.process.terminate()
    try:
        status, said = nest.end()
        assert status == 126 and process_exists(other)
        assert "ended while it started" in said
    finally:
        os.kill(other, signal.SIGKILL)
        shutil.rmtree(where)
