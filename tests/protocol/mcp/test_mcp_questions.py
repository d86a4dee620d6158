# SPDX-License-Identifier: Apache-2.0
"""A server's requests to its client: JSON-RPC requests in the handshake era, required input in the
modern one.

The tools that ask are those of the test build, tests/fixtures.
"""

import hashlib
import json
import os
import pathlib

import pytest
from mcp_http import Session, http_start, message, modern as modern_http, tool  # noqa: F401
from mcp_stdio import META, backend, start  # noqa: F401

PROGRAM = pathlib.Path(os.environ["TEST"]) / "cubby-mcp-fixtures"
CAN = {"elicitation": {}, "sampling": {}, "roots": {}}
PREFIX = "io.modelcontextprotocol/"
INPUT = "test_input_required_result_"


class Asked:
    """A client of the handshake era that sees each line, the server's requests included."""

    def __init__(self, start, can=CAN, version="2025-11-25"):
        self.server = start(program=PROGRAM, version=None)
        self.send(id="init", method="initialize", params={
            "protocolVersion": version, "capabilities": can, "clientInfo": {"name": "t", "version": "1"}})
        assert self.next()["result"]["protocolVersion"] == version
        self.send(method="notifications/initialized")

    def send(self, **message):
        self.server.send({"jsonrpc": "2.0", **message})

    def next(self, seconds=20):
        line = self.server.lines.get(timeout=seconds)
        assert line is not None, self.server.stderr()
        return json.loads(line)

    def call(self, name, arguments=None, request=1):
        self.send(id=request, method="tools/call", params={"name": name, "arguments": arguments or {}})
        return self.next()

    def silent(self):
        self.send(id="nothing before this", method="ping")
        assert self.next() == {"jsonrpc": "2.0", "id": "nothing before this", "result": {}}


def text(answer):
    return answer["result"]["content"][-1]["text"]


# ---- the handshake era
@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
def test_question_and_answer(start, version):
    client = Asked(start, version=version)
    asked = client.call("test_sampling", {"prompt": "why?"}, "s")
    assert asked["method"] == "sampling/createMessage" and isinstance(asked["id"], int)
    assert asked["params"] == {"maxTokens": 100, "messages": [
        {"role": "user", "content": {"type": "text", "text": "why?"}}]}
    client.silent()  # others are answered meanwhile
    reply = {"role": "assistant", "model": "m", "content": {"type": "text", "text": "because"}}
    client.send(id=asked["id"], result=reply)
    answer = client.next()
    assert answer["id"] == "s" and "because" in text(answer)


@pytest.mark.parametrize("action", ["accept", "decline", "cancel"])
def test_elicitation(start, action):
    client = Asked(start)
    asked = client.call("test_elicitation", {"message": "who?"})
    assert asked["method"] == "elicitation/create" and asked["params"]["message"] == "who?"
    assert asked["params"]["requestedSchema"]["required"] == ["username", "email"]
    client.send(id=asked["id"], result={"action": action, "content": {"username": "u", "email": "e"}})
    assert f'"action":"{action}"' in text(client.next())


def test_error_as_an_answer(start):
    client = Asked(start)
    asked = client.call("test_sampling", {"prompt": "why?"})
    client.send(id=asked["id"], error={"code": -1, "message": "the user said no"})
    answer = client.next()
    assert answer["result"]["isError"] and "the user said no" in text(answer)


def test_questions_side_by_side(start):
    client = Asked(start)
    first = client.call("test_sampling", {"prompt": "1"}, 1)
    second = client.call("test_sampling", {"prompt": "2"}, 2)
    assert first["id"] != second["id"]
    client.send(id=second["id"], result={"two": 2})
    answer = client.next()
    assert answer["id"] == 2 and '"two"' in text(answer)
    client.send(id=first["id"], result={"one": 1})
    answer = client.next()
    assert answer["id"] == 1 and '"one"' in text(answer)


def test_replies_that_nobody_waits_for(start):
    client = Asked(start)
    asked = client.call("test_sampling", {"prompt": "why?"})
    for stray in asked["id"] + 1, -1, 0, str(asked["id"]), "x":
        client.send(id=stray, result={"wrong": True})
    client.silent()
    client.send(id=asked["id"], result={"right": True})
    assert '"right"' in text(client.next())
    client.send(id=asked["id"], result={"again": True})
    client.silent()


def test_no_answer_in_time(start):
    """The server stops waiting, and says so; a later answer is ignored."""
    client = Asked(start)
    asked = client.call("test_sampling", {"prompt": "why?", "timeout": 50})
    told = client.next()
    assert told["method"] == "notifications/cancelled" and told["params"]["requestId"] == asked["id"]
    answer = client.next()
    assert answer["result"]["isError"] and "not answered in time" in text(answer)
    client.send(id=asked["id"], result={"late": True})
    client.silent()


