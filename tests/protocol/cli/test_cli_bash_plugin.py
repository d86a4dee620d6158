# SPDX-License-Identifier: Apache-2.0
"""The plugin that runs a coding agent's Bash commands in a sandbox, without an agent.

The project is below /run, of which each of the process driver's machines has its own.
"""

import json
import os
import pathlib
import shlex
import shutil
import subprocess
import tempfile

import pytest
from harness import BIN, wait_for
from sdk import Guests

SCRIPT = pathlib.Path(__file__).parents[3] / "plugins/cubby-bash/scripts/sandbox_bash.py"
pytestmark = pytest.mark.skipif(
    os.geteuid() != 0, reason="only root can make users and mounts for envd"
)


@pytest.fixture(scope="module")
def daemon():
    with Guests() as d:
        yield d


@pytest.fixture
def project():
    """A git tree with two files and one that git ignores."""
    where = pathlib.Path(tempfile.mkdtemp(prefix="cubby-project-", dir="/run"))
    where.chmod(0o755)
    (where / "a.txt").write_text("first\n")
    (where / "sub dir").mkdir()
    (where / "sub dir/b.txt").write_text("second\n")
    (where / ".gitignore").write_text("ignored\n")
    (where / "ignored").write_text("not copied\n")
    subprocess.run(["git", "init", "-q", where], check=True)
    yield where
    shutil.rmtree(where)


class Agent:
    """Calls the hook as an agent does, and runs what the hook answers."""

    def __init__(self, daemon, project, state, **env):
        self.cwd = project
        self.env = {k: v for k, v in os.environ.items() if k in ("PATH", "LANG")}
        self.env |= {"CUBBY": str(BIN / "cubby"), "CUBBY_HOME": str(daemon.home), "HOME": "/root"}
        self.env |= {"XDG_STATE_HOME": str(state), "CUBBY_BASH_TEMPLATE": "bare", **env}

    def call(self, verb, **facts):
        event = json.dumps({"session_id": "s1", "cwd": str(self.cwd), **facts})
        return subprocess.run(
            [SCRIPT, verb], input=event, env=self.env, capture_output=True, text=True, timeout=60
        )

    def hooked(self, event):
        """The finished shell of hooks.json, as the agent starts it for an event."""
        hooks = json.loads((SCRIPT.parents[1] / "hooks/hooks.json").read_text())["hooks"]
        return subprocess.run(
            ["sh", "-c", hooks["PreToolUse"][0]["hooks"][0]["command"]],
            stdin=event,
            env={**self.env, "CLAUDE_PLUGIN_ROOT": str(SCRIPT.parents[1])},
            capture_output=True,
            text=True,
            timeout=60,
        )

    def refusal(self, **env):
        """What the hook says of a command that it blocks."""
        self.env |= env
        hook = self.call("hook", tool_name="Bash", tool_input={"command": "touch made"})
        assert hook.returncode == 2, hook.stderr
        assert "Traceback" not in hook.stderr
        assert "did not run" in hook.stderr
        return hook.stderr

    def bash(self, command, workdir=None, first=":"):
        """The finished process of a Bash command; its input is what the hook made of it."""
        hook = self.call("hook", tool_name="Bash", tool_input={"command": command, "timeout": 5})
        assert hook.returncode == 0, hook.stderr
        decision = json.loads(hook.stdout)["hookSpecificOutput"]
        assert decision["permissionDecision"] == "allow"
        assert decision["updatedInput"]["timeout"] == 5
        return subprocess.run(
            ["bash", "-c", f"{first}; {decision['updatedInput']['command']}"],
            env=self.env,
            cwd=workdir or self.cwd,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
        )


@pytest.fixture
def agent(daemon, project, tmp_path):
    one = Agent(daemon, project, tmp_path)
    yield one
    assert one.call("end").returncode == 0
    wait_for(
        lambda: not daemon.request("GET", "/v2/sandboxes").json,
        60,
        "the sandbox ends with its session",
    )


def test_a_command_runs_in_the_sandbox(agent, project):
    done = agent.bash("id -un; cat a.txt; echo wrong >&2; touch made; ls; exit 3")
    assert (done.returncode, done.stderr) == (3, "wrong\n"), done.stderr
    assert done.stdout == "user\nfirst\na.txt\nmade\nsub dir\n"
    assert not (project / "made").exists()


