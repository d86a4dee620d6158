# SPDX-License-Identifier: Apache-2.0
"""cubbyd: ports of a sandbox as URLs of the host: how long they stay open, what passes, limits,
restarts.
"""

import contextlib
import hashlib
import http.client
import json
import os
import signal
import socket
import ssl
import subprocess
import threading
import urllib.error
import urllib.request

import pytest
from websockets.sync.client import connect

from cubbyd import Daemon, Guest, Web, closed_port, read_all, read_head, wait_for
from cubbyd_fixtures import daemon, made, sandbox, shared  # noqa: F401 (fixtures)
from proc import descriptors
from receive import receive, receive_until
from test_daemon_admission import Keyed, exceeds
from tls_pair import make_pair
from websocket_guest import WebSocketGuest

LOOPBACK = "127.0.0.9"  # what a machine that is a process has for the guest's loopback
PORTS_MAX = 32
CONNECTIONS_MAX = 256


def expose(daemon, sandbox, port, status=201, **more):
    answer = daemon.request("POST", f"/sandboxes/{sandbox}/ports", {"port": port, **more}, timeout=60)
    assert answer.status == status, answer.body
    return answer.json


def listed(daemon, sandbox):
    answer = daemon.request("GET", f"/sandboxes/{sandbox}/ports")
    assert answer.status == 200
    return answer.json


def fetch(url, context=None, **headers):
    """(status, headers, body)"""
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=30, context=context) as answer:
            return answer.status, answer.headers, answer.read()
    except urllib.error.HTTPError as e:
        return e.code, e.headers, e.read()


def ask(port, head, timeout=30):
    """The whole answer to these bytes."""
    with socket.create_connection(("127.0.0.1", port), timeout) as s:
        s.sendall(head)
        s.shutdown(socket.SHUT_WR)
        return read_all(s)


def ssl_ask(port, context, head):
    with socket.create_connection(("127.0.0.1", port), 30) as s:
        with context.wrap_socket(s, server_hostname="localhost") as tls:
            tls.sendall(head.encode())
            return read_all(tls)


def files_of(pid):
    with contextlib.suppress(FileNotFoundError):  # the process has ended
        return set(descriptors(pid).values())
    return set()


def is_closed(daemon, port):
    """Whether neither the daemon nor one of its machines listens there. On a busy machine another
    program may have been given the port since, so a connection would prove nothing."""
    with open("/proc/net/tcp", encoding="ascii") as table:
        rows = [line.split() for line in table.readlines()[1:]]
    listening = {f"socket:[{row[9]}]" for row in rows if row[3] == "0A" and int(row[1].split(":")[1], 16) == port}
    pids = daemon.machines() + ([daemon.process.pid] if daemon.process else [])
    return not any(listening & files_of(pid) for pid in pids)


# ---- what it is
def test_a_url(daemon, sandbox):
    with Web() as guest:
        port = expose(daemon, sandbox, guest.port)
        number = port["hostPort"]
        assert port == {"port": guest.port, "hostPort": number, "protocol": "http", "token": None,
                        "url": f"http://127.0.0.1:{number}",
                        "browserUrl": f"http://{guest.port}-{sandbox}.localhost:{number}/"}
        status, _, body = fetch(port["url"] + "/a%20b?c=d")
        assert status == 200 and body == b"hello\n"
        head = guest.heads[0]
        assert head.startswith("GET /a%20b?c=d HTTP/1.1\r\n") and f"Host: 127.0.0.1:{number}" in head
        assert "X-Forwarded-For: 127.0.0.1" in head
        # The same asked again is no second one; what is otherwise is refused.
        assert expose(daemon, sandbox, guest.port, 200) == port
        assert expose(daemon, sandbox, guest.port, 409, token=True)["error_code"] == "port_exposed"
        assert listed(daemon, sandbox) == [port]
        assert daemon.request("DELETE", f"/sandboxes/{sandbox}/ports?port={guest.port}").status == 204
        assert listed(daemon, sandbox) == [] and is_closed(daemon, number)
        answer = daemon.request("DELETE", f"/sandboxes/{sandbox}/ports?port={guest.port}")
        assert answer.status == 404 and answer.json["error_code"] == "port_not_exposed"


