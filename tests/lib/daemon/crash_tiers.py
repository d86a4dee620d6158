# SPDX-License-Identifier: Apache-2.0
"""Worlds of crash.py whose sandboxes are real ones of a tier."""

import os
import pathlib

from crash import RealGuest
from crash_scenarios import maker
from cubbyd import Shipped
from nest_world import Nested

PROGRAM = pathlib.Path(os.environ["TEST"]) / "faults" / "cubbyd-process"
# Without control groups, and without the right to raise a priority again, the daemon does not put the machines
# of its pool into the background. So the pool fills on a busy host, too.
FOREGROUND = ["unshare", "--mount", "sh", "-c",
              'mount -t tmpfs none /sys/fs/cgroup && exec setpriv --bounding-set=-sys_nice "$@"', "foreground"]


class FaultyDaemon(Shipped):
    """The shipped daemon, built with fault points."""

    def __init__(self, *args, tier, env=None):
        # Spares come and go by themselves, and have descriptors: test_gvisor_spares.py kills their daemon.
        super().__init__(*args, "--spares", "off", tier=tier, env=env)
        self.program = PROGRAM
        self.wrap = FOREGROUND if os.environ.get("FOREGROUND") else []


class FaultyNested(Nested):
    """The same, for tiers that share the host's kernel."""

    def __init__(self, *args, tier, env=None):
        super().__init__(tier, *args, env=env)
        self.program = PROGRAM


def worlds_of(tier):
    """Returns a function that makes a world for a scenario."""
    return maker(FaultyNested if tier in ("bubblewrap", "none") else FaultyDaemon, RealGuest(), tier=tier)
