# SPDX-License-Identifier: Apache-2.0
"""cubbyd and secrets: which sandboxes get a placeholder, what their guest and their record hold,
and that the value itself is nowhere.
"""

import http.client
import json
import pathlib
import re
import secrets
import subprocess

import pytest

from cubbyd import BIN, Daemon, PROGRAM, wait_for

VALUE = "sk-file-" + secrets.token_hex(16)
OTHER = "sk-env-" + secrets.token_hex(16)


@pytest.fixture
def keys(tmp_path):
    """The daemon's file of secrets."""
    (tmp_path / "openai").write_text(VALUE + "\n")
    path = tmp_path / "secrets.json"
    path.write_text(json.dumps({
        "OPENAI_API_KEY": {"file": str(tmp_path / "openai"), "hosts": ["api.openai.com"]},
        "PAID": {"env": "CUBBY_TEST_PAID", "hosts": ["*.paid.example"], "env_name": "PAID_TOKEN",
                 "keys": ["ci"]},
        "GONE": {"file": str(tmp_path / "gone"), "hosts": ["gone.example"]},
    }))
    return path


@pytest.fixture
def daemon(keys):
    with Daemon("--secrets", str(keys), env={"CUBBY_TEST_PAID": OTHER}) as d:
        yield d


def init_of(daemon, made):
    return json.loads((daemon.directory(made["sandboxID"]) / "init.json").read_text())


def given(daemon, made):
    return daemon.record(made["sandboxID"])["secrets"]["given"]


def refuse(daemon, *words, status=400, **fields):
    answer = daemon.request("POST", "/v2/sandboxes", {"templateID": "default", **fields})
    assert answer.status == status, answer.body
    for word in words:
        assert word in answer.json["message"], answer.body
    assert VALUE not in answer.body.decode() and OTHER not in answer.body.decode()


def everything_below(path):
    return {p: p.read_bytes() for p in pathlib.Path(path).rglob("*") if p.is_file()}


def test_what_a_sandbox_is_told(daemon):
    made = daemon.create(secrets=["OPENAI_API_KEY", "PAID"], envVars={"MINE": "1"})
    record, init = daemon.record(made["sandboxID"]), init_of(daemon, made)
    env = init["envVars"]
    assert re.fullmatch("cubby-secret-[0-9a-f]{32}", env["OPENAI_API_KEY"])
    assert re.fullmatch("cubby-secret-[0-9a-f]{32}", env["PAID_TOKEN"]) and "PAID" not in env
    assert env["MINE"] == "1"
    for name in ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO"):
        assert env[name] == "/etc/ssl/certs/ca-certificates.crt"
    assert env["NODE_EXTRA_CA_CERTS"].endswith(".crt")
    assert init["caBundle"].startswith("-----BEGIN CERTIFICATE-----\n")
    assert "PRIVATE" not in json.dumps(init)
    assert record["secrets"]["ca"]["certificate"] == init["caBundle"]
    assert "PRIVATE KEY" in record["secrets"]["ca"]["key"]
    assert daemon.get(made["sandboxID"]).json["secrets"] == ["OPENAI_API_KEY", "PAID"]
    # The record, which has the authority's key, is nobody else's; a value is in no file.
    assert (daemon.directory(made["sandboxID"]) / "sandbox.json").stat().st_mode & 0o777 == 0o600
    for path, content in everything_below(daemon.home).items():
        assert VALUE.encode() not in content and OTHER.encode() not in content, path


def test_two_sandboxes_have_nothing_in_common(daemon):
    a, b = (init_of(daemon, daemon.create(secrets=["PAID"])) for _ in range(2))
    assert a["envVars"]["PAID_TOKEN"] != b["envVars"]["PAID_TOKEN"]
    assert a["caBundle"] != b["caBundle"]


def test_a_sandbox_without(daemon):
    made = daemon.create(secrets=[])
    assert "caBundle" not in init_of(daemon, made) and "SSL_CERT_FILE" not in init_of(daemon, made)["envVars"]
    assert "secrets" not in daemon.record(made["sandboxID"])
    assert daemon.get(made["sandboxID"]).json["secrets"] == []


