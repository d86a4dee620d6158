# SPDX-License-Identifier: Apache-2.0
"""cubbyd: requests for a sandbox's ports. Routing, streaming, back-pressure, and connections that
break at every step.
"""

import os
import signal
import socket
import threading
import time

import pytest

from cubbyd import Guest, closed_port, read_all, read_head, wait_for
from cubbyd_fixtures import daemon, made, sandbox, shared  # noqa: F401 (fixtures)

OK = b"HTTP/1.1 200 OK\r\n"


# ---- routing
def test_health(daemon, sandbox):
    answer = daemon.through(sandbox)
    assert answer.status == 204 and answer.body == b""


def test_header_names_in_any_case(daemon, sandbox):
    answer = daemon.request("GET", "/health", headers={"e2b-SANDBOX-id": sandbox,
                                                       "E2B-Sandbox-Port": "49983"})
    assert answer.status == 204


def test_unknown_sandbox(daemon):
    answer = daemon.through("nosuchsandbox")
    assert answer.status == 502
    assert answer.json == {"sandboxId": "nosuchsandbox", "message": "The sandbox was not found",
                           "code": 502, "error_code": "sandbox_not_found"}


def test_ended_sandbox(daemon, sandbox):
    daemon.kill(sandbox)
    answer = daemon.through(sandbox)
    assert answer.status == 502 and answer.json["code"] == 502
    assert answer.json["reason"] == "killed" and answer.json["sandboxId"] == sandbox
    assert answer.json["message"] == "The sandbox was not found", "programs compare E2B's text"
    assert answer.json["detail"].startswith("The sandbox was not found, because it has ended: ")
    assert " at 20" in answer.json["detail"]


@pytest.mark.parametrize("host", ["3210-i1234567890.localhost", "3210-unknown-sandbox-id.localhost:3000"])
def test_names_of_ports_of_no_sandbox(daemon, host):
    answer = daemon.request("GET", "/", headers={"Host": host})
    assert (answer.status, answer.json["message"]) == (502, "The sandbox was not found")
    assert daemon.request("GET", "/health", headers={"Host": "10-0-0-5.default.pod.cluster.local"}).status == 200


def test_closed_port(daemon, sandbox):
    with closed_port() as s:
        port = s.getsockname()[1]
        answer = daemon.through(sandbox, port=port)
    assert answer.status == 502
    assert answer.json == {"sandboxId": sandbox, "port": port, "code": 502,
                           "message": "The sandbox is running but port is not open"}


@pytest.mark.parametrize("headers, message", [
    ({"E2b-Sandbox-Id": "x"}, "Missing header: E2b-Sandbox-Port"),
    ({"E2b-Sandbox-Port": "1"}, "Missing header: E2b-Sandbox-Id"),
    ({"E2b-Sandbox-Id": "x", "E2b-Sandbox-Port": "0"}, "E2b-Sandbox-Port"),
    ({"E2b-Sandbox-Id": "x", "E2b-Sandbox-Port": "70000"}, "E2b-Sandbox-Port"),
    ({"E2b-Sandbox-Id": "x", "E2b-Sandbox-Port": "ssh"}, "E2b-Sandbox-Port"),
    ({"E2b-Sandbox-Id": "../x", "E2b-Sandbox-Port": "1"}, "E2b-Sandbox-Id"),
    ({"E2b-Sandbox-Id": "", "E2b-Sandbox-Port": "1"}, "E2b-Sandbox-Id"),
    ({"E2b-Sandbox-Id": "x" * 200, "E2b-Sandbox-Port": "1"}, "E2b-Sandbox-Id"),
])
def test_bad_routes(daemon, headers, message):
    answer = daemon.request("GET", "/health", headers=headers)
    assert answer.status == 400 and message in answer.json["message"]


