# SPDX-License-Identifier: Apache-2.0
"""Real microVMs of other sizes than their template's, and the limits that the host sets for each.
"""

import json
import os
import pathlib
import signal
import subprocess
import sys

import pytest

from cubbyd import MicroVMs, wait_for
from harness import TEST_HOME

KERNEL = 49999
TEMPLATE = json.loads((TEST_HOME / "templates" / "default" / "template.json").read_text())
DISK_MB = TEMPLATE["disk_mb"] + 4096
SIZE = {"cpuCount": 2, "memoryMB": 1024, "diskSizeMB": DISK_MB}
BOOT_S = 150  # with time to spare on a busy host without hardware virtualisation
QUOTA_PERIOD = 100000  # microseconds: of a group's processor time


@pytest.fixture(scope="module")
def daemon():
    with MicroVMs("--pool", "off", "--max-sandbox-cpus", "2") as d:
        yield d


def create(daemon, **fields):
    answer = daemon.request("POST", "/sandboxes", {"templateID": "default", "timeout": 3600, **fields},
                            timeout=BOOT_S)
    assert answer.status == 201, answer.body
    return answer.json


@pytest.fixture(scope="module")
def large(daemon):
    return create(daemon, **SIZE)


def run(daemon, made, command, user="user"):
    code, text = daemon.command(made, command, user=user)
    assert code == 0, text
    return text.decode()


def disk_mb(daemon, made):
    return int(run(daemon, made, "df -BM --output=size / | tail -n 1").strip().rstrip("M"))


def has_size(daemon, made):
    memory_kb = int(run(daemon, made, "awk '/MemTotal/ {print $2}' /proc/meminfo"))
    return (run(daemon, made, "nproc") == "2\n" and 900 * 1024 < memory_kb <= 1024 * 1024
            and disk_mb(daemon, made) > TEMPLATE["disk_mb"])


def python(daemon, made, code):
    """Asks the kernel until it answers, because it starts with the guest."""
    def ask():
        answer = daemon.through(made["sandboxID"], "POST", "/execute", {"code": code}, port=KERNEL,
                                token=made["envdAccessToken"], timeout=120)
        if answer.status == 200:
            lines = [json.loads(line) for line in answer.body.splitlines() if line.strip()]
            said.append("".join(e.get("text", "") for e in lines if e.get("type") == "stdout"))
        return answer.status == 200

    said = []
    wait_for(ask, 120, "the kernel runs")
    return said[0]


def test_it_sees_and_uses_its_size(daemon, large):
    assert large["cold"] is True and "booted" in large["coldReason"]
    detail = daemon.get(large["sandboxID"]).json
    assert {key: detail[key] for key in SIZE} == SIZE
    assert has_size(daemon, large)
    assert python(daemon, large, "import os; print(os.cpu_count(), len(bytearray(540 << 20)))") == \
        f"2 {540 << 20}\n"


def test_it_comes_back_from_the_disk(daemon, large):
    run(daemon, large, "echo kept >/dev/shm/note")
    paused = daemon.request("POST", f"/sandboxes/{large['sandboxID']}/pause", {"depth": "hibernate"},
                            timeout=120)
    assert paused.status == 204, paused.body
    assert daemon.machines() == []
    woken = daemon.request("POST", f"/sandboxes/{large['sandboxID']}/connect", {"timeout": 3600},
                           timeout=120)
    assert woken.status == 201 and "cold" not in woken.json
    assert run(daemon, large, "cat /dev/shm/note") == "kept\n" and has_size(daemon, large)


def groups(daemon, made):
    return {pathlib.Path(g["dir"]): g["holds"]
            for g in daemon.record(made["sandboxID"])["machine"]["limits"]["groups"]}


def value(place, first, second):
    """The value of a file of a control group, in version 1 or 2."""
    path = place / first if (place / first).exists() else place / second
    return path.read_text().split()[0]


def test_a_larger_disk_alone_is_restored_and_written_to_its_end(daemon):
    made = create(daemon, diskSizeMB=DISK_MB)
    assert "cold" not in made
    assert disk_mb(daemon, made) > TEMPLATE["disk_mb"]
    # Unwritten space costs the host nothing; what is written lies behind the template's end.
    run(daemon, made, f"set -e; fallocate -l {TEMPLATE['disk_mb']}M /full; "
        f"dd if=/dev/urandom of=/full bs=1M seek={TEMPLATE['disk_mb'] - 8} count=8 conv=notrunc,fsync; "
        "tail -c 8M /full | md5sum >/sum; echo 3 >/proc/sys/vm/drop_caches; "
        "tail -c 8M /full | md5sum | cmp - /sum", user="root")
    assert daemon.kill(made["sandboxID"]) == 204


INTRUDER = """
import os, sys, threading
what, most, *groups = sys.argv[1:]
for group in groups:
    with open(group + "/cgroup.procs", "w") as f:
        f.write(str(os.getpid()))
with open("/proc/self/oom_score_adj", "w") as f:
    f.write("1000")
if what == "memory":
    taken = bytearray(int(most))
else:
    wait = threading.Event()
    try:
        for n in range(int(most)):
            threading.Thread(target=wait.wait, daemon=True).start()
    except RuntimeError:
        print("refused", flush=True)
        os._exit(0)
print("had all", flush=True)
os._exit(0)
"""


def intrude(what, most, groups):
    """The outcome for a process that joins these groups and takes so much."""
    done = subprocess.run([sys.executable, "-c", INTRUDER, what, str(most), *map(str, groups)],
                          capture_output=True, text=True, timeout=120)
    return done.stdout.strip() or done.returncode


def exceeds(held):
    """A process inside the groups is held to their limits; outside of them it is not."""
    more = {"memory": (TEMPLATE["memory_mb"] + 400) << 20, "pids": TEMPLATE["cpus"] + 200}
    for what, most in more.items():
        places = [place for place, holds in held.items() if what in holds]
        assert intrude(what, most, []) == "had all"
        if places:
            assert intrude(what, most, places) == (-signal.SIGKILL if what == "memory" else "refused")


def test_the_host_holds_it_to_its_size(daemon):
    made = create(daemon)
    record = daemon.record(made["sandboxID"])["machine"]
    held = groups(daemon, made)
    if not held:  # nothing may be made here; nothing failed, and it is said
        assert record["limits"]["holds"] == "none"
        return
    pids = {str(record["qemu"]["pid"]), str(record["netd"]["pid"])}
    for place, holds in held.items():
        assert pids <= set((place / "cgroup.procs").read_text().split())
        if "memory" in holds:
            limit = int(value(place, "memory.limit_in_bytes", "memory.max")) >> 20
            assert TEMPLATE["memory_mb"] + 256 <= limit <= TEMPLATE["memory_mb"] + 320
        if "cpu" in holds:
            quota = int(value(place, "cpu.cfs_quota_us", "cpu.max"))
            assert quota == QUOTA_PERIOD * (TEMPLATE["cpus"] + 1)
        if "pids" in holds:
            assert int(value(place, "pids.max", "pids.max")) == TEMPLATE["cpus"] + 128
    exceeds(held)
    left = [place.with_name(place.name.rpartition("-")[0] + "-xxxxxxxx") for place in held]  # of one that was killed
    for place in left:
        os.mkdir(place)
    daemon.stop(signal.SIGKILL)
    daemon.start()
    assert not any(place.exists() for place in left)
    assert groups(daemon, made) == held and all(place.exists() for place in held)
    assert run(daemon, made, "echo here") == "here\n"
    assert daemon.kill(made["sandboxID"]) == 204
    assert not any(place.exists() for place in held)
