# SPDX-License-Identifier: Apache-2.0
"""A sandbox tries to take all of the machine. During each abuse another sandbox can run commands,
and the daemon answers and does not grow. tests/bench/bench_abuse.py measures how long that takes.
"""

import select

import pytest

from abuse import MIB, Seen, abuses, answer_ms, status
from attack_world import Field, wait_for
from cubbyd import read_all
from proc import cpu_seconds
from tiers import tier  # noqa: F401

# Abuses that do not exist under gVisor, or end there with their own sandbox.
NOT_IN_GVISOR = {"fork bomb": "a limit inside refuses it, which root may lift (test_gvisor.py)",
                 "log flood": "there is no console and no kernel log: files of these names fill its memory",
                 "half-open sockets": "nobody can open a raw socket",
                 "frames without end": "nobody can open a raw socket"}
NAMES = [pytest.param(name, marks=pytest.mark.only_in("microvm", reason="under gVisor " + NOT_IN_GVISOR[name])
                      if name in NOT_IN_GVISOR else ()) for name in abuses("0.0.0.0")]
ROUNDS = 4
DAEMON_KB = 48 * 1024  # that it may have more: what a connection's and a reader's buffers take, many times
DAEMON_FDS = 24
LOG_BYTES = 4 * MIB
NETD_KB = 512 * 1024  # CONFINE_DATA_BYTES: libslirp's buffers of as many connections as there may be


@pytest.fixture(scope="module", name="field")
def fixture_field(tier):  # noqa: F811
    field = Field(tier=tier)
    yield field
    field.close()


@pytest.fixture(name="bad")
def fixture_bad(field):
    made = field.daemon.create()
    yield made
    assert field.daemon.kill(made["sandboxID"]) == 204


def has_ended(stream):
    """Return whether the daemon has closed the stream, without reading it."""
    poll = select.poll()
    poll.register(stream, select.POLLRDHUP)
    return bool(poll.poll(0))


@pytest.mark.parametrize("name", NAMES)
def test_the_others_go_on(field, bad, name):
    daemon, neighbour = field.daemon, field.attacker
    machine, network = daemon.guest_pid(bad), daemon.netd_pid(bad)
    before, spent = Seen(daemon), cpu_seconds(machine)
    command = abuses(field.world.PUBLIC)[name]
    stream = daemon.open_command(bad, command, user="root")  # which nobody reads

    def at_work():
        nonlocal stream
        ended = has_ended(stream)
        assert not ended or name == "memory hog", "it has ended"
        if ended:  # when memory runs out, the host kernel may end its shell
            stream = daemon.open_command(bad, command, user="root")
        return cpu_seconds(machine) > spent + 1.5

    wait_for(at_work, 120, "it is at work")
    for _ in range(ROUNDS):
        answer_ms(daemon, neighbour)
    assert daemon.get(bad["sandboxID"]).json["state"] == "running"
    after = Seen(daemon)
    stream.close()
    assert after.rss < before.rss + DAEMON_KB and after.fds < before.fds + DAEMON_FDS
    assert after.log < before.log + LOG_BYTES
    assert status(network, "VmRSS") < NETD_KB
    # its machine has its memory and QEMU's own, however much it asks for
    assert status(machine, "VmRSS") < (daemon.get(bad["sandboxID"]).json["memoryMB"] + 400) * 1024


def test_a_line_without_an_end(field, bad, tmp_path):
    """Output without a newline, faster than it is read: the daemon buffers none of it."""
    daemon = field.daemon
    before = Seen(daemon)
    stream = daemon.open_command(bad, "head -c 32M /dev/zero | tr '\\0' a")
    peak = 0
    received = 0
    while chunk := stream.recv(1 << 20):
        received += len(chunk)
        peak = max(peak, status(daemon.process.pid, "VmRSS"))
    stream.close()
    assert received > 32 * MIB  # base64 within JSON
    assert peak < before.rss + DAEMON_KB


def test_many_files_in_a_listing(field, bad):
    """A directory whose listing is larger than an answer may be: the listing is refused or cut, and
    not kept."""
    daemon = field.daemon
    code, _ = daemon.command(bad, "mkdir /tmp/d && cd /tmp/d && seq -f %0250.0f 1 6000 | xargs touch", user="root")
    assert code == 0
    before = Seen(daemon)
    answer = daemon.through(bad["sandboxID"], "POST", "/filesystem.Filesystem/ListDir", b'{"path": "/tmp/d"}',
                            headers={"Content-Type": "application/json"}, token=bad["envdAccessToken"], timeout=120)
    assert len(answer.body) < 8 * MIB
    assert answer.status == 200 and len(answer.json["entries"]) == 6000 or answer.json["code"] == "resource_exhausted"
    answer_ms(daemon, field.attacker)
    assert Seen(daemon).rss < before.rss + DAEMON_KB
