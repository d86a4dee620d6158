# SPDX-License-Identifier: Apache-2.0
"""Measures what the jail adds to a cold create: two daemons with the same template, one with a jail
and one without, in turns in one run.
"""

import os
import pathlib
import statistics
import subprocess
import time

from bench_common import BIN, median_ms, spread_ms
from cubbyd import MicroVMs


class JailBench:
    FIGURES = ["jail"]

    def __init__(self, rounds, work):
        self.rounds = rounds
        self.work = pathlib.Path(work)
        self.daemons = {}

    def close(self):
        for daemon in self.daemons.values():
            daemon.close()

    def program(self):
        """The time of cubby-jail alone around /bin/true, and of /bin/true."""
        files = subprocess.run(["ldd", "/bin/true"], capture_output=True, text=True, check=True).stdout
        files = ["/bin/true", *(w for w in files.split() if w.startswith("/"))]
        walls = "user,mount,network,ipc,uts,cgroup,privileges,rlimits,landlock,seccomp" + (
            ",uid" if os.geteuid() == 0 else "")
        jailed = [BIN / "cubby-jail", "--walls", walls, "--file-count", str(len(files)), "--", *files, "/bin/true",
                  "true"]
        took = {"jailed": [], "bare": []}
        for _ in range(self.rounds):
            for name, command in ("jailed", jailed), ("bare", ["/bin/true"]):
                start = time.perf_counter()
                subprocess.run(command, check=True)
                took[name].append(time.perf_counter() - start)
        return took

    def create(self, daemon):
        start = time.perf_counter()
        made = daemon.create()
        took = time.perf_counter() - start
        daemon.kill(made["sandboxID"])
        return took

    def jail(self):
        for name, mode in ("jailed", "on"), ("bare", "off"):
            self.daemons[name] = MicroVMs("--jail", mode).start()
            self.create(self.daemons[name])  # the first finds out what its programs need
        took = {"jailed": [], "bare": []}
        for turn in range(2 * self.rounds):
            # each goes first as often as the other
            for name in sorted(took, reverse=bool(turn % 2)):
                took[name].append(self.create(self.daemons[name]))
        alone = self.program()
        medians = {name: statistics.median(values) for name, values in took.items()}
        added = [(a - b) * 1000 for a, b in zip(took["jailed"], took["bare"])]
        return {
            "create_ms": median_ms(took["jailed"]), "range_ms": spread_ms(took["jailed"]),
            "baseline": "the same with --jail off", "baseline_ms": median_ms(took["bare"]),
            "baseline_range_ms": spread_ms(took["bare"]),
            "added_ms": round((medians["jailed"] - medians["bare"]) * 1000, 2),
            "added_paired_median_ms": round(statistics.median(added), 2),
            "ratio": round(medians["jailed"] / medians["bare"], 2),
            "program_ms": median_ms(alone["jailed"]), "program_baseline_ms": median_ms(alone["bare"]),
            "n": 2 * self.rounds,
        }
