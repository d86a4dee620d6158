# SPDX-License-Identifier: Apache-2.0
"""The daemon on TCP: API keys, the sandboxes of each key, TLS, requests of a browser; and `cubby
key`.

Assertions 1 to 4 of the reference, section 11, as a client of the network meets them.
"""

import datetime
import json
import os
import pathlib
import re
import socket
import ssl
import subprocess
import tempfile

import pytest

from cubbyd import BIN, Daemon, PROGRAM, wait_for
from key_holder import ask, cubby, new_key, url

LISTEN = ("--listen", "127.0.0.1:0")


@pytest.fixture(scope="module")
def shared():
    with Daemon(*LISTEN) as d:
        yield d


@pytest.fixture
def daemon(shared):
    yield shared
    for sandbox in shared.request("GET", "/v2/sandboxes").json:
        shared.kill(sandbox["sandboxID"])


@pytest.fixture(scope="module")
def key(shared):
    made = new_key(shared, "me")
    taken(shared, made)
    return made


def taken(daemon, key):
    """Waits until the daemon has read the file again: it looks once a second."""
    wait_for(lambda: ask(daemon, "GET", "/v2/sandboxes", key=key).status == 200, 30, "it is known")


# ---- who may
@pytest.mark.parametrize("method, path", [
    ("GET", "/v2/sandboxes"), ("POST", "/v2/sandboxes"), ("POST", "/sandboxes"),
    ("GET", "/templates"), ("DELETE", "/sandboxes/x"), ("GET", "/nothing"), ("GET", "/teams")])
def test_a_key_is_needed(daemon, key, method, path):
    for headers in [{}, {"X-API-KEY": ""}, {"X-API-KEY": "e2b_" + "0" * 40},
                    {"Authorization": "Bearer e2b_" + "0" * 40}, {"X-API-KEY": key[:-1]}]:
        answer = ask(daemon, method, path, {} if method == "POST" else None, headers=headers)
        assert answer.status == 401 and answer.json["code"] == 401, headers
        assert "cubby key new" in answer.json["message"]


def test_a_key_lets_in(daemon, key):
    assert re.fullmatch(r"e2b_[0-9a-f]{40}", key)
    body = iter([b'{"templ', b'ateID":"base"}'])
    made = ask(daemon, "POST", "/v2/sandboxes", body, key)
    assert made.status == 201
    assert re.fullmatch(r"[a-z0-9]+", made.json["sandboxID"])
    assert re.fullmatch(r"\d+\.\d+\.\d+", made.json["envdVersion"])
    assert {"templateID", "clientID", "envdAccessToken", "trafficAccessToken", "domain",
            "alias"} <= set(made.json)
    bearer = ask(daemon, "GET", "/v2/sandboxes", headers={"Authorization": f"Bearer {key}"})
    assert [s["sandboxID"] for s in bearer.json] == [made.json["sandboxID"]]
    composite = f"{made.json['sandboxID']}-{made.json['clientID']}"
    assert ask(daemon, "GET", f"/sandboxes/{composite}", key=key).status == 200
    old = ask(daemon, "POST", "/sandboxes", {"templateID": "base", "timeout": 60, "secure": True},
              key)
    assert old.status == 201 and old.json["envdAccessToken"]


def test_health_is_for_everybody(daemon, key):
    for k in (None, key):
        answer = ask(daemon, "GET", "/health", key=k)
        assert answer.status == 200 and answer.json == {"status": "ok", "server": "cubbyd"}
    assert daemon.request("GET", "/health").json["url"] == url(daemon)


def test_the_hash_is_all_that_is_kept(daemon, key):
    file = daemon.home / "keys.json"
    assert key[4:] not in file.read_text() and file.stat().st_mode & 0o777 == 0o600
    assert key not in daemon.log.read_text()


