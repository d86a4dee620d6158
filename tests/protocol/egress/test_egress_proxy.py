# SPDX-License-Identifier: Apache-2.0
"""The upstream proxy: connections are made through a SOCKS5 proxy, or not at all."""

import contextlib
import os
import secrets
import socket
import struct
import subprocess
import threading

import pytest

from egress_peer import Host, ask
from egress_world import NAME, PLACEHOLDER, VALUE, refusals, running
from egress_world import fixture_authorities  # noqa: F401 (a fixture)
from harness import wait_for
from receive import receive
from socks_proxy import ScriptedProxy, copy, microsocks
from threaded import Threaded

PASSWORD = "proxy-password-0123456789"
GREETING, LOGIN, REPLY = b"\5\0", b"\5\2", b"\5\0\0\1\0\0\0\0\0\0"


class Echo(Threaded):
    """Sends back what it gets, from the first byte "hello " on, until the end."""

    def __init__(self):
        self.peers = []
        super().__init__(socket.create_server(("127.0.0.1", 0)))

    def serve(self, connection):
        self.peers.append(connection.getpeername())
        connection.sendall(b"hello ")
        while (data := connection.recv(65536)):
            connection.sendall(data)
        connection.sendall(b" bye")


@pytest.fixture(name="server")
def fixture_server():
    server = Echo()
    yield server
    server.close()


@contextlib.contextmanager
def through(authorities, port, **more):
    with running(authorities, proxy={"host": "127.0.0.1", "port": port, "special": True, **more}) as egress:
        yield egress
        assert PASSWORD not in egress.text()


def open_through(egress, server):
    s = egress.connect_dial(server.port)
    assert receive(s, 1) == b"\0"
    return s


def test_bytes_in_both_directions(authorities, server):  # noqa: F811
    with microsocks(user="me", password=PASSWORD) as port, \
            through(authorities, port, username="me", password=PASSWORD) as egress:
        with open_through(egress, server) as s:
            assert receive(s, 6) == b"hello ", "the server may speak first"
            data = bytes(range(256)) * 20000
            got = b""
            s.setblocking(False)
            at = 0
            while len(got) < len(data):
                with contextlib.suppress(BlockingIOError):
                    at += s.send(data[at:at + 65536]) if at < len(data) else 0
                with contextlib.suppress(BlockingIOError):
                    got += s.recv(65536)
            assert got == data
        assert refusals(egress) == []


def test_an_end_of_one_direction_is_passed_on_alone(authorities, server):  # noqa: F811
    proxy = ScriptedProxy([(3, GREETING), (10, REPLY)], ("127.0.0.1", server.port))
    with through(authorities, proxy.port) as egress, open_through(egress, server) as s:
        assert receive(s, 6) == b"hello "
        s.shutdown(socket.SHUT_WR)
        assert receive(s, 4) == b" bye" and s.recv(10) == b""
    proxy.close()


def test_without_a_login(authorities, server):  # noqa: F811
    with microsocks() as port, through(authorities, port) as egress, open_through(egress, server) as s:
        assert receive(s, 6) == b"hello "


def test_a_name_is_looked_up(authorities, server):  # noqa: F811
    with microsocks() as port, through(authorities, port, host="localhost") as egress, \
            open_through(egress, server) as s:
        assert receive(s, 6) == b"hello "


def test_what_the_proxy_hears(authorities, server):  # noqa: F811
    steps = [(4, LOGIN), (5 + len(PASSWORD), b"\1\0"), (10, REPLY)]
    proxy = ScriptedProxy(steps, ("127.0.0.1", server.port))
    with through(authorities, proxy.port, username="me", password=PASSWORD) as egress, \
            open_through(egress, server) as s:
        s.sendall(b"x")
        assert receive(s, 6) == b"hello "
    proxy.close()
    assert proxy.heard == [[b"\5\2\0\2", b"\1\2me\x19" + PASSWORD.encode(),
                            b"\5\1\0\1" + socket.inet_aton("127.0.0.1") + struct.pack(">H", server.port)]]


@pytest.mark.parametrize("steps, word", [
    ([(3, b"\5\xff")], "asks for a user name"), ([(3, b"\5\2")], "asks for a user name"),
    ([(3, b"HTTP/1.1 400")], "does not speak SOCKS5"), ([(3, b"\4\0")], "does not speak SOCKS5"),
    ([(3, GREETING), (10, b"\5\2\0\1\0\0\0\0\0\0")], "rules do not allow"),
    ([(3, GREETING), (10, b"\5\5\0\1\0\0\0\0\0\0")], "refused the connection"),
    ([(3, GREETING), (10, b"\5\x63\0\1\0\0\0\0\0\0")], "unknown failure"),
    ([(3, GREETING), (10, b"\5\0\0\7\0\0\0\0\0\0")], "does not speak SOCKS5"),
    ([(3, GREETING), (10, b"\5\0\0\1\0")], "closed the connection"), ([(3, b"")], "closed the connection")])
def test_a_proxy_that_refuses(authorities, server, steps, word):  # noqa: F811
    proxy = ScriptedProxy(steps)
    with through(authorities, proxy.port) as egress:
        with egress.connect_dial(server.port) as s:
            assert s.recv(1) == b"", "no byte, and no other way"
        wait_for(lambda: word in str(refusals(egress)), what="a report")
        assert "upstream proxy" in egress.stats()[2][0]["why"] and egress.stats()[2][0]["port"] == server.port
    proxy.close()
    assert server.peers == []


@pytest.mark.parametrize("reply", [b"\5\0\0\1\1\2\3\4\0\7", b"\5\0\0\4" + bytes(16) + b"\0\7",
                                   b"\5\0\0\3\3abc\0\7"])
