# SPDX-License-Identifier: Apache-2.0
"""API keys that are made and deleted by requests, as E2B's API has them."""

import json
import subprocess
import urllib.error
import urllib.request

import pytest

from cubbyd import BIN, Daemon
from sdk import OnTcp
from tenants import Tenants


class Admins(Tenants):
    """The first of its two keys may manage keys."""

    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        path = self.home / "keys.json"
        keys = json.loads(path.read_text())
        keys["tokens"][0]["admin"] = True
        path.write_text(json.dumps(keys))


@pytest.fixture(name="daemon", scope="module")
def fixture_daemon():
    with Admins() as daemon:
        yield daemon


def with_key(daemon, key, path="/sandboxes"):
    request = urllib.request.Request(daemon.url + path, headers={"X-API-KEY": key})
    try:
        return urllib.request.urlopen(request, timeout=60).status
    except urllib.error.HTTPError as answer:
        return answer.code


def test_make_use_list_and_delete(daemon):
    status, made = daemon.ask(0, "POST", "/api-keys", {"name": "new", "max_sandboxes": 1})
    assert status == 201 and made["id"] == made["name"] == "new" and made["key"].startswith("e2b_")
    assert made["createdAt"] and made["lastUsed"] is None and made["createdBy"] is None
    assert made["mask"] == {"prefix": "e2b_", "valueLength": 40, "maskedValuePrefix": "",
                            "maskedValueSuffix": made["key"][-4:]}
    key = made.pop("key")
    assert with_key(daemon, key) == 200, "it counts at once"
    made["mask"]["maskedValueSuffix"] = ""
    status, listed = daemon.ask(0, "GET", "/api-keys")
    assert status == 200 and [one["name"] for one in listed] == ["key0", "key1", "new"] and listed[2] == made
    file = json.loads((daemon.home / "keys.json").read_text())["tokens"][2]
    assert file["max_sandboxes"] == 1 and key not in json.dumps(file) and "admin" not in file
    assert daemon.ask(0, "POST", "/api-keys", {"name": "new"})[0] == 409
    assert daemon.ask(0, "DELETE", "/api-keys/new")[0] == 204
    assert with_key(daemon, key) == 401, "and is gone at once"
    assert daemon.ask(0, "DELETE", "/api-keys/new")[0] == 404


@pytest.mark.parametrize("method, path", [("GET", ""), ("POST", ""), ("DELETE", "/key0")])
def test_other_keys_may_not(daemon, method, path):
    status, answer = daemon.ask(1, method, "/api-keys" + path, {"name": "mine"} if method == "POST" else None)
    assert status == 403 and answer["error_code"] == "admin_key_needed" and "--admin" in answer["message"]
    assert len(daemon.ask(0, "GET", "/api-keys")[1]) == 2


def test_the_unix_socket_may(daemon):
    assert daemon.request("POST", "/api-keys", {"name": "local"}).status == 201
    assert daemon.request("DELETE", "/api-keys/local").status == 204


@pytest.mark.parametrize("body, word", [
    ({}, "name"), ({"name": "a b"}, "name"), ({"name": "x" * 65}, "name"), ({"name": "x", "max_cpus": -1}, "max_cpus"),
    ({"name": "x", "admin": True}, "admin"), ({"name": "x", "max_sandboxes": "1"}, "max_sandboxes")])
def test_a_wrong_key_is_refused(daemon, body, word):
    status, answer = daemon.ask(0, "POST", "/api-keys", body)
    assert status == 400 and word in answer["message"]


def test_a_name_stays(daemon):
    status, answer = daemon.ask(0, "PATCH", "/api-keys/key1", {"name": "other"})
    assert status == 501 and "belong to the name" in answer["message"]


def test_a_key_may_delete_itself_and_a_broken_file_changes_nothing():
    with Admins() as daemon:
        path = daemon.home / "keys.json"
        text = path.read_text()
        path.write_text(text + "x")
        assert daemon.request("POST", "/api-keys", {"name": "new"}).status == 400
        assert path.read_text() == text + "x"
        path.write_text(text)
        assert daemon.ask(0, "DELETE", "/api-keys/key0")[0] == 204
        assert daemon.ask(0, "GET", "/api-keys")[0] == 401


