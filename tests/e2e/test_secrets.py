# SPDX-License-Identifier: Apache-2.0
"""Secrets from end to end: a guest uses values that it never holds. One sandbox for all tests."""

import contextlib
import json
import os
import pathlib
import secrets
import socket
import subprocess

import pytest
from cubbyd import Shipped
from egress_peer import Authority, Host
from harness import process_exists, wait_for
from jail_peer import AS_USER, NAMESPACES, UIDS, USER, mounts_of, namespace_of, of_user, status_of
from nest_world import Nested
from proc import descriptors
from socks_proxy import microsocks
from threaded import Threaded
from tiers import BWRAP, tier  # noqa: F401

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give this machine an address")

NAME, OTHER = "api.example.com", "other.example.net"
VALUE = "sk-live-" + secrets.token_hex(24)


@pytest.fixture(scope="module")
def address():
    """An address of this machine that no other test uses."""
    device = "cubby" + secrets.token_hex(4)
    number = f"10.213.{secrets.randbelow(254) + 1}.{secrets.randbelow(254) + 1}"
    subprocess.run(["ip", "link", "add", device, "type", "veth", "peer", "name", device[::-1]], check=True)
    try:
        subprocess.run(["ip", "address", "add", f"{number}/32", "dev", device], check=True)
        subprocess.run(["ip", "link", "set", device, "up"], check=True)
        yield number
    finally:
        subprocess.run(["ip", "link", "del", device], check=True)


@contextlib.contextmanager
def world_of(directory, address, make_daemon):
    """A daemon with one secret, a host that the secret is for and one that it is not for, a sandbox."""
    hosts = Authority(directory, "hosts")
    (directory / "value").write_text(VALUE + "\n")
    file = directory / "secrets.json"
    file.write_text(json.dumps({"API_KEY": {"file": str(directory / "value"), "hosts": [NAME]}}))
    with contextlib.ExitStack() as stack:
        pair = hosts.pair(NAME, OTHER)
        host, other = (Host(pair, address=address) for _ in range(2))
        stack.callback(host.close)
        stack.callback(other.close)
        plain, fake = Host(address=address), Host(Authority(directory, "nobody").pair(NAME), address=address)
        stack.callback(plain.close)
        stack.callback(fake.close)
        daemon = stack.enter_context(make_daemon(
            "--secrets", str(file), "--egress-trust", os.path.relpath(hosts.path), "--allow-private-network"))
        daemon.host, daemon.other, daemon.plain, daemon.fake = host, other, plain, fake
        daemon.made = daemon.create(secrets=["API_KEY"], timeout=600,
                                    network={"allowOut": [f"{address}/32"], "denyOut": ["0.0.0.0/0"]})
        names = f"echo {address} {NAME} {OTHER} >>/etc/hosts"
        assert daemon.command(daemon.made, names, "root")[0] == 0
        yield daemon


@pytest.fixture(scope="module")
def world(tmp_path_factory, address, tier):  # noqa: F811
    with world_of(tmp_path_factory.mktemp("secrets"), address,
                  lambda *args: Shipped(*args, "--pool", "off", tier=tier)) as daemon:
        yield daemon


def curl(world, name, host, more="", scheme="https", made=None):
    code, out = world.command(made or world.made,
                              f"curl -sS -m 60 {more} {scheme}://{name}:{host.port}/ 2>&1")
    assert code is not None, world.log.read_text()[-6000:]  # it has ended
    return code, out.decode()


KEY = '-H "Authorization: Bearer $API_KEY"'


def sent(host):
    return dict(host.requests[-1][1])["Authorization"]


def test_curl(world):
    code, out = curl(world, NAME, world.host, KEY)
    assert code == 0, out
    assert sent(world.host) == f"Bearer {VALUE}"
    assert VALUE not in out and "*" * len(VALUE) in out


@BWRAP
def test_bubblewrap(tmp_path, address):
    """One case of the tier that shares the host's kernel: the guest has a placeholder, and the host gets the value."""
    with world_of(tmp_path, address, lambda *args: Nested("bubblewrap", *args)) as world:
        code, placeholder = world.command(world.made, "printf %s $API_KEY")
        assert code == 0 and placeholder and VALUE.encode() not in placeholder
        code, out = curl(world, NAME, world.host, KEY)
        assert code == 0, out
        assert sent(world.host) == f"Bearer {VALUE}"
        assert VALUE not in out and "*" * len(VALUE) in out
        before = len(world.other.requests)
        code, out = curl(world, OTHER, world.other, KEY + " -w '%{http_code}'")
        assert code == 0 and out.endswith("403") and len(world.other.requests) == before, out
        assert VALUE.encode() not in world.command(world.made, "env; cat /proc/*/environ 2>/dev/null", "root")[1]
        assert not holders(world, VALUE)