def test_by_host(daemon, sandbox):
    def serve(connection):
        head, _ = read_head(connection)
        assert head.startswith("GET /x HTTP/1.1")
        connection.sendall(OK + b"Content-Length: 2\r\n\r\nhi")

    with Guest(serve) as guest:
        answer = daemon.request("GET", "/x", headers={"Host": f"{guest.port}-{sandbox}.localhost:80"})
        assert answer.status == 200 and answer.body == b"hi"
    assert daemon.request("GET", "/health", headers={"Host": "8000-x"}).json["status"] == "ok"


@pytest.mark.parametrize("path", ["/init", "//init", "/init/", "/./init", "/x/../init", "/%69nit",
                                  "/INIT", "/init?x=1", "/freeze", "/upgrade"])
def test_reserved_paths(daemon, made, path):
    answer = daemon.through(made["sandboxID"], "POST", path, b"{}", token=made["envdAccessToken"])
    assert answer.status == 404 and answer.json["code"] == 404
    assert "reserved" in answer.json["message"]


@pytest.mark.parametrize("target", ["http://x/init", "http:///init", "*", "init", "//x/init",
                                    "/init%00", "/init#x", "/%2e/init"])
def test_odd_targets_do_not_reach_init(daemon, made, target):
    body = b'{"accessToken":"stolen"}'
    s = daemon.open(made["sandboxID"], 49983, f"POST {target} HTTP/1.1",
                    f"Content-Length: {len(body)}\r\nConnection: close\r\n"
                    f"X-Access-Token: {made['envdAccessToken']}\r\n")
    s.sendall(body)
    assert read_all(s)[9:10] == b"4"
    s.close()
    answer = daemon.through(made["sandboxID"], path="/whoami", token=made["envdAccessToken"])
    assert answer.status == 200


def test_reserved_paths_are_envds_only(daemon, sandbox):
    def serve(connection):
        read_head(connection)
        connection.sendall(OK + b"Content-Length: 2\r\n\r\nhi")

    with Guest(serve) as guest:
        assert daemon.through(sandbox, path="/init", port=guest.port).body == b"hi"


# ---- heads
def test_request_head(daemon, sandbox):
    heads = []

    def serve(connection):
        heads.append(read_head(connection)[0])
        connection.sendall(OK + b"Content-Length: 0\r\n\r\n")

    with Guest(serve) as guest:
        daemon.through(sandbox, path="/a%20b/?q=1&r=%26", port=guest.port, headers={
            "Host": "example.com", "X-Own": "kept", "Connection": "X-Hop, close", "X-Hop": "gone",
            "TE": "deflate", "Proxy-Authorization": "gone", "Keep-Alive": "5"})
    line, *fields = heads[0].split("\r\n")
    names = [f.partition(":")[0].lower() for f in fields]
    assert line == "GET /a%20b/?q=1&r=%26 HTTP/1.1"
    assert "X-Own: kept" in fields and "Host: example.com" in fields
    for name in ("x-hop", "te", "proxy-authorization", "keep-alive", "e2b-sandbox-id",
                 "e2b-sandbox-port"):
        assert name not in names


def test_answer_head(daemon, sandbox):
    def serve(connection):
        read_head(connection)
        connection.sendall(b"HTTP/1.1 418 Odd\r\nX-Own: kept\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\n"
                           b"Connection: X-Hop\r\nX-Hop: gone\r\nContent-Type: text/x\r\n"
                           b"Content-Length: 4\r\n\r\nbody")

    with Guest(serve) as guest:
        answer = daemon.through(sandbox, port=guest.port)
    assert (answer.status, answer.body) == (418, b"body")
    assert answer.headers["X-Own"] == "kept" and answer.headers["Content-Type"] == "text/x"
    assert answer.headers.get_all("Set-Cookie") == ["a=1", "b=2"]
    assert "X-Hop" not in answer.headers and answer.headers["Content-Length"] == "4"


def test_head_request(daemon, sandbox):
    def serve(connection):
        assert read_head(connection)[0].startswith("HEAD ")
        connection.sendall(OK + b"Content-Length: 5000\r\n\r\n")

    with Guest(serve) as guest:
        answer = daemon.through(sandbox, "HEAD", port=guest.port)
    assert answer.status == 200 and answer.body == b"" and answer.headers["Content-Length"] == "5000"


