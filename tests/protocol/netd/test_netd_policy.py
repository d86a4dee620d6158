# SPDX-License-Identifier: Apache-2.0
"""cubby-netd's policies: lists of addresses, names, and a new one while connections are open. The
world and the name server are namespaces; no packet leaves the machine."""

import json
import socket
import struct
import threading

import pytest

from netd_guest import Guest, Netd, World, wait_for
from netd_world import PORT, Echo, NameServer, ask, pack_name, reaches
from receive import receive

OTHER = "9.9.9.9"  # public as well, and the world's
ALL = "0.0.0.0/0"


@pytest.fixture(name="world")
def fixture_world():
    world = World()
    world.world.ip("addr", "add", OTHER + "/32", "dev", "lo")
    world.echo = Echo(world.world)
    world.names = NameServer(world.host)
    yield world
    world.names.close()
    world.echo.close()
    world.close()


@pytest.fixture(name="start")
def fixture_start(world, tmp_path):
    """start(policy) -> (netd, guest)"""
    open_ones = []

    def start(policy):
        (tmp_path / "resolv.conf").write_text("search x\nnameserver 127.0.0.1\n")
        netd = Netd(tmp_path, namespace=world.host, resolv_conf=tmp_path / "resolv.conf",
                    policy=policy)
        guest = Guest(netd)
        open_ones.extend((netd, guest))
        return netd, guest

    yield start
    for one in reversed(open_ones):
        one.close()


def test_lists(world, start):
    _, guest = start({"denyOut": ["8.0.0.0/8"], "allowOut": [world.PUBLIC]})
    assert reaches(guest, world.PUBLIC), "allowed wins over denied"
    assert reaches(guest, OTHER), "what is in neither is public"
    assert not reaches(guest, "10.9.9.9")


def test_deny_all_but_one(world, start):
    netd, guest = start({"denyOut": [ALL], "allowOut": [OTHER + "/32"]})
    assert reaches(guest, OTHER) and not reaches(guest, world.PUBLIC)
    assert ask(guest, "a.example") == (3, []), "NXDOMAIN, and nobody else was asked"
    assert world.names.seen == []
    with guest.listen() as listener:  # inwards everything works
        client = netd.open(listener.getsockname()[1])
        conn, _ = listener.accept()
        conn.sendall(b"in")
        assert receive(client, 2) == b"in"
        conn.close()
        client.close()


def test_special_needs_both(world, start):
    """An address that is not public must be named by the policy and permitted by the daemon."""
    netd, guest = start({"special": True, "allowOut": [ALL, "10.9.0.0/16"]})
    assert reaches(guest, "10.9.9.9")
    assert not reaches(guest, "192.168.77.1"), "a wide entry does not open it by the way"
    assert not reaches(guest, world.HOST_IP) and not reaches(guest, "10.0.2.2")
    refused = netd.control(b'{"policy":{"allowOut":["10.9.9.9"]}}\n')
    assert "not public" in refused["error"]
    assert reaches(guest, "10.9.9.9"), "the old policy holds"
    netd.set_policy({"allowOut": [ALL]})
    assert not reaches(guest, "10.9.9.9")


def test_names_open_what_they_stand_for(world, start):
    netd, guest = start({"denyOut": [ALL], "allowOut": ["a.example:8080", "*.b.example:8080"]})
    world.names.records = {"a.example": [world.PUBLIC], "x.b.example": [OTHER], "b.example": [OTHER]}
    assert not reaches(guest, world.PUBLIC), "nothing was resolved yet"
    assert ask(guest, "A.Example") == (0, [world.PUBLIC])
    assert reaches(guest, world.PUBLIC) and not reaches(guest, OTHER)
    assert ask(guest, "b.example") == (3, []), "NXDOMAIN: a wildcard is for what is below"
    assert ask(guest, "evil.example") == (3, [])
    assert not reaches(guest, OTHER)
    assert ask(guest, "x.b.example") == (0, [OTHER])
    assert reaches(guest, OTHER)
    assert ask(guest, "a.example", kind=28) == (0, []), "no IPv6 addresses"
    assert ask(guest, "none.b.example") == (3, []), "NXDOMAIN"
    assert {n for n, _, _ in world.names.seen} == {"a.example", "x.b.example", "none.b.example"}, \
        "no other name leaves the sandbox"
    with pytest.raises(ConnectionRefusedError):
        guest.connect("10.0.2.3", 53)


