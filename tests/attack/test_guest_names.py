# SPDX-License-Identifier: Apache-2.0
"""A guest that may reach one name tries to reach more: by address, by other kinds of DNS query, by
another name at the same address, by a name whose address changes, and by an address that a second
sandbox asked for.
"""


import pytest

from attack_world import ALL, Field, UdpHello
from gate_world import client_hello
from netd_world import NameServer
from threaded import Threaded
from tiers import tier  # noqa: F401

OTHER = "9.9.9.9"
GOOD, EVIL = "good.example", "evil.example"


class Answers(Threaded):
    """Answers clients that speak first, at a port of every address of the world."""

    def __init__(self, namespace, port):
        self.told = []
        super().__init__(namespace.listen("0.0.0.0", port))

    def serve(self, connection):
        if data := connection.recv(4096):
            self.told.append(data)
            connection.sendall(b"world")


@pytest.fixture(scope="module", name="field")
def fixture_field(tier):  # noqa: F811
    field = Field(tier=tier, dns=NameServer)
    field.world.world.ip("addr", "add", OTHER + "/32", "dev", "lo")
    field.names.records[GOOD] = [OTHER]
    field.names.records[EVIL] = [OTHER]
    field.servers = [Answers(field.world.world, p) for p in (53, 80, 443, 853)]
    field.hellos += [*field.servers, UdpHello(field.world.world, 53), UdpHello(field.world.world, 443)]
    yield field
    field.close()


def http(name):
    return f"GET / HTTP/1.1\r\nHost: {name}\r\n\r\n"


def hello(name):
    return client_hello(name).decode("latin-1")


# Each of these reaches the world when nothing is in the way.
BY_ADDRESS = [["tcp", OTHER, 80, http(GOOD)], ["tcp", OTHER, 443, hello(GOOD)]]
OTHER_WAYS = [["tcp", OTHER, 53, "\0\x1d" + "x" * 29], ["tcp", OTHER, 853, hello(EVIL)], ["udp", "8.8.4.4", 53],
              ["udp", OTHER, 53], ["udp", OTHER, 443]]
OTHER_NAMES = [["tcp", OTHER, 80, http(EVIL)], ["tcp", OTHER, 443, hello(EVIL)], ["tcp", OTHER, 443, http(EVIL)],
               ["tcp", OTHER, 80, http(GOOD)[:-2] + f"Host: {EVIL}\r\n\r\n"]]
REACHED = {"reached:world", "reached:" + b"world".hex()}
REFUSED = {"ECONNREFUSED", "ECONNRESET", "EHOSTUNREACH", "EACCES", "reached:"}  # an end without a word is none


def test_one_name_is_one_name(field):
    everything = [*BY_ADDRESS, *OTHER_WAYS, *OTHER_NAMES]
    assert set(field.attack(*everything)) <= REACHED  # control: the policy is open
    heard = [len(s.told) for s in field.servers]
    field.policy(allowOut=[GOOD], denyOut=[ALL])
    try:
        # nobody has asked for the name yet
        outcomes = field.attack(*everything, ["resolve", EVIL], ["tcp", "10.0.2.3", 53, "x"], ["tcp", "10.0.2.3", 853, "x"])
        assert set(outcomes[:len(everything)]) <= REFUSED - {"reached:"}, outcomes
        assert outcomes[-3:] == [[], "ECONNREFUSED", "ECONNREFUSED"]
        # it is open by its name, and by that only
        outcomes = field.attack(["resolve", GOOD], *BY_ADDRESS, *OTHER_WAYS, *OTHER_NAMES)
        assert outcomes[0] == [OTHER] and set(outcomes[1:3]) == {"reached:world"}, outcomes
        assert set(outcomes[3:]) <= REFUSED, outcomes
        assert [len(s.told) for s in field.servers] == [heard[0], heard[1] + 1, heard[2] + 1, heard[3]]
    finally:
        field.policy()


def test_a_name_that_changes_what_it_stands_for(field):
    """DNS rebinding: a private address is removed from the answer and stays closed."""
    field.policy(allowOut=["rebind.example"], denyOut=[ALL])
    field.names.records["rebind.example"] = ["10.9.9.9", "127.0.0.1", "169.254.169.254", field.world.HOST_IP]
    try:
        outcomes = field.attack(["resolve", "rebind.example"], *[["tcp", a, 80, http("rebind.example")] for a in
                                                               ("10.9.9.9", "169.254.169.254", field.world.HOST_IP)])
        assert outcomes == [[]] + ["ECONNREFUSED"] * 3
        field.names.records["rebind.example"] = [OTHER]  # control
        assert field.attack(["resolve", "rebind.example"], ["tcp", OTHER, 80, http("rebind.example")]) == \
            [[OTHER], "reached:world"]
    finally:
        field.policy()


def test_what_another_sandbox_asked_for(field):
    """Names that another sandbox resolved open nothing here."""
    second = field.sandbox(network={"allowOut": [GOOD], "denyOut": [ALL]})
    field.policy(allowOut=["nothing.example"], denyOut=[ALL])
    try:
        assert field.attack(["resolve", GOOD], *BY_ADDRESS, made=second)[1:] == ["reached:world"] * 2
        assert field.attack(["resolve", GOOD], *BY_ADDRESS) == [[], "ECONNREFUSED", "ECONNREFUSED"]
    finally:
        field.policy()
        field.daemon.kill(second["sandboxID"])