def test_users_own_bundle_stays(daemon):
    made = daemon.create(secrets=["PAID"], envVars={"SSL_CERT_FILE": "/mine.pem"})
    assert init_of(daemon, made)["envVars"]["SSL_CERT_FILE"] == "/mine.pem"


@pytest.mark.parametrize("wanted, words", [
    (["NOBODY"], ["NOBODY", "--secrets"]),
    (["GONE"], ["GONE", "open the secret's file: No such file"]),
    ("PAID", ["list"]),
    (["PAID", "OPENAI_API_KEY", "PAID"], ["PAID", "twice"]),
    ([1], ["names"]),
    (["PAID"] * 40, ["at most 32"]),
    ({"PAID": OTHER}, ["list"]),
])
def test_refused(daemon, wanted, words):
    refuse(daemon, *words, secrets=wanted)
    assert daemon.directories() == []


def complaint(daemon):
    return [line for line in daemon.log.read_text().splitlines() if "secret.unusable" in line][-1]


def test_where_values_are_is_the_logs(daemon, keys):
    """Only the log names paths of the host: a client with a key may be anybody."""
    answer = daemon.request("POST", "/v2/sandboxes", {"templateID": "default", "secrets": ["GONE"]})
    assert answer.status == 400 and str(keys.parent) not in answer.body.decode()
    assert "/" not in answer.json["message"]
    assert str(keys.parent / "gone") in complaint(daemon)


def test_a_variable_twice(daemon):
    refuse(daemon, "PAID_TOKEN", secrets=["PAID"], envVars={"PAID_TOKEN": "x"})


def test_misspelt(daemon):
    refuse(daemon, "secrets", Secrets=["PAID"])


def test_a_daemon_without(tmp_path):
    with Daemon() as d:
        refuse(d, "--secrets", secrets=["PAID"])


def test_file_is_read_each_time(daemon, keys):
    """Rotation: a changed file applies from the next sandbox on."""
    refuse(daemon, "NEW", secrets=["NEW"])
    known = json.loads(keys.read_text())
    known["NEW"] = {"env": "CUBBY_TEST_PAID", "hosts": ["new.example"]}
    keys.write_text(json.dumps(known))
    assert daemon.create(secrets=["NEW"])
    keys.write_text("{")
    refuse(daemon, "the file of --secrets: ", "JSON", secrets=["NEW"])
    assert "secrets.json" in complaint(daemon)


@pytest.mark.parametrize("spoil, words", [
    ({"hosts": ["*.com"]}, ["*.", "two labels"]),
    ({"hosts": ["https://x.example"]}, ["https://x.example", "scheme"]),
    ({"hosts": []}, ["hosts"]),
    ({"file": "relative"}, ["absolute"]),
    ({"file": "/etc/hostname", "env": "X"}, ["or"]),
    ({"value": "x"}, ["value"]),
    ({"env_name": "A B"}, ["A B"]),
    ({"env_name": "PATH"}, ["PATH", "env_name"]),
    ({"env_name": "LD_PRELOAD"}, ["LD_PRELOAD", "env_name"]),
    ({"keys": "ci"}, ["keys"]),
])
def test_a_file_that_is_wrong(tmp_path, spoil, words):
    """The error is reported at once, to the person who starts the daemon."""
    path = tmp_path / "secrets.json"
    entry = {"file": "/etc/hostname", "hosts": ["x.example"], **spoil}
    if "env" in spoil and "file" not in spoil:
        entry.pop("file")
    path.write_text(json.dumps({"NAME": entry}))
    out = subprocess.run([PROGRAM, "--secrets", str(path)], capture_output=True, text=True,
                         env={"CUBBY_HOME": str(tmp_path / "home"), "PATH": "/usr/bin:/bin"}, timeout=60)
    assert out.returncode == 2 and "--secrets" in out.stderr and "NAME" in out.stderr
    for word in words:
        assert word in out.stderr, out.stderr


