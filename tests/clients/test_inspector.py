# SPDX-License-Identifier: Apache-2.0
"""The official inspector's command line, in two generations: one call per process, as scripts use
it.
"""

import json
import os
import subprocess

import pytest
from clients import CLIENTS, NODE
from harness import BIN
from mcp_http import http_start  # noqa: F401
from mcp_stdio import backend  # noqa: F401

MODULES = CLIENTS / "node_modules"
CLI = {"2": MODULES / "@modelcontextprotocol/inspector/clients/launcher/build/index.js",
       "0.15": MODULES / "inspector-0-15/cli/build/cli.js"}


class Inspector:
    def __init__(self, backend, url, home, generation, era=None):
        self.backend, self.url, self.home = backend, url, home
        self.generation, self.era = generation, era

    def run(self, *words):
        new = self.generation == "2"
        target = [self.url, "--transport", "http"] if self.url else \
            ["-e", f"CUBBY_HOME={self.backend.home}", str(BIN / "cubby-mcp")]
        words = [*(["--format", "json"] if new else []),
                 *(["--protocol-era", self.era] if self.era else []), *words]
        env = {**os.environ, "MCP_INSPECTOR_SECRET_STORE": "memory", "HOME": str(self.home),
               "PATH": f"{NODE.parent}:{os.environ['PATH']}"}
        return subprocess.run([NODE, CLI[self.generation], "--cli", *target, *map(str, words)], env=env,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)

    def json(self, *words):
        done = self.run(*words)
        assert done.returncode == 0, done.stderr
        found = json.loads(done.stdout)
        return found["result"] if self.generation == "2" else found

    def tool(self, name, **arguments):
        return self.json(*self.call_words(name, arguments))

    def call_words(self, name, arguments):
        words = ["--method", "tools/call", "--tool-name", name]
        for key, value in arguments.items():
            words += ["--tool-arg", f"{key}={value}"]
        return words


@pytest.fixture(params=["2-legacy", "2-auto", "2-modern", "0.15"])
def inspector(request, transport, backend, tmp_path, http_start):
    url = http_start().url if transport == "http" else None
    generation, _, era = request.param.partition("-")
    return Inspector(backend, url, tmp_path, generation, era)


@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_inspector(inspector):  # 79
    tools = inspector.json("--method", "tools/list")["tools"]
    assert {t["name"] for t in tools} >= {"create_sandbox", "run_python_code"}
    sandbox = inspector.tool("create_sandbox")["structuredContent"]["sandbox_id"]
    done = inspector.tool("run_python_code", sandbox_id=sandbox, code_block="6*7")
    assert done["structuredContent"]["result"] == "42"
    failed = inspector.run(*inspector.call_words("run_command", {"sandbox_id": "none", "command": "ls"}))
    if inspector.generation == "2":
        assert failed.returncode == 5, failed
    assert "none" in failed.stdout + failed.stderr


@pytest.mark.parametrize("transport", ["stdio", "http"])
@pytest.mark.parametrize("inspector", ["2-legacy", "2-modern"], indirect=True)
def test_schemas_are_portable(inspector):
    """The inspector's lint of the tools' schemas reports no error (it would exit with 6)."""
    done = inspector.run("--strict", "--method", "tools/list")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("transport", ["stdio", "http"])
@pytest.mark.parametrize("inspector", ["2-legacy", "2-modern"], indirect=True)
def test_other_lists(inspector):
    assert inspector.json("--method", "resources/list")["resources"] == []  # there is no sandbox
    assert inspector.json("--method", "resources/templates/list")["resourceTemplates"]
    assert inspector.json("--method", "prompts/list")["prompts"]
