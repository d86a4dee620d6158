# SPDX-License-Identifier: Apache-2.0
"""Root in a guest tries to reach addresses that it must not. Each attempt is refused at once with
an error, and the same attempt succeeds when the filter is off.
"""

import os

import pytest

from abuse import status
from attack_world import Field, PORT, wait_for
from receive import receive
from tiers import tier  # noqa: F401

REFUSED = ("ECONNREFUSED",)
UNREACHABLE = ("EHOSTUNREACH", "ECONNREFUSED", "EACCES", "EPERM")


@pytest.fixture(scope="module", name="field")
def fixture_field(tier):  # noqa: F811
    field = Field("--listen", "127.0.0.1:0", tier=tier)
    yield field
    field.close()


def special(field):
    return [*field.world.DENIED, field.world.HOST_IP]


def test_private_networks_metadata_and_the_host(field):
    """By TCP, by TCP with data in the first segment (fast open), and by UDP."""
    world = field.world
    attempts = [["tcp", a, PORT] for a in special(field)]
    attempts += [["fast_open", "10.9.9.9", PORT]] if field.daemon.tier == "microvm" else []  # gVisor has none
    datagrams = [["udp", a, PORT] for a in special(field)]
    outcomes = field.attack(*attempts, *datagrams, ["tcp", world.PUBLIC, PORT])
    assert set(outcomes[:len(attempts)]) == set(REFUSED), outcomes
    assert set(outcomes[len(attempts):-1]) <= set(UNREACHABLE), outcomes
    assert outcomes[-1] == "reached:world"
    assert b"early" not in field.hellos[0].told
    # control: the wall down, the same is reached
    field.policy(allowOut=[a + "/32" for a in special(field)])
    try:
        outcomes = field.attack(*attempts, *datagrams)
        count, early = len(world.DENIED), len(attempts) - len(special(field))
        assert outcomes[:len(attempts)] == ["reached:world"] * count + ["reached:host"] + ["reached:world"] * early
        assert outcomes[len(attempts):len(attempts) + count] == ["reached:" + b"world".hex()] * count
        assert field.hellos[0].told.count(b"early") == early
    finally:
        field.policy()


def neighbours(field, *addresses):
    """Gives addresses of the sandbox's own network an Ethernet address, because the guest's own kernel would give
    up without one. gVisor lets nobody do that: none of them can be tried there."""
    if field.daemon.tier == "gvisor":
        return []
    give = "; ".join(f"ip neigh replace {a} lladdr 52:55:0a:00:02:02 dev eth0" for a in addresses)
    assert field.attack(["shell", give]) == ["0:"]
    return addresses


def test_the_gateway_is_no_way_to_the_host(field):
    """libslirp would map these addresses to the host's loopback: 10.0.2.2 by default, 10.0.2.3 for
    the resolver. The control shows that 127.0.0.1 of the host listens at PORT."""
    own = ["10.0.2.2", "10.0.2.3", *neighbours(field, "10.0.2.1", "10.0.2.4", "10.0.2.16")]
    with field.world.host.connect("127.0.0.1", PORT) as s:
        assert receive(s, 4) == b"host"
    attempts = [["tcp", a, p] for a in own for p in (PORT, listening_port(field))]
    outcomes = field.attack(*attempts, *[["udp", a, PORT] for a in own])
    assert set(outcomes[:len(attempts)]) <= set(REFUSED), outcomes
    assert set(outcomes[len(attempts):]) <= set(UNREACHABLE), outcomes
    # nor does a rule: what is on the sandbox's own network is never the policy's business
    field.policy(allowOut=["10.0.2.0/24", "127.0.0.0/8"])
    try:
        outcomes = field.attack(*attempts)
        assert set(outcomes) <= set(REFUSED), outcomes
    finally:
        field.policy()


def listening_port(field):
    """The daemon's TCP port on the host's loopback."""
    for line in field.daemon.log.read_text().splitlines():
        if "listen" in line and "127.0.0.1:" in line:
            return int("".join(c for c in line.partition("127.0.0.1:")[2].split()[0] if c.isdigit()))
    raise AssertionError("the daemon does not listen")