@pytest.mark.parametrize("status", [204, 304])
def test_no_content(daemon, sandbox, status):
    def serve(connection):
        read_head(connection)
        connection.sendall(b"HTTP/1.1 %d X\r\nEtag: x\r\n\r\n" % status)

    with Guest(serve) as guest:
        answer = daemon.through(sandbox, port=guest.port)
    assert answer.status == status and answer.headers["Etag"] == "x"


def test_answer_until_close(daemon, sandbox):
    def serve(connection):
        read_head(connection)
        connection.sendall(b"HTTP/1.0 200 OK\r\n\r\nuntil the end")

    with Guest(serve) as guest:
        assert daemon.through(sandbox, port=guest.port).body == b"until the end"


# ---- bodies
@pytest.mark.parametrize("size", [0, 1, 100_000])
@pytest.mark.parametrize("chunked", [False, True])
def test_echo(daemon, made, size, chunked):
    body = os.urandom(size)
    pieces = (body[i:i + 65536] for i in range(0, size, 65536))
    answer = daemon.through(made["sandboxID"], "POST", "/echo", pieces if chunked else body,
                            token=made["envdAccessToken"])
    assert answer.status == 200 and answer.body == body


def test_large_bodies(daemon, sandbox):
    body = os.urandom(20_000_000)

    def serve(connection):
        _, data = read_head(connection)
        while len(data) < len(body):
            data += connection.recv(1 << 20)
        connection.sendall(OK + b"Content-Length: %d\r\n\r\n" % len(data) + data)

    with Guest(serve) as guest:
        assert daemon.through(sandbox, "POST", port=guest.port, body=body).body == body


def test_pieces_arrive_as_they_are_sent(daemon, sandbox):
    go = threading.Semaphore(0)

    def serve(connection):
        read_head(connection)
        connection.sendall(OK + b"Transfer-Encoding: chunked\r\n\r\n")
        for n in range(3):
            connection.sendall(b"1\r\n%d\r\n" % n)
            go.acquire(timeout=10)
        connection.sendall(b"0\r\n\r\n")

    with Guest(serve) as guest:
        connection = daemon.connection()
        connection.request("GET", "/", headers={"E2b-Sandbox-Id": sandbox,
                                                "E2b-Sandbox-Port": str(guest.port)})
        answer = connection.getresponse()
        for n in range(3):
            assert answer.read(1) == b"%d" % n  # before the next is sent
            go.release()
        assert answer.read() == b""
        connection.close()


def test_both_directions_at_once(daemon, made):
    s = daemon.open(made["sandboxID"], 49983, "POST /echo HTTP/1.1",
                    f"X-Access-Token: {made['envdAccessToken']}\r\nTransfer-Encoding: chunked\r\n")
    head, rest = read_head(s)
    assert " 200 " in head
    for word in (b"one", b"two"):
        s.sendall(b"3\r\n%s\r\n" % word)
        while word not in rest:
            rest += s.recv(4096)
    s.sendall(b"0\r\n\r\n")
    while not rest.endswith(b"0\r\n\r\n"):
        rest += s.recv(4096)
    s.close()


def memory(daemon):
    """Resident megabytes of the daemon."""
    with open(f"/proc/{daemon.process.pid}/status") as f:
        return next(int(line.split()[1]) / 1024 for line in f if line.startswith("VmRSS"))


def test_slow_client_holds_the_guest_up(daemon, sandbox):
    sent = []

    def serve(connection):
        read_head(connection)
        connection.sendall(OK + b"Content-Length: 100000000\r\n\r\n")
        for _ in range(1000):
            connection.sendall(b"x" * 100_000)
            sent.append(100_000)

    with Guest(serve) as guest:
        before = memory(daemon)
        s = daemon.open(sandbox, guest.port)
        read_head(s)
        last = -1
        while last <= 0 or last != sum(sent):  # until nothing moves any more
            last = sum(sent)
            time.sleep(0.3)
        assert 0 < last < 50_000_000
        assert memory(daemon) - before < 8
        total = 0
        while total < 99_000_000:
            chunk = s.recv(1 << 20)
            assert chunk
            total += len(chunk)
        s.close()