# ---- whose
def test_each_key_sees_its_own(daemon, key):
    other = new_key(daemon, "other")
    taken(daemon, other)
    mine = ask(daemon, "POST", "/v2/sandboxes", {"templateID": "base"}, key).json["sandboxID"]
    theirs = ask(daemon, "POST", "/v2/sandboxes", {"templateID": "base"}, other).json["sandboxID"]
    local = daemon.create()["sandboxID"]
    for k, own in [(key, mine), (other, theirs)]:
        answer = ask(daemon, "GET", "/v2/sandboxes", key=k)
        assert [s["sandboxID"] for s in answer.json] == [own]
        assert answer.headers["X-Total-Running"] == "1"
        assert list(ask(daemon, "GET", "/sandboxes/metrics", key=k).json["sandboxes"]) in ([], [own])
    everything = daemon.request("GET", "/v2/sandboxes").json
    assert {s["sandboxID"] for s in everything} == {mine, theirs, local}
    for method, path, body in [("GET", "", None), ("DELETE", "", None), ("POST", "/pause", {}),
                               ("POST", "/timeout", {"timeout": 1}), ("GET", "/logs", None),
                               ("POST", "/connect", {"timeout": 1}), ("GET", "/metrics", None),
                               ("PUT", "/network", {}), ("POST", "/refreshes", {})]:
        for foreign in (theirs, local):
            answer = ask(daemon, method, f"/sandboxes/{foreign}{path}", body, key)
            assert answer.status == 404 and answer.json["code"] == 404, path
            assert answer.json["message"].endswith(
                "doesn't exist or you don't have access to it")
    assert daemon.get(theirs).json["state"] == "running"
    for foreign in (theirs, local):  # and what became of them is told to nobody else
        assert daemon.kill(foreign) == 204
        answer = ask(daemon, "GET", f"/sandboxes/{foreign}", key=key)
        assert answer.status == 404 and answer.json["error_code"] == "sandbox_not_found"
        assert answer.json["message"].endswith("doesn't exist or you don't have access to it")
        assert daemon.get(foreign).json["error_code"] == "sandbox_ended"
    assert ask(daemon, "GET", f"/sandboxes/{theirs}", key=other).json["error_code"] == "sandbox_ended"


def test_sandboxes_belong_to_the_name_of_a_key():
    with Daemon(*LISTEN) as daemon:
        first = new_key(daemon, "ci")
        taken(daemon, first)
        made = ask(daemon, "POST", "/v2/sandboxes", {"templateID": "base"}, first).json
        assert cubby(daemon.home, "key", "rm", "ci").returncode == 0
        second = new_key(daemon, "ci")
        taken(daemon, second)
        assert ask(daemon, "GET", "/v2/sandboxes", key=first).status == 401
        daemon.stop(9)
        daemon.start()
        assert [s["sandboxID"] for s in ask(daemon, "GET", "/v2/sandboxes", key=second).json] == [
            made["sandboxID"]]


def edit(daemon, name, **fields):
    file = daemon.home / "keys.json"
    keys = json.loads(file.read_text())
    next(k for k in keys["tokens"] if k["name"] == name).update(fields)
    file.write_text(json.dumps(keys))


def test_limit_of_a_key(daemon):
    key = new_key(daemon, "few")
    edit(daemon, "few", max_sandboxes=1)
    taken(daemon, key)

    made = []

    def refused():
        """Sends requests until one is refused: the daemon may have read the key before it had its limit."""
        answer = ask(daemon, "POST", "/v2/sandboxes", {"templateID": "base"}, key)
        if answer.status == 429:
            return answer
        made.append(answer.json["sandboxID"])
        if len(made) > 1:
            assert daemon.kill(made.pop()) == 204
        return None
    answer = wait_for(refused, 30, "the limit is kept")
    assert answer.json["code"] == 429 and "max_sandboxes" in answer.json["message"]
    assert "Retry-After" not in answer.headers


