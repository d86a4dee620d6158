# SPDX-License-Identifier: Apache-2.0
"""Features of MCP that no shipped tool uses: requests to the client, input that is required,
arguments in headers. The test build has tools for them (tests/fixtures). Numbers are those of
reference/mcp.md, section 14.
"""

import base64
import os
import pathlib

import pytest
from mcp_http import META, PREFIX, Session, http_start, message, modern, modern_result, tool  # noqa: F401
from mcp_stdio import backend, start  # noqa: F401

PROGRAM = pathlib.Path(os.environ["TEST"]) / "cubby-mcp-fixtures"
ABLE = {**META, PREFIX + "clientCapabilities": {"elicitation": {}, "sampling": {}, "roots": {}}}
X = "test_x_mcp_header"


@pytest.fixture
def http(http_start):  # noqa: F811
    return http_start(program=PROGRAM)


def text(result):
    return result["content"][0]["text"]


# ---- 54: a question on the way
def test_question(http):  # 54
    s = Session(http)
    answer = s.post(message("tools/call", tool("test_sampling", {"prompt": "why?"}), 1))
    asked = answer.message()
    assert asked["method"] == "sampling/createMessage" and "id" in asked
    assert asked["params"]["messages"][0]["content"]["text"] == "why?"
    reply = {"role": "assistant", "model": "m", "content": {"type": "text", "text": "because"}}
    told = s.post({"jsonrpc": "2.0", "id": asked["id"], "result": reply})
    assert told.status == 202 and told.body == b""
    rest = answer.messages()
    assert [m["id"] for m in rest] == [1] and "because" in text(rest[0]["result"])


def test_question_that_is_refused(http):  # 54
    s = Session(http)
    answer = s.post(message("tools/call", tool("test_elicitation", {"message": "who?"}), 1))
    asked = answer.message()
    assert asked["method"] == "elicitation/create"
    assert s.post({"jsonrpc": "2.0", "id": asked["id"], "error": {"code": -1, "message": "no"}}).status == 202
    assert answer.messages()[-1]["id"] == 1


def test_question_answered_by_another_session(http):  # 54
    s, other = Session(http), Session(http)
    answer = s.post(message("tools/call", tool("test_sampling", {"prompt": "why?"}), 1))
    asked = answer.message()
    reply = {"role": "assistant", "model": "m", "content": {"type": "text", "text": "stolen"}}
    other.post({"jsonrpc": "2.0", "id": asked["id"], "result": reply})
    reply["content"]["text"] = "mine"
    s.post({"jsonrpc": "2.0", "id": asked["id"], "result": reply})
    assert "mine" in text(answer.messages()[-1]["result"])


# ---- 66: what the client cannot do
def test_missing_capability(http):  # 66
    answer = modern(http, "tools/call", tool("test_missing_capability"))
    assert answer.error() == (400, -32021)
    assert answer.json()["error"]["data"] == {"requiredCapabilities": {"sampling": {}}}
    answer = modern(http, "tools/call", tool("test_missing_capability"), meta=ABLE)
    assert answer.status == 200 and "result" in answer.json()


# ---- 71: arguments in headers
def x(http, arguments, header, **more):
    headers = {"Mcp-Param-Region": header, **more}
    return modern(http, "tools/call", tool(X, arguments), headers=headers)


@pytest.mark.parametrize("region, header, status", [
    ("eu", "eu", 200), ("eu", "us", 400), ("eu", "EU", 400), ("eu", None, 400), ("eu", "  eu ", 200),
    ("größe", "=?base64?" + base64.b64encode("größe".encode()).decode() + "?=", 200),
    ("größe", "größe", 400), ("eu", "=?base64?ZXU=?=", 200), ("eu", "=?base64?ZXU?=", 400),
    ("eu", "=?base64?!!!!?=", 400), (" eu", "=?base64?IGV1?=", 200), (" eu", " eu", 400), ("", "", 200)])
def test_argument_in_a_header(http, region, header, status):  # 71
    answer = x(http, {"region": region, "query": "q"}, header)
    assert answer.status == status
    if status == 400:
        assert answer.error() == (400, -32020)


@pytest.mark.parametrize("arguments", [{"query": "q"}, {"region": None, "query": "q"}, {}])
def test_argument_that_is_absent(http, arguments):  # 71
    answer = x(http, arguments, None)
    assert answer.status == 200
    assert answer.json().get("error", {}).get("code") != -32020


def test_other_parameter_headers_are_ignored(http):  # 71
    assert x(http, {"region": "eu", "query": "q"}, "eu", **{"Mcp-Param-Other": "x"}).status == 200


def test_argument_headers_mean_nothing_to_a_session(http):  # 71
    s = Session(http)
    answer = s.post(message("tools/call", tool(X, {"region": "eu", "query": "q"}), 1))
    assert answer.status == 200 and "result" in answer.json()


def test_tool_says_which_arguments(http):  # 71
    tools = {t["name"]: t for t in modern_result(http, "tools/list")["tools"]}
    assert tools[X]["inputSchema"]["properties"]["region"]["x-mcp-header"] == "Region"


# ---- 72: input that is required
def required(http, name, meta=ABLE, **more):
    answer = modern(http, "tools/call", {**tool(name), **more}, meta=meta)
    assert answer.status == 200, answer.body
    return answer.json()


def test_input_required(http):  # 72
    first = required(http, "test_input_required_result_elicitation")["result"]
    assert first["resultType"] == "input_required"
    assert "ttlMs" not in first and "content" not in first
    (key, asked), = first["inputRequests"].items()
    assert asked["method"] == "elicitation/create"
    given = {key: {"action": "accept", "content": {"name": "Ada"}}, "unknown": {"action": "decline"}}
    more = {"requestState": first["requestState"]} if "requestState" in first else {}
    second = required(http, "test_input_required_result_elicitation", inputResponses=given, **more)["result"]
    assert second["resultType"] == "complete" and "Ada" in text(second)


def test_request_state(http):  # 72
    first = required(http, "test_input_required_result_tampered_state")["result"]
    key, state = next(iter(first["inputRequests"])), first["requestState"]
    given = {key: {"action": "accept", "content": {"ok": True, "confirm": True, "name": "x"}}}
    good = required(http, "test_input_required_result_tampered_state", inputResponses=given, requestState=state)
    assert good["result"]["resultType"] == "complete"
    for bad in state + "-TAMPERED", state[:-3], "", "x", state[::-1], 7:
        answer = required(http, "test_input_required_result_tampered_state", inputResponses=given, requestState=bad)
        assert answer["error"]["code"] == -32602, bad
    # One tool's state is no other's.
    answer = required(http, "test_input_required_result_request_state", inputResponses=given, requestState=state)
    assert answer["error"]["code"] == -32602


@pytest.mark.parametrize("responses", ["x", [], 7])
def test_malformed_input_responses(http, responses):  # 72
    answer = required(http, "test_input_required_result_elicitation", inputResponses=responses)
    assert answer["error"]["code"] == -32602


def test_input_is_not_required_of_who_cannot(http):  # 72
    for name in "test_input_required_result_elicitation", "test_input_required_result_sampling":
        answer = modern(http, "tools/call", tool(name))
        assert answer.error() == (400, -32021)


# ---- the same on a pipe
def test_questions_on_a_pipe(start):  # 38
    """The server sends a client of the modern era no requests: the result says which input is required."""
    server = start(program=PROGRAM, version=None)
    answer = server.modern("tools/call", name="test_input_required_result_elicitation", arguments={}, meta=ABLE)
    assert answer["result"]["resultType"] == "input_required"
