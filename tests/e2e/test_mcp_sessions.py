# SPDX-License-Identifier: Apache-2.0
"""A named shell in a real sandbox of each tier: it is found by every server, and survives a pause, a hibernation, a
snapshot with its rollback, and a fork."""

import pytest
from harness import Mcp
from tiers import tier  # noqa: F401


@pytest.fixture
def sandbox(mcp):
    sandbox_id = mcp.tool("create_sandbox")["sandbox_id"]
    yield sandbox_id
    mcp.tool("kill_sandbox", sandbox_id=sandbox_id)


def test_a_session_survives_what_its_sandbox_survives(home, mcp, sandbox, tmp_path):
    def run(command, of=sandbox, by=mcp, **more):
        return by.tool("run_command", sandbox_id=of, command=command, session="main", **more)

    def look(of=sandbox, by=mcp):
        o = run('pwd; echo "$A $B"; f; kill -0 $JOB && echo runs; exit 3', of, by)
        assert (o["stdout"], o["stderr"], o["exit_code"]) == ("/usr/lib\n1 2 3\nf 1\nruns\n", "", 3)
        assert not o["session"]["new"]

    first = run('cd /usr/lib; A=1; export B="2 3"; f() { echo "f $A"; }; sleep 5000 & JOB=$!; id -un')
    assert first["stdout"] == "user\n" and first["session"]["new"]
    look()
    other = Mcp(home, "--local-dir", tmp_path, cwd=tmp_path)
    other.initialize()
    look(by=other)
    other.close()

    snapshot = mcp.tool("snapshot_sandbox", sandbox_id=sandbox)["snapshot_id"]
    look()
    mcp.tool("pause_sandbox", sandbox_id=sandbox)
    mcp.tool("resume_sandbox", sandbox_id=sandbox)
    look()
    home.cubby("pause", sandbox, "--hibernate", timeout=300)
    mcp.tool("resume_sandbox", sandbox_id=sandbox)
    look()

    fork = mcp.tool("fork_sandbox", sandbox_id=sandbox)["forks"][0]["sandbox_id"]
    run("A=changed; cd /", of=fork)
    look()
    mcp.tool("kill_sandbox", sandbox_id=fork)

    run("A=later; cd /tmp; kill $JOB")
    mcp.tool("rollback_sandbox", sandbox_id=sandbox, snapshot_id=snapshot)
    look()
    made = mcp.tool("create_sandbox", template=snapshot)["sandbox_id"]
    look(made)
    mcp.tool("kill_sandbox", sandbox_id=made)
    mcp.tool("delete_snapshot", snapshot_id=snapshot)


def test_interrupts_users_and_calls_at_once(mcp, sandbox):
    def run(command, **more):
        return mcp.tool("run_command", sandbox_id=sandbox, command=command, **more)

    assert run("A=1; id -un", session="main", user="root")["stdout"] == "root\n"
    assert run('echo "<$A>"', session="main")["stdout"] == "<>\n", "each user has sessions of its own"
    o = run("echo so far; sleep 1000; echo not", session="main", user="root", timeout=3)
    assert o["timed_out"] and (o["stdout"], o["exit_code"]) == ("so far\n", 130) and not o["session"]["ended"]
    assert run('echo "$A"; pgrep -c sleep', session="main", user="root")["stdout"] == "1\n0\n"
    requests = [mcp.start_tool("run_command", sandbox_id=sandbox, session=f"s{i % 5}", timeout=250,
                               command=f"seq {i} 300; echo e{i} >&2; (exit {i})") for i in range(25)]
    for i, request in enumerate(requests):
        o = mcp.tool_result(request, 300)
        assert (o["stdout"], o["stderr"], o["exit_code"]) == ("".join(f"{k}\n" for k in range(i, 301)), f"e{i}\n", i)