def test_a_second_sandbox(field):
    """A second sandbox's server, by every address that it has or that leads to it."""
    neighbour = field.daemon.create()
    where = neighbour["sandboxID"]
    stream = field.daemon.open_command(neighbour, "cd /; echo up; exec python3 -m http.server 8000 -b 0.0.0.0")
    wait_for(lambda: field.daemon.through(where, port=8000, path="/").status == 200, 60, "the server answers")
    port = listening_port(field)
    head = f"GET / HTTP/1.1\r\nHost: 8000-{where}.localhost\r\nE2b-Sandbox-Id: {where}\r\nE2b-Sandbox-Port: 8000\r\n\r\n"
    beside = neighbours(field, "10.0.2.16")
    attempts = [["tcp", a, 8000, head] for a in ("10.0.2.15", *beside, field.world.HOST_IP)]
    attempts += [["tcp", a, port, head] for a in ("10.0.2.2", "10.0.2.3", field.world.HOST_IP)]
    attempts += [["tcp", a, 49983, head] for a in ("10.0.2.2", *beside, field.world.HOST_IP)]
    outcomes = field.attack(*attempts)
    assert set(outcomes) <= set(REFUSED), outcomes
    # control: from the host that very request is answered by the neighbour
    with field.world.host.connect("127.0.0.1", port) as s:
        s.sendall(head.encode())
        assert receive(s, 12) == b"HTTP/1.1 200"
    stream.close()
    assert field.daemon.kill(where) == 204


def test_other_ways_out(field):
    """No IPv6, no vsock, no shared file system. The daemon's sockets are files of the host, so no
    path in the guest leads to one."""
    home = str(field.daemon.home)
    mount = "for t in 9p virtiofs vboxsf; do mount -t $t x /mnt 2>&1 && echo MOUNTED; done; true"
    six = [["connect6", a, PORT] for a in ("::ffff:10.9.9.9", "fd00::1", "64:ff9b::a09:909")]
    sockets = f"find / -xdev \\( -name 'cubbyd*' -o -name vm.net -o -name net.ctl -o -name '*.qmp' \\); cat /proc/net/unix"
    *outcomes, mounts, files, reads = field.attack(
        *six, ["vsock", 2, 1024], ["vsock", 1, 1024], ["shell", mount], ["shell", sockets],
        ["shell", f"cat {home}/cubbyd.log"])
    assert outcomes[0] in REFUSED and set(outcomes[1:3]) <= {"ENETUNREACH", "EADDRNOTAVAIL", "EAFNOSUPPORT"}, outcomes
    assert set(outcomes[3:]) <= {"ENODEV", "EAFNOSUPPORT", "EADDRNOTAVAIL", "ENETUNREACH"}, outcomes
    assert "MOUNTED" not in mounts
    assert not any(w in files for w in ("cubbyd", "vm.net", "net.ctl", "qmp")), files
    assert reads.startswith("1:") and "No such file" in reads
    # control: they are there, on the host
    assert (field.daemon.home / "cubbyd.sock").is_socket()


@pytest.mark.only_in("microvm", reason="gVisor emulates no machine: its guests have no bus, device or I/O port")
def test_the_vms_devices(field):
    """No devices but Cubby's; QEMU's configuration device shows nothing of the host."""
    devices, texts = field.attack(
        ["shell", "cat /sys/bus/virtio/devices/*/device; ls /sys/bus/pci/devices | wc -l"], ["firmware"])
    ids = devices.partition(":")[2].split()
    assert set(ids[:-1]) <= {"0x0001", "0x0002", "0x0004", "0x0005"} and ids[-1] == "0", devices
    assert len(texts) > 3, texts  # it was read
    words = [str(field.daemon.home), field.attacker["sandboxID"], field.attacker["envdAccessToken"], "/home", "/root"]
    for name, text in texts.items():
        assert not any(w in text for w in words), (name, text)


def test_a_thousand_changes_leave_nothing_behind(field):
    """In the daemon and in netd, while the guest opens connections that are cut; and the last
    change holds."""
    daemon, public = field.daemon, [["tcp", field.world.PUBLIC, PORT]]
    policies = [{"mode": "none"}, {"mode": "allow", "allow": ["a.example:443", "9.9.9.0/24"]}, {},
                {"allowOut": ["10.9.9.9"], "denyOut": ["0.0.0.0/0"]}]

    def rounds(count):
        for i in range(count):
            field.policy(**policies[i % len(policies)])
            if i % 100 == 2:
                assert field.attack(*public) == ["reached:world"]

    def held():
        pids = daemon.process.pid, daemon.netd_pid(field.attacker)
        return [len(os.listdir(f"/proc/{pid}/fd")) for pid in pids], [status(pid, "VmRSS") for pid in pids]

    try:
        rounds(200)
        fds, memory = held()
        files = sorted(daemon.directory(field.attacker["sandboxID"]).rglob("*"))
        rounds(1000)
        wait_for(lambda: all(now <= before for now, before in zip(held()[0], fds)), 30, "the same descriptors")
        if not os.environ.get("SAN"):  # sanitizers keep what is freed for a while, and tell leaks at the end
            assert all(now - before < 1024 for now, before in zip(held()[1], memory)), "kB"
        assert sorted(daemon.directory(field.attacker["sandboxID"]).rglob("*")) == files
        assert field.attack(*public) == list(REFUSED)
    finally:
        field.policy()
    assert field.attack(*public) == ["reached:world"]
