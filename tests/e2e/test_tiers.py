# SPDX-License-Identifier: Apache-2.0
"""One template in all tiers: sandboxes behave alike. A test says where it has no meaning."""

import errno
import json
import os
import subprocess

import pytest

from cubbyd import MicroVMs, Shipped
from gvisor_world import Containers, files_of
from harness import BIN, TEST_HOME
from jail_peer import AS_USER, USER
from nest_world import Nested
from tiers import GVISOR, every_tier  # noqa: F401

KERNEL = 49999
TEST = "from m import f\ndef test_f():\n    assert f() == 2\n"


# A warm kernel comes from a saved machine, and the host has its own programs.
SAVED = pytest.mark.only_in("microvm", "gvisor", reason="a guest that shares the host's kernel is started, not restored, and "
                                                        "sees the host's memory")
OWN_ROOT = pytest.mark.only_in("microvm", "gvisor", "bubblewrap", reason="tier none has the host's programs, users and no Python kernel")


@pytest.fixture(scope="module")
def daemon(tier):
    with Nested(tier) if tier in ("bubblewrap", "none") else Shipped("--pool", "off", tier=tier) as running:
        yield running


@pytest.fixture(name="sandbox")
def fixture_sandbox(daemon):
    made = daemon.create()
    yield made
    daemon.kill(made["sandboxID"])


def python(daemon, sandbox, code):
    """The lines of a run in the Python kernel."""
    answer = daemon.through(sandbox["sandboxID"], "POST", "/execute", json.dumps({"code": code}).encode(), port=KERNEL,
                            headers={"Content-Type": "application/json"}, token=sandbox["envdAccessToken"], timeout=170)
    assert answer.status == 200, answer.body
    return [json.loads(line) for line in answer.body.splitlines()]


def write(daemon, sandbox, path, text):
    answer = daemon.through(sandbox["sandboxID"], "POST", f"/files?path={path}&username=user", text.encode(),
                            headers={"Content-Type": "application/octet-stream"}, token=sandbox["envdAccessToken"])
    assert answer.status == 200, answer.body


def test_the_tier_is_told(daemon, sandbox):
    assert sandbox["isolation"].startswith(daemon.tier)
    kernel = daemon.command(sandbox, "uname -r")[1]
    assert kernel.startswith(b"4.19.0-gvisor") == (daemon.tier == "gvisor")


@pytest.mark.only_in("gvisor", reason="a microVM's QEMU has other files (test_image.py)")
def test_the_files_of_a_sentry(daemon, sandbox):
    """Those that all sandboxes of a template share are read-only, also for the owner of the files. The
    log of its panic is its own, in a file system that goes with it."""
    names = "memory.erofs", "rootfs.erofs", "tools.erofs"
    sentry = daemon.record(sandbox["sandboxID"])["machine"]["sentry"]["pid"]
    shared = [file for file in files_of(sentry) if file != ("log", False, 0)]
    assert shared == [(name, True, errno.EROFS) for name in names]


@OWN_ROOT
def test_the_kernel_is_warm(daemon, sandbox):
    """The restore needs no imports afterwards: the first run finds the modules loaded."""
    lines = python(daemon, sandbox, "import sys; [name in sys.modules for name in ('numpy', 'pandas', 'matplotlib.pyplot')]")
    assert [line["text"] for line in lines if line["type"] == "result"] == ["[True, True, True]"]


