# SPDX-License-Identifier: Apache-2.0
"""The pool: how it is filled, which sandboxes it hands out, and what it does after a failure."""

import concurrent.futures
import contextlib
import json
import os
import signal

import pytest

from cubbyd import PROGRAM, Daemon, process_exists, wait_for
from harness import Later


def is_stopped(pid):
    return open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[0] == "T"


class Pool(Daemon):
    """A daemon with a pool, and a template with a named build."""

    def __init__(self, plan, **options):
        super().__init__("--pool", plan, **options)

    def templates(self):
        self.template("default", created_at="first")

    def shelf(self, template="default"):
        shelves = self.request("GET", "/pool").json["templates"]
        return next(s for s in shelves if s["templateID"] == template)

    def await_ready(self, count, template="default"):
        wait_for(lambda: self.shelf(template)["ready"] == count, 60, f"{count} are ready")

    def pooled(self):
        """{id: its record} of the sandboxes that are ready."""
        records = {}
        for name in self.directories():
            try:
                records[name] = self.record(name)
            except FileNotFoundError:
                continue
        return {name: r for name, r in records.items() if r["state"] == "pooled"}

    def init_of(self, sandbox):
        return json.loads((self.directory(sandbox) / "init.json").read_text())

    def whoami(self, made, token=None):
        return self.through(made["sandboxID"], path="/whoami",
                            token=token or made["envdAccessToken"], timeout=60).status


# ---- filling
def test_it_is_filled_up_to_high_when_below_low():
    with Pool("2:3") as d:
        d.await_ready(3)
        pooled = d.pooled()
        assert len(pooled) == 3 and len(d.directories()) == 3
        d.create()  # two are left: not below low
        assert d.shelf()["ready"] == 2
        d.create()
        d.await_ready(3)
        shelf = d.shelf()
        assert (shelf["low"], shelf["high"], shelf["handedOut"], shelf["cold"]) == (2, 3, 2, 0)


def test_a_pooled_one_stands_still_warmed_and_unseen():
    with Pool("1") as d:
        d.await_ready(1)
        (name, record), = d.pooled().items()
        assert record["token"] is None and record["policy"]["internet"] is False
        wait_for(lambda: is_stopped(record["machine"]["pid"]), 30, "it stands still")
        assert (d.directory(name) / "background").read_text() == "yes"
        assert b"bash" in (d.directory(name) / "started").read_bytes()
        assert "accessToken" not in d.init_of(name) and d.init_of(name)["entropy"]
        for path in ["", "/metrics", "/logs"]:
            assert d.request("GET", f"/sandboxes/{name}{path}").status == 404
        assert d.kill(name) == 404
        assert d.through(name).status == 502
        for path in ["/sandboxes", "/v2/sandboxes"]:
            answer = d.request("GET", path)
            assert answer.json == []
        assert d.machine(name) in d.machines()


@pytest.mark.parametrize("plan", ["off", "0", "default=0"])
def test_off(plan):
    with Pool(plan) as d:
        made = d.create()
        d.create()
        assert d.directories() == sorted(d.directories()) and len(d.directories()) == 2
        assert d.pooled() == {} and "pool.ready" not in d.log.read_text()
        assert d.whoami(made) == 200


def test_the_environment_and_the_file_say_it_too():
    with Pool("1", env={"CUBBY_POOL": "7"}) as d:
        assert d.shelf()["high"] == 1
    d = Daemon(env={"CUBBY_POOL": "1:2"})
    with d:
        assert d.request("GET", "/pool").json["templates"][0]["high"] == 2


@pytest.mark.parametrize("plan", ["", "x", "3:2", "-1", "default=", "=2", "default=1,default=2",
                                  "65", "default=1,,", "1:2:3"])
def test_bad_plans(plan):
    d = Pool(plan)
    with pytest.raises(AssertionError):
        d.start()
    assert d.process.wait(30) == 2
    assert "--pool" in d.log.read_text()
    d.process = None
    d.close()


def test_more_templates():
    d = Pool("default=1,other=2")
    d.template("other", created_at="o", memory_mb=128)
    with d:
        d.await_ready(1)
        d.await_ready(2, "other")
        made = d.create(templateID="other")
        assert d.get(made["sandboxID"]).json["memoryMB"] == 128
        assert d.shelf("other")["handedOut"] == 1 and d.shelf()["handedOut"] == 0


def test_a_template_that_comes_later():
    with Pool("later=1") as d:
        d.template("later", created_at="now")
        d.await_ready(1, "later")


