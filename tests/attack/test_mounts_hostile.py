# SPDX-License-Identifier: Apache-2.0
"""Mounts whose guest, or whose neighbour on the host, works against the daemon. In gVisor's tier alone: what
is tested is the daemon's part, which is the same in both.
"""

import os
import pathlib
import shutil
import signal
import time

import pytest

from cubbyd import Shipped, wait_for
from harness import BIN
from key_holder import ask, new_key
from tiers import GVISOR

pytestmark = GVISOR


@pytest.fixture(scope="module")
def daemon():
    with Shipped("--listen", "127.0.0.1:0", tier="gvisor") as d:
        yield d


@pytest.fixture
def made(daemon):
    sandbox = daemon.create(timeout=900)
    yield sandbox
    daemon.kill(sandbox["sandboxID"])


@pytest.fixture
def project(tmp_path):
    path = tmp_path / "project"
    (path / "sub").mkdir(parents=True)
    (path / "sub" / "a").write_text("mine")
    return path


def url(sandbox, what):
    return f"/sandboxes/{sandbox['sandboxID']}/{what}"


def mount(daemon, sandbox, source, target, status=201, **more):
    answer = daemon.request("POST", url(sandbox, "mounts"), {"source": str(source), "target": target, **more},
                            timeout=120)
    assert answer.status == status, answer.body
    return answer.json


def mounts(daemon, sandbox):
    return daemon.request("GET", url(sandbox, "mounts")).json


def servers(daemon):
    """The cubby-mountd processes of this daemon."""
    found = []
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            name, rest = (entry / "stat").read_text().rsplit(")", 1)
        except OSError:
            continue
        if name.endswith("(cubby-mountd") and rest.split()[0] != "Z" and int(rest.split()[1]) == daemon.process.pid:
            found.append(int(entry.name))
    return found


def one_server(daemon):
    return wait_for(lambda: servers(daemon), 60, "cubby-mountd")[0]


@pytest.mark.parametrize("other", [False, True], ids=["the same sandbox", "another"])
def test_no_mount_below_one_that_is_written(daemon, made, project, other):
    sandbox = daemon.create(timeout=900) if other else made
    mount(daemon, made, project, "/upper")
    assert "lies below" in mount(daemon, sandbox, project / "sub", "/lower", 409)["message"]
    assert "lies above" in mount(daemon, sandbox, project.parent, "/top", 409)["message"]
    mount(daemon, sandbox, project.parent, "/top", readOnly=True)
    if other:
        daemon.kill(sandbox["sandboxID"])


