# SPDX-License-Identifier: Apache-2.0
"""Revision 2026-07-28 on stdio. Numbers are those of reference/mcp.md, section 14."""

import pytest
from mcp_stdio import META, backend, fresh, server, start  # noqa: F401

PREFIX = "io.modelcontextprotocol/"


def check_complete(result):
    assert result["resultType"] == "complete"
    assert result["_meta"][PREFIX + "serverInfo"]["name"] == "cubby"


def check_cacheable(result):
    assert type(result["ttlMs"]) is int and result["ttlMs"] >= 0
    assert result["cacheScope"] == "public"


def test_discover_comes_first(fresh):  # 27
    result = fresh.modern("server/discover", "server-discover-probe-1")["result"]
    check_complete(result)
    check_cacheable(result)
    assert result["supportedVersions"] == ["2026-07-28"]
    assert result["capabilities"] == {"tools": {}, "resources": {"subscribe": True}, "prompts": {},
                                      "completions": {},
                                      "extensions": {"io.modelcontextprotocol/skills": {}}}
    assert result["instructions"]
    assert "serverInfo" not in result and "protocolVersion" not in result


def test_both_eras_on_one_pipe(fresh):  # 28
    check_complete(fresh.modern("server/discover")["result"])
    fresh.initialize()
    assert "resultType" not in fresh.call("tools/list")["result"]
    check_complete(fresh.modern("tools/list")["result"])
    assert fresh.call("ping")["result"] == {}


@pytest.mark.parametrize("version", ["2099-01-01", "2025-11-25", "", "v999.0.0"])  # 29
def test_unsupported_version(fresh, version):
    for method in "server/discover", "tools/list", "nothing":
        error = fresh.modern(method, meta={**META, PREFIX + "protocolVersion": version})["error"]
        assert error["code"] == -32022
        assert error["data"] == {"supported": ["2026-07-28"], "requested": version}


@pytest.mark.parametrize("change", [  # 30
    {"clientCapabilities": None}, {"clientCapabilities": []}, {"protocolVersion": 7},
    {"protocolVersion": None}, {"clientInfo": "x"}, {"clientInfo": {"name": "x"}},
    {"logLevel": "loud"}, {"logLevel": 3}])
def test_bad_meta(fresh, change):
    meta = {**META, **{PREFIX + k: v for k, v in change.items()}}
    assert fresh.modern("tools/list", meta=meta)["error"]["code"] == -32602


def test_meta_without_capabilities(fresh):  # 30
    meta = {PREFIX + "protocolVersion": "2026-07-28"}
    assert fresh.modern("tools/list", meta=meta)["error"]["code"] == -32602


def test_meta_with_all_there_is(fresh):
    meta = {**META, PREFIX + "clientInfo": {"name": "x", "version": "1"}, PREFIX + "logLevel": "info",
            "traceparent": "00-0-0-00", "com.example/anything": 1}
    check_complete(fresh.modern("tools/list", meta=meta)["result"])


def test_tools_list(fresh):  # 31
    first, second = (fresh.modern("tools/list")["result"] for _ in range(2))
    check_complete(first)
    check_cacheable(first)
    assert first == second
    assert all("execution" not in tool for tool in first["tools"])
    assert fresh.modern("tools/list", cursor="x")["error"]["code"] == -32602


def test_tools_call(fresh, backend):  # 32
    answer = fresh.modern("tools/call", name="run_command",
                          arguments={"sandbox_id": backend.sandbox(), "command": "echo hi"})
    check_complete(answer["result"])
    assert answer["result"]["structuredContent"]["stdout"] == "hi\n"
    answer = fresh.modern("tools/call", name="run_command", arguments={})
    check_complete(answer["result"])
    assert answer["result"]["isError"]
    assert fresh.modern("tools/call", name="nothing")["error"]["code"] == -32602


def test_the_first_tool_does_no_harm_when_probed(fresh, backend):
    tools = fresh.modern("tools/list")["result"]["tools"]
    answer = fresh.modern("tools/call", name=tools[0]["name"], arguments={})
    assert "error" not in answer and not answer["result"].get("isError")
    assert {method for method, _ in backend.requests} == {"GET"}


@pytest.mark.parametrize("method", [  # 33
    "ping", "initialize", "logging/setLevel", "resources/subscribe", "resources/unsubscribe",
    "tasks/list", "nothing"])
def test_removed_and_absent_methods(fresh, method):
    assert fresh.modern(method)["error"]["code"] == -32601


def test_listen(fresh):  # 35
    fresh.send({"jsonrpc": "2.0", "id": "s1", "method": "subscriptions/listen",
                "params": {"notifications": {"toolsListChanged": True}, "_meta": META}})
    message = fresh.line()
    assert message["method"] == "notifications/subscriptions/acknowledged"
    assert message["params"]["_meta"] == {PREFIX + "subscriptionId": "s1"}
    assert message["params"]["notifications"] == {}
    fresh.silent()
    fresh.send({"jsonrpc": "2.0", "method": "notifications/cancelled",
                "params": {"requestId": "s1", "_meta": META}})
    fresh.silent()


def test_listen_ends_with_the_server(fresh):
    fresh.send({"jsonrpc": "2.0", "id": 9, "method": "subscriptions/listen",
                "params": {"notifications": {}, "_meta": META}})
    assert fresh.line()["params"]["_meta"] == {PREFIX + "subscriptionId": 9}
    fresh.process.terminate()
    message = fresh.line()
    assert message["method"] == "notifications/cancelled" and message["params"]["requestId"] == 9


def test_listen_to_nothing_said(fresh):  # 36
    for more in {}, {"notifications": []}, {"notifications": "x"}:
        assert fresh.modern("subscriptions/listen", **more)["error"]["code"] == -32602


@pytest.mark.parametrize("params", [{}, {"_meta": META}])  # 37
def test_cancelled_call_is_silent(fresh, backend, params):
    fresh.send({"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": {
        "_meta": META, "name": "run_command",
        "arguments": {"sandbox_id": backend.sandbox(), "command": "sleep 100"}}})
    fresh.send({"jsonrpc": "2.0", "method": "notifications/cancelled",
                "params": {"requestId": 5, **params}})
    fresh.silent()


def test_legacy_task_parameter_is_ignored(fresh, backend):
    answer = fresh.modern("tools/call", name="run_command", task={"ttl": 5},
                          arguments={"sandbox_id": backend.sandbox(), "command": "true"})
    check_complete(answer["result"])


def test_in_a_batch_it_is_refused(start):
    server = start(version="2025-03-26")
    server.send([{"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": META}}])
    assert [a["error"]["code"] for a in server.line()] == [-32600]
