# SPDX-License-Identifier: Apache-2.0
"""With an upstream proxy, cubby-egress makes every TCP connection of the guest to the outside."""

import errno
import select
import socket

import pytest

from gate_world import BY_NAME, OPEN, OTHER, client_hello, says, serve
from gate_world import fixture_egress, fixture_start, fixture_world  # noqa: F401 (fixtures)
from netd_guest import wait_for
from receive import receive

DIAL = {"egress_use": "dial"}


def begin(guest, address, port):
    """A connection of the guest whose handshake is not over yet."""
    s = guest.socket()
    s.setblocking(False)
    assert s.connect_ex((address, port)) == errno.EINPROGRESS
    s.settimeout(30)
    return s


def finish(s):
    """The result of the handshake."""
    s.settimeout(None)
    assert select.select([], [s], [], 30)[1], "the handshake takes too long"
    s.settimeout(30)
    return s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)


def test_a_connection_waits_for_egress(world, start, egress):  # noqa: F811
    server = serve(world, 2222)
    netd, guest = start(OPEN, egress=egress.theirs, **DIAL)
    s = begin(guest, world.PUBLIC, 2222)
    message, end = egress.take()
    assert message == '{"address":"%s","port":2222,"dial":true}' % world.PUBLIC
    assert s.connect_ex((world.PUBLIC, 2222)) == errno.EALREADY, "egress has not said anything"
    end.sendall(b"\0SSH-2.0-server\r\n")
    assert finish(s) == 0 and receive(s, 16) == b"SSH-2.0-server\r\n", "the server may speak first"
    s.sendall(b"SSH-2.0-client\r\n" * 10000)
    assert receive(end, 160000) == b"SSH-2.0-client\r\n" * 10000
    s.shutdown(socket.SHUT_WR)
    assert end.recv(10) == b""
    end.sendall(b"late")
    end.close()
    assert receive(s, 4) == b"late" and s.recv(10) == b""
    s.close()
    assert server.accepted == 0, "netd has connected nothing itself"
    assert netd.stats()[1] == {}


@pytest.mark.parametrize("said", [b"", b"\1", b"x\0"])
def test_a_connection_that_egress_refuses(world, start, egress, said):  # noqa: F811
    server = serve(world, 2222)
    _, guest = start(OPEN, egress=egress.theirs, **DIAL)
    for _ in range(3):
        s = begin(guest, world.PUBLIC, 2222)
        _, end = egress.take()
        end.sendall(said)
        end.close()
        assert finish(s) == errno.ECONNREFUSED
        s.close()
    assert server.accepted == 0


def test_where_the_proxy_is_the_only_way(world, start, egress):  # noqa: F811
    """This host has no route to the destination."""
    _, guest = start(OPEN, egress=egress.theirs, **DIAL)
    world.host.ip("route", "del", "default")
    with pytest.raises(OSError, match="unreachable"):
        world.host.connect("44.1.2.3", 2222)
    s = begin(guest, "44.1.2.3", 2222)
    message, end = egress.take()
    assert '"44.1.2.3"' in message
    end.sendall(b"\0")
    assert finish(s) == 0
    s.close()


def test_egress_that_is_gone(world, start, egress):  # noqa: F811
    server = serve(world, 2222)
    netd, guest = start(OPEN, egress=egress.theirs, **DIAL)
    egress.close()
    with pytest.raises(ConnectionRefusedError):
        guest.connect(world.PUBLIC, 2222, timeout=30)
    assert netd.stats()[1] == {"the egress proxy is gone": 1} and server.accepted == 0


def test_the_policy_comes_first(world, start, egress):  # noqa: F811
    netd, guest = start(BY_NAME, egress=egress.theirs, **DIAL)
    with pytest.raises(ConnectionRefusedError):
        guest.connect(OTHER, 443, timeout=30)
    s = begin(guest, world.PUBLIC, 443)
    _, end = egress.take()
    end.sendall(b"\0")
    assert finish(s) == 0
    s.sendall(client_hello("evil.example"))
    with pytest.raises(ConnectionResetError):
        s.recv(10)
    assert end.recv(100) == b"", "nothing of it was sent"
    s.close()
    s = begin(guest, world.PUBLIC, 443)
    _, end = egress.take()
    end.sendall(b"\0")
    assert finish(s) == 0
    s.sendall(client_hello("a.example"))
    assert end.recv(5)[:1] == b"\x16"
    s.close()
    egress.ours.settimeout(0.01)
    with pytest.raises(TimeoutError):
        egress.take()
    assert netd.stats()[2][0]["name"] == "evil.example"


def test_udp_has_no_way_and_names_have(world, start, egress):  # noqa: F811
    netd, guest = start(OPEN, egress=egress.theirs, **DIAL)
    u = guest.socket(socket.SOCK_DGRAM)
    u.settimeout(30)
    u.connect((world.PUBLIC, 443))
    u.send(b"quic")
    with pytest.raises(ConnectionRefusedError):
        u.recv(100)
    u.close()
    assert netd.stats()[1] == {"UDP does not go through the upstream proxy": 1}
    u = guest.socket(socket.SOCK_DGRAM)
    u.settimeout(30)
    u.connect(("10.0.2.3", 53))
    u.send(b"\0\1\1\0\0\1\0\0\0\0\0\0\1a\7example\0\0\1\0\1")
    assert socket.inet_aton(world.PUBLIC) in u.recv(512), "names are resolved as before"
    u.close()


def test_both_uses(world, start, egress):  # noqa: F811
    """TLS is handed over, and its first connection carries nothing; the rest is relayed."""
    _, guest = start(OPEN, egress=egress.theirs, egress_use="both")
    s = begin(guest, world.PUBLIC, 443)
    _, first = egress.take()
    first.sendall(b"\0")
    assert finish(s) == 0
    s.sendall(client_hello("a.example"))
    message, end = egress.take()
    assert '"name":"a.example"' in message and end.recv(1) == b"\x16"
    assert first.recv(10) == b""
    s.close()


def test_a_proxy_that_comes_and_goes(world, start, egress):  # noqa: F811
    server = serve(world, 2222)
    netd, guest = start(OPEN)
    direct = guest.connect(world.PUBLIC, 2222, timeout=30)
    netd.set_egress(OPEN, egress.theirs, "dial")
    with pytest.raises(ConnectionResetError):
        direct.recv(10)
    waiting = begin(guest, world.PUBLIC, 2222)
    _, end = egress.take()
    netd.set_egress(OPEN, None)
    assert finish(waiting) in (errno.ECONNREFUSED, errno.ECONNRESET) or waiting.recv(1) == b""
    assert end.recv(10) == b""
    assert says(guest, world.PUBLIC, 2222, b"x") == b"ok"
    wait_for(lambda: len(server.got) == server.accepted == 2, what="both are over")


def test_many_at_once_leave_nothing(world, start, egress):  # noqa: F811
    netd, guest = start({"limits": {"connectionsPerSecond": 5000}}, egress=egress.theirs, **DIAL)
    before = netd.fds()
    for _ in range(4):
        sockets = [begin(guest, world.PUBLIC, 2222) for _ in range(50)]
        ends = [egress.take()[1] for _ in sockets]
        for end in ends[::2]:
            end.sendall(b"\0")
        for end in ends[1::2]:
            end.close()
        results = [finish(s) for s in sockets]
        assert sorted(results) == [0] * 25 + [errno.ECONNREFUSED] * 25
        for s in sockets + ends:
            s.close()
    wait_for(lambda: netd.fds() == before, what="the descriptors are closed")
