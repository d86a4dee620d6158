# SPDX-License-Identifier: Apache-2.0
"""Daemons that share a file of API keys: what belongs to a key that one of them removes is gone at the others, once."""

import json
import os
import subprocess

import pytest

from cubbyd import PROGRAM, Daemon, wait_for
from key_holder import ask, cubby, new_key

SECRET = {"name": "mine", "value": "sk-stored-0123456789"}
HOOK = {"name": "mine", "url": "http://127.0.0.1:1/", "signatureSecret": "its secret",
        "events": ["sandbox.lifecycle.created"]}
PATHS = ("/secrets", "/events/webhooks")


class Pair:
    """`with Pair(tmp_path) as pair`: two daemons, `a` and `b`, with one file of keys."""

    def __init__(self, where):
        self.keys = where / "keys.json"
        self.a, self.b = (Daemon("--listen", "127.0.0.1:0", "--keys", str(self.keys), "--pool", "off") for _ in "ab")

    def __enter__(self):
        self.a.start()
        self.b.start()
        return self

    def __exit__(self, *exc):
        try:
            self.a.close()
        finally:
            self.b.close()

    def new(self, name="ci"):
        """A new key, made at `a`."""
        return new_key(self.a, name)

    def remove(self, *words):
        done = cubby(self.a.home, "key", "rm", *words)
        assert done.returncode == 0 and not done.stderr, done.stderr


@pytest.fixture(name="pair")
def fixture_pair(tmp_path):
    with Pair(tmp_path) as pair:
        yield pair


def first(daemon, key, path):
    """The answer to the first request for which the daemon knows the key."""
    def known():
        answer = ask(daemon, "GET", path, key=key)
        return None if answer.status == 401 else answer
    return wait_for(known, 30, "the key is known")


def give(daemon, key):
    """Stores a secret and a webhook of the key, and one event."""
    assert first(daemon, key, "/secrets").status == 200
    for path, body in zip(PATHS, (SECRET, HOOK)):
        assert ask(daemon, "POST", path, body, key).status == 201
    made = ask(daemon, "POST", "/v2/sandboxes", {"templateID": "default"}, key).json["sandboxID"]
    assert daemon.kill(made) == 204
    wait_for(lambda: daemon.directories() == [], 30, "its sandbox has ended")


def owned(daemon, key):
    """How many secrets and webhooks the key has."""
    return [len(ask(daemon, "GET", path, key=key).json) for path in PATHS]


def everything(daemon):
    """How many secrets and webhooks there are, of all owners. No request on the unix socket reads the keys."""
    return [len(daemon.request("GET", path).json) for path in PATHS]


def is_remembered(daemon, name):
    file = daemon.home / "keys-removed.json"
    return file.exists() and name in json.loads(file.read_text())["removed"]


def remove_by_api(pair, name):
    assert pair.a.request("DELETE", f"/api-keys/{name}").status == 204


# ---- removed at one, gone at all
@pytest.mark.parametrize("remove", [Pair.remove, remove_by_api], ids=["command", "request"])
def test_a_new_key_gets_nothing_of_the_removed_one(pair, remove):
    give(pair.b, pair.new())
    other = pair.new("other")
    give(pair.b, other)
    events = pair.b.home / "events/key-ci"
    assert events.exists()
    remove(pair, "ci")
    key = pair.new()
    assert first(pair.b, key, "/secrets").json == [], "at its first request"
    assert owned(pair.b, key) == [0, 0] and not events.exists()
    assert owned(pair.b, other) == [1, 1], "another key's stay"
    assert len(list((pair.b.home / "secrets").glob("sec_*"))) == 1
    assert (pair.b.home / "keys-removed.json").stat().st_mode & 0o777 == 0o600


def test_a_daemon_without_requests_learns_of_it(pair):
    """The webhooks of a revoked key would go on."""
    give(pair.b, pair.new())
    pair.remove("ci")
    wait_for(lambda: everything(pair.b) == [0, 0], 60, "they are gone")


def test_a_daemon_that_did_not_run_learns_of_it(pair):
    give(pair.b, pair.new())
    pair.b.stop()
    pair.remove("ci")
    key = pair.new()
    pair.b.start()
    assert everything(pair.b) == [0, 0], "before it listens"
    assert ask(pair.b, "GET", "/secrets", key=key).json == []


def test_the_command_line_with_the_file_of_other_daemons(pair, tmp_path):
    give(pair.b, pair.new())
    with Daemon("--listen", "127.0.0.1:0", "--keys", str(tmp_path / "own.json")) as elsewhere:
        assert cubby(elsewhere.home, "key", "rm", "--keys", str(pair.keys), "ci").returncode == 0
        wait_for(lambda: everything(pair.b) == [0, 0], 60, "they are gone")
        assert not is_remembered(elsewhere, "ci")


def test_a_removal_is_not_of_a_key_that_was_made_since(pair):
    """The command removes the key from the file, and then tells the daemon. Another operator may be quick."""
    give(pair.a, pair.new())
    pair.remove("ci")
    assert "key.removed" not in pair.a.log.read_text(), "the command has not asked for a second removal"
    key = pair.new()
    give(pair.a, key)
    assert pair.a.request("DELETE", "/api-keys/ci?removed=1").status == 204
    assert owned(pair.a, key) == [1, 1]
    new_key(pair.a, "fresh")
    assert pair.a.request("DELETE", "/api-keys/fresh?removed=1").status == 409, "it was never removed"
    assert pair.a.request("DELETE", "/api-keys/nobody?removed=1").status == 404
    assert {one["name"] for one in pair.a.request("GET", "/api-keys").json} == {"ci", "fresh"}