@pytest.mark.parametrize("mode", [0o620, 0o602])
def test_a_file_that_others_write(daemon, keys, mode):
    keys.chmod(mode)
    refuse(daemon, "the file of --secrets can be written by others; chmod go-w it", secrets=["PAID"])
    assert "chmod go-w" in complaint(daemon)
    keys.chmod(0o644)
    assert daemon.create(secrets=["PAID"])


def test_relative_paths(keys, monkeypatch):
    """Paths are made absolute, because the processes that open them run in other directories."""
    (keys.parent / "below").mkdir()
    (keys.parent / "ca.pem").write_text("")
    monkeypatch.chdir(keys.parent / "below")
    with Daemon("--secrets", "../secrets.json", "--egress-trust", "../ca.pem") as d:
        assert d.create(secrets=["OPENAI_API_KEY"])
        keys.write_text("{")
        refuse(d, "the file of --secrets", secrets=["OPENAI_API_KEY"])
        assert str(keys.resolve()) in complaint(d)


@pytest.mark.parametrize("content, words", [
    ("short", ["8"]), ("two lines\nof text\n", ["one line"]), (b"nul\0in the value", ["NUL"]),
    (b"\xff\xfe not text", ["UTF-8"]), ("x" * 70000, ["longer than 65538"]),
])
def test_a_value_that_is_wrong(daemon, keys, content, words):
    data = content if isinstance(content, bytes) else content.encode()
    (keys.parent / "openai").write_bytes(data)
    refuse(daemon, "OPENAI_API_KEY", words[0], secrets=["OPENAI_API_KEY"])
    said = complaint(daemon)
    assert all(w in said for w in words), said
    assert data[:12] not in said.encode()


def test_a_value_that_would_be_waited_for(daemon, keys):
    path = keys.parent / "openai"
    path.unlink()
    subprocess.run(["mkfifo", path], check=True)
    refuse(daemon, "the secret's file is not a regular file", secrets=["OPENAI_API_KEY"])
    assert "regular" in complaint(daemon)


def test_api_keys(keys):
    """A key has the secrets that are given to it; the unix socket has all."""
    with Daemon("--secrets", str(keys), "--listen", "127.0.0.1:0", env={"CUBBY_TEST_PAID": OTHER}) as d:
        port = int(wait_for(lambda: re.search(r"127\.0\.0\.1:(\d+)", d.log.read_text()), what="a port").group(1))
        tokens = {name: subprocess.run([BIN / "cubby", "key", "new", "--plain", name], env=d.env, check=True,
                                       capture_output=True, text=True, timeout=60).stdout.strip()
                  for name in ("ci", "other")}

        def create(name, wanted):
            c = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            c.request("POST", "/v2/sandboxes", json.dumps({"templateID": "default", "secrets": wanted}),
                      {"X-API-Key": tokens[name], "Content-Type": "application/json"})
            answer = c.getresponse()
            told.append(answer.read().decode())
            c.close()
            return answer.status

        told = []
        wait_for(lambda: create("other", []) == 201, what="the keys are known")
        assert create("ci", ["PAID"]) == 201
        assert create("ci", ["OPENAI_API_KEY"]) == create("other", ["PAID"]) == 400
        assert d.create(secrets=["PAID", "OPENAI_API_KEY"])
        # What is wrong with the host is nothing for a key.
        keys.chmod(0o666)
        assert create("ci", ["PAID"]) == 400 and "cubbyd's log says why" in told[-1] and "chmod" not in told[-1]
        refuse(d, "chmod", secrets=["PAID"])


def test_forks_go_on_with_what_their_parent_has(daemon):
    made = daemon.create(secrets=["PAID"])
    answer = daemon.request("POST", f"/sandboxes/{made['sandboxID']}/fork", {"count": 1})
    assert answer.status == 201, answer.body
    child = answer.json[0]["sandbox"]
    assert daemon.record(child["sandboxID"])["secrets"] == daemon.record(made["sandboxID"])["secrets"]
    assert init_of(daemon, child)["caBundle"] == init_of(daemon, made)["caBundle"]


