# SPDX-License-Identifier: Apache-2.0
"""The daemon killed in the middle of operations on real machines: one point of each operation.

Every point of every operation is tried with machines that are processes
(tests/protocol/test_daemon_crash.py), and with real ones by `make crash`.
"""

import pytest

from crash import points_in
from crash_microvm import NEW_WORLD
from crash_scenarios import SCENARIOS, kill_at

CASES = [("create", "create.3"), ("hibernate", "hibernate.4"), ("wake-hibernated", "wake.5"),
         ("snapshot", "save.4"), ("fork", "fork.5"), ("rollback", "wake.4"), ("delete", "delete.2")]


@pytest.mark.parametrize("name,point", CASES)
def test_killed_in_the_middle(name, point):
    assert point in points_in("sandbox-backend"), f"{point} is no fault point any more: take another"
    kill_at(SCENARIOS[name], NEW_WORLD, point, 1)
