# SPDX-License-Identifier: Apache-2.0
"""`make soak`: one daemon makes, uses, kills, pauses and resumes sandboxes thousands of times,
while its use of the host is sampled. Prints the samples and writes them into docs/soak.md.

TIER (microvm) is the sandboxes' tier. SOAK_CREATES (2000) and SOAK_PAUSES (200) give the counts;
SOAK_POOL (2) is the daemon's --pool; SOAK_SAMPLES (20) is the number of samples; SOAK_STATE
(build/soak.json) is a file that keeps the samples, so that a stopped run goes on from there with a
new daemon; the next sample notes that. A step that takes longer than STEP_S fails the run. About 45
minutes under TCG on 2 processors.
"""

import contextlib
import itertools
import json
import os
import pathlib
import shutil
import signal
import sys
import textwrap
import time

from bench_common import resident_kb
from crash import RealGuest, World
from cubbyd import Shipped
from harness import wait_for
from soak_doc import machine, put_section

TIER = os.environ.get("TIER") or "microvm"
CREATES = int(os.environ.get("SOAK_CREATES", "2000"))
PAUSES = int(os.environ.get("SOAK_PAUSES", "200"))
POOL = os.environ.get("SOAK_POOL", "2")
SAMPLES = int(os.environ.get("SOAK_SAMPLES", "20"))
STATE = pathlib.Path(os.environ.get("SOAK_STATE", "build/soak.json"))
STEP_S = 60
POOL_S = 900  # the pool gives way to everything else that the machine does
WARM = 0.1  # the part of a run after which what the daemon has may not grow any more
GROWTH_KB = 1024
COLUMNS = ["done", "minutes", "daemons", "fds", "rss_kb", "processes", "files", "sandboxes",
           "available_mb", "disk_mb"]


@contextlib.contextmanager
def in_time(what):
    """Fails a step that takes longer than STEP_S."""
    def on_alarm(number, frame):
        raise TimeoutError(f"{what}: not within {STEP_S} s")
    signal.signal(signal.SIGALRM, on_alarm)
    signal.alarm(STEP_S)
    try:
        yield
    finally:
        signal.alarm(0)


