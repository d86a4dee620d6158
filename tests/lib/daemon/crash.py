# SPDX-License-Identifier: Apache-2.0
"""Daemons that end themselves, by SIGKILL, at a numbered point (base/fault.h). A daemon without
such a point then examines what they left.

A world is a state directory with sandboxes whose right state is known. A scenario
(crash_scenarios.py) prepares a world and does an operation in it. The first run lists the points
that the operation passes; then the operation is done again for each point, in a new world, and the
daemon ends there.
"""

import collections
import contextlib
import json
import os
import pathlib
import re
import shutil
import signal

from harness import process_exists, wait_for
from proc import descriptors

ROOT = pathlib.Path(__file__).resolve().parents[3]
PASSINGS = 2  # of a point that is passed more often: at which of them it is the end
ODD = re.compile(r"\.tmp$|\.new$|^\.|\.XXXXXX$|\.part$")


def points_in(*folders):
    """{name: place in the source} of all fault points in these folders."""
    found = {}
    for folder in folders:
        for source in sorted((ROOT / folder).rglob("*.c")):
            for name in re.findall(r'\bFAULT\("([^"]+)"\)', source.read_text()):
                found[name] = str(source.relative_to(ROOT))
    return found


# The points of a move between two daemons.
MOVES = sorted(n for n in points_in("sandbox-backend/daemon") if n.startswith(("move.", "arrival.")))


class Known:
    """The right state of a sandbox in the world, as far as the test has determined it."""

    def __init__(self, sandbox, token):
        self.id = sandbox
        self.token = token
        self.files = {}
        self.boot = None
        self.count = -1
        self.may_end = False  # the operation was to end it
        self.states = {"running"}
        self.past = None  # (files, count) that it may be back at instead
        self.may_boot = False  # it may come back from its disk alone


