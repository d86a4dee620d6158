# SPDX-License-Identifier: Apache-2.0
"""The daemon is killed in the middle of operations on real sandboxes: one point of each operation.

Every point of every operation is tried with machines that are processes
(tests/protocol/daemon/test_daemon_crash.py), and with real ones by `make crash`.
"""

import pytest

from crash import points_in
from crash_scenarios import SCENARIOS, kill_at
from crash_tiers import worlds_of
from tiers import SHARED, tier  # noqa: F401

CASES = [("create", "create.1"), ("hibernate", "hibernate.4"), ("wake-hibernated", "wake.2"),
         ("snapshot", "save.5"), ("fork", "fork.5"), ("rollback", "wake.2"), ("delete", "delete.2")]


@pytest.mark.parametrize("name,point", CASES)
def test_killed_in_the_middle(name, point, tier):  # noqa: F811
    assert point in points_in("sandbox-backend"), f"{point} is no fault point any more: take another"
    kill_at(SCENARIOS[name], worlds_of(tier), point, 1)


@pytest.mark.parametrize("name,point", [("create", "bringup.1"), ("delete", "delete.2"), ("adopt-running", "adopt.1")])
@pytest.mark.parametrize("shared", SHARED)
def test_killed_in_the_middle_with_the_hosts_kernel(name, point, shared):
    """The operations that need no pauses, in the tiers that have none."""
    assert point in points_in("sandbox-backend"), f"{point} is no fault point any more: take another"
    kill_at(SCENARIOS[name], worlds_of(shared), point, 1)