def test_a_server_of_the_guests_loopback(daemon, sandbox):
    """Development servers listen there."""
    with Web(address=LOOPBACK) as guest:
        url = expose(daemon, sandbox, guest.port, wait=30)["url"]
        assert fetch(url)[2] == b"hello\n"


def test_the_port_of_the_host_may_be_chosen(daemon, sandbox):
    with Web() as guest, closed_port() as free, closed_port() as taken:
        number = free.getsockname()[1]
        free.close()
        assert expose(daemon, sandbox, guest.port, hostPort=number)["hostPort"] == number
        assert fetch(f"http://127.0.0.1:{number}/")[0] == 200
        taken.listen()
        busy = expose(daemon, sandbox, 8000, 409, hostPort=taken.getsockname()[1])
        assert busy["error_code"] == "host_port_taken" and str(taken.getsockname()[1]) in busy["message"]
        assert [p["port"] for p in listed(daemon, sandbox)] == [guest.port]


@pytest.mark.parametrize("body, word", [
    ({}, "port"), ({"port": 0}, "port"), ({"port": "80"}, "port"), ({"port": 65536}, "port"),
    ({"port": 49983}, "own service"), ({"port": 49982}, "own service"), ({"port": 49999}, "own service"),
    ({"port": 80, "hostPort": 80}, "hostPort"), ({"port": 80, "protocol": "udp"}, "protocol"),
    ({"port": 80, "protocol": "tcp", "token": True}, "token"), ({"port": 80, "wait": -1}, "wait"),
    ({"port": 80, "token": "yes"}, "token"), ({"port": 80, "wait": 301}, "wait"),
])
def test_what_makes_no_sense(daemon, sandbox, body, word):
    answer = daemon.request("POST", f"/sandboxes/{sandbox}/ports", body)
    assert answer.status == 400 and word in answer.json["message"]
    assert listed(daemon, sandbox) == []


def test_no_such_sandbox(daemon):
    for method in ("POST", "GET", "DELETE"):
        answer = daemon.request(method, "/sandboxes/" + "a" * 20 + "/ports", {"port": 80} if method == "POST" else None)
        assert answer.status == 404


def test_two_sandboxes_are_two_origins(daemon):
    with Web() as guest:
        both = [expose(daemon, daemon.create()["sandboxID"], guest.port) for _ in range(2)]
        assert both[0]["url"] != both[1]["url"] and both[0]["browserUrl"] != both[1]["browserUrl"]


def test_hosts_of_the_sdks_go_on(daemon, sandbox):
    """getHost's names still lead to the same port through the daemon's own listener."""
    with Web() as guest:
        url = expose(daemon, sandbox, guest.port)["url"]
        by_name = daemon.request("GET", "/", headers={"Host": f"{guest.port}-{sandbox}.localhost"})
        assert by_name.body == fetch(url)[2] == b"hello\n"


# ---- what passes
def test_websocket(daemon, sandbox):
    with WebSocketGuest() as guest:
        number = expose(daemon, sandbox, guest.port)["hostPort"]
        with connect(f"ws://127.0.0.1:{number}/chat", compression=None, max_size=None, open_timeout=30) as ws:
            for message in ("hello", os.urandom(300_000)):
                ws.send(message)
                assert ws.recv(30) == message


def test_events_come_one_by_one(daemon, sandbox):
    go_on = threading.Semaphore(0)

    def serve(connection):
        read_head(connection)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
        for i in range(3):
            connection.sendall(b"data: %d\n\n" % i)
            assert go_on.acquire(timeout=30)

    with Guest(serve) as guest:
        number = expose(daemon, sandbox, guest.port)["hostPort"]
        stream = http.client.HTTPConnection("127.0.0.1", number, timeout=30)
        stream.request("GET", "/events")
        answer = stream.getresponse()
        assert answer.headers["Content-Type"] == "text/event-stream"
        for i in range(3):  # each is there before the next is sent
            assert answer.readline() == b"data: %d\n" % i and answer.readline() == b"\n"
            go_on.release()
        assert answer.read() == b""
        stream.close()


