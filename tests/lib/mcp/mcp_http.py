# SPDX-License-Identifier: Apache-2.0
"""cubby-mcp over HTTP, for tests that look at each byte.

A plain socket: it sends exactly the test's bytes, reads an answer as it comes (headers, then the
body or one event after the other), and never repeats a request or uses another connection.
"""

import json
import os
import re
import signal
import socket
import subprocess
import tempfile
from dataclasses import dataclass, field

import pytest
from harness import BIN, wait_for
from mcp_stdio import META, backend  # noqa: F401

ACCEPT = "application/json, text/event-stream"
PREFIX = "io.modelcontextprotocol/"
MODERN = "2026-07-28"
NAMED = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
# For the end of a process, a sanitizer's leak check included, on a busy machine.
END_SECONDS = 30


class Server:
    """A cubby-mcp that listens on a port that the kernel chose."""

    def __init__(self, *args, env=None, cwd=None, program=None):
        self.errors = tempfile.NamedTemporaryFile(prefix="cubby-mcp-http-")
        self.process = subprocess.Popen(
            [str(program or BIN / "cubby-mcp"), "--http", "127.0.0.1:0",
             "--log-level", "info", *map(str, args)],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self.errors, env=env, cwd=cwd)
        self.url = wait_for(self._said, 30, "the server says where it listens")
        self.port = int(self.url.rsplit(":", 1)[1].split("/")[0])
        self.host = f"127.0.0.1:{self.port}"

    def _said(self):
        assert self.process.poll() is None, "the server ended: " + self.stderr()
        found = re.search(r"http\.listen\b.*\burl=(\S+)", self.stderr())
        return found and found[1].strip('"')

    def stderr(self):
        with open(self.errors.name, errors="replace") as f:
            return f.read()

    def resident(self):
        """Its resident memory in bytes."""
        with open(f"/proc/{self.process.pid}/statm") as f:
            return int(f.read().split()[1]) * os.sysconf("SC_PAGESIZE")

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def connect(self):
        return Connection(self)

    def stop(self, number=signal.SIGTERM):
        """Asks it to end: it must do so by itself, soon and cleanly, with nothing on stdout."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        try:
            out, _ = self.process.communicate(timeout=END_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.communicate()
            raise AssertionError("did not end when told to: " + self.stderr()) from None
        assert self.process.returncode == 0, (self.process.returncode, self.stderr())
        assert out == b"", out


@dataclass
class Event:
    """One server-sent event, as it was on the wire."""
    data: str = None
    id: str = None
    name: str = None
    retry: int = None
    comments: list = field(default_factory=list)

    def json(self):
        return json.loads(self.data)


class Closed(Exception):
    """The server closed the connection."""


class Connection:
    def __init__(self, server):
        self.server = server
        self.socket = socket.create_connection(("127.0.0.1", server.port), timeout=20)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.pending = b""

    def send(self, data):
        self.socket.sendall(data)

    def request(self, method="POST", path="/mcp", headers=None, body=None, **options):
        self.send(request_bytes(self.server, method, path, headers, body, **options))
        return self

    def fill(self, seconds=20):
        """Reads the bytes that have arrived; raises Closed at the end."""
        self.socket.settimeout(seconds)
        try:
            data = self.socket.recv(65536)
        except ConnectionResetError:
            data = b""
        if not data:
            raise Closed
        self.pending += data

    def line(self, seconds=20):
        while b"\n" not in self.pending:
            self.fill(seconds)
        line, _, self.pending = self.pending.partition(b"\n")
        return line.removesuffix(b"\r")

    def exactly(self, size, seconds=20):
        while len(self.pending) < size:
            self.fill(seconds)
        data, self.pending = self.pending[:size], self.pending[size:]
        return data

    def response(self, seconds=20, head=False):
        """The next response: its head is read now, its body on demand."""
        return Response(self, seconds, head)

    def closed(self, seconds=20):
        """Whether the server closes the connection within that time without another byte."""
        if self.pending:
            return False
        try:
            self.fill(seconds)
        except Closed:
            return True
        except TimeoutError:
            pass
        return False

    def close(self):
        self.socket.close()

    def reset(self):
        """Breaks the connection off: the peer sees a reset, not an orderly end."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self.socket.close()