def test_a_key_expires(daemon):
    key = new_key(daemon, "old")
    taken(daemon, key)
    past = datetime.datetime(2020, 1, 1, tzinfo=datetime.timezone.utc).isoformat()
    edit(daemon, "old", expires=past)
    wait_for(lambda: ask(daemon, "GET", "/v2/sandboxes", key=key).status == 401, 30, "it is over")


def test_a_broken_file_changes_nothing(daemon, key):
    file = daemon.home / "keys.json"
    good = file.read_text()
    file.write_text("{")
    wait_for(lambda: ask(daemon, "GET", "/v2/sandboxes", key=key).status == 200 and
             "tokens.unreadable" in daemon.log.read_text(), 30, "it is complained of")
    file.write_text(good)


ENTRY = {"name": "a", "sha256": "0" * 64}


@pytest.mark.parametrize("content, told", [
    ("{", "keys.json"),
    ([], 'it must be {"tokens": [ ... ]}'),
    ({"tokens": [], "keys": []}, 'unknown key "keys"; allowed: tokens'),
    ({"tokens": [1]}, "line 1: an entry must be an object"),
    ({"tokens": [{**ENTRY, "max_sandbox": 1}]}, 'unknown key "max_sandbox"; allowed: name, sha256, max_sandboxes'),
    ({"tokens": [{**ENTRY, "name": "a b"}]}, "name must be 1 to"),
    ({"tokens": [{**ENTRY, "sha256": "12"}]}, 'sha256 of "a" must be a SHA-256 as 64 hexadecimal digits'),
    ({"tokens": [{**ENTRY, "max_cpus": "many"}]}, "max_cpus"),
    ({"tokens": [{**ENTRY, "expires": "tomorrow"}]}, 'expires must be a time such as 2027-01-31T12:00:00Z, not "tomorrow"'),
    ({"tokens": [ENTRY, ENTRY]}, '"a" has the same name or hash as "a" before it'),
    ({"tokens": [{**ENTRY, "calls_per_minute": 1}]}, 'calls_per_minute of "a" is not available for API keys'),
    ({"tokens": [{**ENTRY, "max_timeout": 1}]}, 'max_timeout of "a" is not available for API keys'),
])
def test_a_daemon_does_not_start_with_a_broken_file(tmp_path, content, told):
    """Its keys would be refused, or limits that their owner relies on would not hold."""
    file = tmp_path / "keys.json"
    file.write_text(content if isinstance(content, str) else json.dumps(content))
    file.chmod(0o600)
    ran = subprocess.run([PROGRAM, *LISTEN], env=dict(os.environ, CUBBY_HOME=str(tmp_path)), capture_output=True,
                         text=True, timeout=60)
    assert ran.returncode != 0 and told in ran.stderr and "keys.json" in ran.stderr


