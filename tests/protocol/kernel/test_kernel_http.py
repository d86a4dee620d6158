# SPDX-License-Identifier: Apache-2.0
"""The kernel's HTTP: requests that it takes or refuses, and clients that misbehave."""

import json
import socket

import pytest

import kernel_peer


@pytest.fixture(scope="module")
def kernel():
    return kernel_peer.shared()


@pytest.fixture(scope="module")
def context(kernel):
    made = kernel.context()
    yield made
    made.delete()


class Raw:
    """A connection on which bytes are written unchanged."""

    def __init__(self, kernel):
        self.sock = socket.create_connection(("127.0.0.1", kernel.port), timeout=60)
        self.file = self.sock.makefile("rb")

    def send(self, *parts):
        for part in parts:
            self.sock.sendall(part.encode() if isinstance(part, str) else part)

    def head(self):
        """(status, headers)"""
        status = self.file.readline().split()
        headers = {}
        while (line := self.file.readline()) not in (b"\r\n", b""):
            name, _, value = line.decode().partition(":")
            headers[name.lower()] = value.strip()
        return (int(status[1]) if status else None), headers

    def answer(self):
        """(status, body) of an answer with a length."""
        status, headers = self.head()
        return status, self.file.read(int(headers["content-length"])).decode()

    def chunks(self):
        while size := int(self.file.readline(), 16):
            yield self.file.read(size)
            assert self.file.readline() == b"\r\n"
        assert self.file.readline() == b"\r\n"

    def closed(self):
        return self.file.read(1) == b""

    def close(self):
        self.file.close()
        self.sock.close()


@pytest.fixture
def raw(kernel):
    connection = Raw(kernel)
    yield connection
    connection.close()


def post(body, *headers, path="/execute", version="HTTP/1.1"):
    body = body if isinstance(body, bytes) else json.dumps(body).encode()
    fields = [f"Content-Length: {len(body)}", *headers]
    return "".join(f"{line}\r\n" for line in [f"POST {path} {version}", "Host: x", *fields, ""]).encode() + body


# ---- routes
def test_health(kernel):
    status, headers, text = kernel.request("GET", "/health")
    assert (status, text) == (200, "OK") and headers["Content-Type"].startswith("text/plain")


@pytest.mark.parametrize("method, path, status", [
    ("GET", "/", 404), ("GET", "/nothing", 404), ("POST", "/contexts/none/restart", 404),
    ("POST", "/contexts/none/interrupt", 404), ("DELETE", "/contexts/none", 404), ("GET", "/execute", 405),
    ("PUT", "/contexts", 405), ("POST", "/health", 405), ("GET", "/contexts/a/b/c", 404),
])
def test_what_is_not_there(kernel, method, path, status):
    got, headers, text = kernel.request(method, path)
    assert got == status and text and headers["Content-Type"].startswith("text/plain")
    if status == 405:
        assert headers["Allow"]


@pytest.mark.parametrize("body, status, said", [
    (b"{", 400, "not JSON"), (b"[1]", 400, "object"), (b"\xff", 400, "not JSON"), (b"[" * 100_000, 400, "not JSON"),
    ({}, 400, "code is missing"), ({"code": 1}, 400, "code must be a string"),
    ({"code": "1", "context_id": "x", "language": "python"}, 400, "Only one of context_id or language can be provided"),
    ({"code": "1", "context_id": "nope"}, 404, "Context nope not found"),
    ({"code": "1", "language": "cobol"}, 400, "it has python and bash and javascript and typescript"),
    ({"code": "1", "language": "r"}, 400, 'there is no language "r" in this sandbox: it has python and bash'),
    ({"code": "1", "language": "java"}, 400, 'there is no language "java" in this sandbox: it has python and bash'),
    ({"code": "1", "language": 3}, 400, "language must be"),
    ({"code": "1", "env_vars": []}, 200, ""), ({"code": "1", "env_vars": [1]}, 400, "env_vars"),
    ({"code": "1", "env_vars": {"A": 1}}, 400, "env_vars"), ({"code": "1", "env_vars": {"A=": "1"}}, 400, "env_vars"),
    ({"code": "1", "env_vars": {"": "1"}}, 400, "env_vars"), ({"code": "1", "env_vars": {"A": "\0"}}, 400, "env_vars"),
    ({"code": "1", "language": "bash", "env_vars": {"a b": "1"}}, 400, "env_vars"),
    ({"code": "a\0b"}, 400, "NUL"), ({"code": "1", "env_vars": None, "context_id": None}, 200, ""),
])
def test_requests_to_execute(kernel, body, status, said):
    body = body if isinstance(body, bytes) else json.dumps(body)
    got, headers, text = kernel.request("POST", "/execute", body)
    assert got == status and said in text
    assert headers["Content-Type"].startswith("application/x-ndjson" if status == 200 else "text/plain")


@pytest.mark.parametrize("body, status, said", [
    ({"cwd": "/no/such/dir"}, 400, "not a directory"), ({"language": "ruby"}, 400, "ruby"), ({"cwd": 1}, 400, "string"),
])
def test_contexts_that_cannot_be(kernel, body, status, said):
    got, _, text = kernel.request("POST", "/contexts", body)
    assert (got, said in text) == (status, True)


