# SPDX-License-Identifier: Apache-2.0
"""Measures the same steps in each tier that this host has and, where they have a meaning, without
isolation, in turns.

CUBBY_BENCH_REALTIME=1: the daemons and their machines, and the programs without isolation, run with
real-time priority and outside of control groups. On a host that has other work, they then see little
of it. The pool is not measured then, because its machines give way to other work for ever.
"""

import contextlib
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

from bench_common import median_ms, spread_ms
from cubbyd import Shipped
from gvisor_world import RUNSC, Containers
from harness import wait_for

KERNEL = 49999
POOL_S = 30
RUNNING = int(os.environ.get("CUBBY_BENCH_RUNNING", "40"))
BUG = pathlib.Path(__file__).parent.parent / "acceptance/bugs/pager"
PLACE = "/home/user/pager"
PYTEST = "python3 -m pytest -q -p no:cacheprovider"
IN_KERNEL = """import os, sys
os.chdir({place!r})
sys.path.insert(0, "")
for name in [n for n in sys.modules if n.endswith("pager")]:
    del sys.modules[name]
import pytest
print(int(pytest.main(["-q", "-p", "no:cacheprovider"])))
"""
REALTIME = bool(os.environ.get("CUBBY_BENCH_REALTIME"))
FIRST = ["chrt", "--rr", "20"] if REALTIME else []
ALONE = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs none /sys/fs/cgroup && exec "$@"', "alone", *FIRST] if REALTIME else []
STEPS = ("create", "first_output", "command", "python", "red", "patch", "green", "red_to_green", "kernel_red",
         "kernel_green", "kernel_red_to_green", "fork_child", "wake", "pooled")


def available_mb():
    lines = pathlib.Path("/proc/meminfo").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable")) // 1024


def timed(function):
    start = time.perf_counter()
    value = function()
    return time.perf_counter() - start, value


def alone(daemon):
    """Starts the daemon where it sees little of the host's other work, if that is wanted."""
    daemon.wrap = ALONE
    return daemon.start()


class Tier:
    """A daemon of one tier without a pool, one with a pool, and the seconds of each step."""

    def __init__(self, name):
        spares = {"CUBBY_SPARES": "on"}  # as the daemon has them by default
        self.cold = alone(Shipped("--pool", "off", "--freeze-after", "0", "--hibernate-after", "0", tier=name, env=spares))
        self.pooled = None if REALTIME else Shipped("--pool", "1", tier=name, env=spares).start()
        self.took = {step: [] for step in STEPS}
        self.children = []

    def close(self):
        self.cold.close()
        if self.pooled:
            self.pooled.close()

    def step(self, name, function):
        took, value = timed(function)
        self.took[name].append(took)
        return value

    # ---- what a client does
    @staticmethod
    def echo(daemon, made):
        assert daemon.command(made, "echo hi") == (0, b"hi\n")

    def first_output(self, daemon, **fields):
        made = daemon.create(timeout=3600, **fields)
        self.echo(daemon, made)
        return made

    def put(self, made, path, data):
        answer = self.cold.through(made["sandboxID"], "POST", f"/files?path={path}&username=user", data,
                                   headers={"Content-Type": "application/octet-stream"}, token=made["envdAccessToken"])
        assert answer.status == 200, answer.body

    def run(self, made, code):
        """The printed text of a run in the Python kernel."""
        answer = self.cold.through(made["sandboxID"], "POST", "/execute", {"code": code}, port=KERNEL,
                                   token=made["envdAccessToken"], timeout=170)
        assert answer.status == 200, answer.body
        lines = [json.loads(line) for line in answer.body.splitlines()]
        return "".join(line["text"] for line in lines if line["type"] == "stdout")

    def post(self, made, what, body, status):
        answer = self.cold.request("POST", f"/sandboxes/{made['sandboxID']}/{what}", body, timeout=120)
        assert answer.status == status, answer.body
        return answer.json if answer.body else None

    # ---- a round
    def round(self):
        made = self.step("create", lambda: self.cold.create(timeout=3600))
        self.took["first_output"].append(self.took["create"][-1] + timed(lambda: self.echo(self.cold, made))[0])
        for _ in range(3):
            self.step("command", lambda: self.echo(self.cold, made))
        assert self.run(made, "print(1)") == "1\n"
        self.step("python", lambda: self.run(made, "print(1)"))
        self.bug(made)
        self.step("fork_child", lambda: self.child(made))
        self.post(made, "pause", {"depth": "hibernate"}, 204)
        self.step("wake", lambda: (self.post(made, "connect", {"timeout": 3600}, 201), self.echo(self.cold, made)))
        for one in [made["sandboxID"], *self.children]:
            self.cold.kill(one)
        self.children.clear()
        self.from_pool()

    def bug(self, made):
        """RED, patch, GREEN: by commands, and in the Python kernel."""
        for file in BUG.glob("*.py"):
            self.put(made, f"{PLACE}/{file.name}", file.read_bytes())
        wrong, right = ((BUG / part / "pager.py").read_bytes() for part in (".", "fixed"))
        for how, test in (("", self.by_command), ("kernel_", self.in_kernel)):
            self.put(made, f"{PLACE}/pager.py", wrong)
            begin = time.perf_counter()
            assert self.step(how + "red", lambda t=test: t(made)) == 1
            took, _ = timed(lambda: self.put(made, f"{PLACE}/pager.py", right))
            self.took["patch"].append(took)
            assert self.step(how + "green", lambda t=test: t(made)) == 0
            self.took[how + "red_to_green"].append(time.perf_counter() - begin)

    def by_command(self, made):
        return self.cold.command(made, f"cd {PLACE} && {PYTEST}")[0]

    def in_kernel(self, made):
        return int(self.run(made, IN_KERNEL.format(place=PLACE)).split()[-1])

    def child(self, made):
        """A fork, until its child has run a command."""
        (child,) = self.post(made, "fork", {"count": 1, "timeout": 3600}, 201)
        self.echo(self.cold, child["sandbox"])
        self.children.append(child["sandbox"]["sandboxID"])

    def from_pool(self):
        """A pool gives way to everything else that the machine does: on a busy one there may be no figure."""
        daemon = self.pooled
        if not daemon:
            return
        with contextlib.suppress(AssertionError):
            wait_for(lambda: daemon.request("GET", "/pool").json["templates"][0]["ready"] == 1, POOL_S, "one is ready")
            made = self.step("pooled", lambda: self.first_output(daemon))
            daemon.kill(made["sandboxID"])

    def figures(self):
        return {step: {"ms": median_ms(took), "range_ms": spread_ms(took), "n": len(took)}
                for step, took in self.took.items() if took}


