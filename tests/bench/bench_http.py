# SPDX-License-Identifier: Apache-2.0
"""Figures of streamable HTTP: requests a second and memory under load, idle streams, sessions.

Three servers answer the same tools/call of a tool that does nothing: cubby-mcp with the tools of the
tests (no tool that is shipped answers without a sandbox), the official TypeScript SDK, and nginx,
which returns as many bytes without looking at the request. wrk drives them in turns, from 16
connections and one thread.
"""

import http.client
import json
import os
import pathlib
import re
import resource
import socket
import statistics
import subprocess
import time

from bench_common import BASELINE, has_baseline, peak_kb, resident_kb
from harness import wait_for

TEST = pathlib.Path(os.environ["TEST"])
FIXTURES = TEST / "cubby-mcp-fixtures"
ROUNDS = 3  # of each server: a round takes SECONDS
SECONDS = 4
STREAMS = 1000
SESSIONS = 10_000
LEGACY, MODERN = "2025-11-25", "2026-07-28"
PREFIX = "io.modelcontextprotocol/"
HEADERS = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
TOOL = "test_simple_text"


def message(method, params=None, request_id=1):
    found = {"jsonrpc": "2.0", "method": method, "params": params or {}}
    return json.dumps(found if request_id is None else {**found, "id": request_id})


INITIALIZE = message("initialize", {"protocolVersion": LEGACY, "capabilities": {},
                                    "clientInfo": {"name": "bench", "version": "1"}})
INITIALIZED = message("notifications/initialized", request_id=None)
LEGACY_CALL = message("tools/call", {"name": TOOL, "arguments": {}})
MODERN_CALL = message("tools/call", {"name": TOOL, "arguments": {}, "_meta": {
    PREFIX + "protocolVersion": MODERN, PREFIX + "clientCapabilities": {},
    PREFIX + "clientInfo": {"name": "bench", "version": "1"}}})
MODERN_HEADERS = {**HEADERS, "MCP-Protocol-Version": MODERN, "Mcp-Method": "tools/call",
                  "Mcp-Name": TOOL}


# ---- servers


class Server:
    """A process that serves MCP at self.port, which it prints when it starts."""

    def __init__(self, command, pattern, **options):
        self.process = subprocess.Popen(list(map(str, command)), stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                        **options)
        for line in self.process.stdout:
            if found := re.search(pattern, line):
                self.port = int(found[1])
                return
        raise RuntimeError(f"{command[0]} does not serve")

    def connect(self):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)

    def close(self):
        self.process.terminate()
        self.process.communicate()


