# SPDX-License-Identifier: Apache-2.0
"""Bodies that come slowly, or in parts, through the proxy while a node is drained."""

import contextlib
import itertools
import json
import time
from concurrent import futures

import pytest

from cubbyd import Answer, Guest, read_head
from fleet import DrainFleet

PAUSE = 2  # seconds between the two parts; the proxy once waited for 1 s


@pytest.fixture(scope="module")
def fleet():
    with DrainFleet() as running:
        yield running
        running.end_all()


def in_two_parts(fleet, method, path, body, headers=None):
    """Sends the head and the first half, and then the rest."""
    connection = fleet.connection()
    connection.putrequest(method, path, skip_host="Host" in (headers or {}))
    half = len(body) // 2
    for name, value in {"X-API-KEY": fleet.key, "Content-Length": str(len(body)), **(headers or {})}.items():
        connection.putheader(name, value)
    connection.endheaders(body[:half])
    time.sleep(PAUSE)
    connection.send(body[half:])
    answer = connection.getresponse()
    with contextlib.closing(connection):
        return Answer(answer.status, answer.headers, answer.read())


def forms(fleet, sandbox, port):
    """How a request names a port of a sandbox: by headers, by its host, and by its path."""
    yield {"E2b-Sandbox-Id": sandbox, "E2b-Sandbox-Port": str(port)}, ""
    yield {"Host": f"{port}-{sandbox}.localhost:{fleet.port}"}, ""
    yield {"Host": "127.0.0.1"}, f"/sandboxes/router/{sandbox}/{port}"


PATHS = ["/upload", "/secrets", "/v2/sandboxes", "/v3/templates", "/volumes", f"/uploads/b-{'0' * 32}", "/process.Process/Start"]


def test_a_guests_port_gets_a_body_as_it_comes(fleet):
    """Also with paths that the API has."""
    body = json.dumps({"name": "one", "templateID": "snap-b" + "x" * 20}).encode()

    def serve(connection):
        head, rest = read_head(connection)
        first = time.monotonic()
        while len(rest) < len(body):
            rest += connection.recv(1000)
        late = time.monotonic() - first > PAUSE / 2
        said = f"{head.split()[1]} {rest.decode()} {late}".encode()
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(said), said))

    def ask(path, headers, before):
        answer = in_two_parts(fleet, "POST", before + path, body, headers)
        assert (answer.status, answer.body.decode()) == (200, f"{path} {body.decode()} True"), (path, headers)
    sandbox = fleet.create("a")["sandboxID"]
    with Guest(serve) as guest, futures.ThreadPoolExecutor(40) as pool:
        asked = [pool.submit(ask, path, *form) for path in PATHS for form in forms(fleet, sandbox, guest.port)]
        for one in asked:
            one.result()


def test_a_file_is_uploaded_slowly(fleet):
    """The answer is the one that node a gives to all of the body at once."""
    made = fleet.create("a")
    kind = {"Content-Type": "multipart/form-data; boundary=x", "X-Access-Token": made["envdAccessToken"]}
    path = "/files?path=/tmp/slow&username=root"
    form = b'--x\r\nContent-Disposition: form-data; name="file"; filename="f"\r\n\r\n' + b"%s\r\n--x--\r\n"
    for (headers, before), size in itertools.product(forms(fleet, made["sandboxID"], 49983), (10_000, 1_000_000)):
        body = form % (b"x" * size)
        expected = fleet.request("POST", before + path, body, headers | kind, port=fleet.nodes["a"].port)
        answer = in_two_parts(fleet, "POST", before + path, body, headers | kind)
        assert (answer.status, answer.body) == (expected.status, expected.body)


def test_a_call_of_the_api_in_two_parts(fleet):
    secret = json.dumps({"name": "slow", "value": "value-of-a-secret"}).encode()
    made = in_two_parts(fleet, "POST", "/secrets", secret, {"Content-Type": "application/json"})
    assert made.status == 201, made.body
    for node in fleet.nodes.values():
        node.request("DELETE", f"/secrets/{made.json['secretID']}")
    sandbox = fleet.create("a")["sandboxID"]
    body = json.dumps({"timeout": 700}).encode()
    answer = in_two_parts(fleet, "POST", f"/sandboxes/{sandbox}/timeout", body, {"Content-Type": "application/json"})
    assert answer.status == 204, answer.body
