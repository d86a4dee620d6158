# SPDX-License-Identifier: Apache-2.0
"""The handshake era over HTTP. Numbers are those of reference/mcp.md, section 14."""

import json
import os
import threading

import pytest
from harness import wait_for
from mcp_http import (INITIALIZE, Session, http, http_start, message, send, session,  # noqa: F401
                      tool, until_gone)
from mcp_stdio import backend  # noqa: F401

HANDSHAKES = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"]
LIST = message("tools/list", None, 1)


def run(backend, command, token=None, request_id=1):
    return message("tools/call", tool("run_command", {"sandbox_id": backend.sandbox(),
                                                      "command": command}, token), request_id)


def gate(backend, name="gate"):
    """A command that prints "first", waits for `gate_open`, prints "last"; returns the command line."""
    return f"echo first; until test -e {name}; do sleep 0.02; done; echo last"


def gate_open(backend, name="gate"):
    (backend.files / name).touch()


# ---- 39 to 43: sessions
@pytest.mark.parametrize("version", HANDSHAKES)
def test_initialize(http, version):  # 39
    s = Session(http, version, initialized=False)
    assert s.answer.headers["content-type"].split(";")[0] == "application/json"
    assert s.result["protocolVersion"] == version
    assert s.result["serverInfo"]["name"] == "cubby" and "tools" in s.result["capabilities"]
    assert not {"resultType", "ttlMs", "cacheScope"} & set(s.result)
    assert all(0x21 <= ord(c) <= 0x7e for c in s.id)


def test_session_ids_are_random(http):  # 39
    ids = {Session(http, initialized=False).id for _ in range(20)}
    assert len(ids) == 20
    assert all(len(i) >= 22 for i in ids)  # 128 bits, at 6 a character
    assert all(len({i[place] for i in ids}) > 1 for place in range(22))


@pytest.mark.parametrize("version", ["1999-01-01", "2026-07-28", "1.0.0"])
def test_initialize_with_another_version(http, version):
    answer = send(http, body=message("initialize", {"protocolVersion": version, **INITIALIZE}, 0))
    assert answer.status == 200
    assert answer.json()["result"]["protocolVersion"] == "2025-11-25"


def test_initialize_that_fails_opens_nothing(http):
    answer = send(http, body=message("initialize", {}, 3))
    found = answer.json()
    assert answer.status == 200 and found["error"]["code"] == -32602 and found["id"] == 3
    assert "mcp-session-id" not in answer.headers


def test_notifications_are_accepted(session):  # 40
    for method in "notifications/initialized", "notifications/nothing":
        answer = session.post(message(method))
        assert answer.status == 202 and answer.body == b""
        assert "content-type" not in answer.headers


def test_no_session(http):  # 41
    assert send(http, body=LIST).error() == (400, -32600)
    assert send(http, body=LIST, headers={"Mcp-Session-Id": "bogus"}).status == 404
    assert send(http, body=LIST, headers={"Mcp-Session-Id": ""}).status in (400, 404)
    assert send(http, body=message("notifications/initialized")).status == 400


def test_delete(session):  # 41
    assert session.delete().status == 204
    assert session.post(LIST).status == 404
    assert session.get().status == 404
    assert session.delete().status == 404
    assert send(session.server, "DELETE").status == 400
    Session(session.server)


def test_delete_ends_what_runs(session, backend):
    """Requests are in flight when their session ends: their exchanges end, and so do their commands."""
    running = session.open(run(backend, "echo; sleep 100", token=1)).response()
    idle = session.get()
    silent = session.open(run(backend, "sleep 101", request_id=2))
    wait_for(lambda: len(backend.running) == 2)
    assert session.delete().status == 204
    assert all("method" in m for m in running.messages())
    assert idle.messages() == []
    assert silent.response().status == 202
    until_gone(backend)


@pytest.mark.parametrize("version, status", [
    ("1.0", 400), ("1999-01-01", 400), ("2025-06-18", 200), ("2024-11-05", 200), (None, 200), ("", 400)])
def test_version_header(session, version, status):  # 42
    assert session.post(LIST, MCP_Protocol_Version=version).status == status


def test_version_header_is_checked_before_the_era_is_known(http):
    answer = send(http, headers={"MCP-Protocol-Version": "2026-07-28"},
                  body=message("initialize", {"protocolVersion": "2025-11-25", **INITIALIZE}, 0))
    assert answer.status == 400 and answer.json()["error"]["code"] in (-32020, -32602)