def test_snapshots_have_nothing_of_it(daemon):
    made = daemon.create(secrets=["PAID"])
    record = daemon.record(made["sandboxID"])["secrets"]
    answer = daemon.request("POST", f"/sandboxes/{made['sandboxID']}/snapshots", {})
    assert answer.status == 201, answer.body
    snapshot = answer.json["snapshotID"]
    text = (daemon.home / "snapshots" / snapshot.partition(":")[0] / "snapshot.json").read_text()
    assert "PRIVATE" not in text and record["given"]["PAID"]["placeholder"] not in text
    # Without secrets it no longer trusts the authority of the one it was made from.
    bare = daemon.create(templateID=snapshot)
    assert init_of(daemon, bare)["caBundle"] == "" and "secrets" not in daemon.record(bare["sandboxID"])
    again = daemon.create(templateID=snapshot, secrets=["PAID"])
    other = daemon.record(again["sandboxID"])["secrets"]
    assert other["given"]["PAID"]["placeholder"] != record["given"]["PAID"]["placeholder"]
    assert other["ca"] != record["ca"]


def test_it_is_kept_over_hibernation_and_a_new_daemon(daemon):
    made = daemon.create(secrets=["PAID"])
    before = daemon.record(made["sandboxID"])["secrets"]
    assert daemon.request("POST", f"/sandboxes/{made['sandboxID']}/pause", {"depth": "hibernate"}).status == 204
    daemon.process.kill()
    daemon.process.wait()
    daemon.start()
    assert daemon.request("POST", f"/sandboxes/{made['sandboxID']}/resume", {}).status == 201
    assert daemon.record(made["sandboxID"])["secrets"] == before


def test_a_secret_that_is_gone_when_it_wakes(daemon, keys):
    made = daemon.create(secrets=["PAID", "OPENAI_API_KEY"])
    assert daemon.request("POST", f"/sandboxes/{made['sandboxID']}/pause", {"depth": "hibernate"}).status == 204
    (keys.parent / "openai").unlink()
    answer = daemon.request("POST", f"/sandboxes/{made['sandboxID']}/resume", {})
    assert answer.status == 400 and "OPENAI_API_KEY cannot be used" in answer.json["message"], answer.body
    assert "open the secret's file: No such file" in answer.json["message"] and "try again" in answer.json["message"]
    assert str(keys.parent) not in answer.body.decode() and str(keys.parent / "openai") in complaint(daemon)
    assert daemon.get(made["sandboxID"]).json["state"] == "paused"
    logs = daemon.request("GET", f"/sandboxes/{made['sandboxID']}/logs").body.decode()
    assert "was not started" in logs and "OPENAI_API_KEY" in logs
    # Once it is there again the sandbox wakes.
    (keys.parent / "openai").write_text(VALUE + "\n")
    assert daemon.request("POST", f"/sandboxes/{made['sandboxID']}/resume", {}).status == 201


def test_a_secret_that_is_gone_when_it_forks(daemon, keys):
    made = daemon.create(secrets=["OPENAI_API_KEY"])
    (keys.parent / "openai").unlink()
    fork = f"/sandboxes/{made['sandboxID']}/fork"
    answer = daemon.request("POST", fork, {"count": 1})
    assert "OPENAI_API_KEY cannot be used" in answer.body.decode(), answer.body
    assert "sandbox" not in answer.json[0]
    wait_for(lambda: len(daemon.directories()) == 1, what="the end of the child's directory")
    (keys.parent / "openai").write_text(VALUE + "\n")
    assert "sandbox" in daemon.request("POST", fork, {"count": 1}).json[0]


def test_not_from_the_pool(keys):
    """A machine of the pool has no cubby-egress."""
    with Daemon("--secrets", str(keys), "--pool", "default=1:2", env={"CUBBY_TEST_PAID": OTHER}) as d:
        wait_for(lambda: len(d.directories()) >= 1 and "pool" in d.log.read_text(), what="a pool")
        made = d.create(secrets=["PAID"])
        assert "PAID_TOKEN" in init_of(d, made)["envVars"]
        assert any("sandbox.created" in line and made["sandboxID"] in line
                   for line in d.log.read_text().splitlines())
