# SPDX-License-Identifier: Apache-2.0
"""An attacker has taken over QEMU or cubby-netd and tries to leave the jail. The daemon starts
breakout.c in place of that process, in the jail and with everything that the process holds. Each
attempt is refused; without the jail the same program, started the same way, succeeds. The attempts
are made by a daemon of root and by a daemon of another user, who owns the template's files.
"""

import ctypes
import os
import pathlib
import shutil
import signal
import socket
import tempfile
import threading

import pytest

from cubbyd import MicroVMs, Shipped, wait_for
from harness import BIN
from jail_peer import USER, of_user
from tiers import tier  # noqa: F401

PROGRAM = pathlib.Path(os.environ["TEST"]) / "breakout"
MARK = b"CUBBY-TARGETS:"
ROOM = 4096  # of the program's, for what it is to attack
REFUSED = {"EPERM", "EACCES", "ENOENT", "ESRCH", "EROFS", "ENOSYS", "ENOTDIR", "ECONNREFUSED", "EAFNOSUPPORT"}
# The number of processes: not a permission, but a limit.
LIMITED = {"thread-bomb": {"EAGAIN"}, "open-many": {"EMFILE"}, "setuid": {"EINVAL"}}
# Of descriptors that it holds for reading only.
OWN = {"reopen-own", "write-own", "map-own", "protect-own", "chmod-own", "chown-own", "times-own", "flags-own",
       "lease-own", "link-own"}
# The same without a jail: what a descriptor for reading is, and a limit that the machine's control
# group has as well.
SAME = {"write-own", "map-own", "protect-own", "fork-bomb", "thread-bomb"}
# cubby-netd is there to open connections; where they may go is its policy's business, and a
# hostile netd's (docs/security.md).
OF_NETD = {"tcp", "udp", "ipv6", "netlink"}


class Targets:
    """Targets of an attack on the host: files of other users, sockets, memory, a process."""

    def __init__(self, home, daemon_pid):
        self.other = home / "other"
        self.other.mkdir(mode=0o755)
        for name in "overlay.qcow2", "sandbox.json":
            (self.other / name).write_text("another's")
            (self.other / name).chmod(0o666)
        self.tcp = socket.create_server(("127.0.0.1", 0))
        self.abstract = socket.socket(socket.AF_UNIX)
        name = f"cubby-attack-{os.getpid()}-{id(self)}"
        self.abstract.bind("\0" + name)
        self.abstract.listen()
        self.unix = socket.socket(socket.AF_UNIX)
        self.unix.bind(str(self.other / "vm.net"))
        self.unix.listen()
        (self.other / "vm.net").chmod(0o666)
        self.libc = ctypes.CDLL(None, use_errno=True)
        key = 0x00cb0000 | os.getpid() & 0xffff
        self.shm = self.libc.shmget(key, 4096, 0o1666)
        template = home / "templates/default"
        self.facts = {"home": home, "other": self.other, "template": template / "template.json",
                      "memory": template / "memory", "disk": template / "disk.ext4", "daemon": daemon_pid,
                      "port": self.tcp.getsockname()[1], "abstract": name, "shm": key}

    def text(self):
        return (";" + ";".join(f"{k}={v}" for k, v in self.facts.items()) + ";").encode()

    def close(self):
        for one in self.tcp, self.abstract, self.unix:
            one.close()
        self.libc.shmctl(self.shm, 0, None)


def program_with(targets, where):
    """A copy of the program with its targets compiled in."""
    data = PROGRAM.read_bytes()
    at = data.index(MARK)
    text = (MARK + targets.text()).ljust(ROOM, b"\0")
    assert len(text) == ROOM
    where.write_bytes(data[:at] + text + data[at + ROOM:])
    where.chmod(0o755)


def running(program):
    """The pid of the process that runs the program. It is found by inode, because its path is
    another one in a jail."""
    wanted = program.stat()
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            found = os.stat(entry / "exe")
        except OSError:
            continue
        if (found.st_dev, found.st_ino) == (wanted.st_dev, wanted.st_ino):
            return int(entry.name)
    return None


def said(pid):
    """The text of the program's standard error, once the program has ended."""
    try:
        text = pathlib.Path(f"/proc/{pid}/fd/2").read_bytes().rstrip(b"\0").decode()
    except OSError:
        return None
    return text if text.endswith("END\n") else None


def own_files(template):
    """Makes the test's user the owner of the template's large files, as if that user had built it;
    nothing reads them."""
    for name in "memory", "disk.ext4", "vmstate":
        size = (template / name).stat().st_size
        (template / name).unlink()
        (template / name).touch(mode=0o600)
        os.truncate(template / name, size)
        os.chown(template / name, USER, USER)


