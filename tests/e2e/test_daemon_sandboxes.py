# SPDX-License-Identifier: Apache-2.0
"""cubbyd with real sandboxes: they are restored, distinct, usable, adopted and ended; and each way
they can die.
"""

import os
import signal
import statistics
import threading
import time

import pytest

from cubbyd import Shipped, events, process_exists, read_all, wait_for
from tiers import tier  # noqa: F401

ISOLATION = {"microvm": ("microvm (tcg)", "microvm (kvm)"), "gvisor": ("gvisor",)}
SYSRQ = pytest.mark.only_in("microvm", reason="under gVisor /proc/sysrq-trigger does nothing")


@pytest.fixture(scope="module")
def shared(tier):  # noqa: F811
    with Shipped(tier=tier) as d:
        yield d


@pytest.fixture
def daemon(shared):
    yield shared
    for sandbox in shared.request("GET", "/v2/sandboxes").json:
        shared.kill(sandbox["sandboxID"])
    # One that ended by itself is not listed any more, and may still be on its way out.
    wait_for(lambda: shared.machines() == [] and shared.directories() == [], 30, "nothing is left")


def wait_started(s):
    """The stream up to the command's first output."""
    data = b""
    while not any("data" in e for e in events(data)):
        chunk = s.recv(65536)
        assert chunk, data
        data += chunk
    return data


def test_a_command(daemon):
    made = daemon.create(envVars={"GREETING": "hello"})
    assert made["isolation"] in ISOLATION[daemon.tier]
    assert daemon.command(made, "echo $GREETING; id -un; pwd; exit 3") == \
        (3, b"hello\nuser\n/home/user\n")
    assert daemon.command(made, "id -u", user="root") == (0, b"0\n")
    assert daemon.command(made, "echo $E2B_SANDBOX $E2B_SANDBOX_ID $E2B_TEMPLATE_ID") == \
        (0, f"true {made['sandboxID']} default\n".encode())


def test_the_loopback_of_ipv6(daemon):
    """Programs bind ::1, and a request to that port gets there. The card has no IPv6 address."""
    made = daemon.create()
    serve = ("import socket; s = socket.create_server(('::1', 3999), family=socket.AF_INET6); print('up', flush=True)\n"
             "while True:\n c, _ = s.accept(); c.recv(999)\n"
             " c.sendall(b'HTTP/1.1 200 OK\\r\\nContent-Length: 2\\r\\nConnection: close\\r\\n\\r\\nv6'); c.close()")
    with daemon.open_command(made, f'python3 -c "{serve}"') as s:
        wait_started(s)
        answer = daemon.through(made["sandboxID"], port=3999, path="/")
        assert (answer.status, answer.body) == (200, b"v6")
    assert daemon.command(made, "awk '{print $6}' /proc/net/if_inet6") == (0, b"lo\n"), "netd carries IPv4 only"


@pytest.mark.only_in("microvm", reason="gVisor has no FUSE device")
def test_fuse(daemon):
    """Users mount FUSE file systems."""
    made = daemon.create()
    assert daemon.command(made, "[ ! -e /dev/fuse ] || stat -c %a /dev/fuse")[1] in (b"666\n", b"")


def test_the_token_is_enforced(daemon):
    made = daemon.create()
    answer = daemon.through(made["sandboxID"], "POST", "/process.Process/List", b"{}",
                            headers={"Content-Type": "application/json"})
    assert answer.status == 401 and answer.json["code"] == 401
    assert daemon.rpc(made, "process.Process/List", {}) in ({}, {"processes": []})
    open_one = daemon.create("v1", timeout=60, secure=False)
    answer = daemon.through(open_one["sandboxID"], "POST", "/process.Process/List", b"{}",
                            headers={"Content-Type": "application/json"})
    assert answer.status == 200


def test_two_of_one_snapshot_share_nothing(daemon):
    made = [daemon.create() for _ in range(2)]
    ask = "head -c 16 /dev/urandom | od -An -tx1; cat /etc/machine-id; hostname; date +%s"
    before = time.time()
    a, b = (daemon.command(m, ask)[1].split(b"\n") for m in made)
    assert a[0] != b[0] and a[1] != b[1]
    assert [x[2].decode() for x in (a, b)] == [m["sandboxID"] for m in made]
    assert before - 2 < int(a[3]) < time.time() + 2