def test_slow_guest_holds_the_client_up(daemon, sandbox):
    go = threading.Event()
    got = []

    def serve(connection):
        _, rest = read_head(connection)
        go.wait(60)
        n = len(rest)
        while n < 50_000_000:
            n += len(connection.recv(1 << 20))
        got.append(n)
        connection.sendall(OK + b"Content-Length: 0\r\n\r\n")

    with Guest(serve) as guest:
        before = memory(daemon)
        s = daemon.open(sandbox, guest.port, "POST / HTTP/1.1", "Content-Length: 50000000\r\n")
        s.setblocking(False)
        sent, idle = 0, time.monotonic()
        while time.monotonic() - idle < 0.5:
            try:
                sent += s.send(b"x" * min(100_000, 50_000_000 - sent))
                idle = time.monotonic()
            except BlockingIOError:
                time.sleep(0.01)
        assert sent < 40_000_000
        assert memory(daemon) - before < 8
        go.set()
        s.settimeout(60)
        s.sendall(b"x" * (50_000_000 - sent))
        assert " 200 " in read_head(s)[0]
        assert got == [50_000_000]
        s.close()


def test_answer_before_the_request_is_whole(daemon, sandbox):
    def serve(connection):
        read_head(connection)
        connection.sendall(b"HTTP/1.1 403 No\r\nContent-Length: 4\r\n\r\nstop")

    with Guest(serve) as guest:
        s = daemon.open(sandbox, guest.port, "POST / HTTP/1.1", "Content-Length: 100000000\r\n")
        s.sendall(b"x" * 1000)
        head, rest = read_head(s)
        assert " 403 " in head and rest == b"stop"
        s.close()


