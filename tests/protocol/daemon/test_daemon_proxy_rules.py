# SPDX-License-Identifier: Apache-2.0
"""cubbyd: which sandbox a request is for, who may make it, and which parts of it reach the guest.
"""

import base64
import hashlib
import socket
import time
import urllib.parse

import pytest

from cubbyd import Daemon, Guest, read_head
from cubbyd_fixtures import daemon, made, sandbox, shared  # noqa: F401 (fixtures)

LOOPBACK = "127.0.0.9"  # what a machine that is a process has for the guest's loopback
RESERVED = ("This endpoint is reserved for the E2B control plane and is not reachable through the "
            "sandbox URL")


def answer_head(heads):
    def serve(connection):
        heads.append(read_head(connection)[0])
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi")
    return serve


# ---- routing
@pytest.mark.parametrize("rest, seen", [("/a/b?c=%20d", "/a/b?c=%20d"), ("", "/"), ("?x=1", "/?x=1")])
def test_by_path(daemon, sandbox, rest, seen):
    heads = []
    with Guest(answer_head(heads)) as guest:
        answer = daemon.request("GET", f"/sandboxes/router/{sandbox}/{guest.port}{rest}")
    assert answer.status == 200 and heads[0].startswith(f"GET {seen} HTTP/1.1\r\n")


def test_by_path_to_envd(daemon, made):
    where = f"/sandboxes/router/{made['sandboxID']}/49983"
    assert daemon.request("GET", where + "/health").status == 204
    for path in ("/init", "//init", "/x/../init", "/%69nit"):
        answer = daemon.request("POST", where + path, b"{}",
                                headers={"X-Access-Token": made["envdAccessToken"]})
        assert answer.status == 404 and answer.json["message"] == RESERVED
        assert answer.json["code"] == 404 and "init" in answer.json["path"]


def test_with_a_client_id(daemon, made):
    composite = f"{made['sandboxID']}-{made['clientID']}"
    assert daemon.through(composite).status == 204
    assert daemon.request("GET", "/health", headers={"Host": f"49983-{composite}.x"}).status == 204


def test_the_relay_is_not_a_port(daemon, sandbox):
    answer = daemon.through(sandbox, port=49982)
    assert answer.status == 404 and answer.json["message"] == RESERVED
    assert 49982 not in daemon.connects(sandbox)


def test_connect_is_refused(daemon, sandbox):
    s = daemon.open(sandbox, 49983, "CONNECT localhost:1 HTTP/1.1")
    assert " 501 " in read_head(s)[0]
    s.close()


# ---- the guest's loopback
def test_loopback(daemon, sandbox):
    heads = []
    serve = answer_head(heads)
    held = socket.socket()  # the same port of the other address: nobody else's, and closed for now
    held.bind(("127.0.0.1", 0))
    port = held.getsockname()[1]
    with socket.create_server((LOOPBACK, port)) as listener:
        for expected in ([port, 49982], [49982]):  # the second time it is known
            before = len(daemon.connects(sandbox))
            client = daemon.open(sandbox, port, "GET /x HTTP/1.1")
            connection, _ = listener.accept()
            serve(connection)
            assert " 200 " in read_head(client)[0]
            connection.close()
            client.close()
            assert daemon.connects(sandbox)[before:] == expected
    # Gone from there: both are tried, and it is told as closed.
    before = len(daemon.connects(sandbox))
    answer = daemon.through(sandbox, port=port)
    assert answer.status == 502
    assert answer.json == {"sandboxId": sandbox, "port": port, "code": 502,
                           "message": "The sandbox is running but port is not open"}
    assert daemon.connects(sandbox)[before:] == [49982, port]
    # Now on the guest's own address: found there, and remembered.
    held.listen()
    with held as listener:
        for expected in ([49982, port], [port]):
            before = len(daemon.connects(sandbox))
            client = daemon.open(sandbox, port, "GET /x HTTP/1.1")
            connection, _ = listener.accept()
            serve(connection)
            assert " 200 " in read_head(client)[0]
            connection.close()
            client.close()
            assert daemon.connects(sandbox)[before:] == expected