# ---- browsers
def test_preflight(daemon):
    answer = ask(daemon, "OPTIONS", "/process.Process/Start", headers={
        "Origin": "https://x.example", "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "x-api-key,content-type"})
    assert answer.status == 204
    assert answer.headers["Access-Control-Allow-Origin"] == "*"
    assert "x-api-key" in answer.headers["Access-Control-Allow-Headers"]
    assert "DELETE" in answer.headers["Access-Control-Allow-Methods"]


def test_answers_are_for_every_origin(daemon, key):
    for path, k in [("/v2/sandboxes", key), ("/v2/sandboxes", None), ("/nothing", key)]:
        answer = ask(daemon, "GET", path, key=k)
        assert answer.headers["Access-Control-Allow-Origin"] == "*"
        assert "X-Next-Token" in answer.headers["Access-Control-Expose-Headers"]


# ---- where it listens
def start(*words, home=None, env=None):
    return subprocess.run([PROGRAM, *words], capture_output=True, text=True, timeout=60,
                          env=dict(os.environ, CUBBY_HOME=str(home), **(env or {})))


@pytest.mark.parametrize("words, what", [
    (("--listen", "0.0.0.0:0"), "not a loopback address"),
    (("--listen", "[::]:0"), "not a loopback address"),
    (("--listen", "nonsense"), "is not an address"),
    (("--listen", "127.0.0.1:0", "--tls-cert", "x"), "must be given together: add --tls-key"),
    (("--tls-cert", "x", "--tls-key", "y"), "--listen"),
])
def test_refused_at_the_start(tmp_path, words, what):
    done = start(*words, home=tmp_path)
    assert done.returncode == 2 and what in done.stderr


def test_a_certificate_that_is_not_there(tmp_path):
    done = start(*LISTEN, "--tls-cert", tmp_path / "c", "--tls-key", tmp_path / "k", home=tmp_path)
    assert done.returncode == 1 and str(tmp_path / "c") in done.stderr


def test_tls(tmp_path):
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                    "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", "/CN=localhost",
                    "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", tmp_path / "key",
                    "-out", tmp_path / "cert"], check=True, capture_output=True)
    with Daemon(*LISTEN, "--tls-cert", str(tmp_path / "cert"), "--tls-key",
                str(tmp_path / "key")) as daemon:
        assert url(daemon).startswith("https://127.0.0.1:")
        key = new_key(daemon, "me")
        trust = ssl.create_default_context(cafile=tmp_path / "cert")
        wait_for(lambda: ask(daemon, "GET", "/v2/sandboxes", key=key, context=trust).status == 200,
                 30, "the key is known")
        made = ask(daemon, "POST", "/v2/sandboxes", {"templateID": "base"}, key, context=trust).json
        answer = ask(daemon, "GET", "/health", context=trust, headers={
            "E2b-Sandbox-Id": made["sandboxID"], "E2b-Sandbox-Port": "49983"})
        assert answer.status == 204


def test_options_in_the_home():
    daemon = Daemon()
    (daemon.home / "cubbyd.json").write_text(
        json.dumps({"listen": "127.0.0.1:0", "domain": "cubby.example", "max_sandboxes": 1, "create_wait": 0}))
    with daemon:
        assert url(daemon).startswith("http://127.0.0.1:")
        assert f"url={url(daemon)}" in daemon.log.read_text()
        made = daemon.create()
        assert made["domain"] == "cubby.example"
        assert daemon.get(made["sandboxID"]).json["domain"] == "cubby.example"
        assert daemon.request("POST", "/v2/sandboxes", {"templateID": "base"}).status == 503
        said = cubby(daemon.home, "daemon", "status")
        assert said.returncode == 0 and url(daemon) in said.stdout
        assert daemon.stop() == 0
        assert not (daemon.home / "cubbyd.url").exists()
        said = cubby(daemon.home, "daemon", "status")
        assert said.returncode == 1 and "does not run" in said.stdout
        daemon.start("--listen", "127.0.0.1:0", "--domain", "other.example")  # flags win
        assert daemon.create()["domain"] == "other.example"


@pytest.mark.parametrize("text, what", [("{", "invalid JSON"), ('{"listn": "x"}', "listn"),
                                        ('{"listen": 5}', "listen")])
def test_a_broken_file_of_options(tmp_path, text, what):
    (tmp_path / "cubbyd.json").write_text(text)
    done = start(home=tmp_path)
    assert done.returncode == 2 and what in done.stderr and "cubbyd.json" in done.stderr


ROOT = pathlib.Path(__file__).parents[3]


def test_schema_and_man_page_have_every_option():
    listed = set(re.findall(r"^  --([a-z-]+)", subprocess.run(
        [PROGRAM, "--help"], capture_output=True, text=True, timeout=30).stdout, re.M))
    schema = json.loads((ROOT / "schemas/cubbyd.schema.json").read_text())
    of_schema = {name.replace("_", "-") for name in schema["properties"]} - {"$schema"}
    assert of_schema == listed - {"ready-fd", "help", "version"}
    page = (ROOT / "docs/man/cubbyd.1").read_text().replace("\\-", "-")
    options = page[page.index(".SH OPTIONS"):page.index(".SH SIGNALS")]
    said = [line for line in options.splitlines() if line.startswith((".B --", ".BI --", ".BR --"))]
    assert set(re.findall(r"--([a-z-]+)", " ".join(said))) == listed


