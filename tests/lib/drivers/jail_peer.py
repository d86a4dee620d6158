# SPDX-License-Identifier: Apache-2.0
"""Shared by the tests of the jail: cubby-jail by hand, what /proc shows of a jailed process, and
hosts that lack a feature the jail needs.
"""

import contextlib
import ctypes
import json
import os
import pathlib
import struct
import subprocess

from cubbyd import Shipped
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
KVM = pathlib.Path("/dev/kvm")


def groups_of_user():
    """Groups for the user: a template that was made with KVM works only for a user who may open the
    device."""
    facts = json.loads((TEST_HOME / "templates/default/template.json").read_text())
    return [str(KVM.stat().st_gid)] if facts["accel"] == "kvm" and KVM.exists() else []


def as_user_of_template():
    groups = groups_of_user()
    return [*AS_USER[:-1], "--groups=" + ",".join(groups) if groups else AS_USER[-1]]


def put_for_user(files, where):
    """Links the files that everybody may read, and gives the user a copy of the others."""
    for file in files.iterdir():
        own = where / file.name
        if file.is_dir():
            own.mkdir()
            put_for_user(file, own)
            os.chown(own, USER, USER)
            continue
        if file.stat().st_mode & 0o004:
            with contextlib.suppress(OSError):  # another file system
                os.link(file, own)
                continue
        subprocess.run(["cp", "--sparse=always", file, own], check=True)
        os.chown(own, USER, USER)


def of_user(*args, tier="microvm"):
    """A daemon of another user than root, with a template that this user may read."""
    daemon = Shipped(*args, tier=tier)
    (daemon.home / "templates").unlink()
    where = daemon.home / "templates/default"
    where.mkdir(parents=True)
    put_for_user(TEST_HOME / "templates/default", where)
    for path in daemon.home, where.parent, where:
        os.chown(path, USER, USER)
    daemon.wrap = as_user_of_template()
    return daemon


def files_of(program):
    """The files that it needs to start: itself, its dynamic linker, its libraries."""
    text = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    return [program] + [word for line in text.splitlines() for word in line.split() if word.startswith("/")]


def jail(walls, *argv, options=(), files=None, wrap=("unshare", "--pid", "--fork")):
    """Runs argv under cubby-jail with these protections, as process 1 of a new process namespace."""
    files = files_of(argv[0]) if files is None else files
    return subprocess.run([*wrap, JAIL, "--walls", ",".join(walls), *options, "--file-count", str(len(files)), "--",
                           *files, argv[0], *argv], capture_output=True, text=True, timeout=60)


def status_of(pid):
    lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
    return {key: value.split() for key, _, value in (line.partition(":") for line in lines)}


def namespace_of(pid, wall):
    return os.readlink(f"/proc/{pid}/ns/{NAMESPACES[wall]}")


def mounts_of(pid):
    """(mount point, its options) for every mount that the process sees."""
    lines = pathlib.Path(f"/proc/{pid}/mountinfo").read_text().splitlines()
    return [(line.split()[4], line.split()[5].split(",")) for line in lines]


SYSCALLS = {"landlock": (444, 445, 446), "mount": (442,), "uts": (170,)}  # mount_setattr, sethostname
BPF_LOAD, BPF_EQUAL, BPF_RETURN = 0x20, 0x15, 0x06
ALLOW, ERRNO = 0x7fff0000, 0x00050000
ENOSYS = 38
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2


def lacking(wall):
    """A preexec_fn: the program and all its children run as on a kernel that cannot build this protection."""
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
