# SPDX-License-Identifier: Apache-2.0
"""Measures tiers beside each other in one daemon, without a pool: create, first and further commands, Python.

    python3 tests/bench/tiers.py [TIER,...]     with the environment of the Makefile's tests

Prints the medians in milliseconds as a Markdown table. Rounds alternate between the tiers, so that a busy moment of the machine
meets all of them.
"""

import pathlib
import statistics
import sys
import time

sys.path += [str(p) for p in pathlib.Path(__file__).parents[1].glob("lib/*/")]

from cubbyd import Shipped  # noqa: E402
from nest_world import UNPACKED, unpack  # noqa: E402

ROUNDS = 9
STEPS = ["create", "first command", "command", "/usr/bin/python3 -c 1", "kill"]


class Unpacked(Shipped):
    """Its template is unpacked, as bubblewrap needs it. It starts machines ahead, as the daemon does by default."""

    def __init__(self, tiers):
        super().__init__("--tiers-allowed", ",".join(tiers), "--pool", "off", tier=tiers[0], env={"CUBBY_SPARES": "on"})

    def templates(self):
        unpack()
        (self.home / "templates").symlink_to(UNPACKED / "templates")


def timed(work):
    begun = time.perf_counter()
    result = work()
    return (time.perf_counter() - begun) * 1000, result


def check(result):
    assert result[0] == 0, result


def one_round(daemon, tier):
    """The time of each step."""
    create, made = timed(lambda: daemon.create(tier=tier))
    first, done = timed(lambda: daemon.command(made, "echo hi"))
    check(done)
    commands = []
    for _ in range(5):
        took, done = timed(lambda: daemon.command(made, "echo hi"))
        check(done)
        commands.append(took)
    python, done = timed(lambda: daemon.command(made, "/usr/bin/python3 -c 1"))
    check(done)
    kill, _ = timed(lambda: daemon.kill(made["sandboxID"]))
    return [create, first, statistics.median(commands), python, kill]


def main():
    tiers = (sys.argv[1] if len(sys.argv) > 1 else "gvisor,bubblewrap,none").split(",")
    found = {tier: [] for tier in tiers}
    with Unpacked(tiers) as daemon:
        for number in range(ROUNDS + 1):  # the first fills caches
            for tier in tiers:
                figures = one_round(daemon, tier)
                if number:
                    found[tier].append(figures)
    print("| ms, median of", ROUNDS, "|", " | ".join(tiers), "|")
    print("|---|" + "---|" * len(tiers))
    for step, name in enumerate(STEPS):
        print("|", name, "|", " | ".join(f"{statistics.median(r[step] for r in found[tier]):.0f}" for tier in tiers), "|")


if __name__ == "__main__":
    main()