def test_cancellation_drops_the_question(start):
    client = Asked(start)
    asked = client.call("test_sampling", {"prompt": "why?"}, 7)
    client.send(method="notifications/cancelled", params={"requestId": 7})
    client.send(id=asked["id"], result={"late": True})
    client.silent()
    assert client.call("test_simple_text", request=7)["id"] == 7  # the id is free


def test_the_end_of_input_drops_the_question(start):
    client = Asked(start)
    client.call("test_elicitation", {"message": "who?"})
    client.server.finish()


@pytest.mark.parametrize("can", [{}, {"roots": {}}, {"elicitation": {"url": {}}}])
def test_who_cannot_be_asked_is_not(start, can):
    client = Asked(start, can)
    for name, arguments in ("test_sampling", {"prompt": "why?"}), ("test_elicitation", {"message": "who?"}):
        answer = client.call(name, arguments)
        assert answer["id"] == 1 and answer["result"]["isError"] and "cannot be asked" in text(answer)


def test_required_input_is_not_of_this_era(start):
    client = Asked(start)
    for name in "elicitation", "request_state", "capabilities":
        answer = client.call(INPUT + name)
        assert answer["result"]["isError"] and "resultType" not in answer["result"]
    client.send(id=2, method="tools/call", params={"name": "test_simple_text", "inputResponses": "x"})
    assert "result" in client.next()


# ---- the modern era
@pytest.fixture
def modern(start):
    server = start(program=PROGRAM, version=None)
    count = iter(range(1, 1000))

    def call(method, can=CAN, **params):
        meta = {**META, PREFIX + "clientCapabilities": can}
        return server.modern(method, next(count), meta, **params)

    return call


def use(modern, name, can=CAN, **more):
    return modern("tools/call", can, name=name, arguments={}, **more)


def accept(**content):
    return {"action": "accept", "content": content}


def test_elicitation_as_required_input(modern):  # 72
    first = use(modern, INPUT + "elicitation")["result"]
    assert first["resultType"] == "input_required" and set(first) == {"resultType", "inputRequests", "_meta"}
    assert first["inputRequests"]["user_name"]["method"] == "elicitation/create"
    answer = use(modern, INPUT + "elicitation", inputResponses={"user_name": accept(name="Ada"), "other": {}})
    assert answer["result"]["resultType"] == "complete" and text(answer) == "Hello, Ada!"


@pytest.mark.parametrize("response", [{}, {"action": "accept"}, accept(), accept(name=7), accept(nme="x"),
                                      {"action": "what"}])
def test_a_response_of_the_wrong_shape_is_asked_for_again(modern, response):
    answer = use(modern, INPUT + "elicitation", inputResponses={"user_name": response})
    assert answer["result"]["resultType"] == "input_required"


@pytest.mark.parametrize("more", [{"inputResponses": "x"}, {"inputResponses": []}, {"inputResponses": None},
                                  {"inputResponses": {"user_name": "Ada"}}, {"requestState": 7}])
def test_malformed_retries(modern, more):  # 72
    for name in INPUT + "elicitation", "test_simple_text":
        assert use(modern, name, **more)["error"]["code"] == -32602
    assert modern("prompts/get", name="test_simple_prompt", **more)["error"]["code"] == -32602
    assert modern("resources/read", uri="test://static-text", **more)["error"]["code"] == -32602


def test_elsewhere_they_mean_nothing(modern):  # 73
    for method in "tools/list", "prompts/list", "resources/list", "server/discover":
        assert modern(method, inputResponses="x", requestState=7)["result"]["resultType"] == "complete"


def test_only_what_was_declared_is_asked(modern):
    kinds = {"elicitation": "user_name", "sampling": "greeting", "roots": "client_roots"}
    for can in {}, {"sampling": {}}, {"elicitation": {}, "roots": {}}, CAN:
        result = use(modern, INPUT + "capabilities", can)["result"]
        assert set(result.get("inputRequests", {})) == {kinds[k] for k in can}
        assert result["resultType"] == ("input_required" if can else "complete")
    url_only = {"elicitation": {"url": {}}}
    assert use(modern, INPUT + "capabilities", url_only)["result"]["resultType"] == "complete"
    error = use(modern, INPUT + "elicitation", {})["error"]
    assert error["code"] == -32021 and error["data"] == {"requiredCapabilities": {"elicitation": {}}}


def test_state(modern):  # 72
    name = INPUT + "request_state"
    state = use(modern, name)["result"]["requestState"]
    given = {"confirm": accept(ok=True)}
    assert "state-ok" in text(use(modern, name, inputResponses=given, requestState=state))
    assert use(modern, name, inputResponses=given)["result"]["resultType"] == "input_required"  # without it
    for bad in state + "x", state[1:], state.upper(), "", "0 AAAA AAAA":
        answer = use(modern, name, inputResponses=given, requestState=bad)
        assert answer["error"]["code"] == -32602
    # Another tool, other arguments.
    other = use(modern, INPUT + "tampered_state", inputResponses=given, requestState=state)
    assert other["error"]["code"] == -32602
    other = modern("tools/call", name=name, inputResponses=given, requestState=state)
    assert other["error"]["code"] == -32602


