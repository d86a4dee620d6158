# SPDX-License-Identifier: Apache-2.0
"""Measures forks and snapshots: how long the parent stands still, and when each child can be used.
"""

import os
import re
import statistics
import time

from bench_common import BIN, Mcp, median_ms, spread_ms
from harness import Home

CHILDREN = 8
OWN_MB = 20  # that the parent has written in memory


class ForkBench:
    FIGURES = ["fork", "snapshot"]

    def __init__(self, rounds, work):
        self.rounds = min(rounds, 5)
        self.state = Home()
        self.state.env |= {"CUBBY_POOL": "off"}
        self.mcp = Mcp([str(BIN / "cubby-mcp"), "--local-dir", str(work)], self.state.env, str(work))
        self.mcp.initialize()
        self.parent = self.mcp.tool("create_sandbox")["sandbox_id"]  # starts the daemon
        self.fill()

    def close(self):
        self.mcp.close()
        self.state.close()

    def fill(self):
        self.mcp.tool("run_command", sandbox_id=self.parent,
                      command=f"head -c {OWN_MB << 20} /dev/urandom >/dev/shm/own")

    def logs(self, sandbox):
        return [line["message"] for line in self.state.api("GET", f"/v2/sandboxes/{sandbox}/logs?direction=forward")["logs"]]

    def number(self, sandbox, pattern):
        """The number in the newest line of the log that matches."""
        return [float(m.group(1)) for line in self.logs(sandbox) if (m := re.search(pattern, line))][-1]

    def command(self, sandbox):
        start = time.perf_counter()
        out = self.mcp.tool("run_command", sandbox_id=sandbox, command="echo hi")
        assert out["stdout"] == "hi\n", out
        return time.perf_counter() - start

    def cold(self):
        """(seconds of a create, seconds of its first command), without a pool."""
        start = time.perf_counter()
        sandbox = self.state.api("POST", "/v2/sandboxes", {"templateID": "default"})["sandboxID"]
        took = time.perf_counter() - start
        first = self.command(sandbox)
        self.state.api("DELETE", f"/sandboxes/{sandbox}")
        return took, first

    # ---- the figures
    def fork(self):
        wholes, still, creations, firsts, colds, cold_firsts, mb = [], [], [], [], [], [], []
        for _ in range(self.rounds):
            took, first = self.cold()
            colds.append(took)
            cold_firsts.append(first)
            start = time.perf_counter()
            results = self.state.api("POST", f"/sandboxes/{self.parent}/fork", {"count": CHILDREN, "timeout": 300})
            wholes.append(time.perf_counter() - start)
            children = [result["sandbox"]["sandboxID"] for result in results]
            still.append(self.number(self.parent, r"forked .* stood still for ([0-9.]+) ms"))
            mb.append(self.number(self.parent, r"forked .*: ([0-9.]+) MB"))
            for child in children:
                creations.append(self.number(child, r"created from .*in ([0-9]+) ms"))
                firsts.append(self.command(child))
                self.state.api("DELETE", f"/sandboxes/{child}")
        return {
            "children": CHILDREN, "own_memory_mb": OWN_MB, "image_mb": round(statistics.median(mb), 1),
            "parent_standstill_ms": round(statistics.median(still), 2), "parent_standstill_spread_ms": [min(still), max(still)],
            "whole_ms": median_ms(wholes), "whole_spread_ms": spread_ms(wholes),
            "whole_per_child_ms": round(median_ms(wholes) / CHILDREN, 2),
            "each_child_ms": round(statistics.median(creations), 2), "each_child_spread_ms": [min(creations), max(creations)],
            "first_command_of_a_child_ms": median_ms(firsts),
            "baseline": "a create without a pool, and its first command",
            "baseline_ms": median_ms(colds), "baseline_first_command_ms": median_ms(cold_firsts),
            "cpus": os.cpu_count(), "n": self.rounds,
        }

    def snapshot(self):
        takes, still, creates, firsts, mb = [], [], [], [], []
        for _ in range(self.rounds):
            start = time.perf_counter()
            made = self.state.api("POST", f"/sandboxes/{self.parent}/snapshots", {})
            takes.append(time.perf_counter() - start)
            mb.append(made["bytes"] / (1 << 20))
            still.append(self.number(self.parent, r"snapshot .* stood still for ([0-9.]+) ms"))
            start = time.perf_counter()
            child = self.state.api("POST", "/v2/sandboxes", {"templateID": made["snapshotID"]})["sandboxID"]
            creates.append(time.perf_counter() - start)
            firsts.append(self.command(child))
            self.state.api("DELETE", f"/sandboxes/{child}")
            self.state.api("DELETE", f"/templates/{made['snapshotID']}")
        return {
            "own_memory_mb": OWN_MB, "snapshot_mb": round(statistics.median(mb), 1),
            "snapshot_ms": median_ms(takes), "snapshot_spread_ms": spread_ms(takes),
            "standstill_ms": round(statistics.median(still), 2),
            "create_from_it_ms": median_ms(creates), "first_command_ms": median_ms(firsts), "n": self.rounds,
        }
