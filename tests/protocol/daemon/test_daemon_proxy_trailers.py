# SPDX-License-Identifier: Apache-2.0
"""cubbyd: trailers after the last chunk of a body, through the proxy, in both directions."""

import pytest

from cubbyd import Guest, read_all, read_head
from cubbyd_fixtures import daemon, made, sandbox, shared  # noqa: F401 (fixtures)

CHUNKED = b"HTTP/1.1 200 OK\r\nTrailer: X-Sum, X-Two\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n"


def ask(daemon, sandbox, serve, head="GET / HTTP/1.1", more="", body=b""):
    """The raw answer of a port that `serve` handles."""
    with Guest(serve) as guest:
        s = daemon.open(sandbox, guest.port, head, "Connection: close\r\n" + more)
        if body:  # else all is said, and the answer may be over already
            s.sendall(body)
        answer = read_all(s)
        s.close()
    return answer


def answering(data):
    def serve(connection):
        read_head(connection)
        connection.sendall(data)
    return serve


def test_of_an_answer(daemon, sandbox):
    answer = ask(daemon, sandbox, answering(CHUNKED + b"X-Sum: abc\r\nx-two: \r\nContent-Length: 5\r\n"
                                            b"Connection: close\r\nSet-Cookie: a=b\r\n\r\n"))
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b"Trailer: X-Sum, X-Two" in head.split(b"\r\n")
    assert body == b"5\r\nhello\r\n0\r\nX-Sum: abc\r\nx-two: \r\n\r\n"


def test_of_an_answer_without_a_body(daemon, sandbox):
    answer = ask(daemon, sandbox, answering(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
                                            b"0\r\nGrpc-Status: 0\r\n\r\n"))
    assert answer.endswith(b"\r\n\r\n0\r\nGrpc-Status: 0\r\n\r\n")


@pytest.mark.parametrize("version, asked", [("1.1", "HEAD"), ("1.0", "GET")])
def test_where_there_are_no_chunks(daemon, sandbox, version, asked):
    data = CHUNKED + b"X-Sum: abc\r\n\r\n" if asked == "GET" else CHUNKED.partition(b"5\r\n")[0]
    answer = ask(daemon, sandbox, answering(data), f"{asked} / HTTP/{version}")
    assert answer.endswith(b"\r\n\r\nhello" if asked == "GET" else b"\r\n\r\n")
    assert b"abc" not in answer


@pytest.mark.parametrize("trailers", [b"A b: c\r\n\r\n", b"A: b\0c\r\n\r\n",
                                      b"A: b\r\n" * 101 + b"\r\n", b"A: " + b"x" * 100_000 + b"\r\n\r\n"],
                         ids=["name", "nul", "many", "long"])
def test_malformed_ones_break_the_answer(daemon, sandbox, trailers):
    answer = ask(daemon, sandbox, answering(CHUNKED + trailers))
    assert answer.endswith(b"5\r\nhello\r\n")


def asked_with(daemon, sandbox, more, body):
    """Head and body as they arrive at the port of a sandbox."""
    got = []

    def serve(connection):
        head, data = read_head(connection)
        while more and b"\r\n\r\n" not in data[data.find(b"0\r\n"):]:
            chunk = connection.recv(65536)
            if not chunk:
                break
            data += chunk
        got.extend([head, data])
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

    answer = ask(daemon, sandbox, serve, "POST / HTTP/1.1", more, body)
    assert answer.startswith(b"HTTP/1.1 200 "), answer
    return got


def test_of_a_request(daemon, made):
    more = "Transfer-Encoding: chunked\r\nTrailer: X-Sum\r\n"
    head, body = asked_with(daemon, made["sandboxID"], more, (
        "5\r\nhello\r\n0\r\nX-Sum: abc\r\nX-API-KEY: key\r\nE2b-Sandbox-Id: x\r\nHost: x\r\n"
        f"X-Access-Token: {made['envdAccessToken']}\r\nE2b-Traffic-Access-Token: x\r\n\r\n").encode())
    assert "Trailer: X-Sum" in head.split("\r\n")
    assert body == b"5\r\nhello\r\n0\r\nX-Sum: abc\r\n\r\n"


@pytest.mark.parametrize("offer, told", [("trailers", True), ("deflate;q=0.5, Trailers", True), ("deflate", False),
                                         ("xtrailers", False)])
def test_that_they_are_taken_is_told(daemon, sandbox, offer, told):
    head, _ = asked_with(daemon, sandbox, f"TE: {offer}\r\nTransfer-Encoding: chunked\r\n", b"0\r\n\r\n")
    assert ("TE: trailers" in head.split("\r\n")) == ("Connection: TE" in head.split("\r\n")) == told
    assert "deflate" not in head
