# SPDX-License-Identifier: Apache-2.0
"""cubby-mcp on a pipe, for tests that look at each line, and fixtures with a backend behind it."""

import contextlib
import json
import os
import tempfile
import types

import pytest

from harness import Mcp, text_of
from mcp_backend import Backend

META = {"io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {}}


class Stdio(Mcp):
    """Every line from the server must be a JSON-RPC object or array; the exit must be a clean one."""

    def __init__(self, *args, env=None, cwd=None, program=None):
        self.errors = tempfile.TemporaryFile()
        home = types.SimpleNamespace(env=env or dict(os.environ))
        super().__init__(home, *args, cwd=cwd, program=program, stderr=self.errors)

    def raw(self, data):
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def line(self, seconds=60):
        """The next message of any kind."""
        line = self.lines.get(timeout=seconds)
        assert line is not None, "the server ended: " + self.stderr()
        assert line.endswith(b"\n")
        message = json.loads(line)
        for one in message if isinstance(message, list) else [message]:
            assert one["jsonrpc"] == "2.0"
            assert "id" not in one or one["id"] is not None
            assert not ("id" in one and "method" in one), "the server asks nothing"
        return message

    def call(self, method, params=None, request_id=None):
        """Sends a request, and returns the whole answer, which must be the next message."""
        message = {"jsonrpc": "2.0", "id": 1 if request_id is None else request_id, "method": method}
        if params is not None:
            message["params"] = params
        self.send(message)
        answer = self.line()
        assert answer["id"] == message["id"] and type(answer["id"]) is type(message["id"])
        return answer

    def modern(self, method, request_id=None, meta=META, **params):
        return self.call(method, {**params, "_meta": meta}, request_id)

    def silent(self, meanwhile=None):
        """Checks that no message came so far: the next answer is that of this ping."""
        assert self.call("ping", request_id="nothing before this")["result"] == {}

    def result(self, name, /, **arguments):
        """A tool's whole result."""
        answer = self.answer(self.start_tool(name, **arguments))
        assert "error" not in answer, answer
        return answer["result"]

    def text(self, name, /, **arguments):
        """The text of a result that is not an error."""
        result = self.result(name, **arguments)
        assert not result.get("isError"), result
        return text_of(result)

    def error(self, name, /, **arguments):
        """The text of a result that is an error."""
        result = self.result(name, **arguments)
        assert result.get("isError") is True, result
        return text_of(result)

    def stderr(self):
        self.errors.seek(0)
        return self.errors.read().decode(errors="replace")

    def finish(self):
        """Closes stdin: the server must end by itself, and cleanly. Its own limit is 1.5 s; a busy
        machine and a sanitizer's leak check may take longer."""
        if self.process.returncode is None:
            self.process.stdin.close()
        assert self.process.wait(60) == 0, self.stderr()


@contextlib.contextmanager
def servers_with(backend, directory):
    """Gives a function that starts servers that use the backend; each is ended after the block."""
    servers = []

    def start_one(*args, version="2025-11-25", cwd=directory, program=None, **env):
        server = Stdio(*args, env=backend.environment(**env), cwd=cwd, program=program)
        servers.append(server)
        if version:
            server.initialize(version)
        return server

    yield start_one
    for server in servers:
        server.finish()


@pytest.fixture
def backend():
    b = Backend()
    yield b
    b.close()


@pytest.fixture
def start(backend, tmp_path):
    with servers_with(backend, tmp_path) as start_one:
        yield start_one


@pytest.fixture
def server(start):
    return start()


@pytest.fixture
def fresh(start):
    """A server that has received no message yet."""
    return start(version=None)
