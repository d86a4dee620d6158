# SPDX-License-Identifier: Apache-2.0
"""What the tests of the jail share: cubby-jail by hand, what /proc says of a jailed process, and hosts
that lack a wall."""

import ctypes
import os
import pathlib
import struct
import subprocess

from cubbyd import MicroVMs
from harness import BIN, TEST_HOME

JAIL = BIN / "cubby-jail"
WALLS = ("user", "mount", "pid", "network", "ipc", "uts", "cgroup", "uid", "privileges", "rlimits", "landlock",
         "seccomp")
NAMESPACES = {"user": "user", "mount": "mnt", "pid": "pid", "network": "net", "ipc": "ipc", "uts": "uts",
              "cgroup": "cgroup"}
UIDS = range(0x70c00000, 0x71000000)
USER = 1001
# All that a daemon of root needs (docs/security.md): a wrap in which root's other rights are taken away.
RIGHTS = "sys_admin", "setuid", "setgid", "setpcap", "chown", "mknod", "sys_ptrace", "kill", "dac_override"
AS_LEAST_ROOT = ["setpriv", "--inh-caps", "-all", "--bounding-set", ",".join(["-all", *(f"+{r}" for r in RIGHTS)])]
AS_USER = ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups"]


def of_user(*args):
    """A daemon of another user than root, with a template that it may read."""
    daemon = MicroVMs(*args)
    (daemon.home / "templates").unlink()
    where = daemon.home / "templates/default"
    where.mkdir(parents=True)
    for file in (TEST_HOME / "templates/default").iterdir():
        try:
            os.link(file, where / file.name)
        except OSError:  # another file system
            subprocess.run(["cp", "--sparse=always", file, where], check=True)
    for path in daemon.home, where.parent, where:
        os.chown(path, USER, USER)
    daemon.wrap = AS_USER
    return daemon


def files_of(program):
    """What it needs to start: itself, its dynamic linker, its libraries."""
    text = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    return [program] + [word for line in text.splitlines() for word in line.split() if word.startswith("/")]


def jail(walls, *argv, options=(), files=None, wrap=("unshare", "--pid", "--fork")):
    """cubby-jail with these walls around argv, as process 1 of a new process namespace."""
    files = files_of(argv[0]) if files is None else files
    return subprocess.run([*wrap, JAIL, "--walls", ",".join(walls), *options, "--file-count", str(len(files)), "--",
                           *files, argv[0], *argv], capture_output=True, text=True, timeout=60)


def status_of(pid):
    lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
    return {key: value.split() for key, _, value in (line.partition(":") for line in lines)}


def namespace_of(pid, wall):
    return os.readlink(f"/proc/{pid}/ns/{NAMESPACES[wall]}")


def mounts_of(pid):
    """(mount point, its options) of all that the process sees."""
    lines = pathlib.Path(f"/proc/{pid}/mountinfo").read_text().splitlines()
    return [(line.split()[4], line.split()[5].split(",")) for line in lines]


SYSCALLS = {"landlock": (444, 445, 446), "mount": (442,), "uts": (170,)}  # mount_setattr, sethostname
BPF_LOAD, BPF_EQUAL, BPF_RETURN = 0x20, 0x15, 0x06
ALLOW, ERRNO = 0x7fff0000, 0x00050000
ENOSYS = 38
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2


def lacking(wall):
    """A preexec_fn: as on a kernel that cannot build this wall, for the program and all it starts."""
    calls = SYSCALLS[wall]
    code = [(BPF_LOAD, 0, 0, 0)]
    for i, number in enumerate(calls):
        code.append((BPF_EQUAL, len(calls) - i, 0, number))
    code += [(BPF_RETURN, 0, 0, ALLOW), (BPF_RETURN, 0, 0, ERRNO | ENOSYS)]
    text = b"".join(struct.pack("HBBI", *one) for one in code)

    def install():
        libc = ctypes.CDLL(None, use_errno=True)
        buffer = ctypes.create_string_buffer(text)
        program = struct.pack("HxxxxxxQ", len(code), ctypes.addressof(buffer))
        if libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, program, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "install a filter")
    return install