# ---- handing out
def test_what_was_asked_for():
    with Pool("1") as d:
        d.await_ready(1)
        name, = d.pooled()
        before = d.init_of(name)
        made = d.create(envVars={"A": "b"}, metadata={"m": "n"}, timeout=700,
                        network={"allowOut": ["8.8.8.8"], "denyOut": ["0.0.0.0/0"],
                                 "allowPublicTraffic": False, "maskRequestHost": "a:${PORT}"},
                        autoPause=True, autoResume={"enabled": True})
        assert made["sandboxID"] == name
        detail = d.get(name).json
        assert detail["state"] == "running" and detail["metadata"] == {"m": "n"}
        assert detail["lifecycle"] == {"autoResume": True, "onTimeout": "pause"}
        assert detail["network"]["allowOut"] == ["8.8.8.8"]
        assert detail["network"]["maskRequestHost"] == "a:${PORT}"
        assert d.whoami(made) == 200
        assert d.whoami(made, "wrong") == 401
        after = d.init_of(name)
        assert after["accessToken"] == made["envdAccessToken"]
        assert after["envVars"]["A"] == "b" and after["envVars"]["E2B_SANDBOX_ID"] == name
        assert after["hostname"] == name and after["timestamp"] > before["timestamp"]
        assert after["entropy"] != before["entropy"]
        policy = json.loads((d.directory(name) / "policy.json").read_text())
        assert policy["allowOut"] == ["8.8.8.8/32"]
        assert (d.directory(name) / "background").read_text() == "no"
        assert made["trafficAccessToken"]
        wait_for(lambda: d.record(name)["state"] == "running", 30, "its record says that it runs")
        record = d.record(name)
        assert record["token"] == made["envdAccessToken"] and "handout_env" not in record


def test_secure_false():
    with Pool("1") as d:
        d.await_ready(1)
        made = d.create("v1", secure=False)
        assert "envdAccessToken" not in made
        assert d.through(made["sandboxID"], path="/whoami").status == 200
        assert d.shelf()["handedOut"] == 1


def test_requests_right_after_the_answer_wait():
    """Requests of any kind: through the proxy, and to the control plane."""
    with Pool("4") as d:
        d.await_ready(4)
        for ask in [lambda m: d.whoami(m) == 200,
                    lambda m: d.request("POST", f"/sandboxes/{m['sandboxID']}/timeout",
                                        {"timeout": 100}).status == 204,
                    lambda m: d.request("POST", f"/sandboxes/{m['sandboxID']}/pause", {}).status
                    == 204,
                    lambda m: d.request("POST", f"/v2/sandboxes/{m['sandboxID']}/connect",
                                        {}).status in (200, 201),
                    lambda m: d.request("PUT", f"/sandboxes/{m['sandboxID']}/network",
                                        {}).status == 204,
                    lambda m: d.kill(m["sandboxID"]) == 204]:
            made = d.create()
            assert d.get(made["sandboxID"]).json["state"] == "running"
            assert ask(made)


def test_never_twice():
    with Pool("8") as d:
        d.await_ready(8)
        with concurrent.futures.ThreadPoolExecutor(50) as pool:
            made = list(pool.map(lambda _: d.create(), range(50)))
            assert len({m["sandboxID"] for m in made}) == 50
            assert len({m["envdAccessToken"] for m in made}) == 50
            assert set(pool.map(d.whoami, made)) == {200}
        shelf = d.shelf()
        assert shelf["handedOut"] >= 8
        assert shelf["handedOut"] + shelf["claimed"] + shelf["cold"] == 50


@contextlib.contextmanager
def one_taken_while_it_is_made(**fields):
    """A stopped machine of the pool that a create waits for: (daemon, create, sandbox, pid)."""
    d = Pool("1")
    d.template("default", created_at="first", init="stop")
    with d:
        pid, = wait_for(lambda: [p for p in d.machines() if is_stopped(p)], 30, "one is being made")
        d.template("default", created_at="first")
        name, = d.directories()
        asked = Later(lambda: d.create(**fields))
        wait_for(lambda: d.shelf()["claimed"] == 1, 30, "it is taken")
        yield d, asked, name, pid


def test_one_that_is_being_made_is_taken():
    with one_taken_while_it_is_made() as (d, asked, name, pid):
        os.kill(pid, signal.SIGCONT)
        made = asked.join()
        assert made["sandboxID"] == name and d.whoami(made) == 200
        assert d.shelf()["cold"] == 0
        d.await_ready(1)


def is_usable(d, made):
    """Its one machine is another one than the pool's, and has all that was asked for."""
    assert d.whoami(made) == 200
    wait_for(lambda: d.record(made["sandboxID"])["state"] == "running", 30, "its record says that it runs")
    told = d.init_of(made["sandboxID"])
    assert told["accessToken"] == made["envdAccessToken"] and told["envVars"]["A"] == "b"
    assert json.loads((d.directory(made["sandboxID"]) / "policy.json").read_text())["allowOut"] == ["8.8.8.8/32"]
    return d.machine(made["sandboxID"]) in d.machines() and d.log.read_text().count(" pool.replaced ") == 1