def test_names_do_not_open_what_is_special(world, start):
    """DNS rebinding: the name's owner says that it is on the local network, or this host."""
    _, guest = start({"denyOut": [ALL], "allowOut": ["a.example:8080", "b.example"]})
    world.names.records = {"a.example": ["169.254.169.254", "10.9.9.9", world.HOST_IP, OTHER],
                           "b.example": ["10.9.9.9"]}
    assert ask(guest, "a.example") == (0, [OTHER]), "those are taken out of the answer"
    assert ask(guest, "b.example") == (3, []), "and a name that has no other does not exist"
    assert reaches(guest, OTHER)
    for address in ("169.254.169.254", "10.9.9.9", world.HOST_IP):
        assert not reaches(guest, address)


def test_questions_are_netds_own(world, start):
    """netd uses its own ports and numbers for DNS queries, so an accomplice who knows the guest's
    cannot forge an answer."""
    _, guest = start({"denyOut": [ALL], "allowOut": ["*.example"]})
    world.names.records = {f"n{i}.example": [OTHER] for i in range(8)}
    for i in range(8):
        assert ask(guest, f"n{i}.example", number=7)[0] == 0
    ports = {peer[1] for _, peer, _ in world.names.seen}
    numbers = {query[:2] for _, _, query in world.names.seen}
    assert len(ports) > 1 and len(numbers) > 1
    # Others than the resolver are not heard, even with the right number.
    world.names.records["late.example"] = "silence"
    thread = threading.Thread(target=lambda: ask(guest, "late.example"))
    thread.start()
    _, peer, query = wait_for(lambda: next((s for s in world.names.seen if s[0] == "late.example"), None),
                              seconds=30, what="the question")
    forged = (query[:2] + struct.pack(">HHHHH", 0x8180, 1, 1, 0, 0) + pack_name("late.example") +
              struct.pack(">HH", 1, 1) + b"\xc0\x0c" + struct.pack(">HHIH", 1, 1, 60, 4) +
              socket.inet_aton(world.PUBLIC))
    with world.host.socket(socket.SOCK_DGRAM) as s:
        s.sendto(forged, peer)
    assert not reaches(guest, world.PUBLIC)
    thread.join()


def test_resolver_that_is_silent_or_gone(world, start):
    netd, guest = start({"denyOut": [ALL], "allowOut": ["*.example"]})
    world.names.records = {"s.example": "silence"}
    assert ask(guest, "s.example") == (2, []), "SERVFAIL"
    assert len([s for s in world.names.seen if s[0] == "s.example"]) >= 2, "asked again"
    world.names.close()
    assert ask(guest, "t.example") == (2, [])
    assert "resolver.failed" in netd.log()


def test_other_name_by_the_same_port_and_number(world, start):
    """Each query is answered, even if the first has no answer yet and only the name differs."""
    _, guest = start({"denyOut": [ALL], "allowOut": ["*.example"]})
    world.names.records = {"first.example": "silence", "second.example": [world.PUBLIC]}
    with guest.socket(socket.SOCK_DGRAM) as s:
        s.settimeout(30)
        s.connect(("10.0.2.3", 53))
        for name in "first.example", "second.example":
            s.send(struct.pack(">HHHHHH", 77, 0x100, 1, 0, 0, 0) + pack_name(name) +
                   struct.pack(">HH", 1, 1))
            wait_for(lambda: name in [seen[0] for seen in world.names.seen], what=name)
        answers = [s.recv(4096) for _ in range(2)]
    assert [pack_name("second.example") in answer for answer in answers] == [True, False]


