# SPDX-License-Identifier: Apache-2.0
"""cubbyd on a full machine: which creates are admitted, wait or are refused; and the limits of a
key.

A file of the test says how much memory the machine has (CUBBY_TEST_MEMINFO).
"""

import http.client
import json
import socket
import subprocess
import threading

import pytest

from cubbyd import Daemon, wait_for
from harness import BIN

TOTAL_MB = 10000


class Machine(Daemon):
    """A daemon on a machine of TOTAL_MB, of which as much is available as the test says."""

    def __init__(self, *args, available, **more):
        super().__init__(*args, env={"CUBBY_POOL": "off", **more.pop("env", {})}, **more)
        self.meminfo = self.home / "meminfo"
        self.env["CUBBY_TEST_MEMINFO"] = str(self.meminfo)
        self.has(available)

    def has(self, mb):
        new = self.home / "meminfo.new"
        new.write_text(f"MemTotal: {TOTAL_MB * 1024} kB\nMemFree: 1 kB\n"
                       f"MemAvailable: {mb * 1024} kB\nSwapFree: 99999999 kB\n")
        new.rename(self.meminfo)

    def ask(self, **fields):
        return self.request("POST", "/v2/sandboxes", {"templateID": "default", **fields})

    def ask_beside(self, **fields):
        """Sends the request in a thread; the answer is in its list afterwards."""
        answers = []
        thread = threading.Thread(target=lambda: answers.append(self.ask(**fields)))
        thread.start()
        return thread, answers

    def waiting(self):
        return self.request("GET", "/sandboxes/stats").json["host"]["waiting"]


def is_refused(answer, *words):
    assert answer.status == 503 and answer.json["code"] == 503, answer.body
    assert answer.json["error_code"] == "host_full"
    assert int(answer.headers["Retry-After"]) > 0
    for word in words:
        assert word in answer.json["message"]
    return True


# ---- memory that is really free
def test_what_is_available_decides():
    # The reserve is 1000 MB, and one that nothing is known of is expected to take 64 MB.
    with Machine("--create-wait", "0", available=1063) as daemon:
        assert is_refused(daemon.ask(), "10000 MB", "1063 MB", "1000 MB", "64 MB",
                          "--memory-reserve")
        assert daemon.directories() == [] and daemon.request("GET", "/v2/sandboxes").json == []
        daemon.has(1064)
        daemon.create()


def test_a_young_one_counts_for_what_it_will_take():
    with Machine("--create-wait", "0", available=1100) as daemon:
        daemon.create()
        assert is_refused(daemon.ask())
        daemon.has(1200)
        daemon.create()


def test_the_reserve_is_an_option():
    with Machine("--create-wait", "0", "--memory-reserve", "50", available=5063) as daemon:
        assert is_refused(daemon.ask(), "5000 MB")
        daemon.has(5064)
        daemon.create()


def test_promises_may_exceed_the_machine():
    """The sandboxes together have sixteen times the machine's memory; only free memory counts."""
    with Machine(available=9000) as daemon:
        daemon.template("large", memory_mb=200000)
        daemon.create(templateID="large")


def test_a_machine_that_does_not_tell():
    with Machine("--create-wait", "0", available=1) as daemon:
        daemon.meminfo.write_text("nothing\n")
        daemon.create()


class Group:
    """A control group of version 2 around the daemon, with this usage and this limit."""

    def __init__(self, daemon):
        self.dir = daemon.home / "groups/job"
        self.dir.mkdir(parents=True)
        (daemon.home / "proc").mkdir()
        (daemon.home / "proc/cgroup").write_text("0::/job\n")
        (daemon.home / "proc/mountinfo").write_text(f"40 20 0:26 / {daemon.home}/groups rw - cgroup2 cgroup2 rw\n")
        (self.dir / "cgroup.procs").write_text("")
        daemon.env["CUBBY_TEST_GROUPS"] = str(daemon.home / "proc")

    def has(self, limit_mb, used_mb, file_mb=0):
        limit = "max" if limit_mb is None else limit_mb << 20
        for name, text in (("memory.max", limit), ("memory.current", used_mb << 20),
                           ("memory.stat", f"anon 1\nactive_file {file_mb << 20}")):
            (self.dir / "new").write_text(f"{text}\n")
            (self.dir / "new").rename(self.dir / name)


