# SPDX-License-Identifier: Apache-2.0
"""Agents of many frameworks do a whole task with Cubby, on a scripted model.

Each framework runs its own agent loop and its own model adapter, over stdio and over HTTP with a
token. The model's script says what the model must see (tests/lib/models/model_scripts.py), and the
stub refuses what the real API would refuse. `make test-clients` runs this and writes the table of
docs/clients.md from what passed.
"""

import os
import subprocess

import pytest
from frameworks import FRAMEWORKS, note_passed, run_agent
from gvisor_world import RUNSC
from harness import BIN
from mcp_http import Server
from model_scripts import DONE, TASK, fix_bug
from model_stub import Stub
from sdk import Guests

pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can make users and mounts for envd"),
]
CASES = [(name, wire, "stdio") for name, f in FRAMEWORKS.items() for wire in f.wires]
CASES += [(name, next(iter(f.wires)), "http") for name, f in FRAMEWORKS.items()]
# These run in real sandboxes too: in a virtual machine and under gVisor.
REAL = [
    ("langchain", "anthropic", "microvm"),
    ("ai-sdk", "responses", "microvm"),
    ("langchain", "anthropic", "gvisor"),
    ("go-sdk", "anthropic", "gvisor"),
]


@pytest.fixture(scope="module")
def daemon():
    with Guests() as d:
        yield d


def server_environment(home):
    return {
        **{k: v for k, v in os.environ.items() if k in ("PATH", "LANG")},
        "CUBBY_HOME": str(home),
    }


@pytest.fixture
def server(request, daemon, tmp_path):
    """The server, as an agent gets it."""
    transport, options = request.param
    env = server_environment(daemon.home)
    if transport == "stdio":
        yield {"command": str(BIN / "cubby-mcp"), "args": list(options), "env": env}
        return
    tokens = tmp_path / "tokens.json"
    token = subprocess.run(
        [BIN / "cubby-mcp", "--new-token", "agent", "--token-file", tokens],
        env=env,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()
    http = Server("--token-file", tokens, *options, env=env, cwd=tmp_path)
    yield {"url": http.url, "token": token}
    http.stop()


def run_task(name, wire, server, directory):
    framework = FRAMEWORKS[name]
    with Stub(fix_bug(framework.wires[wire][1])) as stub:
        try:
            said = run_agent(framework, server, wire, stub.url, TASK, directory)
        finally:
            print("refused:", stub.model.refused, "failures:", stub.model.failures)
        stub.model.check()
    assert DONE in said


@pytest.mark.parametrize(
    "name,wire,server",
    [(n, w, (t, FRAMEWORKS[n].wires[w][0])) for n, w, t in CASES],
    ids=[f"{n}-{w}-{t}" for n, w, t in CASES],
    indirect=["server"],
)
def test_framework(name, wire, server, tmp_path):
    run_task(name, wire, server, tmp_path)
    note_passed(name, wire, "stdio" if "command" in server else "HTTP")


@pytest.mark.parametrize("name,wire,tier", REAL)
def test_framework_in_a_real_sandbox(home, name, wire, tier, tmp_path):
    if tier == "gvisor" and not RUNSC.exists():
        pytest.skip("runsc is not built: make runsc")
    server = {
        "command": str(BIN / "cubby-mcp"),
        "args": ["--tier", tier, *FRAMEWORKS[name].wires[wire][0]],
        "env": server_environment(home.path),
    }
    run_task(name, wire, server, tmp_path)