def test_unknown_method(session):  # 43
    answer = session.call("nothing")
    assert answer["error"]["code"] == -32601


@pytest.mark.parametrize("request_id", [0, "", "x", 2**53 + 1, -1])
def test_ids_come_back_as_they_are(session, request_id):
    assert session.call("ping", request_id=request_id)["result"] == {}


def test_legacy_answers_have_nothing_of_the_other_era(session):
    result = session.call("tools/list")["result"]
    assert not {"resultType", "ttlMs", "cacheScope", "_meta"} & set(result)
    assert session.call("tools/list", {"cursor": "bogus"})["error"]["code"] == -32602


# ---- 44 to 46: what a request must look like
@pytest.mark.parametrize("kind, status", [
    ("text/plain", 415), (None, 415), ("application/jsonx", 415), ("application/json; charset=utf-8", 200),
    ("Application/JSON", 200), ("application/json;charset=UTF-8", 200), ("multipart/form-data", 415)])
def test_content_type(session, kind, status):  # 44
    assert session.post(LIST, Content_Type=kind).status == status


@pytest.mark.parametrize("accept, status", [
    ("application/json", 406), ("text/event-stream", 406), ("text/html", 406), ("*/*", 200), ("", 406),
    ("application/*, text/*", 200), ("APPLICATION/JSON, Text/Event-Stream", 200),
    ("application/json;q=0.9, text/event-stream;q=0.1", 200), ("text/event-stream,application/json", 200),
    ("application/json, */*;q=0.1", 200)])
def test_accept(session, accept, status):  # 44
    assert session.post(LIST, Accept=accept).status == status


@pytest.mark.parametrize("body", [b"{", b"", b"\xff", b"[", b"{}x", b'{"jsonrpc":"2.0","id":1'])
def test_not_json(session, body):  # 44
    answer = session.post(body)
    assert answer.error() == (400, -32700)
    assert "id" not in answer.json()


@pytest.mark.parametrize("body", [
    b"1", b'"x"', b"null", b"{}", b'{"jsonrpc":"1.0","id":1,"method":"ping"}',
    b'{"jsonrpc":"2.0","id":null,"method":"ping"}', b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}',
    b'{"jsonrpc":"2.0","id":[],"method":"ping"}', b'{"jsonrpc":"2.0","id":1,"method":7}'])
def test_not_json_rpc(session, body):
    assert session.post(body).error() == (400, -32600)


@pytest.mark.parametrize("version", ["2025-06-18", "2025-11-25"])
def test_batch_where_there_are_none(http, version):  # 45
    s = Session(http, version)
    assert s.post([LIST]).error() == (400, -32600)
    assert s.post([]).error() == (400, -32600)


def test_batch(http, backend):  # 45
    s = Session(http, "2025-03-26")
    ping = [message("ping", None, "a"), message("ping", None, "b")]
    answer = s.post(ping)
    assert answer.status == 200
    assert sorted(a["id"] for a in answer.json()) == ["a", "b"]
    answer = s.post([message("notifications/initialized")])
    assert answer.status == 202 and answer.body == b""
    answer = s.post([ping[0], message("notifications/initialized"), run(backend, "echo hi")])
    found = {a["id"]: a for a in answer.json()}
    assert found["a"]["result"] == {} and found[1]["result"]["content"]
    assert s.post([]).error() == (400, -32600)
    answer = s.post([message("initialize", {"protocolVersion": "2025-03-26", **INITIALIZE}, 1)])
    assert answer.error() == (400, -32600)


def test_batch_with_initialize_and_no_session(http):  # 45
    answer = send(http, body=[message("initialize", {"protocolVersion": "2025-03-26", **INITIALIZE}, 1)])
    assert answer.status == 400 and "mcp-session-id" not in answer.headers


@pytest.mark.parametrize("method", ["PUT", "PATCH", "OPTIONS"])
def test_method(http, method):  # 46
    answer = send(http, method)
    assert answer.status == 405
    assert {m.strip() for m in answer.headers["allow"].split(",")} >= {"GET", "POST", "DELETE"}


@pytest.mark.parametrize("path", ["/", "/other", "/mcp/x", "/mcpx", "/.well-known/oauth-protected-resource",
                                  "/.well-known/oauth-authorization-server", "/sse"])
def test_path(http, path):  # 46
    for method in "GET", "POST":
        assert send(http, method, path, body=LIST if method == "POST" else None).status == 404


def test_path_with_a_query(http):
    assert send(http, path="/mcp?x=1", body=message(
        "initialize", {"protocolVersion": "2025-11-25", **INITIALIZE}, 0)).status == 200


