# SPDX-License-Identifier: Apache-2.0
"""The gate with ordinary programs: curl in a real guest, an HTTPS server outside. One sandbox."""

import shlex
import ssl
import subprocess

import pytest

from attack_world import ALL, Field
from netd_world import NameServer
from threaded import Threaded
from tiers import tier  # noqa: F401

OTHER = "9.9.9.9"
GOOD, EVIL = "good.example", "evil.example"


class Https(Threaded):
    """Answers each request on 443 and 80 with its Host, and remembers it."""

    def __init__(self, namespace, port, context):
        self.hosts = []
        self.context = context
        super().__init__(namespace.listen("0.0.0.0", port))

    def serve(self, connection):
        with self.context.wrap_socket(connection, server_side=True) if self.context else connection as s:
            rest = b""
            while more := s.recv(65536):
                rest += more
                if b"\r\n\r\n" not in rest:
                    continue
                head, rest = rest, b""
                host = head.split(b"Host: ")[1].split(b"\r\n")[0]
                self.hosts.append(host.decode())
                s.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(host) + host)


@pytest.fixture(scope="module", name="field")
def fixture_field(tmp_path_factory, tier):  # noqa: F811
    directory = tmp_path_factory.mktemp("certificate")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
                    "-nodes", "-keyout", directory / "k.pem", "-out", directory / "c.pem", "-days", "2",
                    "-subj", f"/CN={GOOD}"], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(directory / "c.pem", directory / "k.pem")
    field = Field(tier=tier, dns=NameServer)
    field.world.world.ip("addr", "add", OTHER + "/32", "dev", "lo")
    field.names.records.update({GOOD: [OTHER], EVIL: [OTHER]})
    field.servers = [Https(field.world.world, 443, context), Https(field.world.world, 80, None)]
    field.hellos += field.servers
    yield field
    field.close()


def curl(field, *args):
    """(exit status, output)"""
    command = shlex.join(["curl", "-sk", "--max-time", "60", *args])
    return field.daemon.command(field.attacker, command, user="root")


def test_curl(field):
    pins = [arg for port in (80, 443) for arg in ("--resolve", f"{EVIL}:{port}:{OTHER}")]
    for scheme in "https", "http":
        assert curl(field, *pins, f"{scheme}://{EVIL}/") == (0, EVIL.encode()), "control: nothing is in the way"
    field.policy(allowOut=[GOOD], denyOut=[ALL])
    for server in field.servers:
        server.hosts.clear()
    for scheme in "https", "http":
        assert curl(field, f"{scheme}://{GOOD}/", f"{scheme}://{GOOD}/again") == (0, GOOD.encode() * 2)
        status, output = curl(field, *pins, f"{scheme}://{EVIL}/")
        assert status in (35, 56) and output == b"", "a reset at once, not a time-out (28)"
        assert curl(field, f"{scheme}://{EVIL}/")[0] == 6, "and by itself the name does not exist"
    assert [set(s.hosts) for s in field.servers] == [{GOOD}, {GOOD}], "nothing of the other one got out"
    assert curl(field, "-H", f"Host: {EVIL}", f"http://{GOOD}/")[0] == 56, "resolved for one, asked for another"
    # docs/security.md: what is inside TLS netd cannot see; the server decides.
    assert curl(field, "-H", f"Host: {EVIL}", f"https://{GOOD}/") == (0, EVIL.encode())
