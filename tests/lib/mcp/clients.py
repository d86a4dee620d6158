# SPDX-License-Identifier: Apache-2.0
"""The official clients, and how a user works with each: connect, list, call, watch, stop, read,
ask.

The npm and PyPI packages are those of tests/clients/package.json and requirements.txt (mcp 1.x: of
tests/requirements.txt), installed below CLIENTS. The programs that use them are tour.mjs and
tour.py.
"""

import json
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).parents[2] / "clients"
CLIENTS = pathlib.Path(os.environ.get("CLIENTS", "/nonexistent"))
NODE = CLIENTS / "node_modules" / "node" / "bin" / "node"
PYTHON2 = CLIENTS / "venv" / "bin" / "python"
PIN = {"pin": "2026-07-28"}

# client, its mode, the era that comes of it
TOURS = {
    "sdk-v1": ("sdk1", None, "legacy"),
    "client-v2-legacy": ("client2", "legacy", "legacy"),
    "client-v2-auto": ("client2", "auto", "modern"),
    "client-v2-pinned": ("client2", PIN, "modern"),
    "python-mcp-1": ("mcp1", None, "legacy"),
    "python-mcp-2-legacy": ("mcp2", "legacy", "legacy"),
    "python-mcp-2-auto": ("mcp2", "auto", "modern"),
    "python-mcp-2-pinned": ("mcp2", "2026-07-28", "modern"),
    "fastmcp-legacy": ("fastmcp", "legacy", "legacy"),
    "fastmcp-auto": ("fastmcp", "auto", "modern"),
}


def run_tour(name, server, fixtures=False):
    """The results that the client printed. `server`: {url} or {command, args, env, cwd}; with
    fixtures it is the test build, and only its additional tools are used."""
    client, mode, _ = TOURS[name]
    plan = json.dumps({"client": client, "mode": mode, "server": server, "fixtures": fixtures})
    if client in ("sdk1", "client2"):
        words = [NODE, HERE / "tour.mjs", plan]
    else:
        words = [sys.executable if client == "mcp1" else PYTHON2, HERE / "tour.py", plan]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def text(result):
    return result["content"][-1]["text"]


def check_tools(seen):
    assert {t["name"] for t in seen["tools"]} >= {"create_sandbox", "run_command", "run_python_code"}
    for tool in seen["tools"]:
        assert tool["description"] and tool["inputSchema"]["type"] == "object"
    sandbox = seen["created"]["structuredContent"]["sandbox_id"]
    done = seen["command"]["structuredContent"]
    assert (done["sandbox_id"], done["exit_code"]) == (sandbox, 3)
    assert (done["stdout"], done["stderr"]) == ("out\n", "err\n")
    assert not seen["command"].get("isError")
    done = seen["python"]["structuredContent"]
    assert (done["stdout"], done["result"]) == ("p\n", "42")
    assert seen["tool_error"]["isError"] is True and "nosuchsandbox" in text(seen["tool_error"])
    assert seen["wrong_argument"]["isError"] is True and "command" in text(seen["wrong_argument"])
    assert seen["unknown_tool"] == -32602


def check_progress(seen):
    values = [p["progress"] for p in seen["progress"]]
    assert values and values == sorted(set(values))
    assert all(p.get("message") for p in seen["progress"])


def check_resources(seen):
    if seen["capabilities"].get("resources") is None:
        return
    assert any(t["uriTemplate"].startswith("sandbox://") for t in seen["templates"])
    assert [c["text"] for c in seen["resource"]] == ["content\n"]
    assert seen["unknown_resource"] in (-32002, -32602)


def check_prompts(seen):
    if seen["capabilities"].get("prompts") is not None:
        assert all(p["description"] for p in seen["prompts"])
        assert seen["prompt"]["messages"][0]["content"]["text"]
        assert seen["unknown_prompt"] == -32602
    if seen["capabilities"].get("completions") is not None:
        assert isinstance(seen["completion"]["values"], list)


def check(seen, name):
    """Checks a tour's results."""
    client, mode, era = TOURS[name]
    assert seen["era"] == era
    assert seen["version"] == ("2026-07-28" if era == "modern" else "2025-11-25")
    assert seen["cancelled"] and seen["cancelled_command_gone"]
    assert "errors" not in seen, seen["errors"]
    check_tools(seen)
    check_progress(seen)
    check_resources(seen)
    check_prompts(seen)
    if client not in ("mcp2", "fastmcp") or mode != PIN["pin"]:  # pinned, these do not ask who it is
        assert seen["server"]["name"] == "cubby" and seen["instructions"]