def test_python(world):
    script = ("import os,urllib.request as u; r=u.Request('https://%s:%d/', headers={'Authorization': "
              "os.environ['API_KEY']}); print(u.urlopen(r).status)" % (NAME, world.host.port))
    for user in ("user", "root"):
        code, out = world.command(world.made, f'python3 -c "{script}"', user)
        assert (code, out) == (0, b"200\n"), out
    assert sent(world.host) == VALUE
    # Without variables too, as a service would run.
    plain = script.replace("os.environ['API_KEY']", "'none'")
    code, out = world.command(world.made, f'env -i python3 -c "{plain}"')
    assert (code, out) == (0, b"200\n"), out


def test_a_header_of_a_rule(world, address):
    """network.rules: the guest sends no Authorization and knows no placeholder; the host gets the value."""
    rules = {NAME: [{"transform": {"headers": {"Authorization": "Bearer ${e2b.secrets.API_KEY}"}}}],
             OTHER: [{"transform": {"headers": {"X-Rule": "of the rule"}}}]}
    made = world.create(timeout=300, network={"rules": rules, "allowOut": [f"{address}/32"],
                                              "denyOut": ["0.0.0.0/0"]})
    assert world.command(made, f"echo {address} {NAME} {OTHER} >>/etc/hosts", "root")[0] == 0
    code, out = curl(world, NAME, world.host, made=made)
    assert code == 0 and sent(world.host) == f"Bearer {VALUE}", out
    assert VALUE not in out and "*" * len(VALUE) in out
    code, out = curl(world, OTHER, world.other, "-H 'x-rule: mine'", made=made)
    assert code == 0 and [v for k, v in world.other.requests.pop()[1] if k.lower() == "x-rule"] == ["of the rule"], out
    assert b"cubby-secret" not in world.command(made, "env; cat /proc/*/environ 2>/dev/null", "root")[1]
    assert world.kill(made["sandboxID"]) == 204


def test_rules_change_while_it_runs(world, address):
    """A running sandbox gets rules, others, and none; it keeps them over pause, hibernation, the daemon and a fork."""
    lists = {"allowOut": [f"{address}/32"], "denyOut": ["0.0.0.0/0"]}
    made = world.create(timeout=600, network=lists)
    sandbox = made["sandboxID"]
    assert world.command(made, f"echo {address} {NAME} {OTHER} >>/etc/hosts", "root")[0] == 0

    def check_without():
        code, out = curl(world, NAME, world.host, "-k --http1.1", made=made)
        assert code == 0 and "Authorization" not in dict(world.host.requests[-1][1]), out

    def put(rules):
        answer = world.request("PUT", f"/sandboxes/{sandbox}/network", {**lists, "rules": rules}, timeout=60)
        assert answer.status == 204, answer.body

    def header(value):
        return {NAME: [{"transform": {"headers": {"Authorization": value}}}]}

    def check(value, sandbox=made):
        code, out = curl(world, NAME, world.host, made=sandbox)
        assert code == 0 and sent(world.host) == value and VALUE not in out, out

    check_without()
    put(header("Bearer ${e2b.secrets.API_KEY}"))
    check(f"Bearer {VALUE}")
    assert b"cubby-secret" not in world.command(made, "env; cat /proc/*/environ 2>/dev/null", "root")[1]
    first = world.record(sandbox)["machine"]["egress"]["pid"]
    put(header("Bearer another"))
    check("Bearer another")
    assert not process_exists(first), "the egress of before is gone"
    for depth in ("freeze", "hibernate"):
        assert world.request("POST", f"/sandboxes/{sandbox}/pause", {"depth": depth}, timeout=120).status == 204
        assert world.request("POST", f"/sandboxes/{sandbox}/resume", {"timeout": 600}, timeout=120).status == 201
        check("Bearer another")
    answer = world.request("POST", f"/sandboxes/{sandbox}/fork", {"count": 1}, timeout=120)
    child = answer.json[0]["sandbox"]
    check("Bearer another", child)
    assert world.kill(child["sandboxID"]) == 204
    world.process.kill()
    world.process.wait()
    world.start()
    check("Bearer another")
    put(header("${e2b.secrets.API_KEY}"))
    check(VALUE)
    last = world.record(sandbox)["machine"]["egress"]["pid"]
    put({})
    assert not process_exists(last), "its egress is gone"
    assert "egress" not in world.record(sandbox)["machine"]
    check_without()
    assert VALUE not in world.log.read_text() and not holders(world, VALUE)
    assert world.kill(sandbox) == 204