def test_a_large_download(daemon, sandbox):
    block = os.urandom(1 << 20)
    count = 100

    def serve(connection):
        read_head(connection)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (count << 20))
        for _ in range(count):
            connection.sendall(block)

    with Guest(serve) as guest:
        url = expose(daemon, sandbox, guest.port)["url"]
        seen = hashlib.sha256()
        with urllib.request.urlopen(url, timeout=60) as answer:
            while chunk := answer.read(1 << 20):
                seen.update(chunk)
        assert seen.digest() == hashlib.sha256(block * count).digest()


def test_a_large_upload(daemon, sandbox):
    data = os.urandom(8 << 20)
    seen = []

    def serve(connection):
        _, rest = read_head(connection)
        while len(rest) < len(data):
            rest += connection.recv(1 << 20)
        seen.append(rest)
        connection.sendall(b"HTTP/1.1 204 No\r\n\r\n")

    with Guest(serve) as guest:
        url = expose(daemon, sandbox, guest.port)["url"]
        with urllib.request.urlopen(urllib.request.Request(url, data, method="PUT"), timeout=60) as answer:
            assert answer.status == 204
        assert seen == [data]


# ---- waiting
def test_it_waits_until_the_port_listens(daemon, sandbox):
    with closed_port() as s:
        answers = []
        body = {"port": s.getsockname()[1], "wait": 60}
        thread = threading.Thread(target=lambda: answers.append(
            daemon.request("POST", f"/sandboxes/{sandbox}/ports", body, timeout=90)))
        thread.start()
        # It has found the port closed, and tries again.
        wait_for(lambda: daemon.connects(sandbox).count(body["port"]) >= 2, 30, "it is tried again")
        assert not answers and listed(daemon, sandbox) == []
        s.listen()
        thread.join(60)
        assert answers[0].status == 201 and len(listed(daemon, sandbox)) == 1


def test_nothing_listens(daemon, sandbox):
    with closed_port() as s:
        answer = expose(daemon, sandbox, s.getsockname()[1], 504, wait=1)
        assert answer["error_code"] == "port_closed"
        assert f"Nothing listens on port {s.getsockname()[1]}" in answer["message"]
        assert listed(daemon, sandbox) == []
        # Without waiting it is exposed, and says what is wrong to who asks.
        url = expose(daemon, sandbox, s.getsockname()[1])["url"]
        status, _, body = fetch(url)
        assert status == 502 and "port is not open" in json.loads(body)["message"]


@pytest.mark.parametrize("end", ["the client leaves", "the sandbox ends"])
def test_a_wait_that_ends(daemon, sandbox, end):
    with closed_port() as s:
        c = daemon.connection()
        body = json.dumps({"port": s.getsockname()[1], "wait": 60}).encode()
        c.request("POST", f"/sandboxes/{sandbox}/ports", body)
        wait_for(lambda: s.getsockname()[1] in daemon.connects(sandbox), 30, "it waits")
        if end == "the client leaves":
            c.close()
            assert listed(daemon, sandbox) == []
            daemon.kill(sandbox)
        else:
            daemon.kill(sandbox)
            answer = c.getresponse()
            assert answer.status == 404 and json.loads(answer.read())["error_code"] == "sandbox_ended"
            c.close()


# ---- the end
def test_it_ends_with_the_sandbox(daemon, sandbox):
    def serve(connection):
        read_head(connection)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nbegun")
        read_all(connection)

    with Guest(serve) as guest:
        number = expose(daemon, sandbox, guest.port)["hostPort"]
        with socket.create_connection(("127.0.0.1", number), 30) as s:
            s.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            receive_until(s, b"begun")
            assert daemon.kill(sandbox) == 204
            assert read_all(s) == b""
        assert is_closed(daemon, number)
        assert daemon.request("GET", f"/sandboxes/{sandbox}/ports").json["error_code"] == "sandbox_ended"


def test_opened_and_closed_a_thousand_times(daemon, sandbox):
    with Web() as guest:
        url = expose(daemon, sandbox, guest.port)["url"]
        before = daemon.fds()
        for i in range(1000):
            port = expose(daemon, sandbox, 20000 + i % 8, protocol=("http", "tcp")[i % 2])
            if i % 100 == 0:
                assert not is_closed(daemon, port["hostPort"])
            if i % 4 == 3:
                assert daemon.request("DELETE", f"/sandboxes/{sandbox}/ports?port=20000").status in (204, 404)
            assert daemon.request("DELETE", f"/sandboxes/{sandbox}/ports?port={port['port']}").status in (204, 404)
        wait_for(lambda: daemon.fds() <= before, 30, "no descriptor is left")
        assert fetch(url)[0] == 200 and len(listed(daemon, sandbox)) == 1


