# SPDX-License-Identifier: Apache-2.0
"""The programs of docs/recipes run as they stand there, and do what their pages say."""

import os
import pathlib
import re
import subprocess

import pytest
from frameworks import ENVIRONMENTS, environment
from harness import BIN
from mcp_http import Server
from model_scripts import DONE, fix_bug
from model_stub import Stub
from sdk import Guests

RECIPES = pathlib.Path(__file__).parents[2] / "docs/recipes"
pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can make users and mounts for envd"),
]


@pytest.fixture(scope="module")
def daemon():
    with Guests() as d:
        yield d


@pytest.fixture
def run(daemon, tmp_path):
    """Runs the Python blocks of a page, in an environment. Returns what they printed."""

    def run_page(page, interpreter, **env):
        text = (RECIPES / f"{page}.md").read_text()
        program = tmp_path / f"{page.replace('-', '_')}_recipe.py"
        program.write_text("\n\n".join(re.findall(r"```python\n(.*?)```", text, re.DOTALL)))
        path = f"{BIN}:{os.environ['PATH']}"
        done = subprocess.run(
            [ENVIRONMENTS / interpreter / "bin/python", program],
            env={**environment(), "PATH": path, "CUBBY_HOME": str(daemon.home), **env},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=240,
        )
        assert done.returncode == 0, done.stderr[-4000:]
        return done.stdout

    yield run_page
    for sandbox in daemon.request("GET", "/v2/sandboxes").json:
        daemon.kill(sandbox["sandboxID"])


def test_openai_agents(run):
    with Stub(fix_bug("image")) as stub:
        said = run(
            "openai-agents",
            "openai-agents",
            OPENAI_BASE_URL=f"{stub.url}/v1",
            OPENAI_AGENTS_DISABLE_TRACING="1",
        )
        stub.model.check()
    assert DONE in said


def test_deepagents(run):
    with Stub(fix_bug("image")) as stub:
        said = run("deepagents", "langchain", ANTHROPIC_BASE_URL=stub.url)
        stub.model.check()
    assert DONE in said


def test_miroflow(run):
    said = run("miroflow", "langchain")
    assert "a" in said and "42" in said


def test_autogen(run):
    assert run("autogen", "autogen").split("\n")[0:2] == ["3 hello from /tmp", "42"]


@pytest.mark.parametrize("page", ["rock", "swe-rex"])
def test_sandbox_classes(run, page):
    said = run(page, "rock").split("\n")
    assert said[0:2] == ["b in /tmp", " 0"]
    assert said[2:5] == ["written", "3", "import asyncio"]


def test_maxkb(run, daemon, tmp_path):
    tokens = tmp_path / "tokens.json"
    env = {**environment(), "CUBBY_HOME": str(daemon.home)}
    made = subprocess.run(
        [BIN / "cubby-mcp", "--new-token", "maxkb", "--token-file", tokens],
        check=True,
        capture_output=True,
        text=True,
        env=env,
    )
    server = Server("--token-file", tokens, "--images", "path", env=env, cwd=tmp_path)
    packages = next(ENVIRONMENTS.glob("langchain/lib/python3.*/site-packages"))
    said = run(
        "maxkb",
        "langchain",
        CUBBY_URL=server.url,
        CUBBY_TOKEN=made.stdout.strip(),
        SANDBOX_PYTHON=f"env PYTHONPATH={packages} python3",  # a machine has the host's files
    )
    server.stop()
    said = said.splitlines()
    assert said[0] == "{'area': 42}" and "HELLO" in said and said[-1] == "count_words 3"
