# SPDX-License-Identifier: Apache-2.0
"""Directories of the host in the sandboxes of cubby-mcp: those of --mount, and those that a model may name."""

import os

import pytest

from harness import Mcp, ToolError
from tiers import tier  # noqa: F401


@pytest.fixture
def project(tmp_path):
    path = tmp_path / "project"
    (path / "sub").mkdir(parents=True)
    (path / "a").write_text("from the host\n")
    (path / ".env").write_text("SECRET=1\n")
    (path / "out").symlink_to(tmp_path / "other")
    (tmp_path / "other").mkdir()
    return path


@pytest.fixture
def start(home, tmp_path):
    servers = []

    def one(*args):
        servers.append(Mcp(home, *args, cwd=tmp_path))
        servers[-1].initialize()
        return servers[-1]

    yield one
    for server in servers:
        server.close()


def create(server, **arguments):
    return server.tool_result(server.start_tool("create_sandbox", **arguments))


def refused(server, **arguments):
    with pytest.raises(ToolError) as error:
        create(server, **arguments)
    return str(error.value)


def run(server, sandbox, command):
    return server.tool("run_command", sandbox_id=sandbox, command=command)


def test_each_sandbox_shows_what_the_operator_mounts(start, project):
    server = start("--mount", "project:/project", "--mount", f"{project}:/look:ro")
    made = create(server)
    assert made["hint"] == (f"/project shows {project} of the host; /look shows {project} of the host, for reading "
                            "only. Secrets such as .env and .git/config are hidden there")
    o = run(server, made["sandbox_id"], "cat /look/a && echo guest >/project/b && ls -A /project && ! touch /look/c")
    assert o["exit_code"] == 0 and o["stdout"] == "from the host\na\nb\nout\nsub\n", o
    assert (project / "b").read_text() == "guest\n"
    fork = server.tool("fork_sandbox", sandbox_id=made["sandbox_id"])["forks"][0]["sandbox_id"]
    assert run(server, fork, "cat /project/b")["stdout"] == "guest\n"
    for sandbox in (made["sandbox_id"], fork):
        server.tool("kill_sandbox", sandbox_id=sandbox)


def test_a_model_mounts_what_the_operator_allows(start, project):
    server = start("--allow-mount", project)
    named = create(server, name="mine", mounts=[f"{project}/sub:/project"])
    assert run(server, named["sandbox_id"], "echo x >/project/f")["exit_code"] == 0
    assert (project / "sub" / "f").read_text() == "x\n"
    again = create(server, name="mine", mounts=[f"{project}/sub:/project"])
    assert again["existed"] and again["sandbox_id"] == named["sandbox_id"]
    assert "another list of mounts" in refused(server, name="mine", mounts=[f"{project}:/project:ro"])
    server.tool("kill_sandbox", sandbox_id=named["sandbox_id"])


def test_a_mount_that_another_one_forbids_tells_nothing_of_it(start, project):
    server = start("--allow-mount", project.parent)
    one = create(server, mounts=[f"{project}/sub:/lower"])["sandbox_id"]
    said = refused(server, mounts=[f"{project}:/upper"])
    assert f"cannot mount {project}: it is now another directory, or a running sandbox mounts" in said and "add :ro" in said, said
    assert one not in said and "/sub" not in said
    assert "/x is already used" in refused(server, mounts=[f"{project}/sub:/x", f"{project}/sub:/x"])
    assert "one lies below the other" in refused(server, mounts=[f"{project}/sub:/x", f"{project}/sub:/x/y"])
    server.tool("kill_sandbox", sandbox_id=one)


def test_a_sandbox_whose_mount_fails_is_not_left(start, project, home):
    server = start("--allow-mount", project)
    before = server.tool("list_sandboxes")["sandboxes"]
    for target in ("/etc", "/a/../b"):
        assert "mount a directory" in refused(server, mounts=[f"{project}:{target}"])
    assert server.tool("list_sandboxes")["sandboxes"] == before
    os.rename(project, project.with_name("moved"))
    os.symlink(project.with_name("other"), project)
    assert "may be mounted" in refused(server, mounts=[f"{project}/../moved:/x"])