def test_the_control_groups_limit_decides():
    """100 of 1000 MB are the reserve, and a sandbox whose size is not known yet takes 64; the
    machine has 9000."""
    daemon = Machine("--create-wait", "0", available=9000)
    group = Group(daemon)
    group.has(1000, 837)
    with daemon:
        assert is_refused(daemon.ask(), "the daemon's control group", "Of 1000 MB, 163 MB", "raise its memory limit")
        assert daemon.directories() == []
        host = daemon.request("GET", "/sandboxes/stats").json["host"]
        assert host["memoryTotalBytes"] == 1000 << 20 and host["memoryAvailableBytes"] == 163 << 20
        group.has(1000, 837, file_mb=1)  # of which so much can be dropped
        first = daemon.create()
        assert daemon.kill(first["sandboxID"]) == 204
        group.has(1000, 837)
        assert is_refused(daemon.ask())
        group.has(None, 837)
        daemon.create()


# ---- waiting
def test_waits_until_there_is_room():
    with Machine("--create-wait", "60", available=100) as daemon:
        thread, answers = daemon.ask_beside()
        wait_for(lambda: daemon.waiting() == 1, 30, "it waits")
        assert daemon.directories() == [] and daemon.request("GET", "/v2/sandboxes").json == []
        daemon.has(5000)
        thread.join(30)
        assert answers[0].status == 201
        assert daemon.through(answers[0].json["sandboxID"], path="/health").status == 204


def test_waits_until_another_ends():
    with Machine("--create-wait", "60", "--max-sandboxes", "1", available=9000) as daemon:
        first = daemon.create()
        thread, answers = daemon.ask_beside()
        wait_for(lambda: daemon.waiting() == 1, 30, "it waits")
        assert daemon.kill(first["sandboxID"]) == 204
        thread.join(30)
        assert answers[0].status == 201


def test_waits_for_so_long():
    with Machine("--create-wait", "1", available=100) as daemon:
        assert is_refused(daemon.ask())
        host = daemon.request("GET", "/sandboxes/stats").json["host"]
        assert host["waiting"] == 0 and host["refused"] == 1
        daemon.has(5000)
        daemon.create()


def test_first_come_first_served():
    with Machine("--create-wait", "60", "--max-sandboxes", "1", available=9000) as daemon:
        last = daemon.create()
        queue = []
        for i in range(3):
            queue.append(daemon.ask_beside(metadata={"n": str(i)}))
            wait_for(lambda n=i + 1: daemon.waiting() == n, 30, "it waits")
        for thread, answers in queue:
            assert daemon.kill(last["sandboxID"]) == 204
            thread.join(30)
            last = answers[0].json
        assert daemon.waiting() == 0
        assert sum(1 for line in daemon.log.read_text().splitlines()
                   if "admission.admitted" in line) == 3


def test_who_goes_away_waits_no_more():
    with Machine("--create-wait", "60", "--max-sandboxes", "1", available=9000) as daemon:
        first = daemon.create()
        body = b'{"templateID":"default"}'
        s = socket.socket(socket.AF_UNIX)
        s.connect(str(daemon.home / "cubbyd.sock"))
        s.sendall(b"POST /v2/sandboxes HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s"
                  % (len(body), body))
        wait_for(lambda: daemon.waiting() == 1, 30, "it waits")
        s.close()
        wait_for(lambda: daemon.waiting() == 0, 30, "it does not")
        assert daemon.kill(first["sandboxID"]) == 204
        daemon.create()
        assert len(daemon.request("GET", "/v2/sandboxes").json) == 1
        assert len(daemon.machines()) == 1


def test_the_daemon_ends_while_one_waits():
    with Machine("--create-wait", "60", available=100) as daemon:
        answers = []

        def ask():
            try:
                answers.append(daemon.ask().status)
            except (http.client.HTTPException, OSError) as gone:
                answers.append(gone)
        thread = threading.Thread(target=ask)
        thread.start()
        wait_for(lambda: daemon.waiting() == 1, 30, "it waits")
        assert daemon.stop() == 0
        thread.join(30)
        assert answers and answers[0] != 201


