# SPDX-License-Identifier: Apache-2.0
"""cubbyd makes sandboxes: fields that it honours, requests that it refuses, limits, failures on the
way, and machines that are made again.
"""

import json
import os
import re
import socket
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from cubbyd import Daemon, small_disk, wait_for


@pytest.fixture
def daemon():
    with Daemon() as d:
        yield d


def init_of(daemon, sandbox):
    return json.loads((daemon.directory(sandbox) / "init.json").read_text())


def test_v2_answer(daemon):
    answer = daemon.request("POST", "/v2/sandboxes", iter([b'{"templateID":"default"}']))
    assert answer.status == 201
    made = answer.json
    assert re.fullmatch("[a-z0-9]{20}", made["sandboxID"])
    assert made["templateID"] == "default" and made["clientID"]
    assert re.fullmatch(r"\d+\.\d+\.\d+", made["envdVersion"])
    assert re.fullmatch("[0-9a-f]{64}", made["envdAccessToken"])
    assert made["domain"] is None and made["trafficAccessToken"] is None
    assert made["isolation"] == "none (test)"


def test_v1_secure_and_not(daemon):
    secured = daemon.create("v1", timeout=60, secure=True)
    assert secured["envdAccessToken"]
    assert daemon.through(secured["sandboxID"], path="/whoami").status == 401
    assert daemon.through(secured["sandboxID"], path="/whoami",
                          token=secured["envdAccessToken"]).body == b"envd"
    default = daemon.create("v1", timeout=60)
    assert default["envdAccessToken"]
    open_one = daemon.create("v1", timeout=60, secure=False)
    assert "envdAccessToken" not in open_one
    assert daemon.through(open_one["sandboxID"], path="/whoami").body == b"envd"


def test_two_sandboxes_share_nothing(daemon):
    a, b = daemon.create(), daemon.create()
    assert a["sandboxID"] != b["sandboxID"]
    assert a["envdAccessToken"] != b["envdAccessToken"]
    first, second = init_of(daemon, a["sandboxID"]), init_of(daemon, b["sandboxID"])
    assert first["entropy"] != second["entropy"]


def test_what_envd_is_told(daemon):
    made = daemon.create(envVars={"A": "b", "E2B_SANDBOX_ID": "forged"})
    told = init_of(daemon, made["sandboxID"])
    assert told["envVars"] == {"A": "b", "E2B_SANDBOX": "true", "E2B_SANDBOX_ID": made["sandboxID"],
                               "E2B_TEMPLATE_ID": "default"}
    assert told["accessToken"] == made["envdAccessToken"]
    assert told["defaultUser"] == "user"
    assert told["hostname"] == made["sandboxID"]
    assert len(told["entropy"]) >= 64
    assert re.match(r"\d{4}-\d\d-\d\dT.*Z", told["timestamp"])


def test_base_is_default_unless_there_is_one(daemon):
    assert daemon.create(templateID="base")["templateID"] == "default"
    assert daemon.create(templateID="default:latest")["templateID"] == "default"
    daemon.template("base")
    assert daemon.create(templateID="base")["templateID"] == "base"


@pytest.mark.parametrize("template", ["nope", "../default", ".", "..", "a/b", "default:old", "x" * 300])
def test_unknown_template(daemon, template):
    answer = daemon.request("POST", "/v2/sandboxes", {"templateID": template})
    assert answer.status == 404 and answer.json["code"] == 404
    assert answer.json["error_code"] == "template_not_found"
    assert template[:50] in answer.json["message"]


def test_the_order_of_appearance(daemon):
    """startedAt orders sandboxes by the time from which callers could see them; of two with one
    name it decides which is kept."""
    daemon.template("slow", create="held")
    with ThreadPoolExecutor() as pool:
        slow = pool.submit(daemon.create, templateID="slow")
        wait_for(daemon.directories, 30, "the first is begun")
        quick = daemon.create()["sandboxID"]
        daemon.template("slow")
    first, second = [daemon.get(s).json["startedAt"] for s in (quick, slow.result()["sandboxID"])]
    assert first < second


