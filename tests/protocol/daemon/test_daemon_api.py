# SPDX-License-Identifier: Apache-2.0
"""cubbyd: the control plane after creation. Show, list, kill, time to live."""

import base64
import datetime
import os
import signal
import time

import pytest

from cubbyd import ENVD, Daemon, Guest, process_exists, read_all, read_head, wait_for


@pytest.fixture
def daemon():
    with Daemon() as d:
        yield d


def parse(text):
    return datetime.datetime.fromisoformat(text[:26].rstrip("Z") + "+00:00")


def left(detail):
    """Seconds from start to end."""
    return (parse(detail["endAt"]) - parse(detail["startedAt"])).total_seconds()


def to_live(detail):
    """Seconds from now to the end."""
    return (parse(detail["endAt"]) - datetime.datetime.now(datetime.timezone.utc)).total_seconds()


def test_health(daemon):
    answer = daemon.request("GET", "/health")
    assert answer.status == 200 and answer.json["status"] == "ok"


@pytest.mark.parametrize("method, path, status", [
    ("GET", "/", 404), ("GET", "/nothing", 404), ("GET", "/sandboxes/", 404),
    ("GET", "/sandboxes/a/b/c", 404), ("PUT", "/sandboxes", 405), ("PATCH", "/health", 405),
    ("GET", "/sandboxes/abc/timeout", 405), ("GET", "/v2/sandboxes/abc/connect", 405),
])
def test_unknown_paths(daemon, method, path, status):
    answer = daemon.request(method, path)
    assert answer.status == status and answer.json["code"] == status


def test_detail(daemon):
    made = daemon.create(metadata={"k": "v"})
    detail = daemon.get(made["sandboxID"]).json
    assert detail["state"] == "running"
    assert (detail["cpuCount"], detail["memoryMB"], detail["diskSizeMB"]) == (2, 512, 2048)
    assert detail["metadata"] == {"k": "v"}
    assert detail["envdAccessToken"] == made["envdAccessToken"]
    assert detail["lifecycle"] == {"autoResume": False, "onTimeout": "kill"}
    assert left(detail) == pytest.approx(300, abs=2)
    assert daemon.get(made["sandboxID"] + "-" + made["clientID"]).json == detail


def test_v1_default_timeout(daemon):
    made = daemon.create("v1")
    assert left(daemon.get(made["sandboxID"]).json) == pytest.approx(15, abs=2)


def test_not_found_and_ended(daemon):
    answer = daemon.get("doesnotexist")
    assert answer.status == 404 and answer.json["code"] == 404
    assert answer.json["error_code"] == "sandbox_not_found"
    assert answer.json["message"] == \
        'Sandbox "doesnotexist" doesn\'t exist or you don\'t have access to it'
    sandbox = daemon.create()["sandboxID"]
    assert daemon.kill(sandbox) == 204
    answer = daemon.get(sandbox)
    assert answer.status == 404 and answer.json["error_code"] == "sandbox_ended"
    assert "killed by a request at 20" in answer.json["message"]


@pytest.mark.parametrize("sandbox", ["A" * 20, "..%2F..%2Fetc", "%C3%A9", "a" * 5000, "a" * 20, "%ff"])
def test_odd_ids(daemon, sandbox):
    answer = daemon.get(sandbox)
    assert answer.status == 404 and answer.json["code"] == 404
    assert daemon.get("%00").status == 400


def test_kill(daemon):
    made = daemon.create()
    sandbox, pid = made["sandboxID"], daemon.machine(made["sandboxID"])
    assert daemon.kill(sandbox) == 204
    assert not process_exists(pid) and daemon.directories() == []
    assert daemon.kill(sandbox) == 404
    assert daemon.request("GET", "/v2/sandboxes").json == []


# ---- time to live
def test_expiry(daemon):
    sandbox = daemon.create(timeout=8)["sandboxID"]
    pid = daemon.machine(sandbox)
    wait_for(lambda: daemon.get(sandbox).status == 404, 30, "it expires")
    answer = daemon.get(sandbox).json
    assert answer["error_code"] == "sandbox_ended" and "time to live" in answer["message"]
    assert "created for 8 s" in answer["message"]
    wait_for(lambda: not process_exists(pid) and daemon.directories() == [], 30, "it is gone")


def test_earliest_of_many_expires_first(daemon):
    late, early = daemon.create(timeout=60)["sandboxID"], daemon.create(timeout=1)["sandboxID"]
    wait_for(lambda: daemon.get(early).status == 404, 30, "the earlier one expires")
    assert daemon.get(late).status == 200