def test_state_of_another_process(start):
    states = []
    for _ in range(2):
        server = start(program=PROGRAM, version=None)
        call = {"name": INPUT + "request_state", "arguments": {}}
        meta = {**META, PREFIX + "clientCapabilities": CAN}
        states.append(server.modern("tools/call", 1, meta, **call)["result"]["requestState"])
    answer = server.modern("tools/call", 2, meta, **call, requestState=states[0],
                           inputResponses={"confirm": accept(ok=True)})
    assert answer["error"]["code"] == -32602


def test_several_at_once(modern):
    name = INPUT + "multiple_inputs"
    first = use(modern, name)["result"]
    assert {k: v["method"] for k, v in first["inputRequests"].items()} == {
        "user_name": "elicitation/create", "greeting": "sampling/createMessage", "client_roots": "roots/list"}
    given = {"user_name": accept(name="Ada"), "client_roots": {"roots": []}}
    second = use(modern, name, inputResponses=given, requestState=first["requestState"])["result"]
    assert set(second["inputRequests"]) == {"greeting"}  # what is still missing
    given["greeting"] = {"role": "assistant", "model": "m", "content": {"type": "text", "text": "hi"}}
    last = use(modern, name, inputResponses=given, requestState=second["requestState"])
    assert last["result"]["resultType"] == "complete"


def test_several_rounds(modern):
    name = INPUT + "multi_round"
    first = use(modern, name)["result"]
    second = use(modern, name, inputResponses={"step1": accept(name="Ada")},
                 requestState=first["requestState"])["result"]
    assert set(second["inputRequests"]) == {"step2"} and second["requestState"] != first["requestState"]
    last = use(modern, name, inputResponses={"step2": accept(color="red")}, requestState=second["requestState"])
    assert text(last) == "Ada likes red"


def test_prompt_that_needs_input(modern):
    name = "test_input_required_result_prompt"
    first = modern("prompts/get", name=name)["result"]
    assert first["resultType"] == "input_required" and set(first["inputRequests"]) == {"user_context"}
    last = modern("prompts/get", name=name, inputResponses={"user_context": accept(context="in Rome")})
    assert "in Rome" in last["result"]["messages"][0]["content"]["text"]


def test_the_modern_era_is_asked_nothing(modern):  # 38
    for name, more in ("test_sampling", {"prompt": "why?"}), ("test_elicitation", {"message": "who?"}):
        answer = modern("tools/call", name=name, arguments=more)  # a line with id and method would fail
        assert answer["result"]["isError"]


# ---- over HTTP; what is asked on a stream is in test_mcp_http_fixtures.py
@pytest.fixture
def http(http_start):
    return http_start(program=PROGRAM)


def ask(session, request=1, **arguments):
    answer = session.post(message("tools/call", tool("test_sampling", {"prompt": "why?", **arguments}), request))
    return answer, answer.message()


def reply(session, asked, **result):
    return session.post({"jsonrpc": "2.0", "id": asked["id"], "result": result})


def test_the_end_of_a_session_drops_the_question(http):
    session = Session(http)
    answer, asked = ask(session)
    assert session.delete().status in (200, 204)
    assert answer.messages() == []
    assert reply(session, asked, late=True).status == 404
    assert Session(http).post(message("ping", None, 1)).json()["result"] == {}


def test_cancellation_over_http_drops_the_question(http):
    session = Session(http)
    answer, asked = ask(session)
    assert session.post(message("notifications/cancelled", {"requestId": 1})).status == 202
    assert answer.messages() == []
    assert reply(session, asked, late=True).status == 202
    answer, asked = ask(session)
    assert reply(session, asked, right=True).status == 202
    assert '"right"' in text(answer.messages()[-1])


def test_no_answer_in_time_over_http(http):
    answer, asked = ask(Session(http), timeout=50)
    told, last = answer.messages()
    assert told["method"] == "notifications/cancelled" and told["params"]["requestId"] == asked["id"]
    assert last["result"]["isError"]


def test_a_state_is_its_callers(http_start, tmp_path):
    """The same request with the same state, but from another caller."""
    tokens = {"ann": "a" * 40, "bob": "b" * 40}
    file = tmp_path / "tokens.json"
    file.write_text(json.dumps({"tokens": [
        {"name": n, "sha256": hashlib.sha256(t.encode()).hexdigest()} for n, t in tokens.items()]}))
    file.chmod(0o600)
    http = http_start("--token-file", str(file), program=PROGRAM)
    can = {**META, PREFIX + "clientCapabilities": CAN}

    def call(name, **more):
        return modern_http(http, "tools/call", {**tool(INPUT + "request_state"), **more}, meta=can,
                           headers={"Authorization": f"Bearer {tokens[name]}"}).json()

    state = call("ann")["result"]["requestState"]
    given = {"requestState": state, "inputResponses": {"confirm": accept(ok=True)}}
    assert call("bob", **given)["error"]["code"] == -32602
    assert "state-ok" in text(call("ann", **given))
