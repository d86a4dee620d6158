# SPDX-License-Identifier: Apache-2.0
"""Every TLS and HTTP connection of a sandbox with secrets is handed over to the egress proxy,
before any of it is read, and never bypasses it.
"""

import socket

import pytest

from gate_world import BY_NAME, OPEN, Egress, Server, client_hello, request, says, serve
from gate_world import fixture_egress, fixture_start, fixture_world  # noqa: F401 (fixtures)
from netd_guest import wait_for
from receive import receive


def test_handed_over(world, start, egress):
    servers = {port: serve(world, port) for port in (80, 443, 8443, 2222)}
    _, guest = start(OPEN, egress=egress.theirs)
    for port, said, name, is_tls in ((443, client_hello("api.example"), "api.example", "true"),
                                     (8443, client_hello(None), "", "true"),
                                     (80, request("api.example"), "api.example", "false"),
                                     (80, request("api.example", more="Upgrade: websocket\r\n"), "api.example", "false"),
                                     (443, b"GET / HTTP/1.0\r\n\r\n", "", "false")):
        with guest.connect(world.PUBLIC, port, timeout=30) as s:
            s.sendall(said + b"behind it" * 5000)
            message, end = egress.take()
            assert message == ('{"name":"%s","address":"%s","port":%d,"tls":%s}' %
                               (name, world.PUBLIC, port, is_tls)), message
            got = b""
            while len(got) < len(said) + 45000:
                got += end.recv(65536)
            assert got == said + b"behind it" * 5000, "not one byte was read"
            end.sendall(b"answer")
            assert receive(s, 6) == b"answer"
            s.shutdown(socket.SHUT_WR)
            assert end.recv(10) == b""
            end.sendall(b"late")
            end.close()
            assert receive(s, 4) == b"late" and s.recv(100) == b""
    assert says(guest, world.PUBLIC, 2222, b"SSH-2.0-x\r\n") == b"ok", "the rest goes by itself"
    wait_for(lambda: all(len(s.got) == s.accepted for s in servers.values()), what="all are over")
    assert {data for port in (80, 443, 8443) for data, _ in servers[port].got} == {b""}, "nothing went round it"


def test_names_are_resolved_over_tcp(world, start, egress):
    """For answers that do not fit in UDP the resolver is reachable; its connections are neither TLS
    nor HTTP."""
    world.servers.append(Server(world.host, 53))
    netd, guest = start(OPEN, egress=egress.theirs)
    assert says(guest, "10.0.2.3", 53, b"\0\x05query") == b"ok"
    assert netd.stats()[1] == {}


def test_a_slow_hello_does_not_go_past_it(world, start, egress):
    server = serve(world, 443)
    netd, guest = start(OPEN, egress=egress.theirs)
    with guest.connect(world.PUBLIC, 443, timeout=60) as s:
        s.sendall(client_hello("api.example")[:-1])
        with pytest.raises(ConnectionResetError):
            s.recv(10)
    assert "in time" in netd.stats()[2][0]["why"]
    wait_for(lambda: [data for data, _ in server.got] == [b""], what="nothing got out")


def test_handed_over_by_name_only(world, start, egress):
    netd, guest = start(BY_NAME, egress=egress.theirs)
    serve(world, 443)
    assert says(guest, world.PUBLIC, 443, client_hello("evil.example")) == "reset"
    assert netd.stats()[2][0]["name"] == "evil.example"
    with guest.connect(world.PUBLIC, 443, timeout=30) as s:
        s.sendall(client_hello("a.example"))
        message, end = egress.take()
        assert '"name":"a.example"' in message
        netd.set_policy({"denyOut": ["0.0.0.0/0"]})
        with pytest.raises(ConnectionResetError):
            s.recv(10)
        data = b"x"
        while data:
            data = end.recv(65536)
        end.close()


def test_egress_that_is_busy_or_gone(world, start, egress):
    server = serve(world, 443)
    netd, guest = start({"limits": {"connectionsPerSecond": 5000}}, egress=egress.theirs)
    sockets = []
    while "the egress proxy is busy" not in netd.stats()[1]:
        assert len(sockets) < 500, "its queue has an end"
        sockets.append(guest.connect(world.PUBLIC, 443, timeout=30))
        sockets[-1].sendall(client_hello("a.example"))
    for s in sockets:
        s.close()
    message, end = egress.take()
    assert '"name":"a.example"' in message, "it goes on where it was"
    end.close()
    egress.close()
    assert says(guest, world.PUBLIC, 443, client_hello("a.example")) == "reset"
    assert says(guest, world.PUBLIC, 443, request("a.example")) == "reset"
    assert netd.stats()[1]["the egress proxy is gone"] >= 2
    wait_for(lambda: len(server.got) == server.accepted, what="all are over")
    assert not any(data for data, _ in server.got), "nothing went round it"


def test_another_egress_while_it_runs(world, start, egress):
    """Connections begin under one egress, and end with it: also those that it never saw."""
    serve(world, 443)
    serve(world, 2222)
    netd, guest = start(OPEN)

    def ends(s):
        with pytest.raises(ConnectionResetError):
            while s.recv(100):
                pass
        s.close()

    direct, other = (guest.connect(world.PUBLIC, port, timeout=30) for port in (443, 2222))
    for s, hello in ((direct, client_hello("api.example")), (other, b"SSH-2.0-x\r\n")):
        s.sendall(hello)
        assert receive(s, 2) == b"ok"
    netd.set_egress(OPEN, egress.theirs)
    ends(direct)
    ends(other)
    first = guest.connect(world.PUBLIC, 443, timeout=30)
    first.sendall(client_hello("api.example"))
    assert '"tls":true' in egress.take()[0]
    second = Egress()
    netd.set_egress(OPEN, second.theirs)
    ends(first)
    egress.theirs.close()
    assert egress.ours.recv(100) == b"", "netd has closed its end, which ends the old one"
    with guest.connect(world.PUBLIC, 443, timeout=30) as s:
        s.sendall(client_hello("api.example"))
        assert '"tls":true' in second.take()[0]
        netd.set_policy(OPEN)
        netd.set_egress(OPEN, None)
        ends(s)
    assert says(guest, world.PUBLIC, 443, client_hello("api.example")) == b"ok", "it goes by itself again"
    second.close()


@pytest.mark.parametrize("line, has_fd", [(b'{"policy": {}, "egress": "dial"}\n', False),
                                          (b'{"policy": {}, "egress": false}\n', True),
                                          (b'{"policy": {}}\n', True)])
def test_an_egress_without_its_socket_is_refused(start, egress, line, has_fd):
    netd = start(OPEN, with_guest=False, egress=egress.theirs)
    netd.set_policy(OPEN)  # it has started
    before = netd.fds()
    answer = netd.control(line, fds=[egress.ours.fileno()] if has_fd else ())
    assert "do not agree" in answer["error"]
    wait_for(lambda: netd.fds() == before, what="the descriptor is closed")