@pytest.mark.parametrize("body, message", [
    ({}, "templateID is required"),
    ({"templateID": ""}, "templateID is required"),
    ({"templateID": 7}, "templateID must be a string"),
    ({"templateID": "default", "timeout": 0}, "Timeout must be greater than 0"),
    ({"templateID": "default", "timeout": -5}, "Timeout must be greater than 0"),
    ({"templateID": "default", "timeout": 86401}, "Timeout cannot be greater than 24 hours"),
    ({"templateID": "default", "timeout": "60"}, "timeout must be an integer"),
    ({"templateID": "default", "metadata": {"a": 1}}, "metadata"),
    ({"templateID": "default", "metadata": {"a": "x" * 70000}}, "metadata has"),
    ({"templateID": "default", "envVars": {"A=B": "x"}}, "is not a valid variable name"),
    ({"templateID": "default", "envVars": {"": "x"}}, "is not a valid variable name"),
    ({"templateID": "default", "envVars": []}, "envVars"),
    ({"templateID": "default", "autoPause": 1}, "autoPause must be"),
    ({"templateID": "default", "autoPauseMemory": 1}, "autoPauseMemory must be"),
    ({"templateID": "default", "autoResume": True}, "autoResume must be an object"),
    ({"templateID": "default", "autoResume": {"enabled": "yes"}}, "enabled must be"),
    ({"templateID": "default", "volumeMounts": [{"name": "a", "path": "/a"}]}, "volumeMounts"),
    ({"templateID": "default", "mcp": ["time"]}, "mcp must be an object"),
    ({"templateID": "default", "mcp": "time"}, "mcp must be an object"),
    ({"templateID": "default", "iam": {"tokens": {"a": {}}}}, "iam is not available here"),
    ({"templateID": "default", "iam": {}}, "iam is not available here"),
    ({"templateID": "default", "iam": {"x": 1}}, "iam is not available here"),
    ({"templateID": "default", "iam": {"tokens": {}, "x": 1}}, "iam is not available here"),
    ({"templateID": "default", "network": {"allowOut": ["example.com"]}}, "0.0.0.0/0"),
    ({"templateID": "default", "network": {"denyOut": ["example.com"]}}, "denyOut"),
    ({"templateID": "default", "network": {"denyOut": ["1.2.3.4/33"]}}, "denyOut"),
    ({"templateID": "default", "network": {"allowOut": ["10.0.0.1"]}}, "10.0.0.1"),
    ({"templateID": "default", "network": {"allowOut": "1.1.1.1"}}, "allowOut"),
    ({"templateID": "default", "network": {"allowPublicTraffic": 0}}, "allowPublicTraffic must be"),
    ({"templateID": "default", "network": {"rules": {"a": 1}}}, "network.rules"),
    ({"templateID": "default", "network": {"httpsPorts": [8443]}}, "network.httpsPorts"),
    ({"templateID": "default", "network": {"maskRequestHost": "a b"}}, "network.maskRequestHost"),
    ({"templateID": "default", "network": {"allow_out": []}}, "network.allowOut"),
    ({"templateID": "default", "network": []}, "network must be an object"),
    ({"templateID": "default", "denyOut": ["0.0.0.0/0"]}, "network.denyOut"),
    ({"templateID": "default", "network": {"allow_internet_access": False}}, "beside network"),
    ({"template_id": "default"}, "did you mean templateID?"),
    ({"templateId": "default"}, "did you mean templateID?"),
    ({"templateID": "default", "env_vars": {}}, "did you mean envVars?"),
    ({"templateID": "default", "allowInternetAccess": False}, "did you mean allow_internet_access?"),
    ({"templateID": "default", "network": 5}, "network must be an object"),
    ({"templateID": "default", "secure": False}, "secure: false"),
    ([], "must be a JSON object"),
])
def test_refused(daemon, body, message):
    answer = daemon.request("POST", "/v2/sandboxes", body)
    if message is None:
        assert answer.status == 201
        return
    assert answer.status == 400 and answer.json["code"] == 400
    assert message in answer.json["message"]
    assert daemon.directories() == []