def test_timeout(daemon):
    sandbox = daemon.create(timeout=300)["sandboxID"]
    answer = daemon.request("POST", f"/sandboxes/{sandbox}/timeout", {"timeout": 1000})
    assert answer.status == 204 and answer.body == b""
    assert to_live(daemon.get(sandbox).json) == pytest.approx(1000, abs=15)
    assert daemon.request("POST", f"/sandboxes/{sandbox}/timeout", {"timeout": 20}).status == 204
    assert to_live(daemon.get(sandbox).json) == pytest.approx(20, abs=15)
    for bad in ({}, {"timeout": None}, {"timeout": "1"}, {"timeout": 10**9}, [], {"timeout": 1.5}):
        answer = daemon.request("POST", f"/sandboxes/{sandbox}/timeout", bad)
        assert answer.status == 400 and answer.json["code"] == 400
    assert daemon.request("POST", f"/sandboxes/{sandbox}/timeout", {"timeout": 1}).status == 204
    wait_for(lambda: daemon.get(sandbox).status == 404, 30, "it expires")
    assert daemon.request("POST", f"/sandboxes/{sandbox}/timeout", {"timeout": 9}).status == 404


@pytest.mark.parametrize("seconds", [0, -1])
def test_timeout_at_once(daemon, seconds):
    sandbox = daemon.create(sliding=True)["sandboxID"]
    assert daemon.request("POST", f"/sandboxes/{sandbox}/timeout", {"timeout": seconds}).status == 204
    wait_for(lambda: daemon.get(sandbox).status == 404, 30, "it expires")


def test_refreshes_never_shorten(daemon):
    sandbox = daemon.create(timeout=300)["sandboxID"]
    before = daemon.get(sandbox).json["endAt"]
    assert daemon.request("POST", f"/sandboxes/{sandbox}/refreshes", {"duration": 5}).status == 204
    assert daemon.get(sandbox).json["endAt"] == before
    assert daemon.request("POST", f"/sandboxes/{sandbox}/refreshes", {"duration": 900}).status == 204
    assert to_live(daemon.get(sandbox).json) == pytest.approx(900, abs=15)
    assert daemon.request("POST", f"/sandboxes/{sandbox}/refreshes").status == 204
    assert daemon.request("POST", f"/sandboxes/{sandbox}/refreshes", {"duration": 3601}).status == 400


def test_connect(daemon):
    made = daemon.create(timeout=300)
    sandbox = made["sandboxID"]
    before = daemon.get(sandbox).json["endAt"]
    answer = daemon.request("POST", f"/sandboxes/{sandbox}/connect", {"timeout": 30})
    assert answer.status == 200 and answer.json["envdAccessToken"] == made["envdAccessToken"]
    assert daemon.get(sandbox).json["endAt"] == before
    assert daemon.request("POST", f"/v2/sandboxes/{sandbox}/connect").status == 200
    assert daemon.request("POST", f"/v2/sandboxes/{sandbox}/connect", {"timeout": 700}).status == 200
    assert to_live(daemon.get(sandbox).json) == pytest.approx(700, abs=15)
    assert daemon.request("POST", f"/sandboxes/{sandbox}/connect", {}).status == 400
    assert daemon.request("POST", "/v2/sandboxes/nothere/connect", {}).status == 404


def test_fixed_end_is_not_moved_by_requests(daemon):
    made = daemon.create(timeout=300)
    before = daemon.get(made["sandboxID"]).json["endAt"]
    assert daemon.through(made["sandboxID"]).status == 204
    assert daemon.get(made["sandboxID"]).json["endAt"] == before


def test_sliding_end_moves_with_requests(daemon):
    made = daemon.create(timeout=12, sliding=True)
    sandbox = made["sandboxID"]
    wait_for(lambda: to_live(daemon.get(sandbox).json) < 9, 30, "a quarter of its time has passed")
    before = daemon.get(sandbox).json["endAt"]
    assert daemon.through(sandbox, path="/whoami", token=made["envdAccessToken"]).status == 200
    assert daemon.get(sandbox).json["endAt"] > before
    wait_for(lambda: daemon.get(sandbox).status == 404, 30, "left alone, it expires")


def test_sliding_end_moves_while_a_stream_is_open(daemon):
    release = []

    def serve(connection):
        read_head(connection)
        connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n")
        wait_for(lambda: release, 60, "the test lets go")
        connection.sendall(b"0\r\n\r\n")

    with Guest(serve) as guest:
        sandbox = daemon.create(timeout=8, sliding=True)["sandboxID"]
        s = daemon.open(sandbox, guest.port)
        read_head(s)
        deadline = time.monotonic() + 9.5  # longer than its time to live
        while time.monotonic() < deadline:
            assert daemon.get(sandbox).status == 200
            time.sleep(0.05)
        release.append(True)
        s.close()
        wait_for(lambda: daemon.get(sandbox).status == 404, 30, "left alone, it expires")


