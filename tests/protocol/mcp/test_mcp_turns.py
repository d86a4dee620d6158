# SPDX-License-Identifier: Apache-2.0
"""Calls that use the same thing, sent without waiting for answers: they start in order."""

import pytest
from harness import ToolError, wait_for
from mcp_envd import real, sandbox, start  # noqa: F401
from mcp_shells import place  # noqa: F401


@pytest.fixture(name="server")
def fixture_server(start):  # noqa: F811
    return start()


@pytest.mark.parametrize("before", ["new", "existing"])
def test_calls_of_a_session(server, sandbox, place, before):  # noqa: F811
    if before == "existing":
        server.tool("run_command", sandbox_id=sandbox, session="main", command="true")
    calls = [server.start_tool("run_command", sandbox_id=sandbox, session="main", command=f"A+=' {i}'; echo $A")
             for i in range(12)]
    last = [server.tool_result(call)["stdout"] for call in calls][-1]
    assert last.split() == [str(i) for i in range(12)]


def test_edits_of_a_file(server, sandbox, tmp_path):  # noqa: F811
    path = tmp_path / "f"
    path.write_text("".join(f"line {i}.\n" for i in range(12)))
    calls = [server.start_tool("edit_file", sandbox_id=sandbox, path=str(path), old_text=f"line {i}.", new_text=f"new {i}.")
             for i in range(12)]
    for call in calls:
        server.tool_result(call)
    assert path.read_text() == "".join(f"new {i}.\n" for i in range(12))


def test_the_last_content_stays(server, sandbox, tmp_path):  # noqa: F811
    calls = [server.start_tool("write_file", sandbox_id=sandbox, path=str(tmp_path / "f"), content=str(i)) for i in range(12)]
    for call in calls:
        server.tool_result(call)
    assert (tmp_path / "f").read_text() == "11"


def test_an_edit_that_is_lost_is_not_called_done(start, sandbox, tmp_path):  # noqa: F811
    """Servers do not know of each other's calls."""
    path = tmp_path / "f"
    path.write_text("".join(f"line {i}.\n" for i in range(24)))
    servers = [start() for _ in range(6)]
    calls = [(s, i, s.start_tool("edit_file", sandbox_id=sandbox, path=str(path), old_text=f"line {i}.", new_text=f"new {i}."))
             for i, s in enumerate(servers * 4)]
    want = [f"line {i}." for i in range(24)]
    for s, i, call in calls:
        try:
            s.tool_result(call)
            want[i] = f"new {i}."
        except ToolError as error:
            assert str(error).startswith("file_changed: ")
    assert path.read_text().splitlines() == want


def test_one_that_is_cancelled_before_its_turn(server, sandbox, place, tmp_path):  # noqa: F811
    first = server.start_tool("run_command", sandbox_id=sandbox, session="main",
                              command=f"touch {tmp_path}/began; while [ ! -e {tmp_path}/gate ]; do sleep 0.01; done; echo first")
    wait_for((tmp_path / "began").exists)
    calls = [server.start_tool("run_command", sandbox_id=sandbox, session="main", command=f"touch {tmp_path}/ran{i}")
             for i in range(2)]
    server.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": calls[0]}})
    (tmp_path / "gate").touch()
    assert server.tool_result(first)["stdout"] == "first\n"
    assert server.tool_result(calls[1])["exit_code"] == 0
    assert (tmp_path / "ran1").exists() and not (tmp_path / "ran0").exists()