# ---- signed URLs
def signature(made, path="", operation="read", user="", expires=None):
    text = f"{path}:{operation}:{user}:{made['envdAccessToken']}"
    if expires is not None:
        text += f":{expires}"
    digest = hashlib.sha256(text.encode()).digest()
    return "v1_" + base64.b64encode(digest).decode().rstrip("=")


def signed_url(made, path=None, user=None, expires=None, operation="read"):
    query = {"signature": signature(made, path or "", operation, user or "", expires)}
    if path is not None:
        query["path"] = path
    if user is not None:
        query["username"] = user
    if expires is not None:
        query["signature_expiration"] = str(expires)
    return "/files?" + urllib.parse.urlencode(query)


@pytest.mark.parametrize("fields, method", [
    ({"path": "hello.txt"}, "GET"), ({"path": "hello.txt"}, "HEAD"), ({"path": "a b/\u20ac&=.txt"}, "GET"),
    ({"path": "/x", "user": "root"}, "GET"), ({"path": "x", "expires": 1}, "GET"),
    ({"operation": "write"}, "POST"), ({"path": "x", "operation": "write", "expires": 9 ** 10}, "POST"),
])
def test_signed_url_finds_its_sandbox(daemon, fields, method):
    all_made = [daemon.create() for _ in range(3)] + [daemon.create(version="v1", secure=False)]
    answer = daemon.request(method, signed_url(all_made[1], **fields))
    assert answer.status == 200
    if method != "HEAD":
        assert answer.body.decode() == str(daemon.directory(all_made[1]["sandboxID"]))


def test_signed_url_that_nobody_signed(daemon, made):
    good = signed_url(made, "hello.txt")
    wrong = [good.replace("hello", "hallo"), good.replace("v1_", "v2_"), good + "x",
             good + "&username=root", good + "&signature_expiration=5", "/files?signature=",
             "/files?path=hello.txt&signature=" + "x" * 1000]
    for url in wrong:
        answer = daemon.request("GET", url)
        assert (answer.status, answer.json) == (401, {"code": 401, "message": "invalid signature"}), url
    assert daemon.request("POST", good, b"x").status == 401  # it is for reading
    daemon.kill(made["sandboxID"])
    assert daemon.request("GET", good).status == 401


def test_unsigned_files_say_no_sandbox(daemon, made):
    for method, path in (("GET", "/files?path=hello.txt"), ("POST", "/files"), ("GET", "/files"),
                         ("PUT", signed_url(made, "x"))):
        answer = daemon.request(method, path, b"" if method != "GET" else None,
                                headers={"X-Access-Token": made["envdAccessToken"]})
        assert answer.status == 400 and "E2b-Sandbox-Id" in answer.json["message"]
    long = daemon.request("GET", signed_url(made, "x" * 9000))
    assert long.status == 400 and "too long" in long.json["message"]


# ---- tokens
@pytest.mark.parametrize("path", ["/execute", "//execute", "/./execute/", "/EXECUTE", "/%65xecute",
                                  "/contexts/default/interrupt", "//contexts//x/interrupt/"])
def test_the_kernel_needs_the_token(daemon, made, path):
    sandbox = made["sandboxID"]
    for token in (None, "wrong"):
        answer = daemon.through(sandbox, "POST", path, b"{}", port=49999, token=token)
        assert answer.status == 401 and answer.json["code"] == 401
        assert "access token" in answer.json["message"]
    # What is behind the port in this test is not a kernel; but it is asked for.
    before = len(daemon.connects(sandbox))
    daemon.through(sandbox, "POST", path, b"{}", port=49999, token=made["envdAccessToken"])
    assert daemon.connects(sandbox)[before] == 49999


def test_the_kernel_needs_no_token_elsewhere(daemon, sandbox):
    for method, path in (("GET", "/contexts"), ("POST", "/contexts/x/restart"), ("DELETE", "/contexts/x"),
                         ("GET", "/health"), ("OPTIONS", "/execute")):
        headers = {"Access-Control-Request-Method": "POST"} if method == "OPTIONS" else {}
        assert daemon.through(sandbox, method, path, port=49999, headers=headers).status != 401
    open_one = daemon.create(version="v1", secure=False)["sandboxID"]
    assert daemon.through(open_one, "POST", "/execute", b"{}", port=49999).status != 401


# ---- what the guest sees
def fields(head):
    return {k.lower(): v for k, _, v in (line.partition(": ") for line in head.split("\r\n")[1:])}