@pytest.mark.only_in("gvisor", "bubblewrap", reason="a microVM's disk is a file (test_sizes.py), and tier none has the host's")
def test_a_larger_disk(daemon, sandbox):
    """It is in memory, so a machine with another one boots. The guest sees its size, and can fill it."""
    usual = daemon.get(sandbox["sandboxID"]).json["diskSizeMB"]
    made = daemon.create(diskSizeMB=usual + 256)
    name = made["sandboxID"]
    assert made.get("cold", False) is (daemon.tier == "gvisor")
    assert daemon.get(name).json["diskSizeMB"] == usual + 256
    assert daemon.command(made, "df -m / | tail -n 1 | awk '{print $2}'") == (0, b"%d\n" % (usual + 256))
    more = f"head -c {usual + 64}M /dev/zero >/home/user/big; wc -c </home/user/big; rm /home/user/big"
    assert daemon.command(made, more) == (0, b"%d\n" % (usual + 64 << 20))
    assert [line["text"] for line in python(daemon, made, "6 * 7") if line["type"] == "result"] == ["42"]
    if daemon.tier == "gvisor":
        assert daemon.command(made, "echo kept >/home/user/note")[0] == 0
        snapshot = daemon.request("POST", f"/sandboxes/{name}/snapshots", {}, timeout=60).json["snapshotID"]
        child = daemon.create(templateID=snapshot)
        said = daemon.command(child, "cat note; df -m / | tail -n 1 | awk '{print $2}'")
        assert said == (0, b"kept\n%d\n" % (usual + 256))
        daemon.kill(child["sandboxID"])
        daemon.request("DELETE", f"/templates/{snapshot}")
    daemon.kill(name)


@SAVED
def test_what_a_new_sandbox_costs(daemon, sandbox):
    """The kernel's memory is shared by all sandboxes of a template: of 190 MB under gVisor, 30 are a sandbox's own."""
    (line,) = [x for x in daemon.request("GET", "/sandboxes/stats").json["sandboxes"] if x["sandboxID"] == sandbox["sandboxID"]]
    assert line["memoryBytes"] < 60e6
    assert python(daemon, sandbox, "1 + 1")[-1] is not None
    (line,) = [x for x in daemon.request("GET", "/sandboxes/stats").json["sandboxes"] if x["sandboxID"] == sandbox["sandboxID"]]
    assert line["memoryBytes"] < 100e6


@SAVED
def test_another_size(daemon):
    """The kernel is warm all the same."""
    made = daemon.create(memoryMB=1024, cpuCount=2)
    assert made.get("cold", False) == (daemon.tier == "microvm")
    code, said = daemon.command(made, "grep MemTotal /proc/meminfo")
    assert code == 0 and 900 << 10 < int(said.split()[1]) <= 1024 << 10
    assert [line["text"] for line in python(daemon, made, "6 * 7") if line["type"] == "result"] == ["42"]
    assert daemon.get(made["sandboxID"]).json["cpuCount"] == 2
    daemon.kill(made["sandboxID"])


def test_memory_that_runs_out_ends_the_command(daemon, sandbox):
    """Not the sandbox, whose other processes go on."""
    if "memory" not in daemon.record(sandbox["sandboxID"])["machine"]["limits"]["holds"]:
        pytest.skip("this host limits no memory")
    for _ in range(2):
        assert daemon.command(sandbox, "python3 -c 'x = b\"x\" * (3 << 30)' 2>/dev/null")[0] != 0
        assert daemon.command(sandbox, "echo alive") == (0, b"alive\n")
    if daemon.tier == "none":
        return  # it has no Python kernel
    assert [line["text"] for line in python(daemon, sandbox, "6 * 7") if line["type"] == "result"] == ["42"]


@OWN_ROOT
def test_the_same_environment(daemon, sandbox):
    """sudo does not work under bubblewrap, which sets no_new_privs: envd's user "root" is the way."""
    root = "sudo -n id -u" if daemon.tier != "bubblewrap" else "sudo -n true 2>/dev/null || echo 0"
    code, said = daemon.command(sandbox, f"id -un; hostname | grep -c .; pwd; {root}; getent hosts $(hostname) | grep -c .;"
                                         "stat -c %a /tmp; cat /proc/1/comm; python3 -c 'import numpy; print(1)'")
    assert (code, said.decode().split()) == (0, ["user", "1", "/home/user", "0", "1", "1777", "init", "1"])


BY_COMMAND = "cd /home/user/p && python3 -m pytest -q -p no:cacheprovider test_m.py >/dev/null 2>&1; echo $?"
BY_KERNEL = """import sys
sys.path.insert(0, "/home/user/p")
sys.modules.pop("m", None)
import m
print(int(m.f() != 2))
"""