class Response:
    def __init__(self, connection, seconds, head):
        self.connection = connection
        version, status, *reason = connection.line(seconds).split(b" ", 2)
        assert version == b"HTTP/1.1", version
        self.status = int(status)
        self.fields = []
        while line := connection.line(seconds):
            name, colon, value = line.decode("latin-1").partition(":")
            assert colon and name and name == name.strip(), line
            self.fields.append((name.lower(), value.strip()))
        names = [n for n, _ in self.fields]
        assert len(set(names)) == len(names) or "set-cookie" in names, f"a field twice: {names}"
        self.headers = dict(self.fields)
        self.chunked = self.headers.get("transfer-encoding") == "chunked"
        length = self.headers.get("content-length")
        assert not (self.chunked and length is not None)
        self.left = 0 if head or self.status in (202, 204, 304) and length is None else \
            None if length is None else int(length)
        self.done = self.left == 0
        self.buffer = b""

    def more(self, seconds=20):
        """The next piece of the body; b"" at its orderly end, Closed at any other."""
        c = self.connection
        if self.done:
            return b""
        if self.chunked:
            size = int(c.line(seconds).split(b";")[0], 16)
            data = c.exactly(size, seconds)
            assert c.line(seconds) == b""
            self.done = size == 0
            return data
        if self.left is None:
            raise AssertionError(f"an answer without a length: {self.fields}")
        data = c.exactly(self.left, seconds)
        self.done = True
        return data

    @property
    def body(self):
        while data := self.more():
            self.buffer += data
        return self.buffer

    def json(self):
        assert self.headers["content-type"].split(";")[0] == "application/json", self.headers
        message = json.loads(self.body)
        for one in message if isinstance(message, list) else [message]:
            assert one["jsonrpc"] == "2.0"
            assert "id" not in one or one["id"] is not None
        return message

    def error(self):
        """Status and error code of an answer that has no result."""
        return self.status, self.json()["error"]["code"]

    # ---- server-sent events
    def event(self, seconds=20):
        """The next event, or the next comment; None at the end of the stream."""
        assert self.headers["content-type"].split(";")[0] == "text/event-stream", self.headers
        while b"\n\n" not in self.buffer:
            data = self.more(seconds)
            if not data:
                assert not self.buffer, f"the stream ends inside an event: {self.buffer!r}"
                return None
            self.buffer += data
        block, _, self.buffer = self.buffer.partition(b"\n\n")
        return parse_event(block.decode())

    def message(self, seconds=20):
        """The next JSON-RPC message on the stream; None at its end."""
        while (event := self.event(seconds)) is not None:
            if event.data:
                message = event.json()
                assert message["jsonrpc"] == "2.0"
                return message
        return None

    def messages(self, seconds=20):
        """All of them to the orderly end of the stream."""
        found = []
        while (message := self.message(seconds)) is not None:
            found.append(message)
        return found

    def events(self, seconds=20):
        found = []
        while (event := self.event(seconds)) is not None:
            found.append(event)
        return found


def parse_event(block):
    event, data = Event(), []
    for line in block.split("\n"):
        name, colon, value = line.partition(":")
        value = value.removeprefix(" ")
        if not name and colon:
            event.comments.append(value)
        elif name == "data":
            data.append(value)
        elif name == "id":
            event.id = value
        elif name == "event":
            event.name = value
        elif name == "retry":
            event.retry = int(value)
        else:
            raise AssertionError(f"not a field of an event: {line!r}")
    event.data = "\n".join(data) if data else None
    return event


def request_bytes(server, method="POST", path="/mcp", headers=None, body=None, length=True):
    """A request as it goes over the wire. A header of None is left out, a list is sent repeatedly."""
    if isinstance(body, (dict, list)):
        body = json.dumps(body).encode()
    fields = {"Host": server.host}
    if method == "POST":
        fields |= {"Content-Type": "application/json", "Accept": ACCEPT}
    if body is not None and length:
        fields["Content-Length"] = str(len(body))
    names = {name.lower(): name for name in fields}
    for name, value in (headers or {}).items():
        fields.pop(names.get(name.lower()), None)
        if value is not None:
            fields[name] = value
            names[name.lower()] = name
    lines = [f"{method} {path} HTTP/1.1"]
    for name, value in fields.items():
        lines += [f"{name}: {v}" for v in (value if isinstance(value, list) else [value])]
    return "\r\n".join(lines).encode("utf-8") + b"\r\n\r\n" + (body or b"")


def send(server, method="POST", path="/mcp", headers=None, body=None, **options):
    """Sends one request on a new connection; returns its answer."""
    return server.connect().request(method, path, headers, body, **options).response()