def test_a_surrogate_is_refused_or_run(context):
    lines = context.run("'\ud800' == chr(0xd800)")
    assert lines.types[-1] == "end_of_execution"
    assert context.run("1").text == "1"


# ---- bodies and connections
def test_one_line_a_chunk(raw, context):
    raw.send(post({"code": "print('€')\n1", "context_id": context.id}))
    status, headers = raw.head()
    assert (status, headers["transfer-encoding"]) == (200, "chunked")
    chunks = list(raw.chunks())
    assert all(c.endswith(b"\n") and c.count(b"\n") == 1 and json.loads(c) for c in chunks)
    assert json.loads(chunks[-1]) == {"type": "end_of_execution"}


def test_a_chunked_body_in_small_pieces(raw, context):
    body = json.dumps({"code": "6 * 7", "context_id": context.id})
    raw.send("POST /execute?source=x HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
    for i in range(0, len(body), 7):
        part = body[i:i + 7]
        raw.send(f"{len(part):x};ext=1\r", "\n" + part, "\r\n")
    raw.send("0\r\nTrailer: x\r\n", "\r\n")
    assert raw.head()[0] == 200
    assert '"42"' in b"".join(raw.chunks()).decode()


def test_requests_on_one_connection(raw, context):
    raw.send("GET /health HTTP/1.1\r\nHost: x\r\n\r\nGET /nope HTTP/1.1\r\nHost: x\r\n\r\n")
    assert raw.answer() == (200, "OK")
    assert raw.answer()[0] == 404
    for i in range(3):
        raw.send(post({"code": str(i), "context_id": context.id}))
        assert raw.head()[0] == 200 and f'"{i}"'.encode() in b"".join(raw.chunks())
    raw.send("GET /health HTTP/1.1\r\nConnection: close\r\n\r\n")
    assert raw.answer() == (200, "OK") and raw.closed()


def test_connections_are_promised_to_be_kept(raw, context):
    """The daemon's proxy reuses a connection only with that promise."""
    for request in ("GET /health HTTP/1.1\r\nHost: x\r\n\r\n", post({"code": "1", "context_id": context.id})):
        raw.send(request)
        status, headers = raw.head()
        assert status == 200 and int(headers["keep-alive"].removeprefix("timeout=")) >= 60
        body = b"".join(raw.chunks()) if "transfer-encoding" in headers else raw.file.read(2)
        assert body
    raw.send("GET /health HTTP/1.1\r\nConnection: close\r\n\r\n")
    assert "keep-alive" not in raw.head()[1]


def test_expect(raw, context):
    request = post({"code": "1", "context_id": context.id}, "Expect: 100-continue")
    head, _, body = request.partition(b"\r\n\r\n")
    raw.send(head + b"\r\n\r\n")
    assert raw.head()[0] == 100
    raw.send(body)
    assert raw.head()[0] == 200 and list(raw.chunks())


def test_http_1_0(raw, context):
    raw.send(post({"code": "1", "context_id": context.id}, version="HTTP/1.0"))
    status, headers = raw.head()
    assert status == 200 and "transfer-encoding" not in headers
    assert json.loads(raw.file.read().splitlines()[-1]) == {"type": "end_of_execution"}


@pytest.mark.parametrize("request_text, status", [
    ("nonsense\r\n\r\n", 400), ("GET /health\r\n\r\n", 400), ("GET health HTTP/1.1\r\n\r\n", 400),
    ("GET /health HTTP/2.0\r\n\r\n", 505), ("GET /health HTTP/1.1\r\nbad line\r\n\r\n", 400),
    ("GET /health HTTP/1.1\r\nA : b\r\n\r\n", 400), ("GET / HTTP/1.1\r\nX: " + "y" * 40_000 + "\r\n\r\n", 431),
    ("POST /execute HTTP/1.1\r\nContent-Length: x\r\n\r\n", 400),
    ("POST /execute HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 400),
    ("POST /execute HTTP/1.1\r\nContent-Length: 99999999\r\n\r\n", 413),
    ("POST /execute HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400),
    ("POST /execute HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 501),
    ("POST /execute HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\n", 501),
    ("POST /execute HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 400),
    ("POST /execute HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nfffffff\r\n", 413),
    ("POST /execute HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n", 400),
    ("POST /execute HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n" + "1" * 5000, 400),
    ("POST /execute HTTP/1.1\r\nExpect: magic\r\n\r\n", 417),
])
def test_requests_that_are_none(raw, request_text, status):
    raw.send(request_text)
    got, text = raw.answer()
    assert got == status and text
    assert raw.closed()


def test_too_many_connections_are_refused_and_freed(kernel):
    made = [Raw(kernel) for _ in range(80)]
    refused = 0
    try:
        for connection in made:
            connection.send("GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
        for connection in made:
            try:
                refused += connection.answer()[0] == 503
            except (ConnectionError, KeyError):  # closed under what we sent
                refused += 1
    finally:
        for connection in made:
            connection.close()
    assert 16 <= refused < 80

    def served():
        try:
            return kernel.request("GET", "/health")[0] == 200
        except OSError:
            return False

    kernel_peer.wait_for(served, 30, "the next client is served")
