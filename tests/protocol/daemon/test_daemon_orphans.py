# SPDX-License-Identifier: Apache-2.0
"""The directories of sandboxes were removed while no daemon ran, but their processes still run: the
next daemon ends the processes that are surely of its home, and no others.
"""

import contextlib
import os
import shutil
import signal
import subprocess

import pytest

from cubbyd import Daemon, process_exists, wait_for

ID = "abcdefghij0123456789"
NAMESPACE = ("unshare", "--pid", "--fork", "--kill-child")


class Orphans:
    """Programs with a given name that hold one file, which is then removed with its directory."""

    def __init__(self, where):
        self.where = where
        self.started = []
        self.found = []  # (pid, its descriptor)

    def program(self, name, source="/bin/sleep"):
        path = self.where / name
        if not path.exists():
            shutil.copy(source, path)
        return path

    def start(self, directory, program="qemu-system-test", wrap=(), shell=None, removed=True):
        """Starts a program that waits, and returns its pid; `shell` runs where the file is made and
        passed on."""
        directory.mkdir(parents=True)
        script = (f'exec 9<>"$1/disk.qcow2"; {"rm -r" if removed else "ls -d"} "$1" >/dev/null; shift; echo; '
                  f'{shell or "exec"} "$@"')
        words = [*wrap, "sh", "-c", script, "sh", directory, self.program(program), "1000"]
        started = subprocess.Popen(words, stdout=subprocess.PIPE)
        self.started.append(started)
        assert started.stdout.readline() == b"\n"
        pid = wait_for(lambda: self.running(started.pid, self.program(program)), 30, "it runs")
        self.found.append((pid, os.pidfd_open(pid)))
        return pid

    def running(self, pid, program):
        """The pid of the process or descendant that runs this program."""
        try:
            if os.readlink(f"/proc/{pid}/exe") == str(program):
                return pid
            children = open(f"/proc/{pid}/task/{pid}/children", encoding="ascii").read().split()
        except OSError:
            return None
        return next(filter(None, (self.running(int(child), program) for child in children)), None)

    def close(self):
        for pid, fd in self.found:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(fd, signal.SIGKILL)
            os.close(fd)
        for one in self.started:
            one.stdout.close()
            one.kill()
            one.wait(30)
        for pid, _ in self.found:
            wait_for(lambda pid=pid: not process_exists(pid), 30, "it is gone")
        self.found.clear(), self.started.clear()


@pytest.fixture(name="orphans")
def fixture_orphans(tmp_path):
    found = Orphans(tmp_path)
    yield found
    found.close()


def test_what_is_surely_of_this_home_is_ended(orphans):
    daemon = Daemon()
    of = daemon.home / "sandboxes"
    lost = [orphans.start(of / ID), orphans.start(of / (ID[1:] + "b"), "cubby-netd"),
            orphans.start(of / (ID[1:] + "c"), wrap=NAMESPACE)]
    other = orphans.where / "other/sandboxes"
    left = {"another home's": orphans.start(other / ID),
            "a directory beside": orphans.start(daemon.home / "sandboxes-too" / ID),
            "no program of ours": orphans.start(of / (ID[1:] + "d"), "sleeper"),
            "deeper down": orphans.start(of / (ID[1:] + "e"), wrap=(*NAMESPACE, *NAMESPACE)),
            "a file that is there": orphans.start(daemon.home / "elsewhere", removed=False)}
    # A daemon that runs is not asked twice: this one is its child.
    orphans.program("cubbyd-other", "/bin/dash")
    left["of a daemon that runs"] = orphans.start(
        of / (ID[1:] + "f"), wrap=(orphans.where / "cubbyd-other", "-c", '"$@"; :', "sh"))
    with daemon:
        for pid in lost:
            assert not process_exists(pid), daemon.log.read_text()
        for what, pid in left.items():
            assert process_exists(pid), what
        orphans.close()


def test_the_same_path_in_another_file_system(orphans):
    """A container's home may have the same path: /proc shows its open files under that path too."""
    daemon = Daemon()
    root = orphans.where / "root"
    root.mkdir()
    path = daemon.home / "sandboxes" / ID
    script = ('mount -t tmpfs none "$1" && mkdir -p "$1$2" && exec 9<>"$1$2/disk" && rm -r "$1$2" && '
              'umount -l "$1" && echo && exec "$3" 1000')
    words = ["unshare", "--mount", "sh", "-c", script, "sh", root, path, orphans.program("qemu-system-test")]
    other = subprocess.Popen(words, stdout=subprocess.PIPE)
    orphans.started.append(other)
    assert other.stdout.readline() == b"\n"
    assert os.readlink(f"/proc/{other.pid}/fd/9") == f"{path}/disk (deleted)"  # it looks the same
    with daemon:
        assert process_exists(other.pid), daemon.log.read_text()
        orphans.close()