def test_a_deleted_key_leaves_no_secret_and_no_webhook(daemon):
    secret = {"name": "mine", "value": "sk-stored-0123456789"}
    hook = {"name": "mine", "url": "http://127.0.0.1:1/", "signatureSecret": "its secret",
            "events": ["sandbox.lifecycle.created"]}
    mine = [(("POST", "/secrets", secret), 201), (("POST", "/events/webhooks", hook), 201)]

    def ask(key, method, path, body=None):
        request = urllib.request.Request(daemon.url + path, json.dumps(body).encode() if body else None,
                                         {"X-API-KEY": key, "Content-Type": "application/json"}, method=method)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, json.load(answer)

    key = daemon.ask(0, "POST", "/api-keys", {"name": "new"})[1]["key"]
    for request, status in mine:
        assert ask(key, *request)[0] == daemon.ask(1, *request)[0] == status
    assert daemon.ask(0, "DELETE", "/api-keys/new")[0] == 204
    again = daemon.ask(0, "POST", "/api-keys", {"name": "new"})[1]["key"]
    for path in ("/secrets", "/events/webhooks"):
        assert ask(again, "GET", path) == (200, []), "a key of the same name has none of them"
        status, others = daemon.ask(1, "GET", path)
        assert status == 200 and len(others) == 1, "another key's stay"
    assert len(list((daemon.home / "secrets").glob("sec_*"))) == 1
    assert daemon.ask(0, "DELETE", "/api-keys/new")[0] == 204


def key_rm(daemon, *words):
    return subprocess.run([BIN / "cubby", "key", "rm", *words], env=daemon.env, text=True, capture_output=True, timeout=60)


def left(daemon):
    """How many secrets and webhooks there are, of all owners."""
    return [len(daemon.request("GET", path).json) for path in ("/secrets", "/events/webhooks")]


@pytest.mark.parametrize("runs", [True, False], ids=["running", "stopped"])
def test_a_key_that_the_command_line_removes_leaves_no_secret_and_no_webhook(runs):
    hook = {"name": "mine", "url": "http://127.0.0.1:1/", "signatureSecret": "its secret", "events": ["sandbox.lifecycle.created"]}
    with Tenants() as daemon:
        for key in (0, 1):
            assert daemon.ask(key, "POST", "/secrets", {"name": "mine", "value": "sk-stored-0123456789"})[0] == 201
            assert daemon.ask(key, "POST", "/events/webhooks", hook)[0] == 201
        assert daemon.ask(0, "POST", "/v2/sandboxes", {"templateID": "default"})[0] == 201
        log = daemon.home / "events/key-key0"
        assert key_rm(daemon, "--keep", "key0").returncode == 0 and left(daemon) == [2, 2] and log.exists()
        for word in "url", "mine":
            assert key_rm(daemon, word).returncode == 1, "a word of the files is no key"
        for one in daemon.directories():  # its end is an event, too
            daemon.kill(one)
        if not runs:
            daemon.stop()
        assert key_rm(daemon, "key0").returncode == 0 and not log.exists(), "it finds what was kept"
        assert key_rm(daemon, "key1").returncode == 0
        assert not runs or daemon.ask(1, "GET", "/v2/sandboxes")[0] == 401, "the daemon knows it at once"
        again = key_rm(daemon, "key1")
        assert again.returncode == 1 and "key1" in again.stderr
        if not runs:  # the command has started one
            subprocess.run([BIN / "cubby", "daemon", "stop"], env=daemon.env, check=True, capture_output=True, timeout=60)
            daemon.start()
        assert left(daemon) == [0, 0] and list((daemon.home / "secrets").glob("sec_*")) == []


class Tcp(OnTcp, Daemon):
    """A daemon with one key that may not manage keys."""


def test_the_command_line_makes_an_admin():
    with Tcp() as daemon:
        made = subprocess.run([BIN / "cubby", "key", "new", "boss", "--admin", "--plain"], env=daemon.env, text=True,
                              capture_output=True, timeout=60, check=True)
        assert daemon.request("GET", "/api-keys").json[1]["name"] == "boss"
        assert with_key(daemon, made.stdout.strip(), "/api-keys") == 200
        listed = subprocess.run([BIN / "cubby", "key", "ls", "--json"], env=daemon.env, text=True,
                                capture_output=True, timeout=60, check=True)
        assert json.loads(listed.stdout)[1] == {"name": "boss", "admin": True}
