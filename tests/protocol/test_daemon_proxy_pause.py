# SPDX-License-Identifier: Apache-2.0
"""cubbyd: requests for sandboxes that are paused, or that not everybody may reach; over TCP."""

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
        "sandboxId": sandbox, "message": "The sandbox was not found", "code": 502,
        "error_code": "sandbox_paused"}
    assert state(daemon, sandbox) == "paused"


def test_paused_without_waking(daemon):
    made = daemon.create()
    sandbox = made["sandboxID"]
    pause(daemon, sandbox)
    for path, port in (("/health", 49983), ("/whoami", 49983), ("/", 8000)):
        answer = daemon.through(sandbox, path=path, port=port, token=made["envdAccessToken"])
        assert answer.status == 502 and answer.json["message"] == "The sandbox was not found"
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


# ---- who may
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


def status_of(path, daemon, key):
    connection = http.client.HTTPConnection(*address(daemon), timeout=30)
    try:
        connection.request("GET", path, headers={"Authorization": f"Bearer {key}"})
        return connection.getresponse().status
    finally:
        connection.close()


def test_an_api_key_does_not_reach_a_guest(daemon):
    made = daemon.create()
    key, heads = "e2b_" + os.urandom(20).hex(), []
    digest = hashlib.sha256(key.encode()).hexdigest()
    file = daemon.home / "keys.json"
    file.write_text(json.dumps({"tokens": [{"name": "somebody", "sha256": digest}]}))
    file.chmod(0o600)
    wait_for(lambda: status_of("/v2/sandboxes", daemon, key) == 200, 30, "it is one")
    with Guest(answer_head(heads)) as guest:
        for headers in ({"Authorization": f"Bearer {key}"}, {"Authorization": "Bearer its-own"},
                        {"Authorization": "Bearer its-own", "X-API-Key": key}):
            connection = http.client.HTTPConnection(*address(daemon), timeout=30)
            connection.request("GET", "/x", headers={
                "Host": f"{guest.port}-{made['sandboxID']}.localhost", **headers})
            assert connection.getresponse().read() == b"hi"
            connection.close()
    assert "Authorization" not in heads[0] and key not in "".join(heads)
    assert all("Authorization: Bearer its-own" in head for head in heads[1:])
