# SPDX-License-Identifier: Apache-2.0
"""Sandboxes: made, found, kept alive, paused, reached from outside, ended; and how each of these
fails.
"""

import http.client
import json
import os
import pathlib
import ssl
import time
import urllib.parse
from datetime import datetime, timedelta, timezone

from e2b import AuthenticationException, SandboxException, TimeoutException
from e2b_code_interpreter import Sandbox
from world import OLD, fails, until

if not OLD:
    from e2b import (SandboxNotFoundException, SandboxNotRunningException, SandboxQuery, SandboxState)
    GONE = SandboxNotRunningException
else:
    from e2b.sandbox.sandbox_api import SandboxQuery
    SandboxNotFoundException = SandboxException  # it says "404" in its text
    GONE = TimeoutException

SERVER = (pathlib.Path(__file__).parent.parent / "server.py").read_text()
marks = iter(range(1, 1000))


def mark():
    """Metadata of this program's own sandboxes."""
    return f"python-{os.getpid()}-{next(marks)}"


def create(world):
    metadata = {"a b": "c&d=e", "mark": mark()}
    sandbox = world.create(metadata=metadata, envs={"X": "1 2"}, timeout=300)
    info = sandbox.get_info()
    assert sandbox.sandbox_id.isalnum() and info.sandbox_id == sandbox.sandbox_id
    assert info.metadata == metadata and info.template_id and info.envd_version
    assert 299 < (info.end_at - info.started_at).total_seconds() < 330
    assert OLD or (info.state == SandboxState.RUNNING and info.cpu_count > 0 and info.memory_mb > 0)
    assert sandbox.commands.run("echo $X").stdout == "1 2\n"
    sandbox.kill()


def timeout(world):
    sandbox = world.create(timeout=60)
    sandbox.set_timeout(900)
    left = sandbox.get_info().end_at - datetime.now(timezone.utc)
    assert left > timedelta(seconds=600)
    sandbox.set_timeout(1)
    until(lambda: not sandbox.is_running(), "its end")
    with fails(SandboxNotFoundException):
        sandbox.get_info()


def kill(world):
    sandbox = world.create()
    assert sandbox.is_running() is True
    assert Sandbox.kill(sandbox.sandbox_id) is True
    assert sandbox.is_running() is False
    assert Sandbox.kill(sandbox.sandbox_id) is False
    with fails(GONE):
        sandbox.commands.run("true")
    with fails(GONE):
        sandbox.files.read("/etc/hostname")
    with fails(SandboxNotFoundException):
        Sandbox.connect(sandbox.sandbox_id)


def killed_during_run(world):
    sandbox = world.create()
    handle = sandbox.commands.run("sleep 600", background=True)
    assert Sandbox.kill(sandbox.sandbox_id) is True
    with fails(SandboxNotRunningException, "killed or reached its end of life"):
        handle.wait()


def connect(world):
    sandbox = world.create(timeout=300)
    sandbox.files.write("kept", "yes")
    end = sandbox.get_info().end_at
    same = Sandbox.connect(sandbox.sandbox_id, **({} if OLD else {"timeout": 10}))
    assert same.files.read("kept") == "yes"
    assert same.get_info().end_at == end, "never made shorter"
    if not OLD:
        same.connect(timeout=900)
        assert same.get_info().end_at > end
    sandbox.kill()


def pause(world):
    sandbox = world.create()
    sandbox.files.write("kept", "yes")
    before = sandbox.commands.run("sleep 600", background=True)
    before.disconnect()
    assert sandbox.pause() is True
    assert sandbox.pause() is False
    assert sandbox.get_info().state == SandboxState.PAUSED
    again = Sandbox.connect(sandbox.sandbox_id)
    assert again.get_info().state == SandboxState.RUNNING
    assert again.files.read("kept") == "yes"
    assert before.pid in [p.pid for p in again.commands.list()], "what ran goes on"
    asked = time.time()
    assert asked - 1 < float(again.commands.run("date +%s.%N").stdout) < time.time() + 1
    assert again.commands.kill(before.pid) is True
    again.pause()
    assert again.kill() is True, "a paused one can be killed"


