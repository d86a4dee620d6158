# SPDX-License-Identifier: Apache-2.0
"""The process cubby-egress: its memory, its limits, and its inputs at the start and from netd."""

import ctypes
import json
import os
import pathlib
import resource
import socket
import ssl
import struct
import subprocess

import pytest
from egress_peer import EGRESS, Egress, ask
from egress_world import NAME, PLACEHOLDER, SECRETS, VALUE
from egress_world import fixture_authorities, fixture_world  # noqa: F401 (fixtures)
from harness import wait_for
from proc import descriptors


def ask_for_keys(s, times):
    """A client's handshake with repeated requests for new keys, which Python's module cannot send;
    returns how many were accepted."""
    lib = ctypes.CDLL("libssl.so.3")
    for function in "TLS_client_method", "SSL_CTX_new", "SSL_new":
        getattr(lib, function).restype = ctypes.c_void_p
    ctx = ctypes.c_void_p(lib.SSL_CTX_new(ctypes.c_void_p(lib.TLS_client_method())))
    ssl_ = ctypes.c_void_p(lib.SSL_new(ctx))
    s.setblocking(True)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", 60, 0))
    lib.SSL_set_fd(ssl_, s.fileno())
    assert lib.SSL_connect(ssl_) == 1
    asked = 0
    while asked < times and lib.SSL_key_update(ssl_, 1) == 1 and lib.SSL_do_handshake(ssl_) == 1:
        asked += 1
    lib.SSL_free(ssl_)
    lib.SSL_CTX_free(ctx)
    return asked


def test_a_guest_that_asks_for_keys_and_does_not_read(world):
    host = world.host()

    def resident():
        pages = pathlib.Path(f"/proc/{world.process.pid}/statm").read_text(encoding="ascii").split()[1]
        return int(pages) * resource.getpagesize()

    with world.connect(NAME, host.port) as first, world.connect(NAME, host.port) as s:
        assert ask_for_keys(first, 1) == 1
        before = resident()
        asked = ask_for_keys(s, 600_000)
        grown = resident() - before
    assert asked < 600_000, f"it takes it all, and is {grown >> 20} MiB larger"
    assert os.environ.get("SAN") or grown < 4 << 20, (asked, grown)


def test_values_are_nowhere(world):
    host = world.host()
    with world.dial(NAME, host.port) as s:
        ask(s, headers=[("X-Key", PLACEHOLDER)])
        proc = pathlib.Path(f"/proc/{world.process.pid}")
        for name in ("cmdline", "environ"):
            assert VALUE.encode() not in (proc / name).read_bytes()
        assert world.config_pipe not in descriptors(world.process.pid).values()


def test_its_memory_is_its_own(world):
    """A process of the same user cannot read its memory; the control: it can read another program's."""
    host = world.host()
    with world.dial(NAME, host.port) as s:
        ask(s)
    status = pathlib.Path(f"/proc/{world.process.pid}/status").read_text()
    assert "CoreDumping:\t0" in status and "NoNewPrivs:\t1" in status
    # An unprivileged user's own process: one that may be dumped belongs to him under /proc, one that
    # may not to root (proc(5)).
    as_user = ["setpriv", "--reuid=1001", "--regid=1001", "--clear-groups"]
    a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    owners = []
    for command in (["sleep", "60"], [EGRESS, "--connections-fd", str(b.fileno()), "--config-fd", "0"]):
        with subprocess.Popen(as_user + command, stdin=subprocess.PIPE, pass_fds=(b.fileno(),),
                              stderr=subprocess.DEVNULL) as process:
            memory = pathlib.Path(f"/proc/{process.pid}/mem")
            name = pathlib.Path(command[0]).name[:15]
            comm = pathlib.Path(f"/proc/{process.pid}/comm")
            wait_for(lambda: comm.read_text().strip() == name, what="the program")
            if name != "sleep":
                wait_for(lambda: memory.stat().st_uid == 0, what="the shield")
            owners.append(memory.stat().st_uid)
            process.kill()
    a.close()
    b.close()
    assert owners == [1001, 0]