class World:
    """One state directory, its daemon, and the known state of its sandboxes."""

    def __init__(self, daemon, guest, pool="off"):
        self.daemon = daemon
        self.guest = guest
        self.pool = pool
        self.known = {}
        self.snapshots = {}  # id: the Known of then
        self.fault = daemon.home / "fault"
        daemon.env["CUBBY_POOL"] = pool
        self.fds_empty = None
        self.subject = None  # the sandbox that the operation is about
        self.children_have = {}  # files of sandboxes that the operation makes

    # ---- the daemon
    def start(self, faults=True):
        if faults:
            self.daemon.env["CUBBY_FAULT"] = str(self.fault)
        else:
            self.daemon.env.pop("CUBBY_FAULT", None)
        self.daemon.start()

    def arm(self, point, passing):
        self.fault.write_text(f"{point}:{passing}")

    def trace(self):
        """Writes down the points that are passed from here on."""
        self.fault.with_suffix(".trace").write_text("")

    def wait_passed(self, point):
        """Waits until the daemon passes a point, if its passes are written down."""
        path = self.fault.with_suffix(".trace")
        wait_for(lambda: not path.exists() or point in path.read_text().split(), 30, f"{point} is passed")

    def traced(self):
        path = self.fault.with_suffix(".trace")
        passed = path.read_text().split()
        path.unlink()
        return collections.Counter(passed)

    def died(self):
        """Waits for the daemon's end; returns whether the fault point ended it."""
        process = self.daemon.process
        wait_for(lambda: process.poll() is not None, 30, "the daemon ends at the point")
        self.daemon.process = None
        return process.returncode == -signal.SIGKILL

    # ---- what an operation is made of
    def call(self, method, path, body=None, expect=(200, 201, 204)):
        answer = self.daemon.request(method, path, body)
        assert answer.status in expect, f"{method} {path}: {answer.status} {answer.body[:300]}"
        return answer.json if answer.body else None

    def create(self, **fields):
        """A sandbox with a file and a program that counts."""
        return self.furnish(self.take(self.daemon.create(timeout=600, **fields)))

    def wait_pool(self, seconds=300):
        """Waits until the pool is full and no machine is being made."""
        def full():
            shelf = self.call("GET", "/pool")["templates"][0]
            return shelf["ready"] >= int(self.pool) and not shelf["making"]
        wait_for(full, seconds, "the pool is full")

    def take(self, made):
        known = Known(made["sandboxID"], made.get("envdAccessToken"))
        self.known[known.id] = known
        return known

    def furnish(self, known):
        known.files["first"] = f"of {known.id}"
        self.guest.write(self, known, "first", known.files["first"])
        self.guest.start_count(self, known)
        self.look(known)
        return known

    def write(self, known, name, text):
        self.guest.write(self, known, name, text)
        known.files[name] = text

    def look(self, known):
        """The current count, unless the sandbox stands still."""
        if known.states != {"running"}:
            return
        known.count, known.boot = self.guest.count(self, known)

    def pause(self, known, depth="freeze"):
        self.look(known)
        known.states = {"paused"}
        self.call("POST", f"/sandboxes/{known.id}/pause", {"depth": depth})

    def connect(self, known):
        self.call("POST", f"/sandboxes/{known.id}/connect", {"timeout": 600})
        known.states = {"running"}

    def snapshot(self, known):
        made = self.call("POST", f"/sandboxes/{known.id}/snapshots", {})
        then = Known(known.id, None)
        then.files, then.count, then.boot = dict(known.files), known.count, known.boot
        self.snapshots[made["snapshotID"]] = then
        return made["snapshotID"]

    # ---- what has to hold
    def listed(self):
        return {s["sandboxID"]: s for s in self.call("GET", "/v2/sandboxes")}

    def records(self):
        """{id: record} of the directories in sandboxes/."""
        found = {}
        for sandbox in self.daemon.directories():
            path = self.daemon.directory(sandbox) / "sandbox.json"
            found[sandbox] = json.loads(path.read_text()) if path.exists() else None
        return found

    def pooled(self):
        """Sandboxes of the pool that are ready, as far as a daemon may keep them."""
        return {i for i, r in self.records().items() if r and r.get("state") == "pooled"}

    def check_files(self):
        """Each file has an owner, and none is half written."""
        home = self.daemon.home
        listed, pooled = set(self.listed()), self.pooled()
        strangers = set(self.daemon.directories()) - listed - pooled
        assert not strangers, f"directories in sandboxes/ that nobody knows: {strangers}"
        assert not pooled or self.pool != "off", f"pooled ones without a pool: {pooled}"
        # An image that is used up is removed by a thread, which may be at it.
        for known, record in self.records().items():
            image = self.daemon.directory(known) / "image"
            wants = record.get("image") == ""
            wait_for(lambda: (image / "image.json").exists() == image.exists() == wants, 30,
                     f"{known}'s image is there as its record says: {record}")
        snapshots = {s["snapshotID"] for s in self.call("GET", "/snapshots")}
        where = home / "snapshots"
        there = {p.name for p in where.iterdir()} if where.exists() else set()
        assert there == snapshots, f"in snapshots/ {there}, listed {snapshots}"
        for snapshot in snapshots:
            assert (where / snapshot / "image" / "image.json").exists(), f"{snapshot} is not whole"
        assert not list((home / "sandboxes").glob("*/aside*")), "what was put aside"
        odd = [str(p) for p in self.own_files() if ODD.search(p.name)]
        assert not odd, f"left behind: {odd}"

    def own_files(self):
        """The files that the daemon and its driver made, without those on the guest's disk."""
        for top, folders, names in os.walk(self.daemon.home):
            inside = pathlib.Path(top)
            if inside.name in ("disk", "home", "templates", "upper", "work", "run", "tmp"):
                folders.clear()
                continue
            yield from (inside / n for n in (*names, *folders))

    def processes(self):
        """{pid: words} of the processes that belong to the home, without the daemon's own."""
        home = os.fsencode(self.daemon.home)
        ours = self.daemon.process.pid if self.daemon.process else 0
        sockets = unix_sockets(home)
        found = {}
        for entry in pathlib.Path("/proc").glob("[0-9]*"):
            pid = int(entry.name)
            if pid in (ours, os.getpid()) or not process_exists(pid):
                continue
            words = concerns(entry, home, sockets)
            if words is not None:
                found[pid] = words
        return found

    def check_processes(self):
        """Each process belongs to a known sandbox, or to one that is ready in the pool."""
        def strangers():
            owned = set()
            for record in self.records().values():
                if record and record.get("machine"):
                    owned |= self.guest.pids(record["machine"])
            left = {p: w for p, w in self.processes().items() if not is_below(p, owned)}
            return left
        wait_for(lambda: not strangers(), 20, f"no process is without a sandbox: {strangers()}")
        assert self.daemon.process.poll() is None

    def check_known(self):
        """Each sandbox is unchanged, or has ended for a reason that the daemon reports."""
        for known in list(self.known.values()):
            answer = self.daemon.get(known.id)
            if answer.status == 404:
                assert known.may_end, f"{known.id} is gone: {answer.body}"
                message = answer.json["message"]
                assert re.search(r"it was killed|it expired|it was stopped|lost|died|ended", message), message
                del self.known[known.id]
                continue
            assert answer.status == 200, answer.body
            state = answer.json["state"]
            assert state in known.states, f"{known.id} is {state}, not {known.states}"
            if state == "paused":
                self.connect(known)
            self.check_usable(known)

    def check_usable(self, known):
        """Its files, and a count that goes on; after a rollback, those of the snapshot."""
        if known.boot is None:  # nothing is known of it but that it was made
            assert self.guest.is_there(self, known)
            return
        count, boot = self.guest.count(self, known)
        files = {n: self.guest.read(self, known, n) for n in {**known.files, **(known.past.files if known.past else {})}}
        now = {n: t for n, t in files.items() if t is not None}
        if known.may_boot and boot != known.boot:  # its programs are gone
            assert now == known.files, f"{known.id}: {now}, was {known.files}"
            self.guest.start_count(self, known)
            count, known.count, known.boot = 0, 0, boot
        as_it_was = now == known.files and count >= known.count and boot == known.boot
        back = known.past and now == known.past.files and count >= known.past.count
        assert as_it_was or back, f"{known.id}: {now} {count} {boot}, was {known.files} {known.count} {known.boot}"
        wait_for(lambda: self.guest.count(self, known)[0] > count, 20, "it goes on counting")
        known.past, known.files, known.states = None, now, {"running"}
        self.look(known)

    def check_new(self):
        """Sandboxes whose create was never answered: they must be usable all the same."""
        for sandbox in set(self.listed()) - set(self.known):
            record = self.records()[sandbox]
            self.take({"sandboxID": sandbox, "envdAccessToken": record["token"]})
            self.connect(self.known[sandbox])
            assert self.guest.is_there(self, self.known[sandbox])
            for name, text in self.children_have.items():
                assert self.guest.read(self, self.known[sandbox], name) == text

    def check(self):
        """All checks, after a new daemon has started in this world."""
        if self.pool != "off":
            self.wait_pool()
        self.check_processes()
        self.check_files()
        if self.pool == "off":
            self.check_descriptors()
        self.check_known()
        self.check_new()
        self.check_processes()

    def probes(self):
        """Whether the daemon is still finding out which protections this host can build, and with
        which libraries."""
        for name in pathlib.Path(f"/proc/{self.daemon.process.pid}/task").glob("*/comm"):
            with contextlib.suppress(OSError):  # the thread has ended
                if name.read_text() == "jail-look\n":
                    return True
        return False

    def wait_probed(self):
        wait_for(lambda: not self.probes(), 60, "the daemon knows what walls there are")

    def descriptors(self):
        """The kinds of the daemon's descriptors, without connections: those that may stay and those
        that may not."""
        kinds = collections.Counter()
        for link in descriptors(self.daemon.process.pid).values():
            if not link.startswith("socket:"):
                kinds[re.sub(r"[0-9a-z]{20}|\d+", "#", link)] += 1
        return kinds

    def check_descriptors(self):
        """Repairing the state has left no descriptors: a daemon that had nothing to repair has as many."""
        self.wait_probed()
        wait_for(lambda: "/proc" not in self.descriptors(), 60, "the daemon looks for processes no more")
        before = self.descriptors()
        self.daemon.stop(signal.SIGKILL)
        self.start(faults=False)
        wait_for(lambda: self.descriptors() == before, 60,
                 f"a fresh daemon has the descriptors {self.descriptors()}, this one had {before}")

    def end_all(self):
        """Kills everything; then nothing may be left."""
        for sandbox in self.listed():
            self.call("DELETE", f"/sandboxes/{sandbox}")
        for snapshot in self.call("GET", "/snapshots"):
            self.call("DELETE", f"/templates/{snapshot['snapshotID']}")
        if self.pool != "off":
            self.wait_pool()
        wait_for(lambda: set(self.daemon.directories()) <= self.pooled(), 30, "no directory is left")
        self.check_files()
        self.check_processes()
        if self.pool == "off":
            wait_for(lambda: self.daemon.fds() <= self.fds_empty, 30,
                     f"no descriptor is left: {self.fds_empty}")
        where = self.daemon.home / "snapshots"
        assert not where.exists() or not list(where.iterdir())

    def close(self):
        """Ends it without checks; for a world in which an error was found."""
        if self.daemon.process:
            self.daemon.process.kill()
            self.daemon.process.wait()
            self.daemon.process = None
        for pid in self.processes():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        shutil.rmtree(self.daemon.home, ignore_errors=True)


