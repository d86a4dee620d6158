# SPDX-License-Identifier: Apache-2.0
"""cubbyd: requests for sandboxes that are paused, or that not everybody may reach; over TCP."""

import base64
import hashlib
import http.client
import json
import os
import socket
import threading
import urllib.parse

import pytest
from websockets.sync.client import connect

from cubbyd import Daemon, Guest, read_all, read_head, wait_for
from cubbyd_fixtures import daemon  # noqa: F401 (a fixture)
from websocket_guest import WebSocketGuest


@pytest.fixture(scope="module")
def shared():
    with Daemon("--listen", "127.0.0.1:0") as d:
        yield d


def pause(daemon, sandbox):
    answer = daemon.request("POST", f"/sandboxes/{sandbox}/pause", {})
    assert answer.status == 204, answer.body


def state(daemon, sandbox):
    return daemon.get(sandbox).json["state"]


def waking(daemon, **fields):
    made = daemon.create(autoPause=True, autoResume={"enabled": True}, **fields)
    return made, made["sandboxID"], made["envdAccessToken"]


def answer_head(heads):
    def serve(connection):
        heads.append(read_head(connection)[0])
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi")
    return serve


# ---- waking
def test_a_request_wakes(daemon):
    _, sandbox, token = waking(daemon)
    for body in (b"", b"x" * 200_000):
        pause(daemon, sandbox)
        assert state(daemon, sandbox) == "paused"
        answer = daemon.through(sandbox, "POST", "/echo", body, token=token)
        assert answer.status == 200 and answer.body == body
        assert state(daemon, sandbox) == "running"