def test_so_many_wait():
    """The 257th create is refused at once."""
    with Machine("--create-wait", "300", available=100) as daemon:
        body = b'{"templateID":"default"}'
        waiting = []
        for _ in range(256):
            s = socket.socket(socket.AF_UNIX)
            s.connect(str(daemon.home / "cubbyd.sock"))
            s.sendall(b"POST /v2/sandboxes HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s"
                      % (len(body), body))
            waiting.append(s)
        wait_for(lambda: daemon.waiting() == 256, 60, "all wait")
        assert is_refused(daemon.ask(), "256 sandboxes already wait")
        for s in waiting:
            s.close()
        wait_for(lambda: daemon.waiting() == 0, 60, "none does")


def test_pooled_and_frozen_count_for_what_they_have():
    """A paused sandbox is not counted as a new one: its memory is already missing from the machine's."""
    with Machine("--create-wait", "0", available=1100) as daemon:
        made = daemon.create()
        assert is_refused(daemon.ask())
        assert daemon.request("POST", f"/sandboxes/{made['sandboxID']}/pause", {}).status == 204
        daemon.create()


# ---- what one key may have
class Keyed(Machine):
    def __init__(self, **limits):
        super().__init__("--listen", "127.0.0.1:0", available=9000)
        made = subprocess.run([BIN / "cubby", "key", "new", "--plain", "few"], env=self.env,
                              capture_output=True, text=True, timeout=60, check=True)
        self.key = made.stdout.strip()
        file = self.home / "keys.json"
        keys = json.loads(file.read_text())
        keys["tokens"][0].update(limits)
        file.write_text(json.dumps(keys))

    def ask(self, method="POST", path="/v2/sandboxes", **fields):
        url = (self.home / "cubbyd.url").read_text().strip().partition("//")[2]
        connection = http.client.HTTPConnection(url, timeout=60)
        if path == "/v2/sandboxes":
            fields.setdefault("templateID", "default")
        connection.request(method, path, json.dumps(fields),
                           {"X-API-KEY": self.key, "Content-Type": "application/json"})
        answer = connection.getresponse()
        body = answer.read()
        connection.close()
        return answer.status, json.loads(body or b"null"), answer.headers


def exceeds(answer, member, retry=False):
    status, body, headers = answer
    assert status == 429 and body["code"] == 429 and body["error_code"] == "limit_reached", body
    assert member in body["message"] and '"few"' in body["message"]
    assert ("Retry-After" in headers) == retry
    return True


def test_sandboxes_of_a_key():
    with Keyed(max_sandboxes=1) as daemon:
        status, made, _ = daemon.ask()
        assert status == 201
        assert exceeds(daemon.ask(), "max_sandboxes")
        daemon.create()  # the unix socket's are not his
        assert daemon.kill(made["sandboxID"]) == 204
        assert daemon.ask()[0] == 201


def test_one_that_ends_soon_is_worth_waiting_for():
    with Keyed(max_sandboxes=1) as daemon:
        assert daemon.ask(timeout=20)[0] == 201
        answer = daemon.ask()
        assert exceeds(answer, "max_sandboxes", retry=True)
        assert 1 <= int(answer[2]["Retry-After"]) <= 20


def test_memory_of_a_key():
    with Keyed(max_memory_mb=1100) as daemon:
        assert [daemon.ask()[0] for _ in range(2)] == [201, 201]
        answer = daemon.ask()
        assert exceeds(answer, "max_memory_mb")
        assert "has 1024 of at most 1100 MB of memory in its sandboxes" in answer[1]["message"]
        assert "hibernate them (cubby pause --hibernate)" in answer[1]["message"]


def test_processors_of_a_key():
    """A paused sandbox counts none; a wake needs them again."""
    with Keyed(max_cpus=2) as daemon:
        first = daemon.ask()[1]["sandboxID"]
        assert exceeds(daemon.ask(), "max_cpus")
        assert daemon.ask(path=f"/sandboxes/{first}/pause")[0] == 204
        second = daemon.ask()[1]["sandboxID"]
        assert exceeds(daemon.ask(path=f"/sandboxes/{first}/connect", timeout=60), "max_cpus")
        assert daemon.kill(second) == 204
        assert daemon.ask(path=f"/sandboxes/{first}/connect", timeout=60)[0] == 201


