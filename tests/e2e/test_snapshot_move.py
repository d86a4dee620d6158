# SPDX-License-Identifier: Apache-2.0
"""Snapshots are exported and imported into another home, with and without their template, and go on there.
tests/protocol/cli/test_cli_snapshot_move.py has the archives that are refused."""

import json
import os
import re
import shutil
import subprocess

import pytest

from cubbyd import Shipped
from harness import BIN, TEST_HOME

pytestmark = pytest.mark.timeout(900)
SCRIPT = "echo kept >/tmp/note; (while sleep 0.1; do date +%s%N >/tmp/alive; done) >/dev/null 2>&1 &"


def cubby(daemon, *words, check=True):
    done = subprocess.run([BIN / "cubby", *words], env=daemon.env, capture_output=True, text=True, timeout=600,
                          stdin=subprocess.DEVNULL)
    assert not check or done.returncode == 0, done
    return done


@pytest.fixture(name="tier", params=["microvm", "gvisor"], scope="module")
def fixture_tier(request):
    return request.param


@pytest.fixture(name="exported", scope="module")
def fixture_exported(tier, tmp_path_factory):
    """A directory with an archive of a snapshot, and of a microVM one with its template; the first one's digest."""
    place = tmp_path_factory.mktemp("archives")
    with Shipped("--pool", "off", tier=tier) as daemon:
        made = daemon.create(metadata={"a": "b"})
        assert daemon.command(made, SCRIPT)[0] == 0
        answer = daemon.request("POST", f"/sandboxes/{made['sandboxID']}/snapshots", {"name": "state"})
        assert answer.status == 201, answer.body
        daemon.kill(made["sandboxID"])
        digest = cubby(daemon, "snapshot", "export", "state", str(place / "alone")).stdout.strip()
        if tier == "microvm":
            cubby(daemon, "snapshot", "export", "--with-template", answer.json["snapshotID"], str(place / "whole"))
        again = cubby(daemon, "snapshot", "export", "state", str(place / "alone"), check=False)
        assert again.returncode == 1 and "exists already" in again.stderr
        cubby(daemon, "snapshot", "rm", answer.json["snapshotID"])
    assert (place / "alone").stat().st_mode & 0o777 == 0o600
    assert sorted(p.name for p in place.iterdir()) == (["alone", "whole"] if tier == "microvm" else ["alone"])
    yield place, digest
    shutil.rmtree(place)


def goes_on(daemon, snapshot, template):
    """A sandbox of the snapshot has its files, and its processes run."""
    made = daemon.create(templateID=snapshot)
    assert made["alias"] == template
    code, out = daemon.command(made, "cat /tmp/note; rm /tmp/alive; for i in $(seq 300); do sleep 0.1; test -s /tmp/alive && echo runs && break; done")
    assert (code, out) == (0, b"kept\nruns\n")
    daemon.kill(made["sandboxID"])


def test_into_a_home_with_the_same_template(exported, tier):
    """The running daemon finds it, by its id and by its name."""
    place, digest = exported
    with Shipped("--pool", "off", tier=tier) as daemon:
        assert daemon.request("GET", "/snapshots").json == []
        wrong = cubby(daemon, "snapshot", "import", "--sha256", "0" * 64, str(place / "alone"), check=False)
        assert wrong.returncode == 1 and "digest" in wrong.stderr
        made = cubby(daemon, "snapshot", "import", "--sha256", digest, str(place / "alone")).stdout.strip()
        goes_on(daemon, made, "default")
        goes_on(daemon, "state", "default")
        (listed,) = daemon.request("GET", "/snapshots").json
        assert listed["snapshotID"] == made and listed["names"] == ["state:default"]
        other = cubby(daemon, "snapshot", "import", "--name", "second", str(place / "alone")).stdout.strip()
        assert {one["snapshotID"] for one in daemon.request("GET", "/snapshots").json} == {made, other}
        for one in made, other:
            cubby(daemon, "snapshot", "rm", one)
        assert not list((daemon.home / "cache").glob("import-*"))


def test_beside_another_build_of_the_template(exported, tier):
    """The build gets another name; a second import finds it there. Without the build, an import is refused."""
    if tier != "microvm":
        pytest.skip("an archive with a template takes a while, and is the same in both tiers")
    place, _ = exported
    daemon = Shipped("--pool", "off", tier=tier)
    (daemon.home / "templates").unlink()
    there = daemon.home / "templates/default"
    there.mkdir(parents=True)
    facts = json.loads((TEST_HOME / "templates/default/template.json").read_text())
    (there / "template.json").write_text(json.dumps({**facts, "created_at": "2020-01-01T00:00:00Z"}))
    (there / "vmstate").write_bytes(b"other")
    with daemon:
        refused = cubby(daemon, "snapshot", "import", str(place / "alone"), check=False)
        assert refused.returncode == 1 and "--with-template" in refused.stderr
        made = json.loads(cubby(daemon, "snapshot", "import", "--json", str(place / "whole")).stdout)
        name = made["templateMade"]
        assert name.startswith("default-") and len(name) == len("default-") + 8
        goes_on(daemon, made["snapshotID"], name)
        again = json.loads(cubby(daemon, "snapshot", "import", "--json", str(place / "alone")).stdout)
        assert "templateMade" not in again
        goes_on(daemon, again["snapshotID"], name)


@pytest.mark.parametrize("member, value, text", [("qemu", "99.0", "QEMU 99.0"), ("accel", "kvm", "KVM|processor")])
def test_another_host_is_refused_with_the_reason(exported, tier, tmp_path, member, value, text):
    """As on a host whose QEMU, or whose accelerator, is not that of the template."""
    if tier != "microvm":
        pytest.skip("gVisor's images name runsc, which is built once")
    place, _ = exported
    daemon = Shipped("--pool", "off", tier=tier)
    (daemon.home / "templates").unlink()
    there = daemon.home / "templates/default"
    shutil.copytree(TEST_HOME / "templates/default", there, copy_function=os.link)
    facts = json.loads((there / "template.json").read_text())
    (there / "template.json").unlink()
    (there / "template.json").write_text(json.dumps({**facts, member: value, "processor": "GenuineIntel other"}))
    refused = cubby(daemon, "snapshot", "import", str(place / "alone"), check=False)
    assert refused.returncode == 1 and "the snapshot cannot run here" in refused.stderr, refused
    assert re.search(text, refused.stderr), refused
    assert not list(daemon.home.glob("snapshots/*")) and not list((daemon.home / "cache").glob("import-*"))
    shutil.rmtree(daemon.home)
