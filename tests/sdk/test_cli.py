# SPDX-License-Identifier: Apache-2.0
"""E2B's command line against cubbyd, unmodified: each verb that reaches the API."""

import json
import os
import pty
import re
import subprocess

import pytest

from sdk import CLIENTS, NODE, OURS, Guests

pytestmark = [pytest.mark.skipif(os.geteuid() != 0, reason="only root can make users and mounts for envd")]
CLI = CLIENTS / "node_modules/@e2b/cli/dist/index.js"


def environment(daemon, home):
    kept = {k: v for k, v in os.environ.items() if k not in OURS}
    return kept | {"HOME": str(home), "NO_COLOR": "1", "TERM": "xterm", **daemon.variables()}


@pytest.fixture(name="cli", scope="module")
def fixture_cli(tmp_path_factory):
    """Runs `e2b WORDS...` and returns (exit code, output, errors)."""
    home = tmp_path_factory.mktemp("home")
    with Guests() as daemon:
        def run(*words, input=None, status=0):
            done = subprocess.run([NODE, CLI, *words], env=environment(daemon, home), text=True, capture_output=True,
                                  input=input, timeout=120)
            assert done.returncode == status, done.stdout + done.stderr
            return done.stdout + done.stderr

        run.daemon, run.home = daemon, home
        yield run


@pytest.fixture(name="sandbox")
def fixture_sandbox(cli):
    made = cli("sandbox", "create", "bare", "--detach", "--timeout", "600")
    sandbox = re.search(r"[a-z0-9]{20}", made)[0]
    yield sandbox
    cli.daemon.kill(sandbox)


def test_create_list_info_and_kill(cli, sandbox):
    listed = json.loads(cli("sandbox", "list", "--format", "json"))
    assert [one["sandboxId"] for one in listed] == [sandbox] and listed[0]["state"] == "running"
    assert sandbox in cli("sandbox", "list", "--template", "bare")
    told = json.loads(cli("sandbox", "info", sandbox, "--format", "json"))
    assert told["sandboxId"] == sandbox and told["state"] == "running"
    assert sandbox in cli("sandbox", "kill", sandbox)
    assert json.loads(cli("sandbox", "list", "--format", "json")) == []
    assert "wasn't found" in cli("sandbox", "kill", sandbox)


def test_pause_and_resume(cli, sandbox):
    cli("sandbox", "pause", sandbox)
    assert [one["sandboxId"] for one in json.loads(cli("sandbox", "list", "-s", "paused", "-f", "json"))] == [sandbox]
    cli("sandbox", "resume", sandbox)
    assert json.loads(cli("sandbox", "info", sandbox, "-f", "json"))["state"] == "running"


def test_exec(cli, sandbox):
    out = cli("sandbox", "exec", "-e", "WORD=hello", "-c", "/tmp", sandbox, "echo $WORD; pwd; echo wrong >&2; exit 4",
              status=4)
    assert "hello\n/tmp\n" in out and "wrong" in out
    assert "from the terminal" in cli("sandbox", "exec", sandbox, "cat", input="from the terminal")


def test_logs_and_metrics(cli, sandbox):
    lines = [json.loads(line) for line in cli("sandbox", "logs", "--format", "json", sandbox).splitlines()
             if line.startswith("{")]
    assert lines and all(line["level"] and line["message"] for line in lines)
    assert cli("sandbox", "logs", sandbox) and "CPU" in cli("sandbox", "metrics", sandbox)


def test_snapshots(cli, sandbox):
    made = cli("sandbox", "snapshot", "create", sandbox, "--name", "kept")
    snapshots = json.loads(cli("sandbox", "snapshot", "list", "--format", "json"))
    assert len(snapshots) == 1 and snapshots[0]["snapshotId"] in made
    assert json.loads(cli("sandbox", "snapshot", "list", sandbox, "-f", "json")) == snapshots
    cli("sandbox", "snapshot", "delete", snapshots[0]["snapshotId"])
    assert json.loads(cli("sandbox", "snapshot", "list", "-f", "json")) == []


def test_templates(cli):
    templates = json.loads(cli("template", "list", "--format", "json"))
    assert {"default", "bare"} <= {one["templateID"] for one in templates}
    assert "cannot be deleted here" in cli("template", "delete", "default", "-y", status=1)


def in_a_terminal(cli, typed, *words):
    """What the command shows in a terminal in which a person types this once the shell has begun."""
    pid, fd = pty.fork()
    if pid == 0:
        os.execve(NODE, [str(NODE), str(CLI), *words], environment(cli.daemon, cli.home))
    shown, sent = b"", False
    while True:
        try:
            piece = os.read(fd, 65536)
        except OSError:  # the terminal has closed
            piece = b""
        if not piece:
            break
        shown += piece
        if not sent and re.search(rb"[$#] ", shown):
            sent = True
            os.write(fd, typed)
    os.close(fd)
    os.waitpid(pid, 0)
    return shown.decode("utf-8", "replace")


def test_terminals(cli, sandbox):
    shown = in_a_terminal(cli, b"echo $((40 + 2))x; exit\n", "sandbox", "connect", sandbox)
    assert "42x" in shown, shown
    shown = in_a_terminal(cli, b"echo $((40 + 3))x; exit\n", "sandbox", "create", "bare")
    assert "43x" in shown, shown


def test_who_i_am(cli):
    assert "Not logged in" in cli("auth", "info"), "an API key suffices for the other verbs"
