# SPDX-License-Identifier: Apache-2.0
"""The effects of /init on the machine of a guest, in namespaces of its own: names, entropy."""

import base64
import os
import time
import uuid

import pytest

from envd_peer import IS_ROOT, Envd

pytestmark = pytest.mark.skipif(not IS_ROOT, reason="only root can have another host name")


def new_machine(tmp_path, *wrap):
    """An envd that owns a machine: a host name of its own, and copies of the files in /etc."""
    # A layer over /etc, so that what is made there is not made on this machine.
    etc, work = tmp_path / "etc", tmp_path / "work"
    etc.mkdir()
    work.mkdir()
    (etc / "hosts").write_text("127.0.0.1 localhost\n127.0.1.1 old-name\n::1 localhost")
    (etc / "hostname").write_text("old-name\n")
    script = (f"mount -t tmpfs tmpfs {work} && mkdir {work}/u {work}/w && cp {etc}/* {work}/u && "
              f"mount -t overlay overlay -o lowerdir=/etc,upperdir={work}/u,workdir={work}/w /etc && "
              'exec "$0" "$@"')
    return Envd("--machine", "yes", "--cgroup", str(tmp_path), wrap=[*wrap, "unshare", "-mu", "sh", "-c", script])


@pytest.fixture
def machine(tmp_path):
    e = new_machine(tmp_path)
    yield e
    e.close()


@pytest.fixture
def machine_of_the_hosts_clock(tmp_path):
    """As in a guest of gVisor, root may not set the clock."""
    e = new_machine(tmp_path, "setpriv", "--bounding-set=-sys_time")
    yield e
    e.close()


def now():
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime()) + f".{time.time_ns() % 10**9:09}Z"


def etc(machine, name):
    return machine.read(f"/etc/{name}")[2].decode()


def boot_id_here():
    with open("/proc/sys/kernel/random/boot_id") as f:
        return f.read().strip()


def boot_id(machine):
    return machine.run("/bin/cat", "/proc/sys/kernel/random/boot_id").stdout.decode().strip()


def test_names(machine):
    mine = os.uname().nodename
    assert machine.init(hostname="box-1", timestamp=now(), entropy=base64.b64encode(
        os.urandom(64)).decode())[0] == 204
    assert machine.run("/bin/uname", "-n").stdout == b"box-1\n"
    assert etc(machine, "hostname") == "box-1\n"
    assert etc(machine, "hosts") == "127.0.0.1 localhost\n::1 localhost\n127.0.1.1 box-1\n"
    first = etc(machine, "machine-id")
    assert len(first) == 33 and set(first.strip()) <= set("0123456789abcdef") and first.strip("0\n")
    boot = boot_id(machine)
    assert uuid.UUID(boot).version == 4 and boot != boot_id_here()
    assert machine.init(hostname="b2")[0] == 204
    assert uuid.UUID(boot_id(machine)).version == 4 and boot_id(machine) != boot
    assert etc(machine, "machine-id") != first
    assert etc(machine, "hosts").endswith("::1 localhost\n127.0.1.1 b2\n"), "shorter, too"
    assert os.uname().nodename == mine


@pytest.mark.parametrize("off_s", [-60, 60])
def test_a_clock_that_nobody_may_set(machine_of_the_hosts_clock, off_s):
    """The host's time may come late to a guest that shows the host's clock anyway."""
    late = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + off_s))
    assert machine_of_the_hosts_clock.init(timestamp=late, hostname="box-1")[0] == 204
    assert machine_of_the_hosts_clock.run("/bin/uname", "-n").stdout == b"box-1\n", "the rest is applied"


def test_bad_names(machine):
    for name in ["", "a b", "a/b", "x" * 64, "\u00e9"]:
        assert machine.init(hostname=name, envVars={"A": "1"})[0] == 400
    assert etc(machine, "hostname") == "old-name\n"
    assert machine.json("GET", "/envs")[1] == {}, "nothing of a refused /init is applied"


def may_lower_its_score():
    """CAP_SYS_RESOURCE, which containers often take from root."""
    with open("/proc/self/status", encoding="ascii") as f:
        return int(f.read().split("CapEff:")[1].split()[0], 16) >> 24 & 1


def test_envd_outlives_its_commands_when_memory_runs_out(machine):
    with open(f"/proc/{machine.process.pid}/oom_score_adj", encoding="ascii") as f:
        assert int(f.read()) < 0 or not may_lower_its_score()
    assert machine.sh("cat /proc/self/oom_score_adj").stdout == b"100\n"
