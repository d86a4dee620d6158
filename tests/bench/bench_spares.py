# SPDX-License-Identifier: Apache-2.0
"""Measures what a spare saves: the same steps in a daemon without spares and in one with them, in turns.

CUBBY_BENCH_REALTIME=1: as in bench_tiers.py.
"""

import os
import pathlib
import time

from bench_common import bare_qemu, median_ms, spread_ms
from bench_tiers import FIRST, Tier, alone
from cubbyd import Shipped, wait_for
from gvisor_world import RUNSC

STEPS = ("create", "fork_child", "wake")
PAUSE_S = 0.8  # between two steps, as between those of a client that thinks: the next spare starts meanwhile
STARTED = (" spare.started ", " blank.spare ")  # in the daemon's log


def own_mb(pid):
    """Memory that is the process's own."""
    lines = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith(("Private_Clean:", "Private_Dirty:"))) / 1024


class World(Tier):
    """A daemon with or without spares."""

    def __init__(self, tier, spares):
        self.cold = alone(Shipped("--pool", "off", "--freeze-after", "0", "--hibernate-after", "0", "--spares", spares, tier=tier))
        self.took = {step: [] for step in STEPS}

    def close(self):
        self.cold.close()

    def lines(self):
        return [line for line in self.cold.log.read_text().splitlines() if any(word in line for word in STARTED)]

    def round(self):
        made = self.step("create", lambda: self.first_output(self.cold))
        time.sleep(PAUSE_S)
        (child,) = self.step("fork_child", lambda: self.forked(made))
        time.sleep(PAUSE_S)
        self.post(made, "pause", {"depth": "hibernate"}, 204)
        self.step("wake", lambda: (self.post(made, "connect", {"timeout": 3600}, 201), self.echo(self.cold, made)))
        for one in made, child["sandbox"]:
            self.cold.kill(one["sandboxID"])
        time.sleep(PAUSE_S)

    def forked(self, made):
        children = self.post(made, "fork", {"count": 1, "timeout": 3600}, 201)
        self.echo(self.cold, children[0]["sandbox"])
        return children

    def memory_mb(self):
        """Of a spare that waits."""
        before = len(self.lines())
        made = self.first_output(self.cold)
        wait_for(lambda: len(self.lines()) > before, 30, "a spare")
        time.sleep(PAUSE_S)
        found = own_mb(int(self.lines()[-1].rpartition("pid=")[2]))
        self.cold.kill(made["sandboxID"])
        return found


class SparesBench:
    FIGURES = ["spares"]

    def __init__(self, rounds, work):
        self.rounds = rounds
        self.work = pathlib.Path(work)

    def close(self):
        pass

    def spares(self):
        tiers = ["microvm", "gvisor"] if RUNSC.exists() else ["microvm"]
        return {tier: self.of_tier(tier) for tier in tiers}

    def of_tier(self, tier):
        worlds = {mode: World(tier, mode) for mode in ("off", "on")}
        bare, load = [], [os.getloadavg()[0]]
        try:
            for number in range(self.rounds + 1):  # the first one fills the page cache
                for world in worlds.values():
                    world.round()
                    if number == 0:
                        world.took = {step: [] for step in STEPS}
                bare.append(bare_qemu(self.work, FIRST))
                load.append(os.getloadavg()[0])
            memory = worlds["on"].memory_mb()
        finally:
            for world in worlds.values():
                world.close()
        result = {step: {"without_ms": median_ms(worlds["off"].took[step]), "without_range_ms": spread_ms(worlds["off"].took[step]),
                         "with_ms": median_ms(worlds["on"].took[step]), "with_range_ms": spread_ms(worlds["on"].took[step])}
                  for step in STEPS}
        return result | {"n": self.rounds, "bare_qemu_ms": median_ms(bare), "spare_own_mb": round(memory, 1),
                         "load": [round(min(load), 1), round(max(load), 1)]}
