# SPDX-License-Identifier: Apache-2.0
"""Revisions 2024-11-05 to 2025-11-25 on stdio. Numbers are those of reference/mcp.md, section 14."""

import re

import pytest
from mcp_stdio import backend, fresh, server, start  # noqa: F401

VERSIONS = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"]
HELLO = {"capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}


def initialize(server, version):
    return server.call("initialize", {"protocolVersion": version, **HELLO})


def test_initialize_says_who_and_what(fresh):  # 1
    result = initialize(fresh, "2025-11-25")["result"]
    assert result["protocolVersion"] == "2025-11-25"
    assert result["capabilities"] == {"tools": {}, "resources": {"subscribe": True}, "prompts": {},
                                      "completions": {}, "logging": {},
                                      "extensions": {"io.modelcontextprotocol/skills": {}}}
    assert result["serverInfo"]["name"] == "cubby" and result["serverInfo"]["version"]
    assert 0 < len(result["instructions"]) < 600


@pytest.mark.parametrize("version", VERSIONS)  # 2
def test_known_versions_are_echoed(fresh, version):
    assert initialize(fresh, version)["result"]["protocolVersion"] == version


@pytest.mark.parametrize("version", ["1999-01-01", "2026-07-28", "", "1.0.0"])  # 3
def test_unknown_versions_get_the_latest_legacy_one(fresh, version):
    assert initialize(fresh, version)["result"]["protocolVersion"] == "2025-11-25"


@pytest.mark.parametrize("params", [  # 4
    None, {}, HELLO, {"protocolVersion": 7, **HELLO}, {"protocolVersion": "2025-11-25"},
    {"protocolVersion": "2025-11-25", "capabilities": []},
    {"protocolVersion": "2025-11-25", "capabilities": {}},
    {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x"}}, [], "x", 7])
def test_bad_initialize(fresh, params):
    assert fresh.call("initialize", params)["error"]["code"] == -32602
    assert initialize(fresh, "2025-11-25")["result"]


def test_before_initialize(fresh):  # 5
    assert fresh.call("ping")["result"] == {}
    for method in "tools/list", "tools/call", "server/discover":
        error = fresh.call(method)["error"]
        assert error["code"] == -32602
        for version in [*VERSIONS, "2026-07-28"]:
            assert version in error["message"]


def test_notifications_are_not_answered(fresh):  # 6
    for method in "notifications/initialized", "notifications/unknown", "tools/list":
        fresh.send({"jsonrpc": "2.0", "method": method})
    fresh.silent()


@pytest.mark.parametrize("version", VERSIONS)  # 7
def test_tools_list(start, version):
    result = start(version=version).call("tools/list")["result"]
    assert set(result) == {"tools"}
    assert [t["name"] for t in result["tools"]] == [
        "list_sandboxes", "create_sandbox", "list_templates", "extend_sandbox", "kill_sandbox", "run_command", "run_python_code", "run_code",
        "start_command", "read_output", "send_input", "stop_command", "read_file", "write_file",
        "edit_file", "list_files", "search_files", "move_file", "delete_file", "upload_file_from_local_to_sandbox",
        "download_file_from_internet_to_sandbox", "download_file_from_sandbox_to_local", "pause_sandbox",
        "resume_sandbox", "snapshot_sandbox", "rollback_sandbox", "fork_sandbox", "delete_snapshot",
        "expose_port"]
    for tool in result["tools"]:
        assert re.fullmatch("[a-zA-Z0-9_-]{1,64}", tool["name"])
        assert tool["description"] and tool["inputSchema"]["type"] == "object"
        assert ("annotations" in tool) == (version >= "2025-03-26")
        assert ("outputSchema" in tool) == ("title" in tool) == (version >= "2025-06-18")
        assert "execution" not in tool


@pytest.mark.parametrize("cursor", ["bogus", "", 7])  # 8
def test_a_cursor_that_was_not_issued(server, cursor):
    assert server.call("tools/list", {"cursor": cursor})["error"]["code"] == -32602


@pytest.mark.parametrize("params", [  # 9, 11
    None, {}, {"name": 7}, {"name": "nothing"}, {"name": None},
    {"name": "run_command", "arguments": []}, {"name": "run_command", "arguments": "x"}])
def test_bad_call(server, params):
    assert server.call("tools/call", params)["error"]["code"] == -32602


def test_unknown_tool_in_the_words_that_clients_look_for(server):
    assert server.call("tools/call", {"name": "nothing"})["error"]["message"] == (
        "Unknown tool: nothing")


def test_missing_argument(server):  # 10
    text = server.error("run_command")
    assert text == "invalid_argument: missing required argument 'sandbox_id'"
    answer = server.call("tools/call", {"name": "run_command"})  # no arguments at all
    assert answer["result"]["isError"]


def test_unknown_methods(server):  # 14
    for method in ["nothing", "", "server/discover", "subscriptions/listen", "tasks/list",
                   "x" * 10000]:
        assert server.call(method, {})["error"]["code"] == -32601


@pytest.mark.parametrize("request_id", [0, "", "x", -5, 2**63 - 1, "é" * 20])  # 14
def test_ids_are_echoed(server, request_id):
    assert server.call("ping", request_id=request_id)["result"] == {}


def test_second_initialize_is_answered(server):
    assert initialize(server, "2024-11-05")["result"]["protocolVersion"] == "2024-11-05"
    assert "outputSchema" not in server.call("tools/list")["result"]["tools"][0]


# ---- batches: 16
def ping(request_id):
    return {"jsonrpc": "2.0", "id": request_id, "method": "ping"}


def test_batch_is_legal_in_one_revision_only(start):
    for version in "2024-11-05", "2025-06-18", "2025-11-25":
        server = start(version=version)
        server.send([ping(1), ping(2)])
        answer = server.line()
        assert answer["error"]["code"] == -32600 and "id" not in answer


def test_batch(start):
    server = start(version="2025-03-26")
    server.send([ping(1), {"jsonrpc": "2.0", "method": "notifications/x"}, ping("b")])
    assert sorted(str(a["id"]) for a in server.line()) == ["1", "b"]
    server.send([{"jsonrpc": "2.0", "method": "notifications/x"}])
    server.silent()
    server.send([])
    assert server.line()["error"]["code"] == -32600
    server.send([ping(i) for i in range(65)])
    assert server.line()["error"]["code"] == -32600
    server.send([{"jsonrpc": "2.0", "id": 1, "method": "initialize",
                  "params": {"protocolVersion": "2025-11-25", **HELLO}}, 7, [ping(2)]])
    assert [a["error"]["code"] for a in server.line()] == [-32600] * 3


def test_batch_waits_for_its_slowest_and_leaves_out_the_cancelled(start, backend):
    server = start(version="2025-03-26")
    sandbox = backend.sandbox()

    def command(request_id, text):
        return {"jsonrpc": "2.0", "id": request_id, "method": "tools/call", "params": {
            "name": "run_command", "arguments": {"sandbox_id": sandbox, "command": text}}}

    gate = backend.files / "gate"
    server.send([command(1, f"until [ -e {gate} ]; do sleep 0.02; done"), ping(2),
                 command(3, "sleep 100")])
    server.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 3}})
    server.silent()
    gate.touch()
    assert sorted(a["id"] for a in server.line()) == [1, 2]
