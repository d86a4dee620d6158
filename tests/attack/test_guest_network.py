# SPDX-License-Identifier: Apache-2.0
"""Root in a guest tries to reach what it must not: each attempt is refused at once, by an error, and
each is shown to have come through with the wall down."""

import os

import pytest

from abuse import netd, status
from attack_world import Field, PORT, wait_for

REFUSED = ("ECONNREFUSED",)
UNREACHABLE = ("EHOSTUNREACH", "ECONNREFUSED", "EACCES", "EPERM")


@pytest.fixture(scope="module", name="field")
def fixture_field():
    field = Field("--listen", "127.0.0.1:0")
    yield field
    field.close()


def special(field):
    return [*field.world.DENIED, field.world.HOST_IP]


def test_private_networks_metadata_and_the_host(field):
    """By TCP, with data in the first segment (fast open), and by UDP."""
    world = field.world
    attempts = [["tcp", a, PORT] for a in special(field)] + [["fast_open", "10.9.9.9", PORT]]
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
        count = len(world.DENIED)
        assert outcomes[:count + 2] == ["reached:world"] * count + ["reached:host", "reached:world"]
        assert outcomes[count + 2:2 * count + 2] == ["reached:" + b"world".hex()] * count
        assert field.hellos[0].told.count(b"early") == 1
    finally:
        field.policy()


def test_the_gateway_is_no_way_to_the_host(field):
    """What libslirp would make of these is the host's loopback: 10.0.2.2 by default, the resolver for
    10.0.2.3. 127.0.0.1 of the host listens at PORT, as the control says."""
    own = ["10.0.2.2", "10.0.2.3", "10.0.2.1", "10.0.2.4", "10.0.2.16"]
    with field.world.host.connect("127.0.0.1", PORT) as s:
        assert s.recv(10) == b"host"
    # 10.0.2.1, .4 and .16 have no Ethernet address, and the guest's own kernel would give up
    neighbours = ["shell", "for a in 1 4 16; do ip neigh replace 10.0.2.$a lladdr 52:55:0a:00:02:02 dev eth0; done"]
    attempts = [["tcp", a, p] for a in own for p in (PORT, listening_port(field))]
    outcomes = field.attack(neighbours, *attempts, *[["udp", a, PORT] for a in own])
    assert set(outcomes[1:len(attempts) + 1]) <= set(REFUSED), outcomes
    assert set(outcomes[len(attempts) + 1:]) <= set(UNREACHABLE), outcomes
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
    """Its server, by every address that it has or that leads to it."""
    neighbour = field.daemon.create()
    where = neighbour["sandboxID"]
    stream = field.daemon.open_command(neighbour, "cd /; echo up; exec python3 -m http.server 8000 -b 0.0.0.0")
    wait_for(lambda: field.daemon.through(where, port=8000, path="/").status == 200, 60, "the server answers")
    port = listening_port(field)
    head = f"GET / HTTP/1.1\r\nHost: 8000-{where}.localhost\r\nE2b-Sandbox-Id: {where}\r\nE2b-Sandbox-Port: 8000\r\n\r\n"
    attempts = [["tcp", a, 8000, head] for a in ("10.0.2.15", "10.0.2.16", field.world.HOST_IP)]
    attempts += [["tcp", a, port, head] for a in ("10.0.2.2", "10.0.2.3", field.world.HOST_IP)]
    attempts += [["tcp", a, 49983, head] for a in ("10.0.2.2", "10.0.2.16", field.world.HOST_IP)]
    field.attack(["shell", "ip neigh replace 10.0.2.16 lladdr 52:55:0a:00:02:02 dev eth0"])
    outcomes = field.attack(*attempts)
    assert set(outcomes) <= set(REFUSED), outcomes
    # control: from the host that very request is answered by the neighbour
    with field.world.host.connect("127.0.0.1", port) as s:
        s.sendall(head.encode())
        assert s.recv(4096).startswith(b"HTTP/1.1 200")
    stream.close()
    assert field.daemon.kill(where) == 204


def test_the_vms_other_ways_out(field):
    """No IPv6, no vsock, no shared file system, no device but those that Cubby gives; and QEMU's configuration
    device tells nothing of the host. The daemon's sockets are files of the host: no path of the guest's is one."""
    home = str(field.daemon.home)
    mount = "for t in 9p virtiofs vboxsf; do mount -t $t x /mnt 2>&1 && echo MOUNTED; done; true"
    six = [["connect6", a, PORT] for a in ("::ffff:10.9.9.9", "fd00::1", "64:ff9b::a09:909")]
    sockets = f"find / -xdev \\( -name 'cubbyd*' -o -name vm.net -o -name net.ctl -o -name '*.qmp' \\); cat /proc/net/unix"
    *outcomes, mounts, devices, files, reads, texts = field.attack(
        *six, ["vsock", 2, 1024], ["vsock", 1, 1024], ["shell", mount],
        ["shell", "cat /sys/bus/virtio/devices/*/device; ls /sys/bus/pci/devices | wc -l"], ["shell", sockets],
        ["shell", f"cat {home}/cubbyd.log"], ["firmware"])
    assert outcomes[0] in REFUSED and set(outcomes[1:3]) <= {"ENETUNREACH", "EADDRNOTAVAIL", "EAFNOSUPPORT"}, outcomes
    assert set(outcomes[3:]) <= {"ENODEV", "EAFNOSUPPORT", "EADDRNOTAVAIL", "ENETUNREACH"}, outcomes
    assert "MOUNTED" not in mounts
    ids = devices.partition(":")[2].split()
    assert set(ids[:-1]) <= {"0x0001", "0x0002", "0x0004", "0x0005"} and ids[-1] == "0", devices
    assert not any(w in files for w in ("cubbyd", "vm.net", "net.ctl", "qmp")), files
    assert reads.startswith("1:") and "No such file" in reads
    # control: they are there, on the host
    assert (field.daemon.home / "cubbyd.sock").is_socket()
    assert len(texts) > 3, texts  # it was read
    words = [home, field.attacker["sandboxID"], field.attacker["envdAccessToken"], "/home", "/root"]
    for name, text in texts.items():
        assert not any(w in text for w in words), (name, text)


def test_a_thousand_changes_leave_nothing_behind(field):
    """In the daemon and in netd, while the guest opens connections that are cut; and the last change holds."""
    daemon, public = field.daemon, [["tcp", field.world.PUBLIC, PORT]]
    policies = [{"mode": "none"}, {"mode": "allow", "allow": ["a.example:443", "9.9.9.0/24"]}, {},
                {"allowOut": ["10.9.9.9"], "denyOut": ["0.0.0.0/0"]}]

    def rounds(count):
        for i in range(count):
            field.policy(**policies[i % len(policies)])
            if i % 100 == 2:
                assert field.attack(*public) == ["reached:world"]

    def held():
        pids = daemon.process.pid, netd(daemon, field.attacker)
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
