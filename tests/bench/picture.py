# SPDX-License-Identifier: Apache-2.0
"""Draws the figures of a `make bench` (its JSON on stdin or in a file) as an SVG for docs/performance.md.

    python3 tests/bench/picture.py build/bench.json docs/performance.svg
"""

import json
import sys

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt  # noqa: E402

OURS, THEIRS = "#2563a8", "#9aa0a6"
# (label, figure, member, whether it is ours)
ROWS = [
    ("create from the pool, over MCP", "pool_create", "create_ms", True),
    ("pause (freeze)", "pause_freeze", "pause_ms", True),
    ("resume from frozen", "pause_freeze", "resume_ms", True),
    ("fork: the parent stands still", "fork", "parent_standstill_ms", True),
    ("bubblewrap: echo hi", "elsewhere", "bubblewrap_ms", False),
    ("python3 subprocess: echo hi", "elsewhere", "python_subprocess_ms", False),
    ("bare QEMU start", "cold_create", "baseline_ms", False),
    ("a warm sandbox's command", "command_round_trip", "run_command_ms", True),
    ("create from the pool to first output", "pool_first_output", "first_output_ms", True),
    ("hibernate, 20 MB of its own", "pause_hibernate", "hibernate_ms", True),
    ("gVisor (runsc do): echo hi", "elsewhere", "gvisor_ms", False),
    ("fork into 8, per child", "fork", "whole_per_child_ms", True),
    ("wake from disk to first output", "pause_hibernate", "wake_to_first_output_ms", True),
    ("cold create to first output", "cold_create", "create_to_first_output_ms", True),
]


def main():
    source = open(sys.argv[1], encoding="utf-8") if sys.argv[1] != "-" else sys.stdin
    with source:
        figures = json.load(source)
    rows = [(label, figures[figure][member], ours) for label, figure, member, ours in ROWS
            if member in figures.get(figure, {})]
    rows.sort(key=lambda row: row[1], reverse=True)
    plt.rcParams["svg.hashsalt"] = "cubby"  # the same figures make the same file
    fig, ax = plt.subplots(figsize=(8.5, 0.38 * len(rows) + 1))
    bars = ax.barh([row[0] for row in rows], [row[1] for row in rows],
                   color=[OURS if row[2] else THEIRS for row in rows])
    ax.bar_label(bars, [f"{row[1]:g} ms" for row in rows], padding=4, fontsize=8)
    ax.set_xscale("log")
    ax.set_xlim(right=max(row[1] for row in rows) * 4)
    ax.set_xlabel("milliseconds, median, logarithmic; TCG (no hardware virtualisation); grey: other programs, same run")
    ax.xaxis.label.set_size(8)
    ax.tick_params(labelsize=8)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    fig.tight_layout()
    fig.savefig(sys.argv[2], metadata={"Date": None})


if __name__ == "__main__":
    main()
