# SPDX-License-Identifier: Apache-2.0
"""Revision 2026-07-28 over HTTP. Numbers are those of reference/mcp.md, section 14."""

import base64
import signal

import pytest
from harness import wait_for
from mcp_http import (META, MODERN, PREFIX, http, http_start, message, modern, modern_body,  # noqa: F401
                      modern_headers, modern_open, modern_result, send, tool, until_gone)
from mcp_stdio import backend  # noqa: F401

SERVER_INFO = PREFIX + "serverInfo"
SUBSCRIPTION = PREFIX + "subscriptionId"


def run(backend, command, token=None):
    return tool("run_command", {"sandbox_id": backend.sandbox(), "command": command}, token)


def encoded(text):
    return f"=?base64?{base64.b64encode(text.encode()).decode()}?="


def check_complete(result):
    assert result["resultType"] == "complete"
    assert result["_meta"][SERVER_INFO]["name"] == "cubby"


# ---- 57, 58: no sessions
def test_discover(http):  # 57
    answer = modern(http, "server/discover", headers={"Mcp-Session-Id": "left over", "Last-Event-ID": "1.1"})
    assert answer.status == 200 and "mcp-session-id" not in answer.headers
    result = answer.json()["result"]
    check_complete(result)
    assert MODERN in result["supportedVersions"] and "tools" in result["capabilities"]
    assert type(result["ttlMs"]) is int and result["cacheScope"] in ("public", "private")


@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_other_methods(http, method):  # 58
    answer = send(http, method, headers={"MCP-Protocol-Version": MODERN, "Accept": "text/event-stream"})
    assert answer.status == 405
    assert "POST" in answer.headers["allow"]


# ---- 59 to 65: the ladder of checks
@pytest.mark.parametrize("name", ["MCP-Protocol-Version", "Mcp-Method", "Mcp-Name"])
def test_a_header_is_missing(http, backend, name):  # 59
    answer = modern(http, "tools/call", run(backend, "true"), "id", headers={name: None})
    assert answer.error() == (400, -32020)
    found = answer.json()
    assert found["id"] == "id" and name.lower() in found["error"]["message"].lower()
    assert not backend.started


@pytest.mark.parametrize("name, value", [
    ("MCP-Protocol-Version", "2025-11-25"), ("Mcp-Method", "tools/list"), ("Mcp-Name", "run_python_code")])
def test_a_header_says_something_else(http, backend, name, value):  # 60, 61
    answer = modern(http, "tools/call", run(backend, "true"), 3, headers={name: value})
    assert answer.error() == (400, -32020) and answer.json()["id"] == 3
    assert not backend.started


@pytest.mark.parametrize("name", ["MCP-Protocol-Version", "Mcp-Method", "Mcp-Name"])
def test_a_header_twice(http, backend, name):
    params = run(backend, "true")
    value = modern_headers("tools/call", params)[name]
    answer = modern(http, "tools/call", params, headers={name: [value, value]})
    assert answer.status == 400
    assert not backend.started


@pytest.mark.parametrize("version", ["v999.0.0", "2099-01-01", "2025-11-25", ""])
def test_unsupported_version(http, version):  # 60
    meta = {**META, PREFIX + "protocolVersion": version}
    # Before the other headers are asked for.
    for more in {}, {"Mcp-Method": None}:
        answer = modern(http, "tools/list", headers={"MCP-Protocol-Version": version, **more}, meta=meta)
        assert answer.error() == (400, -32022)
        assert answer.json()["error"]["data"] == {"supported": [MODERN], "requested": version}


def test_mismatch_comes_before_unsupported(http):  # 60
    meta = {**META, PREFIX + "protocolVersion": "2099-01-01"}
    assert modern(http, "tools/list", meta=meta).error() == (400, -32020)


def test_header_names_have_no_case_and_values_do(http):  # 61
    assert modern(http, "tools/list", headers={"Mcp-Method": "TOOLS/LIST"}).error() == (400, -32020)
    answer = modern(http, "tools/list", headers={
        "Mcp-Method": None, "MCP-METHOD": "tools/list", "MCP-Protocol-Version": None,
        "mcp-protocol-version": MODERN})
    assert answer.status == 200
    assert modern(http, "tools/list", headers={"Mcp-Method": "  tools/list \t"}).status == 200