def test_a_network_process_of_an_older_version(world, address):
    """It would ignore a new egress: the change is refused, and nothing is undone. The next one sends all again."""
    lists = {"allowOut": [f"{address}/32"], "denyOut": ["0.0.0.0/0"]}
    made = world.create(timeout=600, secrets=["API_KEY"], network=lists)
    sandbox = made["sandboxID"]
    directory = os.open(world.home / "sandboxes" / sandbox, os.O_PATH)
    at = f"/proc/self/fd/{directory}/"
    before = world.record(sandbox)
    rules = {NAME: [{"transform": {"headers": {"X": "y"}}}]}

    def put(**more):
        return world.request("PUT", f"/sandboxes/{sandbox}/network", {**lists, **more}, timeout=60)

    lines = []

    class Older(Threaded):
        def serve(self, connection):
            line = b""
            while not line.endswith(b"\n"):
                line += connection.recv(65536)
            lines.append(json.loads(line))
            connection.sendall(b"{}\n")

    os.rename(at + "net.ctl", at + "net.real")
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(at + "net.ctl")
    listener.listen()
    older = Older(listener)
    answer = put(rules=rules, denyOut=[])
    assert answer.status == 501 and "hibernate" in answer.json["message"], answer.body
    after = world.record(sandbox)
    assert after["machine"]["egress"] == before["machine"]["egress"] and after["secrets"] == before["secrets"]
    assert process_exists(before["machine"]["egress"]["pid"])
    wait_for(lambda: len(lines) == 2, what="the old policy is sent again")
    assert lines[0]["policy"]["denyOut"] == [] and lines[1] == {"policy": before["policy"]}
    older.close()
    os.rename(at + "net.real", at + "net.ctl")
    assert put().status == 204
    assert world.record(sandbox)["machine"]["egress"] != before["machine"]["egress"], "not known, so sent again"
    os.close(directory)
    assert world.kill(sandbox) == 204


def test_an_upstream_proxy(world, address):
    """All connections of a running sandbox leave through a proxy, those with secrets and rules too, or not at all."""
    password = secrets.token_hex(16)
    lists = {"allowOut": [f"{address}/32"], "denyOut": ["0.0.0.0/0"]}
    rules = {NAME: [{"transform": {"headers": {"Authorization": "Bearer ${e2b.secrets.API_KEY}"}}}]}
    with microsocks(address, "me", password) as port:
        proxy = {"address": f"{address}:{port}", "username": "me", "password": password}
        made = world.create(timeout=600, network={**lists, "egressProxy": proxy})
        sandbox = made["sandboxID"]

        def put(**more):
            answer = world.request("PUT", f"/sandboxes/{sandbox}/network", {**lists, **more}, timeout=60)
            assert answer.status == 204, answer.body

        assert world.command(made, f"echo {address} {NAME} {OTHER} >>/etc/hosts", "root")[0] == 0
        code, out = curl(world, NAME, world.plain, scheme="http", made=made)
        assert code == 0, out
        put(egressProxy=proxy, rules=rules)
        code, out = curl(world, NAME, world.host, made=made)
        assert code == 0 and sent(world.host) == f"Bearer {VALUE}" and VALUE not in out, out
        for depth in ("freeze", "hibernate"):
            assert world.request("POST", f"/sandboxes/{sandbox}/pause", {"depth": depth}, timeout=120).status == 204
            assert world.request("POST", f"/sandboxes/{sandbox}/resume", {"timeout": 600}, timeout=120).status == 201
            code, out = curl(world, NAME, world.host, made=made)
            assert code == 0, out
        everything = world.command(made, "env; cat /proc/*/environ /proc/net/tcp 2>/dev/null", "root")[1]
        assert password.encode() not in everything and not [p for p in holders(world, password) if p.name != "sandbox.json"]
        before = len(world.host.requests), len(world.plain.requests)
        put(egressProxy={**proxy, "password": "wrong"})
        code, out = curl(world, NAME, world.plain, scheme="http", made=made)
        assert code == 7, "refused, as by a host: " + out
        put(egressProxy={**proxy, "password": "wrong"}, rules=rules)
        code, out = curl(world, NAME, world.host, made=made)
        assert code != 0, out
    put(egressProxy=proxy)  # it has ended
    code, out = curl(world, NAME, world.plain, scheme="http", made=made)
    assert code == 7 and before == (len(world.host.requests), len(world.plain.requests)), "no other way"
    told = world.request("GET", f"/sandboxes/{sandbox}/network").json
    reasons = set(told["counters"]["refusedByReason"])
    assert {"the upstream proxy refused the connection", "the upstream proxy cannot be reached"} <= reasons, told
    put()
    code, out = curl(world, NAME, world.plain, scheme="http", made=made)
    assert code == 0, out
    assert password not in world.log.read_text() and world.kill(sandbox) == 204