def test_oversized_body(http_start):  # 46
    server = http_start("--max-body-bytes", "2048")
    s = Session(server)
    fits = json.dumps(LIST).encode()
    assert s.post(fits + b" " * (2048 - len(fits))).status == 200
    answer = s.post(fits + b" " * (2049 - len(fits)))
    assert answer.status == 413
    # It is told before the body came, so nobody sends it in vain.
    c = server.connect()
    c.request(headers=s.headers(Content_Length=str(10**9)), body=b"{")
    assert c.response().status == 413
    c = server.connect()
    c.request(headers=s.headers(Transfer_Encoding="chunked", Content_Length=None),
              body=b"1000\r\n" + b" " * 4096 + b"\r\n")
    assert c.response().status == 413


def test_chunked_body(session):
    data = json.dumps(LIST).encode()
    chunks = b"".join(b"%x\r\n%b\r\n" % (len(data[i:i + 7]), data[i:i + 7]) for i in range(0, len(data), 7))
    answer = session.server.connect().request(
        headers=session.headers(Transfer_Encoding="chunked", Content_Length=None),
        body=chunks + b"0\r\n\r\n").response()
    assert answer.status == 200 and answer.json()["result"]["tools"]


# ---- 48: the standalone stream
def test_get(session):  # 48
    stream = session.get()
    assert stream.status == 200
    assert stream.headers["content-type"].split(";")[0] == "text/event-stream"
    assert "no-cache" in stream.headers["cache-control"]
    assert session.get().status == 409
    assert session.get(Accept="application/json").status == 406
    assert session.get(Accept="*/*").status == 409
    # Others are as free as before.
    other = Session(session.server)
    assert other.get().status == 200
    assert session.call("ping")["result"] == {}


def test_get_without_session(http):  # 48
    headers = {"Accept": "text/event-stream"}
    assert send(http, "GET", headers=headers).status == 400
    assert send(http, "GET", headers={**headers, "Mcp-Session-Id": "bogus"}).status == 404


def test_get_again_after_it_was_left(session):
    """A client that lost its stream soon gets a new one."""
    session.get().connection.reset()
    streams = []

    def again():
        streams.append(session.get())
        return streams[-1].status == 200

    wait_for(again, 30, "the stream is free again")
    assert session.get().status == 409


def test_get_is_kept_alive_and_ends_with_the_server(http):
    s = Session(http)
    stream = s.get()
    http.stop()
    assert all(e.data in (None, "") for e in stream.events())
    assert stream.connection.closed()


# ---- 49 to 53: answers that are streams
def test_progress(http, backend):  # 49
    s = Session(http, "2025-11-25")
    answer = s.open(run(backend, gate(backend), token=7)).response()
    assert answer.status == 200
    assert answer.headers["content-type"].split(";")[0] == "text/event-stream"
    assert "no-cache" in answer.headers["cache-control"]
    first = answer.event()
    assert first.id and first.data == "" and first.retry > 0
    events = []
    while True:
        events.append(answer.event())
        assert events[-1].name in (None, "message") and "\n" not in events[-1].data
        if "result" in events[-1].json():
            break
        gate_open(backend)
    assert answer.event() is None
    ids = [first.id] + [e.id for e in events]
    assert None not in ids and len(set(ids)) == len(ids)
    found = [e.json() for e in events]
    progress = [m["params"] for m in found[:-1]]
    assert all(m["method"] == "notifications/progress" for m in found[:-1])
    assert progress and all(p["progressToken"] == 7 for p in progress)
    values = [p["progress"] for p in progress]
    assert values == sorted(set(values))
    assert found[-1]["id"] == 1
    assert found[-1]["result"]["structuredContent"]["stdout"] == "first\nlast\n"


@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26", "2025-06-18"])
def test_no_priming_before_2025_11_25(http, backend, version):  # 50
    s = Session(http, version)
    answer = s.post(run(backend, "sleep 1.2; echo hi", token="t"))
    events = answer.events()
    assert all(e.data for e in events if not e.comments)
    assert "result" in events[-1].json()


def test_without_a_token_the_answer_is_json(session, backend):
    answer = session.post(run(backend, "sleep 1.2"))
    assert answer.status == 200 and answer.json()["result"]["structuredContent"]["exit_code"] == 0


def test_an_answer_at_once_needs_no_stream(session):
    """A stream costs a client more: an answer that is ready at once is JSON, whatever the client accepts."""
    for params in None, {"_meta": {"progressToken": 5}}:
        answer = session.post(message("ping", params, 1))
        assert answer.headers["content-type"].split(";")[0] == "application/json"


