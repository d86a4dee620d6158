# SPDX-License-Identifier: Apache-2.0
"""envd's REST side: health, /init and its rules, tokens, users, CORS, requests that are refused."""

import base64
import hashlib
import json
import os
import signal
import subprocess
import time
import urllib.parse

import pytest

from envd_peer import ENVD, IS_ROOT, ME, Envd, basic, wait_for

ENTRY = "/filesystem.Filesystem/Stat"
JSON = {"Content-Type": "application/json"}
UNAUTHORIZED = ("unauthorized access, please provide a valid access token or method signing if "
                "supported")


@pytest.fixture
def envd():
    e = Envd()
    yield e
    e.close()


def test_version_and_help():
    out = subprocess.run([ENVD, "--version"], capture_output=True, check=True, text=True).stdout
    assert out.strip().count(".") == 2
    assert "--port" in subprocess.run([ENVD, "--help"], capture_output=True, check=True,
                                      text=True).stdout
    assert subprocess.run([ENVD, "--nonsense"], capture_output=True, check=False).returncode == 2


def test_health(envd):
    status, headers, body = envd.request("GET", "/health")
    assert (status, headers["cache-control"], body) == (204, "no-store", b"")


def test_unix_socket(tmp_path):
    e = Envd("--unix", tmp_path / "s")
    out = subprocess.run(["python3", "-c", (
        "import socket,sys;s=socket.socket(socket.AF_UNIX);s.connect(sys.argv[1]);"
        "s.sendall(b'GET /health HTTP/1.1\\r\\nHost: x\\r\\nConnection: close\\r\\n\\r\\n');"
        "print(s.recv(99))"), tmp_path / "s"], capture_output=True, check=True, text=True).stdout
    e.close()
    assert "204" in out


def test_unknown_paths_and_methods(envd):
    assert envd.request("GET", "/nothing")[0] == 404
    assert envd.request("POST", "/process.Process/Nothing", "{}", JSON)[0] == 404
    assert envd.request("POST", "/health")[0] == 405
    assert envd.request("DELETE", "/files?path=x")[0] == 405
    status, headers, _ = envd.request("GET", ENTRY)
    assert (status, headers["allow"]) == (405, "POST")


def test_wrong_types(envd):
    status, headers, _ = envd.request("POST", ENTRY, "{}", {"Content-Type": "application/xml"})
    assert (status, headers["accept-post"]) == (415, "application/json, application/proto")
    status, headers, _ = envd.request("POST", "/process.Process/Start", "{}", JSON)
    assert (status, headers["accept-post"]) == (
        415, "application/connect+json, application/connect+proto")
    assert envd.request("POST", ENTRY, '{"path":"/"}',
                        {"Content-Type": "application/json; charset=utf-8"})[0] == 200


@pytest.mark.parametrize("body", ["", "[]", "{", "1", '{"path":1}', '{"a":1,"a":2}',
                                  '{"path":"\\u0000"}'])
def test_bad_json(envd, body):
    status, answer = envd.json("POST", ENTRY, body, JSON)
    assert (status, answer["code"]) == (400, "invalid_argument")


def test_protocol_headers(envd):
    def code(headers):
        status, answer = envd.json("POST", ENTRY, '{"path":"/"}', {**JSON, **headers})
        return status, answer.get("code")
    assert code({"Connect-Protocol-Version": "1"}) == (200, None)
    assert code({"Connect-Protocol-Version": "2"}) == (400, "invalid_argument")
    assert code({"Connect-Timeout-Ms": "1000"}) == (200, None)
    assert code({"Connect-Timeout-Ms": "12345678901"}) == (400, "invalid_argument")
    assert code({"Connect-Timeout-Ms": "-1"}) == (400, "invalid_argument")
    assert code({"Content-Encoding": "br"}) == (501, "unimplemented")
    assert code({"Content-Encoding": "gzip"}) == (400, "invalid_argument"), "it is none"
    assert code({"Content-Encoding": "identity"}) == (200, None)


def test_too_large_a_request(envd):
    status, _, _ = envd.request("POST", ENTRY, b'{"path":"' + b"x" * (5 << 20) + b'"}', JSON)
    assert status == 429