ASKED = {"envVars": {"A": "b"}, "network": {"allowOut": ["8.8.8.8"], "denyOut": ["0.0.0.0/0"]}}


def handed_out(d):
    """A sandbox whose machine from the pool waits to go on; the create was answered, and a test kills the machine."""
    d.await_ready(1)
    d.template("default", created_at="first", resume="held")
    (name, record), = d.pooled().items()
    made = d.create(**ASKED)
    assert made["sandboxID"] == name
    return made, record["machine"]["pid"]


def test_one_that_dies_as_it_is_handed_out():
    with Pool("1") as d:
        made, pid = handed_out(d)
        os.kill(pid, signal.SIGKILL)
        assert is_usable(d, made) and d.machine(made["sandboxID"]) != pid


def test_one_that_dies_twice_ends():
    with Pool("1") as d:
        made, pid = handed_out(d)
        d.template("default", created_at="first", resume="held", init="die")
        os.kill(pid, signal.SIGKILL)
        wait_for(lambda: d.get(made["sandboxID"]).status == 404, 30, "it has ended")
        assert d.log.read_text().count(" pool.replaced ") == 1


def test_one_that_is_killed_while_it_gets_another_machine():
    with Pool("1") as d:
        made, pid = handed_out(d)
        d.template("default", created_at="first", resume="held", create="held")
        os.kill(pid, signal.SIGKILL)
        wait_for(lambda: " pool.replaced " in d.log.read_text(), 30, "it is on its way")
        assert d.kill(made["sandboxID"]) == 204
        wait_for(lambda: made["sandboxID"] not in d.directories(), 30, "nothing is left")


def test_one_that_is_taken_and_dies_while_it_is_made():
    with one_taken_while_it_is_made(**ASKED) as (d, asked, name, pid):
        os.kill(pid, signal.SIGKILL)
        made = asked.join()
        assert made["sandboxID"] == name and is_usable(d, made) and d.shelf()["failed"] == 1


def test_one_that_has_no_machine_yet_is_not_waited_for():
    d = Pool("1")
    d.template("default", created_at="first", create="held")
    with d:
        wait_for(lambda: d.shelf()["making"] == 1, 30, "one is being made")
        name, = d.directories()
        asked = Later(d.create)
        wait_for(lambda: len(d.directories()) == 2, 30, "another one is made")
        d.template("default", created_at="first")
        made = asked.join()
        assert made["sandboxID"] != name and d.whoami(made) == 200
        assert d.shelf()["cold"] == 1 and d.shelf()["claimed"] == 0


def test_the_limit_of_sandboxes_is_of_those_that_are_asked_for():
    with Pool("2", env={"CUBBY_MAX_SANDBOXES": "4", "CUBBY_CREATE_WAIT": "0"}) as d:
        d.await_ready(2)
        for _ in range(4):
            d.create()
        assert d.request("POST", "/v2/sandboxes", {"templateID": "default"}).status == 503


# ---- what goes wrong
def test_a_failing_template_is_left_in_peace():
    d = Pool("1")
    d.template("default", created_at="first", create="fail")
    with d:
        wait_for(lambda: d.shelf()["failed"] == 2, 30, "it was tried again")
        shelf = d.shelf()
        assert "would not start" in shelf["error"] and shelf["ready"] == 0
        log = d.log.read_text()
        assert log.count("pool.failed") == 2
        assert "again_ms=1000" in log and "again_ms=2000" in log
        d.template("default", created_at="second")  # a new build: tried at once
        d.await_ready(1)
        assert d.shelf()["error"] is None


@pytest.mark.parametrize("init", ["refuse", "die"])
def test_a_guest_that_fails_leaves_nothing(init):
    d = Pool("1")
    d.template("default", created_at="first", init=init)
    with d:
        wait_for(lambda: d.shelf()["failed"] >= 1, 30, "it failed")
        wait_for(lambda: d.shelf()["making"] or d.directories() == [], 30, "nothing is left")


def test_a_template_built_anew_or_removed():
    with Pool("2") as d:
        d.await_ready(2)
        old = set(d.pooled())
        d.template("default", created_at="second")
        wait_for(lambda: len(d.pooled()) == 2 and not old & set(d.directories()), 60,
                 "those of the old build are gone")
        os.unlink(d.home / "templates" / "default" / "template.json")
        wait_for(lambda: d.directories() == [] and d.machines() == [], 60, "all are gone")