class Nginx:
    """Answers every request with the same bytes."""

    def __init__(self, work, body):
        for _ in range(10):  # it cannot be told to let the kernel choose a port
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", 0))
                self.port = probe.getsockname()[1]
            (work / "nginx.conf").write_text(self.settings(body))
            self.process = subprocess.Popen(["nginx", "-p", str(work), "-e", "stderr", "-c", "nginx.conf"])
            if wait_for(lambda: self.process.poll() is not None or self.listens(), 20, "nginx") == "listens":
                return
        raise RuntimeError("nginx does not start")

    def listens(self):
        with socket.socket() as s:
            return "listens" if s.connect_ex(("127.0.0.1", self.port)) == 0 else None

    def settings(self, body):
        paths = "".join(f"{n}_temp_path {n};" for n in (
            "client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        return ("daemon off; master_process off; pid nginx.pid; error_log stderr crit;\n"
                "events { worker_connections 2048; }\n"
                f"http {{ access_log off; keepalive_requests 1000000000; {paths}\n"
                "default_type application/json;\n"
                f"server {{ listen 127.0.0.1:{self.port}; location / {{ return 200 '{body}'; }} }} }}\n")

    def close(self):
        self.process.terminate()
        self.process.wait()


# ---- requests


def post(connection, body, headers=None):
    connection.request("POST", "/mcp", body, headers or HEADERS)
    answer = connection.getresponse()
    text = answer.read()
    if answer.status not in (200, 202):
        raise RuntimeError(f"{answer.status} {text!r}")
    return answer, text


def open_session(connection):
    """The headers of a new session's requests."""
    answer, _ = post(connection, INITIALIZE)
    headers = {**HEADERS, "Mcp-Session-Id": answer.headers["Mcp-Session-Id"],
               "MCP-Protocol-Version": LEGACY}
    post(connection, INITIALIZED, headers)
    return headers


def end_session(connection, headers):
    connection.request("DELETE", "/mcp", headers=headers)
    answer = connection.getresponse()
    answer.read()
    if answer.status not in (200, 204):
        raise RuntimeError(f"DELETE: {answer.status}")


def open_stream(server, headers):
    """An event stream whose response head has arrived."""
    s = socket.create_connection(("127.0.0.1", server.port), timeout=60)
    fields = "".join(f"{k}: {v}\r\n" for k, v in {**headers, "Accept": "text/event-stream"}.items())
    s.sendall(f"GET /mcp HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n{fields}\r\n".encode())
    got = b""
    while b"\r\n\r\n" not in got:
        data = s.recv(4096)
        if not data:
            raise RuntimeError(f"GET: {got!r}")
        got += data
    if b" 200 " not in got.split(b"\r\n")[0]:
        raise RuntimeError(f"GET: {got!r}")
    return s


def cpu_seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def drive(script, server):
    """Requests per second by wrk, and the server's processor time for each, in microseconds."""
    before = cpu_seconds(server.process.pid)
    done = subprocess.run(["wrk", "-t1", "-c16", f"-d{SECONDS}s", "-s", str(script),
                           f"http://127.0.0.1:{server.port}/mcp"],
                          capture_output=True, text=True, check=True).stdout
    if "Non-2xx" in done or "Socket errors" in done:
        raise RuntimeError(done)
    count = int(re.search(r"(\d+) requests in", done)[1])
    rate = float(re.search(r"Requests/sec:\s*([\d.]+)", done)[1])
    return rate, (cpu_seconds(server.process.pid) - before) / count * 1e6


class HttpBench:
    FIGURES = ["http_load", "http_idle_streams", "http_sessions"]

    def __init__(self, _rounds, work):
        self.work = pathlib.Path(work)
        self.env = {**os.environ, "CUBBY_HOME": str(self.work / "home")}
        self.servers = []
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))

    def close(self):
        """Ends everything that was started since the last call."""
        while self.servers:
            self.servers.pop().close()

    def started(self, server):
        self.servers.append(server)
        return server

    def cubby(self):
        return self.started(Server([FIXTURES, "--http", "127.0.0.1:0", "--log-level", "info"],
                                   r"url=\S+?:(\d+)/mcp", env=self.env))

    def sdk(self, mode):
        return self.started(Server(["node", BASELINE / "http.mjs", mode], r"^(\d+)$"))

    def script(self, name, body, headers):
        """The request that wrk sends, as a Lua script."""
        path = self.work / f"{name}.lua"
        fields = "".join(f"wrk.headers[{json.dumps(k)}] = {json.dumps(v)}\n" for k, v in headers.items())
        path.write_text(f'wrk.method = "POST"\nwrk.body = [==[{body}]==]\n{fields}')
        return path

    # ---- the figures

    def http_load(self):
        """Load on each server, in turns."""
        ours = self.cubby()
        connection = ours.connect()
        _, text = post(connection, MODERN_CALL, MODERN_HEADERS)
        servers = {
            "cubby_stateless": (ours, self.script("modern", MODERN_CALL, MODERN_HEADERS)),
            "cubby_session": (ours, self.script("legacy", LEGACY_CALL, open_session(connection))),
        }
        nginx = self.started(Nginx(self.work, text.decode()))
        servers["nginx"] = (nginx, servers["cubby_stateless"][1])
        if has_baseline():
            for mode in "stateless", "session":
                server = self.sdk(mode)
                headers = HEADERS if mode == "stateless" else open_session(server.connect())
                servers[f"sdk_{mode}"] = (server, self.script(f"sdk-{mode}", LEGACY_CALL, headers))
        rates, costs = {n: [] for n in servers}, {n: [] for n in servers}
        for _ in range(ROUNDS):
            for name, (server, script) in servers.items():
                rate, cost = drive(script, server)
                rates[name].append(rate)
                costs[name].append(cost)
        figures = {name: {
            "requests_s": round(statistics.median(rates[name])),
            "range": [round(min(rates[name])), round(max(rates[name]))],
            "cpu_us_per_request": round(statistics.median(costs[name]), 1),
            "peak_resident_mb": round(peak_kb(server.process.pid) / 1024, 1),
        } for name, (server, _) in servers.items()}
        self.close()
        figures["answer_bytes"] = len(text)
        for mode in "stateless", "session":
            rate = figures[f"cubby_{mode}"]["requests_s"]
            for other in "nginx", f"sdk_{mode}":
                if other in figures:
                    figures[f"{mode}_to_{other.partition('_')[0]}"] = round(
                        rate / figures[other]["requests_s"], 2)
        return figures

    def idle_streams(self, server):
        connection = server.connect()
        post(connection, LEGACY_CALL, open_session(connection))
        before = resident_kb(server.process.pid)
        streams = [open_stream(server, open_session(connection)) for _ in range(STREAMS)]
        after = resident_kb(server.process.pid)
        for s in streams:
            s.close()
        connection.close()
        return {"resident_mb": round(after / 1024, 1), "before_mb": round(before / 1024, 1),
                "each_kb": round((after - before) / STREAMS, 1)}

    def http_idle_streams(self):
        """A thousand sessions on each server, each with an open event stream."""
        figures = {"n": STREAMS, "cubby": self.idle_streams(self.cubby())}
        if has_baseline():
            figures["sdk"] = self.idle_streams(self.sdk("session"))
        self.close()
        return figures

    def http_sessions(self):
        """Sessions that are opened, used once and deleted."""
        server = self.cubby()
        connection = server.connect()
        sizes = []
        start = 0
        for i in range(SESSIONS + SESSIONS // 10):
            if i == SESSIONS // 10:  # what the first of them make stays
                sizes.append(resident_kb(server.process.pid))
                start = time.perf_counter()
            headers = open_session(connection)
            post(connection, LEGACY_CALL, headers)
            end_session(connection, headers)
        took = time.perf_counter() - start
        sizes.append(resident_kb(server.process.pid))
        connection.close()
        self.close()
        return {"n": SESSIONS, "before_kb": sizes[0], "after_kb": sizes[1],
                "each_ms": round(took / SESSIONS * 1000, 2)}
