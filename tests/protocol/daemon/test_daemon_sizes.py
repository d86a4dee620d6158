# SPDX-License-Identifier: Apache-2.0
"""Sizes that a create asks for: which are possible, which are refused, and how they are shown."""

import json

import pytest

from cubbyd import Daemon


class Sized(Daemon):
    def __init__(self):
        super().__init__("--max-sandbox-cpus", "4", "--max-sandbox-memory", "2G",
                         "--max-sandbox-disk", "8G", "--max-memory", "3G", "--pool", "off")

    def templates(self):
        self.template("default", cpus=2, memory_mb=512, disk_mb=2048)
        self.template("large", cpus=8, memory_mb=4096, disk_mb=16384)
        self.template("old", cpus=2, memory_mb=512, disk_mb=2048, disk_grows=False)


@pytest.fixture(scope="module")
def sized():
    with Sized() as daemon:
        yield daemon


def shown(daemon, made):
    detail = daemon.get(made["sandboxID"]).json
    return detail["cpuCount"], detail["memoryMB"], detail["diskSizeMB"]


def told(daemon, made):
    return json.loads((daemon.home / "sandboxes" / made["sandboxID"] / "init.json").read_text())


def test_what_the_template_has_asks_for_nothing(sized):
    made = sized.create(cpuCount=2, memoryMB=512, diskSizeMB=2048)
    assert "cold" not in made and shown(sized, made) == (2, 512, 2048)
    assert "diskSizeMB" not in told(sized, made)
    sized.request("DELETE", f"/sandboxes/{made['sandboxID']}")


def test_memory_and_processors_mean_a_boot(sized):
    made = sized.create(cpuCount=4, memoryMB=1024)
    assert made["cold"] is True and "booted" in made["coldReason"]
    assert shown(sized, made) == (4, 1024, 2048)
    assert sized.record(made["sandboxID"])["size"] == {"cpus": 4, "memory_mb": 1024, "disk_mb": 0, "booted": False}
    again = sized.request("POST", f"/sandboxes/{made['sandboxID']}/connect", {"timeout": 60})
    assert again.status == 200 and "cold" not in again.json
    sized.request("DELETE", f"/sandboxes/{made['sandboxID']}")


def test_a_larger_disk_does_not(sized):
    made = sized.create(diskSizeMB=4096)
    assert "cold" not in made and shown(sized, made) == (2, 512, 4096)
    assert told(sized, made)["diskSizeMB"] == 4096
    sized.request("DELETE", f"/sandboxes/{made['sandboxID']}")


@pytest.mark.parametrize("fields, what", [
    ({"cpuCount": 5}, ["cpuCount: 5", "may be 1 to 4", "--max-sandbox-cpus"]),
    ({"cpuCount": 0}, ["cpuCount: 0", "may be 1 to 4"]),
    ({"memoryMB": 2049}, ["memoryMB: 2049", "may be 256 to 2048", "--max-sandbox-memory"]),
    ({"memoryMB": 128}, ["memoryMB: 128", "may be 256"]),
    ({"diskSizeMB": 1024}, ["diskSizeMB: 1024", "may be 2048 to 8192"]),
    ({"diskSizeMB": 8193}, ["diskSizeMB: 8193", "--max-sandbox-disk"]),
    ({"diskSizeMB": -1}, ["diskSizeMB"]), ({"disk_size_mb": 4096}, ["diskSizeMB"]),
    ({"templateID": "old", "diskSizeMB": 4096}, ["cubby template build old"])])
def test_refusals_say_what_is_possible(sized, fields, what):
    answer = sized.request("POST", "/sandboxes", {"templateID": "default", **fields})
    assert answer.status == 400, answer.json
    for part in what:
        assert part in answer.json["message"]
    assert sized.directories() == []


def test_the_promise_counts_what_was_asked_for(sized):
    made = [sized.create(memoryMB=2048)]
    refused = sized.request("POST", "/sandboxes", {"templateID": "default", "memoryMB": 1025})
    assert refused.status in (429, 503) and "1025" in refused.json["message"]
    made.append(sized.create(memoryMB=1024))
    for one in made:
        sized.request("DELETE", f"/sandboxes/{one['sandboxID']}")


def test_a_template_above_the_limits_is_still_itself(sized):
    answer = sized.request("POST", "/sandboxes", {"templateID": "large", "memoryMB": 4096,
                                                  "cpuCount": 8})
    assert answer.status != 400  # admission has its own word


def test_what_comes_from_a_snapshot_has_the_size_of_what_was_saved(sized):
    made = sized.create(memoryMB=1024)
    saved = sized.request("POST", f"/sandboxes/{made['sandboxID']}/snapshots", {})
    assert saved.status == 201, saved.json
    snapshot = saved.json["snapshotID"]
    child = sized.create(templateID=snapshot)
    assert "cold" not in child and shown(sized, child) == (2, 1024, 2048)
    answer = sized.request("POST", "/sandboxes", {"templateID": snapshot, "memoryMB": 512})
    assert answer.status == 400 and "1024" in answer.json["message"]
    for one in (made, child):
        sized.request("DELETE", f"/sandboxes/{one['sandboxID']}")