def test_new_policy_cuts_what_it_denies(world, start):
    netd, guest = start({})
    kept, lost = guest.connect(OTHER, PORT), guest.connect(world.PUBLIC, PORT)
    for s in (kept, lost):
        s.sendall(b"before")
        assert receive(s, 6) == b"before"
    with guest.listen() as listener:
        client = netd.open(listener.getsockname()[1])
        inward, _ = listener.accept()
        netd.set_policy({"denyOut": [world.PUBLIC]})
        with pytest.raises(ConnectionResetError):
            lost.recv(10)  # without having said anything
        wait_for(lambda: world.echo.ends == ["reset"], seconds=30, what="its peer hears of it too")
        assert not reaches(guest, world.PUBLIC)
        kept.sendall(b"after")
        assert receive(kept, 5) == b"after"
        inward.sendall(b"in")
        assert receive(client, 2) == b"in"
        netd.set_policy({"internet": False})
        with pytest.raises(ConnectionResetError):
            kept.recv(10)
        client.sendall(b"still")
        assert receive(inward, 5) == b"still"
        inward.close()
        client.close()
    netd.set_policy({})
    assert reaches(guest, world.PUBLIC) and reaches(guest, OTHER), "and back again"
    kept.close()
    lost.close()


def test_new_policy_cuts_while_connecting_and_while_full(world, start):
    """Connections in every state: one whose peer never answers, one that nobody reads."""
    netd, guest = start({})
    world.world.ip("route", "add", "blackhole", "203.0.112.0/24")  # public, silent
    silent = guest.socket()
    silent.setblocking(False)
    silent.connect_ex(("203.0.112.7", PORT))
    listener = world.world.listen()
    full = guest.connect(world.PUBLIC, listener.getsockname()[1])
    conn, _ = listener.accept()
    full.setblocking(False)
    try:
        while True:
            full.send(bytes(65536))
    except BlockingIOError:
        pass
    before = netd.cpu_ticks()
    netd.set_policy({"denyOut": [ALL]})
    full.setblocking(True)
    full.settimeout(30)
    with pytest.raises(ConnectionResetError):
        full.recv(10)
    conn.settimeout(30)
    with pytest.raises(ConnectionResetError):
        while conn.recv(1 << 20):
            pass
    silent.settimeout(30)
    wait_for(lambda: silent.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) != 0, seconds=30,
             what="the one under way fails")
    assert netd.cpu_ticks() - before < 100, "nothing spins"
    for s in (full, conn, silent, listener):
        s.close()


def test_names_that_stay_and_names_that_go(world, start):
    netd, guest = start({"denyOut": [ALL], "allowOut": ["a.example:8080", "b.example:8080"]})
    world.names.records = {"a.example": [world.PUBLIC], "b.example": [OTHER]}
    ask(guest, "a.example"), ask(guest, "b.example")
    kept, lost = guest.connect(world.PUBLIC, PORT), guest.connect(OTHER, PORT)
    netd.set_policy({"internet": False, "allowOut": ["a.example:8080"]})
    with pytest.raises(ConnectionResetError):
        lost.recv(10)
    kept.sendall(b"on\n")
    assert receive(kept, 3) == b"on\n"
    assert ask(guest, "b.example") == (3, [])
    kept.close()
    lost.close()


def test_control_takes_nothing_wrong(world, start):
    netd, guest = start({"denyOut": [world.PUBLIC]})
    for line, words in ((b"nonsense\n", "JSON"), (b"{}\n", "JSON object"), (b'{"policy":[]}\n', "JSON object"),
                        (b'{"policy":{"denyOut":["x.example"]}}\n', "denyOut takes only"),
                        (b'{"policy":{"allowOut":["x.example"]}}\n', "0.0.0.0/0"),
                        (json.dumps({"policy": {"denyOut": ["1.1.1.1"] * 257}}).encode() + b"\n", "256")):
        assert words in netd.control(line)["error"], line
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as s:
        s.connect(netd.control_path)  # says nothing, and goes
    with pytest.raises((ConnectionResetError, BrokenPipeError, AssertionError)):
        assert netd.control(b"x" * 300_000) is not None, "too long: hung up without an answer"
    assert not reaches(guest, world.PUBLIC) and reaches(guest, OTHER)
    netd.set_policy({})
    assert reaches(guest, world.PUBLIC)