def test_an_old_build_is_not_handed_out():
    with Pool("1") as d:
        d.await_ready(1)
        old, = d.pooled()
        d.template("default", created_at="second")
        assert d.create()["sandboxID"] != old  # asked for before the pool has looked


def test_a_pooled_machine_that_dies():
    with Pool("1") as d:
        d.await_ready(1)
        name, = d.pooled()
        os.kill(d.machine(name), signal.SIGKILL)
        wait_for(lambda: name not in d.directories(), 30, "nothing of it is left")
        d.await_ready(1)
        assert d.get(name).status == 404 and "ended" not in d.get(name).json["message"]


def test_a_failure_after_the_answer_is_told():
    d = Pool("1")
    d.template("default", created_at="first", init="once")
    with d:
        d.await_ready(1)
        d.template("default", created_at="first", init="refuse")  # of the machine in its place
        made = d.create()
        answer = d.through(made["sandboxID"], path="/whoami", token=made["envdAccessToken"])
        assert answer.status == 502
        wait_for(lambda: d.get(made["sandboxID"]).status == 404, 30, "it has ended")
        assert "/init" in d.get(made["sandboxID"]).json["message"]


def test_a_machine_that_dies_in_the_pool_unnoticed():
    """The daemon finds out only after it has handed the machine out."""
    with Pool("1") as d:
        d.await_ready(1)
        name, = d.pooled()
        machine = d.machine(name)
        os.kill(d.process.pid, signal.SIGSTOP)
        os.kill(machine, signal.SIGKILL)
        wait_for(lambda: not process_exists(machine), 30, "it is gone")
        os.kill(d.process.pid, signal.SIGCONT)
        answer = d.request("POST", "/v2/sandboxes", {"templateID": "default"})
        assert answer.status in (201, 500)
        if answer.status == 201 and answer.json["sandboxID"] != name:
            assert d.whoami(answer.json) == 200


def meminfo(path, available_mb, total_mb=16384):
    path.write_text(f"MemTotal: {total_mb * 1024} kB\nMemFree: 1 kB\n"
                    f"MemAvailable: {available_mb * 1024} kB\n")


def test_memory_gets_short(tmp_path):
    info = tmp_path / "meminfo"
    meminfo(info, 12000)
    with Pool("2", env={"CUBBY_TEST_MEMINFO": str(info)}) as d:
        d.await_ready(2)
        meminfo(info, 300)
        wait_for(lambda: d.directories() == [] and d.machines() == [], 60, "they are given up")
        assert d.shelf()["ready"] == 0
        meminfo(info, 12000)
        d.await_ready(2)


# ---- daemons come and go
def test_a_stopped_daemon_ends_them():
    d = Pool("2").start()
    d.await_ready(2)
    machines = d.machines()
    assert len(machines) == 2
    d.close()
    assert not any(process_exists(pid) for pid in machines)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGUSR1])
def test_the_next_daemon_keeps_them(number):
    with Pool("2") as d:
        d.await_ready(2)
        before = {name: r["machine"]["pid"] for name, r in d.pooled().items()}
        d.stop(number)
        d.start()
        assert d.shelf()["ready"] == 2
        assert {name: r["machine"]["pid"] for name, r in d.pooled().items()} == before
        made = d.create()
        assert made["sandboxID"] in before and d.whoami(made) == 200


def test_the_next_daemon_has_no_place_for_them():
    with Pool("2") as d:
        d.await_ready(2)
        d.stop(signal.SIGKILL)
        d.args = ["--pool", "off"]
        d.start()
        wait_for(lambda: d.directories() == [] and d.machines() == [], 30, "they are ended")
        d.stop(signal.SIGTERM)
        d.args = ["--pool", "2"]
        d.start()
        d.await_ready(2)
        d.stop(signal.SIGKILL)
        d.template("default", created_at="second")
        d.args = ["--pool", "1"]
        d.start()
        wait_for(lambda: len(d.directories()) == 1 and d.shelf()["ready"] == 1, 60, "a new one")


def test_a_handed_out_one_is_nobody_elses_after_a_restart():
    with Pool("1") as d:
        d.await_ready(1)
        made = d.create(envVars={"A": "b"})
        d.stop(signal.SIGKILL)  # maybe in the middle of its hand-out
        d.start()
        wait_for(lambda: d.whoami(made) == 200, 60, "it can be used")
        assert d.whoami(made, "wrong") == 401
        assert d.init_of(made["sandboxID"])["envVars"]["A"] == "b"
        other = d.create()
        assert other["sandboxID"] != made["sandboxID"] and d.whoami(other) == 200


def test_the_program_says_what_it_takes():
    import subprocess
    said = subprocess.run([PROGRAM, "--help"], capture_output=True, check=True).stdout
    assert b"--pool" in said