def unix_sockets(home):
    """Names of the descriptors that are sockets bound below the home."""
    lines = pathlib.Path("/proc/net/unix").read_bytes().splitlines()[1:]
    return {f"socket:[{f[6].decode()}]" for f in (line.split() for line in lines)
            if len(f) > 7 and f[7].startswith(home)}


def concerns(entry, home, sockets):
    """The process's command line if it belongs to the home, by arguments, open files or working
    directory; else nothing."""
    try:
        words = (entry / "cmdline").read_bytes().replace(b"\0", b" ")
        if home in words:
            return words
        links = [os.readlink(entry / "cwd")]
        links += descriptors(entry.name).values()
    except OSError:
        return None
    known = any(os.fsencode(link).startswith(home) or link in sockets for link in links)
    return words if known and b"pytest" not in words else None


def is_below(pid, owners):
    """Whether it is one of these processes, or a descendant of one."""
    while pid > 1:
        if pid in owners:
            return True
        try:
            stat = pathlib.Path(f"/proc/{pid}/stat").read_text()
        except OSError:
            return True  # it has ended meanwhile
        pid = int(stat.rpartition(")")[2].split()[1])
    return False


# The file of an image in which a change shows only when a machine is made from it.
CHECKED_WHEN_USED = {"microvm": "pages", "gvisor": "checkpoint.img"}


