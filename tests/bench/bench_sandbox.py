# SPDX-License-Identifier: Apache-2.0
"""Measures sandboxes over MCP on stdio: creation, commands, transfers, and cubby-mcp's own start.
"""

import base64
import json
import os
import pathlib
import shutil
import socket
import statistics
import struct
import subprocess
import time

from bench_common import BASELINE, BIN, Mcp, bare_qemu, has_baseline, median_ms, peak_kb, spread_ms
from harness import Home
from receive import receive

MB = 1_000_000


class SandboxBench:
    FIGURES = ["start_up", "cold_create", "command_round_trip", "transfer"]

    def __init__(self, rounds, work):
        self.rounds = rounds
        self.work = pathlib.Path(work)
        self.state = Home()
        self.home = self.state.path
        self.env = self.state.env
        self.mcp = self.server()
        self.mcp.tool("create_sandbox")  # starts the daemon and fills the page cache

    def close(self):
        self.mcp.close()
        self.state.close()

    def server(self):
        mcp = Mcp([str(BIN / "cubby-mcp"), "--local-dir", str(self.work)], self.env, str(self.work))
        mcp.initialize()
        return mcp

    def kill(self, sandbox):
        status, _, body = self.state.request("DELETE", f"/sandboxes/{sandbox}")
        if status != 204:
            raise RuntimeError(f"kill: {status} {body!r}")

    # ---- the figures

    def cold_create(self):
        creates, firsts, wholes, bases, kills = [], [], [], [], []
        for _ in range(self.rounds):
            bases.append(bare_qemu(self.work))
            t0 = time.perf_counter()
            sandbox = self.mcp.tool("create_sandbox")["sandbox_id"]
            t1 = time.perf_counter()
            out = self.mcp.tool("run_command", sandbox_id=sandbox, command="echo hi")
            t2 = time.perf_counter()
            assert out["stdout"] == "hi\n", out
            self.kill(sandbox)
            t3 = time.perf_counter()
            assert not (self.home / "sandboxes" / sandbox).exists(), "kill left files"
            creates.append(t1 - t0)
            firsts.append(t2 - t1)
            wholes.append(t2 - t0)
            kills.append(t3 - t2)
        return {
            "create_to_first_output_ms": median_ms(wholes), "range_ms": spread_ms(wholes),
            "create_ms": median_ms(creates), "first_command_ms": median_ms(firsts),
            "baseline": "qemu-system-x86_64 -M microvm -S until QMP answers",
            "baseline_ms": median_ms(bases),
            "ratio": round(statistics.median(wholes) / statistics.median(bases), 2),
            "kill_ms": median_ms(kills), "kill_range_ms": spread_ms(kills), "n": self.rounds,
        }

    def direct_connection(self, sandbox):
        """A connection to envd that by-passes cubby-mcp and cubbyd."""
        s = socket.socket(socket.AF_UNIX)
        s.connect(str(self.home / "sandboxes" / sandbox / "vm.net"))
        s.sendall(b"CONNECT 49983\n")
        assert receive(s, 3) == b"OK\n"
        return s

    def direct_command(self, s, token, command):
        message = json.dumps({"process": {"cmd": "/bin/bash", "args": ["-l", "-c", command]},
                              "stdin": False}).encode()
        body = b"\0" + struct.pack(">I", len(message)) + message
        s.sendall((f"POST /process.Process/Start HTTP/1.1\r\nHost: envd\r\nX-Access-Token: {token}\r\n"
                   "Authorization: Basic dXNlcjo=\r\nContent-Type: application/connect+json\r\n"
                   f"Connect-Protocol-Version: 1\r\nContent-Length: {len(body)}\r\n\r\n").encode() + body)
        answer = b""
        while not answer.endswith(b"0\r\n\r\n"):
            chunk = s.recv(65536)
            if not chunk:
                raise RuntimeError(f"envd closed: {answer!r}")
            answer += chunk
        assert base64.b64encode(b"hi\n") in answer, answer

    def command_round_trip(self):
        sandbox = self.mcp.tool("create_sandbox")["sandbox_id"]
        _, _, detail = self.state.request("GET", f"/sandboxes/{sandbox}")
        token = json.loads(detail)["envdAccessToken"]
        direct = self.direct_connection(sandbox)
        over_mcp, over_envd, python = [], [], []
        for i in range(self.rounds * 3 + 3):
            t0 = time.perf_counter()
            self.mcp.tool("run_command", sandbox_id=sandbox, command="echo hi")
            t1 = time.perf_counter()
            self.direct_command(direct, token, "echo hi")
            t2 = time.perf_counter()
            if i >= 3:
                over_mcp.append(t1 - t0)
                over_envd.append(t2 - t1)
        for _ in range(self.rounds):
            t0 = time.perf_counter()
            self.mcp.tool("run_python_code", sandbox_id=sandbox, code_block="print(1)")
            python.append(time.perf_counter() - t0)
        direct.close()
        self.kill(sandbox)
        return {
            "run_command_ms": median_ms(over_mcp), "range_ms": spread_ms(over_mcp),
            "baseline": "the same command by a raw connection to envd", "baseline_ms": median_ms(over_envd),
            "overhead_ms": round(median_ms(over_mcp) - median_ms(over_envd), 2),
            "ratio": round(statistics.median(over_mcp) / statistics.median(over_envd), 2),
            "run_python_code_ms": median_ms(python), "n": len(over_mcp),
        }

    def start_once(self, command):
        t0 = time.perf_counter()
        mcp = Mcp(command, self.env)
        mcp.initialize()
        tools = mcp.request("tools/list", {})["tools"]
        t1 = time.perf_counter()
        rss = peak_kb(mcp.process.pid)
        t2 = time.perf_counter()
        mcp.close()
        assert tools
        return time.perf_counter() - t2 + t1 - t0, rss

    def start_up(self):
        command = [str(BIN / "cubby-mcp")]
        ours, sizes, theirs, their_sizes = [], [], [], []
        baseline = ["node", str(BASELINE / "server.mjs")]
        with_baseline = has_baseline()
        for _ in range(self.rounds):
            took, rss = self.start_once(command)
            ours.append(took)
            sizes.append(rss)
            if with_baseline:
                took, rss = self.start_once(baseline)
                theirs.append(took)
                their_sizes.append(rss)
        figures = {"start_list_exit_ms": median_ms(ours), "range_ms": spread_ms(ours),
                   "peak_resident_mb": round(max(sizes) / 1024, 1), "n": self.rounds}
        if theirs:
            figures |= {"baseline": "the smallest server of the TypeScript SDK",
                        "baseline_ms": median_ms(theirs),
                        "baseline_peak_resident_mb": round(max(their_sizes) / 1024, 1),
                        "ratio": round(statistics.median(ours) / statistics.median(theirs), 3)}
        return figures

    def transfer(self):
        size = 100 * MB
        big = self.work / "big.bin"
        with open(big, "wb") as f:
            for _ in range(100):
                f.write(os.urandom(MB))
        sandbox = self.mcp.tool("create_sandbox")["sandbox_id"]
        up, down, copies = [], [], []
        for i in range(3):
            t0 = time.perf_counter()
            self.mcp.tool("upload_file_from_local_to_sandbox", sandbox_id=sandbox,
                          local_file_path=str(big), sandbox_file_path="/home/user/")
            t1 = time.perf_counter()
            got = self.mcp.tool("download_file_from_sandbox_to_local", sandbox_id=sandbox,
                                sandbox_file_path="/home/user/big.bin", local_filename=f"back{i}.bin")
            t2 = time.perf_counter()
            shutil.copyfile(big, self.work / "copy.bin")
            t3 = time.perf_counter()
            up.append(t1 - t0)
            down.append(t2 - t1)
            copies.append(t3 - t2)
        back = self.work / got["path"]
        assert back.read_bytes() == big.read_bytes(), "the file came back changed"
        guest = self.mcp.tool("run_command", sandbox_id=sandbox, user="root", command=(
            "grep VmHWM /proc/$(pgrep -o envd)/status | tr -dc 0-9"))["stdout"]
        memory = {"cubby-mcp": peak_kb(self.mcp.process.pid), "envd": int(guest)}
        for program in ("cubbyd", "cubby-netd"):
            memory[program] = max(peak_kb(p) for p in self.state.processes(program))
        self.kill(sandbox)
        return {
            "upload_mb_s": round(size / MB / statistics.median(up), 1),
            "download_mb_s": round(size / MB / statistics.median(down), 1),
            "baseline": "a file copy on the host; a prototype in Python moved 33 MB/s",
            "baseline_mb_s": round(size / MB / statistics.median(copies), 1),
            "upload_to_prototype": round(size / MB / statistics.median(up) / 33, 2),
            "download_to_prototype": round(size / MB / statistics.median(down) / 33, 2),
            "peak_resident_mb": {k: round(v / 1024, 1) for k, v in memory.items()}, "n": 3,
        }
