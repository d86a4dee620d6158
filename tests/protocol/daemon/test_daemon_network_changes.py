# SPDX-License-Identifier: Apache-2.0
"""A sandbox's network is changed a thousand times, and nothing is left behind in the daemon:
descriptors, memory, files. (In netd: test_netd_rules.py. In both, with a virtual machine:
test_guest_network.py.)
"""

import os

from cubbyd import wait_for
from cubbyd_fixtures import *  # noqa: F401,F403

NAMES = [f"n{i}.example.com:{i + 1}" for i in range(200)]
BODIES = [({"mode": "none"}, 204), ({"mode": "allow", "allow": NAMES, "deny": ["bad.example.org"]}, 204),
          ({"mode": "allow", "allow": NAMES + ["*.com"]}, 400), ({}, 204),
          ({"allowOut": ["1.1.1.1", "*.example.org"], "denyOut": ["0.0.0.0/0"], "limits": {"connections": 3}}, 204)]


def resident_kb(daemon):
    with open(f"/proc/{daemon.process.pid}/status", encoding="ascii") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("VmRSS"))


def files(daemon):
    """The sizes of all files except the logs and the record, which have limits of their own."""
    logs = {daemon.log, daemon.home / "events.jsonl", *daemon.home.glob("calls/*")}
    return {str(p.relative_to(daemon.home)): p.stat().st_size for p in daemon.home.rglob("*") if p not in logs}


def test_a_thousand_policies_leave_nothing_behind(daemon, sandbox):
    def rounds(count):
        for i in range(count):
            body, status = BODIES[i % len(BODIES)]
            assert daemon.request("PUT", f"/sandboxes/{sandbox}/network", body).status == status

    rounds(300)
    fds, memory, kept = daemon.fds(), resident_kb(daemon), files(daemon)
    rounds(1000)
    wait_for(lambda: daemon.fds() <= fds, 30, "the same descriptors")
    assert files(daemon) == kept
    told = daemon.request("GET", f"/sandboxes/{sandbox}/network").json
    assert told["policy"]["limits"] == {"connections": 3}, "the last one holds"
    if "asan" not in os.environ["BIN"]:  # which keeps what is freed for a while, and tells leaks at the end
        assert resident_kb(daemon) - memory < 1024, "kB"
