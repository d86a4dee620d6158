# SPDX-License-Identifier: Apache-2.0
"""The plugins, installed as a user installs them.

Claude Code and Codex fix a bug with their own tools, and their commands run in a sandbox.
"""

import os
import pathlib
import shutil
import subprocess
import tempfile

import pytest
from coding_agents import ClaudeCode, Codex
from harness import BIN, wait_for
from model_bash_script import fix_bug_by_bash
from model_scripts import CALC, DONE, TESTS
from model_stub import Call, Stub, expect
from sdk import Guests

INSTALL = {ClaudeCode: "install", Codex: "add"}
ROOT = pathlib.Path(__file__).parents[2]
pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can make users and mounts for envd"),
]


@pytest.fixture(scope="module")
def daemon():
    with Guests() as d:
        yield d


@pytest.fixture
def project():
    """A project below /run, of which each of the process driver's machines has its own."""
    where = pathlib.Path(tempfile.mkdtemp(prefix="cubby-project-", dir="/run"))
    where.chmod(0o755)
    (where / "calc.py").write_text(CALC)
    (where / "test_calc.py").write_text(TESTS)
    subprocess.run(["git", "init", "-q", where], check=True)
    yield where
    shutil.rmtree(where)


def claude_tools(project):
    edit = {"old_string": "(len(values) + 1)", "new_string": "len(values)"}
    path = {"file_path": str(project / "calc.py")}
    calls = [Call("Read", path), Call("Edit", {**path, **edit})]
    return {"bash": "Bash", "command": "command", "edit": calls}


def codex_tools(project):
    edit = "sed -i 's/(len(values) + 1)/len(values)/' calc.py"
    return {"bash": "exec_command", "command": "cmd", "edit": [Call("exec_command", {"cmd": edit})]}


def with_plugin(kind, room, home, url, project, name="cubby-bash", **env):
    """An agent whose user has installed the plugin."""
    agent = kind(room, BIN / "cubby-mcp", home, url)
    agent.project = project
    more = {"CUBBY": str(BIN / "cubby"), "CUBBY_HOME": str(home), **env}
    variables = {**agent.variables(), **more}
    agent.variables = lambda: variables
    agent.run("plugin", "marketplace", "add", ROOT)
    agent.run("plugin", INSTALL[kind], f"{name}@cubby")
    return agent


@pytest.mark.parametrize("where", [".", "plugins/cubby", "plugins/cubby-bash"])
def test_claude_finds_the_plugins_valid(tmp_path, where):
    agent = ClaudeCode(tmp_path, BIN / "cubby-mcp", tmp_path, "http://127.0.0.1:1")
    assert "Validation passed" in agent.run("plugin", "validate", ROOT / where)


def test_an_installed_plugin(tmp_path):
    """The way of docs/coding-agents.md, after `make install`."""
    words = ["install", f"BUILD={BIN.parent}", f"DESTDIR={tmp_path}", "PREFIX=/usr/local"]
    subprocess.run(["make", "-C", ROOT, *words], check=True, capture_output=True)
    agent = ClaudeCode(tmp_path, BIN / "cubby-mcp", tmp_path, "http://127.0.0.1:1")
    agent.run("plugin", "marketplace", "add", tmp_path / "usr/local/share/cubby")
    for name in "cubby", "cubby-bash":
        agent.run("plugin", "install", f"{name}@cubby")
    listed = agent.run("plugin", "list")
    assert "cubby@cubby" in listed and "cubby-bash@cubby" in listed


def test_claude_code_fixes_a_bug_in_a_sandbox(daemon, project, tmp_path):
    with Stub(fix_bug_by_bash(claude_tools(project), project)) as stub:
        agent = with_plugin(ClaudeCode, tmp_path, daemon.home, stub.url, project)
        said = agent.ask("Fix the bug.", "--permission-mode", "acceptEdits")
        stub.model.check()
    assert DONE in said
    assert "/ len(values)" in (project / "calc.py").read_text()
    assert not (project / "made-by-bash").exists()
    wait_for(
        lambda: not daemon.request("GET", "/v2/sandboxes").json,
        60,
        "the sandbox ends with its session",
    )


def test_codex_runs_its_commands_in_a_sandbox(daemon, project, tmp_path):
    """Codex edits by a command too, so the edit stays in the sandbox."""
    with Stub(fix_bug_by_bash(codex_tools(project), project)) as stub:
        agent = with_plugin(Codex, tmp_path, daemon.home, stub.url, project)
        said = agent.ask("Fix the bug.", "--dangerously-bypass-hook-trust")
        stub.model.check()
    assert DONE in said
    assert (project / "calc.py").read_text() == CALC
    assert not (project / "made-by-bash").exists()
    for sandbox in daemon.request("GET", "/v2/sandboxes").json:
        daemon.kill(sandbox["sandboxID"])


def test_codex_runs_a_command_in_the_directory_of_the_call(daemon, project, tmp_path):
    """The call names the directory; the session has another one."""
    (project / "deeper").mkdir()
    (project / "deeper/here.txt").write_text("found\n")

    def script():
        call = {"cmd": "pwd; cat here.txt", "workdir": str(project / "deeper")}
        expect((yield Call("exec_command", call)), f"{project}/deeper", "found\n")
        return DONE

    with Stub(script()) as stub:
        agent = with_plugin(Codex, tmp_path, daemon.home, stub.url, project)
        agent.ask("Look there.", "--dangerously-bypass-hook-trust")
        stub.model.check()
    for sandbox in daemon.request("GET", "/v2/sandboxes").json:
        daemon.kill(sandbox["sandboxID"])


def test_without_cubby_no_command_runs(daemon, project, tmp_path):
    def script():
        done = yield Call("Bash", {"command": "touch made-by-bash"})
        expect(done, "did not run")
        return DONE

    with Stub(script()) as stub:
        agent = with_plugin(
            ClaudeCode, tmp_path, daemon.home, stub.url, project, CUBBY_BACKEND="http://127.0.0.1:1"
        )
        agent.ask("Make a file.")
        stub.model.check()
    assert not (project / "made-by-bash").exists()


def test_the_plugin_with_the_tools(daemon, project, tmp_path):
    def script():
        expect((yield Call("create_sandbox", {})), "sandbox_id")
        return DONE

    path = f"{BIN}:{os.environ['PATH']}"
    with Stub(script()) as stub:
        agent = with_plugin(
            ClaudeCode, tmp_path, daemon.home, stub.url, project, name="cubby", PATH=path
        )
        agent.ask("Make a sandbox.", "--allowedTools", "mcp__plugin_cubby_cubby")
        stub.model.check()
    for sandbox in daemon.request("GET", "/v2/sandboxes").json:
        daemon.kill(sandbox["sandboxID"])