def test_secrets_stay_here(daemon, made):
    heads = []
    with Guest(answer_head(heads)) as guest:
        for token in (made["envdAccessToken"], "the application's own"):
            daemon.through(made["sandboxID"], port=guest.port, token=token,
                           headers={"X-API-KEY": "e2b_secret", "e2b-traffic-access-token": "t",
                                    "Authorization": "Bearer its", "Cookie": "a=b"})
    first, second = (fields(head) for head in heads)
    for seen in (first, second):
        assert "x-api-key" not in seen and "e2b-traffic-access-token" not in seen
        assert seen["authorization"] == "Bearer its" and seen["cookie"] == "a=b"
    assert "x-access-token" not in first
    assert second["x-access-token"] == "the application's own"
    answer = daemon.through(made["sandboxID"], "POST", "/echo", token=made["envdAccessToken"],
                            headers={"X-API-KEY": "e2b_secret"})
    assert answer.status == 200 and "X-Got-X-API-KEY" not in answer.headers


def test_forwarded_headers(daemon, made):
    heads = []
    with Guest(answer_head(heads)) as guest:
        host = f"{guest.port}-{made['sandboxID']}.example.com"
        daemon.request("GET", "/", headers={"Host": host})
        daemon.request("GET", "/", headers={"Host": host, "X-Forwarded-For": "192.0.2.1",
                                            "X-Forwarded-Host": "shop.example",
                                            "X-Forwarded-Proto": "https"})
    first, second = (fields(head) for head in heads)
    assert first["host"] == host == first["x-forwarded-host"] and first["x-forwarded-proto"] == "http"
    assert "x-forwarded-for" not in first  # a unix socket has no address
    assert second["x-forwarded-for"] == "192.0.2.1" and second["x-forwarded-host"] == "shop.example"
    assert second["x-forwarded-proto"] == "https"
    answer = daemon.through(made["sandboxID"], "POST", "/echo", token=made["envdAccessToken"])
    assert answer.status == 200 and "X-Got-X-Forwarded-Host" not in answer.headers


# ---- answers
BROWSER = {"User-Agent": "Mozilla/5.0 (X11; Linux x86_64)", "Accept": "text/html,*/*;q=0.8"}


def test_a_browser_gets_a_page(daemon):
    answer = daemon.request("GET", "/", headers={"Host": "8000-nosuchsandbox0000000.localhost", **BROWSER})
    assert answer.status == 502 and answer.headers["Content-Type"].startswith("text/html")
    assert b"The sandbox was not found" in answer.body
    for more in ({"Accept": "text/html, application/json"}, {"User-Agent": "e2b-js-sdk/2.51.0"}):
        answer = daemon.request("GET", "/", headers={"Host": "8000-nosuchsandbox0000000.localhost", **BROWSER,
                                                     **more})
        assert answer.status == 502 and answer.json["message"] == "The sandbox was not found"


def test_asking_for_its_health_is_no_use_of_it(daemon):
    sandbox = daemon.create(timeout=2, sliding=True)["sandboxID"]
    end = time.monotonic() + 60
    while (answer := daemon.through(sandbox)).status == 204:
        assert time.monotonic() < end, "it has been kept alive"
        time.sleep(0.05)
    assert answer.status == 502 and answer.json["reason"] == "expired"


# ---- names
def test_a_name_below_another_domain():
    with Daemon("--domain", "cubby.example:8443") as daemon:
        sandbox = daemon.create()["sandboxID"]

        def status(domain, **headers):
            return daemon.request("GET", "/health", headers={"Host": f"49983-{sandbox}.{domain}", **headers})

        for domain in ("cubby.example", "CUBBY.example:8443", "cubby.example.", "localhost:3000"):
            assert status(domain).status == 204, domain
        for domain in ("e2b.app", "x.cubby.example", "cubby.example.org"):
            answer = status(domain)
            assert answer.status == 421 and answer.json["code"] == 421 and answer.json["sandboxId"] == sandbox
            assert "end in cubby.example:8443" in answer.json["message"] and "--domain" in answer.json["message"]
        headers = {"E2b-Sandbox-Id": sandbox, "E2b-Sandbox-Port": "49983"}
        assert status("e2b.app", **headers).status == 204
