# SPDX-License-Identifier: Apache-2.0
"""cubbyd: many streams of the real envd at once, slow readers among them; large files."""

import base64
import hashlib
import os
import socket
import threading

import pytest
from envd_peer import Envd

from cubbyd_fixtures import daemon, sandbox, made, shared  # noqa: F401 (fixtures)

STREAMS = 32
LINES = 40_000
QUEUED_MB = 24  # what is on its way in the daemon, for all of them


class ProxiedEnvd(Envd):
    """A real envd of this host, served as a port of a sandbox; streams are opened through cubbyd."""

    def __init__(self, daemon, sandbox):
        super().__init__()
        self.daemon, self.sandbox = daemon, sandbox

    def connect(self):
        s = socket.socket(socket.AF_UNIX)
        s.settimeout(60)
        s.connect(str(self.daemon.home / "cubbyd.sock"))
        return s

    def _headers(self, headers):
        return {"E2b-Sandbox-Id": self.sandbox, "E2b-Sandbox-Port": str(self.port),
                **super()._headers(headers)}

    def through(self, method, target, body=None, **headers):
        return self.daemon.through(self.sandbox, method, target, body, self.port, headers, timeout=60)


@pytest.fixture
def envd(daemon, sandbox):
    envd = ProxiedEnvd(daemon, sandbox)
    yield envd
    envd.close()


def peak_mb(daemon):
    with open(f"/proc/{daemon.process.pid}/status") as f:
        return next(int(line.split()[1]) / 1024 for line in f if line.startswith("VmHWM"))


def output(stream, slowly=None):
    """Everything that a command printed; `slowly`: nothing is read until it is set."""
    if slowly:
        slowly.wait(60)
    pieces, code = [], None
    for message in stream:
        event = message["event"]
        pieces.append(base64.b64decode(event.get("data", {}).get("stdout", "")))
        if "end" in event:
            code = event["end"].get("exitCode", 0)
    assert stream.end == {}, stream.end
    stream.close()
    return code, b"".join(pieces)


def test_many_commands_that_stream(daemon, envd):
    """No byte is lost and the order is kept, with slow readers too."""
    before = peak_mb(daemon)
    streams = [envd.begin("seq", "-f", f"{i} %.0f", "1", str(LINES)) for i in range(STREAMS)]
    go, results = threading.Event(), {}

    def read(i):
        results[i] = output(streams[i], go if i % 2 else None)

    threads = [threading.Thread(target=read, args=(i,)) for i in range(STREAMS)]
    for thread in threads:
        thread.start()
    for thread in threads[::2]:
        thread.join()
    go.set()
    for thread in threads:
        thread.join()
    for i in range(STREAMS):
        expected = b"".join(b"%d %d\n" % (i, n) for n in range(1, LINES + 1))
        assert results[i] == (0, expected), f"stream {i}"
    assert peak_mb(daemon) - before < QUEUED_MB


def test_large_files(envd, tmp_path):
    data = os.urandom(30_000_000)
    pieces = (data[i:i + 100_000] for i in range(0, len(data), 100_000))
    target = envd.files(str(tmp_path / "x"))
    answer = envd.through("POST", target, pieces, **{"Content-Type": "application/octet-stream"})
    assert answer.status == 200, answer.body
    assert hashlib.sha256((tmp_path / "x").read_bytes()).digest() == hashlib.sha256(data).digest()
    assert envd.through("GET", target).body == data
    part = envd.through("GET", target, Range="bytes=1000-1999")
    assert part.status == 206 and part.body == data[1000:2000]


def test_a_sandbox_that_is_killed_cuts_its_commands(daemon, envd):
    """It does not look like a regular end: the last chunk does not come (the SDKs rely on that)."""
    stream = envd.begin("sh", "-c", "while :; do echo x; sleep 0.01; done")
    assert "data" in stream.event()
    assert daemon.kill(envd.sandbox) == 204
    with pytest.raises((ConnectionError, ValueError)):
        while True:
            stream.event()
    stream.close()
    answer = envd.through("GET", "/health")
    assert answer.status == 502 and answer.json["code"] == 502