def auto_pause(world):
    sandbox = world.create(timeout=1, lifecycle={"on_timeout": "pause"})
    until(lambda: sandbox.get_info().state == SandboxState.PAUSED, "it pauses at its end")
    lifecycle = sandbox.get_info().lifecycle
    assert (lifecycle["on_timeout"], lifecycle["auto_resume"]) == ("pause", False)
    sandbox.connect(timeout=300)
    assert sandbox.commands.run("echo back").stdout == "back\n"
    sandbox.kill()


def auto_resume(world):
    sandbox = world.create(lifecycle={"on_timeout": "pause", "auto_resume": True})
    sandbox.pause()
    assert sandbox.commands.run("echo woken").stdout == "woken\n"
    assert sandbox.get_info().state == SandboxState.RUNNING
    sandbox.kill()


def ids(paginator):
    found = []
    while paginator.has_next:
        found += paginator.next_items()
    return [s.sandbox_id for s in found]


def listed(world):
    own = {"mark": mark(), "a b": "c&d"}
    one = world.create(metadata={**own, "n": "1"})
    two = world.create(metadata={**own, "n": "2"})
    newest = [two.sandbox_id, one.sandbox_id]
    if OLD:
        assert {s.sandbox_id for s in Sandbox.list(query=SandboxQuery(metadata=own))} == set(newest)
        found, = Sandbox.list(query=SandboxQuery(metadata={**own, "n": "2"}))
        assert (found.sandbox_id, found.metadata) == (two.sandbox_id, {**own, "n": "2"})
        assert Sandbox.list(query=SandboxQuery(metadata={**own, "n": "3"})) == []
        assert set(newest) <= {s.sandbox_id for s in Sandbox.list()}
    else:
        pages(own, one, two, newest)
    one.kill()
    two.kill()


def pages(own, one, two, newest):
    """Filters, order and pages of the current releases."""
    query = SandboxQuery(metadata=own)
    assert ids(Sandbox.list(query=query)) == newest
    assert ids(Sandbox.list(query=query, order="asc")) == newest[::-1]
    assert ids(Sandbox.list(query=SandboxQuery(metadata={**own, "n": "2"}))) == [two.sandbox_id]
    assert ids(Sandbox.list(query=SandboxQuery(metadata={**own, "n": "3"}))) == []
    paged = Sandbox.list(query=query, limit=1)
    first = paged.next_items()
    assert ([s.sandbox_id for s in first], paged.has_next) == ([two.sandbox_id], True)
    assert ids(Sandbox.list(query=query, limit=1, next_token=paged.next_token)) == [one.sandbox_id]
    one.pause()
    for state, which in ((SandboxState.PAUSED, one), (SandboxState.RUNNING, two)):
        assert ids(Sandbox.list(query=SandboxQuery(metadata=own, state=[state]))) == [which.sandbox_id]
    info = two.get_info()
    later = info.started_at + timedelta(seconds=60)
    assert ids(Sandbox.list(query=SandboxQuery(metadata=own, started_after=later))) == []
    assert ids(Sandbox.list(query=SandboxQuery(metadata=own, template=info.template_id))) == newest


def metrics(world):
    sandbox = world.sandbox()
    last = until(sandbox.get_metrics, "a first sample")[-1]
    assert last.cpu_count > 0 and last.mem_total > last.mem_used > 0 and last.disk_total > 0
    assert abs((last.timestamp - datetime.now(timezone.utc)).total_seconds()) < 120


def request(host, path):
    """A request for a host name that get_host gave: (status, body). With 1.9 it is sent as its user
    would; with the others to the address to which a wildcard would lead."""
    if OLD:
        connection = http.client.HTTPSConnection(host, timeout=30, context=ssl.create_default_context())
    else:
        origin = urllib.parse.urlsplit(os.environ["E2B_SANDBOX_URL"])
        connection = http.client.HTTPConnection(origin.hostname, origin.port, timeout=30)
    connection.request("GET", path, headers={"Host": host})
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer.status, json.loads(body)


def host(world):
    sandbox = world.sandbox()
    sandbox.files.write("server.py", SERVER)
    for address, port in (("0.0.0.0", 8000), ("127.0.0.1", 8001)):
        server = sandbox.commands.run(f"python3 server.py {address} {port}", background=True, timeout=0)
        assert next(iter(server))[0] == "listening\n"
        name = sandbox.get_host(port)
        assert name.startswith(f"{port}-{sandbox.sandbox_id}.")
        assert request(name, "/some/path?q=1") == (200, {"path": "/some/path?q=1", "host": name})
        server.kill()
    status, body = request(sandbox.get_host(3999), "/")
    assert (status, body["port"]) == (502, 3999)