def test_cors(envd):
    status, headers, _ = envd.request("OPTIONS", "/process.Process/Start", headers={
        "Origin": "http://a", "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "x-access-token"})
    assert status == 204
    assert headers["access-control-allow-origin"] == "*"
    assert "POST" in headers["access-control-allow-methods"]
    assert headers["access-control-allow-headers"] == "x-access-token"
    assert headers["access-control-max-age"] == "7200"
    assert envd.request("GET", "/health", headers={"Origin": "http://a"})[1][
        "access-control-allow-origin"] == "*"


def test_metrics(envd):
    status, m = envd.json("GET", "/metrics")
    assert status == 200
    assert set(m) == {"ts", "cpu_count", "cpu_used_pct", "mem_total_mib", "mem_used_mib", "mem_total",
                      "mem_used", "mem_cache", "disk_used", "disk_total"}
    assert abs(m["ts"] - time.time()) < 60 and m["mem_total"] > m["mem_cache"] > 0
    assert m["cpu_count"] >= 1 and 0 <= m["cpu_used_pct"] <= 100
    assert m["mem_total"] > m["mem_used"] > 0 and m["mem_total_mib"] == m["mem_total"] >> 20
    assert m["disk_total"] >= m["disk_used"] > 0


def test_metrics_are_of_a_span_that_was(envd):
    """The first answer does not measure the time since boot; callers may leave while envd measures."""
    for _ in range(3):
        with envd.connect() as s:
            s.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
    busy = subprocess.Popen(["sh", "-c", "while :; do :; done"])
    try:
        used = wait_for(lambda: envd.json("GET", "/metrics")[1]["cpu_used_pct"], 30, "some use")
        assert 0 < used <= 100
    finally:
        busy.kill()
        busy.wait()


# ---- /init


def test_init_answers(envd):
    status, headers, body = envd.init()
    assert (status, body, headers["cache-control"]) == (204, b"", "no-store")
    assert headers["x-envd-version"].count(".") == 2
    assert envd.request("POST", "/init", b"")[0] == 204


@pytest.mark.parametrize("body", ["{", "[]", '{"accessToken":1}', '{"accessToken":""}',
                                  '{"accessToken":"a\\\\b"}', '{"envVars":{"A":1}}',
                                  '{"timestamp":"yesterday"}', '{"entropy":"*"}',
                                  '{"lifecycleID":1}', '{"caBundle":"-----BEGIN"}',
                                  '{"hyperloopIP":"192.0.2.1"}', '{"volumeMounts":{}}',
                                  '{"volumeMounts":[{"nfs_target":"a:/b","path":"/c"}]}'])
def test_init_refuses(envd, body):
    status, answer = envd.json("POST", "/init", body)
    assert (status, answer["code"]) == (400, 400)
    assert envd.request("GET", "/envs")[0] == 200, "nothing was applied"


def test_token(envd):
    assert envd.init(accessToken="secret", envVars={"A": "1"})[0] == 204
    for target, method in [("/envs", "GET"), (ENTRY, "POST"), ("/nothing", "GET")]:
        for headers in [{}, {"X-Access-Token": "wrong"}, {"X-Access-Token": "secretx"}]:
            status, answer = envd.json(method, target, "{}", {**JSON, **headers})
            assert (status, answer) == (401, {"code": 401, "message": UNAUTHORIZED})
    assert envd.request("GET", "/health")[0] == 204
    envd.token = "secret"
    assert envd.json("GET", "/envs") == (200, {"A": "1"})
    assert envd.fs("Stat", path="/")[0] == 200


def test_token_of_files(envd, tmp_path):
    (tmp_path / "f").write_text("x")
    target = envd.files(str(tmp_path / "f"))
    assert envd.init(accessToken="secret")[0] == 204

    def message(method, target, headers=None):
        status, answer = envd.json(method, target, None, headers)
        return status, answer["code"], answer["message"]
    for method in ["GET", "POST"]:
        assert message(method, target) == (401, 401, "missing signature query parameter")
        assert message(method, target + "&signature=v1_x") == (401, 401, "invalid signature")
        assert message(method, target, {"X-Access-Token": "no"}) == (
            401, 401, "access token present in header but does not match")
    assert envd.request("GET", target, None, {"X-Access-Token": "secret"})[2] == b"x"


def sign(path, op, user="", expires=None, token="secret"):
    text = f"{path}:{op}:{user}:{token}" + (f":{expires}" if expires is not None else "")
    digest = hashlib.sha256(text.encode()).digest()
    return "v1_" + base64.b64encode(digest).decode().rstrip("=")


def test_signed_urls(envd, tmp_path):
    path = str(tmp_path / "f")
    envd.init(accessToken="secret")
    write, read = sign(path, "write"), sign(path, "read")
    octets = {"Content-Type": "application/octet-stream"}
    assert envd.request("POST", envd.files(path, signature=write), b"data", octets)[0] == 200
    assert envd.request("GET", envd.files(path, signature=read))[::2] == (200, b"data")
    assert envd.request("HEAD", envd.files(path, signature=read))[0] == 200
    named = envd.files(path, username=ME, signature=sign(path, "read", ME))
    assert envd.request("GET", named)[2] == b"data"
    part = (b'--B\r\nContent-Disposition: form-data; name=file; filename="%s"\r\n\r\nmore\r\n--B--\r\n'
            % os.fsencode(path))
    assert envd.request("POST", "/files?signature=" + urllib.parse.quote(sign("", "write")), part,
                        {"Content-Type": "multipart/form-data; boundary=B"})[0] == 200
    assert envd.request("GET", envd.files(path, signature=read))[2] == b"more", "no path: any"


def test_signatures_that_do_not_sign(envd, tmp_path):
    path = str(tmp_path / "f")
    (tmp_path / "f").write_text("old")
    envd.init(accessToken="secret")

    def refused(method="GET", **query):
        status, answer = envd.json(method, envd.files(path, **query), None,
                                   {"Content-Type": "application/octet-stream"})
        assert answer["code"] == status
        return status, answer["message"]
    read = sign(path, "read")
    assert refused() == (401, "missing signature query parameter")
    for wrong in ["", read[:-1], read + "=", "v2" + read[2:], sign(path, "write"),
                  sign(path, "read", ME), sign(path, "read", token="other"), sign("f", "read")]:
        assert refused(signature=wrong) == (401, "invalid signature"), wrong
    assert refused("POST", signature=read) == (401, "invalid signature")
    assert refused(signature=read, username=ME) == (401, "invalid signature")
    past, future = int(time.time()) - 10, int(time.time()) + 3600
    assert refused(signature=sign(path, "read", "", past), signature_expiration=past) == (
        401, "signature is already expired")
    assert refused(signature=sign(path, "read", "", past), signature_expiration=future) == (
        401, "invalid signature"), "the time is signed too"
    assert refused(signature=read, signature_expiration=future) == (401, "invalid signature")
    assert refused(signature=read, signature_expiration="soon")[0] == 400
    assert envd.request("GET", envd.files(path, signature=sign(path, "read", "", future),
                                          signature_expiration=future))[2] == b"old"
    status, answer = envd.json("GET", envd.files(path, signature=read), None,
                               {"X-Access-Token": "wrong"})
    assert (status, answer["message"]) == (401, "access token present in header but does not match")
    assert envd.request("POST", "/files/compose?signature=" + sign("", "write"), b"{}")[0] == 401
    assert (tmp_path / "f").read_text() == "old"


def test_who_may_init(envd):
    assert envd.init(accessToken="one")[0] == 204
    status, _, body = envd.init(accessToken="two")
    assert (status, json.loads(body)["message"]) == (401, "access token validation failed")
    status, _, body = envd.init()
    assert (status, json.loads(body)["message"]) == (401, "access token reset not authorized")
    assert envd.init(accessToken="one", envVars={"B": "2"})[0] == 204
    assert envd.init({"X-Access-Token": "one"}, accessToken="two")[0] == 204
    assert envd.init(accessToken="one")[0] == 401
    assert envd.init({"X-Access-Token": "two"})[0] == 204
    assert envd.request("GET", "/envs")[0] == 200, "without a token again"


def test_envs_are_replaced(envd):
    envd.init(envVars={"A": "1", "B": "2"})
    envd.init(envVars={"C": "3"})
    assert envd.json("GET", "/envs")[1] == {"C": "3"}
    envd.init()
    assert envd.json("GET", "/envs")[1] == {"C": "3"}, "absent: as they were"
    assert envd.sh("echo $C").stdout == b"3\n"
    assert envd.sh("echo $C", envs={"C": "4"}).stdout == b"4\n"


def test_init_takes_what_asks_for_nothing(envd):
    assert envd.init(caBundle="", hyperloopIP=None, volumeMounts=[], lifecycleID="l-1")[0] == 204


def published(envd):
    return json.loads((envd.state / "environment.json").read_text())


def test_the_environment_is_published(envd):
    """It is written after the answer, as a whole, and every user can read it."""
    who = {"E2B_SANDBOX": "true", "E2B_SANDBOX_ID": "i1", "E2B_TEMPLATE_ID": "t1"}
    assert envd.init(envVars={**who, "A": "1", "empty": "", "\u00e9": "\u20ac\n"})[0] == 204
    path = envd.state / "environment.json"
    wait_for(path.exists, what="the file")
    assert published(envd) == {**who, "A": "1", "empty": "", "\u00e9": "\u20ac\n"}
    assert path.stat().st_mode & 0o777 == 0o644
    for name, value in who.items():
        at = envd.state / f".{name}"  # written in place: it is there before its content is
        wait_for(lambda: at.exists() and at.read_text() == value, what=name)
    old = path.open()
    before = old.read()
    assert envd.init(envVars={"B": "2"})[0] == 204
    wait_for(lambda: published(envd) == {**who, "B": "2"}, what="the new environment")
    assert envd.json("GET", "/envs")[1] == {**who, "B": "2"}, "what is the sandbox's stays"
    old.seek(0)
    assert old.read() == before, "a new file took its place"
    old.close()
    assert envd.init(envVars={"E2B_SANDBOX_ID": "i2"})[0] == 204
    wait_for(lambda: (envd.state / ".E2B_SANDBOX_ID").read_text() == "i2", what="the new id")
    assert sorted(p.name for p in envd.state.iterdir()) == [
        ".E2B_SANDBOX", ".E2B_SANDBOX_ID", ".E2B_TEMPLATE_ID", "envd.json", "environment.json"]


def test_stale_init_changes_nothing(envd):
    assert envd.init(timestamp="2026-01-02T00:00:00Z", envVars={"A": "new"})[0] == 204
    assert envd.init(timestamp="2026-01-01T00:00:00Z", envVars={"A": "old"})[0] == 204
    assert envd.init(timestamp="2026-01-02T00:00:00Z", envVars={"A": "same"})[0] == 204
    assert envd.json("GET", "/envs")[1] == {"A": "new"}
    assert envd.init(timestamp="2026-01-02T00:00:00.001Z", envVars={"A": "newer"})[0] == 204
    assert envd.init(envVars={"A": "untimed"})[0] == 204
    assert envd.json("GET", "/envs")[1] == {"A": "untimed"}


def test_the_host_is_left_alone(envd):
    name = os.uname().nodename
    assert envd.init(hostname="someone-else", timestamp="2001-01-01T00:00:00Z",
                     entropy="AAAA")[0] == 204
    assert os.uname().nodename == name


def test_state_survives_a_kill(envd, tmp_path):
    envd.init(accessToken="secret", envVars={"A": "1"}, defaultUser=ME,
              defaultWorkdir=str(tmp_path), timestamp="2026-01-02T00:00:00Z")
    state = envd.state / "envd.json"
    assert state.stat().st_mode & 0o777 == 0o600
    envd.process.send_signal(signal.SIGKILL)
    envd.process.wait()
    envd.process.stdout.close()
    envd.start()
    assert envd.request("GET", "/envs")[0] == 401
    envd.token = "secret"
    assert envd.json("GET", "/envs")[1] == {"A": "1"}
    assert envd.sh("pwd").stdout.decode().strip() == str(tmp_path)
    assert envd.init(accessToken="secret", timestamp="2026-01-01T00:00:00Z", envVars={})[0] == 204
    assert envd.json("GET", "/envs")[1] == {"A": "1"}, "the guard is kept too"


def test_broken_state_is_not_ignored(tmp_path):
    (tmp_path / "envd.json").write_text("{")
    run = subprocess.run([ENVD, "--port", "0", "--state-dir", tmp_path], capture_output=True,
                         text=True, check=False, timeout=20)
    assert run.returncode == 1 and "envd.json" in run.stderr


# ---- users


def test_unknown_users(envd):
    status, answer = envd.rpc("filesystem.Filesystem/ListDir", {"path": "/"}, basic("nosuch"))
    assert (status, answer) == (401, {"code": "unauthenticated",
                                      "message": "invalid username: 'nosuch'"})
    stream = envd.stream("Start", {"process": {"cmd": "true"}}, basic("nosuch"))
    assert list(stream) == [] and stream.status == 200
    assert stream.end["error"]["code"] == "unauthenticated"
    stream.close()
    status, answer = envd.json("GET", "/files?path=x&username=nosuch")
    assert (status, answer["code"]) == (401, 401)
    assert answer["message"].startswith("error looking up user 'nosuch': ")
    envd.init(defaultUser="nosuch")
    status, answer = envd.fs("Stat", path="/")
    assert (status, answer["message"]) == (401, "invalid default user: 'nosuch'")


def test_other_authorization_is_not_looked_at(envd):
    for value in ["Bearer x", "Basic ***", "Basic " + "eA=="]:
        assert envd.rpc("filesystem.Filesystem/Stat", {"path": "/"},
                        {"Authorization": value})[0] == 200


@pytest.mark.skipif(not IS_ROOT, reason="only root can become another user")
def test_commands_run_as_the_user(envd):
    script = "id -un; id -Gn; echo $HOME $USER $LOGNAME; grep -c . /proc/self/oom_score_adj"
    out = envd.sh(script, headers=basic("daemon"), cwd="/").stdout.decode().splitlines()
    assert out[:3] == ["daemon", "daemon", "/usr/sbin daemon daemon"]
    groups = subprocess.run(["id", "-G", "root"], capture_output=True, text=True, check=True).stdout
    assert envd.sh("id -G").stdout.decode() == groups
