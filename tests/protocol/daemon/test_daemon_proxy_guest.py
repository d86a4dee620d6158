# SPDX-License-Identifier: Apache-2.0
"""cubbyd before a guest with an address and a loopback of its own, and the real envd with its relay."""

import base64
import hashlib
import json
import os
import time
import urllib.parse

import pytest

from cubbyd import MicroVMs, events, read_all, read_head, wait_for
from sdk import Guests

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can make users and mounts for envd")


@pytest.fixture(scope="module")
def daemon():
    with Guests() as d:
        yield d
        for sandbox in d.request("GET", "/v2/sandboxes").json:
            d.kill(sandbox["sandboxID"])


@pytest.fixture(scope="module")
def made(daemon):
    return daemon.create(templateID="bare")


def start(daemon, made, command):
    """Starts a command that goes on; returns the socket on which its events come."""
    return MicroVMs.open_command(daemon, made, command)


UPGRADER = """
import socket
s = socket.create_server(("127.0.0.1", 0))
print(s.getsockname()[1], flush=True)
while True:
    c, _ = s.accept()
    head = b""
    while b"\\r\\n\\r\\n" not in head:
        head += c.recv(65536)
    if b"Upgrade: lines" in head:
        c.sendall(b"HTTP/1.1 101 Yes\\r\\nConnection: Upgrade\\r\\nUpgrade: lines\\r\\n\\r\\n")
        got = b""
        while data := c.recv(65536):
            got += data
        c.sendall(got[::-1])
    else:
        c.sendall(b"HTTP/1.1 200 OK\\r\\nContent-Length: 5\\r\\n\\r\\nplain")
    c.close()
"""


def first_output(s):
    data, out = b"", b""
    while b"\n" not in out:
        chunk = s.recv(65536)
        assert chunk, data
        data += chunk
        out = b"".join(base64.b64decode(e.get("data", {}).get("stdout", "")) for e in events(data))
    return out


@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "0.0.0.0"])
def test_server_of_any_address(daemon, made, address):
    """A development server listens on the guest's loopback; its clients are outside."""
    program = UPGRADER.replace("127.0.0.1", address)
    if ":" in address:
        program = program.replace('.create_server((', '.create_server(family=socket.AF_INET6, address=(')
    s = start(daemon, made, f"exec python3 -c '{program}'")
    port = int(first_output(s))
    host = {"Host": f"{port}-{made['sandboxID']}.localhost"}
    for _ in range(3):
        answer = daemon.request("GET", "/", headers=host)
        assert answer.status == 200 and answer.body == b"plain"
    tunnel = daemon.open(made["sandboxID"], port, more="Connection: Upgrade\r\nUpgrade: lines\r\n")
    head, rest = read_head(tunnel)
    assert " 101 " in head
    tunnel.sendall(b"stressed" * 10_000)
    tunnel.shutdown(1)
    assert rest + read_all(tunnel) == b"desserts" * 10_000
    tunnel.close()
    s.close()
    closed = daemon.through(made["sandboxID"], port=1)
    assert closed.status == 502 and closed.json["message"].endswith("port is not open")


def signed(made, path, operation="read", expires=None):
    text = f"{path}:{operation}:user:{made['envdAccessToken']}" + (f":{expires}" if expires else "")
    digest = hashlib.sha256(text.encode()).digest()
    query = {"path": path, "username": "user",
             "signature": "v1_" + base64.b64encode(digest).decode().rstrip("=")}
    if expires:
        query["signature_expiration"] = str(expires)
    return "/files?" + urllib.parse.urlencode(query)


def test_signed_urls_of_envd(daemon, made):
    other = daemon.create(templateID="bare")
    for which in (made, other):
        answer = daemon.request("POST", signed(which, "hello.txt", "write"),
                                which["sandboxID"].encode(),
                                headers={"Content-Type": "application/octet-stream"})
        assert answer.status == 200, answer.body
    for which in (made, other):
        url = signed(which, "hello.txt", expires=int(time.time()) + 60)
        assert daemon.request("GET", url).body == which["sandboxID"].encode()
    late = daemon.request("GET", signed(made, "hello.txt", expires=1))
    assert (late.status, late.json["message"]) == (401, "signature is already expired")
    bad = daemon.request("GET", signed(made, "hello.txt").replace("hello", "hullo"))
    assert (bad.status, bad.json["message"]) == (401, "invalid signature")
    routed = {"E2b-Sandbox-Id": made["sandboxID"], "E2b-Sandbox-Port": "49983"}
    none = daemon.request("GET", "/files?path=hello.txt", headers=routed)
    assert (none.status, none.json["message"]) == (401, "missing signature query parameter")
    daemon.kill(other["sandboxID"])
    assert daemon.request("GET", signed(other, "hello.txt")).status == 401


def test_envd_keeps_what_is_its_own(daemon, made):
    for path in ("/init", "/freeze", "/fsthaw"):
        answer = daemon.through(made["sandboxID"], "POST", path, b"{}", token=made["envdAccessToken"])
        assert answer.status == 404 and answer.json["code"] == 404
    assert daemon.through(made["sandboxID"], port=49982).status == 404
    answer = daemon.through(made["sandboxID"], "POST", "/process.Process/List", b"{}",
                            headers={"Content-Type": "application/json"})
    assert answer.status == 401 and answer.json["code"] == 401


def test_killed_while_a_command_runs(daemon):
    made = daemon.create(templateID="bare")
    s = start(daemon, made, "while :; do echo x; sleep 0.05; done")
    assert first_output(s).startswith(b"x\n")
    assert daemon.kill(made["sandboxID"]) == 204
    assert not read_all(s).endswith(b"0\r\n\r\n")
    s.close()
    wait_for(lambda: daemon.through(made["sandboxID"]).status == 502, 30, "it is gone")
    assert json.loads(daemon.through(made["sandboxID"]).body)["code"] == 502
