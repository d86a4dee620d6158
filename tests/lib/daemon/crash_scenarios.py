# SPDX-License-Identifier: Apache-2.0
"""The lifecycle's operations, each as a scenario in which a daemon can be killed."""

import concurrent.futures
import functools
import http.client
import json
import signal

from crash import PASSINGS, World
from harness import wait_for

CUT = (OSError, http.client.HTTPException, ValueError)  # what a client sees of a daemon that ends


class Scenario:
    """`ready` brings the world's subject into the state in which `operate` can begin, also a second time."""

    name = ""
    pool = "off"

    def ready(self, world):
        pass

    def operate(self, world):
        raise NotImplementedError

    def settle(self, world):
        """Waits until the operation does nothing more in the background."""

    def prepare(self, world):
        world.start()
        world.wait_probed()
        world.fds_empty = world.daemon.fds()
        self.subject(world)
        self.ready(world)

    def subject(self, world):
        """A sandbox for the operation: the existing one, or a new one."""
        if getattr(world, "subject", None) not in world.known.values():
            world.subject = world.create()
        return world.subject

    def again(self, world):
        self.subject(world)
        self.ready(world)
        self.operate(world)
        self.settle(world)


def wait_ended(world, known):
    """Nothing of it is left, and its end is on record."""
    wait_for(lambda: f"sandbox.ended id={known.id}" in world.daemon.log.read_text(errors="replace"),
             30, f"{known.id} has ended")
    wait_for(lambda: not world.daemon.directory(known.id).exists(), 30, "its directory is gone")


class Create(Scenario):
    name = "create"

    def operate(self, world):
        world.take(world.daemon.create(timeout=600))


class CreateFromSnapshot(Scenario):
    name = "create-from-snapshot"

    def ready(self, world):
        if not world.snapshots:
            world.snapshot(world.subject)

    def operate(self, world):
        world.take(world.daemon.create(timeout=600, templateID=next(iter(world.snapshots))))


class Freeze(Scenario):
    name = "freeze"
    depth = "freeze"

    def operate(self, world):
        world.look(world.subject)
        world.subject.states = {"running", "paused"}
        world.call("POST", f"/sandboxes/{world.subject.id}/pause", {"depth": self.depth})


class Hibernate(Freeze):
    name = "hibernate"
    depth = "hibernate"


class HibernateFrozen(Hibernate):
    """Hibernates a sandbox that already stands still."""

    name = "hibernate-frozen"

    def ready(self, world):
        world.pause(world.subject)


class PauseDisk(Freeze):
    """Keeps the disk alone; what was not killed in time comes back with its memory."""

    name = "pause-disk"

    def operate(self, world):
        world.look(world.subject)
        world.subject.states = {"running", "paused"}
        world.subject.may_boot = True
        world.call("POST", f"/sandboxes/{world.subject.id}/pause", {"memory": False})


class WakeDisk(Scenario):
    name = "wake-disk"

    def ready(self, world):
        world.look(world.subject)
        world.subject.states = {"paused"}
        world.subject.may_boot = True
        world.call("POST", f"/sandboxes/{world.subject.id}/pause", {"memory": False})

    def operate(self, world):
        world.subject.states = {"running", "paused"}
        world.call("POST", f"/sandboxes/{world.subject.id}/connect", {"timeout": 600})
        world.subject.states = {"running"}


class Wake(Scenario):
    name = "wake"
    depth = "freeze"

    def ready(self, world):
        world.pause(world.subject, self.depth)

    def operate(self, world):
        world.subject.states = {"running", "paused"}
        world.call("POST", f"/sandboxes/{world.subject.id}/connect", {"timeout": 600})
        world.subject.states = {"running"}


class WakeHibernated(Wake):
    name = "wake-hibernated"
    depth = "hibernate"


class Delete(Scenario):
    name = "delete"

    def operate(self, world):
        world.subject.may_end = True
        world.subject.states = {"running", "paused"}
        world.call("DELETE", f"/sandboxes/{world.subject.id}")

    def settle(self, world):
        wait_ended(world, world.subject)
        del world.known[world.subject.id]


