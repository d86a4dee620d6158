# SPDX-License-Identifier: Apache-2.0
"""Shared by the benchmarks: medians, sizes of processes, a client on a pipe."""

import json
import os
import pathlib
import socket
import statistics
import subprocess
import time

BIN = pathlib.Path(os.environ["BIN"])
BASELINE = pathlib.Path(__file__).parent / "baseline"


def median_ms(seconds):
    return round(statistics.median(seconds) * 1000, 2)


def spread_ms(seconds):
    ordered = sorted(seconds)
    return [round(ordered[0] * 1000, 2), round(ordered[-1] * 1000, 2)]


def status_kb(pid, key):
    """A line of /proc/PID/status: VmRSS is the resident size, VmHWM its peak."""
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(key + ":"):
            return int(line.split()[1])
    raise RuntimeError(f"no {key} of {pid}")


def peak_kb(pid):
    return status_kb(pid, "VmHWM")


def resident_kb(pid):
    return status_kb(pid, "VmRSS")


def bare_qemu(work, wrap=()):
    """Seconds from the start of `qemu-system-x86_64 -M microvm -S` until QMP answers. wrap: words before the command."""
    path = str(work / "bare.qmp")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(1)
        start = time.perf_counter()
        process = subprocess.Popen(
            [*wrap, "qemu-system-x86_64", "-M", "microvm", "-S", "-nodefaults", "-display", "none",
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


def has_baseline():
    """Whether the TypeScript SDK is installed; it is installed first if possible."""
    if not (BASELINE / "node_modules").exists():
        subprocess.run(["npm", "install", "--silent", "--no-package-lock"], cwd=BASELINE, check=False)
    return (BASELINE / "node_modules").exists()


class Mcp:
    """A server process and its pipe; a minimal client, so that its own time does not count."""

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