class TiersBench:
    FIGURES = ["tiers", "gvisor_alive_at_once"]

    def __init__(self, rounds, _work):
        self.rounds = rounds

    def close(self):
        pass

    @staticmethod
    def native():
        """Seconds of the bug's tests on the host: RED, and GREEN."""
        with tempfile.TemporaryDirectory() as work:
            for file in BUG.glob("*.py"):
                shutil.copy(file, work)
            words = [*FIRST, sys.executable, *PYTEST.split()[1:]]
            red, done = timed(lambda: subprocess.run(words, cwd=work, capture_output=True, check=False))
            assert done.returncode == 1, done.stdout
            shutil.copy(BUG / "fixed/pager.py", work)
            green, done = timed(lambda: subprocess.run(words, cwd=work, capture_output=True, check=False))
            assert done.returncode == 0, done.stdout
            return red, green

    @staticmethod
    def saved_shell(daemon):
        """The id of a snapshot without a Python kernel: it has what the build of `minimal` saves."""
        made = daemon.create()
        Tier.echo(daemon, made)
        answer = daemon.request("POST", f"/sandboxes/{made['sandboxID']}/snapshots", {}, timeout=120)
        assert answer.status == 201, answer.body
        daemon.kill(made["sandboxID"])
        return answer.json["snapshotID"]

    @staticmethod
    def shell_only(daemon, saved):
        """Seconds of a cold create to the first output, of a saved shell without a Python kernel."""
        took, made = timed(lambda: daemon.create(templateID=saved, timeout=600))
        took += timed(lambda: Tier.echo(daemon, made))[0]
        daemon.kill(made["sandboxID"])
        return took

    def tiers(self):
        names = ["gvisor", "microvm"] if RUNSC.exists() else ["microvm"]
        tiers = {name: Tier(name) for name in names}
        native, shell, load = [], [], [os.getloadavg()[0]]
        small = alone(Containers("--pool", "off", env={"CUBBY_SPARES": "on"})) if RUNSC.exists() else None
        saved = self.saved_shell(small) if small else None
        try:
            for number in range(self.rounds + 1):  # the first one fills the page cache
                for tier in tiers.values():
                    tier.round()
                native.append(self.native())
                if small:
                    shell.append(self.shell_only(small, saved))
                if number == 0:
                    native, shell = [], []
                    for tier in tiers.values():
                        tier.took = {step: [] for step in STEPS}
                load.append(os.getloadavg()[0])
        finally:
            for daemon in [*tiers.values(), *([small] if small else [])]:
                daemon.close()
        result = {name: tier.figures() for name, tier in tiers.items()}
        result["native"] = {"red_ms": median_ms([r for r, _ in native]), "green_ms": median_ms([g for _, g in native])}
        if shell:
            result["gvisor"]["shell_only_first_output"] = {"ms": median_ms(shell), "range_ms": spread_ms(shell),
                                                           "n": len(shell)}
            result["gvisor"]["red_to_native"] = round(statistics.median(tiers["gvisor"].took["red"]) /
                                                      statistics.median([r for r, _ in native]), 2)
        return result | {"load": [round(min(load), 1), round(max(load), 1)]}

    def gvisor_alive_at_once(self):
        """So many running sandboxes of gVisor in one daemon, each with a command and a line of Python."""
        if not RUNSC.exists():
            return {"skipped": "runsc is not built: make runsc"}
        tier = Tier("gvisor")
        try:
            daemon, made = tier.cold, []
            daemon.kill(tier.first_output(daemon)["sandboxID"])
            before, load = available_mb(), os.getloadavg()[0]
            took, _ = timed(lambda: [made.append(tier.first_output(daemon)) for _ in range(RUNNING)])
            commanded = available_mb()
            answers = [timed(lambda m=m: tier.echo(daemon, m))[0] for m in made]
            pythons = [timed(lambda m=m: tier.run(m, "print(1 + 1)"))[0] for m in made]
            stats = daemon.request("GET", "/sandboxes/stats").json["sandboxes"]
            after = available_mb()
            for one in made:
                daemon.kill(one["sandboxID"])
        finally:
            tier.close()
        return {"running": len(made), "made_in_s": round(took, 1), "memory_each_mb": round((before - commanded) / len(made), 1),
                "memory_each_with_python_mb": round((before - after) / len(made), 1),
                "by_stats_mb": round(statistics.mean(one["memoryBytes"] for one in stats) / 1e6, 1),
                "command_ms": median_ms(answers), "range_ms": spread_ms(answers),
                "first_python_ms": median_ms(pythons), "load": round(load, 1)}