@pytest.mark.parametrize("value, status", [
    (encoded("run_command"), 200),
    ("=?base64?cnVuX2NvbW1hbmQ?=", 400),    # its padding is missing
    ("=?base64?cnVuX2NvbW1hbmQ=", 400),     # its end is missing: a literal
    ("=?base64?cnVuX2NvbW1hb!Q=?=", 400),
    ("=?base64?cnVuX2NvbW1hbmR=?=", 400),   # bits that mean nothing
    ("=?base64?cnVu X2NvbW1hbmQ=?=", 400),
    ("=?base64?cnVu-_NvbW1hbmQ=?=", 400),   # another alphabet
    ("=?base64??=", 400),
    ("=?base64?gIA=?=", 400),               # not UTF-8
    ("=?BASE64?cnVuX2NvbW1hbmQ=?=", 400),   # a literal
    ("=?base64?cnVuX2NvbW1hbmQ=?= ", 200),  # white space around is none of it
    ("run_command\u00e9", 400),
    ("run_comman", 400), ("run_commandx", 400), ("", 400)])
def test_names_may_be_encoded(http, backend, value, status):  # 62
    answer = modern(http, "tools/call", run(backend, "true"), headers={"Mcp-Name": value})
    assert answer.status == status
    if status == 400:
        assert answer.error() == (400, -32020)
        assert not backend.started


def test_a_name_that_looks_encoded_is_encoded(http):  # 62
    name = "=?base64?x?="
    answer = modern(http, "tools/call", tool(name), headers={"Mcp-Name": encoded(name)})
    assert answer.error() == (200, -32602)
    assert modern(http, "tools/call", tool(name), headers={"Mcp-Name": name}).error() == (400, -32020)


def test_a_name_beyond_ascii(http):  # 62
    name = "größe\n"
    assert modern(http, "tools/call", tool(name), headers={"Mcp-Name": encoded(name)}).error() == (200, -32602)


def test_a_name_where_none_belongs_is_ignored(http):
    assert modern(http, "tools/list", headers={"Mcp-Name": "whatever"}).status == 200


@pytest.mark.parametrize("meta", [
    None, {}, {PREFIX + "protocolVersion": MODERN}, {PREFIX + "protocolVersion": 7},
    {PREFIX + "clientCapabilities": {}}, {**META, PREFIX + "clientCapabilities": []},
    {**META, PREFIX + "clientInfo": "x"}, {**META, PREFIX + "clientInfo": {"name": 1}}])
def test_bad_meta(http, meta):  # 63
    answer = modern(http, "tools/list", request_id="m", meta=meta)
    assert answer.error() == (400, -32602) and answer.json()["id"] == "m"


@pytest.mark.parametrize("params", [None, [], {"_meta": []}, {"_meta": "x"}])
def test_no_meta_at_all(http, params):  # 63
    answer = send(http, headers=modern_headers("tools/list"), body=message("tools/list", params, 4))
    assert answer.status == 400 and answer.json()["error"]["code"] in (-32602, -32600)


def test_client_info_may_be_absent(http):
    assert modern(http, "tools/list", meta=META).status == 200


@pytest.mark.parametrize("method", [
    "nothing", "ping", "initialize", "logging/setLevel", "resources/subscribe", "resources/unsubscribe",
    "tasks/list", "tasks/result", "notifications/nothing"])
def test_unknown_method(http, method):  # 64
    answer = modern(http, method, request_id="u")
    assert answer.error() == (404, -32601) and answer.json()["id"] == "u"


def test_tasks_are_not_there(http):  # 76
    for method in "tasks/get", "tasks/update", "tasks/cancel":
        answer = modern(http, method, {"taskId": "t"}, headers={"Mcp-Name": "t"})
        assert answer.error() == (404, -32601)


def test_unknown_tool(http):  # 65
    answer = modern(http, "tools/call", tool("nothing"), request_id=0)
    assert answer.error() == (200, -32602) and answer.json()["id"] == 0


@pytest.mark.parametrize("body, code", [(b"{", -32700), (b"", -32700), (b"[]", -32600), (b"7", -32600)])
def test_not_a_message(http, body, code):
    answer = send(http, headers=modern_headers("tools/list"), body=body)
    assert answer.error() == (400, code) and "id" not in answer.json()


def test_batch(http):
    answer = send(http, headers=modern_headers("tools/list"), body=[modern_body("tools/list")])
    assert answer.error() == (400, -32600)


