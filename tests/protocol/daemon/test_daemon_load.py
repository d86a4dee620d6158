# SPDX-License-Identifier: Apache-2.0
"""The limits of what one client of the daemon can take, so that the others are served."""

import json
import socket
import urllib.parse

import pytest

from cubbyd import Daemon, wait_for
from key_holder import ask, new_key, url
from test_daemon_keys import LISTEN, taken

BODY = 2 << 20  # the most that a create may have
ROOM = 32 << 20
CONTINUE = b"HTTP/1.1 100 "


def with_keys(daemon):
    made = [new_key(daemon, name) for name in ("one", "other", "third")]
    for key in made:
        taken(daemon, key)
    return daemon, made


@pytest.fixture(scope="module")
def shared():
    with Daemon(*LISTEN) as d:
        yield with_keys(d)


@pytest.fixture
def alone():
    """A daemon of its own, in which no other request holds memory."""
    with Daemon(*LISTEN) as d:
        yield with_keys(d)


@pytest.fixture
def daemon(shared):
    return shared[0]


@pytest.fixture
def key(shared):
    return shared[1][0]


def connect(daemon):
    to = urllib.parse.urlsplit(url(daemon))
    return socket.create_connection((to.hostname, to.port), timeout=30)


def declare(daemon, key, length=BODY):
    """Sends the head of a create and not its body; returns the first bytes of the answer."""
    c = connect(daemon)
    size = f"Content-Length: {length}" if length else "Transfer-Encoding: chunked"
    c.sendall(f"POST /sandboxes HTTP/1.1\r\nHost: x\r\nX-API-KEY: {key}\r\nExpect: 100-continue\r\n"
              f"{size}\r\n\r\n".encode())
    return c, c.recv(65536)


def raw(daemon, body, key):
    """Sends without asking whether it may."""
    with connect(daemon) as c:
        c.sendall(f"POST /sandboxes HTTP/1.1\r\nHost: x\r\nX-API-KEY: {key}\r\nConnection: close\r\n"
                  f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
        return b"".join(iter(lambda: c.recv(65536), b""))


# ---- room for bodies
@pytest.mark.parametrize("length", [BODY, None])
def test_a_key_has_half_of_the_room_for_bodies(alone, length):
    daemon, (one, other, third) = alone
    mine = [declare(daemon, one, length) for _ in range(ROOM // 2 // BODY)]
    assert all(told.startswith(CONTINUE) for _, told in mine)
    refused, told = declare(daemon, one, length)
    assert told.startswith(b"HTTP/1.1 429 ") and b"\r\nRetry-After: " in told
    assert b'"error_code":"too_many_bodies"' in told and b"try again in" in told
    made = ask(daemon, "POST", "/v2/sandboxes", {"templateID": "default"}, one)
    assert made.status == 201, "what is small needs no room"
    daemon.kill(made.json["sandboxID"])
    others = [declare(daemon, other, length) for _ in range(ROOM // 2 // BODY)]
    assert all(told.startswith(CONTINUE) for _, told in others)
    full, told = declare(daemon, third, length)
    assert told.startswith(b"HTTP/1.1 429 ")
    for c, _ in [*mine, *others, (refused, None), (full, None)]:
        c.close()

    def has_room():
        c, told = declare(daemon, third, length)
        c.close()
        return told.startswith(CONTINUE)
    wait_for(has_room, 30, "room is there again when those who had it have left")


def test_room_is_given_back_with_the_answer(daemon, key):
    """More requests, one after the other, than fit at once."""
    body = b" " * (BODY - 10) + b'{}'
    for _ in range(ROOM // BODY + 2):
        assert b"templateID is required" in raw(daemon, body, key)
    path = "/sandboxes/nobodys/timeout"
    for _ in range(3):
        answer = ask(daemon, "POST", path, {"timeout": 5, "x": "y" * 60000}, key)
        assert answer.status == 404


# ---- what a create may have
def test_the_largest_create(daemon, key):
    env = {f"V{i}": "\n" * 5000 for i in range(100)}
    body = {"templateID": "default", "envVars": env, "metadata": {"m": "\"" * 60000}}
    assert len(json.dumps(body)) > 1 << 20
    made = ask(daemon, "POST", "/sandboxes", body, key)
    assert made.status == 201
    daemon.kill(made.json["sandboxID"])


def test_a_body_that_is_too_large(daemon, key):
    told = ask(daemon, "POST", "/sandboxes", {"templateID": "default", "x": "y" * BODY}, key)
    assert told.status == 413 and str(BODY) in told.json["message"]


@pytest.mark.parametrize("body, message", [
    (b"[" + b"{}," * 300000 + b"{}]", b"JSON has more than 16384 values"),
    (b"{" + b",".join(b'"k%d":"v"' % i for i in range(16384)) + b"}", b"JSON has more than 16384 values"),
    (b"a" * (BODY - 1), b"a number or word of more than 1024 bytes"),
    (b'"' + b"a" * (BODY - 1), b"its last string is not closed"),
    (b"[" * 100, b"nested more than 64 levels")])
def test_bodies_that_are_no_create(daemon, key, body, message):
    told = raw(daemon, body, key)
    assert told.startswith(b"HTTP/1.1 400 ") and message in told


# ---- many requests at once
def test_pipelining_leaves_turns_for_others(daemon):
    """Fifty clients send all their requests at once, and read nothing before another client was answered."""
    text, end = b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n", b"GET /health HTTP/1.1\r\nConnection: close\r\nHost: x\r\n\r\n"
    greedy = [connect(daemon) for _ in range(50)]
    for c in greedy:
        c.sendall(text * 1000 + end)
    assert ask(daemon, "GET", "/health").status == 200
    for c in greedy:
        answers = b"".join(iter(lambda: c.recv(1 << 20), b""))
        assert answers.count(b"HTTP/1.1 200 OK\r\n") == 1001
        c.close()