def test_many_requests_wake_once(daemon):
    _, sandbox, token = waking(daemon)
    pause(daemon, sandbox)
    answers = []
    threads = [threading.Thread(target=lambda: answers.append(
        daemon.through(sandbox, path="/whoami", token=token))) for _ in range(30)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [(a.status, a.body) for a in answers] == [(200, b"envd")] * 30


def test_a_request_for_a_port_wakes(daemon):
    _, sandbox, _ = waking(daemon)
    heads = []
    with Guest(answer_head(heads)) as guest:
        pause(daemon, sandbox)
        assert daemon.through(sandbox, port=guest.port).body == b"hi"
    assert state(daemon, sandbox) == "running"


def test_who_leaves_while_it_wakes(daemon):
    _, sandbox, token = waking(daemon)
    pause(daemon, sandbox)
    for _ in range(5):
        daemon.open(sandbox, 49983, "GET /whoami HTTP/1.1", f"X-Access-Token: {token}\r\n").close()
    wait_for(lambda: state(daemon, sandbox) == "running", 30, "it is awake")
    assert daemon.through(sandbox, path="/whoami", token=token).status == 200


def test_asking_for_its_health_does_not_wake(daemon):
    _, sandbox, _ = waking(daemon)
    pause(daemon, sandbox)
    for method in ("GET", "HEAD"):
        answer = daemon.through(sandbox, method)
        assert answer.status == 502
    assert daemon.through(sandbox).json == {
        "sandboxId": sandbox, "code": 502, "error_code": "sandbox_paused",
        "message": "The sandbox was not found running, because it is paused; "
                   f'Sandbox.connect("{sandbox}") resumes it'}
    assert state(daemon, sandbox) == "paused"


def test_paused_without_waking(daemon):
    made = daemon.create()
    sandbox = made["sandboxID"]
    pause(daemon, sandbox)
    for path, port in (("/health", 49983), ("/whoami", 49983), ("/", 8000)):
        answer = daemon.through(sandbox, path=path, port=port, token=made["envdAccessToken"])
        assert answer.status == 502 and answer.json["error_code"] == "sandbox_paused"
    assert state(daemon, sandbox) == "paused"
    assert daemon.request("POST", f"/sandboxes/{sandbox}/connect", {"timeout": 60}).status == 201
    assert daemon.through(sandbox).status == 204


def test_pausing_cuts_streams(daemon):
    made = daemon.create()
    s = daemon.open(made["sandboxID"], 49983, "POST /filesystem.Filesystem/WatchDir HTTP/1.1",
                    f"X-Access-Token: {made['envdAccessToken']}\r\nContent-Length: 0\r\n")
    head, rest = read_head(s)
    assert " 200 " in head
    pause(daemon, made["sandboxID"])
    assert not (rest + read_all(s)).endswith(b"0\r\n\r\n")
    s.close()


def test_what_was_passed_on_is_not_to_be_sent_again(daemon):
    _, sandbox, _ = waking(daemon)
    seen, came, answers = [], threading.Event(), []

    def serve(connection):
        seen.append(read_head(connection)[0])
        came.set()
        read_all(connection)  # no answer ever
    with Guest(serve) as guest:
        thread = threading.Thread(target=lambda: answers.append(
            daemon.through(sandbox, "POST", "/charge", b"once", port=guest.port)))
        thread.start()
        assert came.wait(30)
        pause(daemon, sandbox)
        thread.join()
    assert answers[0].status == 502 and "Retry-After" not in answers[0].headers
    assert answers[0].json["sandboxId"] == sandbox and "error_code" not in answers[0].json
    assert "may have acted on" in answers[0].json["message"] and len(seen) == 1


# ---- who may
def envd_signature(made, expires):
    text = f"/x:read:user:{made['envdAccessToken']}:{expires}"
    return "v1_" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode().rstrip("=")


def signed(made, expires):
    return "/files?" + urllib.parse.urlencode({
        "path": "/x", "username": "user", "signature": envd_signature(made, expires),
        "signature_expiration": expires})


def test_a_stranger_does_not_wake_envd(daemon):
    made, sandbox, token = waking(daemon)
    other = daemon.create()["envdAccessToken"]
    pause(daemon, sandbox)
    for method, path, headers in (
            ("GET", "/whoami", {}), ("GET", "/whoami", {"X-Access-Token": other}),
            ("POST", "/process.Process/Start", {}), ("POST", "/health", {}),
            ("GET", "/files?path=/x", {}), ("GET", signed(made, 1000), {}),
            ("GET", signed(made, "x"), {}), ("POST", signed(made, 9 ** 10), {}),
            ("GET", signed(made, 9 ** 10).replace("%2Fx", "%2Fy"), {}),
            ("GET", signed(made, 9 ** 10).replace("/files", "/files/compose"), {}),
            ("GET", signed(made, 9 ** 10), {"X-Access-Token": other})):
        answer = daemon.through(sandbox, method, path, headers=headers)
        assert answer.status == 403 and answer.json["code"] == 403, path
        assert "X-Access-Token" in answer.json["message"]
        assert state(daemon, sandbox) == "paused", path
    assert daemon.request("GET", signed(made, 1000)).status == 403  # which finds its sandbox
    assert state(daemon, sandbox) == "paused"
    assert daemon.request("GET", signed(made, 9 ** 10)).status == 200
    assert state(daemon, sandbox) == "running"
    pause(daemon, sandbox)
    assert daemon.through(sandbox, path=signed(made, 9 ** 10)).status == 200
    pause(daemon, sandbox)
    assert daemon.through(sandbox, path="/whoami", token=token).status == 200


def test_a_preflight_does_not_wake_and_does_not_enter(daemon):
    _, sandbox, token = waking(daemon, network={"allowPublicTraffic": False})
    asked = {"Origin": "https://x.example", "Access-Control-Request-Method": "POST",
             "Access-Control-Request-Headers": "x-access-token"}
    heads = []
    with Guest(answer_head(heads)) as guest:
        for asleep in (False, True):
            if asleep:
                pause(daemon, sandbox)
            for port in (guest.port, 49983) if asleep else (guest.port,):
                answer = daemon.through(sandbox, "OPTIONS", "/whoami", port=port, headers=asked)
                assert answer.status == 204 and answer.body == b""
                assert answer.headers["Access-Control-Allow-Origin"] == "*"
                assert answer.headers["Access-Control-Allow-Headers"] == "x-access-token"
                assert "POST" in answer.headers["Access-Control-Allow-Methods"]
    assert state(daemon, sandbox) == "paused" and heads == []
    assert daemon.through(sandbox, path="/whoami", token=token).status == 200


def test_a_preflight_of_a_port_for_all_wakes(daemon):
    """Only its program can answer the preflight, as it does any other request."""
    _, sandbox, _ = waking(daemon)
    heads = []
    pause(daemon, sandbox)
    with Guest(answer_head(heads)) as guest:
        answer = daemon.through(sandbox, "OPTIONS", "/", port=guest.port, headers={
            "Origin": "https://x.example", "Access-Control-Request-Method": "POST"})
    assert answer.status == 200 and len(heads) == 1 and heads[0].startswith("OPTIONS / ")
    assert "Access-Control-Allow-Origin" not in answer.headers
    assert state(daemon, sandbox) == "running"


def test_traffic_token(daemon):
    made, sandbox, token = waking(daemon, network={"allowPublicTraffic": False})
    traffic = made["trafficAccessToken"]
    heads = []
    with Guest(answer_head(heads)) as guest:
        for wrong in (None, "", "x" * len(traffic), token):
            headers = {} if wrong is None else {"e2b-traffic-access-token": wrong}
            answer = daemon.through(sandbox, port=guest.port, headers=headers)
            assert answer.status == 403 and answer.json["code"] == 403
            assert answer.json["sandboxId"] == sandbox
            assert "e2b-traffic-access-token" in answer.json["message"]
        answer = daemon.through(sandbox, port=guest.port,
                                headers={"E2B-Traffic-Access-Token": traffic})
        assert answer.status == 200 and traffic not in heads[0]
        assert daemon.through(sandbox, path="/whoami", token=token).status == 200  # envd's port
        pause(daemon, sandbox)
        assert daemon.through(sandbox, port=guest.port).status == 403
        assert state(daemon, sandbox) == "paused"  # a stranger does not wake it


def test_masked_host(daemon):
    made = daemon.create(network={"maskRequestHost": "app.example:${PORT}"})
    heads = []
    with Guest(answer_head(heads)) as guest:
        host = f"{guest.port}-{made['sandboxID']}.localhost"
        assert daemon.request("GET", "/", headers={"Host": host}).status == 200
    assert f"Host: app.example:{guest.port}\r\n" in heads[0]
    assert f"X-Forwarded-Host: {host}" in heads[0]
    assert heads[0].count("Host:") == 2


# ---- over TCP
def address(daemon):
    url = urllib.parse.urlsplit((daemon.home / "cubbyd.url").read_text().strip())
    return url.hostname, url.port


def test_no_api_key_is_needed_for_a_port(daemon):
    made = daemon.create()
    heads = []
    with Guest(answer_head(heads)) as guest:
        connection = http.client.HTTPConnection(*address(daemon), timeout=30)
        connection.request("GET", "/x", headers={
            "Host": f"{guest.port}-{made['sandboxID']}.localhost", "X-Forwarded-For": "192.0.2.1"})
        assert connection.getresponse().read() == b"hi"
        connection.request("GET", f"/sandboxes/{made['sandboxID']}")
        assert connection.getresponse().status == 401  # but for the control plane
        connection.close()
    assert "X-Forwarded-For: 192.0.2.1, 127.0.0.1\r\n" in heads[0] + "\r\n"


def test_websocket_over_tcp(daemon):
    made = daemon.create()
    with WebSocketGuest() as guest, socket.create_connection(address(daemon), timeout=30) as s:
        url = f"ws://{guest.port}-{made['sandboxID']}.localhost:{address(daemon)[1]}/"
        with connect(url, sock=s, proxy=None, open_timeout=30) as ws:
            ws.send("hello")
            assert ws.recv(30) == "hello"


def test_a_client_cannot_hide_behind_addresses(daemon):
    made = daemon.create()
    heads = []
    with Guest(answer_head(heads)) as guest:
        connection = http.client.HTTPConnection(*address(daemon), timeout=30)
        connection.putrequest("GET", "/x", skip_host=True)
        connection.putheader("Host", f"{guest.port}-{made['sandboxID']}.localhost")
        for forged in ("192.0.2.1, 192.0.2.2", "192.0.2.3"):
            connection.putheader("X-Forwarded-For", forged)
        connection.endheaders()
        assert connection.getresponse().read() == b"hi"
        connection.close()
    said = [line for line in heads[0].split("\r\n") if line.lower().startswith("x-forwarded-for")]
    assert said == ["X-Forwarded-For: 192.0.2.1, 192.0.2.2, 192.0.2.3, 127.0.0.1"]


def test_a_host_name_that_is_none_of_a_sandbox(daemon):
    for host in ("10-0-0-5.default.pod.cluster.local:3000", "3000-me-repo-x1.ws.example"):
        answer = daemon.request("GET", "/health", headers={"Host": host})
        assert answer.status == 200 and answer.json["server"] == "cubbyd"
    answer = daemon.request("GET", "/health", headers={"Host": f"3000-{'a' * 20}.ws.example"})
    assert answer.status == 502 and answer.json["error_code"] == "sandbox_not_found"


def status_of(path, daemon, key):
    connection = http.client.HTTPConnection(*address(daemon), timeout=30)
    try:
        connection.request("GET", path, headers={"Authorization": f"Bearer {key}"})
        return connection.getresponse().status
    finally:
        connection.close()


def add_key(daemon, name):
    """Adds a key; the daemon may not have read it yet."""
    key = "e2b_" + os.urandom(20).hex()
    file = daemon.home / "keys.json"
    keys = json.loads(file.read_text())["tokens"] if file.exists() else []
    keys.append({"name": name, "sha256": hashlib.sha256(key.encode()).hexdigest()})
    fresh = daemon.home / "keys.fresh"
    fresh.write_text(json.dumps({"tokens": keys}))
    fresh.chmod(0o600)
    fresh.rename(file)
    return key


def test_an_api_key_does_not_reach_a_guest(daemon):
    made = daemon.create()
    key, heads = add_key(daemon, "somebody"), []
    other = add_key(daemon, "other")
    wait_for(lambda: status_of("/v2/sandboxes", daemon, key) == 200, 30, "it is one")
    with Guest(answer_head(heads)) as guest:
        def ask(headers):
            connection = http.client.HTTPConnection(*address(daemon), timeout=30)
            connection.request("GET", "/x", headers={
                "Host": f"{guest.port}-{made['sandboxID']}.localhost", **headers})
            assert connection.getresponse().read() == b"hi"
            connection.close()
            return heads[-1]

        for headers in ({"Authorization": "Bearer its-own"},
                        {"Authorization": "Bearer its-own", "X-API-Key": key}):
            assert "Authorization: Bearer its-own" in ask(headers) and key not in heads[-1]
        for headers in ({"Authorization": f"Bearer {key}"}, {"Authorization": f"bearer  {other}"},
                        {"Authorization": f"Bearer {key}", "X-API-Key": other},
                        {"Authorization": f"Bearer {key}", "X-API-Key": "none"}):
            assert "authorization" not in ask(headers).lower() and "e2b_" not in heads[-1]
        daemon.through(made["sandboxID"], path="/x", port=guest.port,
                       headers={"Authorization": f"Bearer {key}"})  # on the unix socket
        assert len(heads) == 7 and key not in heads[-1]
        # One that is new, while nobody asks the control plane anything.
        new = add_key(daemon, "new")
        wait_for(lambda: new not in ask({"Authorization": f"Bearer {new}"}), 30, "it is noticed")
