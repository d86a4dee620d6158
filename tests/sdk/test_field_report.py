# SPDX-License-Identifier: Apache-2.0
"""CubeSandbox's field report, repeated: a client of the standard library alone makes a sandbox,
waits until it is ready, finds a bug RED, patches it, sees GREEN, and ends it. Against cubbyd in the
shape of a cluster (tests/lib/client/cube_front.py), and against cubbyd itself.
"""

import json
import os

import pytest
from cube_front import DOMAIN, CubeFront
from field_client import Guest, Host, http
from front import listener
from sdk import KEY, Guests

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can make users and mounts for envd")

ADDRESS = "127.0.7.1"  # stands for a guest's own
BUGGY = b"def middle(values):\n    return sorted(values)[len(values) // 2 - 1]\n"
TEST = b"""import unittest
from middle import middle

class Middle(unittest.TestCase):
    def test_three(self): self.assertEqual(middle([3, 1, 2]), 2)
    def test_one(self): self.assertEqual(middle([5]), 5)
    def test_five(self): self.assertEqual(middle([9, 1, 8, 2, 7]), 7)

unittest.main()
"""


@pytest.fixture(scope="module")
def daemon():
    with Guests() as running:
        yield running


@pytest.fixture
def cluster(daemon):
    """(host, the port of envd, the front)."""
    listeners = {"api": (listener(), None), "master": (listener(), None),
                 "direct": (listener(ADDRESS), None)}
    front = CubeFront(daemon, listeners, lambda: ADDRESS, envd_0_2=True)  # as the report's cluster
    yield (Host(f"http://127.0.0.1:{front.port('api')}", f"http://127.0.0.1:{front.port('master')}"),
           front.port("direct"))
    front.close()


def work(guest):
    """The steps of the report in each sandbox."""
    guest.await_ready()
    code, out, _ = guest.run("uname -s; whoami; pwd")
    assert (code, out) == (0, "Linux\nroot\n/root\n")
    guest.write("/root/bug/middle.py", BUGGY)
    made = guest.write("/root/bug/test_middle.py", TEST)
    assert made[0]["path"] == "/root/bug/test_middle.py"
    status, listed = guest.rpc("ListDir", {"path": "/root/bug", "depth": 1})
    assert status == 200 and [e["name"] for e in listed["entries"]] == ["middle.py", "test_middle.py"]
    code, _, err = guest.run("cd /root/bug && python3 -B test_middle.py")
    assert code == 1 and "FAILED (failures=2)" in err, "RED"
    assert guest.read("/root/bug/middle.py") == BUGGY
    guest.write("/root/bug/middle.py", BUGGY.replace(b" - 1", b""))
    code, _, err = guest.run("cd /root/bug && python3 -B test_middle.py")
    assert code == 0 and "OK" in err, "GREEN"


def test_a_cluster(cluster):
    host, port = cluster
    assert json.loads(http("GET", host.api + "/health")[1])["status"] == "ok"
    status, body = host.create(template_id="bare")
    assert status == 422 and b"templateID" in body
    status, body = host.create(templateID="bare", cpuCount=2, memoryMB=2048, name="field")
    made = json.loads(body)
    assert status == 201 and made["clientID"]
    assert (made["envdVersion"], made["domain"]) == ("0.2.0", DOMAIN)
    guest = Guest(f"http://{host.address(made['sandboxID'])}:{port}")
    work(guest)
    for user in (None, "Bearer x"):
        status, answer = guest.rpc("Stat", {"path": "/"}, user=user)
        assert status == 401 and answer["message"] == "no user specified"
    assert guest.rpc("Stat?username=root", {"path": "/"}, user=None)[0] == 401
    assert host.delete(made["sandboxID"]) in (200, 204)


def test_cubbyd_itself(daemon):
    host = Host(daemon.url, headers={"X-API-KEY": KEY})
    assert json.loads(http("GET", host.api + "/health")[1])["status"] == "ok"
    status, body = host.create(template_id="bare")
    assert status == 400 and "templateID" in json.loads(body)["message"]
    status, body = host.create(templateID="bare", secure=False, timeout=300)
    made = json.loads(body)
    assert status == 201 and made["clientID"] and made["envdVersion"]
    work(Guest(daemon.url, f"49983-{made['sandboxID']}.{DOMAIN}"))
    assert host.delete(made["sandboxID"]) == 204
    assert host.delete(made["sandboxID"]) == 404