def test_one_sandbox_for_the_session_and_changes_of_the_project_arrive(agent, project, daemon):
    assert agent.bash("echo kept >/tmp/of-the-session; cat 'sub dir/b.txt'").stdout == "second\n"
    (project / "a.txt").write_text("changed\n")
    (project / "sub dir/b.txt").unlink()
    (project / "new").write_text("new\n")
    done = agent.bash("cat a.txt new; ls 'sub dir'")
    assert done.stdout == "changed\nnew\n"
    assert len(daemon.request("GET", "/v2/sandboxes").json) == 1


def test_the_working_directory_of_the_agent(agent, project):
    agent.cwd = project / "sub dir"
    assert agent.bash("pwd; cat ../a.txt").stdout == f"{project}/sub dir\nfirst\n"


def test_the_working_directory_of_one_call(agent, project):
    """The command runs where the agent runs it, even if the hook heard of another directory."""
    done = agent.bash("pwd; cat b.txt", workdir=project / "sub dir")
    assert done.stdout == f"{project}/sub dir\nsecond\n", done.stderr


def test_each_project_keeps_its_sandbox(agent, project, daemon):
    """The fixture asserts that the end of the session ends both."""
    subprocess.run(["git", "init", "-q", project / "sub dir"], check=True)
    for place in project, project / "sub dir", project, project / "sub dir":
        agent.cwd = place
        assert agent.bash("echo x >>runs; cat runs").returncode == 0
    assert agent.bash("cat runs").stdout == "x\nx\n"
    assert len(daemon.request("GET", "/v2/sandboxes").json) == 2


def test_a_directory_that_became_a_file(agent, project):
    subprocess.run(["git", "-C", project, "add", "-A"], check=True)
    assert agent.bash("cat 'sub dir/b.txt'").stdout == "second\n"
    shutil.rmtree(project / "sub dir")
    (project / "sub dir").write_text("a file now\n")
    done = agent.bash("cat 'sub dir'")
    assert done.stdout == "a file now\n", done.stderr


def test_git_starts_no_program_of_the_project(agent, project):
    """The agent may write .git/config, and the hook's git runs on the user's machine."""
    spy = project / "spy"
    spy.write_text(f"#!/bin/sh\ntouch {project}/on-the-host\n")
    spy.chmod(0o755)
    for name in "core.fsmonitor", "core.sshCommand", "core.pager":
        subprocess.run(["git", "-C", project, "config", name, spy], check=True)
    hooks = project / ".git/hooks"
    hooks.mkdir(exist_ok=True)
    shutil.copy(spy, hooks / "post-index-change")
    assert agent.bash("cat a.txt").stdout == "first\n"
    assert not (project / "on-the-host").exists()


def test_the_tree_of_a_hostile_configuration_is_not_copied(agent, project, tmp_path):
    (tmp_path / "secret").write_text("secret\n")
    subprocess.run(["git", "-C", project, "config", "core.worktree", tmp_path], check=True)
    done = agent.bash(f"cat {tmp_path}/secret secret")
    assert "secret\n" not in done.stdout
    assert done.returncode != 0


def test_a_git_that_fails_copies_nothing(daemon, project, tmp_path):
    """Without git's answer, the files that it ignores would be copied."""
    agent = Agent(daemon, project, tmp_path)
    (project / ".git/HEAD").write_text("broken\n")
    done = agent.bash("ls")
    assert done.returncode == 125
    assert "git cannot list the files" in done.stderr
    assert not daemon.request("GET", "/v2/sandboxes").json


def test_a_command_with_every_kind_of_quote(agent):
    text = 'it\'s "quoted" $HOME `x` \\ \n two'
    assert agent.bash(f"printf %s {shlex.quote(text)}").stdout == text


def test_a_sandbox_that_ended_is_replaced(agent, daemon):
    assert agent.bash("cat a.txt").stdout == "first\n"
    daemon.kill(daemon.request("GET", "/v2/sandboxes").json[0]["sandboxID"])
    assert agent.bash("cat a.txt").stdout == "first\n"


