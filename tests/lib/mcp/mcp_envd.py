# SPDX-License-Identifier: Apache-2.0
"""A backend whose sandboxes are one real envd: the test's own cubbyd, with the host build of envd
behind it. Paths in the sandbox are this machine's.
"""

import select
import socket

import pytest
from envd_peer import Envd
from mcp_backend import Backend, Handler
from mcp_stdio import fresh, server, servers_with  # noqa: F401 (fixtures for the tests that import them from here)


class Relay(Handler):
    """Passes envd's requests and answers on, byte by byte."""

    def envd(self, url, body):
        lines = [f"{self.command} {self.path} HTTP/1.1"]
        lines += [f"{k}: {v}" for k, v in self.headers.items()
                  if k.lower() not in ("connection", "x-access-token", "transfer-encoding",
                                       "content-length")]
        lines += [f"Content-Length: {len(body)}", "Connection: close"]
        self.close_connection = True
        self.backend.relays.append((self.headers["E2b-Sandbox-Id"], self.connection))
        with self.backend.envd.connect() as envd:
            envd.sendall("\r\n".join(lines).encode() + b"\r\n\r\n" + body)
            while envd not in (ready := select.select([envd, self.connection], [], [])[0]) or (
                    data := envd.recv(65536)):
                if envd in ready:
                    self.connection.sendall(data)
                elif not self.connection.recv(65536):
                    return  # the client left


class EnvdBackend(Backend):
    handler = Relay

    def __init__(self):
        self.relays = []
        self.envd = Envd()
        super().__init__()
        self.commands = self.home / "commands"  # what is kept of those in the background
        # A home of its own, too: a login shell that is killed in this user's profile may leave a lock.
        environment = {"CUBBY_COMMANDS": str(self.commands), "HOME": str(self.files)}
        assert self.envd.init(envVars=environment)[0] == 204

    def watches(self):
        """How many watches have been requested so far."""
        return self.count("/filesystem.Filesystem/WatchDir")

    def end(self, name, why="The sandbox ended"):
        super().end(name, why)
        for sandbox, connection in self.relays:
            if sandbox == name:
                try:
                    connection.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass  # it was over already

    def close(self):
        super().close()
        self.envd.close()


@pytest.fixture
def real():
    b = EnvdBackend()
    yield b
    b.close()


@pytest.fixture
def start(real, tmp_path):
    with servers_with(real, tmp_path) as start_one:
        yield start_one


@pytest.fixture
def sandbox(real):
    return real.sandbox()
