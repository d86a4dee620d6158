# SPDX-License-Identifier: Apache-2.0
"""A daemon whose sandboxes are containers of gVisor, with a small template of this host's own programs."""

import atexit
import ctypes
import json
import os
import pathlib
import re
import shutil
import stat
import subprocess
import tempfile

from cubbyd import Shipped
from harness import BIN

RUNSC = BIN / "runsc"
PIDFD_GETFD = 438  # system call
GUEST = pathlib.Path(os.environ["GUEST"])
# Bash and what the tests' commands need of this host.
PROGRAMS = ["bash", "sh", "cat", "date", "dd", "df", "echo", "head", "hostname", "id", "ls", "mkdir", "rm", "seq", "sleep", "touch",
            "true", "wc", "kill"]
DIRECTORIES = ["dev", "etc", "home/user", "proc", "root", "run", "sys", "tmp", "usr/lib/cubby/bin", "var/tmp"]
PASSWD = "root:x:0:0:root:/root:/bin/bash\nuser:x:1000:1000::/home/user:/bin/bash\n"
CAPABILITIES = ["CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_ADMIN", "NET_BIND_SERVICE", "NET_RAW", "SETFCAP",
                "SETGID", "SETPCAP", "SETUID", "SYS_ADMIN", "SYS_CHROOT", "SYS_NICE", "SYS_PTRACE", "SYS_RESOURCE"]
MOUNTS = [("/proc", "proc"), ("/sys", "sysfs"), ("/sys/fs/cgroup", "cgroup"), ("/dev", "tmpfs"), ("/dev/shm", "tmpfs"),
          ("/run", "tmpfs")]


def files_of(pid):
    """[(name, for reading only, errno of a change of its mode, or 0)] of the files and directories of the host that a process has open."""
    found, pidfd = [], os.pidfd_open(pid)
    for entry in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        name, kind = os.readlink(entry), os.stat(entry).st_mode
        if name.startswith("/memfd:") or not (stat.S_ISREG(kind) or stat.S_ISDIR(kind)):
            continue
        flags = int(re.search(r"flags:\s*(\d+)", pathlib.Path(f"/proc/{pid}/fdinfo/{entry.name}").read_text())[1], 8)
        copy = ctypes.CDLL(None).syscall(PIDFD_GETFD, pidfd, int(entry.name), 0)
        assert copy >= 0, name
        try:
            os.fchmod(copy, stat.S_IMODE(kind))
            refused = 0
        except OSError as error:
            refused = error.errno
        os.close(copy)
        found.append((os.path.basename(name), flags & os.O_ACCMODE == os.O_RDONLY, refused))
    os.close(pidfd)
    return sorted(found)


def put_program(root, name):
    """Copies a program of this host and its libraries, to their own paths."""
    path = shutil.which(name)
    assert path, name
    needed = subprocess.run(["ldd", path], capture_output=True, text=True, check=False).stdout
    for file in [path, *re.findall(r"(/\S+) \(0x", needed)]:
        place = root / os.path.realpath(os.path.dirname(file)).lstrip("/") / os.path.basename(file)
        if not place.exists():
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, place)


def make_root(root):
    for directory in DIRECTORIES:
        (root / directory).mkdir(parents=True)
    for name in ("bin", "sbin", "lib", "lib64"):
        if os.path.islink("/" + name):
            (root / "usr" / name).mkdir(parents=True, exist_ok=True)
            (root / name).symlink_to("usr/" + name)
    for name in PROGRAMS:
        put_program(root, name)
    (root / "etc/passwd").write_text(PASSWD)
    (root / "etc/group").write_text("root:x:0:\nuser:x:1000:\n")
    (root / "tmp").chmod(0o1777)
    os.chmod(root / "home/user", 0o777)


def config():
    every = [f"CAP_{name}" for name in CAPABILITIES]
    mounts = [{"destination": where, "type": kind, "source": kind} for where, kind in MOUNTS]
    tools = {"destination": "/usr/lib/cubby/bin", "type": "erofs", "source": "tools.erofs", "options": ["ro"]}
    process = {"user": {"uid": 0, "gid": 0}, "cwd": "/",
               "args": ["/usr/lib/cubby/bin/init", "--container", "/usr/lib/cubby/bin/envd"],
               "env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LANG=C.UTF-8"],
               "capabilities": {kind: every for kind in ("bounding", "effective", "permitted")}}
    namespaces = [{"type": kind} for kind in ("pid", "network", "ipc", "uts", "mount")]
    return {"ociVersion": "1.0.0", "process": process, "root": {"path": "rootfs"}, "hostname": "sandbox",
            "mounts": [*mounts, tools], "linux": {"namespaces": namespaces}}


def make_template(place, **facts):
    """A template that gVisor boots: it has no saved machine."""
    parts = place / "gvisor"
    parts.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as scratch:
        root, tools = pathlib.Path(scratch) / "root", pathlib.Path(scratch) / "tools"
        make_root(root)
        tools.mkdir()
        for name in ("init", "envd"):
            shutil.copy(GUEST / name, tools)
        for name, tree in (("rootfs", root), ("tools", tools)):
            subprocess.run(["mkfs.erofs", "--quiet", "-Enoinline_data", "--all-root", parts / f"{name}.erofs", tree], check=True)
    (parts / "config.json").write_text(json.dumps(config()))
    (place / "template.json").write_text(json.dumps({
        "format": 1, "driver": "gvisor", "cpus": 1, "memory_mb": 128, "disk_mb": 4096, "gvisor": {"rootfs": "1" * 64}, **facts}))


class Containers(Shipped):
    """Its machines are gVisor's sentries, of the small template."""

    made = None  # the templates of this run of the tests

    def __init__(self, *args, env=None):
        super().__init__(*args, tier="gvisor", env=env)

    def templates(self):
        if Containers.made is None:
            Containers.made = pathlib.Path(tempfile.mkdtemp(prefix="cubby-gvisor-"))
            atexit.register(shutil.rmtree, Containers.made, ignore_errors=True)
            make_template(Containers.made / "default")
        shutil.copytree(Containers.made, self.home / "templates", copy_function=os.link)

    def container_dirs(self):
        return sorted(os.listdir(self.home / "runsc"))

    def sentry(self, made):
        return self.guest_pid(made)


def post(daemon, made, what, body=None, status=201):
    answer = daemon.request("POST", f"/sandboxes/{made['sandboxID']}/{what}", body or {}, timeout=120)
    assert answer.status == status, answer.body
    return answer.json if answer.body else None


def put_note(daemon, made, text):
    assert daemon.command(made, f"echo {text} >/home/user/note; echo {text} >/dev/shm/note") == (0, b"")


def note(daemon, made):
    code, text = daemon.command(made, "cat /home/user/note /dev/shm/note")
    assert code == 0
    return text.decode().split()