def test_elsewhere(world):
    before = len(world.other.requests)
    code, out = curl(world, OTHER, world.other, KEY + " -w '%{http_code}'")
    assert code == 0 and out.endswith("403") and "API_KEY" in out and NAME in out, out
    assert len(world.other.requests) == before
    # The control: without it the same request passes.
    assert curl(world, OTHER, world.other)[0] == 0 and len(world.other.requests) == before + 1
    # Its owner is told where all refusals are.
    told = world.request("GET", f"/sandboxes/{world.made['sandboxID']}/network").json
    refused = [r for r in told["refusals"] if r["name"] == OTHER]
    assert [r["reason"] for r in refused] == ["secret API_KEY: not for this host"], told
    assert told["counters"]["refusedByReason"]["secret API_KEY: not for this host"] == 1
    logs = world.request("GET", f"/v2/sandboxes/{world.made['sandboxID']}/logs?search=refused").body.decode()
    assert f"{OTHER} port {world.other.port}: secret API_KEY: not for this host (1)" in logs and VALUE not in logs


def test_plain_http(world):
    before = len(world.plain.requests)
    code, out = curl(world, NAME, world.plain, KEY + " -w '%{http_code}'", "http")
    assert code == 0 and out.endswith("403") and "TLS" in out, out
    assert curl(world, NAME, world.plain, scheme="http")[0] == 0
    assert len(world.plain.requests) == before + 1


def test_host_of_its_own_making(world):
    """A guest that is root makes a name of the secret's lead to another host: that host's
    certificate is not accepted."""
    code, out = world.command(world.made, f"curl -sS -m 60 -k -H \"Authorization: $API_KEY\" "
                              f"--connect-to {NAME}:443:{OTHER}:{world.fake.port} https://{NAME}/ 2>&1")
    assert set(world.fake.names) == {NAME} and not world.fake.requests, (code, out)  # it was asked
    assert b"cubby-egress" in out and b"could not be verified" in out, (code, out)


def processes(daemon):
    sandbox = daemon.made["sandboxID"]
    record = daemon.record(sandbox)["machine"]
    return {name: entry["pid"] for name, entry in record.items() if isinstance(entry, dict) and "pid" in entry}


def test_its_jail(world):
    """cubby-egress faces the internet with values in its memory, and runs in a jail as the process
    that faces the guest does."""
    pids = processes(world)
    egress, netd = (status_of(pids[name]) for name in ("egress", "netd"))
    for key in "CapPrm", "CapEff", "CapBnd", "CapInh", "CapAmb", "NoNewPrivs", "Seccomp", "Groups":
        assert egress[key] == netd[key], key
    assert egress["CapBnd"] == ["0" * 16] and egress["NoNewPrivs"] == ["1"] and egress["Seccomp"] == ["2"]
    assert egress["Uid"] != netd["Uid"] and int(egress["Uid"][0]) in UIDS
    for wall in NAMESPACES:
        own = {namespace_of(pids["egress"], wall), namespace_of(pids["netd"], wall), namespace_of(world.process.pid, wall)}
        assert len(own) == (1 if wall == "network" else 3), wall
    root = pathlib.Path(f"/proc/{pids['egress']}/root")
    for path in "/etc/shadow", "/etc/resolv.conf", str(world.home):
        assert os.path.lexists(path) and not os.path.lexists(str(root) + path), path
    assert (root / "etc/ssl/certs/ca-certificates.crt").exists()
    assert all("ro" in options for _, options in mounts_of(pids["egress"]))


