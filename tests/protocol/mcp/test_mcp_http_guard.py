# SPDX-License-Identifier: Apache-2.0
"""Requests over HTTP from attackers and from clients that do not know better. Numbers are those of
reference/mcp.md, section 14.
"""

import json
import os
import socket

import pytest
from harness import wait_for
from mcp_http import (INITIALIZE, Closed, Response, http, http_start, message, modern,  # noqa: F401
                      modern_body, modern_headers, modern_open, request_bytes, send, session, tool)
from mcp_stdio import backend  # noqa: F401

START = message("initialize", {"protocolVersion": "2025-11-25", **INITIALIZE}, 0)


def alive(http):
    """Whether it still serves both eras."""
    assert http.process.poll() is None, http.stderr()
    assert modern(http, "tools/list").status == 200
    assert send(http, body=START).status == 200


# ---- 47: who is asked, and from where
@pytest.mark.parametrize("origin, status", [
    ("http://evil.example", 403), ("null", 403), ("http://localhost.evil.example", 403),
    ("http://evil.example#http://localhost", 403), ("http://localhost@evil.example", 403),
    ("https://127.0.0.1.evil.example:80", 403), ("file://", 403), ("", 403), ("localhost", 403),
    ("http://127.1", 403), ("http://localhost:1234/path", 403),
    ("http://localhost:1234", 200), ("https://localhost", 200), ("http://127.0.0.1:80", 200),
    ("http://[::1]:8080", 200), (None, 200), ("HTTP://LOCALHOST:1", 200)])
def test_origin(http, origin, status):  # 47
    for headers, body in ({}, START), (modern_headers("tools/list"), modern_body("tools/list")):
        assert send(http, headers={**headers, "Origin": origin}, body=body).status == status
    if status == 403:
        for method in "GET", "DELETE", "OPTIONS":
            assert send(http, method, headers={"Origin": origin}).status == 403


@pytest.mark.parametrize("host, status", [
    ("evil.example", 403), ("evil.example:{port}", 403), ("localhost.evil.example", 403), ("127.0.0.2", 403),
    ("localhost:{port}", 200), ("localhost", 200), ("127.0.0.1", 200), ("[::1]:{port}", 200), ("LOCALHOST", 200),
    ("127.0.0.1:1", 200), ("localhost:", 200), ("[::1", 403), ("localhost:x", 403)])
def test_host(http, host, status):  # 47
    answer = send(http, headers={"Host": host.format(port=http.port)}, body=START)
    assert answer.status == status or status == 403 and answer.status == 400


def test_host_is_said_once(http):
    assert send(http, headers={"Host": None}, body=START).status in (400, 403)
    assert send(http, headers={"Host": [http.host, "evil.example"]}, body=START).status in (400, 403)
    assert send(http, headers={"Origin": ["http://localhost", "http://evil.example"]}, body=START).status in (400, 403)
    # ... whatever else is said twice, behind it.
    twice = {"Content-Type": ["application/json", "application/json"]}
    assert send(http, headers=twice, body=START).status == 200
    assert send(http, headers={"Host": [http.host, "evil.example"], **twice}, body=START).status in (400, 403)
    assert send(http, headers={"Origin": ["http://localhost", "http://evil.example"], **twice},
                body=START).status in (400, 403)
    named = modern_headers("tools/list") | {"Mcp-Method": ["tools/list", "tools/call"]}
    assert send(http, headers=named | twice, body=modern_body("tools/list")).status == 400
    # Where HTTP lets the request line name the host, it counts as well.
    assert send(http, path="http://evil.example/mcp", body=START).status in (400, 403, 404)


