# SPDX-License-Identifier: Apache-2.0
"""Named shells: what the tests of them share."""

import os
import pathlib
import signal

import pytest
from harness import ToolError
from mcp_envd import real, sandbox, start  # noqa: F401
from mcp_schemas import checked


@pytest.fixture
def server(start):  # noqa: F811
    return start()


def children():
    """{parent: [child]} of all processes."""
    found = {}
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            pid, rest = int(stat.parent.name), stat.read_text().rpartition(") ")[2].split()
        except OSError:
            continue
        found.setdefault(int(rest[1]), []).append(pid)
    return found


def kill_tree(pid, tree):
    """The parent first: a keeper would start another shell."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    for child in tree.get(pid, []):
        kill_tree(child, tree)


def keepers(real):  # noqa: F811
    return {f.parent.name: int(f.read_text().split()[0]) for f in real.commands.glob("shells-*/*/keeper")}


@pytest.fixture
def place(real):  # noqa: F811
    """Sessions live as long as the sandbox, so end them as its end does."""
    yield real.commands
    tree = children()
    for keeper in keepers(real).values():
        kill_tree(keeper, tree)
    for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):  # jobs of shells that ended
        if str(real.commands) in exists(path):
            kill_tree(int(path.parent.name), {})


@pytest.fixture
def run(server, sandbox, place):  # noqa: F811
    """(structuredContent, text) of a command in the session "main"."""
    def call(command, session="main", **more):
        return checked(server, "run_command", sandbox_id=sandbox, command=command, session=session, **more)[:2]
    return call


def failure(server, request):
    with pytest.raises(ToolError) as raised:
        server.tool_result(request)
    return str(raised.value)


def streams(o):
    return o["stdout"], o["stderr"], o["exit_code"]


def nap(seconds):
    """A time for sleep(1) by which sleeping() knows the processes of this run from those of another one."""
    return f"{seconds}.{os.getpid()}"


def sleeping(seconds):
    return [p for p in pathlib.Path("/proc").glob("[0-9]*/cmdline") if exists(p) == f"sleep\0{nap(seconds)}\0"]


def exists(path):
    try:
        return path.read_text()
    except OSError:
        return ""