def errors(world):
    with fails(SandboxException if OLD else AuthenticationException, "API key"):
        world.create(api_key="e2b_" + "0" * 40)
    with fails(SandboxException, "no-such-template"):
        world.create(template="no-such-template")
    with fails(SandboxException, "Timeout must be greater than 0"):
        world.create(timeout=-1)
    with fails(SandboxNotFoundException):
        Sandbox.connect("nosuchsandbox").get_info()


def snapshot(world):
    sandbox, place = world.place()
    sandbox.files.write(f"{place}/state", "kept")
    taken = sandbox.create_snapshot(name="sdk-python")
    try:
        assert taken.names == ["sdk-python:default"]
        pages = Sandbox.list_snapshots(limit=1)
        seen = []
        while pages.has_next:
            seen += pages.next_items()
        assert taken.snapshot_id in [s.snapshot_id for s in seen]
        assert [s.snapshot_id for s in sandbox.list_snapshots().next_items()] == [taken.snapshot_id]
        assert Sandbox.list_snapshots(name="sdk-python-not").next_items() == []
        others = [world.create(template=name) for name in (taken.snapshot_id, "sdk-python")]
        others[0].files.write(f"{place}/state", "changed")
        assert others[1].files.read(f"{place}/state") == "kept"
        assert sandbox.files.read(f"{place}/state") == "kept"
        for other in others:
            assert other.kill() is True
    finally:
        assert Sandbox.delete_snapshot(taken.snapshot_id) is True
    assert Sandbox.delete_snapshot(taken.snapshot_id) is False


def fork(world):
    sandbox, place = world.place()
    sandbox.files.write(f"{place}/state", "before")
    children = sandbox.fork(count=2, timeout=120)
    world.made += children
    assert len({s.sandbox_id for s in [sandbox, *children]}) == 3
    children[0].files.write(f"{place}/state", "after")
    assert children[1].files.read(f"{place}/state") == "before"
    assert sandbox.files.read(f"{place}/state") == "before"
    for child in children:
        assert child.is_running() and child.kill() is True
    ended = world.create()
    ended.kill()
    with fails(SandboxNotFoundException):
        ended.fork()


def git(world):
    sandbox, place = world.place()
    work, bare, copy = f"{place}/work", f"{place}/bare.git", f"{place}/copy"
    run = sandbox.git
    run.init(work, initial_branch="main")
    run.init(bare, bare=True, initial_branch="main")
    run.configure_user("A Name", "a@example.com", scope="local", path=work)
    run.set_config("cubby.key", "value", scope="local", path=work)
    assert run.get_config("cubby.key", scope="local", path=work) == "value"
    sandbox.files.write(f"{work}/a", "one")
    assert run.status(work).has_untracked
    run.add(work)
    run.commit(work, "the first")
    run.remote_add(work, "origin", bare)
    assert run.remote_get(work, "origin") == bare
    run.push(work, remote="origin", branch="main")
    run.clone(bare, path=copy)
    assert sandbox.files.read(f"{copy}/a") == "one"
    run.create_branch(work, "other")
    run.checkout_branch(work, "main")
    assert sorted(run.branches(work).branches) == ["main", "other"]
    run.delete_branch(work, "other", force=True)
    sandbox.files.write(f"{work}/a", "two")
    run.restore(work, paths=["a"])
    assert sandbox.files.read(f"{work}/a") == "one"
    sandbox.files.write(f"{work}/b", "new")
    run.add(work)
    run.commit(work, "the second")
    run.push(work, remote="origin", branch="main")
    run.pull(copy, remote="origin", branch="main")
    assert sandbox.files.read(f"{copy}/b") == "new"
    run.reset(work, mode="hard", target="HEAD~1")
    assert run.status(work).is_clean


ALL = {"sandbox_" + name: scenario for name, scenario in {
    "create": create, "timeout": timeout, "kill": kill, "killed_during_run": killed_during_run,
    "connect": connect, "pause": pause, "auto_pause": auto_pause, "auto_resume": auto_resume,
    "list": listed, "metrics": metrics, "host": host, "errors": errors,
    "snapshot": snapshot, "fork": fork, "git": git}.items()}
