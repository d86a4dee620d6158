# SPDX-License-Identifier: Apache-2.0
"""Clients of a fleet need no change: the official E2B SDKs and cubby-mcp, with guests that run the real envd."""

import json
import os
import subprocess

import pytest

import sdk
from fleet import Fleet, GuestNode
from harness import BIN

BOTH = ["commands_run", "commands_callbacks", "commands_stdin", "commands_connect", "files_text", "files_watch",
        "pty_input", "sandbox_create", "sandbox_pause", "sandbox_list"]
SCENARIOS = {"js": BOTH, "python": [*BOTH, "sandbox_snapshot", "sandbox_fork"]}


@pytest.fixture(scope="module")
def fleet():
    with Fleet("a", "b", "c", kind=GuestNode) as f:
        yield f


@pytest.mark.parametrize("name", ["js", "python"])
def test_the_sdks_of_e2b(fleet, name):
    variables = {"E2B_API_URL": fleet.url, "E2B_SANDBOX_URL": fleet.url, "E2B_API_KEY": fleet.key}
    scenarios = SCENARIOS[name]
    assert sdk.run_program(name, variables, scenarios, bare="bare") == dict.fromkeys(scenarios)


def test_cubby_mcp(fleet):
    """Twelve sandboxes over the nodes; each command runs in its own, and the list has all."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("E2B_", "CUBBY_"))}
    env.update(CUBBY_HOME=str(fleet.where / "mcp"), CUBBY_BACKEND=fleet.url, E2B_API_KEY=fleet.key)
    with subprocess.Popen([BIN / "cubby-mcp"], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as mcp:
        def ask(number, method, params):
            mcp.stdin.write(json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}) + "\n")
            mcp.stdin.flush()
            while True:
                answer = json.loads(mcp.stdout.readline())
                if answer.get("id") == number:
                    return answer["result"]

        def call(number, name, **arguments):
            result = ask(number, "tools/call", {"name": name, "arguments": arguments})
            assert not result.get("isError"), result
            return result
        ask(0, "initialize", {"protocolVersion": "2025-06-18", "capabilities": {},
                              "clientInfo": {"name": "t", "version": "1"}})
        made = [call(i, "create_sandbox")["structuredContent"]["sandbox_id"] for i in range(1, 7)]
        assert {sandbox[0] for sandbox in made} == {"a", "b", "c"}
        for i, sandbox in enumerate(made):
            said = call(100 + i, "run_command", sandbox_id=sandbox, command="echo $E2B_SANDBOX_ID")
            assert sandbox in json.dumps(said)
        listed = json.dumps(call(200, "list_sandboxes"))
        assert all(sandbox in listed for sandbox in made)
        for i, sandbox in enumerate(made):
            call(300 + i, "kill_sandbox", sandbox_id=sandbox)
        mcp.stdin.close()
        mcp.wait(30)
