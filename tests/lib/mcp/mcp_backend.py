# SPDX-License-Identifier: Apache-2.0
"""A backend for cubby-mcp alone: cubbyd's socket and an envd behind it, in threads of the test.

Commands run on this machine, as this user. "/home/user" stands for a directory of the test; other
paths are unchanged. Each request is kept in `requests`, so that a test can check which requests
were made once and which were not; the fields below cause failures.
"""

import base64
import http.server
import itertools
import json
import os
import pathlib
import select
import shutil
import signal
import socket
import socketserver
import struct
import subprocess
import tempfile
import threading
import urllib.parse


class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request, client_address):
        pass  # a client that went away is a part of many tests


class Backend:
    handler = None  # a Handler of another kind

    def __init__(self):
        self.home = pathlib.Path(tempfile.mkdtemp(prefix="cubby-mcp-"))
        self.files = self.home / "guest"
        self.files.mkdir()
        self.sandboxes = {}
        self.numbers = itertools.count()
        self.ended = {}             # id -> message
        self.requests = []          # (method, path)
        self.created = []           # bodies
        self.templates = []         # as cubbyd lists them
        self.timeouts = []          # (sandbox, seconds)
        self.started = []           # bodies of Start
        self.running = {}           # pid -> Popen
        self.create_gate = None     # an Event that creations wait for
        self.create_error = None    # (status, body)
        self.tier_warning = None    # of each sandbox
        self.die_mid_command = False
        self.kernel = None          # (host, port) of what answers at the sandboxes' port 49999
        self.lock = threading.Lock()
        handler = type("Bound", (self.handler or Handler,), {"backend": self})
        self.server = Server(str(self.home / "cubbyd.sock"), handler)
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    def environment(self, **more):
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("E2B_", "DEFAULT_", "LOGS"))}
        return {**kept, "CUBBY_HOME": str(self.home), **more}

    def sandbox(self, **more):
        """A new sandbox, made without the server."""
        name = f"{next(self.numbers):x}".rjust(20, "s")
        self.sandboxes[name] = {"sandboxID": name, "templateID": "default", "envdVersion": "0.5.7",
                                "envdAccessToken": "token", "state": "running", "domain": None,
                                "clientID": "c", "alias": "default", **more}
        return name

    def end(self, name, why="The sandbox ended"):
        self.ended[name] = why  # first: it is not unknown in between
        self.sandboxes.pop(name, None)

    def count(self, path):
        return sum(1 for _, p in self.requests if p.split("?")[0] == path)

    def close(self):
        self.server.shutdown()
        self.server.server_close()
        for process in list(self.running.values()):
            kill(process)
        shutil.rmtree(self.home, ignore_errors=True)