# ---- sleep
def test_a_request_wakes_what_sleeps():
    with Daemon("--freeze-after", "1") as daemon, Web() as guest:
        sandbox = daemon.create()["sandboxID"]
        url = expose(daemon, sandbox, guest.port)["url"]
        asleep = lambda: daemon.get(sandbox).json.get("depth") == "freeze"
        wait_for(asleep, 60, "it sleeps")
        assert fetch(url)[2] == b"hello\n" and not asleep()


@pytest.mark.parametrize("depth", ["freeze", "hibernate"])
@pytest.mark.parametrize("wakes", [True, False])
def test_paused(daemon, depth, wakes):
    with Web() as guest:
        sandbox = daemon.create(autoPause=True, autoResume={"enabled": wakes})["sandboxID"]
        url = expose(daemon, sandbox, guest.port)["url"]
        assert daemon.request("POST", f"/sandboxes/{sandbox}/pause", {"depth": depth}, timeout=60).status == 204
        assert len(listed(daemon, sandbox)) == 1
        status, _, body = fetch(url)
        assert (status, body) == (200, b"hello\n") if wakes else status == 502 and b"sandbox_paused" in body
        daemon.request("POST", f"/v2/sandboxes/{sandbox}/connect", {"timeout": 60}, timeout=60)
        assert fetch(url)[0] == 200


# ---- restarts
@pytest.mark.parametrize("end", [signal.SIGUSR1, signal.SIGKILL])
def test_the_next_daemon_opens_it_again(end):
    with Daemon() as daemon, Web() as guest:
        sandbox = daemon.create()["sandboxID"]
        ports = [expose(daemon, sandbox, guest.port, token=True), expose(daemon, sandbox, 20000, protocol="tcp")]
        ports.sort(key=lambda port: port["port"])
        daemon.stop(end)
        assert all(is_closed(daemon, port["hostPort"]) for port in ports)
        daemon.start()
        assert listed(daemon, sandbox) == ports
        mine = [port for port in ports if port["token"]][0]
        assert fetch(mine["url"], **{"X-Access-Token": mine["token"]})[0] == 200
        assert fetch(mine["url"])[0] == 401


def test_a_port_that_is_taken_meanwhile_moves():
    with Daemon() as daemon, Web() as guest:
        sandbox = daemon.create()["sandboxID"]
        number = expose(daemon, sandbox, guest.port)["hostPort"]
        daemon.stop(signal.SIGKILL)
        with socket.create_server(("127.0.0.1", number)):
            daemon.start()
            moved = listed(daemon, sandbox)[0]
            assert moved["hostPort"] != number and fetch(moved["url"])[0] == 200
        daemon.stop(signal.SIGKILL)
        daemon.start()
        assert listed(daemon, sandbox) == [moved]


def test_a_misspelt_port_closes_nothing(daemon, sandbox):
    port = expose(daemon, sandbox, 20000)
    for query, what in (("prot=20000", 'unknown parameter "prot"'), ("port=20000&x=1", 'unknown parameter "x"'),
                        ("%70rot=1", 'unknown parameter "prot"'), ("=", 'unknown parameter ""'), ("port=%00", "from 1 to 65535"),
                        ("port=", "from 1 to 65535"), ("port=0", "from 1 to 65535")):
        answer = daemon.request("DELETE", f"/sandboxes/{sandbox}/ports?{query}")
        assert answer.status == 400 and what in answer.json["message"], (query, answer.body)
        assert listed(daemon, sandbox) == [port]
    assert daemon.request("DELETE", f"/sandboxes/{sandbox}/ports?p%6frt=20000&").status == 204
    assert listed(daemon, sandbox) == []


