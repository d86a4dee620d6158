# SPDX-License-Identifier: Apache-2.0
"""The official E2B SDKs, run as a user runs them, against a daemon of the test.

The packages are those of tests/clients/package.json and tests/sdk/requirements*.txt, installed
below CLIENTS. The programs are tests/sdk/js/main.mjs and tests/sdk/python/main.py; each runs the
scenarios that its arguments name and prints a line of JSON for each.
"""

import hashlib
import json
import os
import pathlib
import shlex
import subprocess

import pytest

from cubbyd import Daemon, Shipped

TESTS = pathlib.Path(__file__).parents[2]
CLIENTS = pathlib.Path(os.environ.get("CLIENTS", "/nonexistent"))
KERNEL = TESTS.parent / "sandbox-backend/guest/kernel"
NODE = CLIENTS / "node_modules" / "node" / "bin" / "node"
PROGRAMS = {
    "js": [NODE, TESTS / "sdk/js/main.mjs"],
    "python": [CLIENTS / "e2b/bin/python", TESTS / "sdk/python/main.py", "sync"],
    "python-async": [CLIENTS / "e2b/bin/python", TESTS / "sdk/python/main.py", "async"],
    "python-1.9": [CLIENTS / "e2b-1.9/bin/python", TESTS / "sdk/python/main.py", "sync"],
}
KEY = "e2b_" + "5d" * 20

COMMANDS = ["commands_" + name for name in (
    "run", "callbacks", "background", "stdin", "stdin_off", "connect", "kill", "list", "timeout",
    "environment", "cwd", "user", "exit_error", "output")]
FILES = ["files_" + name for name in (
    "text", "bytes", "stream", "empty", "large", "names", "many", "entries", "relative", "watch",
    "watch_recursive", "watch_errors", "metadata", "gzip", "signed_urls", "errors", "space")]
PTY = ["pty_input", "pty_resize", "pty_kill", "pty_connect"]
SANDBOX = ["sandbox_" + name for name in (
    "create", "timeout", "kill", "killed_during_run", "connect", "pause", "auto_pause", "auto_resume",
    "list", "metrics", "host", "errors", "snapshot", "fork", "git")]
CODE = ["code_" + name for name in (
    "text", "state", "logs", "callbacks", "error", "every_kind", "chart", "data", "contexts", "bash",
    "envs", "timeout")]
ALL = [*COMMANDS, *FILES, *PTY, *SANDBOX, *CODE]
# What 1.9 does not have.
SINCE_2 = {"files_metadata", "files_gzip", "pty_connect", "sandbox_killed_during_run", "sandbox_pause",
           "sandbox_auto_pause", "sandbox_auto_resume", "sandbox_snapshot", "sandbox_fork", "sandbox_git"}
SCENARIOS = {
    "js": [*ALL, "commands_parallel", "sandbox_websocket"],
    "python": [*ALL, "commands_stdin_closed", "commands_stdin_streamed"],
    "python-async": [
        "commands_run", "commands_callbacks", "commands_stdin", "commands_connect", "commands_timeout",
        "commands_parallel", "pty_all", "files_streams", "files_watch_recursive", "sandbox_life",
        "code_text", "code_callbacks", "code_contexts", "code_timeout"],
    "python-1.9": [name for name in ALL if name not in SINCE_2],
}
# What a user's environment must not decide here.
PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")
OURS = [name for name in os.environ
        if name.startswith(("E2B_", "CUBBY_")) or name.lower() in PROXIES]


class OnTcp:
    """A daemon that also listens on TCP, where it requires KEY."""

    def __init__(self, *args, **options):
        super().__init__("--listen", "127.0.0.1:0", *args, **options)
        digest = hashlib.sha256(KEY.encode()).hexdigest()
        keys = self.home / "keys.json"
        keys.write_text(json.dumps({"tokens": [{"name": "test", "sha256": digest}]}))
        keys.chmod(0o600)

    @property
    def url(self):
        return (self.home / "cubbyd.url").read_text().strip()

    def variables(self):
        """The environment that a user of an SDK sets."""
        return {"E2B_API_KEY": KEY, "E2B_API_URL": self.url, "E2B_SANDBOX_URL": self.url}


class Guests(OnTcp, Daemon):
    """Its machines are namespaces with a real envd (tests/lib/process_driver/process_guest.sh);
    those of the template "default" also run code."""

    def templates(self):
        self.guest("default", kernel=f"/usr/bin/python3 {KERNEL} --port 49999 --run-dir /run/e2b")
        self.guest("bare", cpus=3)

    def guest(self, name, kernel="", **facts):
        self.template(name, guest=str(TESTS / "lib/process_driver/process_guest.sh"), **facts)
        (self.home / "templates" / name / "guest.env").write_text(
            f"ENVD={shlex.quote(os.environ['ENVD'])}\nKERNEL={shlex.quote(kernel)}\n")


class RealGuests(OnTcp, Shipped):
    """Its sandboxes are real ones, of the template that the tests share."""


def both_sdks(python, javascript):
    """Run a test with each SDK's program: the words of its command, as the argument `words`."""
    return pytest.mark.parametrize("words", [[CLIENTS / "e2b/bin/python", "-c", python],
                                             [NODE, "--input-type=module", "-e", javascript]], ids=["python", "js"])


def runs_to_its_end(words, daemon, **more):
    """The program uses this daemon and prints "done" last."""
    environment = {k: v for k, v in os.environ.items() if k not in OURS}
    environment |= {"CLIENTS": str(CLIENTS), **more, **daemon.variables()}
    done = subprocess.run(words, env=environment, text=True, capture_output=True, timeout=120)
    assert done.stdout.endswith("done\n"), done.stdout + done.stderr[-3000:]


def run_program(name, variables, scenarios, room=None, seconds=600, template="default", bare="default"):
    """Runs it with these variables; returns {scenario: None or the error's text}. `room`: a
    Wildcard that it runs in; `bare`: the template of sandboxes that run no code."""
    plan = json.dumps({"scenarios": scenarios, "template": template, "bare": bare})
    environment = {k: v for k, v in os.environ.items() if k not in OURS}
    environment |= {"CLIENTS": str(CLIENTS), "PYTHONDONTWRITEBYTECODE": "1", **variables}
    words = [*map(str, PROGRAMS[name]), plan]
    process = subprocess.Popen([*room.wrap, *words] if room else words, env=environment, text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               pass_fds=[room.theirs.fileno()] if room else [])
    if room:
        room.started()
    try:
        said, complaints = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        said, complaints = process.communicate()
        complaints += f"\nkilled after {seconds} s"
    lines = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
    results = {line["name"]: line["error"] for line in lines}
    slow = sorted(lines, key=lambda line: -line["seconds"])[:8]
    print(name, "took longest for", {line["name"]: line["seconds"] for line in slow})
    for scenario in scenarios:
        results.setdefault(scenario, f"not reached; the program ended with {process.returncode}:\n"
                                     + complaints[-4000:])
    return results