def kill(process):
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def envelope(message, flags=0):
    data = json.dumps(message).encode()
    return struct.pack(">BI", flags, len(data)) + data


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    backend = None

    def log_message(self, *args):
        pass

    def address_string(self):
        return "test"

    # ---- HTTP
    def body(self):
        if "chunked" in self.headers.get("Transfer-Encoding", ""):
            data = b""
            while size := int(self.rfile.readline(), 16):
                data += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
            return data
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def answer(self, status, value=None, raw=None, kind="application/json"):
        data = raw if raw is not None else b"" if value is None else json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def chunk(self, data):
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        self.wfile.flush()

    def handle_any(self):
        self.client_address = ("test", 0)
        body = self.body()
        b = self.backend
        with b.lock:
            b.requests.append((self.command, self.path))
        sandbox = self.headers.get("E2b-Sandbox-Id")
        url = urllib.parse.urlsplit(self.path)
        if not sandbox:
            self.control(url.path, body)
        elif sandbox in b.ended:
            self.answer(502, {"sandboxId": sandbox, "code": 502, "message": b.ended[sandbox],
                              "reason": "timeout"})
        elif sandbox not in b.sandboxes:
            self.answer(502, {"sandboxId": sandbox, "code": 502,
                              "message": "The sandbox was not found"})
        elif (port := int(self.headers.get("E2b-Sandbox-Port"))) == 49999 and b.kernel:
            self.relay(body)
        elif port != 49983:
            self.answer(502, {"sandboxId": sandbox, "code": 502, "port": port,
                              "message": "The sandbox is running but port is not open"})
        else:
            self.envd(url, body)

    do_GET = do_POST = do_DELETE = handle_any

    # ---- cubbyd
    def list(self):
        query = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(self.path).query))
        pairs = urllib.parse.parse_qsl(query.get("metadata", ""))  # each quoted once more, as E2B's SDKs do
        wanted = {urllib.parse.unquote(k): urllib.parse.unquote(v) for k, v in pairs}
        self.answer(200, [s for s in list(self.backend.sandboxes.values())
                          if wanted.items() <= s.get("metadata", {}).items()])

    def control(self, path, body):
        b = self.backend
        if (self.command, path) == ("GET", "/templates"):
            self.answer(200, b.templates)
            return
        if self.command == "GET" and path.startswith("/templates/"):
            builds = [t for t in b.templates if t["templateID"] == urllib.parse.unquote(path.split("/")[2])]
            self.answer(*(200, {"builds": builds}) if builds else (404, {"code": 404, "message": "no such template"}))
            return
        if self.command == "GET" and path == "/v2/sandboxes":
            self.list()
            return
        if self.command == "POST" and path in ("/v2/sandboxes", "/sandboxes"):
            wanted = json.loads(body)
            b.created.append(wanted)
            if b.create_gate:
                b.create_gate.wait(20)
            if b.create_error:
                self.answer(*b.create_error)
            else:
                tier = {k: v for k, v in wanted.items() if k == "tier"}
                if b.tier_warning:
                    tier["tierWarning"] = b.tier_warning
                self.answer(201, b.sandboxes[b.sandbox(metadata=wanted.get("metadata") or {}, **tier)])
            return
        name = path.split("/")[2] if path.count("/") >= 2 else ""
        if name in b.ended:
            self.answer(404, {"code": 404, "error_code": "sandbox_ended", "message": b.ended[name]})
        elif name not in b.sandboxes:
            self.answer(404, {"code": 404, "error_code": "sandbox_not_found",
                              "message": "there is no such sandbox"})
        elif self.command == "DELETE":
            b.end(name, "The sandbox was killed")
            self.answer(204)
        elif self.command == "GET" and path.split("?")[0].endswith("/network"):
            self.answer(200, {"policy": {"mode": "public", "allow": [], "deny": []}, "counters": None,
                              "sequence": 0, "refusals": []})
        elif self.command == "GET":
            self.answer(200, b.sandboxes[name])
        else:
            if path.endswith("/timeout"):
                b.timeouts.append((name, json.loads(body)["timeout"]))
            self.answer(204)

    def relay(self, body):
        """Passes the request to the kernel, and its answer back as it comes, until either side closes."""
        self.close_connection = True
        with socket.create_connection(self.backend.kernel) as kernel:
            kernel.sendall(f"{self.command} {self.path} HTTP/1.1\r\nHost: kernel\r\nConnection: close\r\n"
                           f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
                           .encode() + body)
            while True:
                ready, _, _ = select.select([kernel, self.connection], [], [])
                data = kernel.recv(65536) if kernel in ready else b""
                if not data:
                    return
                self.wfile.write(data)

    # ---- envd
    def local(self, path):
        if not path.startswith("/"):
            path = "/home/user/" + path
        if path == "/home/user" or path.startswith("/home/user/"):
            return self.backend.files / path[len("/home/user"):].lstrip("/")
        return pathlib.Path(path)

    def error(self, status, code, message):
        self.answer(status, {"code": code, "message": message})

    def envd(self, url, body):
        query = dict(urllib.parse.parse_qsl(url.query))
        if url.path == "/health":
            self.answer(204)
        elif url.path == "/files":
            self.read_file(query) if self.command == "GET" else self.write_file(query, body)
        elif url.path == "/process.Process/Start":
            self.start(json.loads(body[5:]))
        elif url.path == "/process.Process/SendSignal":
            process = self.backend.running.get(json.loads(body)["process"]["pid"])
            if process:
                kill(process)
            self.answer(200, {})
        elif url.path == "/filesystem.Filesystem/Stat":
            self.stat(json.loads(body)["path"])
        elif url.path == "/filesystem.Filesystem/ListDir":
            self.list_dir(json.loads(body)["path"])
        elif url.path == "/filesystem.Filesystem/WatchDir":
            self.send_stream(self.nothing_changes())
        else:
            self.error(404, "unimplemented", "not in this envd")

    def entry(self, local, path):
        kind = "FILE_TYPE_DIRECTORY" if local.is_dir() else "FILE_TYPE_FILE"
        return {"name": os.path.basename(path), "type": kind, "path": path,
                "size": str(local.lstat().st_size)}

    def stat(self, path):
        local = self.local(path)
        if not local.exists():
            self.error(404, "not_found", f"path not found: {path}")
            return
        self.answer(200, {"entry": self.entry(local, path)})

    def list_dir(self, path):
        local = self.local(path)
        if not local.exists():
            self.error(404, "not_found", f"path not found: {path}")
        elif not local.is_dir():
            self.error(400, "invalid_argument", f"path is not a directory: {path}")
        else:
            self.answer(200, {"entries": [self.entry(one, f"{path.rstrip('/')}/{one.name}")
                                          for one in sorted(local.iterdir())]})

    def nothing_changes(self):
        """A watch that begins, reports nothing, and lasts until its client leaves."""
        yield envelope({"start": {}})
        while self.connection.recv(4096):
            pass
        yield None

    def read_file(self, query):
        local = self.local(query["path"])
        if local.is_dir():
            self.answer(400, {"code": 400, "message": f"path '{query['path']}' is a directory"})
        elif not local.exists():
            self.answer(404, {"code": 404, "message": f"path '{query['path']}' does not exist"})
        else:
            self.answer(200, raw=local.read_bytes(), kind="application/octet-stream")

    def write_file(self, query, body):
        local = self.local(query["path"])
        local.parent.mkdir(parents=True, exist_ok=True)
        local.write_bytes(body)
        self.answer(200, [{"path": query["path"], "name": local.name, "type": "file"}])

    def start(self, request):
        b = self.backend
        spec = request["process"]
        b.started.append(spec)
        cwd = self.local(spec.get("cwd") or "/home/user")
        env = {"PATH": os.environ["PATH"], "HOME": str(b.files), **spec.get("envs", {})}
        if not cwd.is_dir():
            self.send_stream([envelope({"error": {"code": "invalid_argument",
                                                  "message": f"cwd '{cwd}' does not exist"}}, 2)])
            return
        process = subprocess.Popen([spec["cmd"], *spec.get("args", [])], cwd=cwd, env=env,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, start_new_session=True)
        b.running[process.pid] = process
        try:
            self.send_stream(self.events(process))
        finally:
            process.wait()
            b.running.pop(process.pid, None)

    def send_stream(self, events):
        self.send_response(200)
        self.send_header("Content-Type", "application/connect+json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for event in events:
            if event is None:
                self.close_connection = True
                return
            self.chunk(event)
        self.wfile.write(b"0\r\n\r\n")

    def events(self, process):
        timed_out = threading.Event()
        timer = None
        ms = self.headers.get("Connect-Timeout-Ms")
        if ms:
            timer = threading.Timer(int(ms) / 1000, lambda: (timed_out.set(), kill(process)))
            timer.daemon = True
            timer.start()
        yield envelope({"event": {"start": {"pid": process.pid}}})
        yield from self.output(process)
        if timer:
            timer.cancel()
        code = process.wait()
        if self.backend.die_mid_command:
            yield None
            return
        if timed_out.is_set():
            yield envelope({"error": {"code": "deadline_exceeded", "message": "timeout"}}, 2)
            return
        end = {"exited": code >= 0, "status": f"exit status {code}"}
        if code:
            end["exitCode"] = code if code > 0 else -1
            end["error"] = f"exit status {code}"
        if code < 0:
            end["status"] = end["error"] = f"signal: {signal.Signals(-code).name.lower()[3:]}"
        yield envelope({"event": {"end": end}})
        yield envelope({}, 2)

    def output(self, process):
        """Both streams as they come; a thread each, joined by a pipe of events."""
        import queue
        events = queue.Queue(64)

        def read(stream, name):
            while data := os.read(stream.fileno(), 32768):
                events.put({"event": {"data": {name: base64.b64encode(data).decode()}}})
            events.put(None)

        for stream, name in (process.stdout, "stdout"), (process.stderr, "stderr"):
            threading.Thread(target=read, args=(stream, name), daemon=True).start()
        open_streams = 2
        while open_streams:
            event = events.get()
            if event is None:
                open_streams -= 1
            else:
                yield envelope(event)