@pytest.mark.parametrize(
    "broken", [{"CUBBY": "/nonexistent"}, {"CUBBY_BACKEND": "http://127.0.0.1:1"}]
)
def test_without_cubby_nothing_runs(daemon, project, tmp_path, broken):
    agent = Agent(daemon, project, tmp_path, **broken)
    done = agent.bash("touch made")
    assert done.returncode == 125
    assert "did not run" in done.stderr
    assert not (project / "made").exists()


def test_a_call_that_the_hook_does_not_know_is_blocked(daemon, project, tmp_path):
    agent = Agent(daemon, project, tmp_path)
    hook = agent.call("hook", tool_name="Bash", tool_input={})
    assert hook.returncode == 2
    assert "does not understand this call" in hook.stderr
    assert agent.hooked(subprocess.DEVNULL).returncode == 2


@pytest.mark.parametrize(
    "facts",
    [
        {"tool_input": {"command": ["touch", "made"]}},
        {"tool_input": ["touch made"]},
        {"session_id": 7},
        {"session_id": None},
        {"cwd": 7},
        {"cwd": "/\0"},
        {"cwd": "/\ud800"},
    ],
)
def test_a_call_with_a_value_of_another_type_is_blocked(daemon, project, tmp_path, facts):
    agent = Agent(daemon, project, tmp_path)
    hook = agent.call("hook", **{"tool_input": {"command": "touch made"}, **facts})
    assert hook.returncode == 2
    assert "does not understand this call" in hook.stderr and "did not run" in hook.stderr
    assert "Traceback" not in hook.stderr and len(hook.stderr.splitlines()) == 2
    assert not hook.stdout
    if "session_id" in facts:
        assert "Traceback" not in agent.call("end", **facts).stderr


def test_the_history_and_empty_directories_stay_here(agent, project):
    """docs/coding-agents.md says that git does not work there."""
    (project / "empty").mkdir()
    done = agent.bash("ls -A; git status")
    assert done.returncode and done.stdout == ".gitignore\na.txt\nsub dir\n"


def test_a_hook_without_an_answer_ends_itself_and_blocks(daemon, project, tmp_path):
    """An agent ends a hook at its timeout and then runs the command, so the hook is faster."""
    agent = Agent(daemon, project, tmp_path)
    reader, writer = os.pipe()  # an event that never comes
    try:
        assert agent.hooked(reader).returncode == 2
    finally:
        os.close(reader)
        os.close(writer)
    hooks = json.loads((SCRIPT.parents[1] / "hooks/hooks.json").read_text())["hooks"]
    assert hooks["PreToolUse"][0]["hooks"][0]["timeout"] == 600


@pytest.mark.parametrize("home", [".", "sub dir", "sub dir/deeper"])
def test_a_home_directory_is_no_project(daemon, project, tmp_path, home):
    agent = Agent(daemon, project, tmp_path)
    said = agent.refusal(HOME=str(project / home))
    assert f"the project would be {project}, which has your home directory" in said
    assert "start the agent in the directory of one project" in said
    agent.cwd = project / "sub dir"
    assert "home directory" in agent.refusal(CLAUDE_PROJECT_DIR=str(project))


def test_a_git_tree_of_the_home_directory_is_not_the_project(agent, project):
    agent.env["HOME"] = str(project)
    agent.cwd = project / "sub dir"
    done = agent.bash("ls; ls ..")
    assert done.stdout == "b.txt\nsub dir\n", done.stderr


def test_a_state_directory_that_cannot_be_used_is_named(daemon, project, tmp_path):
    agent = Agent(daemon, project, tmp_path / "file")
    (tmp_path / "file").write_text("")
    said = agent.refusal()
    assert f"{tmp_path}/file/cubby-bash" in said
    assert "XDG_STATE_HOME" in said


def test_a_working_directory_that_is_gone(daemon, project, tmp_path):
    agent = Agent(daemon, project, tmp_path)
    gone = project / "gone"
    gone.mkdir()
    done = agent.bash("pwd", workdir=gone, first='rmdir "$PWD"')
    assert done.returncode == 125
    assert "the working directory: No such file or directory" in done.stderr
