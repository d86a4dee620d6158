# SPDX-License-Identifier: Apache-2.0
"""Spares of microVMs: the QEMU of the next machine is there before the machine is asked for."""

import concurrent.futures
import http.client
import os
import pathlib
import re
import shutil
import signal
import threading

import pytest

from cubbyd import MicroVMs, process_exists, wait_for
from gvisor_world import note, post, put_note
from harness import TEST_HOME, Later
from jail_peer import NAMESPACES, UIDS, status_of
from proc import descriptors


FAULTY = pathlib.Path(os.environ["TEST"]) / "faults" / "cubbyd-process"


class WithSpares(MicroVMs):
    def __init__(self, *args, env=None):
        super().__init__("--pool", "off", *args, env={"CUBBY_SPARES": "on", **(env or {})})

    def spares(self):
        """The QEMUs that the log calls a spare, in order."""
        return [int(line.rpartition("pid=")[2]) for line in self.log.read_text().splitlines() if " spare.started " in line]

    def next_spare(self, count):
        wait_for(lambda: len(self.spares()) == count, 30, f"spare {count}")
        return self.spares()[-1]

    def spare_dirs(self):
        where = self.home / "spares"
        return sorted(os.listdir(where)) if where.exists() else []

    def has_spare(self, made):
        found = self.spares()
        return found and found[-1] != self.guest_pid(made) and process_exists(found[-1]) and len(self.spare_dirs()) == 1


@pytest.fixture(scope="module")
def shared():
    with WithSpares() as running:
        yield running
        steps = re.findall(r"machine.step id=(\w+) step=(limited|ready) ", running.log.read_text())
    at = {step: position for position, step in reversed(list(enumerate(steps)))}
    late = [machine for machine, step in at if step == "limited" and at[machine, step] > at.get((machine, "ready"), len(steps))]
    assert not late, "these guests ran before their QEMU was in its control groups"


@pytest.fixture
def daemon(shared):
    """With one sandbox, and with one spare that waits: (daemon, sandbox, spare)."""
    made = shared.create()
    wait_for(lambda: shared.has_spare(made), 30, "a spare")
    yield shared, made, shared.spares()[-1]
    for directory in shared.directories():
        shared.kill(directory)
    wait_for(lambda: shared.directories() == [], 30, "nothing is left")


def test_a_create_takes_the_spare(daemon):
    d, first, spare = daemon
    made = d.create()
    assert d.guest_pid(made) == spare
    put_note(d, made, "its own")
    put_note(d, first, "the other's")
    assert note(d, made) == ["its", "own"] * 2 and d.command(made, "hostname")[1] != d.command(first, "hostname")[1]


def test_two_creates_at_once_share_no_qemu(daemon):
    d, first, spare = daemon
    ready = threading.Barrier(3)

    def create(_):
        ready.wait()
        return d.create(timeout=600)

    with concurrent.futures.ThreadPoolExecutor(3) as several:
        made = list(several.map(create, range(3)))
    pids = {d.guest_pid(one) for one in [first, *made]}
    assert len(pids) == 4 and spare in pids
    for number, one in enumerate(made):
        put_note(d, one, str(number))
    assert [note(d, one) for one in made] == [[str(number)] * 2 for number in range(3)]


def walls_of(pid):
    """What /proc shows of a QEMU, without what differs between any two: its ids and the names of its namespaces."""
    status = status_of(pid)
    own = {name: os.readlink(f"/proc/{pid}/ns/{kind}") != os.readlink(f"/proc/self/ns/{kind}") for name, kind in NAMESPACES.items()}
    groups = re.sub(r"/cubby-[^/\n]*", "/own", open(f"/proc/{pid}/cgroup").read())
    limits = open(f"/proc/{pid}/limits").read()
    files = sorted(os.path.basename(re.sub(r"\[\d+\]", "[]", link)) for link in descriptors(pid).values())
    return {name: status[name] for name in ("CapEff", "CapBnd", "NoNewPrivs", "Seccomp", "Groups")}, own, groups, limits, files


