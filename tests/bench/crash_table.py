# SPDX-License-Identifier: Apache-2.0
"""`make crash`: every point of every operation, passed with real machines, and the daemon killed at
it. Prints a table, and keeps it in docs/soak.md.

ONLY=name,name: these operations. AT_ONCE=n: worlds side by side (2).
"""

import os
import sys
import time

from crash import points_in
from crash_microvm import NEW_WORLD
from crash_scenarios import SCENARIOS, cases, discover, kill_at_each
from soak_doc import machine, put_section


def try_all(scenario, at_once):
    """Its row, the points it passed, and what was wrong."""
    begin = time.monotonic()
    try:
        passed = discover(scenario, NEW_WORLD)
    except Exception as error:  # the others are tried all the same
        return f"| {scenario.name} | - | - | 1 | - |", {}, {"its being done once": error}
    found = kill_at_each(scenario, NEW_WORLD, passed, at_once)
    wrong = {f"{p}:{n}": e for (p, n), e in found.items() if e}
    took = time.monotonic() - begin
    row = f"| {scenario.name} | {len(passed)} | {len(cases(passed))} | {len(wrong)} | {took:.0f} |"
    return row, passed, wrong


def main():
    at_once = int(os.environ.get("AT_ONCE", "2"))
    only = [n for n in os.environ.get("ONLY", "").split(",") if n] or list(SCENARIOS)
    lines = ["| operation | points it passes | daemons killed | not made whole | seconds |",
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
    lines += ["", f"{kills} daemons killed at {len(reached)} points; {len(bad)} left something that the "
              "next one did not make whole" + (": " + ", ".join(sorted(bad)) if bad else "") + ".",
              f"Points that no operation here passes: {', '.join(missed) or 'none'}."]
    print("\n".join(lines[-2:]))
    if len(only) == len(SCENARIOS):
        put_section("crash", "Killed at every step", "make crash", [machine(), "", *lines])
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
