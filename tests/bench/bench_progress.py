# SPDX-License-Identifier: Apache-2.0
"""Measures how long a byte takes from a command in the guest to a client that asked for progress.

A command in the guest copies lines from a FIFO to its output. A process in the guest writes each
line there; it gets the line from the host on its own connection to envd, so the clock starts and
stops on the host. The two ways back are compared: envd's own stream, read directly, and progress
from cubby-mcp, which reads the same stream through cubbyd.
"""

import base64
import json
import re
import socket
import statistics
import struct
import subprocess
import time

from bench_common import BIN, Mcp, median_ms, spread_ms
from harness import Home
from receive import receive

GAP = 0.15  # longer than cubby-mcp coalesces for, so that each line is a first one
META = {"io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {}}


def envelope(message):
    data = json.dumps(message).encode()
    return b"\0" + struct.pack(">I", len(data)) + data


class Envd:
    """A connection to a sandbox's envd that by-passes cubby-mcp and cubbyd."""

    def __init__(self, home, sandbox, token):
        self.token = token
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(str(home.path / "sandboxes" / sandbox / "vm.net"))
        self.socket.sendall(b"CONNECT 49983\n")
        assert receive(self.socket, 3) == b"OK\n"
        self.seen = b""

    def send(self, method, kind, body):
        self.socket.sendall(
            (f"POST /process.Process/{method} HTTP/1.1\r\nHost: envd\r\nX-Access-Token: {self.token}\r\n"
             f"Authorization: Basic dXNlcjo=\r\nContent-Type: application/{kind}\r\n"
             f"Connect-Protocol-Version: 1\r\nContent-Length: {len(body)}\r\n\r\n").encode() + body)

    def until(self, pattern):
        """Reads until the pattern comes; returns the match."""
        while not (found := re.search(pattern, self.seen)):
            data = self.socket.recv(65536)
            assert data, self.seen
            self.seen += data
        self.seen = self.seen[found.end():]
        return found

    def start(self, command, stdin=False):
        """Starts a command; returns its pid."""
        self.send("Start", "connect+json", envelope({
            "process": {"cmd": "/bin/bash", "args": ["-c", command]}, "stdin": stdin}))
        return int(self.until(rb'"pid":(\d+)')[1])

    def line(self, text):
        """Waits for this line of output."""
        self.until(re.escape(base64.b64encode(text.encode() + b"\n")))

    def input(self, pid, text):
        body = json.dumps({"process": {"pid": pid}, "input": {
            "stdin": base64.b64encode(text.encode() + b"\n").decode()}}).encode()
        self.send("SendInput", "json", body)
        return lambda: self.until(rb"(?s)HTTP/1.1 200.*?\r\n\r\n\{\}")

    def close(self):
        self.socket.close()


class Pipe:
    """A call with progress, over stdio."""

    def __init__(self, env, sandbox, command):
        self.mcp = Mcp([str(BIN / "cubby-mcp")], env)
        self.mcp.initialize()
        self.mcp.send({"jsonrpc": "2.0", "id": "call", "method": "tools/call", "params": {
            "_meta": {"progressToken": 1}, "name": "run_command",
            "arguments": {"sandbox_id": sandbox, "command": command, "timeout": 600}}})

    def line(self, text):
        while True:
            message = json.loads(self.mcp.process.stdout.readline())
            assert message.get("method") == "notifications/progress", message
            if text in message["params"]["message"]:
                return

    def close(self):
        self.mcp.close()


class Http:
    """The same over HTTP, in the modern era."""

    def __init__(self, env, sandbox, command):
        self.process = subprocess.Popen([str(BIN / "cubby-mcp"), "--http", "127.0.0.1:0"], env=env,
                                        stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)
        port = None
        while not port:
            port = re.search(rb"127\.0\.0\.1:(\d+)", self.process.stderr.readline())
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
            "_meta": {**META, "progressToken": 1}, "name": "run_command",
            "arguments": {"sandbox_id": sandbox, "command": command, "timeout": 600}}}).encode()
        self.socket = socket.create_connection(("127.0.0.1", int(port[1])))
        self.socket.sendall(
            (f"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:{port[1].decode()}\r\nContent-Type: application/json\r\n"
             "Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2026-07-28\r\n"
             "Mcp-Method: tools/call\r\nMcp-Name: run_command\r\n"
             f"Content-Length: {len(body)}\r\n\r\n").encode() + body)
        self.seen = b""

    def line(self, text):
        needle = f'"message":"{text}\\n"'.encode()
        while needle not in self.seen:
            data = self.socket.recv(65536)
            assert data and b'"result"' not in data, self.seen + data
            self.seen += data
        self.seen = self.seen.split(needle, 1)[1]

    def close(self):
        self.socket.close()
        self.process.terminate()
        self.process.wait()
        self.process.stderr.close()


class ProgressBench:
    FIGURES = ["progress_delay"]

    def __init__(self, rounds, work):
        self.rounds = rounds
        self.home = Home()
        mcp = Mcp([str(BIN / "cubby-mcp")], self.home.env)
        mcp.initialize()
        self.sandbox = mcp.tool("create_sandbox")["sandbox_id"]
        mcp.close()
        _, _, detail = self.home.request("GET", f"/sandboxes/{self.sandbox}")
        self.token = json.loads(detail)["envdAccessToken"]

    def close(self):
        self.home.close()

    def envd(self):
        return Envd(self.home, self.sandbox, self.token)

    def writer(self, fifos):
        """A process that copies "FD TEXT" from its input to the FIFO that is open as FD; returns
        its connection and pid."""
        connection = self.envd()
        makes = [f"mkfifo {fifo}; exec {fd}<>{fifo}" for fd, fifo in fifos.values()]
        pid = connection.start("; ".join(makes) + "; echo ready; "
                               "while read -r fd line; do echo \"$line\" >&$fd; done", stdin=True)
        connection.line("ready")
        return connection, pid

    def readers(self, fifos):
        """Commands that print the data of each FIFO, and never end."""
        follow = {name: f"echo ready; exec cat {fifo}" for name, (_, fifo) in fifos.items()}
        direct = self.envd()
        direct.start(follow["direct"])
        readers = {"direct": direct, "stdio": Pipe(self.home.env, self.sandbox, follow["stdio"]),
                   "http": Http(self.home.env, self.sandbox, follow["http"])}
        for reader in readers.values():
            reader.line("ready")
        return readers

    def progress_delay(self):
        fifos = {name: (fd, f"/tmp/bench-{name}") for fd, name in enumerate(("direct", "stdio", "http"), 5)}
        writer, pid = self.writer(fifos)
        trigger = self.envd()
        readers = self.readers(fifos)
        took = {name: [] for name in fifos}
        for i in range(self.rounds * 5 + 3):
            for name, (fd, _) in fifos.items():
                time.sleep(GAP)
                start = time.perf_counter()
                finish = trigger.input(pid, f"{fd} line{i}")
                readers[name].line(f"line{i}")
                if i >= 3:
                    took[name].append(time.perf_counter() - start)
                finish()
        for connection in (*readers.values(), trigger, writer):
            connection.close()
        figures = {"baseline": "the same by envd's own stream, read directly",
                   "baseline_ms": median_ms(took["direct"]), "n": len(took["direct"])}
        for name in "stdio", "http":
            more = statistics.median(took[name]) - statistics.median(took["direct"])
            figures |= {f"{name}_ms": median_ms(took[name]), f"{name}_range_ms": spread_ms(took[name]),
                        f"{name}_more_ms": round(more * 1000, 2)}
        return figures
