# SPDX-License-Identifier: Apache-2.0
"""Measures the whole scenario of five bugs (tests/acceptance): with a warm pool and the Python
kernel, and with neither.
"""

import json
import pathlib
import shutil
import statistics
import sys
import time

from bench_common import BIN, Mcp
from harness import Home, wait_for

ACCEPTANCE = pathlib.Path(__file__).parent.parent / "acceptance"
sys.path.insert(0, str(ACCEPTANCE))
from scenario import BUGS, CASES, counts  # noqa: E402

POOL = 6
TURNS = 3


class ScenarioBench:
    FIGURES = ["scenario"]

    def __init__(self, _rounds, work):
        self.work = pathlib.Path(work)
        self.expected = json.loads((BUGS / "expected.json").read_text())
        shutil.copytree(BUGS, self.work, dirs_exist_ok=True)

    def close(self):
        pass

    def test_with_command(self, mcp, sandbox, there):
        return mcp.tool("run_command", sandbox_id=sandbox, timeout=120,
                        command=f"cd {there} && python3 -m pytest -q --junitxml=report.xml")["stdout"]

    def test_in_kernel(self, mcp, sandbox, there):
        return mcp.tool("run_python_code", sandbox_id=sandbox, restart=True, timeout=120, code_block=(
            f"import os, pytest\nos.chdir({there!r})\npytest.main(['-q', '--junitxml=report.xml'])"))["stdout"]

    def fix(self, mcp, name, run_tests):
        """Fixes one bug, from create to kill, as an agent does it."""
        expected, source, there = self.expected[name], self.work / name, f"/home/user/{name}"
        sandbox = mcp.tool("create_sandbox")["sandbox_id"]
        upload = [*sorted(source.glob("*.*"))]
        for file in upload:
            mcp.tool("upload_file_from_local_to_sandbox", sandbox_id=sandbox, local_file_path=str(file),
                     sandbox_file_path=there + "/")
        red = counts(run_tests(mcp, sandbox, there))
        mcp.tool("upload_file_from_local_to_sandbox", sandbox_id=sandbox,
                 local_file_path=str(source / "fixed" / expected["module"]), sandbox_file_path=there + "/")
        green = counts(run_tests(mcp, sandbox, there))
        mcp.tool("download_file_from_sandbox_to_local", sandbox_id=sandbox,
                 sandbox_file_path=f"{there}/report.xml", local_filename=f"{name}-report.xml")
        assert (red, green) == ((expected["red"], CASES - expected["red"]), (0, CASES)), (name, red, green)
        return sandbox

    def pool_is_full(self, home):
        return sum(1 for record in home.path.glob("sandboxes/*/sandbox.json")
                   if json.loads(record.read_text()).get("state") == "pooled") >= POOL

    def whole(self, pool, run_tests):
        """Seconds for all five bugs, with the daemon and its pool ready."""
        home = Home()
        home.env["CUBBY_POOL"] = str(POOL) if pool else "off"
        mcp = Mcp([str(BIN / "cubby-mcp"), "--local-dir", str(self.work)], home.env, str(self.work))
        try:
            mcp.initialize()
            first = mcp.tool("create_sandbox")["sandbox_id"]
            home.request("DELETE", f"/sandboxes/{first}")
            if pool:
                wait_for(lambda: self.pool_is_full(home), 120, "the pool is full")
            start = time.perf_counter()
            for name in self.expected:
                sandbox = self.fix(mcp, name, run_tests)
                home.request("DELETE", f"/sandboxes/{sandbox}")
            return time.perf_counter() - start
        finally:
            mcp.close()
            home.close()

    def scenario(self):
        """Each configuration with its own daemon, in turns."""
        warm, cold = [], []
        for _ in range(TURNS):
            cold.append(self.whole(False, self.test_with_command))
            warm.append(self.whole(True, self.test_in_kernel))
        return {"warm_s": round(statistics.median(warm), 2), "warm_range_s": [round(min(warm), 2), round(max(warm), 2)],
                "baseline": "no pool, tests by python3 -m pytest", "baseline_s": round(statistics.median(cold), 2),
                "baseline_range_s": [round(min(cold), 2), round(max(cold), 2)],
                "ratio": round(statistics.median(warm) / statistics.median(cold), 3), "n": TURNS}
