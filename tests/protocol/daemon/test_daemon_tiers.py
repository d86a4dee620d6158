# SPDX-License-Identifier: Apache-2.0
"""The tier of a sandbox: a create may name it, the operator says which, and each answer tells it.

The tests' two drivers have no ranks, so they are never chosen by `auto`; tests/unit/drivers/test_tier.c tests that."""

import signal
import subprocess

import pytest

from cubbyd import PROGRAM, Daemon, wait_for

BOTH = ("--tier", "process", "--tiers-allowed", "process,plain")
NOT_OFFERED = "tier 'plain' is not offered by this cubbyd; it offers: process (its operator sets --tiers-allowed)"


@pytest.fixture(scope="module")
def both():
    with Daemon(*BOTH) as daemon:
        yield daemon


def create(daemon, **fields):
    return daemon.request("POST", "/v2/sandboxes", {"templateID": "default", **fields})


@pytest.mark.parametrize("fields, tier", [
    ({}, "process"),
    ({"tier": "plain"}, "plain"),
    ({"tier": "process"}, "process"),
    ({"metadata": {"cubby.tier": "plain"}}, "plain"),
    ({"tier": "process", "metadata": {"cubby.tier": "plain"}}, "process"),
])
@pytest.mark.parametrize("path", ["/sandboxes", "/v2/sandboxes"])
def test_each_create_chooses(both, path, fields, tier):
    answer = both.request("POST", path, {"templateID": "default", **fields})
    assert answer.status == 201, answer.body
    made = answer.json["sandboxID"]
    assert answer.json["tier"] == tier and both.record(made)["facts"]["driver"] == tier
    assert both.get(made).json["tier"] == tier
    assert [s["tier"] for s in both.request("GET", "/v2/sandboxes").json if s["sandboxID"] == made] == [tier]
    both.kill(made)


def test_a_snapshot_has_that_of_its_sandbox(both):
    """Also when the sandbox has ended. The driver `plain` saves nothing."""
    made = create(both, tier="process").json["sandboxID"]
    taken = both.request("POST", f"/sandboxes/{made}/snapshots", {})
    assert (taken.status, taken.json["tier"]) == (201, "process"), taken.body
    both.kill(made)
    assert [(s["snapshotID"], s["tier"]) for s in both.request("GET", "/snapshots").json] == [(taken.json["snapshotID"], "process")]
    assert both.request("DELETE", f"/templates/{taken.json['snapshotID']}").status == 204


@pytest.mark.parametrize("fields, says", [
    ({"tier": "qemu"}, "there is no tier 'qemu'; choose one of: auto, microvm, gvisor, process, plain, bubblewrap, none"),
    ({"metadata": {"cubby.tier": "qemu"}}, "there is no tier 'qemu'"),
    ({"tier": 1}, "tier"),
    ({"tier": "microvm"}, "tier 'microvm' is not offered by this cubbyd; it offers: process, plain"),
])
def test_a_tier_that_is_refused(both, fields, says):
    answer = create(both, **fields)
    assert answer.status == 400 and says in answer.json["message"], answer.body
    assert both.directories() == []


def test_without_a_list_only_the_usual_tier_is_offered():
    with Daemon("--tier", "process") as daemon:
        answer = create(daemon, tier="plain")
        assert answer.status == 400 and answer.json["message"].endswith(NOT_OFFERED)
        assert create(daemon).json["tier"] == "process"


def test_a_snapshot_keeps_its_tier(both):
    made = create(both).json["sandboxID"]
    snapshot = both.request("POST", f"/sandboxes/{made}/snapshots", {}).json["snapshotID"]
    try:
        for fields in ({}, {"tier": "process"}, {"tier": "auto"}):
            answer = create(both, templateID=snapshot, **fields)
            assert answer.status == 201 and answer.json["tier"] == "process", answer.body
            both.kill(answer.json["sandboxID"])
        answer = create(both, templateID=snapshot, tier="plain")
        assert answer.status == 400
        assert answer.json["message"] == (f"snapshot '{snapshot}' is of tier process and cannot be restored in tier plain; "
                                          "leave the tier out")
    finally:
        both.request("DELETE", f"/templates/{snapshot}")
        both.kill(made)


def test_a_snapshot_of_a_tier_that_is_not_allowed_any_more():
    with Daemon("--keep") as daemon:
        made = create(daemon).json["sandboxID"]
        snapshot = daemon.request("POST", f"/sandboxes/{made}/snapshots", {}).json["snapshotID"]
        daemon.stop()
        daemon.start("--tier", "plain", "--tiers-allowed", "plain")
        answer = create(daemon, templateID=snapshot)
        assert answer.status == 400 and "tier 'process' is not offered" in answer.json["message"], answer.body
        assert daemon.get(made).json["tier"] == "process"  # what exists goes on
        assert daemon.request("POST", f"/sandboxes/{made}/rollback", {"snapshotID": snapshot}).status == 200
        daemon.kill(made)
        daemon.request("DELETE", f"/templates/{snapshot}")


def ready(daemon):
    (shelf,) = daemon.request("GET", "/pool").json["templates"]
    return shelf["ready"]


def test_the_pool_has_the_usual_tier():
    with Daemon(*BOTH, "--pool", "default=1:1") as daemon:
        wait_for(lambda: ready(daemon) == 1, 30, "one is ready")
        (member,) = daemon.directories()
        other = create(daemon, tier="plain").json
        assert other["tier"] == "plain" and other["sandboxID"] != member
        assert create(daemon).json["sandboxID"] == member


def test_a_pool_of_another_tier_is_not_adopted():
    with Daemon(*BOTH, "--pool", "default=1:1") as daemon:
        wait_for(lambda: ready(daemon) == 1, 30, "one is ready")
        (member,) = daemon.directories()
        daemon.stop(signal.SIGKILL)
        daemon.start("--tier", "plain")
        wait_for(lambda: member not in daemon.directories(), 30, "the member of the other tier has ended")


@pytest.mark.parametrize("args, says", [
    (["--tier", "qemu"], "--tier: there is no tier 'qemu'"),
    (["--tiers-allowed", "process,qemu"], "--tiers-allowed: there is no tier 'qemu'"),
    (["--tier", "plain", "--tiers-allowed", "process"], "--tier plain is not among --tiers-allowed process"),
])
def test_options_that_are_wrong(tmp_path, args, says):
    run = subprocess.run([PROGRAM, *args], env={"CUBBY_HOME": str(tmp_path)}, capture_output=True, text=True, timeout=30, check=False)
    assert run.returncode == 2 and says in run.stderr, run.stderr