def attempts(kind, *args):
    """{attempt: how it ended} of the program in the place of QEMU or netd."""
    daemon = of_user(*args) if kind.endswith("of a user") else MicroVMs(*args)
    if kind == "vmm of a user":
        own_files(daemon.home / "templates/default")
    bins = pathlib.Path(tempfile.mkdtemp(prefix="cubby-breakout-"))  # which any user may read
    shutil.copytree(BIN, bins, symlinks=True, dirs_exist_ok=True)
    bins.chmod(0o755)
    attacker = bins / ("cubby-netd" if kind.startswith("netd") else "qemu-system-x86_64")
    attacker.unlink(missing_ok=True)
    attacker.write_bytes(b"")  # there, when the daemon looks for it
    attacker.chmod(0o755)
    if kind.startswith("vmm"):
        daemon.env["CUBBY_QEMU"] = str(attacker)
    daemon.program = bins / "cubbyd"
    daemon.start()
    targets = Targets(daemon.home, daemon.process.pid)
    program_with(targets, attacker)
    over = threading.Event()

    def keep_creating():
        """Creates again and again: on a slow host the daemon may give up the program before it has
        finished."""
        while not over.is_set():
            daemon.request("POST", "/v2/sandboxes", {"templateID": "default"}, timeout=120)
    create = threading.Thread(target=keep_creating, daemon=True)
    create.start()
    try:
        # Not the first that runs it: QEMU's version is asked, too.
        lines = wait_for(lambda: said(running(attacker)), 150, "it has tried everything").splitlines()
    finally:
        over.set()
        while (left := running(attacker)) is not None:
            os.kill(left, signal.SIGKILL)
            wait_for(lambda: running(attacker) != left, 30, "it is gone")
        create.join(90)
        targets.close()
        shutil.rmtree(targets.other)
        daemon.close()
        shutil.rmtree(bins)
    return dict(line.split() for line in lines if line != "END")


def allowed(name, word):
    base = name.partition(":")[0]
    if base in OWN:
        return word != "DONE"
    return word in REFUSED | LIMITED.get(base, set())


@pytest.fixture(scope="module", name="control")
def fixture_control():
    """The same attempts without the jail."""
    return attempts("vmm", "--jail", "off")


# What this host itself has not, or does for nobody: no control is to be had of them here.
ABSENT = {"ENOENT", "EAFNOSUPPORT", "ENXIO", "ENODEV"}


@pytest.mark.parametrize("kind", ["vmm", "netd", "vmm of a user", "netd of a user"])
def test_nothing_is_found_outside(control, kind):
    if os.environ.get("SAN") and kind.startswith("netd"):
        pytest.skip("a network process with sanitizers has a jail with holes for them")
    tried = attempts(kind)
    mine = {n: w for n, w in tried.items() if not (kind.startswith("netd") and n in OF_NETD)}
    out = {n: w for n, w in mine.items() if not allowed(n, w)}
    assert not out, out
    # control: without the jail it is not refused, or for another reason than a right that is missing
    same = {n: (w, control[n]) for n, w in mine.items()
            if n in control and n.partition(":")[0] not in SAME and (control[n] == w and w not in ABSENT
                                                  or control[n] in ("EPERM", "EACCES", "ESRCH", "EROFS"))}
    assert not same, same
    assert {n.partition(":")[0] for n, w in control.items() if w == "DONE"} >= {
        "read-shadow", "reopen-own", "chmod-own", "chown-own", "times-own", "lease-own", "write-template-memory",
        "write-other-disk", "signal-daemon", "ptrace-daemon", "tcp", "daemon-socket", "abstract", "other-socket",
        "shared-memory", "unshare-user", "capabilities"}


# ---- as root of a guest
# Attempts at something of the host, which the control reaches.
OF_THE_HOST = {"list-home", "read-template-facts", "write-template-memory", "write-template-disk", "read-other-disk",
               "write-other-disk", "read-other-record", "signal-daemon", "ptrace-daemon", "read-daemon", "pidfd-daemon",
               "limit-daemon", "place-daemon", "session-of-daemon", "abstract", "daemon-socket", "other-socket",
               "shared-memory"}

# Parts of a kernel that the sentry does not have, or gives nobody.
NOT_IN_GVISOR = {"open-mem", "open-kmsg", "by-handle", "raw", "packet", "vsock", "alg", "add-key", "bpf", "io-uring",
                 "userfaultfd", "perf", "init-module", "finit-module", "kexec", "reboot", "set-clock", "io-ports",
                 "fanotify"}


def attempts_in_guest(tier):  # noqa: F811
    """{attempt: how it ended} of the program as root of a guest, with nothing of the host in its hands."""
    with Shipped("--pool", "off", tier=tier) as daemon, tempfile.TemporaryDirectory() as place:
        targets = Targets(daemon.home, daemon.process.pid)
        targets.facts["bombs"] = "no"  # they would hurt the sandbox itself (test_abuse.py)
        program = pathlib.Path(place) / "breakout"
        program_with(targets, program)
        try:
            made = daemon.create(timeout=600)
            put = daemon.through(made["sandboxID"], "POST", "/files?path=/root/breakout&username=root", program.read_bytes(),
                                 headers={"Content-Type": "application/octet-stream"}, token=made["envdAccessToken"])
            assert put.status == 200, put.body
            assert daemon.command(made, "chmod 755 /root/breakout; /root/breakout 2>/root/said &", "root")[0] == 0
            text = wait_for(lambda: (said := daemon.command(made, "cat /root/said", "root")[1]).endswith(b"END\n") and said,
                            150, "it has tried everything")
            assert daemon.kill(made["sandboxID"]) == 204
        finally:
            targets.close()
            shutil.rmtree(targets.other)
    return dict(line.split() for line in text.decode().splitlines() if line != "END")


def test_root_of_a_guest_finds_nothing_of_the_host(control, tier):  # noqa: F811
    tried = attempts_in_guest(tier)
    found = {n: w for n, w in tried.items() if n in OF_THE_HOST and w not in REFUSED | {"EINVAL"}}
    assert not found, found
    assert {n for n, w in control.items() if w == "DONE"} >= OF_THE_HOST
    if tier == "gvisor":
        there = {n for n in NOT_IN_GVISOR if tried[n] == "DONE"}
        assert not there, there
