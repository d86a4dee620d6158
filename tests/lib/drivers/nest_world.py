# SPDX-License-Identifier: Apache-2.0
"""A daemon whose sandboxes are processes of this host, below cubby-nest: the tiers bubblewrap and none."""

import fcntl
import os
import pathlib
import shutil
import subprocess

from cubbyd import Shipped, process_exists
from harness import BIN, TEST_HOME
from proc import descriptors

NAMESPACES = ("user", "mnt", "pid", "net", "ipc", "uts")


UNPACKED = TEST_HOME / "unpacked"  # a state directory as well


def unpack():
    """Unpacks a copy of the tests' template, once for each build: other tests know the template's files."""
    built, where = TEST_HOME / "templates/default", UNPACKED / "templates/default"
    with open(TEST_HOME / "unpacked.lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not where.exists() or (where / "template.json").read_bytes() != (built / "template.json").read_bytes():
            shutil.rmtree(UNPACKED, ignore_errors=True)
            shutil.copytree(built, where, copy_function=os.link)
        subprocess.run([BIN / "cubby", "template", "unpack"], env={**os.environ, "CUBBY_HOME": str(UNPACKED)}, check=True,
                       capture_output=True, timeout=150)


def below(pid):
    """A process and all that descend from it."""
    found = [pid]
    for tasks in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
        for child in tasks.read_text().split():
            found += below(int(child))
    return found


def namespaces(pid):
    return {kind: os.readlink(f"/proc/{pid}/ns/{kind}") for kind in NAMESPACES}


def users_of(names):
    """Processes in any of these namespaces."""
    found = []
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if set(namespaces(entry.name).values()) & set(names):
                found.append(int(entry.name))
        except OSError:
            continue
    return [pid for pid in found if process_exists(str(pid))]


class Nested(Shipped):
    """The shipped daemon. Its sandboxes are of the given tier."""

    def __init__(self, tier, *args, env=None):
        super().__init__("--tiers-allowed", tier, "--pool", "off", *args, tier=tier, env=env)

    def templates(self):
        if self.tier == "bubblewrap":
            unpack()
            (self.home / "templates").symlink_to(UNPACKED / "templates")
        else:
            super().templates()

    def machines(self):
        """What holds a file of this home's sandboxes: cubby-nest does."""
        found = super().machines()
        for entry in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                files = descriptors(entry.name).values()
                program = (entry / "comm").read_text().strip()
            except OSError:
                continue
            if program != "cubbyd" and any(f.startswith(str(self.home / "sandboxes")) for f in files) and process_exists(entry.name):
                found.append(int(entry.name))
        return found

    def nest(self, made):
        return self.record(made["sandboxID"])["machine"]["nest"]["pid"]
