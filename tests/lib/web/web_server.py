# SPDX-License-Identifier: Apache-2.0
"""`cubby web` under test, and a client that sends exactly the headers it is told to."""

import http.client
import json
import os
import re
import signal
import socket
import subprocess

from harness import BIN
from websockets.sync.client import connect


class Web:
    """`cubby web` for the daemon of this environment."""

    def __init__(self, env, *args, **options):
        self.process = subprocess.Popen([BIN / "cubby", "web", *args], env=env, stdout=subprocess.PIPE, text=True,
                                        stdin=subprocess.DEVNULL, **options)
        self.link = self.process.stdout.readline().strip()
        parts = re.fullmatch(r"http://([0-9a-f]{16}\.localhost:(\d+))/#(.*)", self.link)
        assert parts, self.link
        self.host, self.port, self.token = parts[1], int(parts[2]), parts[3]
        self.key = None

    def send(self, method, path, body=None, headers=None, host=None, keyed=True, skip_host=False, address="127.0.0.1"):
        """Sends one request; returns (status, headers, body)."""
        connection = http.client.HTTPConnection(address, self.port, timeout=30)
        connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
        if not skip_host:
            connection.putheader("Host", self.host if host is None else host)
        if keyed and self.key:
            connection.putheader("Cubby-Web-Key", self.key)
        data = json.dumps(body).encode() if isinstance(body, (dict, list)) else body
        for name, value in (headers or {}).items():
            connection.putheader(name, value)
        if data is not None:
            connection.putheader("Content-Length", str(len(data)))
        connection.endheaders(data)
        answer = connection.getresponse()
        text = answer.read()
        connection.close()
        return answer.status, answer.headers, text

    def json(self, method, path, body=None, **more):
        status, _, text = self.send(method, path, body, **more)
        assert status < 300, text
        return json.loads(text) if text else None

    def sign_in(self):
        self.key = self.json("POST", "/session", {"token": self.token})["key"]
        return self

    def socket(self, path, origin=True, key=True, host=None):
        """A WebSocket as the page opens it."""
        offers = ["cubby"] + ([f"key.{self.key if key is True else key}"] if key else [])
        at = socket.create_connection(("127.0.0.1", self.port), 30)  # not every resolver knows the name
        return connect(f"ws://{host or self.host}{path}", sock=at, subprotocols=offers, max_size=None, legacy=True,
                       origin=f"http://{self.host}" if origin is True else origin or None, compression=None)

    def rss(self):
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as status:
            return next(int(line.split()[1]) for line in status if line.startswith("VmRSS:")) * 1024

    def fds(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def close(self):
        """Ends it; returns its exit status."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        status = self.process.wait(30)
        self.process.stdout.close()
        return status
