# SPDX-License-Identifier: Apache-2.0
"""Measures the Python kernel beside fresh interpreters, and many commands that stream at once."""

import base64
import json
import socket
import statistics
import struct
import subprocess
import threading
import time

from bench_common import median_ms, peak_kb, spread_ms
from bench_sandbox import SandboxBench

DESCRIBE = """import pandas as pd
df = pd.DataFrame({"a": range(1000), "b": [i * i % 97 for i in range(1000)]})
df.describe()"""
PLOT = """import matplotlib.pyplot as plt
plt.plot([i * i for i in range(100)])
plt.title("squares")
"""
HOST_PYTHON = "/usr/bin/python3"  # itself: what PATH has may be a script that looks for one
SECONDS = 10
STREAMS = 32
COUNT = (f"end=$((SECONDS+{SECONDS})); i=0\n"
         "while [ $SECONDS -lt $end ]; do echo $i; i=$((i+1)); done; echo last $i")


class Frames:
    """The events of one Start, read from cubbyd's socket as they come."""

    def __init__(self, state, sandbox, token, command):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(str(state.path / "cubbyd.sock"))
        message = json.dumps({"process": {"cmd": "/bin/bash", "args": ["-c", command]},
                              "stdin": False}).encode()
        body = b"\0" + struct.pack(">I", len(message)) + message
        self.socket.sendall((
            f"POST /process.Process/Start HTTP/1.1\r\nHost: envd\r\nE2b-Sandbox-Id: {sandbox}\r\n"
            f"E2b-Sandbox-Port: 49983\r\nX-Access-Token: {token}\r\nConnect-Protocol-Version: 1\r\n"
            "Content-Type: application/connect+json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n").encode() + body)
        self.stream = self.socket.makefile("rb")
        assert b" 200 " in self.stream.readline()
        while self.stream.readline() != b"\r\n":
            pass

    def chunks(self):
        while size := int(self.stream.readline(), 16):
            yield self.stream.read(size)
            self.stream.readline()

    def events(self):
        held = b""
        for chunk in self.chunks():
            held += chunk
            while len(held) >= 5 and len(held) >= (size := 5 + struct.unpack(">I", held[1:5])[0]):
                yield held[0], json.loads(held[5:size])
                held = held[size:]

    def stdout(self):
        data = []
        for flags, message in self.events():
            if flags & 2:
                assert "error" not in message, message
            data.append(base64.b64decode(
                message.get("event", {}).get("data", {}).get("stdout", "")))
        self.socket.close()
        return b"".join(data)


class KernelBench(SandboxBench):
    FIGURES = ["python_kernel", "python_pandas", "python_plot", "streams"]

    def python(self, sandbox, code):
        t0 = time.perf_counter()
        result = self.mcp.tool("run_python_code", sandbox_id=sandbox, code_block=code)
        took = time.perf_counter() - t0
        assert not result.get("error"), result
        return took, result

    def fresh(self, sandbox, code):
        """The same code in a new interpreter in the same guest, over the same pipe."""
        t0 = time.perf_counter()
        result = self.mcp.tool("run_command", sandbox_id=sandbox, command=f"python3 - <<'END'\n{code}\nEND")
        took = time.perf_counter() - t0
        assert result["exit_code"] == 0, result
        return took

    def python_kernel(self):
        sandbox = self.mcp.tool("create_sandbox")["sandbox_id"]
        ours, host = [], []
        for i in range(self.rounds * 3 + 3):
            took, result = self.python(sandbox, "1+1")
            assert result["result"] == "2", result
            t0 = time.perf_counter()
            subprocess.run([HOST_PYTHON, "-c", "1+1"], check=True)
            if i >= 3:
                ours.append(took)
                host.append(time.perf_counter() - t0)
        self.kill(sandbox)
        return {"run_python_code_ms": median_ms(ours), "range_ms": spread_ms(ours),
                "baseline": "python3 -c 1+1 on the host", "baseline_ms": median_ms(host),
                "ratio": round(statistics.median(ours) / statistics.median(host), 2), "n": len(ours)}

    def against_fresh(self, kernel_code, fresh_code, check):
        ours, theirs = [], []
        for _ in range(5):
            sandbox = self.mcp.tool("create_sandbox")["sandbox_id"]
            took, result = self.python(sandbox, kernel_code)
            check(sandbox, result)
            ours.append(took)
            self.kill(sandbox)
            sandbox = self.mcp.tool("create_sandbox")["sandbox_id"]
            theirs.append(self.fresh(sandbox, fresh_code))
            self.kill(sandbox)
        return {"first_run_ms": median_ms(ours), "range_ms": spread_ms(ours),
                "baseline": "a fresh python3 in a new sandbox of the same template",
                "baseline_ms": median_ms(theirs),
                "ratio": round(statistics.median(ours) / statistics.median(theirs), 3), "n": 5}

    def python_pandas(self):
        def check(_, result):
            assert "count" in result["result"], result

        return self.against_fresh(DESCRIBE, DESCRIBE, check)

    def python_plot(self):
        def check(sandbox, result):
            path = result["figures"][0]["path"]
            got = self.mcp.tool("run_command", sandbox_id=sandbox, command=f"head -c 4 {path} | tail -c 3")
            assert got["stdout"] == "PNG", got

        return self.against_fresh(PLOT, "import matplotlib\nmatplotlib.use('Agg')\n" + PLOT +
                                  "plt.savefig('/tmp/x.png')", check)

    def streams(self):
        sandbox = self.mcp.tool("create_sandbox")["sandbox_id"]
        _, _, detail = self.state.request("GET", f"/sandboxes/{sandbox}")
        token = json.loads(detail)["envdAccessToken"]
        failures, lines = [], []

        def follow():
            out = Frames(self.state, sandbox, token, COUNT).stdout().split(b"\n")
            count = len(out) - 2  # the line "last N", and what follows its newline
            if out[-2] != b"last %d" % count or out[:-2] != [b"%d" % i for i in range(count)]:
                failures.append(out[-2])
            lines.append(count)

        threads = [threading.Thread(target=follow) for _ in range(STREAMS)]
        t0 = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        took = time.perf_counter() - t0
        guest = self.mcp.tool("run_command", sandbox_id=sandbox, user="root", command=(
            "grep VmHWM /proc/$(pgrep -o envd)/status | tr -dc 0-9"))["stdout"]
        memory = {"envd": int(guest)}
        for program in ("cubbyd", "cubby-netd"):
            memory[program] = max(peak_kb(p) for p in self.state.processes(program))
        self.kill(sandbox)
        return {"commands": STREAMS, "seconds": round(took, 1), "lines": sum(lines),
                "streams_with_a_lost_or_misplaced_line": len(failures) + STREAMS - len(lines),
                "peak_resident_mb": {k: round(v / 1024, 1) for k, v in memory.items()}}