@OWN_ROOT
@pytest.mark.parametrize("how", ["command", "kernel"])
def test_red_patch_green_within_a_second(daemon, sandbox, how):
    """The patch has the same length and, as in a quick sandbox, falls into the same second: both
    files get a time in the near future, so that even a slow sandbox is never past that second."""
    write(daemon, sandbox, "/home/user/p/test_m.py", TEST)
    for value, wanted in ((1, "1"), (2, "0"), (3, "1")):
        write(daemon, sandbox, "/home/user/p/m.py", f"def f(): return {value}\n")
        daemon.command(sandbox, "cd /home/user/p && touch -d @4000000000 m.py test_m.py")
        if how == "command":
            said = daemon.command(sandbox, BY_COMMAND)[1].decode()
        else:
            said = "".join(line["text"] for line in python(daemon, sandbox, BY_KERNEL) if line["type"] == "stdout")
        assert said.strip() == wanted, f"m.f returns {value}"


@GVISOR
def test_a_template_without_a_part_for_gvisor():
    """A template that was built without runsc is refused with a text that says how to add that part."""

    class Stripped(MicroVMs):
        def templates(self):
            super().templates()
            facts = json.loads((self.home / "templates/default/template.json").read_text())
            facts.pop("gvisor")
            (self.home / "templates").unlink()
            (self.home / "templates/default").mkdir(parents=True)
            (self.home / "templates/default/template.json").write_text(json.dumps(facts))

    with Stripped("--tier", "gvisor", "--pool", "off") as daemon:
        answer = daemon.request("POST", "/sandboxes", {"templateID": "default"})
        assert answer.status == 404
        assert "cannot run under gVisor; run `cubby template finish`" in answer.json["message"]


# ---- auto
AUTO = ("--tier", "auto", "--pool", "off")


def accel():
    return json.loads((TEST_HOME / "templates/default/template.json").read_text())["accel"]


class Mixed(MicroVMs):
    """The shared template, but for one file of its part for gVisor."""

    def templates(self):
        shared, own = TEST_HOME / "templates/default", self.home / "templates/default"
        (own / "gvisor").mkdir(parents=True)
        for place in (".", "gvisor"):
            for file in (shared / place).iterdir():
                if file.is_file():
                    (own / place / file.name).symlink_to(file)
        (own / "gvisor/rootfs.erofs").unlink()
        (own / "gvisor/rootfs.erofs").write_bytes(bytes(1 << 20))


@GVISOR
def test_auto_and_both_tiers_in_one_daemon():
    """Each create chooses; each sandbox, pause and snapshot stays in its tier."""
    with MicroVMs(*AUTO, "--max-sandbox-memory", "2G") as daemon:
        best = daemon.create()
        assert best["tier"] == ("microvm" if accel() == "kvm" else "gvisor")
        assert "KVM" in best["tierReason"]
        sized = daemon.create(diskSizeMB=10240)  # which would be memory under gVisor
        assert sized["tier"] == "microvm"
        assert accel() == "kvm" or "driver 'gvisor' keeps a sandbox's disk in memory" in sized["tierReason"]
        daemon.kill(sized["sandboxID"])
        refused = daemon.request("POST", "/v2/sandboxes", {"templateID": "default", "tier": "gvisor", "diskSizeMB": 1537})
        assert refused.status == 400
        assert "keeps the disk in memory, and 512 MB of memory and 1537 MB of disk are more than 2048 MB" in refused.json["message"]
        for tier in ("gvisor", "microvm"):
            made = daemon.create(metadata={"cubby.tier": tier})
            assert made["tier"] == tier and made["isolation"].startswith(tier) and "tierReason" not in made
            kernel = daemon.command(made, "echo kept >/dev/shm/note; uname -r")[1]
            assert kernel.startswith(b"4.19.0-gvisor") == (tier == "gvisor")
            name, other = made["sandboxID"], {"gvisor": "microvm", "microvm": "gvisor"}[tier]
            assert daemon.request("POST", f"/sandboxes/{name}/pause", {}, timeout=60).status == 204
            assert daemon.request("POST", f"/sandboxes/{name}/connect", {"timeout": 600}, timeout=60).status in (200, 201)
            snapshot = daemon.request("POST", f"/sandboxes/{name}/snapshots", {}, timeout=60).json["snapshotID"]
            refused = daemon.request("POST", "/v2/sandboxes", {"templateID": snapshot, "tier": other})
            assert refused.status == 400
            assert f"is of tier {tier} and cannot be restored in tier {other}; leave the tier out" in refused.json["message"]
            child = daemon.create(templateID=snapshot)
            assert child["tier"] == tier and daemon.command(child, "cat /dev/shm/note") == (0, b"kept\n")
            for one in (child, made):
                daemon.kill(one["sandboxID"])
            daemon.request("DELETE", f"/templates/{snapshot}")


