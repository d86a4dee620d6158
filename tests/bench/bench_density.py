# SPDX-License-Identifier: Apache-2.0
"""Measures how many sandboxes fit on one machine, and what an idle one costs."""

import concurrent.futures
import os
import pathlib
import statistics
import time

from bench_common import BIN, Mcp, median_ms, spread_ms
from harness import Home, wait_for

FROZEN = int(os.environ.get("CUBBY_BENCH_FROZEN", "250"))
RUNNING = int(os.environ.get("CUBBY_BENCH_RUNNING", "40"))
POOLED = 4


def available_mb():
    for line in pathlib.Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) // 1024
    raise RuntimeError("no MemAvailable")


def private_mb(pid):
    """Memory that would be free without this process: its pages that no other process shares."""
    kb = sum(int(line.split()[1]) for line in pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
             if line.startswith(("Private_Clean:", "Private_Dirty:")))
    return kb / 1024


def guest_own_mb(pid):
    """Pages of the guest's memory that only this sandbox has: those written since the template."""
    inside = kb = 0
    for line in pathlib.Path(f"/proc/{pid}/smaps").read_text().splitlines():
        words = line.split()
        if "-" in words[0] and not words[0].endswith(":"):
            inside = "/memory" in line
        elif inside and words[0] == "Private_Dirty:":
            kb += int(words[1])
    return kb / 1024


def pss_mb(pid, mapping):
    """(PSS of everything, PSS of the guest's template): each shared page is divided among the
    processes that share it."""
    whole = part = 0
    inside = False
    for line in pathlib.Path(f"/proc/{pid}/smaps").read_text().splitlines():
        words = line.split()
        if "-" in words[0] and not words[0].endswith(":"):
            inside = mapping in line
        elif words[0] == "Pss:":
            whole += int(words[1])
            part += int(words[1]) if inside else 0
    return whole / 1024, part / 1024


class DensityBench:
    FIGURES = ["idle_memory", "alive_at_once"]

    def __init__(self, rounds, work):
        self.rounds = rounds
        self.work = str(work)
        self.state = Home()
        self.state.env["CUBBY_POOL"] = "off"
        self.mcp = self.server()

    def close(self):
        self.mcp.close()
        self.state.close()

    def server(self):
        mcp = Mcp([str(BIN / "cubby-mcp"), "--local-dir", self.work], self.state.env, self.work)
        mcp.initialize()
        return mcp

    def again(self, pool):
        """A daemon with a pool of that size; the first tool call starts it."""
        self.mcp.close()
        self.state.stop_daemon()
        self.state.env["CUBBY_POOL"] = pool
        self.mcp = self.server()

    def create(self):
        return self.state.api("POST", "/sandboxes", {"templateID": "default", "timeout": 86400})["sandboxID"]

    def answer(self, sandbox):
        start = time.perf_counter()
        out = self.mcp.tool("run_command", sandbox_id=sandbox, command="echo hi")
        assert out["stdout"] == "hi\n", out
        return time.perf_counter() - start

    def sizes(self):
        """Means, in MB, over the machines that run: QEMU without the template's pages, and netd."""
        qemu, netd = (list(self.state.processes(name)) for name in ("qemu", "cubby-netd"))
        memory = [pss_mb(pid, "/memory") for pid in qemu]
        return {"qemu_pss_mb": round(statistics.mean(whole - part for whole, part in memory), 1),
                "guest_own_mb": round(statistics.mean(guest_own_mb(pid) for pid in qemu), 1),
                "netd_private_mb": round(statistics.mean(private_mb(pid) for pid in netd), 1), "n": len(qemu)}

    def idle_memory(self):
        """Memory of warmed sandboxes in the pool, and of sandboxes that have run a command and
        Python and then wait: the proportional set size without the mapping of the template's
        memory. Own pages in that mapping are counted apart."""
        self.again(str(POOLED))
        made = [self.mcp.tool("create_sandbox")["sandbox_id"]]  # starts the daemon
        self.state.api("DELETE", f"/sandboxes/{made.pop()}")
        wait_for(lambda: self.state.api("GET", "/pool")["templates"][0]["ready"] == POOLED, 120, "the pool is full")
        pooled = self.sizes()
        self.again("off")
        for _ in range(POOLED):
            made.append(self.mcp.tool("create_sandbox")["sandbox_id"])
            self.answer(made[-1])
            self.mcp.tool("run_python_code", sandbox_id=made[-1], code_block="1+1")
        used = self.sizes()
        for sandbox in made:
            self.state.api("DELETE", f"/sandboxes/{sandbox}")
        return {"pooled": pooled, "used": used}

    def alive_at_once(self):
        """How many frozen and how many running sandboxes one daemon has at once; a command then
        wakes each frozen one."""
        before, start = available_mb(), time.perf_counter()
        if not self.state.daemon():
            first = self.mcp.tool("create_sandbox")["sandbox_id"]
            self.state.api("DELETE", f"/sandboxes/{first}")
        frozen, running = [], []
        for _ in range(FROZEN):
            sandbox = self.create()
            self.answer(sandbox)
            self.state.api("POST", f"/sandboxes/{sandbox}/pause", {})
            frozen.append(sandbox)
        for _ in range(RUNNING):
            running.append(self.create())
            self.answer(running[-1])
        made = time.perf_counter() - start
        after = available_mb()
        answers = [self.answer(sandbox) for sandbox in running]
        wakes = []
        for sandbox in frozen:
            t0 = time.perf_counter()
            self.state.api("POST", f"/sandboxes/{sandbox}/resume", {"timeout": 3600})
            self.answer(sandbox)
            wakes.append(time.perf_counter() - t0)
            self.state.api("POST", f"/sandboxes/{sandbox}/pause", {})
        with concurrent.futures.ThreadPoolExecutor(4) as several:
            list(several.map(lambda sandbox: self.state.api("DELETE", f"/sandboxes/{sandbox}"), frozen + running))
        wait_for(lambda: not self.state.sandboxes(), 60, "all are gone")
        return {"frozen": len(frozen), "running": len(running), "made_in_s": round(made, 1),
                "memory_taken_mb": before - after, "memory_each_mb": round((before - after) / len(frozen + running), 1),
                "running_command_ms": median_ms(answers), "running_range_ms": spread_ms(answers),
                "frozen_wake_and_command_ms": median_ms(wakes), "frozen_range_ms": spread_ms(wakes)}