# ---- what is answered
def test_tools(http, backend):  # 31, 32
    first, second = (modern_result(http, "tools/list") for _ in range(2))
    check_complete(first)
    assert first == second and all("execution" not in t for t in first["tools"])
    result = modern_result(http, "tools/call", run(backend, "echo hi; exit 3"))
    check_complete(result)
    assert result["structuredContent"]["exit_code"] == 3 and not result.get("isError")


@pytest.mark.parametrize("method", ["server/discover", "tools/list", "prompts/list", "resources/list",
                                    "resources/templates/list"])
def test_caching_hints(http, method):  # 74
    result = modern_result(http, method)
    check_complete(result)
    assert type(result["ttlMs"]) is int and result["ttlMs"] >= 0
    assert result["cacheScope"] in ("public", "private")


def test_caching_hints_of_a_resource(http, backend):  # 74
    (backend.files / "f.txt").write_text("text")
    uri = f"sandbox://{backend.sandbox()}/home/user/f.txt"
    result = modern_result(http, "resources/read", {"uri": uri})
    assert result["contents"][0]["text"] == "text"
    assert type(result["ttlMs"]) is int and result["cacheScope"] == "private"
    answer = modern(http, "resources/read", {"uri": uri + "none"})
    assert answer.error() == (200, -32602)
    assert answer.json()["error"]["data"]["uri"] == uri + "none"


def test_the_first_tool_takes_nothing(http):
    tools = modern_result(http, "tools/list")["tools"]
    check_complete(modern_result(http, "tools/call", tool(tools[0]["name"])))


def test_a_legacy_task_is_ignored(http, backend):  # 77
    result = modern_result(http, "tools/call", {**run(backend, "true"), "task": {"ttl": 5}})
    check_complete(result)
    assert "task" not in result


def test_input_responses_where_none_belong(http):  # 73
    for responses in {}, {"x": {}}, "x":
        result = modern_result(http, "tools/list", {"inputResponses": responses, "requestState": "s"})
        check_complete(result)


# ---- 67, 68: streams
def test_progress(http, backend):  # 67
    answer = modern(http, "tools/call", run(backend, "sleep 1.2; echo hi", token="t"), 9)
    assert answer.status == 200
    assert answer.headers["content-type"].split(";")[0] == "text/event-stream"
    assert answer.headers["x-accel-buffering"] == "no"
    assert "no-cache" in answer.headers["cache-control"] and "mcp-session-id" not in answer.headers
    events = [e for e in answer.events() if not e.comments]
    assert all(e.id is None and e.retry is None and e.data for e in events)
    found = [e.json() for e in events]
    values = [m["params"]["progress"] for m in found[:-1]]
    assert values and values == sorted(set(values))
    assert all(m["params"]["progressToken"] == "t" for m in found[:-1])
    assert found[-1]["id"] == 9
    check_complete(found[-1]["result"])


def test_without_a_token_the_answer_is_json(http, backend):
    answer = modern(http, "tools/call", run(backend, "sleep 1.2; echo hi"))
    assert answer.json()["result"]["structuredContent"]["stdout"] == "hi\n"


@pytest.mark.parametrize("how", ["close", "reset"])
@pytest.mark.parametrize("token", [None, 1])
def test_who_hangs_up_cancels(http, backend, how, token):  # 68
    before = len(http.stderr())
    running = modern_open(http, "tools/call", run(backend, "sleep 100", token))
    wait_for(lambda: backend.running)
    getattr(running, how)()
    until_gone(backend)
    said = http.stderr()[before:]  # lines of a time, a level and an event
    assert not {"error", "warn"} & {line.split()[1] for line in said.splitlines()}, said
    assert modern(http, "tools/list").status == 200


def test_who_hangs_up_cancels_a_creation(http, backend):
    """A client hangs up during create_sandbox: nobody knows the sandbox, so it is ended."""
    import threading
    backend.create_gate = threading.Event()
    running = modern_open(http, "tools/call", tool("create_sandbox"))
    wait_for(lambda: backend.created)
    running.close()
    backend.create_gate.set()
    wait_for(lambda: backend.count("/v2/sandboxes") + backend.count("/sandboxes") == 1)
    assert modern(http, "tools/list").status == 200


def test_notifications(http):  # 69
    for method in "notifications/cancelled", "notifications/nothing", "notifications/initialized":
        answer = send(http, headers=modern_headers(method),
                      body=message(method, {"requestId": 1, "_meta": META}))
        assert answer.status == 202 and answer.body == b""
    answer = send(http, headers=modern_headers("x"), body={"jsonrpc": "2.0", "id": 1, "result": {}})
    assert answer.status == 400