def spoil_image(daemon, snapshot):
    """Changes a page of the image on the disk. Returns a function that mends it."""
    path = daemon.home / "snapshots" / snapshot / "image" / CHECKED_WHEN_USED[daemon.tier]
    whole = path.read_bytes()
    at = len(whole) // 2 // 4096 * 4096
    path.write_bytes(whole[:at] + bytes(b ^ 255 for b in whole[at:at + 4096]) + whole[at + 4096:])
    return lambda: path.write_bytes(whole)


class ProcessGuest:
    """Access to a machine of the process driver (process_machine.c)."""

    def ask(self, world, known, method, path, body=None):
        return world.daemon.through(known.id, method, path, body, token=known.token)

    def write(self, world, known, name, text):
        answer = self.ask(world, known, "PUT", f"/disk/{name}", text.encode())
        assert answer.status == 204, answer.body

    def read(self, world, known, name):
        answer = self.ask(world, known, "GET", f"/disk/{name}")
        assert answer.status in (200, 404), answer.body
        return answer.body.decode() if answer.status == 200 else None

    def start_count(self, world, known):
        assert self.ask(world, known, "POST", "/count", b"").status == 200

    def count(self, world, known):
        answer = self.ask(world, known, "GET", "/count")
        assert answer.status == 200, answer.body
        return answer.json["count"], answer.json["boot"]

    def is_there(self, world, known):
        return self.ask(world, known, "GET", "/whoami").body == b"envd"

    def pids(self, machine):
        return {machine["pid"]}

    def spoil(self, world, snapshot, **how):
        """Damages it so that no machine can be made from it, or used, which shows only when that is tried.
        Returns a function that mends it."""
        world.daemon.template("default", **how)
        return lambda: world.daemon.template("default")

    def hold(self, world, machine):
        """Lets a machine that stands still not go on. Returns a function that kills it."""
        mend = self.spoil(world, None, resume="held")

        def kill():
            self.kill(self.pids(machine))
            mend()
        return kill

    def kill(self, pids):
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        wait_for(lambda: not any(map(process_exists, pids)), 30, "the machine is gone")


# A shell that counts in a variable of its own; who reads it may come in the middle of a write.
COUNTING = """nohup sh -c 'i=0; while :; do i=$((i+1)); echo "$$ $i" >${TMPDIR:-/tmp}/count; sleep 0.02; done' \
    >/dev/null 2>&1 &"""


class RealGuest:
    """The same access to a real guest, of any tier."""

    def run(self, world, known, command):
        made = {"sandboxID": known.id, "envdAccessToken": known.token}
        code, output = world.daemon.command(made, command)
        return code, output.decode()

    def write(self, world, known, name, text):
        code, output = self.run(world, known, f"printf %s '{text}' >~/{name} && sync ~/{name}")
        assert code == 0, output

    def read(self, world, known, name):
        code, output = self.run(world, known, f"cat ~/{name}")
        return output if code == 0 else None

    def start_count(self, world, known):
        assert self.run(world, known, COUNTING)[0] == 0

    def count(self, world, known):
        """The count, and the pid of the process that counts."""
        def look():
            return self.run(world, known, "cat ${TMPDIR:-/tmp}/count")[1].split()
        words = wait_for(lambda: (w := look()) and len(w) == 2 and w, 30, "the count can be read")
        return int(words[1]), words[0]

    def is_there(self, world, known):
        return self.run(world, known, "echo yes") == (0, "yes\n")

    def pids(self, machine):
        """Every "pid" in the files of the driver."""
        if isinstance(machine, dict):
            own = {machine["pid"]} if isinstance(machine.get("pid"), int) else set()
            return own.union(*map(self.pids, machine.values()))
        return set()

    def spoil(self, world, snapshot, **how):
        return spoil_image(world.daemon, snapshot)

    def hold(self, world, machine):
        main = machine["qemu" if world.daemon.tier == "microvm" else "sentry"]["pid"]
        os.kill(main, signal.SIGSTOP)
        return lambda: self.kill({main})

    kill = ProcessGuest.kill