def test_without_tcp_no_url(tmp_path):
    (tmp_path / "cubbyd.url").write_text("http://127.0.0.1:1\n")  # of one that was killed
    said = cubby(tmp_path, "key", "new", "a")
    assert said.returncode == 0 and "E2B_API_URL" not in said.stdout
    assert "cubbyd.json" in said.stderr


def test_a_daemon_that_is_configured_for_tcp_is_started():
    """And one that runs, and has not read its configuration, is named."""
    with tempfile.TemporaryDirectory() as folder:
        home = pathlib.Path(folder)
        (home / "cubbyd.json").write_text(json.dumps({"listen": "127.0.0.1:0"}))
        try:
            said = cubby(home, "key", "new", "a")
            told = cubby(home, "daemon", "status").stdout
        finally:
            cubby(home, "daemon", "stop")
        lines = dict(line.removeprefix("export ").split("=", 1) for line in said.stdout.splitlines())
        assert said.returncode == 0 and said.stderr == "" and f"url: {lines['E2B_API_URL']}\n" in told
        (home / "cubbyd.json").write_text(json.dumps({"listen": "nonsense"}))
        said = cubby(home, "key", "new", "b")
        assert "E2B_API_KEY" in said.stdout and "E2B_API_URL" not in said.stdout and "does not start" in said.stderr


# ---- cubby key
def test_cubby_key(daemon):
    made = cubby(daemon.home, "key", "new", "laptop")
    lines = dict(line.removeprefix("export ").split("=", 1) for line in made.stdout.splitlines())
    assert lines["E2B_API_URL"] == lines["E2B_SANDBOX_URL"] == url(daemon)
    taken(daemon, lines["E2B_API_KEY"])
    again = cubby(daemon.home, "key", "new", "laptop")
    assert again.returncode == 1 and "laptop" in again.stderr
    assert "laptop" in cubby(daemon.home, "key", "ls").stdout
    assert [k["name"] for k in json.loads(cubby(daemon.home, "key", "ls", "--json").stdout)] [-1:] == [
        "laptop"]
    assert cubby(daemon.home, "key", "rm", "laptop").returncode == 0
    assert cubby(daemon.home, "key", "rm", "laptop").returncode == 1
    wait_for(lambda: ask(daemon, "GET", "/v2/sandboxes",
                         key=lines["E2B_API_KEY"]).status == 401, 30, "it is taken back")
    assert cubby(daemon.home, "key", "new", "a b").returncode == 1
    assert cubby(daemon.home, "key").returncode == 2


def test_cubby_pauses_and_resumes(daemon):
    sandbox = daemon.create()["sandboxID"]
    done = cubby(daemon.home, "pause", sandbox[:8])
    assert done.returncode == 0 and done.stdout.strip() == sandbox
    row = next(r for r in cubby(daemon.home, "ps").stdout.splitlines() if sandbox in r)
    assert "frozen" in row
    again = cubby(daemon.home, "pause", sandbox)
    assert again.returncode == 1 and "already paused" in again.stderr
    assert cubby(daemon.home, "resume", sandbox).returncode == 0
    assert daemon.get(sandbox).json["state"] == "running"
    assert cubby(daemon.home, "resume").returncode == 2