def holders(world, word):
    """The files of sandboxes and snapshots that hold this text."""
    files = [p for top in ("sandboxes", "snapshots") for p in (world.home / top).rglob("*")
             if p.is_file() and not p.is_symlink()]
    return [p for p in files if word.encode() in p.read_bytes()]


def pieces_of_qemu(pid):
    """All of its memory that can be read."""
    with open(f"/proc/{pid}/mem", "rb", 0) as memory:
        for line in pathlib.Path(f"/proc/{pid}/maps").read_text().splitlines():
            where, rights, *_ = line.split()
            if rights[0] != "r" or "[v" in line:
                continue
            start, end = (int(x, 16) for x in where.split("-"))
            memory.seek(start)
            with contextlib.suppress(OSError):
                yield memory.read(end - start)


def pieces_of_sentry(pid):
    """The guest's memory is a file. To read where it has a hole would give it pages there."""
    (fd,) = [fd for fd, link in descriptors(pid).items() if "/memfd:runsc-memory" in link]
    with open(f"/proc/{pid}/fd/{fd}", "rb", 0) as memory:
        at = 0
        with contextlib.suppress(OSError):  # no more data
            while True:
                start = memory.seek(at, os.SEEK_DATA)
                at = memory.seek(start, os.SEEK_HOLE)
                memory.seek(start)
                yield memory.read(at - start)


def test_value_is_nowhere(world):
    """The value is in no argument, environment or file, and not in the guest's memory; the control:
    the placeholder is in all files of a snapshot."""
    sandbox = world.made["sandboxID"]
    pids = processes(world)
    for pid in [*pids.values(), world.process.pid]:
        proc = pathlib.Path(f"/proc/{pid}")
        assert VALUE.encode() not in (proc / "cmdline").read_bytes() + (proc / "environ").read_bytes()
    answer = world.request("POST", f"/sandboxes/{sandbox}/snapshots", {}, timeout=120)
    assert answer.status == 201, answer.body
    placeholder = world.record(sandbox)["secrets"]["given"]["API_KEY"]["placeholder"]
    assert not holders(world, VALUE)
    assert any(p.is_relative_to(world.home / "snapshots") for p in holders(world, placeholder))
    assert VALUE not in world.log.read_text()
    pieces = {"microvm": pieces_of_qemu, "gvisor": pieces_of_sentry}[world.tier](world.guest_pid(world.made))
    has_placeholder = False
    for piece in pieces:
        assert VALUE.encode() not in piece
        has_placeholder |= placeholder.encode() in piece
    assert has_placeholder  # control: what the guest has can be seen


def test_rollback_goes_on(world):
    """It is the same sandbox: a process from before has the same placeholder, and it works. The
    control: the snapshot has the placeholder and never had the value."""
    sandbox = world.made["sandboxID"]
    kept, before = world.record(sandbox)["secrets"], processes(world)["egress"]
    assert world.command(world.made, "echo $API_KEY >/tmp/then")[0] == 0
    answer = world.request("POST", f"/sandboxes/{sandbox}/snapshots", {}, timeout=120)
    assert answer.status == 201, answer.body
    assert world.command(world.made, "rm /tmp/then")[0] == 0
    answer = world.request("POST", f"/sandboxes/{sandbox}/rollback", {"snapshotID": answer.json["snapshotID"]},
                           timeout=120)
    assert answer.status == 200, answer.body
    assert world.record(sandbox)["secrets"] == kept
    code, out = curl(world, NAME, world.host, '-H "Authorization: Bearer $(cat /tmp/then)"')
    assert code == 0 and sent(world.host) == f"Bearer {VALUE}", out
    code, out = curl(world, OTHER, world.other, KEY + " -w '%{http_code}'")
    assert code == 0 and out.endswith("403"), out
    assert processes(world)["egress"] != before
    wait_for(lambda: not process_exists(before), what="the end of the egress of before")
    placeholder = kept["given"]["API_KEY"]["placeholder"]
    assert not holders(world, VALUE) and VALUE not in world.log.read_text()
    assert any(p.is_relative_to(world.home / "snapshots") for p in holders(world, placeholder))