def test_a_time_that_was_a_mistake(pair):
    """Once it has been carried out, a later removal has an earlier time."""
    text = json.loads(pair.keys.read_text()) if pair.keys.exists() else {"tokens": []}
    pair.keys.write_text(json.dumps({**text, "removed": {"ci": "2199-01-01T00:00:00Z"}}))
    pair.keys.chmod(0o600)
    wait_for(lambda: is_remembered(pair.b, "ci"), 60, "b has followed")
    pair.keys.write_text(json.dumps(text))
    give(pair.b, pair.new())
    pair.remove("ci")
    key = pair.new()
    assert first(pair.b, key, "/secrets").json == [] and owned(pair.b, key) == [0, 0]


# ---- what stays
def carried_out(pair, name="marker"):
    """Removes a key of this name, and waits until `b` has followed: it has read the file as it is now."""
    key = pair.new(name)
    assert first(pair.b, key, "/secrets").status == 200
    pair.remove(name)
    wait_for(lambda: is_remembered(pair.b, name), 60, "b has followed")


def test_keep_keeps_them_at_all(pair):
    give(pair.b, pair.new())
    pair.remove("--keep", "ci")
    assert "removed" not in json.loads(pair.keys.read_text())
    carried_out(pair)
    key = pair.new()
    assert first(pair.b, key, "/secrets").status == 200
    assert owned(pair.b, key) == [1, 1]


def test_nothing_is_removed_twice(pair):
    give(pair.b, pair.new())
    pair.remove("ci")
    key = pair.new()
    give(pair.b, key)
    for restart in False, True:
        if restart:
            pair.b.stop()
            pair.b.start()
        assert owned(pair.b, key) == [1, 1]
        carried_out(pair, f"marker{restart}")
        assert owned(pair.b, key) == [1, 1]
    pair.remove("ci")
    again = pair.new()
    assert first(pair.b, again, "/secrets").json == [] and owned(pair.b, again) == [0, 0], "but the next time"


def test_a_key_that_is_not_in_the_file_was_not_removed(pair):
    key = pair.new()
    give(pair.b, key)
    text = pair.keys.read_text()

    def is_logged(what):
        assert ask(pair.b, "GET", "/secrets", key=key).status in (200, 401)
        return what in pair.b.log.read_text()
    pair.keys.unlink()
    wait_for(lambda: is_logged("tokens.missing"), 30, "the file is missing")
    pair.keys.write_text("")
    pair.keys.chmod(0o600)
    wait_for(lambda: is_logged("tokens.unreadable"), 30, "the file is empty")
    pair.keys.write_text('{"tokens": [], "removed": {}}')
    wait_for(lambda: ask(pair.b, "GET", "/secrets", key=key).status == 401, 30, "the key is not there")
    assert everything(pair.b) == [1, 1]
    pair.keys.unlink()
    pair.b.stop()
    pair.b.start()
    assert everything(pair.b) == [1, 1]
    pair.keys.write_text(json.dumps({**json.loads(text), "removed": {"ci": "2001-01-01T00:00:00Z"}}))
    pair.keys.chmod(0o600)
    wait_for(lambda: everything(pair.b) == [0, 0], 60, "a removal counts by its time in the file, not by the clock")


# ---- what cannot be done
@pytest.mark.parametrize("file", ["secrets/index.json", "keys-removed.json"])
def test_a_key_waits_for_a_removal_that_fails(pair, file):
    """A directory in place of the file: it cannot be replaced, and so the removal fails or cannot be remembered."""
    give(pair.b, pair.new())
    other = pair.new("other")
    assert first(pair.b, other, "/secrets").status == 200
    blocked = pair.b.home / file
    blocked.unlink(missing_ok=True)
    blocked.mkdir()
    pair.remove("ci")
    key = pair.new()
    answer = first(pair.b, key, "/secrets")
    assert answer.status == 503 and answer.json["error_code"] == "api_key_held" and answer.headers["Retry-After"]
    assert '"ci"' in answer.json["message"]
    assert ask(pair.b, "GET", "/secrets", key=other).status == 200, "other keys do not wait"
    assert "key.not_" in pair.b.log.read_text()
    blocked.rmdir()
    wait_for(lambda: ask(pair.b, "GET", "/secrets", key=key).status == 200, 60, "it tries again")
    assert owned(pair.b, key) == [0, 0] and is_remembered(pair.b, "ci")


@pytest.mark.parametrize("text", ["{", "[]", '{"format": 1}', '{"format": 2, "removed": {}}',
                                  '{"format": 1, "removed": {"ci": "now"}}', '{"format": 1, "removed": {"ci": 1}}'])
def test_a_damaged_memory_is_no_reason_to_remove_all_again(tmp_path, text):
    file = tmp_path / "keys-removed.json"
    file.write_text(text)
    ran = subprocess.run([PROGRAM], env=dict(os.environ, CUBBY_HOME=str(tmp_path)), capture_output=True, text=True,
                         timeout=60)
    assert ran.returncode == 1 and "keys-removed.json" in ran.stderr
    assert file.read_text() == text