def test_another_directory_in_its_place(daemon, made, project, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text("secret")
    sub, kept = project / "sub", project / "kept"
    (tmp_path / "way").symlink_to(project)
    shown = mount(daemon, made, tmp_path / "way" / "sub", "/lower")
    assert shown[0]["source"] == str(sub), "the links on the way were followed once"

    def refused():
        os.kill(one_server(daemon), signal.SIGKILL) if servers(daemon) else None
        return any("another directory" in m.get("error", "") for m in mounts(daemon, made))

    sub.rename(kept)
    sub.symlink_to(outside)
    wait_for(refused, 60, "a link is not followed")
    assert b"secret" not in daemon.command(made, "timeout 5 cat /lower/secret")[1]
    sub.unlink()
    shutil.copytree(outside, sub)
    os.chown(sub, kept.stat().st_uid, kept.stat().st_gid)
    wait_for(refused, 60, "nor another directory taken")
    shutil.rmtree(sub)
    kept.rename(sub)
    wait_for(lambda: mounts(daemon, made)[0]["state"] == "ready", 60, "the first is taken again")
    wait_for(lambda: daemon.command(made, "cat /lower/a")[1] == b"mine", 60, "and served")


def test_a_fork_by_a_key_has_no_mounts(daemon, project):
    key = new_key(daemon, "me")
    wait_for(lambda: ask(daemon, "GET", "/v2/sandboxes", key=key, timeout=120).status == 200, 30, "it is known")
    parent = ask(daemon, "POST", "/v2/sandboxes", {"templateID": "base", "timeout": 600}, key=key, timeout=120).json
    mount(daemon, parent, project, "/project")
    assert ask(daemon, "POST", url(parent, "fork"), {"mounts": "same"}, key=key, timeout=120).status == 403
    forked = ask(daemon, "POST", url(parent, "fork"), {"timeout": 600}, key=key, timeout=120)
    assert forked.status == 201, forked.body
    child = forked.json[0]["sandbox"]
    assert mounts(daemon, child) == [] and len(mounts(daemon, parent)) == 1
    wait_for(lambda: b"/project" not in daemon.command(child, "cat /proc/mounts")[1], 60, "unmounted")
    for sandbox in (child, parent):
        daemon.kill(sandbox["sandboxID"])


def test_a_mount_that_failed_stays_away(daemon, made, project):
    mount(daemon, made, project, "/etc/hostname/x", 400)
    daemon.stop(signal.SIGKILL)
    daemon.start()
    assert daemon.command(made, "true")[0] == 0
    assert mounts(daemon, made) == []


def test_a_guest_that_says_nothing(daemon, made, project):
    mount(daemon, made, project, "/project")
    assert daemon.command(made, "pkill -STOP mountfs", user="root")[0] == 0
    assert daemon.request("DELETE", url(made, "mounts?target=/project")).status == 204
    wait_for(lambda: not servers(daemon), 60, "the daemon gives it up")
    daemon.command(made, "pkill -KILL mountfs", user="root")


def test_connections_that_end_at_once(daemon, made, project):
    mount(daemon, made, project, "/project")

    def ready():
        return mounts(daemon, made)[0]["state"] == "ready"

    lines = daemon.log.read_text().count("mount.ready id=" + made["sandboxID"])
    first, turns = time.monotonic(), []
    for _ in range(6):
        ended, began = one_server(daemon), time.monotonic()
        os.kill(ended, signal.SIGKILL)
        wait_for(lambda: servers(daemon) not in ([], [ended]) and ready(), 60, "the next serves")  # noqa: B023
        turns.append(time.monotonic() - began)
    took = time.monotonic() - first
    assert turns[-1] > 1 or took > 25, "the waits grow, although each server was ready"
    assert lines == 1
    assert daemon.log.read_text().count("mount.ready id=" + made["sandboxID"]) <= 1 + (took + 60) // 60


def test_it_is_in_the_groups_of_its_machine(daemon, made, project):
    mount(daemon, made, project, "/project")
    of = {pid: pathlib.Path(f"/proc/{pid}/cgroup").read_text() for pid in (one_server(daemon), daemon.netd_pid(made))}
    assert len(set(of.values())) == 1, of


def test_an_installation_without_mountfs(project, tmp_path):
    for name in ("bin", "guest"):
        (tmp_path / name).mkdir()
        for file in (BIN.parent / name).iterdir():
            if file.name != "mountfs":
                (shutil.copy2 if name == "bin" and file.is_file() else os.symlink)(file, tmp_path / name / file.name)
    daemon = Shipped(tier="gvisor")
    daemon.program = tmp_path / "bin" / "cubbyd"
    with daemon:
        sandbox = daemon.create(timeout=600)
        for _ in range(3):
            assert "mountfs" in mount(daemon, sandbox, project, "/project", 400)["message"]
        assert mounts(daemon, sandbox) == []
        daemon.kill(sandbox["sandboxID"])


def test_a_source_that_became_a_link(daemon, made, project, tmp_path):
    """A guest that writes to a directory can make a name in it a link, after somebody has checked that name."""
    (project / "sub").rename(project / "moved")
    (project / "sub").symlink_to("/etc")
    said = mount(daemon, made, project / "sub", "/x", 409, resolved=True)["message"]
    assert "symbolic link" in said and mounts(daemon, made) == []
    shown = mount(daemon, made, project / "moved", "/x", resolved=True)
    assert ".env" in shown[0]["hidden"] and "!.env.example" not in shown[0]["hidden"]