def test_each_form_of_a_reply_in_pieces(authorities, server, reply):  # noqa: F811
    """The address in the reply is skipped; what follows it is the destination's."""
    steps = [(3, b"\5"), (0, b"\0"), (10, reply[:1])] + [(0, reply[i:i + 1]) for i in range(1, len(reply))]
    proxy = ScriptedProxy(steps + [(0, b"first")], ("127.0.0.1", server.port))
    with through(authorities, proxy.port) as egress, open_through(egress, server) as s:
        assert receive(s, 5) == b"first"
    proxy.close()


@contextlib.contextmanager
def in_tls(pair, port):
    """A port that speaks TLS in front of a proxy."""
    def relay(connection, _):
        with socket.create_connection(("127.0.0.1", port)) as inner:
            back = threading.Thread(target=copy, args=(inner, connection.sock), daemon=True)
            back.start()
            copy(connection.sock, inner)
            back.join(60)
    host = Host(pair, relay)
    yield host
    host.close()


def test_a_proxy_in_tls(authorities, server):  # noqa: F811
    """Its certificate is verified: by the hosts' authorities or its own, for its address or another name."""
    hosts, _, nobody = authorities
    with microsocks(user="me", password=PASSWORD) as port, in_tls(hosts.pair("127.0.0.1"), port) as known, \
            in_tls(nobody.pair("proxy.example"), port) as unknown:
        login = {"username": "me", "password": PASSWORD}
        own = {"name": "proxy.example", "ca": nobody.pem()}
        for host, tls in ((known, {}), (unknown, own)):
            with through(authorities, host.port, tls=tls, **login) as egress, open_through(egress, server) as s:
                assert receive(s, 6) == b"hello "
                s.sendall(b"x" * 100000)
                assert receive(s, 100000) == b"x" * 100000
            assert host.alpn == [None]
        accepted = len(server.peers)
        for host, tls in ((known, {"name": "other.example"}), (unknown, {}), (known, own),
                          (unknown, {"ca": nobody.pem()})):
            with through(authorities, host.port, tls=tls, **login) as egress:
                with egress.connect_dial(server.port) as s:
                    assert s.recv(1) == b""
                wait_for(lambda: "certificate" in str(refusals(egress)), what="a report")
        assert len(server.peers) == accepted


def test_a_wrong_password(authorities, server):  # noqa: F811
    with microsocks(user="me", password="another") as port, \
            through(authorities, port, username="me", password=PASSWORD) as egress:
        with egress.connect_dial(server.port) as s:
            assert s.recv(1) == b""
        wait_for(lambda: "password is wrong" in str(refusals(egress)), what="a report")
    assert server.peers == []


def test_a_private_proxy_is_not_asked(authorities, server):  # noqa: F811
    proxy = ScriptedProxy([(3, GREETING)])
    with through(authorities, proxy.port, special=False) as egress:
        with egress.connect_dial(server.port) as s:
            assert s.recv(1) == b""
        wait_for(lambda: "not public" in str(refusals(egress)), what="a report")
    proxy.close()
    assert proxy.heard == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give this machine an address")
def test_a_public_address_of_this_host_is_no_proxy(authorities, server):  # noqa: F811
    address = f"11.213.{secrets.randbelow(254) + 1}.{secrets.randbelow(254) + 1}"
    subprocess.run(["ip", "address", "add", f"{address}/32", "dev", "lo"], check=True)
    try:
        with microsocks(address) as port:
            for special, byte in ((True, b"\0"), (False, b"")):
                with through(authorities, port, host=address, special=special) as egress, \
                        egress.connect_dial(server.port) as s:
                    assert s.recv(1) == byte
                    if not special:
                        wait_for(lambda e=egress: "of this host" in str(refusals(e)), what="a report")
    finally:
        subprocess.run(["ip", "address", "del", f"{address}/32", "dev", "lo"], check=True)


def test_nobody_dials_without_a_proxy(authorities, server):  # noqa: F811
    with running(authorities) as egress:
        with egress.connect_dial(server.port) as s:
            assert s.recv(1) == b""
        wait_for(lambda: "no upstream proxy" in egress.text(), what="a report")
    assert server.peers == []


def test_requests_with_secrets_leave_through_it(authorities):  # noqa: F811
    with microsocks(user="me", password=PASSWORD) as port, \
            through(authorities, port, username="me", password=PASSWORD) as egress:
        host = egress.host(NAME)
        with egress.dial(NAME, host.port) as s:
            for _ in range(2):
                status, _, body = ask(s, headers=[("Authorization", PLACEHOLDER)], host=NAME)
                assert status == 200 and VALUE not in body.decode()
        assert dict(host.requests[0][1])["Authorization"] == VALUE


def test_requests_with_secrets_have_no_other_way(authorities):  # noqa: F811
    proxy = ScriptedProxy([(3, GREETING), (10, b"\5\2\0\1\0\0\0\0\0\0")])
    with through(authorities, proxy.port) as egress:
        host = egress.host(NAME)
        with egress.dial(NAME, host.port) as s:
            status, _, body = ask(s, headers=[("Authorization", PLACEHOLDER)], host=NAME)
        assert status == 502 and b"its rules do not allow it" in body and not host.requests
    proxy.close()


def test_a_client_that_leaves_ends_its_dial(authorities, server):  # noqa: F811
    """Also while the proxy is silent."""
    proxy = ScriptedProxy([(3, b""), (1, b"")])
    with through(authorities, proxy.port) as egress:
        s = egress.connect_dial(server.port)
        wait_for(lambda: proxy.heard and len(proxy.heard[0]) == 1, what="the greeting")
        s.close()
        wait_for(lambda: len(proxy.heard[0]) == 2, what="the end of the connection to the proxy")
        assert proxy.heard[0] == [b"\5\1\0", b""]
    proxy.close()