# ---- limits
def test_so_many_ports(daemon, sandbox):
    for i in range(PORTS_MAX):
        expose(daemon, sandbox, 20000 + i)
    full = expose(daemon, sandbox, 30000, 429)
    assert full["error_code"] == "limit_reached" and str(PORTS_MAX) in full["message"]
    assert daemon.request("DELETE", f"/sandboxes/{sandbox}/ports").status == 204
    assert listed(daemon, sandbox) == []
    expose(daemon, sandbox, 30000)


def test_ports_of_a_key():
    with Keyed(max_ports=2) as daemon:
        first, second = (daemon.ask()[1]["sandboxID"] for _ in range(2))

        def ask(sandbox, port):
            return daemon.ask(path=f"/sandboxes/{sandbox}/ports", port=port)

        assert ask(first, 20000)[0] == ask(second, 20000)[0] == 201  # of all its sandboxes together
        assert exceeds(ask(first, 20001), "max_ports") and len(listed(daemon, first)) == 1
        assert ask(first, 20000)[0] == 200  # one that is there already is none more
        other = daemon.create()["sandboxID"]  # whose owner has no key
        assert [expose(daemon, other, 20000 + i)["port"] for i in range(3)]
        assert daemon.request("DELETE", f"/sandboxes/{second}/ports?port=20000").status == 204
        assert ask(first, 20001)[0] == 201 and exceeds(ask(second, 20000), "max_ports")


def test_so_many_connections(daemon, sandbox):
    with contextlib.ExitStack() as stack:
        guest = stack.enter_context(Web())
        number = expose(daemon, sandbox, guest.port)["hostPort"]
        for _ in range(CONNECTIONS_MAX):
            stack.enter_context(socket.create_connection(("127.0.0.1", number), 30))
        status, _, body = fetch(f"http://127.0.0.1:{number}/")
        assert status == 503 and b"connections" in body
        # Others are none the worse for it.
        assert daemon.through(sandbox, port=guest.port).status == 200


# ---- raw TCP
def test_raw_tcp(daemon, sandbox):
    def serve(connection):
        connection.sendall(b"220 who is there\n")
        connection.sendall(read_all(connection)[::-1])

    with Guest(serve) as guest:
        port = expose(daemon, sandbox, guest.port, protocol="tcp", wait=30)
        assert port["url"] == f"tcp://127.0.0.1:{port['hostPort']}" and port["browserUrl"] is None
        with socket.create_connection(("127.0.0.1", port["hostPort"]), 30) as s:
            assert receive(s, 17) == b"220 who is there\n"
            data = b"\0" + os.urandom(3 << 20)
            s.sendall(data)
            s.shutdown(socket.SHUT_WR)
            assert read_all(s) == data[::-1]


def test_raw_tcp_of_a_closed_port(daemon, sandbox):
    with closed_port() as s:
        number = expose(daemon, sandbox, s.getsockname()[1], protocol="tcp")["hostPort"]
        with contextlib.suppress(OSError):  # it is reset, which any of the calls may be the first to see
            assert ask(number, b"\1hello") == b""


def test_raw_tcp_is_cut_with_the_sandbox(daemon, sandbox):
    with Guest(lambda connection: (connection.sendall(b"here"), read_all(connection))) as guest:
        number = expose(daemon, sandbox, guest.port, protocol="tcp")["hostPort"]
        with socket.create_connection(("127.0.0.1", number), 30) as s:
            assert receive(s, 4) == b"here"
            assert daemon.kill(sandbox) == 204
            assert read_all(s) == b""
        assert is_closed(daemon, number)


def test_raw_tcp_wakes_what_sleeps():
    with Daemon("--freeze-after", "1") as daemon:
        with Guest(lambda connection: connection.sendall(read_all(connection))) as guest:
            sandbox = daemon.create()["sandboxID"]
            number = expose(daemon, sandbox, guest.port, protocol="tcp")["hostPort"]
            wait_for(lambda: daemon.get(sandbox).json.get("depth") == "freeze", 60, "it sleeps")
            assert ask(number, b"\1ping", 60) == b"\1ping"


# ---- options
def refuse(*args):
    daemon = Daemon(*args)
    try:
        ended = subprocess.run([daemon.program, *args], env=daemon.env, capture_output=True, text=True, timeout=60)
        assert ended.returncode == 2
        return ended.stderr
    finally:
        daemon.close()