def message(method, params=None, request_id=None):
    made = {"jsonrpc": "2.0", "method": method}
    if request_id is not None:
        made["id"] = request_id
    if params is not None:
        made["params"] = params
    return made


def tool(name, arguments=None, token=None, **more):
    """params of tools/call."""
    params = {"name": name, "arguments": arguments or {}, **more}
    if token is not None:
        params["_meta"] = {"progressToken": token}
    return params


# ---- the two eras
INITIALIZE = {"capabilities": {"sampling": {}, "elicitation": {}, "roots": {}}, "clientInfo": {"name": "test", "version": "1"}}


class Session:
    """A session of the handshake era."""

    def __init__(self, server, version="2025-11-25", headers=None, initialized=True):
        self.server = server
        self.version = version
        self.more = headers or {}
        answer = send(server, headers=self.more, body=message(
            "initialize", {"protocolVersion": version, **INITIALIZE}, 0))
        assert answer.status == 200, (answer.status, answer.body)
        self.answer = answer
        self.result = answer.json()["result"]
        self.id = answer.headers["mcp-session-id"]
        if initialized:
            assert self.post(message("notifications/initialized")).status == 202

    def headers(self, **changes):
        return {"Mcp-Session-Id": self.id, "MCP-Protocol-Version": self.version, **self.more,
                **{k.replace("_", "-"): v for k, v in changes.items()}}

    def open(self, body, **changes):
        """A request sent on a new connection, not answered."""
        return self.server.connect().request(headers=self.headers(**changes), body=body)

    def post(self, body, **changes):
        return self.open(body, **changes).response()

    def call(self, method, params=None, request_id=1):
        """The whole answer to a request, without messages before it: create_sandbox may log that it
        starts the daemon."""
        answer = self.post(message(method, params, request_id))
        assert answer.status == 200, (answer.status, answer.body)
        is_stream = answer.headers["content-type"].startswith("text/event-stream")
        found = answer.messages()[-1] if is_stream else answer.json()
        assert found["id"] == request_id and type(found["id"]) is type(request_id)
        return found

    def get(self, last=None, **changes):
        """The standalone stream, or one that continues after the event `last`."""
        headers = self.headers(**{"Accept": "text/event-stream", **changes})
        if last is not None:
            headers["Last-Event-ID"] = last
        return self.server.connect().request("GET", headers=headers).response()

    def delete(self, **changes):
        return send(self.server, "DELETE", headers=self.headers(**{"Accept": "*/*", **changes}))


def modern_body(method, params=None, request_id=1, meta=META):
    params = dict(params or {})
    if meta is not None:
        params["_meta"] = {**meta, **params.get("_meta", {})}
    return message(method, params, request_id)


def modern_headers(method, params=None):
    found = {"MCP-Protocol-Version": MODERN, "Mcp-Method": method}
    if method in NAMED and NAMED[method] in (params or {}):
        found["Mcp-Name"] = params[NAMED[method]]
    return found


def modern_open(server, method, params=None, request_id=1, headers=None, meta=META):
    """A request of 2026-07-28, sent but not answered."""
    return server.connect().request(headers={**modern_headers(method, params), **(headers or {})},
                                    body=modern_body(method, params, request_id, meta))


def modern(server, method, params=None, request_id=1, headers=None, meta=META):
    """The answer to a request of 2026-07-28."""
    return modern_open(server, method, params, request_id, headers, meta).response()


def modern_result(server, method, params=None, request_id=1):
    answer = modern(server, method, params, request_id)
    assert answer.status == 200, (answer.status, answer.body)
    found = answer.json()
    assert found["id"] == request_id and "result" in found, found
    return found["result"]


# ---- fixtures
@pytest.fixture
def http_start(backend, tmp_path):  # noqa: F811
    """Starts servers that use the backend; after the test each must end cleanly when it is asked to."""
    servers = []

    def start_one(*args, cwd=tmp_path, program=None, **env):
        server = Server(*args, env=backend.environment(**env), cwd=cwd, program=program)
        servers.append(server)
        return server

    yield start_one
    for server in servers:
        server.stop()


@pytest.fixture
def http(http_start):
    return http_start()


@pytest.fixture
def session(http):
    return Session(http)


def until_gone(backend):  # noqa: F811
    """Waits until no command runs any more, long before one would have ended by itself."""
    wait_for(lambda: not backend.running, 30, "the command ends")
