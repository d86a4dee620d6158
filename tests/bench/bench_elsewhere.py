# SPDX-License-Identifier: Apache-2.0
"""Measures what a command costs in other isolation on the same machine: gVisor, bubblewrap, no
sandbox.
"""

import shutil
import subprocess
import sys
import time

from bench_common import median_ms, spread_ms

SHELL = ["/bin/bash", "-c", "echo hi"]
GVISOR = ["runsc", "--platform=ptrace", "--network=none", "--ignore-cgroups", "do", *SHELL]
BUBBLEWRAP = ["bwrap", "--unshare-all", "--die-with-parent", "--ro-bind", "/", "/", "--proc", "/proc",
              "--dev", "/dev", "--tmpfs", "/tmp", *SHELL]
PYTHON = [sys.executable, "-c", f"import subprocess; subprocess.run({SHELL!r}, check=True)"]


class ElsewhereBench:
    FIGURES = ["elsewhere"]

    def __init__(self, rounds, _work):
        self.rounds = rounds

    def close(self):
        pass

    @staticmethod
    def once(command):
        start = time.perf_counter()
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False)
        took = time.perf_counter() - start
        if done.returncode or done.stdout != b"hi\n":
            raise RuntimeError(f"{command[0]}: {done.returncode} {done.stderr[-300:]!r}")
        return took

    def elsewhere(self):
        """The time from the start of `runsc do`, `bwrap` and `python3 -c` until each has printed,
        in turns."""
        commands = {"gvisor": GVISOR, "bubblewrap": BUBBLEWRAP, "python_subprocess": PYTHON}
        there = {name: words for name, words in commands.items() if shutil.which(words[0])}
        took = {name: [] for name in there}
        for _ in range(self.rounds):
            for name, words in there.items():
                took[name].append(self.once(words))
        figures = {f"{name}_ms": median_ms(seconds) for name, seconds in took.items()}
        return figures | {"range_ms": {name: spread_ms(seconds) for name, seconds in took.items()},
                          "command": "echo hi, by bash", "n": self.rounds}