@pytest.mark.parametrize("raw", [b"", b"{", b"nonsense", b'{"templateID":"default"}x',
                                 b'{"templateID":"default","templateID":"default"}', b"\xff\xfe"])
def test_not_json(daemon, raw):
    answer = daemon.request("POST", "/v2/sandboxes", raw)
    assert answer.status == 400 and answer.json["code"] == 400


def test_too_large_a_body(daemon):
    before = daemon.fds()
    answer = daemon.request("POST", "/v2/sandboxes", b"x" * (5 << 20))
    assert answer.status == 413 and answer.json["code"] == 413
    wait_for(lambda: daemon.fds() <= before, 30, "the connection is closed")


def test_harmless_defaults_are_taken(daemon):
    made = daemon.create("v1", timeout=300, secure=True, allow_internet_access=True,
                         autoPause=False, autoPauseMemory=True, autoResume={"enabled": False},
                         metadata={}, envVars={}, mcp=None, volumeMounts=[], iam={"tokens": {}},
                         network={"allowOut": [], "denyOut": [], "allowPublicTraffic": True})
    assert daemon.get(made["sandboxID"]).json["allowInternetAccess"] is True


def test_mcp_is_kept_nowhere(daemon):
    """The SDK starts the servers. Its body has their keys too."""
    key = "key-of-a-server-3f0c"
    made = daemon.create(mcp={"brave": {"apiKey": key}, "filesystem": {"paths": ["/home/user"]}})
    assert key not in json.dumps([made, daemon.get(made["sandboxID"]).json])
    files = [path.read_bytes() for path in daemon.home.rglob("*") if path.is_file()]
    assert files and not any(key.encode() in data for data in files)


@pytest.mark.parametrize("fields", [{"allow_internet_access": False},
                                    {"network": {"denyOut": ["0.0.0.0/0"]}}])
def test_no_internet(daemon, fields):
    made = daemon.create(**fields)
    detail = daemon.get(made["sandboxID"]).json
    assert detail["allowInternetAccess"] is False
    assert detail["network"]["denyOut"] == ["0.0.0.0/0"]
    assert daemon.record(made["sandboxID"])["policy"]["internet"] is ("network" in fields)


def test_token_is_kept_private(daemon):
    made = daemon.create()
    path = daemon.directory(made["sandboxID"]) / "sandbox.json"
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert (daemon.home / "cubbyd.sock").stat().st_mode & 0o777 == 0o600
    assert made["envdAccessToken"] not in daemon.log.read_text()