def test_messages_that_are_wrong(world):
    host = world.host()
    a, b = socket.socketpair()
    with a, b:
        for message in (b"{}", b"no", b"x" * 5000,
                        json.dumps({"name": "*.com", "address": "127.0.0.1", "port": 1}).encode(),
                        json.dumps({"name": NAME, "address": NAME, "port": 1}).encode(),
                        json.dumps({"name": "a b", "address": "127.0.0.1", "port": 1}).encode()):
            socket.send_fds(world.socket, [message], [b.fileno()])
        # What is no stream socket: a file, for which libuv would end the process, and a packet socket.
        sound = json.dumps({"name": NAME, "address": "127.0.0.1", "port": 1}).encode()
        with open(__file__, "rb") as file:
            for odd in file.fileno(), world.socket.fileno():
                socket.send_fds(world.socket, [sound], [odd])
        world.socket.send(json.dumps({"name": NAME, "address": "127.0.0.1", "port": 1}).encode())
        socket.send_fds(world.socket, [b"{}"], [b.fileno(), b.fileno()])
        wait_for(lambda: world.text().count("egress.message") == 10, what="ten complaints")
        assert world.stats()[1] == {"an invalid handover": 10}
    with world.dial(NAME, host.port) as s:
        assert ask(s)[0] == 200


def test_connections_are_bounded(world):
    host = world.host()
    kept = [world.connect(NAME, host.port, tls=False) for _ in range(256)]
    with world.connect(NAME, host.port, tls=False) as one_more:
        assert one_more.recv(1) == b""
    assert world.stats()[1] == {"too many connections to secrets' proxy": 1}
    for s in kept:
        s.close()

    def again():
        with world.connect(NAME, host.port) as s:
            try:
                with world.context().wrap_socket(s, server_hostname=NAME) as t:
                    return ask(t)[0] == 200
            except (OSError, ssl.SSLError):
                return False

    wait_for(again, what="room for another")


@pytest.mark.parametrize("spoil", [
    lambda c: c.update(secrets=[dict(SECRETS[0], value="short")]),
    lambda c: c.update(secrets=[dict(SECRETS[0], value=VALUE + "\r\nX: y")]),
    lambda c: c.update(secrets=[dict(SECRETS[0], hosts=["*.com"])]),
    lambda c: c.update(secrets=[dict(SECRETS[0], hosts=[])]),
    lambda c: c.update(rules={}),
    lambda c: c.update(rules=[{"headers": {"X": "y"}}]),
    lambda c: c.update(rules=[{"host": "*.com", "headers": {"X": "y"}}]),
    lambda c: c.update(rules=[{"host": "a.example", "headers": ["X"]}]),
    lambda c: c.update(rules=[{"host": "a.example", "headers": {"X": 1}}]),
    lambda c: c.update(rules=[{"host": "a.example", "headers": {"X": "y\r\nZ: y"}}]),
    lambda c: c.update(rules=[{"host": "a.example", "headers": {"": "y"}}]),
    lambda c: c.update(ca={}),
    lambda c: c.update(trust="/nonexistent/trust.pem"),
    lambda c: c["ca"].update(key=c["ca"]["certificate"]),
])
def test_configurations_that_are_wrong(authorities, spoil):
    hosts, ca, _ = authorities
    config = {"ca": {"certificate": ca.pem(), "key": ca.key_pem()}, "secrets": [dict(SECRETS[0])],
              "trust": str(hosts.path)}
    spoil(config)
    a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with a, b:
        out = subprocess.run([EGRESS, "--connections-fd", str(b.fileno()), "--config-fd", "0"],
                             pass_fds=(b.fileno(),), input=json.dumps(config).encode(),
                             capture_output=True, timeout=60)
    assert out.returncode == 1 and b"egress.failed" in out.stderr
    assert VALUE.encode() not in out.stderr and b"PRIVATE" not in out.stderr


def test_the_largest_configuration_of_the_daemon(authorities):
    """The longest values, with each byte escaped, and the rules that the daemon allows beside them."""
    hosts, ca, _ = authorities
    secrets = [{"name": f"KEY{i}", "placeholder": f"cubby-secret-{i:032x}", "value": '"' * 65536, "hosts": [NAME]}
               for i in range(32)]
    rules = [{"host": f"a{i}.example", "headers": {f"X{j}": "x" * 8100 for j in range(8)}} for i in range(16)]
    assert len(json.dumps(secrets)) > 4 << 20 and len(json.dumps(rules)) < 1 << 20
    Egress(ca, secrets, hosts.path, rules).stop()  # it ends with 0