def test_cancelled_by_notification_is_nobodys_business(http, backend):
    """On HTTP only the end of its connection cancels a call: ids are not unique between clients."""
    running = modern_open(http, "tools/call", run(backend, "until test -e gate; do sleep 0.02; done"), 5)
    wait_for(lambda: backend.running)
    assert send(http, headers=modern_headers("notifications/cancelled"),
                body=message("notifications/cancelled", {"requestId": 5, "_meta": META})).status == 202
    (backend.files / "gate").touch()
    assert running.response().json()["result"]["structuredContent"]["exit_code"] == 0


def test_two_clients_with_one_id(http, backend):
    running = [modern_open(http, "tools/call", run(backend, f"echo {i}"), 1) for i in range(3)]
    for i, c in enumerate(running):
        found = c.response().json()
        assert found["id"] == 1 and found["result"]["structuredContent"]["stdout"] == f"{i}\n"


# ---- 70: listen
def listen(http, request_id=9, **kinds):
    answer = modern(http, "subscriptions/listen", {"notifications": kinds}, request_id)
    assert answer.status == 200, answer.body
    assert answer.headers["content-type"].split(";")[0] == "text/event-stream"
    assert answer.headers["x-accel-buffering"] == "no"
    event = answer.event()
    assert event.id is None and event.retry is None
    return answer, event.json()


@pytest.mark.parametrize("request_id", [9, "s1", 0])
def test_listen(http, request_id):  # 70
    advertised = modern_result(http, "server/discover")["capabilities"]
    stream, ack = listen(http, request_id, toolsListChanged=True, promptsListChanged=True,
                         resourcesListChanged=True)
    assert ack["method"] == "notifications/subscriptions/acknowledged"
    named = ack["params"]["_meta"][SUBSCRIPTION]
    assert named == request_id and type(named) is type(request_id)
    for kind, wanted in ack["params"]["notifications"].items():
        assert wanted is True and advertised[kind.removesuffix("ListChanged")]["listChanged"] is True
    http.stop()
    last = stream.messages()
    assert last == [{"jsonrpc": "2.0", "id": request_id, "result": last[-1]["result"]}]
    assert last[-1]["result"]["resultType"] == "complete"
    assert last[-1]["result"]["_meta"][SUBSCRIPTION] == request_id
    assert stream.connection.closed()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_listen_ends_with_the_server(http, number):  # 70
    streams = [listen(http, i)[0] for i in range(5)]
    http.stop(number)
    for i, stream in enumerate(streams):
        assert [m["id"] for m in stream.messages()] == [i]


def test_listen_is_kept_alive(http):  # 70
    """A comment comes about every 15 s, so that neither the client nor a proxy takes the connection
    for dead."""
    stream, _ = listen(http)
    assert stream.event(seconds=60).comments


def test_who_leaves_a_listen_frees_it(http_start):  # 70
    server = http_start("--max-streams", "2")
    streams = [listen(server, i)[0] for i in range(2)]
    answer = modern(server, "subscriptions/listen", {"notifications": {}})
    assert answer.status == 429 and answer.json()["error"]["message"]
    streams[0].connection.close()
    wait_for(lambda: modern(server, "subscriptions/listen", {"notifications": {}}).status == 200, 30,
             "the place is free")


@pytest.mark.parametrize("params", [{}, {"notifications": []}, {"notifications": "x"},
                                    {"notifications": {"toolsListChanged": "yes"}},
                                    {"notifications": {"resourceSubscriptions": "x"}},
                                    {"notifications": {"resourceSubscriptions": [7]}}])
def test_listen_to_nothing_said(http, params):  # 36
    assert modern(http, "subscriptions/listen", params).json()["error"]["code"] == -32602


def test_a_running_call_ends_with_the_server(http, backend):
    """Calls that run when the server ends are stopped, and every exchange has an end."""
    with_progress = modern(http, "tools/call", run(backend, "sleep 100", token=1), 1)
    plain = modern_open(http, "tools/call", run(backend, "sleep 101"), 2)
    wait_for(lambda: len(backend.running) == 2)
    http.stop()
    until_gone(backend)
    assert all("result" not in m or m["result"].get("isError") for m in with_progress.messages())
    assert plain.closed() or plain.response().status in (200, 202, 503)