def test_many_at_once(daemon, sandbox):
    gate = threading.Barrier(60)

    def serve(connection):
        read_head(connection)
        gate.wait(60)  # each has arrived before the first is answered
        connection.sendall(OK + b"Content-Length: 2\r\n\r\nhi")

    with Guest(serve) as guest:
        bodies = []
        threads = [threading.Thread(
            target=lambda: bodies.append(daemon.through(sandbox, port=guest.port).body))
            for _ in range(60)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert bodies == [b"hi"] * 60 and guest.accepted == 60


# ---- connections to envd are kept, others are not
def test_envd_connections_are_kept(daemon, made):
    sandbox = made["sandboxID"]
    for _ in range(10):
        assert daemon.through(sandbox, path="/whoami", token=made["envdAccessToken"]).status == 200
    assert daemon.connects(sandbox) == [49983]  # the one of /init


def test_other_connections_are_used_once(daemon, sandbox):
    def serve(connection):
        while True:
            read_head(connection)
            connection.sendall(OK + b"Content-Length: 2\r\n\r\nhi")

    with Guest(serve) as guest:
        for _ in range(3):
            assert daemon.through(sandbox, port=guest.port).body == b"hi"
        assert guest.accepted == 3


@pytest.mark.parametrize("promise, connections", [
    ("timeout=600", 1), ("max=100, timeout=60", 1), ("timeout=99999999999999999999", 1),
    ("timeout=5", 3), ("timeout=-600", 3), ("max=100", 3), ("timeout=", 3),
])
def test_connections_that_are_promised_to_be_kept_are_used_again(daemon, sandbox, promise, connections):
    def serve(connection):
        while read_head(connection)[0]:
            connection.sendall(OK + f"Keep-Alive: {promise}\r\nContent-Length: 2\r\n\r\nhi".encode())

    with Guest(serve) as guest:
        for _ in range(3):
            answer = daemon.through(sandbox, port=guest.port)
            assert answer.body == b"hi" and "keep-alive" not in {name.lower() for name in answer.headers}
        assert guest.accepted == connections


@pytest.mark.parametrize("method, status", [("GET", 200), ("HEAD", 200), ("POST", 502)])
def test_a_kept_connection_that_ends_when_it_is_used_again(daemon, sandbox, method, status):
    """As with a server that was restarted: a request that only reads is repeated on a new
    connection, any other is not sent twice."""
    heads = []

    def serve(connection):
        heads.append(read_head(connection)[0])
        connection.sendall(OK + b"Keep-Alive: timeout=600\r\nContent-Length: 0\r\n\r\n")
        if len(heads) == 1:
            heads.append(read_head(connection)[0])

    with Guest(serve) as guest:
        assert daemon.through(sandbox, port=guest.port).status == 200
        answer = daemon.through(sandbox, method, port=guest.port)
    assert answer.status == status, answer
    assert [head.split()[0] for head in heads] == ["GET", method] + [method] * (status == 200)


def test_keep_alive_of_the_client(daemon, made):
    connection = daemon.connection()
    for _ in range(3):
        connection.request("GET", "/whoami", headers={
            "E2b-Sandbox-Id": made["sandboxID"], "E2b-Sandbox-Port": "49983",
            "X-Access-Token": made["envdAccessToken"]})
        assert connection.getresponse().read() == b"envd"
    connection.request("GET", "/health")
    assert connection.getresponse().status == 200
    connection.close()


# ---- breaking
def test_guest_closes_without_an_answer(daemon, sandbox):
    def serve(connection):
        read_head(connection)

    with Guest(serve) as guest:
        answer = daemon.through(sandbox, "POST", port=guest.port, body=b"once")
        assert answer.status == 502 and answer.json["code"] == 502
        assert "before it answered" in answer.json["message"]
        assert guest.accepted == 1  # never sent twice


def test_guest_talks_nonsense(daemon, sandbox):
    def serve(connection):
        read_head(connection)
        connection.sendall(b"SSH-2.0-OpenSSH\r\n" * 3)

    with Guest(serve) as guest:
        assert daemon.through(sandbox, port=guest.port).status == 502


def test_guest_sends_an_endless_head(daemon, sandbox):
    def serve(connection):
        read_head(connection)
        connection.sendall(OK)
        while True:
            connection.sendall(b"X-More: " + b"x" * 8000 + b"\r\n")

    with Guest(serve) as guest:
        assert daemon.through(sandbox, port=guest.port).status == 502


@pytest.mark.parametrize("framing", [b"Content-Length: 1000\r\n", b"Transfer-Encoding: chunked\r\n"])
def test_guest_breaks_off(daemon, sandbox, framing):
    def serve(connection):
        read_head(connection)
        connection.sendall(OK + framing + b"\r\n4\r\nhalf\r\n")

    with Guest(serve) as guest:
        s = daemon.open(sandbox, guest.port)
        data = read_all(s)
        assert b" 200 " in data and b"half" in data
        assert not data.endswith(b"0\r\n\r\n")
        s.close()


def test_envd_breaks_off(daemon, made):
    s = daemon.open(made["sandboxID"], 49983, "GET /cut HTTP/1.1",
                    f"X-Access-Token: {made['envdAccessToken']}\r\n")
    assert read_all(s).endswith(b"half")
    s.close()
    assert daemon.through(made["sandboxID"]).status == 204  # over a new connection


def test_client_leaves(daemon, sandbox):
    gone = threading.Event()

    def serve(connection):
        read_head(connection)
        connection.sendall(OK + b"Transfer-Encoding: chunked\r\n\r\n")
        connection.settimeout(60)
        if connection.recv(1) == b"":
            gone.set()

    with Guest(serve) as guest:
        s = daemon.open(sandbox, guest.port)
        read_head(s)
        s.close()
        assert gone.wait(30)


def test_client_leaves_while_it_sends(daemon, sandbox):
    gone = threading.Event()

    def serve(connection):
        read_head(connection)
        connection.settimeout(60)
        try:
            while connection.recv(65536):
                pass
        except OSError:
            pass
        gone.set()

    with Guest(serve) as guest:
        s = daemon.open(sandbox, guest.port, "POST / HTTP/1.1", "Content-Length: 1000000\r\n")
        s.sendall(b"x" * 1000)
        s.close()
        assert gone.wait(30)


@pytest.mark.parametrize("how", ["kill", "die"])
def test_end_of_the_sandbox_cuts_streams(daemon, sandbox, how):
    def serve(connection):
        read_head(connection)
        connection.sendall(OK + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n")
        connection.recv(1)

    with Guest(serve) as guest:
        s = daemon.open(sandbox, guest.port)
        head, rest = read_head(s)
        while b"abc" not in rest:
            rest += s.recv(100)
        if how == "kill":
            assert daemon.kill(sandbox) == 204
        else:
            os.kill(daemon.machine(sandbox), signal.SIGKILL)
        rest += read_all(s)
        assert not rest.endswith(b"0\r\n\r\n")
        s.close()
    answer = daemon.through(sandbox)
    assert answer.status == 502 and answer.json["code"] == 502


def test_end_of_the_sandbox_answers_who_waits(daemon, made):
    sandbox, answers = made["sandboxID"], []
    thread = threading.Thread(target=lambda: answers.append(
        daemon.through(sandbox, path="/hang", token=made["envdAccessToken"])))
    thread.start()
    wait_for(lambda: (daemon.directory(sandbox) / "hanging").exists(), 30, "the request is there")
    daemon.kill(sandbox)
    thread.join()
    assert answers[0].status == 502 and answers[0].json["reason"] == "killed"


def test_requests_to_a_stopped_machine_do_not_hold_up_others(daemon, made):
    other = daemon.create()
    os.kill(daemon.machine(made["sandboxID"]), signal.SIGSTOP)
    s = daemon.open(made["sandboxID"], 49983)
    t = daemon.open(made["sandboxID"], 49983)
    assert daemon.through(other["sandboxID"]).status == 204
    assert daemon.kill(made["sandboxID"]) == 204  # SIGKILL also ends what is stopped
    for stuck in (s, t):
        assert b" 502 " in read_all_once(stuck)
        stuck.close()


def test_limit_of_requests_at_once(daemon):
    """480 are open at once; the next one is refused with a clear error, until one ends."""
    made = daemon.create()
    sandbox, token = made["sandboxID"], made["envdAccessToken"]
    watch = [daemon.open(sandbox, 49983, "POST /filesystem.Filesystem/WatchDir HTTP/1.1",
                         f"X-Access-Token: {token}\r\nContent-Length: 0\r\n") for _ in range(480)]
    for s in watch:
        assert "200 OK" in read_head(s)[0]
    answer = daemon.through(sandbox)
    assert answer.status == 429 and "480 requests open at once" in answer.json["message"]
    assert answer.headers["Retry-After"] == "1"
    watch.pop().close()
    wait_for(lambda: daemon.through(sandbox).status == 204, 30, "there is room again")
    for s in watch:
        s.close()


def read_all_once(s):
    head, rest = read_head(s)
    return head.encode() + rest


def test_malformed_requests(daemon, sandbox):
    for raw in (b"nonsense\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"GET  HTTP/1.1\r\n\r\n",
                b"POST /sandboxes HTTP/1.1\r\nContent-Length: x\r\n\r\n",
                b"POST /sandboxes HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
                b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 5000 + b"\r\n",
                b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\n\r\n"):
        s = socket.socket(socket.AF_UNIX)
        s.settimeout(60)
        s.connect(str(daemon.home / "cubbyd.sock"))
        try:
            s.sendall(raw)
        except OSError:
            pass
        assert read_all(s)[9:10] in (b"4", b"5") or raw.startswith(b"GET /a")
        s.close()
    assert daemon.through(sandbox).status == 204