def open_watch(daemon, sandbox):
    s = daemon.open(sandbox, ENVD, "POST /filesystem.Filesystem/WatchDir HTTP/1.1",
                    f"X-Access-Token: {daemon.get(sandbox).json['envdAccessToken']}\r\n"
                    "Content-Length: 0\r\n")
    assert "200 OK" in read_head(s)[0]
    return s


def test_sliding_end_is_not_moved_by_an_open_watch(daemon):
    """An open watch is not use. Opening it counts once, as any request does."""
    sandbox = daemon.create(timeout=12, sliding=True)["sandboxID"]
    wait_for(lambda: to_live(daemon.get(sandbox).json) < 9, 30, "a quarter of its time has passed")
    before = daemon.get(sandbox).json["endAt"]
    s = open_watch(daemon, sandbox)
    assert daemon.get(sandbox).json["endAt"] > before
    wait_for(lambda: daemon.get(sandbox).status == 404, 30, "with the watch open, it expires")
    read_all(s)  # until it is cut
    s.close()


def test_sliding_end_is_not_moved_by_the_end_of_a_watch(daemon):
    sandbox = daemon.create(timeout=300, sliding=True)["sandboxID"]
    s = open_watch(daemon, sandbox)
    before, fds = daemon.get(sandbox).json["endAt"], daemon.fds()
    s.close()
    wait_for(lambda: daemon.fds() < fds, 30, "the daemon has noticed")
    assert daemon.get(sandbox).json["endAt"] == before


# ---- not there yet
@pytest.mark.parametrize("path", ["/templates", "/v2/templates"])
def test_builds_of_former_versions_of_e2b(daemon, path):
    """They were made of a Dockerfile's text; the answer says what to use."""
    answer = daemon.request("POST", path, {"dockerfile": "FROM debian"})
    assert (answer.status, answer.json["error_code"]) == (501, "not_implemented")
    assert "use POST /v3/templates" in answer.json["message"]


@pytest.mark.parametrize("method, path, instead", [
    ("PATCH", "/api-keys/id", "another key"),
    ("DELETE", "/access-tokens/id", "cubby key new"), ("GET", "/nodes", "/health"),
    ("POST", "/nodes/id", "/health"), ("POST", "/admin/teams/id/sandboxes/kill", "cubby"),
])
def test_unavailable(daemon, method, path, instead):
    """The error names what is missing, and what to do; a 404 would mean "no such secret"."""
    answer = daemon.request(method, path, {})
    assert (answer.status, answer.json["code"], answer.json["error_code"]) == (501, 501, "not_implemented")
    assert f"{method} {path}: " in answer.json["message"] and "not available in Cubby" in answer.json["message"]
    assert instead in answer.json["message"]


def test_what_is_no_part_of_the_api_is_not_found(daemon):
    for path in ("/volume", "/volumesx", "/nothing"):
        assert daemon.request("GET", path).status == 404


@pytest.mark.parametrize("operation", ["timeout", "connect", "resume", "fork"])
def test_a_life_that_is_too_long_for_an_unknown_sandbox(daemon, operation):
    answer = daemon.request("POST", f"/sandboxes/{'x' * 20}/{operation}", {"timeout": 3 * 86400})
    assert answer.status == 400 and "24 hours" in answer.json["message"]
    assert daemon.request("POST", f"/sandboxes/{'x' * 20}/{operation}", {"timeout": 10}).status == 404


# ---- lists
def test_list(daemon):
    ids = [daemon.create(metadata={"n": str(n)})["sandboxID"] for n in range(3)]
    answer = daemon.request("GET", "/v2/sandboxes?state=running,paused")
    assert [s["sandboxID"] for s in answer.json] == ids[::-1]
    assert answer.headers["X-Total-Running"] == "3" and "X-Next-Token" not in answer.headers
    ascending = daemon.request("GET", "/v2/sandboxes?order=asc").json
    assert [s["sandboxID"] for s in ascending] == ids
    assert daemon.request("GET", "/v2/sandboxes?state=paused").json == []
    assert len(daemon.request("GET", "/sandboxes").json) == 3
    item = ascending[0]
    assert item["metadata"] == {"n": "0"} and item["state"] == "running"
    assert "envdAccessToken" not in item


@pytest.mark.parametrize("order", ["asc", "desc"])
def test_pages(daemon, order):
    ids = {daemon.create()["sandboxID"] for _ in range(5)}
    seen, token = [], ""
    for _ in range(3):
        answer = daemon.request("GET", f"/v2/sandboxes?order={order}&limit=2&nextToken={token}")
        seen += [s["sandboxID"] for s in answer.json]
        token = answer.headers.get("X-Next-Token")
    assert len(seen) == 5 and set(seen) == ids and token is None