def test_a_daemon_of_another_user(world, address):
    """It works without root's rights too, and a process of that user cannot read the value."""
    daemon = of_user("--allow-private-network", "--pool", "off", tier=world.tier)
    file, trust = daemon.home / "secrets.json", daemon.home / "trust.pem"
    trust.write_bytes(pathlib.Path(world.args[3]).read_bytes())
    (daemon.home / "value").write_text(VALUE + "\n")
    file.write_text(json.dumps({"API_KEY": {"file": str(daemon.home / "value"), "hosts": [NAME]}}))
    for path in file, daemon.home / "value":
        os.chown(path, USER, USER)
        path.chmod(0o600)
    daemon.args += ["--secrets", str(file), "--egress-trust", str(trust)]
    with daemon:
        daemon.made = made = daemon.create(secrets=["API_KEY"], timeout=600, network={
            "allowOut": [f"{address}/32"], "denyOut": ["0.0.0.0/0"]})
        assert daemon.command(made, f"echo {address} {NAME} {OTHER} >>/etc/hosts", "root")[0] == 0
        code, out = curl(daemon, NAME, world.host, KEY, made=made)
        assert code == 0 and sent(world.host) == f"Bearer {VALUE}" and VALUE not in out, out
        code, out = curl(daemon, OTHER, world.other, KEY + " -w '%{http_code}'", made=made)
        assert code == 0 and out.endswith("403"), out
        pids = processes(daemon)
        assert status_of(pids["egress"])["Uid"][0] == str(USER)
        readable = {name: subprocess.run([*AS_USER, "head", "-c", "1", f"/proc/{pid}/environ"], timeout=60,
                                         capture_output=True).returncode == 0
                    for name, pid in (("egress", pids["egress"]), ("daemon", daemon.process.pid))}
        assert readable == {"egress": False, "daemon": True}
        told = daemon.request("GET", f"/sandboxes/{made['sandboxID']}/network").json
        assert told["counters"]["refusedByReason"] == {"secret API_KEY: not for this host": 1}
        assert daemon.kill(made["sandboxID"]) == 204


def test_fork_goes_on(world):
    """A process in a fork has its parent's placeholder and trusts its parent's authority."""
    answer = world.request("POST", f"/sandboxes/{world.made['sandboxID']}/fork", {"count": 1}, timeout=120)
    assert answer.status == 201, answer.body
    child = answer.json[0]["sandbox"]
    code, out = curl(world, NAME, world.host, KEY, made=child)
    assert code == 0 and sent(world.host) == f"Bearer {VALUE}", out
    assert world.kill(child["sandboxID"]) == 204


def test_hibernation_and_rotation(world):
    """It has the same placeholder when it is woken, and its value is read again."""
    sandbox = world.made["sandboxID"]
    path = pathlib.Path(world.args[1]).parent / "value"
    egress = processes(world)["egress"]
    assert world.request("POST", f"/sandboxes/{sandbox}/pause", {"depth": "hibernate"}, timeout=120).status == 204
    wait_for(lambda: not process_exists(egress), what="the end of its egress")
    path.write_text("another-" + VALUE + "\n")
    # Without a time it would live for the 15 s that E2B's SDKs expect, and end in the middle of a test.
    assert world.request("POST", f"/sandboxes/{sandbox}/resume", {"timeout": 600}, timeout=120).status == 201
    code, out = curl(world, NAME, world.host, KEY)
    assert code == 0 and sent(world.host) == f"Bearer another-{VALUE}", out
    path.write_text(VALUE + "\n")


def test_egress_outlives_the_daemon_and_not_its_sandbox(world):
    """The last test of the file: the next daemon adopts cubby-egress; when it is killed,
    connections are refused, and nothing else fails."""
    world.process.kill()
    world.process.wait()
    world.start()
    sandbox = world.made["sandboxID"]
    egress = processes(world)["egress"]
    assert process_exists(egress)
    code, out = curl(world, NAME, world.host, KEY)
    assert code == 0, out
    os.kill(egress, 9)
    wait_for(lambda: "machine.egress" in world.log.read_text(), what="a line in the log")
    code, out = curl(world, NAME, world.host, KEY)
    assert code != 0 and world.command(world.made, "echo on")[1] == b"on\n"
    pids = processes(world)
    assert world.kill(sandbox) == 204
    wait_for(lambda: not any(process_exists(p) for p in pids.values()), what="their end")