@pytest.mark.parametrize("member", ["max_memory_mb", "max_cpus", "max_snapshots", "max_disk_mb",
                                    "max_ports"])
@pytest.mark.parametrize("value", [-1, "4", 1.5])
def test_limits_that_make_no_sense(member, value):
    daemon = Keyed(**{member: value})
    try:
        with open(daemon.log, "ab") as log:
            status = subprocess.run([daemon.program], env=daemon.env, stdout=log, stderr=log,
                                    timeout=60).returncode
        assert status == 1 and member in daemon.log.read_text()
    finally:
        daemon.close()


@pytest.mark.parametrize("value", ["microvm", [], [1], ["a,b"], ["microvm"] * 9])
def test_tiers_that_make_no_sense(value):
    daemon = Keyed(tiers=value)
    try:
        with open(daemon.log, "ab") as log:
            status = subprocess.run([daemon.program], env=daemon.env, stdout=log, stderr=log, timeout=60).returncode
        assert status == 1 and "tiers must be a list of 1 to 8 names of tiers" in daemon.log.read_text()
    finally:
        daemon.close()


def test_the_tiers_of_a_key():
    """The key's list replaces what all keys may have; the unix socket has no list."""
    with Keyed(tiers=["plain"]) as daemon:
        status, body, _ = daemon.ask()
        assert status == 403 and "tier 'process' is not for this API key" in body["message"]
        assert daemon.kill(daemon.create()["sandboxID"]) == 204
    with Keyed() as daemon:
        assert daemon.ask()[0] == 201


def test_a_key_is_made_with_limits():
    daemon = Keyed()
    try:
        subprocess.run([BIN / "cubby", "key", "new", "small", "--max-sandboxes", "3", "--max-memory-mb",
                        "2048", "--max-cpus", "4", "--max-snapshots", "5", "--max-disk-mb", "6000", "--max-ports", "7",
                        "--max-builds", "2", "--tiers", "microvm,none"],
                       env=daemon.env, capture_output=True, timeout=60, check=True)
        limits = {"max_sandboxes": 3, "max_memory_mb": 2048, "max_cpus": 4, "max_snapshots": 5,
                  "max_disk_mb": 6000, "max_ports": 7, "max_builds": 2, "tiers": ["microvm", "none"]}
        made = json.loads((daemon.home / "keys.json").read_text())["tokens"][1]
        assert made.pop("name") == "small" and len(made.pop("sha256")) == 64
        assert made.pop("created").endswith("Z") and made == limits
        shown = subprocess.run([BIN / "cubby", "key", "ls"], env=daemon.env, capture_output=True, text=True,
                               timeout=60, check=True).stdout.splitlines()
        assert shown[1].split() == ["few", "never", "-", "-", "-", "-", "-", "-", "-", "-"]
        assert shown[2].split() == ["small", "never", "3", "2048", "4", "5", "6000", "7", "2", "microvm,none"]
        listed = subprocess.run([BIN / "cubby", "key", "ls", "--json"], env=daemon.env, capture_output=True,
                                timeout=60, check=True).stdout
        assert json.loads(listed)[1] == {"name": "small", **limits}
    finally:
        daemon.close()


# ---- the pool makes room
def test_pooled_ones_make_room():
    """Sandboxes of the pool are ended when a create needs their memory."""
    with Machine("--create-wait", "60", available=9000, env={"CUBBY_POOL": "default=1:2"}) as daemon:
        daemon.template("other")
        host = lambda: daemon.request("GET", "/sandboxes/stats").json["host"]
        wait_for(lambda: host()["pooled"] == 2, 60, "the pool is full")
        daemon.has(100)
        thread, answers = daemon.ask_beside(templateID="other")
        wait_for(lambda: host()["pooled"] == 0, 60, "the pool gives up what it has")
        daemon.has(5000)
        thread.join(60)
        assert answers[0].status == 201