@pytest.mark.parametrize("chars", [1, 20, 31, 32, 47, 48, 64, 4000])
def test_a_page_begins_after_an_id_of_any_length(daemon, chars):
    """A token with an id that is longer than every id is refused, and does no harm."""
    token = base64.urlsafe_b64encode(b"1__" + b"a" * chars).decode().rstrip("=")
    answer = daemon.request("GET", f"/v2/sandboxes?nextToken={token}")
    assert answer.status == (200 if chars <= 47 else 400)
    assert daemon.request("GET", "/health").status == 200


def test_metadata_filter(daemon):
    wanted = daemon.create(metadata={"a b": "c&d", "more": "x"})["sandboxID"]
    daemon.create(metadata={"a b": "other"})
    answer = daemon.request("GET", "/v2/sandboxes?metadata=a%252520b%3Dc%252526d")
    assert [s["sandboxID"] for s in answer.json] == [wanted]
    answer = daemon.request("GET", "/v2/sandboxes?metadata=a%252520b%3Dc%252526d%26more%3Dx")
    assert [s["sandboxID"] for s in answer.json] == [wanted]
    assert daemon.request("GET", "/v2/sandboxes?metadata=more%3Dy").json == []
    answer = daemon.request("GET", "/sandboxes?metadata=more%3Dx")
    assert [s["sandboxID"] for s in answer.json] == [wanted]


@pytest.mark.parametrize("query", ["metadata=foo", "metadata=a%3Db%3Dc", "order=up", "limit=0",
                                   "limit=101", "limit=x", "state=dead", "nextToken=%21",
                                   "nextToken=YWJj", "nextToken=%00%ff", "startedAfter=yesterday",
                                   "metadata=%00"])
def test_bad_queries(daemon, query):
    answer = daemon.request("GET", "/v2/sandboxes?" + query)
    assert answer.status == 400 and answer.json["code"] == 400


def test_started_after_and_template(daemon):
    daemon.template("other")
    first = daemon.create()
    second = daemon.create(templateID="other")
    after = daemon.get(first["sandboxID"]).json["startedAt"]
    answer = daemon.request("GET", f"/v2/sandboxes?startedAfter={after}")
    assert [s["sandboxID"] for s in answer.json] == [second["sandboxID"], first["sandboxID"]], "with that instant"
    after = daemon.get(second["sandboxID"]).json["startedAt"]
    answer = daemon.request("GET", f"/v2/sandboxes?startedAfter={after}")
    assert [s["sandboxID"] for s in answer.json] == [second["sandboxID"]]
    answer = daemon.request("GET", "/v2/sandboxes?template=default")
    assert [s["sandboxID"] for s in answer.json] == [first["sandboxID"]]


def test_templates(daemon):
    daemon.template("other", memory_mb=1024)
    listed = daemon.request("GET", "/templates").json
    assert [(t["templateID"], t["memoryMB"]) for t in listed] == [("default", 512), ("other", 1024)]
    assert daemon.request("GET", "/templates/aliases/base").json["templateID"] == "default"
    assert daemon.request("GET", "/templates/aliases/nope").status == 404


# ---- a machine that ends by itself
def test_machine_dies(daemon):
    sandbox = daemon.create()["sandboxID"]
    os.kill(daemon.machine(sandbox), signal.SIGKILL)
    wait_for(lambda: daemon.get(sandbox).status == 404, 30, "the daemon notices")
    answer = daemon.get(sandbox).json
    assert answer["error_code"] == "sandbox_ended"
    assert "its machine ended unexpectedly at 20" in answer["message"] and "signal 9" in answer["message"]
    wait_for(lambda: daemon.directories() == [], 30, "it is removed")
    proxied = daemon.through(sandbox)
    assert proxied.status == 502 and proxied.json["reason"] == "died"


def test_what_the_machine_said_last_is_in_the_log(daemon):
    sandbox = daemon.create()["sandboxID"]
    lines = [f"line {n}" for n in range(30)] + ["panic: \x1b[31mred\x00"]
    (daemon.directory(sandbox) / "console.log").write_text("\n".join(lines) + "\n")
    os.kill(daemon.machine(sandbox), signal.SIGKILL)
    wait_for(lambda: daemon.get(sandbox).status == 404, 30, "the daemon notices")
    text = daemon.log.read_text()
    assert "line 29" in text and "line 22" in text and "line 3\n" not in text
    assert "panic: " in text and "\x1b" not in text
