# SPDX-License-Identifier: Apache-2.0
"""`make crash`: kill the daemon at every point of every operation, with real sandboxes.

Prints a table, and keeps it in docs/soak.md if all operations were run. TIER=gvisor: sandboxes of
that tier (default microvm). The tiers bubblewrap and none have only the operations that need no
pauses. ONLY=name,name: only these operations. AT_ONCE=n: worlds side by side
(default 2). FOREGROUND=1, for root on a busy host: the pool's machines do not give way to other
work, so the pool fills.
"""

import os
import sys
import textwrap
import time

from crash import points_in
from crash_scenarios import PLAIN, SCENARIOS, cases, discover, kill_at_each
from crash_tiers import worlds_of
from soak_doc import machine, put_section


TIER = os.environ.get("TIER") or "microvm"
NEW_WORLD = worlds_of(TIER)
SECTIONS = {"microvm": ("crash", "Killed at every step", "make crash"),
            "gvisor": ("crash-gvisor", "Killed at every step, under gVisor", "make crash TIER=gvisor"),
            "bubblewrap": ("crash-bubblewrap", "Killed at every step, under bubblewrap", "make crash TIER=bubblewrap"),
            "none": ("crash-none", "Killed at every step, in the tier none", "make crash TIER=none")}
FITTING = PLAIN if TIER in ("bubblewrap", "none") else tuple(SCENARIOS)


def try_all(scenario, at_once):
    """Try all points of an operation. Return its row, the points that it passed, and the problems found."""
    begin = time.monotonic()
    try:
        passed = discover(scenario, NEW_WORLD)
    except Exception as error:  # go on with the others
        return f"| {scenario.name} | - | - | 1 | - |", {}, {"its being done once": error}
    found = kill_at_each(scenario, NEW_WORLD, passed, at_once)
    wrong = {f"{p}:{n}": e for (p, n), e in found.items() if e}
    took = time.monotonic() - begin
    row = f"| {scenario.name} | {len(passed)} | {len(cases(passed))} | {len(wrong)} | {took:.0f} |"
    return row, passed, wrong


def main():
    at_once = int(os.environ.get("AT_ONCE", "2"))
    only = [n for n in os.environ.get("ONLY", "").split(",") if n] or list(FITTING)
    lines = ["| operation | fault points that it passes | daemons killed | failures | seconds |",
             "|---|---|---|---|---|"]
    print("\n".join(lines), flush=True)
    reached, kills, bad = set(), 0, {}
    for name in only:
        row, passed, wrong = try_all(SCENARIOS[name], at_once)
        print(row, flush=True)
        lines.append(row)
        reached |= set(passed)
        kills += len(cases(passed))
        bad.update({f"{name} at {case}": error for case, error in wrong.items()})
    for case, error in bad.items():
        print(f"{case}: {error}\n" + "\n".join(getattr(error, "__notes__", [])), file=sys.stderr)
    missed = sorted(set(points_in("sandbox-backend")) - reached)
    said = [f"The runs killed {kills} daemons at {len(reached)} fault points. Failures: "
            f"{', '.join(sorted(bad)) or 'none'}. Points that no operation here passes: {', '.join(missed) or 'none'}."]
    lines += ["", *(line for text in said for line in textwrap.wrap(text, 100, break_on_hyphens=False))]
    print("\n".join(said))
    if len(only) == len(FITTING):
        name, title, command = SECTIONS[TIER]
        put_section(name, title, command, [machine(TIER), "", *lines])
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
