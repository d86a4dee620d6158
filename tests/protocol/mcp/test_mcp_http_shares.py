# SPDX-License-Identifier: Apache-2.0
"""Everything that is open for a token ends with the token, and one token leaves room for the
others: sessions, event streams, bodies on their way. Also requests that still arrive while the
server ends.
"""

import contextlib
import os
import select
import signal
import threading
import time

import mcp_backend
import pytest
from harness import wait_for
from mcp_http import (Closed, Session, http_start, message, modern, modern_body,  # noqa: F401
                      modern_headers, modern_open, request_bytes, send, tool)
from mcp_stdio import backend  # noqa: F401
from test_mcp_http_auth import START, Tokens, ask, bearer, call, issuer, soon, tokens  # noqa: F401

LISTEN = "subscriptions/listen"


def listen(server, token=None, **kinds):
    answer = modern(server, LISTEN, {"notifications": kinds}, headers=bearer(token) if token else {})
    if answer.status == 200:
        assert answer.message()["method"] == "notifications/subscriptions/acknowledged"
    return answer


def start_session(server, token):
    return send(server, headers=bearer(token), body=START)


# ---- a token that expires
def test_expiry_of_a_files_token_ends_what_is_open(http_start, tokens):
    brief = tokens.new("brief", expires=soon(600))
    server = http_start("--token-file", tokens.path)
    session = Session(server, headers=bearer(brief))
    lasting = Session(server, headers=bearer(tokens.first))
    stream, listening, others = session.get(), listen(server, brief), lasting.get()
    assert listening.status == stream.status == 200
    tokens.change("brief", expires=soon(3))
    assert [m["id"] for m in listening.messages(60)] == [1]  # its last result
    assert stream.messages(60) == []
    tokens.write([{k: v for k, v in t.items() if k != "expires"} for t in tokens.read()])
    wait_for(lambda: ask(server, brief).status == 200, what="the token is good again")
    assert session.post(message("ping", None, 1)).status == 404  # its session is not
    assert lasting.call("ping")["result"] == {} and not others.done


def test_expiry_of_an_oauth_token_ends_streams(http_start, issuer, backend):
    """The session belongs to the subject and goes on with the next token, as does a call that has begun."""
    server = http_start("--oauth-issuer", issuer.url)
    now = int(time.time())
    brief, fresh = issuer.token(server.url, exp=now - 45), issuer.token(server.url, exp=now + 300)  # 60 s of leeway
    session = Session(server, headers=bearer(brief))
    stream, listening, lasting = session.get(), listen(server, brief), listen(server, fresh)
    made = call(server, fresh, "create_sandbox")["structuredContent"]["sandbox_id"]
    run = tool("run_command", {"sandbox_id": made, "command": "until test -e gate; do sleep 0.02; done"})
    running = modern_open(server, "tools/call", run, headers=bearer(brief))
    wait_for(lambda: backend.running)
    assert [m["id"] for m in listening.messages(60)] == [1]
    assert stream.messages(60) == []
    assert ask(server, brief).status == 401
    assert session.post(message("ping", None, 1), Authorization=f"Bearer {fresh}").status == 200
    assert session.get(Authorization=f"Bearer {fresh}").status == 200
    (backend.files / "gate").touch()
    assert running.response().json()["result"]["structuredContent"]["exit_code"] == 0
    assert not lasting.done


# ---- what is shared
@pytest.fixture
def pair(tokens):
    return tokens.first, tokens.new("second")


def test_one_token_leaves_sessions_for_others(http_start, tokens, pair):
    server = http_start("--token-file", tokens.path, "--max-sessions", "4")
    one, other = pair
    mine = [start_session(server, one) for _ in range(3)]
    assert [a.status for a in mine] == [200, 200, 429] and mine[2].headers["retry-after"]
    assert [start_session(server, other).status for _ in range(3)] == [200, 200, 429]
    gone = send(server, "DELETE", headers={**bearer(one), "Mcp-Session-Id": mine[0].headers["mcp-session-id"]})
    assert gone.status == 204 and start_session(server, other).status == 429
    assert start_session(server, one).status == 200