def test_the_walls_of_a_machine_that_was_a_spare(daemon):
    """They are those of a QEMU that was started for its machine, and no two have the same user or namespace."""
    d, first, spare = daemon
    made = d.create()
    mine, others = d.guest_pid(made), d.guest_pid(first)
    assert mine == spare and walls_of(mine)[:4] == walls_of(others)[:4]
    # Its device state came as a copy in memory, without the section that an image does not have.
    expected = sorted("memfd:vmstate (deleted)" if name == "vmstate" else name for name in walls_of(others)[4])
    assert sorted(name.lstrip("/") for name in walls_of(mine)[4]) == sorted(name.lstrip("/") for name in expected)
    uids = [int(status_of(pid)["Uid"][0]) for pid in (mine, others)]
    assert uids[0] != uids[1] and all(uid in UIDS for uid in uids)
    for kind in NAMESPACES.values():
        assert os.readlink(f"/proc/{mine}/ns/{kind}") != os.readlink(f"/proc/{others}/ns/{kind}")
    assert d.get(made["sandboxID"]).json["jail"] == d.get(first["sandboxID"]).json["jail"]


def test_a_wake_takes_the_spare(daemon):
    d, made, spare = daemon
    put_note(d, made, "kept")
    post(d, made, "pause", {"depth": "hibernate"}, status=204)
    post(d, made, "connect", {"timeout": 600})
    assert d.guest_pid(made) == spare and note(d, made) == ["kept", "kept"]


def test_a_forks_child_takes_the_spare(daemon):
    d, made, spare = daemon
    put_note(d, made, "kept")
    (child,) = post(d, made, "fork")
    child = {**made, **child["sandbox"]}
    assert d.guest_pid(child) == spare and note(d, child) == note(d, made) == ["kept", "kept"]


def test_a_rollback_takes_the_spare(daemon):
    d, made, spare = daemon
    put_note(d, made, "before")
    snapshot = post(d, made, "snapshots")["snapshotID"]
    put_note(d, made, "after")
    wait_for(lambda: d.has_spare(made), 30, "a spare")
    post(d, made, "rollback", {"snapshotID": snapshot}, status=200)
    assert d.guest_pid(made) == spare and note(d, made) == ["before", "before"]


def test_a_large_disk_survives_in_a_spare(daemon):
    """QEMU opened the spare's empty disk; the image's has many clusters more."""
    d, made, spare = daemon
    code, sums = d.command(made, "head -c 30000000 /dev/urandom >/home/user/big && md5sum </home/user/big", "root")
    assert code == 0
    post(d, made, "pause", {"depth": "hibernate"}, status=204)
    post(d, made, "connect", {"timeout": 600})
    assert d.guest_pid(made) == spare
    assert d.command(made, "echo 3 >/proc/sys/vm/drop_caches; md5sum </home/user/big", "root") == (0, sums)
    assert d.command(made, "head -c 5000000 /dev/zero >/home/user/more && sync", "root")[0] == 0


def test_a_machine_of_another_size_starts_without_it(daemon):
    d, _, spare = daemon
    for size in {"memoryMB": 256}, {"diskSizeMB": 9216}:
        made = d.create(**size)
        assert d.guest_pid(made) != spare and process_exists(spare)
        assert d.command(made, "echo hi") == (0, b"hi\n")


def test_a_spare_that_has_died_is_not_used(daemon):
    d, _, spare = daemon
    os.kill(spare, signal.SIGKILL)
    wait_for(lambda: f"pid={spare}: the QEMU of a spare was killed" in d.log.read_text(), 30, "it is seen")
    made = d.create()
    assert d.guest_pid(made) != spare and d.command(made, "echo hi") == (0, b"hi\n")


@pytest.mark.parametrize("way", ["create", "wake", "fork"])
def test_a_spare_that_dies_as_it_is_taken(daemon, way):
    """It stands still from before it is taken, so it cannot have become the machine when it is killed."""
    d, made, spare = daemon
    put_note(d, made, "kept")
    if way == "wake":
        post(d, made, "pause", {"depth": "hibernate"}, status=204)
    os.kill(spare, signal.SIGSTOP)
    asked = Later({"create": d.create, "wake": lambda: post(d, made, "connect", {"timeout": 600}) and made,
                   "fork": lambda: {**made, **post(d, made, "fork")[0]["sandbox"]}}[way])
    wait_for(lambda: re.search(rf" spare.taken .*pid={spare}\b", d.log.read_text()), 60, "it is taken")
    os.kill(spare, signal.SIGKILL)
    other = asked.join()
    assert d.guest_pid(other) != spare and d.command(other, "echo hi") == (0, b"hi\n")
    assert way == "create" or note(d, other) == ["kept", "kept"]
    assert f"id={other['sandboxID']} a machine is made without a spare" in d.log.read_text()