class DeleteFrozen(Delete):
    name = "delete-frozen"

    def ready(self, world):
        world.pause(world.subject)


class DeleteHibernated(Delete):
    name = "delete-hibernated"

    def ready(self, world):
        world.pause(world.subject, "hibernate")


class Snapshot(Scenario):
    name = "snapshot"

    def operate(self, world):
        world.look(world.subject)
        world.snapshot(world.subject)


class SnapshotFrozen(Snapshot):
    name = "snapshot-frozen"

    def ready(self, world):
        world.pause(world.subject)


class SnapshotHibernated(Snapshot):
    name = "snapshot-hibernated"

    def ready(self, world):
        world.pause(world.subject, "hibernate")
        world.subject.states = {"paused", "running"}


class SnapshotDelete(Scenario):
    name = "snapshot_delete"

    def ready(self, world):
        world.doomed = world.snapshot(world.subject)

    def operate(self, world):
        world.call("DELETE", f"/templates/{world.doomed}")


class Fork(Scenario):
    name = "fork"
    count = 2

    def operate(self, world):
        parent = world.subject
        world.look(parent)
        world.children_have = parent.files
        made = world.call("POST", f"/sandboxes/{parent.id}/fork",
                          {"count": self.count, "timeout": 600})
        for one in made:
            child = world.take(one["sandbox"])
            child.files, child.count, child.boot = dict(parent.files), parent.count, parent.boot
            world.look(child)

    def settle(self, world):
        """The fork is answered before its directory is removed, and the loop learns later still that
        it is gone."""
        wait_for(lambda: not list(world.daemon.home.glob("snapshots/.fork-*")), 30, "its directory is gone")
        world.wait_passed("fork.6")


class Rollback(Scenario):
    name = "rollback"

    def ready(self, world):
        if not world.snapshots:
            world.snapshot(world.subject)
            world.write(world.subject, "later", "what the snapshot has not")

    def operate(self, world):
        world.look(world.subject)
        known = world.subject
        to = next(iter(world.snapshots))
        known.past = world.snapshots[to]
        known.states = {"running", "paused"}
        world.call("POST", f"/sandboxes/{known.id}/rollback", {"snapshotID": to})
        known.files, known.count, known.past = dict(known.past.files), known.past.count, None


class RollbackFrozen(Rollback):
    name = "rollback-frozen"
    depth = "freeze"

    def ready(self, world):
        super().ready(world)
        world.look(world.subject)
        world.pause(world.subject, self.depth)


class RollbackHibernated(RollbackFrozen):
    name = "rollback-hibernated"
    depth = "hibernate"


class RollbackFails(Rollback):
    """The snapshot's machine cannot be made; the sandbox's earlier state is restored."""

    name = "rollback-fails"
    how = {"restore": "fail"}

    def operate(self, world):
        world.look(world.subject)
        known, to = world.subject, next(iter(world.snapshots))
        before = set(known.states)
        known.states = {"running", "paused"}
        mend = world.guest.spoil(world, to, **self.how)
        try:
            world.call("POST", f"/sandboxes/{known.id}/rollback", {"snapshotID": to}, expect=(500,))
        finally:
            mend()
        known.states = before


class RollbackFrozenFails(RollbackFails):
    name = "rollback-frozen-fails"
    how = {"init": "refuse"}
    depth = "freeze"

    def ready(self, world):
        super().ready(world)
        if world.subject.states == {"running"}:
            world.pause(world.subject, self.depth)


class RollbackHibernatedFails(RollbackFrozenFails):
    name = "rollback-hibernated-fails"
    depth = "hibernate"


class Handout(Scenario):
    name = "handout"
    pool = "1"

    def ready(self, world):
        world.wait_pool()

    def operate(self, world):
        world.handed = world.take(world.daemon.create(timeout=600))

    def settle(self, world):
        """The rollback is answered before all of it is done; a request to the sandbox waits for the rest."""
        assert world.guest.is_there(world, world.handed)
        world.wait_pool()