def test_resumption(session, backend):  # 51
    answer = session.open(run(backend, gate(backend), token=1)).response()
    first = answer.event()
    wait_for(lambda: backend.running)
    # Something of another stream, which must not come along.
    other = session.open(run(backend, "echo other", token=2, request_id=2)).response()
    assert other.messages()[-1]["id"] == 2
    answer.connection.reset()
    gate_open(backend)
    again = session.get(last=first.id)
    assert again.status == 200
    found = again.messages()
    assert found[-1]["id"] == 1
    assert found[-1]["result"]["structuredContent"]["stdout"] == "first\nlast\n"
    assert all(m["params"]["progressToken"] == 1 for m in found[:-1])
    assert len(backend.started) == 2


def test_resumption_when_all_was_said(session, backend):  # 51
    answer = session.post(run(backend, gate(backend), token=1))
    first = answer.event()
    gate_open(backend)
    events = answer.events()
    assert "result" in events[-1].json()
    again = session.get(last=first.id)
    assert [e.json() for e in again.events() if e.data] == [e.json() for e in events if e.data]
    # After the last one nothing is left, and that is said at once.
    nothing = session.get(last=events[-1].id)
    assert nothing.status == 200 and nothing.messages() == []


def test_resumption_in_the_middle(session, backend):  # 51
    answer = session.post(run(backend, gate(backend), token=1))
    answer.event()
    middle = answer.event()
    assert middle.json()["method"] == "notifications/progress"
    gate_open(backend)
    rest = [e.json() for e in answer.events()]
    again = session.get(last=middle.id)
    assert [e.json() for e in again.events() if e.data] == rest


@pytest.mark.parametrize("last", ["nothing", "0.0", "9999.1", "1.99999999999999999999", "-1", " ", "a.b.c"])
def test_resumption_of_what_never_was(session, last):  # 51
    assert session.get(last=last).status in (400, 404)


def test_events_are_of_their_session(session, backend):  # 51
    answer = session.post(run(backend, "echo secret", token=1))
    first = answer.event()
    answer.messages()
    other = Session(session.server)
    stolen = other.get(last=first.id)
    assert stolen.status in (400, 404)


def test_a_dropped_connection_cancels_nothing(session, backend):  # 51
    for token in None, 1:
        gone = session.open(run(backend, "until rm go 2>/dev/null; do sleep 0.02; done; echo done >> done", token=token))
        wait_for(lambda: backend.running)
        gone.reset()
        # When this is answered, the server has seen the reset.
        assert session.post(message("notifications/cancelled", {"requestId": 99})).status == 202
        (backend.files / "go").touch()
        wait_for(lambda: not backend.running)
    assert (backend.files / "done").read_text() == "done\ndone\n"


def test_cancelled(session, backend):  # 52
    running = session.open(run(backend, "sleep 100", request_id=5))
    wait_for(lambda: backend.running)
    assert session.post(message("notifications/cancelled", {"requestId": 5, "reason": "no"})).status == 202
    answer = running.response()
    assert answer.status == 202 and answer.body == b""
    until_gone(backend)


def test_cancelled_while_it_streams(session, backend):  # 52
    answer = session.post(run(backend, "echo first; sleep 100", token=1, request_id=5))
    while not answer.message():
        pass
    assert session.post(message("notifications/cancelled", {"requestId": 5})).status == 202
    assert all(m["method"] == "notifications/progress" for m in answer.messages())
    until_gone(backend)


def test_cancelled_of_another_session(session, backend):  # 52
    other = Session(session.server)
    running = session.open(run(backend, gate(backend), request_id=5))
    wait_for(lambda: backend.running)
    assert other.post(message("notifications/cancelled", {"requestId": 5})).status == 202
    assert other.call("ping")["result"] == {}
    gate_open(backend)
    assert running.response().json()["result"]["structuredContent"]["exit_code"] == 0


def test_cancelled_when_nothing_runs(session):
    for params in {"requestId": 77}, {}, {"requestId": []}:
        assert session.post(message("notifications/cancelled", params)).status == 202
    assert session.call("ping")["result"] == {}