def test_a_template_that_was_built_again_has_no_spare():
    """The spare has the memory of the build before."""
    d = WithSpares()
    (d.home / "templates").unlink()
    where = d.home / "templates/default"
    where.mkdir(parents=True)
    for file in (TEST_HOME / "templates/default").iterdir():
        if file.is_file():
            (where / file.name).symlink_to(file)
    with d:
        made = d.create()
        spare = d.next_spare(1)
        shutil.copyfile(where / "memory", where / "new")
        (where / "new").rename(where / "memory")
        other = d.create()
        assert d.guest_pid(other) != spare and d.command(other, "echo hi") == (0, b"hi\n")
        wait_for(lambda: not process_exists(spare), 30, "it ends")
        for one in made, other:
            d.kill(one["sandboxID"])


def test_a_daemon_that_stops_ends_its_spare():
    d = WithSpares().start()
    d.create()
    spare = d.next_spare(1)
    assert d.stop() == 0
    wait_for(lambda: not process_exists(spare), 30, "it ends")
    assert d.spare_dirs() == []
    d.close()


def test_a_spare_ends_with_the_daemon_that_is_killed_if_its_sandboxes_do():
    d = WithSpares("--end-with-daemon").start()
    d.create()
    spare = d.next_spare(1)
    d.stop(signal.SIGKILL)
    wait_for(lambda: not process_exists(spare), 30, "it ends")
    d.start()
    wait_for(lambda: d.spare_dirs() == d.directories() == [], 30, "nothing is left")
    d.close()


def test_the_next_daemon_ends_the_spare_of_one_that_was_killed():
    with WithSpares() as d:
        made = d.create()
        spare = d.next_spare(1)
        d.stop(signal.SIGKILL)
        assert process_exists(spare)
        d.start()
        wait_for(lambda: not process_exists(spare) and d.spare_dirs() == [], 30, "only the sandbox is left")
        assert d.command(made, "echo hi") == (0, b"hi\n")


def test_the_next_daemon_adopts_a_machine_that_was_a_spare():
    with WithSpares() as d:
        d.create()
        spare = d.next_spare(1)
        made = d.create()
        assert d.guest_pid(made) == spare
        put_note(d, made, "kept")
        d.stop(signal.SIGKILL)
        d.start()
        assert d.guest_pid(made) == spare and note(d, made) == ["kept", "kept"]
        post(d, made, "pause", {"depth": "hibernate"}, status=204)
        post(d, made, "connect", {"timeout": 600})
        assert note(d, made) == ["kept", "kept"]


@pytest.mark.parametrize("point", ["restore.2", "restore.4"])
def test_a_daemon_that_is_killed_while_a_wake_takes_the_spare(point, tmp_path):
    """After the image's disk has become that of the spare, and after the spare's QEMU has become the machine's."""
    d = WithSpares(env={"CUBBY_FAULT": str(tmp_path / "fault")})
    d.program = FAULTY
    with d:
        made = d.create()
        put_note(d, made, "kept")
        spare = d.next_spare(1)
        post(d, made, "pause", {"depth": "hibernate"}, status=204)
        (tmp_path / "fault").write_text(f"{point}:1\n")
        with pytest.raises((OSError, http.client.HTTPException)):
            post(d, made, "connect", {"timeout": 600})
        assert d.process.wait(30) == -signal.SIGKILL
        (tmp_path / "fault").unlink()
        d.start()
        wait_for(lambda: not process_exists(spare) and d.spare_dirs() == [], 30, "nothing of the spare is left")
        post(d, made, "connect", {"timeout": 600})
        assert note(d, made) == ["kept", "kept"] and d.guest_pid(made) != spare


def test_off():
    with MicroVMs("--pool", "off", "--spares", "off") as d:
        for _ in range(2):
            d.create()
        assert b"spare." not in d.log.read_bytes() and not (d.home / "spares").exists()
        for directory in d.directories():
            d.kill(directory)