def test_cubby_key_changes_the_file_of_the_daemon(tmp_path):
    """Also one that does not exist yet. Another file is changed only where it is named."""
    keys, other = tmp_path / "keys.json", tmp_path / "other.json"
    with Daemon(*LISTEN, "--keys", str(keys)) as daemon:
        made = cubby(daemon.home, "key", "new", "shared")
        lines = dict(line.removeprefix("export ").split("=", 1) for line in made.stdout.splitlines())
        taken(daemon, lines["E2B_API_KEY"])
        assert keys.exists() and not (daemon.home / "keys.json").exists()
        assert "shared" in cubby(daemon.home, "key", "ls").stdout
        away = cubby(daemon.home, "key", "new", "--keys", str(other), "away")
        assert away.returncode == 0 and "E2B_API_URL" not in away.stdout
        assert "away" not in keys.read_text() and "away" in other.read_text()
        assert "away" in cubby(daemon.home, "key", "ls", "--keys", str(other)).stdout
        assert cubby(daemon.home, "key", "rm", "--keys", str(other), "shared").returncode == 1
        assert cubby(daemon.home, "key", "rm", "--keys", str(other), "away").returncode == 0
        assert "shared" in keys.read_text() and json.loads(other.read_text())["tokens"] == []
        assert cubby(daemon.home, "key", "rm", "shared").returncode == 0
        assert json.loads(keys.read_text())["tokens"] == []
        assert [list(json.loads(file.read_text())["removed"]) for file in (keys, other)] == [["shared"], ["away"]]


def test_cubby_key_without_a_daemon_reads_the_environment(tmp_path):
    keys, home = tmp_path / "keys.json", tmp_path / "home"
    env = {**os.environ, "CUBBY_HOME": str(home), "CUBBY_KEYS": str(keys)}
    made = subprocess.run([BIN / "cubby", "key", "new", "--plain", "me"], env=env, capture_output=True, timeout=60)
    assert made.returncode == 0 and "me" in keys.read_text() and not (home / "keys.json").exists()
    missing = cubby(home, "key", "new", "--keys", "/nope/keys.json", "me")
    assert missing.returncode == 1 and "directory" in missing.stderr


def test_a_keys_file_that_is_gone_is_no_outage(tmp_path):
    keys = tmp_path / "keys.json"
    with Daemon(*LISTEN, "--keys", str(keys)) as daemon:
        key = cubby(daemon.home, "key", "new", "--plain", "me").stdout.strip()
        taken(daemon, key)
        text = keys.read_text()
        keys.unlink()

        def is_logged():
            assert ask(daemon, "GET", "/v2/sandboxes", key=key).status == 200
            return "tokens.missing" in daemon.log.read_text()
        wait_for(is_logged, 30, "it is logged, and the key is still known")
        keys.write_text(text.replace('"me"', '"me'))
        wait_for(lambda: is_logged() and "tokens.unreadable" in daemon.log.read_text(), 30, "the same if it is broken")
        keys.write_text('{"tokens": []}')
        wait_for(lambda: ask(daemon, "GET", "/v2/sandboxes", key=key).status == 401, 30, "it is revoked")


@pytest.mark.parametrize("path, body", [("/v2/sandboxes", {"templateID": "default"}), ("/volumes", {"name": "late"})])
def test_a_key_that_is_revoked_before_the_body_came(daemon, path, body):
    """What it made would belong to nobody."""
    key = new_key(daemon, "late")
    taken(daemon, key)
    text = json.dumps(body).encode()
    host, port = url(daemon).removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=60) as connection:
        connection.sendall(f"POST {path} HTTP/1.1\r\nHost: x\r\nX-API-KEY: {key}\r\nContent-Type: application/json\r\n"
                           f"Expect: 100-continue\r\nContent-Length: {len(text)}\r\nConnection: close\r\n\r\n".encode())
        assert connection.recv(100).startswith(b"HTTP/1.1 100 "), "the key was admitted"
        assert cubby(daemon.home, "key", "rm", "late").returncode == 0
        wait_for(lambda: ask(daemon, "GET", "/v2/sandboxes", key=key).status == 401, 30, "it is revoked")
        connection.sendall(text)
        assert connection.recv(100).startswith(b"HTTP/1.1 401 ")
    assert daemon.request("GET", "/v2/sandboxes").json == [] and daemon.request("GET", "/volumes").json == []
