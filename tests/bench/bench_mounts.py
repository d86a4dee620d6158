# SPDX-License-Identifier: Apache-2.0
"""Measures a mounted directory beside a disk of the guest, and beside a bind mount of bubblewrap's in the same run."""

import os
import pathlib
import shutil
import statistics
import subprocess
import time

from bench_common import BIN
from cubbyd import Shipped
from gvisor_world import RUNSC
from nest_world import Nested

FILES, DIRECTORIES = 10_000, 100
STEPS = {"git_status": "git -c safe.directory=* status --porcelain",
         "cat_1000": "cat d0[0-9]/* >/dev/null",
         "write_100_mb": "dd if=/dev/zero of=big bs=1M count=100 conv=fsync 2>/dev/null && rm big"}
TIMED = "cd {place} && TIMEFORMAT=%R && time ({command}) >/dev/null"


def make_repository(path):
    """A repository of 10,000 files of 1 to 4 KB."""
    for i in range(FILES):
        file = path / f"d{i % DIRECTORIES:02}" / f"f{i:05}.txt"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"line {i}\n" * (100 + i % 300))
    author = ["-c", "user.name=bench", "-c", "user.email=bench@localhost"]
    for words in (["init", "-q"], ["add", "."], [*author, "commit", "-qm", "all"]):
        subprocess.run(["git", *words], cwd=path, check=True)


class Guest:
    """A sandbox of one tier: seconds of each step on the mount and on its own disk."""

    def __init__(self, name, repository):
        self.name = name
        self.daemon = Nested(name) if name == "bubblewrap" else Shipped("--pool", "off", tier=name)
        self.daemon.start()
        self.made = self.daemon.create(timeout=7200, **({"diskSizeMB": 1024, "memoryMB": 2048} if name == "bubblewrap" else {}))
        answer = self.daemon.request("POST", f"/sandboxes/{self.made['sandboxID']}/mounts",
                                     {"source": str(repository), "target": "/project"}, timeout=90)
        assert answer.status == 201, answer.body
        self.run("cp -a /project /home/user/project")
        self.took = {f"{where}_{step}": [] for step in STEPS for where in ("mount", "disk")}

    def run(self, command):
        code, said = self.daemon.command(self.made, f"exec bash -c '{command}' 2>&1", timeout=1800)
        assert code == 0, (self.name, command, said)
        return said.decode()

    def turn(self):
        for step, command in STEPS.items():
            if step == "git_status" and self.name == "gvisor":  # git maps its index into memory (docs/mounts.md)
                continue
            for where, place in (("mount", "/project"), ("disk", "/home/user/project")):
                self.took[f"{where}_{step}"].append(float(self.run(TIMED.format(place=place, command=command)).split()[-1]))

    def sync(self, repository):
        """Seconds of cubby sync into the sandbox: first, and again without a change."""
        env = {**os.environ, "CUBBY_HOME": str(self.daemon.home)}
        seconds = []
        for _ in range(2):
            start = time.perf_counter()
            subprocess.run([BIN / "cubby", "sync", repository, f"{self.made['sandboxID']}:/home/user/synced"], env=env,
                           check=True, capture_output=True)
            seconds.append(time.perf_counter() - start)
        return dict(zip(("first", "again"), (round(s, 2) for s in seconds)))

    def close(self):
        self.daemon.close()


def bind_turn(repository, took):
    """The same steps under bubblewrap alone, on a bind mount: what `docker run -v` is under runc."""
    wrap = ["bwrap", "--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin", "--symlink", "usr/lib", "/lib", "--symlink",
            "usr/lib64", "/lib64", "--proc", "/proc", "--dev", "/dev", "--unshare-all", "--bind", repository, "/project"]
    for step, command in STEPS.items():
        script = TIMED.format(place="/project", command=command)
        done = subprocess.run([*wrap, "bash", "-c", script], check=True, capture_output=True, text=True)
        took[step].append(float(done.stderr.split()[-1]))


class MountsBench:
    FIGURES = ("mounts",)

    def __init__(self, rounds, work):
        self.rounds = min(rounds, 5)
        self.repository = pathlib.Path(work) / "project"
        make_repository(self.repository)
        tiers = ["microvm", *(["gvisor"] if RUNSC.exists() else []), *(["bubblewrap"] if shutil.which("bwrap") else [])]
        self.guests = [Guest(name, self.repository) for name in tiers]

    def mounts(self):
        bind = {step: [] for step in STEPS}
        for _ in range(self.rounds):
            for guest in self.guests:
                guest.turn()
            if shutil.which("bwrap"):
                bind_turn(self.repository, bind)
        seconds = {g.name: {k: round(statistics.median(v), 2) for k, v in g.took.items() if v} for g in self.guests}
        for guest in self.guests:
            seconds[guest.name]["sync"] = guest.sync(self.repository)
        return {"rounds": self.rounds, "seconds": seconds,
                "bind_mount": {k: round(statistics.median(v), 2) for k, v in bind.items() if v}}

    def close(self):
        for guest in self.guests:
            guest.close()
