# SPDX-License-Identifier: Apache-2.0
"""Measures what docs/benchmarks.md reports, and prints it as JSON.

Machines are shared and noisy, so each figure is a median that stands beside a baseline measured in
the same run, turn by turn. Nothing here passes or fails.

    BIN=build/bin CUBBY_TEST_HOME=build/test-home python tests/bench/bench.py [--rounds N] [--only NAME]
"""

import argparse
import base64
import json
import os
import pathlib
import shutil
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time

from harness import Home

BIN = pathlib.Path(os.environ["BIN"])
TEST_HOME = pathlib.Path(os.environ["CUBBY_TEST_HOME"])
BASELINE = pathlib.Path(__file__).parent / "baseline"
MB = 1_000_000


def median_ms(seconds):
    return round(statistics.median(seconds) * 1000, 2)


def spread_ms(seconds):
    ordered = sorted(seconds)
    return [round(ordered[0] * 1000, 2), round(ordered[-1] * 1000, 2)]


def peak_kb(pid):
    """Peak resident size of a process."""
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1])
    raise RuntimeError(f"no VmHWM of {pid}")


class Mcp:
    """A server process and its pipe; just enough of a client not to be measured itself."""

    def __init__(self, command, env=None, cwd=None):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, env=env, cwd=cwd)
        self.next_id = 0

    def send(self, message):
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    def request(self, method, params):
        self.next_id += 1
        self.send({"jsonrpc": "2.0", "id": self.next_id, "method": method, "params": params})
        while True:
            line = self.process.stdout.readline()
            if not line:
                raise RuntimeError(f"{method}: the server ended")
            answer = json.loads(line)
            if answer.get("id") == self.next_id:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]

    def initialize(self):
        self.request("initialize", {"protocolVersion": "2025-11-25", "capabilities": {},
                                    "clientInfo": {"name": "bench", "version": "1"}})
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def tool(self, name, **arguments):
        result = self.request("tools/call", {"name": name, "arguments": arguments})
        if result.get("isError"):
            raise RuntimeError(f"{name}: {result['content'][-1]['text']}")
        return result["structuredContent"]

    def close(self):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


class Bench:
    def __init__(self, rounds, work):
        self.rounds = rounds
        self.work = pathlib.Path(work)
        self.state = Home()
        self.home = self.state.path
        self.env = self.state.env
        self.mcp = None

    def server(self):
        mcp = Mcp([str(BIN / "cubby-mcp"), "--local-dir", str(self.work)], self.env, str(self.work))
        mcp.initialize()
        return mcp

    def kill(self, sandbox):
        status, _, body = self.state.request("DELETE", f"/sandboxes/{sandbox}")
        if status != 204:
            raise RuntimeError(f"kill: {status} {body!r}")

    # ---- the figures

    def bare_qemu(self):
        """`qemu-system-x86_64 -M microvm -S` from its start until QMP answers, in seconds."""
        path = str(self.work / "bare.qmp")
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(path)
            listener.listen(1)
            start = time.perf_counter()
            process = subprocess.Popen(
                ["qemu-system-x86_64", "-M", "microvm", "-S", "-nodefaults", "-display", "none",
                 "-qmp", f"unix:{path}"], stderr=subprocess.DEVNULL)
            peer, _ = listener.accept()
            greeting = peer.recv(4096)
            took = time.perf_counter() - start
            assert b"QMP" in greeting
            peer.close()
        process.kill()
        process.wait()
        os.unlink(path)
        return took

    def cold_create(self):
        creates, firsts, wholes, bases, kills = [], [], [], [], []
        for _ in range(self.rounds):
            bases.append(self.bare_qemu())
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
        assert s.recv(3) == b"OK\n"
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
        if not (BASELINE / "node_modules").exists():
            subprocess.run(["npm", "install", "--silent", "--no-package-lock"], cwd=BASELINE, check=False)
        baseline = ["node", str(BASELINE / "server.mjs")]
        has_baseline = (BASELINE / "node_modules").exists()
        for _ in range(self.rounds):
            took, rss = self.start_once(command)
            ours.append(took)
            sizes.append(rss)
            if has_baseline:
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


FIGURES = ["start_up", "cold_create", "command_round_trip", "transfer"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--only", choices=FIGURES, action="append")
    options = parser.parse_args()
    result = {"command": "make bench", "machine": {
        "cpus": os.cpu_count(), "load": os.getloadavg()[0],
        "template": json.loads((TEST_HOME / "templates/default/template.json").read_text())}}
    with tempfile.TemporaryDirectory(prefix="cubby-bench-") as work:
        bench = Bench(options.rounds, work)
        bench.mcp = bench.server()
        bench.mcp.tool("create_sandbox")  # starts the daemon and fills the page cache
        try:
            for name in options.only or FIGURES:
                result[name] = getattr(bench, name)()
        finally:
            bench.mcp.close()
            bench.state.close()
    json.dump(result, sys.stdout, indent=2)
    print()


if __name__ == "__main__":
    main()
