# SPDX-License-Identifier: Apache-2.0
"""MCP over HTTP with real parts only: cubbyd, its sandboxes, and official clients of both eras."""

import threading

import pytest
from clients import check, run_tour
from mcp_http import Server, Session, message, modern_open, modern_result, tool
from tiers import tier  # noqa: F401


@pytest.fixture
def http(home, tmp_path):
    server = Server(env=home.env, cwd=tmp_path)
    yield server
    server.stop()


def test_clients(http):
    """All at once, as in real use: an old client, a new one, and one in another language."""
    failed = []

    def one(name):
        try:
            check(run_tour(name, {"url": http.url}), name)
        except BaseException as e:
            failed.append((name, e))

    threads = [threading.Thread(target=one, args=(n,))
               for n in ("sdk-v1", "client-v2-auto", "python-mcp-2-pinned")]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failed, failed


def test_output_comes_while_the_command_runs(http):
    """From the guest to the client's stream, line by line."""
    s = Session(http)
    sandbox = s.call("tools/call", tool("create_sandbox"))["result"]["structuredContent"]["sandbox_id"]
    answer = s.post(message("tools/call", tool("run_command", {
        "sandbox_id": sandbox, "command": "echo started; until test -e go; do sleep 0.1; done; echo ended"}, 1), 2))
    while "started" not in (said := answer.message())["params"]["message"]:
        assert said["method"] == "notifications/progress"
    modern_result(http, "tools/call", tool("run_command", {"sandbox_id": sandbox, "command": "touch go"}))
    assert answer.messages()[-1]["result"]["structuredContent"]["stdout"] == "started\nended\n"


def test_who_hangs_up_ends_the_command_in_the_guest(http):
    made = modern_result(http, "tools/call", tool("create_sandbox"))["structuredContent"]["sandbox_id"]

    def run(command):
        return modern_result(http, "tools/call", tool(
            "run_command", {"sandbox_id": made, "command": command}))["structuredContent"]["stdout"].strip()

    running = modern_open(http, "tools/call", tool("run_command", {
        "sandbox_id": made, "command": "echo $$ > pid; exec sleep 1000"}))
    while not (pid := run("cat pid || true")):
        pass
    assert run(f"kill -0 {pid} && echo runs") == "runs"
    running.close()
    while run(f"kill -0 {pid} && echo runs"):
        pass