@pytest.mark.parametrize("token", [None, True])
def test_two_at_once(session, backend, token):  # 53
    streams = [session.open(run(backend, f"{gate(backend, f'gate{i}')}; echo {i}", request_id=i,
                                token=token and f"t{i}")) for i in (1, 2)]
    wait_for(lambda: len(backend.running) == 2)
    for i in (2, 1):  # the later one first
        gate_open(backend, f"gate{i}")
        answer = streams[i - 1].response()
        found = answer.messages()[-1] if token else answer.json()
        assert found["id"] == i and found["result"]["structuredContent"]["stdout"].endswith(f"last\n{i}\n")


def test_the_same_id_in_two_sessions(http, backend):
    sessions = [Session(http) for _ in range(3)]
    running = [s.open(run(backend, f"echo {i}", request_id=1)) for i, s in enumerate(sessions)]
    for i, c in enumerate(running):
        found = c.response().json()
        assert found["id"] == 1 and found["result"]["structuredContent"]["stdout"] == f"{i}\n"


def test_responses_of_the_client_are_accepted(session):
    """Even responses to no request."""
    answer = session.post({"jsonrpc": "2.0", "id": 99, "result": {}})
    assert answer.status == 202 and answer.body == b""


# ---- limits
def test_too_many_sessions(http_start):
    """Past the limit a new session is refused while the others are in use."""
    server = http_start("--max-sessions", "3")
    sessions = [Session(server) for _ in range(3)]
    answer = send(server, body=message("initialize", {"protocolVersion": "2025-11-25", **INITIALIZE}, 0))
    assert answer.status == 429 and answer.json()["error"]["message"]
    assert "mcp-session-id" not in answer.headers
    assert all(s.call("ping")["result"] == {} for s in sessions)
    assert sessions[0].delete().status == 204
    Session(server)


def test_too_many_streams(http_start):
    server = http_start("--max-streams", "2")
    sessions = [Session(server) for _ in range(3)]
    streams = [s.get() for s in sessions]
    assert [s.status for s in streams] == [200, 200, 429]
    streams[0].connection.reset()
    wait_for(lambda: sessions[2].get().status == 200, 30, "a stream that was left makes room")


def test_who_comes_back_needs_no_room(http_start, backend):
    """The stream of a client that comes back takes the room of the connection that it lost or finished."""
    server = http_start("--max-streams", "1")
    session, other = Session(server), Session(server)
    answer = session.open(run(backend, gate(backend), token=1)).response()
    first = answer.event()
    wait_for(lambda: backend.running)
    assert other.get().status == 429
    again = session.get(last=first.id)
    assert again.status == 200 and answer.events() is not None  # taken over: the first one ends
    gate_open(backend)
    assert again.messages()[-1]["id"] == 1
    taken = other.get()
    assert taken.status == 200 and session.get().status == 429
    assert session.get(last=first.id).messages()[-1]["id"] == 1


@pytest.mark.skipif(bool(os.environ.get("SAN")), reason="a sanitizer keeps what was freed")
def test_what_a_client_declares_is_not_kept(http):
    """A client declares megabytes of capabilities; a session keeps only those that the server may use."""
    declared = {**INITIALIZE, "capabilities": {"elicitation": {"form": {}}, "experimental": {"x": "y" * (2 << 20)}}}
    start = message("initialize", {"protocolVersion": "2025-11-25", **declared}, 0)
    c = http.connect()

    def opened(count):
        for _ in range(count):
            answer = c.request(body=start).response()
            assert answer.status == 200 and answer.body

    opened(5)
    before = http.resident()
    opened(30)
    assert http.resident() - before < 16 << 20  # not 60 MB


def test_idle_sessions_end(http_start):
    server = http_start("--session-idle", "1")
    s = Session(server)
    wait_for(lambda: s.post(message("ping", None, 1)).status == 404 or pause(1.2), 30, "it is gone")


def pause(seconds):
    """Waits: a session ends after a time without use, so here the wait itself is under test."""
    threading.Event().wait(seconds)


def test_many_sessions_leave_nothing(http):
    """Ten thousand sessions that were opened and deleted leave memory where it was."""
    start = message("initialize", {"protocolVersion": "2025-11-25", **INITIALIZE}, 0)
    c = http.connect()

    def cycle(count):
        for _ in range(count):
            answer = c.request(body=start).response()
            assert answer.status == 200 and answer.body
            gone = c.request("DELETE", headers={"Mcp-Session-Id": answer.headers["mcp-session-id"]}).response()
            assert gone.status == 204 and gone.body == b""

    cycle(500)
    before, files = http.resident(), http.descriptors()
    cycle(10000)
    assert http.descriptors() <= files
    if not os.environ.get("SAN"):  # a sanitizer keeps what was freed
        assert http.resident() - before < 1 << 20
