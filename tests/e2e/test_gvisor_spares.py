# SPDX-License-Identifier: Apache-2.0
"""Spares under gVisor: the sentry of the next machine is there before the machine is asked for."""

import os
import pathlib
import re
import signal

import pytest

from cubbyd import process_exists, wait_for
from gvisor_world import RUNSC, Containers, files_of, note, post, put_note
from harness import Later
from jail_peer import status_of

pytestmark = pytest.mark.skipif(not RUNSC.exists(), reason="runsc is not built: make runsc")


class WithSpares(Containers):
    def __init__(self):
        super().__init__("--pool", "off", env={"CUBBY_SPARES": "on"})

    def spares(self):
        """The sentries that the log calls a spare, in order."""
        return [int(line.rpartition("pid=")[2]) for line in self.log.read_text().splitlines() if " blank.spare " in line]

    def next_spare(self, count):
        wait_for(lambda: len(self.spares()) == count, 30, f"spare {count}")
        return self.spares()[-1]


@pytest.fixture(scope="module")
def shared():
    with WithSpares() as running:
        yield running


@pytest.fixture
def daemon(shared):
    """Without a sandbox, and with one spare that waits: (daemon, sandbox, spare)."""
    made = shared.create()
    wait_for(lambda: shared.spares() and process_exists(shared.spares()[-1]) and shared.spares()[-1] != shared.sentry(made), 30,
             "a spare")
    yield shared, made, shared.spares()[-1]
    for directory in shared.directories():
        shared.kill(directory)
    wait_for(lambda: shared.directories() == [], 30, "nothing is left")


def test_a_create_takes_the_spare(daemon):
    d, first, spare = daemon
    made = d.create()
    assert d.sentry(made) == spare
    put_note(d, made, "its own")
    put_note(d, first, "the other's")
    assert note(d, made) == ["its", "own"] * 2 and d.command(made, "hostname")[1] != d.command(first, "hostname")[1]


def groups_of(pid):
    """The control groups of a process, without the sandbox's own names."""
    text = pathlib.Path(f"/proc/{pid}/cgroup").read_text()
    return re.sub(r"/cubby-[^/\n]*", "/own", text)


def test_the_walls_of_a_machine_that_was_a_spare(daemon):
    """They are those of a sentry that was started for its machine: the fixture's."""
    d, first, spare = daemon
    usual = d.create(memoryMB=256)
    made = d.create()
    assert d.sentry(made) == spare and d.sentry(usual) != spare
    mine, others = (d.sentry(one) for one in (made, usual))
    assert files_of(mine) == files_of(others) and groups_of(mine) == groups_of(others)
    for name in ("Uid", "CapEff", "NoNewPrivs", "Seccomp"):
        assert status_of(mine)[name] == status_of(others)[name]
    assert [d.get(one["sandboxID"]).json["jail"] for one in (made, usual)] == [d.get(first["sandboxID"]).json["jail"]] * 2


def test_a_wake_takes_the_spare(daemon):
    d, made, spare = daemon
    put_note(d, made, "kept")
    post(d, made, "pause", {"depth": "hibernate"}, status=204)
    post(d, made, "connect", {"timeout": 600})
    assert d.sentry(made) == spare and note(d, made) == ["kept", "kept"]


def test_a_forks_child_takes_the_spare(daemon):
    d, made, spare = daemon
    put_note(d, made, "kept")
    (child,) = post(d, made, "fork")
    child = {**made, **child["sandbox"]}
    assert d.sentry(child) == spare and note(d, child) == note(d, made) == ["kept", "kept"]


def test_a_rollback_takes_the_spare(daemon):
    d, made, spare = daemon
    put_note(d, made, "before")
    snapshot = post(d, made, "snapshots")["snapshotID"]
    put_note(d, made, "after")
    assert process_exists(spare)
    post(d, made, "rollback", {"snapshotID": snapshot}, status=200)
    assert d.sentry(made) == spare and note(d, made) == ["before", "before"]


def test_a_machine_of_another_size_starts_without_it(daemon):
    d, _, spare = daemon
    made = d.create(memoryMB=256)
    assert d.sentry(made) != spare and process_exists(spare)
    assert d.command(made, "echo hi") == (0, b"hi\n")


def test_a_spare_that_has_died_is_not_used(daemon):
    d, _, spare = daemon
    os.kill(spare, signal.SIGKILL)
    wait_for(lambda: f"template={d.home}/templates/default: the sentry of a spare has ended" in d.log.read_text(), 30, "it is seen")
    made = d.create()
    assert d.sentry(made) != spare and d.command(made, "echo hi") == (0, b"hi\n")


@pytest.mark.parametrize("way", ["create", "wake", "fork"])
def test_a_spare_that_dies_as_it_is_taken(daemon, way):
    """It stands still from before it is taken, so it cannot have become the machine when it is killed."""
    d, made, spare = daemon
    put_note(d, made, "kept")
    if way == "wake":
        post(d, made, "pause", {"depth": "hibernate"}, status=204)
    taken = d.log.read_text().count(" blank.taken ")
    os.kill(spare, signal.SIGSTOP)
    asked = Later({"create": d.create, "wake": lambda: post(d, made, "connect", {"timeout": 600}) and made,
                   "fork": lambda: {**made, **post(d, made, "fork")[0]["sandbox"]}}[way])
    wait_for(lambda: d.log.read_text().count(" blank.taken ") > taken, 60, "it is taken")
    os.kill(spare, signal.SIGKILL)
    other = asked.join()
    assert d.sentry(other) != spare and d.command(other, "echo hi") == (0, b"hi\n")
    assert way == "create" or note(d, other) == ["kept", "kept"]
    assert f"id={other['sandboxID']} a machine is made without a spare" in d.log.read_text()


def test_a_daemon_that_stops_ends_its_spare():
    d = WithSpares().start()
    d.create()
    spare = d.next_spare(1)
    assert d.stop() == 0
    assert not process_exists(spare) and d.container_dirs() == []
    d.close()


def test_the_next_daemon_ends_the_spare_of_one_that_was_killed():
    with WithSpares() as d:
        made = d.create()
        spare = d.next_spare(1)
        d.stop(signal.SIGKILL)
        d.start()
        wait_for(lambda: not process_exists(spare) and len(d.container_dirs()) == 1, 30, "only the sandbox is left")
        assert d.command(made, "echo hi") == (0, b"hi\n")


def test_off():
    with Containers("--pool", "off", "--spares", "off") as d:
        for _ in range(2):
            d.create()
        assert len(d.container_dirs()) == 2
        d.kill(d.directories()[0])
        assert b"blank" not in d.log.read_bytes()