def test_created_at_once(daemon):
    made = []
    threads = [threading.Thread(target=lambda: made.append(daemon.create())) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(made) == 4
    for m in made:
        assert daemon.command(m, "hostname") == (0, m["sandboxID"].encode() + b"\n")


def test_kill_is_fast_and_leaves_nothing(daemon):
    took = []
    for _ in range(5):
        made = daemon.create()
        pid = daemon.guest_pid(made)
        started = time.monotonic()
        assert daemon.kill(made["sandboxID"]) == 204
        took.append((time.monotonic() - started) * 1000)
        assert not process_exists(pid) and daemon.directories() == []
    print("kill ms:", took)
    assert min(took) < 500  # others may have the machine meanwhile


def test_proxy_overhead(daemon):
    """The proxy adds well under a millisecond to an answer of envd."""
    made = daemon.create()
    connection = daemon.connection()
    headers = {"E2b-Sandbox-Id": made["sandboxID"], "E2b-Sandbox-Port": "49983"}
    took = []
    for _ in range(200):
        started = time.monotonic()
        connection.request("GET", "/health", headers=headers)
        answer = connection.getresponse()
        assert answer.read() == b"" and answer.status == 204
        took.append((time.monotonic() - started) * 1000)
    connection.close()
    print("health ms:", statistics.median(took))
    assert min(took) < 200  # others may have the machine meanwhile


def test_a_server_in_the_guest(daemon):
    made = daemon.create()
    s = daemon.open_command(made, "cd /tmp; echo page > x; echo up; exec python3 -m http.server 8000")
    wait_started(s)
    answer = wait_for(lambda: (a := daemon.through(made["sandboxID"], path="/x", port=8000)).status
                      == 200 and a, 30, "the server answers")
    assert answer.body == b"page\n"
    closed = daemon.through(made["sandboxID"], port=8001)
    assert closed.status == 502 and closed.json["port"] == 8001
    assert closed.json["message"] == "The sandbox is running but port is not open"
    s.close()


@pytest.mark.parametrize("internet", [True, False])
def test_network_modes(daemon, internet):
    made = daemon.create(allow_internet_access=internet)
    assert daemon.record(made["sandboxID"])["policy"]["internet"] is internet
    assert daemon.command(made, "echo works with either") == (0, b"works with either\n")


def test_expiry(daemon):
    made = daemon.create(timeout=1)
    s = daemon.open_command(made, "echo up; sleep 100")
    wait_for(lambda: daemon.get(made["sandboxID"]).status == 404, 30, "it expires")
    assert not read_all(s).endswith(b"0\r\n\r\n")
    s.close()
    assert daemon.through(made["sandboxID"]).json["reason"] == "expired"


# ---- dying
def died(daemon, made, s, *words):
    """Checks that the stream breaks off, that the daemon gives the reason, and that it cleans up."""
    data = read_all(s)
    s.close()
    assert not data.endswith(b"0\r\n\r\n")
    wait_for(lambda: daemon.get(made["sandboxID"]).status == 404, 30, "the daemon notices")
    answer = daemon.get(made["sandboxID"]).json
    assert answer["error_code"] == "sandbox_ended" and "its machine ended unexpectedly" in answer["message"]
    for word in words:
        assert word in answer["message"]
    assert daemon.through(made["sandboxID"]).status == 502
    wait_for(lambda: daemon.directories() == [] and daemon.machines() == [], 30, "it is removed")


def test_the_guest_is_killed(daemon):
    made = daemon.create()
    s = daemon.open_command(made, "echo up; sleep 100")
    wait_started(s)
    os.kill(daemon.guest_pid(made), signal.SIGKILL)
    died(daemon, made, s, {"microvm": "killed", "gvisor": "gVisor's sentry ended"}[daemon.tier])


@SYSRQ
def test_guest_panics(daemon):
    made = daemon.create()
    s = daemon.open_command(made, "echo up; sleep 1; echo c > /proc/sysrq-trigger", user="root")
    wait_started(s)
    died(daemon, made, s, "panic")


@SYSRQ
def test_guest_powers_off(daemon):
    made = daemon.create()
    wait = "until [ -e /tmp/told ]; do sleep 0.05; done"  # a guest that is off sends nothing more
    s = daemon.open_command(made, f"echo up; {wait}; echo o > /proc/sysrq-trigger; sleep 60", user="root")
    wait_started(s)
    with daemon.open_command(made, "touch /tmp/told", user="root"):
        died(daemon, made, s)


def test_envd_is_killed(daemon):
    made = daemon.create()
    daemon.open_command(made, "pkill -9 -f '^envd '", user="root").close()

    def works():
        try:
            return daemon.command(made, "echo back")[1] == b"back\n"
        except (AssertionError, OSError):
            return False

    wait_for(works, 30, "envd is back, with the same token")


# ---- the daemon dies
def test_crash_and_adoption(tier):  # noqa: F811
    daemon = Shipped(tier=tier).start()
    try:
        made = daemon.create(metadata={"a": "b"})
        assert daemon.command(made, "echo kept > ~/file; nohup sleep 1000 >/dev/null 2>&1 &")[0] == 0
        dead = daemon.create()
        before = daemon.get(made["sandboxID"]).json
        pids = daemon.guest_pid(made), daemon.guest_pid(dead)
        daemon.process.kill()
        daemon.process.wait()
        assert all(process_exists(p) for p in pids)
        os.kill(pids[1], signal.SIGKILL)
        daemon.start()
        assert daemon.get(made["sandboxID"]).json == before
        assert daemon.command(made, "cat ~/file; pgrep -x sleep >/dev/null && echo runs") == \
            (0, b"kept\nruns\n")
        assert daemon.get(dead["sandboxID"]).json["error_code"] == "sandbox_ended"
        assert daemon.directories() == [made["sandboxID"]]
        os.kill(pids[0], signal.SIGKILL)  # an adopted one is watched as well
        wait_for(lambda: daemon.get(made["sandboxID"]).status == 404, 30, "the daemon notices")
    finally:
        daemon.close()


def test_stop_ends_all(tier):  # noqa: F811
    daemon = Shipped(tier=tier).start()
    pids = [daemon.guest_pid(daemon.create()) for _ in range(2)]
    assert daemon.stop() == 0
    assert not any(process_exists(p) for p in pids)
    daemon.close()