class Soak:
    def __init__(self):
        self.state = {"begin": time.time(), "daemons": 0, "creates": 0, "pauses": 0, "samples": []}
        if STATE.exists():
            self.state = json.loads(STATE.read_text())
        self.daemon = Shipped(tier=TIER)
        self.world = World(self.daemon, RealGuest(), POOL)

    def start(self):
        self.world.start(faults=False)
        self.state["daemons"] += 1
        self.quiet()

    def quiet(self):
        """Waits until nothing is under way, so that a sample counts only what stays."""
        if POOL != "off":
            self.world.wait_pool(POOL_S)
        wait_for(lambda: set(self.daemon.directories()) <= self.world.pooled(), STEP_S,
                 "only those of the pool are there")
        self.settled_fds()

    def settled_fds(self):
        """Descriptors, once idle connections are closed: that happens a moment after their last use."""
        last = [-1, 0]

        def same():
            now = self.daemon.fds()
            last[1] = last[1] + 1 if now == last[0] else 0
            last[0] = now
            return last[1] >= 100
        wait_for(same, STEP_S, "the descriptors stay as they are")

    # ---- what is done
    def one_create(self):
        made = self.daemon.create(timeout=600)
        assert self.daemon.command(made, "echo $((6*7))") == (0, b"42\n")
        assert self.daemon.kill(made["sandboxID"]) == 204

    def one_pause(self, known, number):
        self.world.pause(known, "hibernate" if number % 2 else "freeze")
        self.world.connect(known)
        self.world.check_usable(known)

    def run_creates(self):
        while self.state["creates"] < CREATES:
            with in_time("create, run a command, kill"):
                self.one_create()
            self.state["creates"] += 1
            self.sample_if_due("creates", CREATES)

    def run_pauses(self):
        if self.state["pauses"] >= PAUSES:
            return
        known = self.world.create()
        while self.state["pauses"] < PAUSES:
            with in_time("pause, resume"):
                self.one_pause(known, self.state["pauses"])
            self.state["pauses"] += 1
            if self.state["pauses"] % max(1, PAUSES // SAMPLES) == 0:
                self.save()
        with in_time("kill"):
            assert self.daemon.kill(known.id) == 204
        self.sample(f"{PAUSES} pauses")

    # ---- what is looked at
    def sample_if_due(self, kind, total):
        if self.state[kind] % max(1, total // SAMPLES) == 0 or self.state[kind] == total:
            self.sample(f"{self.state[kind]} {kind}")

    def sample(self, done):
        self.quiet()
        available = next(int(line.split()[1]) for line in pathlib.Path("/proc/meminfo").open()
                         if line.startswith("MemAvailable"))
        values = {"done": done, "minutes": round((time.time() - self.state["begin"]) / 60, 1),
                  "daemons": self.state["daemons"], "fds": self.daemon.fds(),
                  "rss_kb": resident_kb(self.daemon.process.pid),
                  "processes": len(self.world.processes()), "files": self.files(),
                  "sandboxes": len(self.daemon.directories()), "available_mb": available // 1024,
                  "disk_mb": shutil.disk_usage(self.daemon.home).free // 2**20}
        self.state["samples"].append(values)
        self.save()
        print(row(values), flush=True)

    def files(self):
        """The files of the home, without the log."""
        return sum(1 for path in self.world.own_files() if path.is_file() and path.name != "log")

    def save(self):
        STATE.parent.mkdir(parents=True, exist_ok=True)
        STATE.write_text(json.dumps(self.state))


def row(values):
    return "| " + " | ".join(str(values[c]) for c in COLUMNS) + " |"


def same(samples, key):
    """Whether all samples of a daemon have the same value."""
    return all(len({s[key] for s in group}) == 1 for group in by_daemon(samples))


def by_daemon(samples):
    return [list(g) for _, g in itertools.groupby(samples, lambda s: s["daemons"])]


def growth(samples, key):
    """The largest growth after the first part of one daemon's samples."""
    grown = 0
    for group in by_daemon(samples):
        first = group[min(len(group) - 1, max(1, int(len(group) * WARM)))]
        grown = max(grown, group[-1][key] - first[key])
    return grown


def verdicts(samples):
    """[(sentence, whether the result is good)]"""
    checks = [(f"{key}: {[s[key] for s in samples][0]} at the start, {samples[-1][key]} at the end",
               same(samples, key)) for key in ("fds", "processes", "files", "sandboxes")]
    more = growth(samples, "rss_kb")
    checks.append((f"rss_kb: {more} more after the first tenth (allowed {GROWTH_KB})", more <= GROWTH_KB))
    return checks


def write(soak, checks):
    samples = soak.state["samples"]
    command = f"make soak SOAK_CREATES={CREATES} SOAK_PAUSES={PAUSES} SOAK_POOL={POOL}"
    name, title = "soak", "Thousands of sandboxes, one daemon"
    if TIER != "microvm":
        command, name, title = f"{command} TIER={TIER}", f"soak-{TIER}", f"{title}: tier {TIER}"
    put_section(name, title, command, [
        machine(TIER), "",
        *textwrap.wrap(f"The run creates a sandbox, runs a command in it and kills it, {CREATES} times. Then it pauses "
                       f"and resumes a sandbox {PAUSES} times, and hibernates it every second time. A program that counts "
                       "in the sandbox must go on each time. The run takes samples when no operation is in progress.",
                       100), "",
        *textwrap.wrap(f"The column `sandboxes` counts those of the pool (`--pool {POOL}`), `processes` all processes of "
                       "the home except the daemon, and `files` all files of the home except its log.", 100), "",
        "| " + " | ".join(COLUMNS) + " |", "|" + "---|" * len(COLUMNS), *map(row, samples), "",
        *(f"- {'same' if fine else 'NOT THE SAME'}: {text}" for text, fine in checks)])


def main():
    soak = Soak()
    try:
        print("| " + " | ".join(COLUMNS) + " |", flush=True)
        soak.start()
        with in_time("the first one"):
            soak.one_create()  # what is made once is there from here on
        soak.sample("start" if not soak.state["samples"] else f"{soak.state['creates']} creates, again")
        soak.run_creates()
        soak.run_pauses()
        checks = verdicts(soak.state["samples"])
        for text, fine in checks:
            print(("same: " if fine else "NOT THE SAME: ") + text)
        write(soak, checks)
        STATE.unlink()
        assert soak.daemon.stop() == 0
        assert not soak.world.processes() and not soak.daemon.directories()
        return 0 if all(fine for _, fine in checks) else 1
    finally:
        soak.world.close()


if __name__ == "__main__":
    sys.exit(main())
