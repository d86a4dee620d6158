# SPDX-License-Identifier: Apache-2.0
"""What /init does to the machine of a guest, tried in namespaces of its own: names, entropy."""

import base64
import os
import time

import pytest

from envd_peer import IS_ROOT, Envd

pytestmark = pytest.mark.skipif(not IS_ROOT, reason="only root can have another host name")


@pytest.fixture
def machine(tmp_path):
    """An envd that owns a machine: a host name of its own, and copies of the files in /etc."""
    mounts = []
    for name, text in {"hosts": "127.0.0.1 localhost\n127.0.1.1 old-name\n::1 localhost",
                       "hostname": "old-name\n", "machine-id": "0" * 32 + "\n"}.items():
        (tmp_path / name).write_text(text)
        if os.path.exists(f"/etc/{name}"):
            mounts.append(f"mount --bind {tmp_path}/{name} /etc/{name}")
    if len(mounts) < 3:
        pytest.skip("this machine has not all of the files to put copies over")
    script = " && ".join([*mounts, 'exec "$0" "$@"'])
    e = Envd("--machine", "yes", "--cgroup", str(tmp_path), wrap=["unshare", "-mu", "sh", "-c", script])
    yield e
    e.close()


def now():
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime()) + f".{time.time_ns() % 10**9:09}Z"


def test_names(machine, tmp_path):
    mine = os.uname().nodename
    assert machine.init(hostname="box-1", timestamp=now(), entropy=base64.b64encode(
        os.urandom(64)).decode())[0] == 204
    assert machine.run("/bin/uname", "-n").stdout == b"box-1\n"
    assert (tmp_path / "hostname").read_text() == "box-1\n"
    assert (tmp_path / "hosts").read_text() == (
        "127.0.0.1 localhost\n::1 localhost\n127.0.1.1 box-1\n")
    first = (tmp_path / "machine-id").read_text()
    assert len(first) == 33 and set(first.strip()) <= set("0123456789abcdef") and first.strip("0\n")
    assert machine.init(hostname="box-2")[0] == 204
    assert (tmp_path / "machine-id").read_text() != first
    assert os.uname().nodename == mine


def test_bad_names(machine, tmp_path):
    for name in ["", "a b", "a/b", "x" * 64, "\u00e9"]:
        assert machine.init(hostname=name, envVars={"A": "1"})[0] == 400
    assert (tmp_path / "hostname").read_text() == "old-name\n"
    assert machine.json("GET", "/envs")[1] == {}, "nothing of a refused /init is applied"


def may_lower_its_score():
    """CAP_SYS_RESOURCE, which containers often take from root."""
    with open("/proc/self/status", encoding="ascii") as f:
        return int(f.read().split("CapEff:")[1].split()[0], 16) >> 24 & 1


def test_envd_outlives_its_commands_when_memory_runs_out(machine):
    with open(f"/proc/{machine.process.pid}/oom_score_adj", encoding="ascii") as f:
        assert int(f.read()) < 0 or not may_lower_its_score()
    assert machine.sh("cat /proc/self/oom_score_adj").stdout == b"100\n"