class HandoutReplaced(Handout):
    """The machine out of the pool ends after the create was answered and before the guest has; another takes its place."""

    name = "handout-replaced"

    def operate(self, world):
        (machine,) = [r["machine"] for i, r in world.records().items() if i in world.pooled()]
        kill = world.guest.hold(world, machine)
        try:
            super().operate(world)
            world.handed.may_end = True  # if the daemon ends as well
        finally:
            kill()

    def settle(self, world):
        super().settle(world)
        assert f"pool.replaced id={world.handed.id} " in world.daemon.log.read_text(errors="replace")
        world.handed.may_end = False


class Pool(Scenario):
    """The daemon fills its pool, beginning at its start."""

    name = "pool"
    pool = "2"

    def prepare(self, world):
        world.subject = None

    def operate(self, world):
        world.start()

    def settle(self, world):
        world.wait_pool()

    def again(self, world):
        self.settle(world)
        world.take(world.daemon.create(timeout=600))


class Adopt(Scenario):
    """A daemon takes over every kind of thing that another has left."""

    name = "adopt"

    def ready(self, world):
        kinds = [world.subject, world.create(), world.create(), world.create()]
        world.pause(kinds[1])
        world.pause(kinds[2], "hibernate")
        dead = kinds[3]
        dead.may_end = True
        pids = world.guest.pids(world.daemon.record(dead.id)["machine"])
        world.daemon.stop(signal.SIGKILL)
        world.guest.kill(pids)
        (world.daemon.home / "sandboxes" / ("z" * 20)).mkdir()  # a creation that was not finished

    def operate(self, world):
        world.start()

    def settle(self, world):
        wait_for(lambda: not world.daemon.directory("z" * 20).exists(), 30, "what was not finished goes")

    def again(self, world):
        world.daemon.stop(signal.SIGKILL)
        world.start(faults=False)


class AdoptRunning(Scenario):
    """A daemon takes over what another has left, in a tier that has no pauses."""

    name = "adopt-running"

    def ready(self, world):
        other, dead = world.create(), world.create()
        assert other.states == {"running"}
        dead.may_end = True
        pids = world.guest.pids(world.daemon.record(dead.id)["machine"])
        world.daemon.stop(signal.SIGKILL)
        world.guest.kill(pids)
        (world.daemon.home / "sandboxes" / ("z" * 20)).mkdir()  # a creation that was not finished

    def operate(self, world):
        world.start()

    settle = Adopt.settle
    again = Adopt.again


class AdoptRollback(Rollback):
    """The earlier daemon was killed in the middle of a rollback: the snapshot's machine is there already."""

    name = "adopt-rollback"

    def ready(self, world):
        super().ready(world)
        world.look(world.subject)
        world.arm("bringup.3", 1)
        try:
            super().operate(world)
        except CUT:
            pass
        assert world.died()
        world.fault.unlink()
        world.subject.past = None

    def operate(self, world):
        world.start()

    def again(self, world):
        world.daemon.stop(signal.SIGKILL)
        world.start(faults=False)


class AdoptPool(Scenario):
    """Some of the sandboxes that the earlier daemon left were in its pool."""

    name = "adopt-pool"
    pool = "2"

    def ready(self, world):
        world.wait_pool()
        if world.daemon.process:
            world.daemon.stop(signal.SIGKILL)

    def operate(self, world):
        world.start()

    def settle(self, world):
        world.wait_pool()

    def again(self, world):
        world.daemon.stop(signal.SIGKILL)
        world.start(faults=False)
        world.take(world.daemon.create(timeout=600))