def test_addresses_that_are_refused():
    assert "--tls-cert" in refuse("--ports-address", "0.0.0.0", "--ports-host", "here.example")
    assert "--ports-host" in refuse("--ports-address", "0.0.0.0", "--allow-plaintext-network")
    assert "IP address" in refuse("--ports-address", "localhost")
    assert "host name" in refuse("--ports-host", "a:80")


def test_beyond_loopback_each_has_a_token():
    with Daemon("--ports-address", "0.0.0.0", "--ports-host", "here.example",
                "--allow-plaintext-network") as daemon, Web() as guest:
        sandbox = daemon.create()["sandboxID"]
        for more in ({"token": False}, {"protocol": "tcp"}):
            assert "access token" in expose(daemon, sandbox, guest.port, 400, **more)["message"]
        port = expose(daemon, sandbox, guest.port)
        base = f"http://here.example:{port['hostPort']}"
        assert port["url"] == base and port["browserUrl"] == f"{base}/?cubby_token={port['token']}"
        at = f"http://127.0.0.1:{port['hostPort']}/"
        assert fetch(at, Host="here.example")[0] == 401
        assert fetch(at, Host="here.example", **{"X-Access-Token": port["token"]})[0] == 200
        assert fetch(at, Host="there.example", **{"X-Access-Token": port["token"]})[0] == 421
    # What was exposed without one is not opened again by a daemon that listens there.
    with Daemon() as daemon:
        sandbox = daemon.create()["sandboxID"]
        expose(daemon, sandbox, 8000)
        daemon.stop(signal.SIGUSR1)
        daemon.start("--ports-address", "0.0.0.0", "--ports-host", "here.example", "--allow-plaintext-network")
        assert listed(daemon, sandbox) == []


def test_tls_beyond_loopback(tmp_path):
    """With the certificate of --listen; without TLS a port would show its token and its pages to
    the network."""
    certificate, key = make_pair(tmp_path / "tls")
    trust = ssl.create_default_context(cafile=certificate)
    with Daemon("--listen", "127.0.0.1:0", "--tls-cert", str(certificate), "--tls-key", str(key),
                "--ports-address", "0.0.0.0", "--ports-host", "localhost") as daemon, WebSocketGuest() as chat, \
            Web() as guest:
        sandbox = daemon.create()["sandboxID"]
        port = expose(daemon, sandbox, guest.port)
        number, token = port["hostPort"], port["token"]
        assert port["url"] == f"https://localhost:{number}"
        assert port["browserUrl"] == f"https://localhost:{number}/?cubby_token={token}"
        assert fetch(port["url"], context=trust)[0] == 401
        status, _, body = fetch(port["url"], context=trust, **{"X-Access-Token": token})
        assert (status, body) == (200, b"hello\n") and "X-Forwarded-Proto: https" in guest.heads[0]
        # A browser's cookie never leaves TLS.
        page = ssl_ask(number, trust, f"GET /?cubby_token={token} HTTP/1.1\r\nHost: localhost\r\nAccept: text/html\r\n"
                                      "Connection: close\r\n\r\n")
        assert page.startswith(b"HTTP/1.1 303 ") and b"; Secure\r\n" in page
        # What speaks plain text is told nothing, and nothing of it reaches the guest.
        plain = ask(number, f"GET / HTTP/1.1\r\nHost: localhost\r\nX-Access-Token: {token}\r\n\r\n".encode())
        assert b"hello" not in plain and not plain.startswith(b"HTTP/1.1 200") and len(guest.heads) == 1
        with pytest.raises(ssl.SSLCertVerificationError):  # it is that certificate, and no other
            ssl_ask(number, ssl.create_default_context(), "")
        talk = expose(daemon, sandbox, chat.port)
        with connect(f"wss://localhost:{talk['hostPort']}/", ssl=trust, open_timeout=30,
                     additional_headers={"X-Access-Token": talk["token"]}) as ws:
            ws.send("hello")
            assert ws.recv(30) == "hello"


def test_no_public_traffic_means_a_token(daemon):
    sandbox = daemon.create(network={"allowPublicTraffic": False})["sandboxID"]
    assert "allowPublicTraffic" in expose(daemon, sandbox, 8000, 400, token=False)["message"]
    assert expose(daemon, sandbox, 8000)["token"]