def test_concurrent_creates(daemon):
    made = []
    threads = [threading.Thread(target=lambda: made.append(daemon.create())) for _ in range(20)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len({m["sandboxID"] for m in made}) == 20
    assert len(daemon.machines()) == 20
    for m in made:
        assert daemon.through(m["sandboxID"], path="/whoami", token=m["envdAccessToken"]).status == 200


# ---- limits
def test_sandbox_limit():
    with Daemon("--max-sandboxes", "2", "--create-wait", "0") as daemon:
        first = daemon.create()
        daemon.create()
        answer = daemon.request("POST", "/v2/sandboxes", {"templateID": "default"})
        assert answer.status == 503 and answer.json["error_code"] == "host_full"
        assert "limit of 2 sandboxes" in answer.json["message"]
        assert "--max-sandboxes" in answer.json["message"]
        assert int(answer.headers["Retry-After"]) > 0
        assert daemon.kill(first["sandboxID"]) == 204
        daemon.create()


def test_memory_limit():
    with Daemon(env={"CUBBY_MAX_MEMORY": "1200M", "CUBBY_CREATE_WAIT": "0"}) as daemon:
        daemon.create()
        daemon.create()
        answer = daemon.request("POST", "/v2/sandboxes", {"templateID": "default"})
        assert answer.status == 503
        for word in ("1200 MB", "1024 MB", "512 MB", "--max-memory"):
            assert word in answer.json["message"]
        health = daemon.request("GET", "/health").json
        assert health["sandboxes"] == 2 and health["memoryMB"] == 1024


# ---- failures: whatever happens, nothing is left, and the answer says what it was
@pytest.mark.parametrize("facts, status, words", [
    ({"create": "fail"}, 500, ["start the machine", "would not start"]),
    ({"init": "refuse"}, 500, ["/init with HTTP status 400", "refuses /init"]),
    ({"init": "die"}, 500, ["could not be created"]),
])
def test_failed_creation(daemon, facts, status, words):
    daemon.template("odd", **facts)
    before = daemon.fds()
    answer = daemon.request("POST", "/v2/sandboxes", {"templateID": "odd"})
    assert answer.status == status and answer.json["code"] == status
    for word in words:
        assert word in answer.json["message"]
    assert daemon.directories() == [] and daemon.machines() == []
    assert daemon.request("GET", "/v2/sandboxes").json == []
    wait_for(lambda: daemon.fds() <= before, 30, "no descriptor is left")


def test_client_leaves_during_creation(daemon):
    daemon.template("silent", init="silent")
    body = b'{"templateID":"silent"}'
    s = socket.socket(socket.AF_UNIX)
    s.connect(str(daemon.home / "cubbyd.sock"))
    s.sendall(b"POST /v2/sandboxes HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s"
              % (len(body), body))
    wait_for(daemon.machines, 30, "the machine runs")
    s.close()
    wait_for(lambda: not daemon.machines() and not daemon.directories(), 30, "it is taken apart")


def test_client_leaves_while_the_machine_starts(daemon):
    daemon.template("held", create="held")
    body = b'{"templateID":"held"}'
    s = socket.socket(socket.AF_UNIX)
    s.connect(str(daemon.home / "cubbyd.sock"))
    s.sendall(b"POST /v2/sandboxes HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s"
              % (len(body), body))
    wait_for(daemon.machines, 30, "the machine starts")
    s.close()
    wait_for(lambda: not daemon.machines() and not daemon.directories(), 30, "it is taken apart")


def test_stopped_during_creation():
    daemon = Daemon()
    daemon.template("silent", init="silent")
    with daemon:
        answers = []
        threading.Thread(target=lambda: answers.append(
            pytest.raises(Exception, daemon.create, templateID="silent")), daemon=True).start()
        wait_for(daemon.machines, 30, "the machine runs")
        assert daemon.stop() == 0
        assert daemon.machines() == [] and daemon.directories() == []


def test_machine_killed_during_creation(daemon):
    daemon.template("silent", init="silent")
    answers = []
    thread = threading.Thread(target=lambda: answers.append(
        daemon.request("POST", "/v2/sandboxes", {"templateID": "silent"})))
    thread.start()
    pid = wait_for(daemon.machines, 30, "the machine runs")[0]
    os.kill(pid, 9)
    thread.join()
    assert answers[0].status == 500
    assert daemon.directories() == []


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a file system")
def test_disk_full():
    daemon = Daemon()
    with small_disk(daemon.home, "64k") as fill, daemon:
        filler = fill()
        answer = daemon.request("POST", "/v2/sandboxes", {"templateID": "default"})
        assert answer.status == 507 and answer.json["code"] == 507
        assert "No space left" in answer.json["message"]
        assert daemon.machines() == [] and daemon.directories() == [".filler"]
        filler.unlink()
        made = daemon.create()
        assert daemon.kill(made["sandboxID"]) == 204


# ---- a machine that is made of a spare, and ends before its guest has answered, is made again
def post(daemon, made, what, body=None):
    return daemon.request("POST", f"/sandboxes/{made['sandboxID']}/{what}", body or {})


def whoami(daemon, made):
    return daemon.through(made["sandboxID"], path="/whoami", token=made["envdAccessToken"]).status


def put(daemon, made, text):
    answer = daemon.through(made["sandboxID"], "PUT", "/disk/note", text, token=made["envdAccessToken"])
    assert answer.status == 204, answer.body


def note(daemon, made):
    return daemon.through(made["sandboxID"], path="/disk/note", token=made["envdAccessToken"]).body


def again(daemon):
    return daemon.log.read_text().count(" sandbox.again ")


@pytest.fixture
def spares_end(daemon):
    """From now on spares end as they are taken: a function that tells how often that has happened."""
    def begin(**more):
        daemon.template("default", **more)
        return lambda: again(daemon) - before
    before = again(daemon)
    yield begin
    daemon.template("default")
    for name in daemon.directories():
        daemon.kill(name)


def test_a_spare_that_ends_as_it_is_taken(daemon, spares_end):
    before = daemon.machines()
    times = spares_end(create="spare")
    made = daemon.create(envVars={"A": "b"})
    assert whoami(daemon, made) == 200 and times() == 1
    assert len(daemon.machines()) == len(before) + 1
    assert not [name for name in daemon.directory(made["sandboxID"]).iterdir() if name.name.startswith("image")]


def test_it_is_made_again_once(daemon, spares_end):
    machines, directories = daemon.machines(), daemon.directories()
    times = spares_end(create="spare", init="die")
    answer = daemon.request("POST", "/v2/sandboxes", {"templateID": "default"})
    assert answer.status // 100 == 5 and "envd" in answer.json["message"]
    assert times() == 1 and daemon.machines() == machines and daemon.directories() == directories


def test_a_failure_without_a_spare_is_one(daemon, spares_end):
    times = spares_end(init="die")
    assert daemon.request("POST", "/v2/sandboxes", {"templateID": "default"}).status // 100 == 5
    assert times() == 0


@pytest.mark.parametrize("depth", ["hibernate", "freeze"])
def test_a_wake(daemon, spares_end, depth):
    """A frozen machine is not made again."""
    made = daemon.create()
    put(daemon, made, b"kept")
    assert post(daemon, made, "pause", {"depth": depth}).status == 204
    times = spares_end(restore="spare")
    assert post(daemon, made, "connect", {"timeout": 300}).status in (200, 201)
    assert note(daemon, made) == b"kept" and times() == (depth == "hibernate")


def test_a_rollback_and_a_create_from_a_snapshot(daemon, spares_end):
    made = daemon.create()
    put(daemon, made, b"before")
    snapshot = post(daemon, made, "snapshots").json["snapshotID"]
    put(daemon, made, b"after")
    times = spares_end(restore="spare")
    assert post(daemon, made, "rollback", {"snapshotID": snapshot}).status == 200
    assert note(daemon, made) == b"before" and times() == 1
    assert note(daemon, daemon.create(templateID=snapshot)) == b"before" and times() == 2


def test_a_rollback_that_fails_twice_changes_nothing(daemon, spares_end):
    made = daemon.create()
    snapshot = post(daemon, made, "snapshots").json["snapshotID"]
    put(daemon, made, b"after")
    times = spares_end(restore="spare", init="die")
    assert post(daemon, made, "rollback", {"snapshotID": snapshot}).status // 100 == 5
    assert times() == 1 and note(daemon, made) == b"after"


def test_a_fork(daemon, spares_end):
    made = daemon.create()
    put(daemon, made, b"kept")
    times = spares_end(restore="spare")
    children = [{**made, **one["sandbox"]} for one in post(daemon, made, "fork", {"count": 2}).json]
    assert len(children) == 2 and times() == 2
    assert [note(daemon, child) for child in children] == [b"kept", b"kept"]