@pytest.mark.skipif(accel() == "kvm", reason="a microVM under KVM is the best tier")
@pytest.mark.parametrize("world, env, why", [
    (MicroVMs, {"CUBBY_RUNSC": "/nonexistent"}, "/nonexistent"),
    (MicroVMs, {"CUBBY_RUNSC": "/bin/true"}, "/bin/true is not the build of runsc that Cubby needs"),
    pytest.param(Mixed, {}, "gVisor does not work on this host: a test command failed: ", marks=GVISOR),
])
def test_auto_where_gvisor_does_not_work(world, env, why):
    """A microVM under emulation, and the answer says what is missing. Nothing of the probe is left."""
    with world(*AUTO, env=env) as daemon:
        made = daemon.create()
        assert made["tier"] == "microvm" and made["isolation"].startswith("microvm (tcg)")
        assert made["tierReason"].startswith("KVM: template default was built without KVM") and why in made["tierReason"]
        assert daemon.command(made, "echo hi") == (0, b"hi\n")


@GVISOR
def test_auto_of_a_daemon_without_root():
    daemon = Containers(*AUTO)
    for path in (daemon.home, *daemon.home.rglob("*")):
        if not path.is_file():
            os.chown(path, USER, USER)
    daemon.wrap = AS_USER
    with daemon:
        made = daemon.create()
        assert made["tier"] == "gvisor", "the probe works in a user namespace, too"


@GVISOR
@pytest.mark.only_in("microvm", reason="doctor asks no daemon for its tier")
def test_doctor_tells_what_auto_takes(home):
    found = {f["name"]: f for f in json.loads(home.cubby("doctor", "--json", check=False).stdout)}
    best = "microvm (kvm)" if accel() == "kvm" else "gvisor"
    assert found["tier"]["level"] == "ok"
    assert found["tier"]["text"].startswith(f"auto chooses {best} for template \"default\": ") and "KVM" in found["tier"]["text"]


@pytest.mark.only_in("microvm", reason="a template has the same tiers, whatever the daemon's is")
def test_a_template_says_for_which_tiers_it_was_built(home):
    (template,) = json.loads(home.cubby("template", "ls", "--json").stdout)
    facts = json.loads((TEST_HOME / "templates/default/template.json").read_text())
    unpacked = (TEST_HOME / "templates/default/bubblewrap/root").exists()
    assert template["tiers"] == ["microvm", *["gvisor"] * ("gvisor" in facts), *["bubblewrap"] * unpacked]
    assert home.cubby("template", "ls").stdout.decode().split()[1] == "TIERS"


@pytest.mark.only_in("microvm", "gvisor", reason="only --tiers-allowed offers it (test_nest.py)")
def test_the_command_line_chooses(home, tier):  # noqa: F811
    """`cubby create --tier`, and what `cubby ps` shows."""
    made = home.cubby("create", "--tier", tier).stdout.decode().strip()
    head, row = home.cubby("ps").stdout.decode().splitlines()
    assert row.split()[head.split().index("TIER")] == tier
    other = {"gvisor": "microvm", "microvm": "gvisor"}[tier]
    refused = subprocess.run([BIN / "cubby", "create", "--tier", other], env=home.env, capture_output=True, text=True, timeout=60, check=False)
    assert refused.returncode == 1
    assert f"tier '{other}' is not offered by this cubbyd; it offers: {tier} (its operator sets --tiers-allowed)" in refused.stderr
    home.cubby("kill", made)
