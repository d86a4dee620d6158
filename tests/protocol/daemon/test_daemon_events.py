# SPDX-License-Identifier: Apache-2.0
"""Lifecycle events and webhooks, as E2B's API has them."""

import base64
import hashlib
import http.client
import http.server
import json
import os
import queue
import signal
import subprocess
import threading
import time

import pytest

from cubbyd import Daemon, wait_for
from cubbyd_fixtures import *  # noqa: F401,F403
from tenants import Tenants

ALL = ["created", "updated", "paused", "resumed", "checkpointed", "killed"]
SECRET = "a secret of the receiver"


class Receiver:
    """A web server that keeps what it gets, and answers each request with the next status."""

    def __init__(self, *statuses):
        self.got = queue.Queue()
        self.statuses = list(statuses)
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.got.put((self.path, dict(self.headers), body))  # first: the answer brings the next one
                self.send_response(receiver.statuses.pop(0) if receiver.statuses else 200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/hook"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def next(self, seconds=30):
        return self.got.get(timeout=seconds)

    def close(self):
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def receiver():
    receiver = Receiver()
    yield receiver
    receiver.close()


def types(*words):
    return ["sandbox.lifecycle." + word for word in words]


def words(events):
    return [event["type"].removeprefix("sandbox.lifecycle.") for event in events]


def events(daemon, sandbox, query=""):
    answer = daemon.request("GET", f"/events/sandboxes/{sandbox}?orderAsc=true{query}")
    assert answer.status == 200, answer.body
    return answer.json


def wish(url, **more):
    return {"name": "mine", "url": url, "events": types(*ALL), "signatureSecret": SECRET} | more


def add(daemon, url, **more):
    answer = daemon.request("POST", "/events/webhooks", wish(url, **more))
    assert answer.status == 201, answer.body
    return answer.json


@pytest.fixture
def hook(daemon, receiver):
    made = add(daemon, receiver.url)
    yield made
    daemon.request("DELETE", f"/events/webhooks/{made['id']}")


def says_and_ends(daemon, status, *args):
    """What a daemon says that does not start."""
    done = subprocess.run([daemon.program, *daemon.args, *args], env=daemon.env, capture_output=True, text=True,
                          stdin=subprocess.DEVNULL, timeout=60)
    assert done.returncode == status, done.stderr
    return done.stderr


# ---- events
def test_a_life_is_told(daemon):
    made = daemon.create(metadata={"user": "7"})
    sandbox = made["sandboxID"]
    for method, path, body in [("POST", "timeout", {"timeout": 99}), ("POST", "pause", None),
                               ("POST", "connect", {"timeout": 60}), ("POST", "snapshots", {}),
                               ("PUT", "network", {"mode": "none"})]:
        answer = daemon.request(method, f"/sandboxes/{sandbox}/{path}", body)
        assert answer.status < 300, (path, answer.body)
        if path == "snapshots":
            snapshot = answer.json["snapshotID"]
    daemon.kill(sandbox)
    told = events(daemon, sandbox)
    assert words(told) == ["created", "updated", "paused", "resumed", "checkpointed", "updated", "killed"]
    assert len({event["id"] for event in told}) == len(told)
    for event in told:
        assert event["version"] == "v2" and event["sandboxId"] == sandbox and event["sandboxTemplateId"] == "default"
        assert event["sandboxTeamId"] == "cubby" and "owner" not in event
        assert event["eventData"]["sandbox_metadata"] == {"user": "7"}
    assert "set_timeout" in told[1]["eventData"] and told[5]["eventData"]["set_network"] is True
    assert told[4]["eventData"]["snapshot_id"] == snapshot
    end = told[-1]["eventData"]["execution"]
    assert end["vcpu_count"] == 2 and end["memory_mb"] == 512 and end["execution_time"] >= 0
    daemon.request("DELETE", f"/templates/{snapshot}")


def test_sleep_is_not_told(daemon):
    """A sandbox that is asleep is a running one to its callers."""
    sandbox = daemon.create(idle={"freeze": 1})["sandboxID"]
    wait_for(lambda: daemon.record(sandbox).get("asleep"), 30, "it sleeps")
    daemon.request("POST", f"/sandboxes/{sandbox}/timeout", {"timeout": 99})
    assert words(events(daemon, sandbox)) == ["created", "updated"]


def test_pages_and_types(daemon):
    ids = [daemon.create()["sandboxID"] for _ in range(3)]
    for sandbox in ids:
        daemon.kill(sandbox)

    def get(query):
        answer = daemon.request("GET", "/events/sandboxes?" + query)
        assert answer.status == 200, answer.body
        return [(event["sandboxId"], event["type"].split(".")[-1]) for event in answer.json]

    killed = [(sandbox, "killed") for sandbox in reversed(ids)]
    assert get("types=sandbox.lifecycle.killed&limit=3") == killed  # the newest first
    assert get("types=sandbox.lifecycle.killed&limit=2&offset=1") == killed[1:]
    both = get("types=sandbox.lifecycle.killed&types=sandbox.lifecycle.created&limit=6")
    assert sorted(both) == sorted([(s, w) for s in ids for w in ("created", "killed")])
    assert get("limit=6") == both
    assert len(get("")) <= 10


@pytest.mark.parametrize("query", ["limit=0", "limit=101", "limit=x", "offset=-1", "offset=10001", "orderAsc=1", "types=created"])
def test_a_wrong_query_is_refused(daemon, query):
    answer = daemon.request("GET", "/events/sandboxes?" + query)
    assert answer.status == 400 and query.split("=")[0] in answer.json["message"]


def test_the_log_outlives_the_daemon_and_bad_lines():
    with Daemon() as daemon:
        sandbox = daemon.create()["sandboxID"]
        daemon.kill(sandbox)
        daemon.stop(signal.SIGKILL)
        with open(daemon.home / "events.jsonl", "a") as log:
            log.write('\n{"half a line')
        daemon.start()
        again = daemon.create()["sandboxID"]
        assert words(events(daemon, sandbox)) == ["created", "killed"]
        assert words(events(daemon, again)) == ["created"]


def test_old_events_go(daemon):
    """The log has a limit: its older file is replaced."""
    log = daemon.home / "events.jsonl"
    sandbox = daemon.create()["sandboxID"]
    line = next(line for line in log.read_text().split("\n") if sandbox in line)
    old = json.loads(line)
    old["timestamp"], old["sandboxId"] = "2020-01-01T00:00:00Z", "iold"
    with Daemon() as other:
        other.stop()
        room = (8 << 20) - 100
        (other.home / "events.jsonl").write_text(("\n" + json.dumps(old)) * (room // (len(json.dumps(old)) + 1)))
        other.start()
        assert events(other, "iold") == []  # older than seven days
        made = other.create()["sandboxID"]
        other.kill(made)
        assert (other.home / "events.1.jsonl").stat().st_size > 8_000_000
        assert (other.home / "events.jsonl").stat().st_size < 10_000
        assert words(events(other, made)) == ["created", "killed"]


def test_one_sandbox_does_not_fill_the_log(daemon, receiver):
    """Large metadata and a repeated change go to the webhooks, but not to the log."""
    made = add(daemon, receiver.url, events=types("created", "updated"))
    metadata = {"a": "x" * 2000}
    sandbox = daemon.create(metadata=metadata)["sandboxID"]
    for _ in range(50):
        assert daemon.request("POST", f"/sandboxes/{sandbox}/timeout", {"timeout": 99}).status == 204
    logged = events(daemon, sandbox, "&limit=100")
    assert logged[0]["type"] == types("created")[0] and set(words(logged[1:])) == {"updated"}
    assert len(logged) < 50, "a change that follows another at once is not logged"
    assert all(event["eventData"]["sandbox_metadata"] == {} for event in logged)
    sent = [json.loads(receiver.next()[2]) for _ in range(51)]
    assert words(sent) == ["created"] + 50 * ["updated"]
    assert all(event["eventData"]["sandbox_metadata"] == metadata for event in sent)
    daemon.request("DELETE", f"/events/webhooks/{made['id']}")
    daemon.kill(sandbox)


def fill_log(daemon, owner):
    """Let a stopped daemon find a full event log of this owner."""
    event = {"version": "v2", "type": "sandbox.lifecycle.created", "owner": owner, "sandboxId": "iold",
             "eventData": {"sandbox_metadata": {"a": "x" * 200}},
             "timestamp": time.strftime("%Y-%m-%dT%H:%M:%S.000000000Z", time.gmtime())}
    line = "\n" + json.dumps(event)
    for name in ("events.1.jsonl", "events.jsonl"):  # as a version wrote it that had one log
        (daemon.home / name).write_text(line * ((8 << 20) // len(line)))


def pair(where):
    return {name: (where / name).stat().st_size for name in ("events.1.jsonl", "events.jsonl") if (where / name).exists()}


def test_one_owner_does_not_push_out_the_others():
    """Each has a log of its own, with a limit."""
    with Tenants() as daemon:
        _, quiet = daemon.ask(1, "POST", "/sandboxes", {"templateID": "default"})
        local = daemon.create()["sandboxID"]
        loud = daemon.home / "events/key-key0"
        _, first = daemon.ask(0, "POST", "/sandboxes", {"templateID": "default"})
        line = "\n" + (loud / "events.jsonl").read_text().strip()
        for name in ("events.1.jsonl", "events.jsonl"):
            (loud / name).write_text(line * ((1 << 20) // len(line)))
        _, second = daemon.ask(0, "POST", "/sandboxes", {"templateID": "default"})
        assert pair(loud)["events.1.jsonl"] <= 1 << 20 and pair(loud)["events.jsonl"] < 10_000
        told = daemon.ask(0, "GET", "/events/sandboxes?limit=2")[1]
        assert [event["sandboxId"] for event in told] == [second["sandboxID"], first["sandboxID"]]
        assert [event["sandboxId"] for event in daemon.ask(1, "GET", "/events/sandboxes")[1]] == [quiet["sandboxID"]]
        for query, expected in [("orderAsc=true&limit=2", [quiet["sandboxID"], local]), ("limit=1", [second["sandboxID"]])]:
            told = daemon.request("GET", "/events/sandboxes?" + query).json  # the unix socket sees all, by their time
            assert [event["sandboxId"] for event in told] == expected


def test_the_log_of_a_key_without_events_is_removed():
    with Tenants() as daemon:
        for key in (0, 1):
            daemon.ask(key, "POST", "/sandboxes", {"templateID": "default"})
        daemon.stop()
        log = daemon.home / "events/key-key0"
        os.utime(log / "events.jsonl", (0, 0))
        daemon.start()
        assert not log.exists() and (daemon.home / "events/key-key1").exists()


@pytest.mark.parametrize("path", ["/events/sandboxes?types=sandbox.lifecycle.killed", "/teams/key0/metrics",
                                  "/teams/key0/metrics/max?metric=concurrent_sandboxes"])
def test_one_key_has_few_readings_at_a_time(path):
    with Tenants() as daemon:
        daemon.stop()
        fill_log(daemon, "key0")
        daemon.start()
        host, port = daemon.url.removeprefix("http://").split(":")
        daemon.process.send_signal(signal.SIGSTOP)  # so that all requests wait for it together
        asked = [http.client.HTTPConnection(host, int(port), timeout=60) for _ in range(12)]
        for connection in asked:
            connection.request("GET", path, headers={"X-API-KEY": daemon.KEYS[0]})
        daemon.process.send_signal(signal.SIGCONT)
        answers = [connection.getresponse() for connection in asked]
        bodies = [json.loads(answer.read()) for answer in answers]
        assert {answer.status for answer in answers} == {200, 429}
        for answer, body in zip(answers, bodies):
            if answer.status == 429:
                assert answer.headers["Retry-After"] == "1" and body["error_code"] == "too_many_readings"
        for key in (0, 1):  # none waits any more
            assert daemon.ask(key, "GET", path.replace("key0", "cubby"))[0] == 200


# ---- webhooks
def test_a_webhook_gets_signed_events(daemon, receiver, hook):
    sandbox = daemon.create()["sandboxID"]
    daemon.kill(sandbox)
    ids = set()
    for word in ("created", "killed"):
        path, headers, body = receiver.next()
        event = json.loads(body)
        assert path == "/hook" and event["type"] == f"sandbox.lifecycle.{word}" and event["sandboxId"] == sandbox
        assert headers["e2b-webhook-id"] == hook["id"] and headers["e2b-signature-version"] == "v1"
        digest = hashlib.sha256(SECRET.encode() + body).digest()
        assert headers["e2b-signature"] == base64.urlsafe_b64encode(digest).decode().rstrip("=")
        assert event in events(daemon, sandbox)
        ids.add(headers["e2b-delivery-id"])
    assert len(ids) == 2


def test_make_list_change_and_delete(daemon, receiver):
    made = add(daemon, receiver.url, events=types("created"))
    path = f"/events/webhooks/{made['id']}"
    assert SECRET not in json.dumps(made) and made["enabled"] and made["events"] == types("created")
    assert daemon.request("GET", path).json == made
    assert daemon.request("GET", "/events/webhooks").json == [made]
    changed = daemon.request("PATCH", path, {"enabled": False, "events": types("killed")}).json
    assert changed == {**made, "enabled": False, "events": types("killed")}
    daemon.kill(daemon.create()["sandboxID"])
    assert daemon.request("PATCH", path, {"enabled": True, "url": receiver.url + "2"}).status == 200
    sandbox = daemon.create()["sandboxID"]
    daemon.kill(sandbox)
    where, _, body = receiver.next()
    assert where == "/hook2" and json.loads(body)["sandboxId"] == sandbox  # nothing came while it was disabled
    assert daemon.request("DELETE", path).status == 200
    for method in ("GET", "PATCH", "DELETE"):
        assert daemon.request(method, path, {} if method == "PATCH" else None).status == 404
    assert daemon.request("GET", "/events/webhooks").json == []


@pytest.mark.parametrize("body, word", [
    ({"name": ""}, "name"), ({"url": "ftp://x"}, "url"), ({"url": "https://" + "x" * 2000}, "url"),
    ({"events": []}, "events"), ({"events": ["created"]}, "events"), ({"events": [1]}, "events"),
    ({"signatureSecret": ""}, "signatureSecret"), ({"secret": "x"}, "secret"), ({"enabled": 1}, "enabled")])
def test_a_wrong_webhook_is_refused(daemon, receiver, hook, body, word):
    for method, path, sent in [("POST", "/events/webhooks", wish(receiver.url) | body),
                               ("PATCH", f"/events/webhooks/{hook['id']}", body)]:
        answer = daemon.request(method, path, sent)
        assert answer.status == 400 and word in answer.json["message"], answer.body
    assert daemon.request("GET", "/events/webhooks").json == [hook]


def test_members_are_required_and_ten_are_the_limit(daemon):
    for name in ("name", "url", "events", "signatureSecret"):
        body = wish("http://127.0.0.1:1/")
        del body[name]
        assert daemon.request("POST", "/events/webhooks", body).status == 400
    made = [add(daemon, "http://127.0.0.1:1/") for _ in range(10)]
    answer = daemon.request("POST", "/events/webhooks", wish("http://127.0.0.1:1/"))
    assert answer.status == 429 and "delete one" in answer.json["message"]
    for one in made:
        daemon.request("DELETE", f"/events/webhooks/{one['id']}")


def test_a_failed_delivery_is_repeated_in_order(daemon):
    receiver = Receiver(500)
    made = add(daemon, receiver.url)
    sandbox = daemon.create()["sandboxID"]
    daemon.kill(sandbox)
    got = [json.loads(receiver.next()[2])["type"].split(".")[-1] for _ in range(3)]
    assert got == ["created", "created", "killed"]
    daemon.request("DELETE", f"/events/webhooks/{made['id']}")
    receiver.close()


def test_webhooks_outlive_the_daemon(receiver):
    with Daemon() as daemon:
        made = add(daemon, receiver.url, events=types("killed"))
        assert (daemon.home / "webhooks.json").stat().st_mode & 0o777 == 0o600
        daemon.stop(signal.SIGKILL)
        daemon.start()
        assert daemon.request("GET", "/events/webhooks").json == [made]
        sandbox = daemon.create()["sandboxID"]
        daemon.kill(sandbox)
        assert json.loads(receiver.next()[2])["sandboxId"] == sandbox
        daemon.stop()
        (daemon.home / "webhooks.json").write_text("{")
        assert "webhooks.json" in says_and_ends(daemon, 1)
        (daemon.home / "webhooks.json").unlink()
        daemon.start()


def test_tenants_see_and_hear_only_their_own(receiver):
    with Tenants("--webhooks-to", "127.0.0.1") as daemon:
        status, hook = daemon.ask(0, "POST", "/events/webhooks", wish(receiver.url))
        assert status == 201 and hook["teamId"] == "key0"
        _, theirs = daemon.ask(1, "POST", "/sandboxes", {"templateID": "default"})
        _, ours = daemon.ask(0, "POST", "/sandboxes", {"templateID": "default"})
        assert json.loads(receiver.next()[2])["sandboxId"] == ours["sandboxID"]
        assert [e["sandboxId"] for e in daemon.ask(0, "GET", "/events/sandboxes")[1]] == [ours["sandboxID"]]
        assert [e["sandboxTeamId"] for e in daemon.ask(1, "GET", "/events/sandboxes")[1]] == ["key1"]
        assert daemon.ask(0, "GET", f"/events/sandboxes/{theirs['sandboxID']}")[1] == []
        assert daemon.ask(1, "GET", "/events/webhooks") == (200, [])
        for method in ("GET", "PATCH", "DELETE"):
            assert daemon.ask(1, method, f"/events/webhooks/{hook['id']}", {})[0] == 404
        assert {e["sandboxId"] for e in daemon.request("GET", "/events/sandboxes").json} == {
            ours["sandboxID"], theirs["sandboxID"]}  # the unix socket sees all


def test_a_tenants_webhook_reaches_no_private_address(receiver):
    with Tenants() as daemon:
        _, hook = daemon.ask(0, "POST", "/events/webhooks", wish(receiver.url))
        daemon.ask(0, "POST", "/sandboxes", {"templateID": "default"})
        wait_for(lambda: "webhook.tried" in daemon.log.read_text(), 30, "the delivery was tried")
        assert receiver.got.empty()
        log = daemon.log.read_text()
        assert hook["id"] in log and "/hook" not in log, "a URL may hold a secret"
        assert daemon.ask(0, "DELETE", f"/events/webhooks/{hook['id']}")[0] == 200


def test_a_wrong_option_is_refused():
    with Daemon() as daemon:
        daemon.stop()
        assert "webhooks-to" in says_and_ends(daemon, 2, "--webhooks-to", "somewhere")
        daemon.start()