def test_more_hosts_and_origins(http_start):
    server = http_start("--allow-host", "cubby.example", "--allow-origin", "https://app.example")
    assert send(server, headers={"Host": "cubby.example"}, body=START).status == 200
    assert send(server, headers={"Host": "other.example"}, body=START).status == 403
    answer = send(server, headers={"Origin": "https://app.example"}, body=START)
    assert answer.status == 200
    assert answer.headers["access-control-allow-origin"] == "https://app.example"
    assert "mcp-session-id" in answer.headers["access-control-expose-headers"].lower()
    assert send(server, headers={"Origin": "http://app.example"}, body=START).status == 403
    asked = send(server, "OPTIONS", headers={
        "Origin": "https://app.example", "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "authorization,content-type,mcp-method,mcp-session-id"})
    assert asked.status in (200, 204)
    assert asked.headers["access-control-allow-origin"] == "https://app.example"
    allowed = asked.headers["access-control-allow-headers"].lower()
    assert all(h in allowed for h in ("content-type", "mcp-session-id", "authorization", "mcp-method"))


@pytest.mark.parametrize("headers, path, status", [
    ({"Host": "evil.example"}, "/mcp", 403), ({"Origin": "http://evil.example"}, "/mcp", 403),
    ({}, "/other", 404), ({"Content-Type": "text/plain"}, "/mcp", 415), ({"Accept": "text/html"}, "/mcp", 406)])
def test_refused_before_the_body_comes(http, headers, path, status):
    """A request whose head is reason enough to refuse it cannot send megabytes first."""
    c = http.connect()
    c.request(path=path, headers={**headers, "Content-Length": "1000000"})
    assert c.response().status == status


def test_what_is_refused_says_why(http):
    answer = send(http, headers={"Origin": "http://evil.example"}, body=START)
    assert "origin" in answer.body.decode().lower()
    assert "access-control-allow-origin" not in answer.headers


# ---- limits of a request
def test_large_head(http):
    answer = send(http, headers={"X-Large": "x" * 300000}, body=START)
    assert answer.status == 431
    alive(http)


def test_many_fields(http):
    answer = send(http, headers={f"X-{i}": "y" * 20 for i in range(20000)}, body=START)
    assert answer.status == 431
    alive(http)


def test_long_path(http):
    assert send(http, path="/" + "x" * 300000, body=START).status in (404, 414, 431)
    alive(http)


@pytest.mark.parametrize("headers, body", [
    ({"Content-Length": "-1"}, b""), ({"Content-Length": "1x"}, b"{"), ({"Content-Length": ["2", "3"]}, b"{}x"),
    ({"Content-Length": "18446744073709551617"}, b""), ({"Transfer-Encoding": "nonsense"}, b""),
    ({"Transfer-Encoding": "chunked", "Content-Length": "5"}, b"0\r\n\r\n"),
    ({"Transfer-Encoding": "chunked", "Content-Length": None}, b"xyz\r\n"),
    ({"Transfer-Encoding": "chunked", "Content-Length": None}, b"ffffffffffffffffff\r\n"),
    ({"X": "a\nb: c"}, b"{}"), ({"X\x00": "y"}, b"{}"), ({" X": "y"}, b"{}"), ({"X": "\x00"}, b"{}")])
def test_bad_framing(http, headers, body):
    """A request whose end is unclear is refused, and nothing after it on that connection is read."""
    c = http.connect()
    c.send(request_bytes(http, headers=headers, body=body) +
           request_bytes(http, headers=modern_headers("tools/list"), body=modern_body("tools/list")))
    statuses = []
    try:
        while True:
            answer = c.response(seconds=5)
            statuses.append(answer.status)
            answer.body
    except (Closed, TimeoutError):
        pass
    assert statuses and statuses[0] in (400, 413, 501) and 200 not in statuses
    alive(http)


GARBAGE = [b"\0" * 1000, b"\r\n\r\n\r\n\r\n", b"GET", b"GET /mcp\r\n\r\n", b"POST /mcp HTTP/9.9\r\n\r\n",
           b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"\xff" * 70000,
           b"POST  /mcp HTTP/1.1\r\n\r\n", b"POST /mcp HTTP/1.1\nHost: x\n\n", b'{"jsonrpc":"2.0"}\n',
           b"CONNECT evil.example:80 HTTP/1.1\r\nHost: x\r\n\r\n", b"GET * HTTP/1.1\r\nHost: localhost\r\n\r\n"]


@pytest.mark.parametrize("data", GARBAGE, ids=range(len(GARBAGE)))
def test_garbage(http, data):
    c = http.connect()
    c.send(data)
    c.socket.shutdown(socket.SHUT_WR)
    try:
        while True:
            c.fill(5)
    except (Closed, TimeoutError):
        pass
    assert not c.pending or c.pending.startswith(b"HTTP/1.1 4") or c.pending.startswith(b"HTTP/1.1 5")
    alive(http)


def test_http_1_0(http):
    body = json.dumps(START).encode()
    c = http.connect()
    c.send(request_bytes(http, body=body).replace(b"HTTP/1.1", b"HTTP/1.0", 1))
    answer = c.response()
    assert answer.status == 200 and answer.body
    assert c.closed()


# ---- how it comes
def test_byte_by_byte(http):
    c = http.connect()
    for b in request_bytes(http, headers=modern_headers("tools/list"), body=modern_body("tools/list")):
        c.send(bytes([b]))
    assert c.response().status == 200


def test_pipelined(http):
    """Answers come in the order of their requests, on one connection."""
    c = http.connect()
    c.send(b"".join(request_bytes(http, headers=modern_headers("tools/list"),
                                  body=modern_body("tools/list", request_id=i)) for i in range(20)))
    for i in range(20):
        answer = c.response()
        assert answer.status == 200 and answer.json()["id"] == i


def test_pipelined_behind_a_call_that_runs(session, backend):
    """A request after a call that is not answered yet waits for it, and is not lost."""
    c = session.server.connect()
    call = message("tools/call", tool("run_command", {
        "sandbox_id": backend.sandbox(), "command": "until test -e g; do sleep 0.02; done; echo hi"}), 1)
    c.send(request_bytes(session.server, headers=session.headers(), body=call) +
           request_bytes(session.server, headers=session.headers(), body=message("ping", None, 2)))
    wait_for(lambda: backend.running)
    (backend.files / "g").touch()
    assert c.response().json()["id"] == 1
    assert c.response().json()["id"] == 2


def test_connection_is_kept(http):
    c = http.connect()
    for i in range(50):
        c.request(headers=modern_headers("tools/list"), body=modern_body("tools/list", request_id=i))
        assert c.response().json()["id"] == i
    c.request(headers={**modern_headers("nothing")}, body=modern_body("nothing"))
    assert c.response().error() == (404, -32601)
    c.request(headers={**modern_headers("tools/list"), "Connection": "close"}, body=modern_body("tools/list"))
    assert c.response().json() and c.closed()


def test_expect_continue(http):
    body = json.dumps(START).encode()
    c = http.connect()
    c.send(request_bytes(http, headers={"Expect": "100-continue", "Content-Length": str(len(body))}))
    interim = Response(c, 20, head=True)
    assert interim.status == 100
    c.send(body)
    assert c.response().status == 200


def test_slow_bodies_hold_nobody_up(http):
    """Requests that never end cost a connection each, and time out."""
    slow = [http.connect() for _ in range(50)]
    for c in slow:
        c.request(headers={**modern_headers("tools/list"), "Content-Length": "1000"}, body=b'{"jsonrpc"')
    alive(http)
    for c in slow:
        c.close()
    alive(http)


def test_half_closed(http, backend):
    """A client that has closed its sending side may still wait for its answer."""
    c = modern_open(http, "tools/list")
    c.socket.shutdown(socket.SHUT_WR)
    assert c.response().status == 200


def test_cut_off_at_every_place(http):
    data = request_bytes(http, headers=modern_headers("tools/list"), body=modern_body("tools/list"))
    files = http.descriptors()
    for end in range(0, len(data), 3):
        c = http.connect()
        c.send(data[:end])
        (c.close if end % 2 else c.reset)()
    wait_for(lambda: http.descriptors() <= files, 30, "its descriptors are closed")
    alive(http)


def test_a_reader_that_does_not_read(http, backend):
    """A large answer that is not read waits with its connection and delays no other."""
    (backend.files / "large").write_bytes(b"x" * 20_000)
    sandbox = backend.sandbox()
    lazy = []
    for i in range(20):
        c = http.connect()
        c.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        for k in range(5):
            params = tool("run_command", {"sandbox_id": sandbox, "command": "cat large"}, token=k)
            c.request(headers=modern_headers("tools/call", params), body=modern_body("tools/call", params, k))
        lazy.append(c)
    alive(http)
    for c in lazy:
        c.reset()
    alive(http)


@pytest.mark.parametrize("depth", [100, 1000, 100000])
def test_deep_nesting(http, depth):
    for open_, close in (b"[", b"]"), (b'{"a":', b"}"):
        body = open_ * depth + (b"1" if open_ != b"[" else b"") + close * depth
        answer = send(http, headers=modern_headers("tools/list"), body=body)
        assert answer.status == 400 and answer.json()["error"]["code"] in (-32700, -32600)
    alive(http)


def test_large_body_of_many_values(http):
    body = b'{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"x":[' + b"0," * 1_000_000 + b"0]}}"
    assert send(http, headers=modern_headers("tools/list"), body=body).status == 400
    alive(http)


@pytest.mark.parametrize("count", [249_000, 5_000_000])
def test_memory_of_many_values(http, count):
    """A value of three bytes takes 230: their number is limited, and memory comes back."""
    body = b"[" + b"{}," * count + b"{}]"
    for _ in range(3):
        answer = send(http, headers=modern_headers("tools/list"), body=body)
        assert answer.status == 400
        assert ("more than 250000 values" in answer.json()["error"]["message"]) == (count > 250_000)
    alive(http)
    with open(f"/proc/{http.process.pid}/status") as f:
        peak = int(f.read().split("VmHWM:")[1].split()[0])
    assert os.environ.get("SAN") or (peak < 150 * 1024 and http.resident() < 16 << 20), (peak, http.resident())


@pytest.mark.parametrize("text", [
    '"\\ud800"', '"\\u0000"', "1e400", "-0", "123456789012345678901234567890", '{"a":1,"a":2}', "NaN",
    '"\xff"', "0x10", "[1,]", '"\\x"', "true false"])
def test_odd_values(http, text):  # 80
    body = modern_body("tools/call", tool("run_command", {"sandbox_id": "s", "command": "VALUE"}))
    data = json.dumps(body).replace('"VALUE"', text).encode("latin-1")
    params = body["params"]
    answer = send(http, headers=modern_headers("tools/call", params), body=data)
    assert answer.status in (200, 400)
    found = answer.json()
    assert ("error" in found) != ("result" in found)
    assert answer.status == 200 or found["error"]["code"] in (-32700, -32600)