class Build(Scenario):
    """A template is built through the API."""

    name = "build"
    command = "echo one"
    ends = {"ready"}

    def subject(self, world):
        world.subject = None

    def operate(self, world):
        made = world.call("POST", "/v3/templates", {"name": "built"}, expect=(202,))
        where = f"/templates/built/builds/{made['buildID']}"
        world.call("POST", f"/v2{where}", {"fromTemplate": "default", "steps": [
            {"type": "RUN", "args": [self.command], "force": True}]}, expect=(202,))
        ended = wait_for(lambda: (s := world.call("GET", f"{where}/status")["status"]) in ("ready", "error") and s,
                         600, "the build has ended")
        assert ended in self.ends

    def settle(self, world):
        """Each name has its templates, and nothing else is there."""
        templates = world.daemon.home / "templates"
        wait_for(lambda: not list(templates.glob(".gone-*")), 30, "what was collected is gone")
        table = json.loads(names.read_text()) if (names := world.daemon.home / "builds/names.json").exists() else {}
        wanted = {build["template"] for entry in table.get("names", {}).values() for build in entry["builds"].values()}
        assert {t.name for t in templates.glob("*@*")} == wanted

    def again(self, world):
        def ended():
            states = [json.loads(r.read_text())["state"] for r in world.daemon.home.glob("builds/*/build.json")]
            return all(state in ("ready", "failed") for state in states)
        wait_for(ended, 600, "no build of the daemon before is unfinished")
        self.settle(world)
        self.operate(world)
        self.settle(world)


class BuildFails(Build):
    name = "build-fails"
    command = "fail on purpose"
    ends = {"error"}


class BuildAgain(Build):
    """The template is built before; the build before is removed when the tag has moved."""

    name = "build-again"

    def ready(self, world):
        super().operate(world)


SCENARIOS = {s.name: s for s in (
    Create(), CreateFromSnapshot(), Freeze(), Hibernate(), HibernateFrozen(), Wake(), WakeHibernated(),
    PauseDisk(), WakeDisk(),
    Delete(), DeleteFrozen(), DeleteHibernated(), Snapshot(), SnapshotFrozen(), SnapshotHibernated(),
    SnapshotDelete(), Fork(), Rollback(), RollbackFrozen(), RollbackHibernated(),
    RollbackFails(), RollbackFrozenFails(), RollbackHibernatedFails(),
    Handout(), HandoutReplaced(), Pool(), Adopt(), AdoptRollback(), AdoptPool(), AdoptRunning(),
    Build(), BuildFails(), BuildAgain())}
# Those that need no pauses and no saving.
PLAIN = ("create", "delete", "adopt-running")


def discover(scenario, new_world):
    """Runs the operation without an end; counts how often it passes each point."""
    world = new_world(scenario)
    try:
        scenario.prepare(world)
        world.trace()
        scenario.operate(world)
        scenario.settle(world)
        passed = world.traced()
        world.check_known()
        world.check_new()
        world.end_all()
        return passed
    finally:
        world.close()


def kill_at(scenario, new_world, point, passing):
    """Runs the operation with an end at that point, and checks what is left."""
    world = new_world(scenario)
    try:
        scenario.prepare(world)
        world.arm(point, passing)
        try:
            scenario.operate(world)
        except (*CUT, AssertionError):
            pass
        assert world.died(), "it did not end at the point"
        world.fault.unlink()
        world.start(faults=False)
        world.check()
        scenario.again(world)
        world.check_known()
        world.end_all()
    except BaseException as error:
        error.add_note(f"{scenario.name} at {point}:{passing}\n"
                       + world.daemon.log.read_text(errors="replace")[-6000:])
        raise
    finally:
        world.close()


def cases(passed):
    """(point, passing) for each passing of a point."""
    return [(p, n) for p in sorted(passed) for n in range(1, min(passed[p], PASSINGS) + 1)]


def kill_at_each(scenario, new_world, passed, at_once=3):
    """Runs all cases of one scenario; returns {(point, passing): the error found, or None}."""
    def one(case):
        try:
            kill_at(scenario, new_world, *case)
        except Exception as error:  # each is looked at: one does not hide another
            return error
        return None
    todo = cases(passed)
    with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
        return dict(zip(todo, pool.map(one, todo)))


def world_of(daemon_class, guest, scenario, **options):
    return World(daemon_class(**options), guest, scenario.pool)


def maker(daemon_class, guest, **options):
    return functools.partial(world_of, daemon_class, guest, **options)
