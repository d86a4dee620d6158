# SPDX-License-Identifier: Apache-2.0
"""Measures the pool: a create over MCP, the first calls after it, and more creates at once than
sandboxes are ready.
"""

import concurrent.futures
import json
import statistics
import time

from bench_common import BIN, Mcp, median_ms, spread_ms
from harness import Home, wait_for

POOL = 8
BURST = 50


def p99_ms(seconds):
    """The 99th percentile; of less than 100 values the largest."""
    ordered = sorted(seconds)
    return round(ordered[max(0, -(-99 * len(ordered) // 100) - 1)] * 1000, 2)


class PoolBench:
    FIGURES = ["pool_create", "pool_first_output", "pool_burst"]

    def __init__(self, rounds, work):
        self.rounds = rounds
        self.state = Home()
        self.state.env |= {"CUBBY_POOL": str(POOL), "CUBBY_MAX_SANDBOXES": str(BURST + 10)}
        self.mcp = Mcp([str(BIN / "cubby-mcp"), "--local-dir", work], self.state.env, work)
        self.mcp.initialize()
        self.warm = self.mcp.tool("create_sandbox")["sandbox_id"]
        self.command(self.warm)

    def close(self):
        self.mcp.close()
        self.state.close()

    # ---- tools
    def shelf(self):
        status, _, body = self.state.request("GET", "/pool")
        assert status == 200, body
        return json.loads(body)["templates"][0]

    def fill(self):
        def is_full():
            shelf = self.shelf()
            return shelf["ready"] == POOL and not shelf["making"]
        wait_for(is_full, 300, "the pool is full")

    def kill(self, sandbox):
        status, _, body = self.state.request("DELETE", f"/sandboxes/{sandbox}")
        assert status == 204, body

    def command(self, sandbox):
        """Seconds of a shell command's round trip."""
        start = time.perf_counter()
        out = self.mcp.tool("run_command", sandbox_id=sandbox, command="echo hi")
        assert out["stdout"] == "hi\n", out
        return time.perf_counter() - start

    def timed(self, function):
        start = time.perf_counter()
        value = function()
        return time.perf_counter() - start, value

    def many(self, each):
        """Calls each() once per round, with a full pool: nothing is created meanwhile."""
        for _ in range(self.rounds):
            self.fill()
            each()

    # ---- the figures
    def pool_create(self):
        pings, creates = [], []

        def each():
            pings.append(self.timed(lambda: self.mcp.request("ping", {}))[0])
            took, made = self.timed(lambda: self.mcp.tool("create_sandbox"))
            creates.append(took)
            self.kill(made["sandbox_id"])

        before = self.shelf()
        self.many(each)
        after = self.shelf()
        return {"create_ms": median_ms(creates), "p99_ms": p99_ms(creates), "range_ms": spread_ms(creates),
                "from_the_pool": after["handedOut"] - before["handedOut"],
                "baseline": "ping over the same pipe", "baseline_ms": median_ms(pings),
                "baseline_p99_ms": p99_ms(pings), "n": self.rounds}

    def pool_first_output(self):
        """The first command's output, beside the same command in a sandbox that has run many."""
        wholes, firsts, seconds, pythons, warm_pythons, bases = [], [], [], [], [], []

        def python(sandbox):
            return self.timed(lambda: self.mcp.tool("run_python_code", sandbox_id=sandbox, code_block="1+1"))[0]

        def each():
            bases.append(self.command(self.warm))
            took, made = self.timed(lambda: self.mcp.tool("create_sandbox"))
            first = self.command(made["sandbox_id"])
            wholes.append(took + first)
            firsts.append(first)
            seconds.append(self.command(made["sandbox_id"]))
            pythons.append(python(made["sandbox_id"]))
            warm_pythons.append(python(made["sandbox_id"]))
            self.kill(made["sandbox_id"])

        self.many(each)
        return {"first_output_ms": median_ms(wholes), "range_ms": spread_ms(wholes),
                "first_command_ms": median_ms(firsts), "second_command_ms": median_ms(seconds),
                "first_python_ms": median_ms(pythons), "second_python_ms": median_ms(warm_pythons),
                "baseline": "the same command in a warm sandbox", "baseline_ms": median_ms(bases),
                "n": self.rounds}

    def pool_burst(self):
        """Several clients at once, each with its own create, directly at the daemon's socket."""
        self.fill()

        def create(_):
            start = time.perf_counter()
            status, _, body = self.state.request("POST", "/v2/sandboxes", {"templateID": "default"})
            return time.perf_counter() - start, status, json.loads(body)

        with concurrent.futures.ThreadPoolExecutor(BURST) as clients:
            whole, answers = self.timed(lambda: list(clients.map(create, range(BURST))))
        made = [body["sandboxID"] for _, status, body in answers if status == 201]
        took = [seconds for seconds, status, _ in answers if status == 201]
        for sandbox in made:
            self.kill(sandbox)
        return {"mean_ms": round(statistics.mean(took) * 1000, 2), "median_ms": median_ms(took),
                "p99_ms": p99_ms(took), "range_ms": spread_ms(took), "all_ms": round(whole * 1000),
                "failures": BURST - len(made), "different": len(set(made)), "pool": POOL, "n": BURST}
