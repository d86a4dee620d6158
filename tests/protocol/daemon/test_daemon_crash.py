# SPDX-License-Identifier: Apache-2.0
"""The daemon is killed at each numbered step of every operation, and the next daemon repairs the
state.
"""

import functools
import os
import pathlib
import subprocess

import pytest

from crash import MOVES, ProcessGuest, points_in
from crash_scenarios import SCENARIOS, discover, kill_at_each, maker
from cubbyd import Daemon, PROGRAM

FAULTS = pathlib.Path(os.environ["TEST"]) / "faults" / "cubbyd-process"
NEW_WORLD = maker(Daemon, ProcessGuest(), program=FAULTS)


@functools.lru_cache(None)
def passed(name):
    return discover(SCENARIOS[name], NEW_WORLD)


def test_only_the_test_build_has_fault_points():
    names = [n.encode() for n in points_in("sandbox-backend")]
    shipped = [pathlib.Path(os.environ["BIN"]) / "cubbyd", PROGRAM]
    for program in shipped:
        data = program.read_bytes()
        assert b"CUBBY_FAULT" not in data and not any(b"\0" + n + b"\0" in data for n in names)
    symbols = subprocess.run(["nm", FAULTS], capture_output=True, check=True).stdout
    assert b"fault_point" in symbols and b"CUBBY_FAULT" in FAULTS.read_bytes()


@pytest.mark.parametrize("name", SCENARIOS)
def test_killed_at_each_step(name):
    found = kill_at_each(SCENARIOS[name], NEW_WORLD, passed(name))
    wrong = {case: error for case, error in found.items() if error}
    for error in list(wrong.values())[:2]:
        print("\n".join(getattr(error, "__notes__", [])))
    assert not wrong, {f"{p}:{n}": str(e)[:300] for (p, n), e in wrong.items()}


def test_every_step_is_one_of_a_scenario():
    """Every fault point in the source is passed by one of the scenarios here, or by a move between two daemons
    (tests/protocol/fleet/test_fleet_drain.py)."""
    reached = set().union(*(passed(name) for name in SCENARIOS)) | set(MOVES)
    missed = {n: w for n, w in points_in("sandbox-backend/daemon").items() if n not in reached}
    assert not missed, f"no scenario gets to these: {missed}"