def test_one_token_leaves_streams_for_others(http_start, tokens, pair):
    server = http_start("--token-file", tokens.path, "--max-streams", "4")
    one, other = pair
    streams = [listen(server, one) for _ in range(3)]
    assert [s.status for s in streams] == [200, 200, 429]
    assert Session(server, headers=bearer(one)).get().status == 429
    others = [Session(server, headers=bearer(other)).get() for _ in range(2)]
    assert [s.status for s in others] == [200, 200]
    streams[0].connection.close()
    wait_for(lambda: listen(server, one).status == 200, 30, "there is room again")


def declare(server, token, size):
    """Sends a head that announces a body of that size, and a little of the body."""
    c = server.connect()
    fields = {**modern_headers("tools/list"), **bearer(token), "Content-Length": str(size)}
    c.send(request_bytes(server, headers=fields, body=b"{", length=False))
    return c


def is_refused(connection):
    try:
        answer = connection.response(0.3)
    except TimeoutError:
        return False
    assert answer.status == 429 and answer.headers["retry-after"]
    return True


def test_one_token_leaves_room_for_bodies(http_start, tokens, pair):
    """A token has 128 of the 256 MiB."""
    server = http_start("--token-file", tokens.path)
    one, other = pair
    held = [declare(server, one, 16 << 20) for _ in range(8)]
    wait_for(lambda: is_refused(declare(server, one, 16 << 20)), what="it has its share")
    assert ask(server, one).status == 200  # small ones are not counted
    assert not is_refused(declare(server, other, 16 << 20))
    held[0].close()
    wait_for(lambda: not is_refused(declare(server, one, 1 << 20)), what="what was given up is free")


def test_one_token_leaves_room_for_calls(http_start, tokens, pair, backend):
    """A call's message stays in memory until the answer: 150 KB of empty arrays take 10 MB there."""
    server = http_start("--token-file", tokens.path)
    one, other = pair
    made = call(server, one, "create_sandbox")["structuredContent"]["sandbox_id"]
    large = {**tool("run_command", {"sandbox_id": made, "timeout": 600,
                                    "command": "until test -e gate; do sleep 0.1; done"}), "junk": [[]] * 52_000}
    running, answer = [], None
    while not answer:
        at = modern_open(server, "tools/call", large, headers=bearer(one))
        wait_for(lambda: len(backend.running) > len(running) or select.select([at.socket], [], [], 0)[0])
        if len(backend.running) > len(running):
            running.append(at)
            assert len(running) < 20
        else:
            answer = at.response()
    assert answer.status == 429 and answer.headers["retry-after"]
    assert len(running) >= 10  # of 128 MiB
    assert ask(server, one).status == 200  # small ones are not counted
    assert modern(server, "tools/list", {"junk": large["junk"]}, headers=bearer(other)).status == 200
    (backend.files / "gate").touch()
    assert [c.response().json()["result"]["structuredContent"]["exit_code"] for c in running] == [0] * len(running)
    assert modern(server, "tools/list", {"junk": large["junk"]}, headers=bearer(one)).status == 200


@pytest.mark.skipif(bool(os.environ.get("SAN")), reason="a sanitizer keeps what was freed")
def test_what_a_listen_says_is_not_kept(http_start):
    """The request lasts long, and its message is used only once."""
    server = http_start()
    wanted = {"notifications": {}, "junk": "y" * (2 << 20)}

    def begin(count):
        streams = [modern(server, LISTEN, wanted) for _ in range(count)]
        assert all(s.message()["method"] == "notifications/subscriptions/acknowledged" for s in streams)
        return streams

    kept = begin(3)
    before = server.resident()
    kept += begin(12)
    assert server.resident() - before < 12 << 20  # not 24 MB
    assert not any(s.done for s in kept)


def test_a_listen_that_was_accepted_has_its_stream(http_start, backend, monkeypatch):
    """Even if its acknowledgement waits for a source, and another listen comes meanwhile."""
    server = http_start("--max-streams", "1")
    gate = threading.Event()

    def slow(handler, begin=mcp_backend.Handler.nothing_changes):
        gate.wait(60)
        yield from begin(handler)

    monkeypatch.setattr(mcp_backend.Handler, "nothing_changes", slow)
    uri = f"sandbox://{backend.sandbox()}/tmp/x"
    first = modern_open(server, LISTEN, {"notifications": {"resourceSubscriptions": [uri]}})
    answer = first.response(30)  # its head comes before the gate opens
    assert answer.status == 200
    assert modern(server, LISTEN, {"notifications": {}}).status == 429
    gate.set()
    assert answer.message(60)["method"] == "notifications/subscriptions/acknowledged"


# ---- calls a minute
def test_calls_over_the_rate_are_not_even_read(http_start, tokens):
    slow = tokens.new("slow", calls_per_minute=2)
    server = http_start("--token-file", tokens.path)
    assert [ask(server, slow).status for _ in range(2)] == [200, 200]
    c = declare(server, slow, 1 << 20)
    answer = c.response(60)  # of the head alone
    assert answer.status == 429 and int(answer.headers["retry-after"]) > 0
    assert send(server, headers={**bearer(slow), **modern_headers("x")}, body=b"rubbish").status == 429


def test_notifications_are_no_calls(http_start, tokens):
    slow = tokens.new("slow", calls_per_minute=2)
    server = http_start("--token-file", tokens.path)
    session = Session(server, headers=bearer(slow))  # one call, one notification
    statuses = [session.post(message("notifications/x")).status for _ in range(4)]
    assert statuses == [202] * 4
    assert session.post(message("ping", None, 1)).status == 200
    assert session.post(message("ping", None, 1)).status == 429
    assert [session.post(message("notifications/x")).status for _ in range(2)] == [429] * 2  # four times as many POSTs


# ---- the end
def begin_call(server, headers, body):
    """Sends a request without its last byte; returns that byte with the connection."""
    c = server.connect()
    data = request_bytes(server, headers=headers, body=body)
    c.send(data[:-1])
    return c, data[-1:]


def is_ending(server):
    return modern(server, "tools/list").status == 503


def end_with_late_bodies(http_start, backend, gate):
    """Returns whether the server ended without being cut short, which may happen on a busy machine."""
    server = http_start()
    session = Session(server)
    call = tool("create_sandbox")
    late = [begin_call(server, modern_headers("tools/call", call), modern_body("tools/call", call)),
            begin_call(server, session.headers(), message("tools/call", call, 1)),
            begin_call(server, {}, START)]
    stuck = modern_open(server, "tools/call", tool("run_command", {"sandbox_id": backend.sandbox(), "command": "sleep 100"}))
    wait_for(lambda: backend.running)
    server.process.send_signal(signal.SIGTERM)
    statuses = []
    with contextlib.suppress(OSError, Closed):  # the server was faster: see below
        wait_for(lambda: is_ending(server), 30, "it ends, and a call winds down")
        for c, last in late:
            c.send(last)
            statuses.append(c.response().status)
    gate.set()
    server.stop()
    stuck.close()
    assert not backend.created
    assert set(statuses) <= {503}
    return len(statuses) == len(late) and "exit.forced" not in server.stderr()


def test_what_was_begun_before_the_end_is_refused(http_start, backend, monkeypatch):
    """The head came before SIGTERM, the body when calls were being stopped: no call is begun. That
    phase lasts 1.5 s, which a busy machine may use up."""
    gate = threading.Event()
    monkeypatch.setattr(mcp_backend, "kill", lambda process, do=mcp_backend.kill: (gate.wait(20), do(process)))
    for _ in range(5):
        gate.clear()
        if end_with_late_bodies(http_start, backend, gate):
            return
        wait_for(lambda: not backend.running, what="the command is killed")
    raise AssertionError("it never came to its end by itself")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_while_it_ends_change_nothing(http_start, number):
    """The last moments of a process are short, so the test needs many signals and several tries."""
    for _ in range(20):
        server = http_start()
        listen(server)
        while server.process.poll() is None:
            for _ in range(20):
                os.kill(server.process.pid, number)
        assert server.process.returncode == 0
