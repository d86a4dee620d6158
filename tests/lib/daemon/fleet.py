# SPDX-License-Identifier: Apache-2.0
"""A fleet under test: daemons with names, and Debian's haproxy in front with the configuration that `cubby fleet
config` writes.
"""

import contextlib
import http.client
import itertools
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile

from cubbyd import PROGRAM, Answer, Daemon, wait_for
from harness import BIN
from sdk import Guests

HAPROXY = "/usr/sbin/haproxy"
CUBBY = pathlib.Path(os.environ["TEST"]) / "cubby-process"  # knows the tests' driver


def candidates():
    """Ports below those that the kernel gives to outgoing connections: one of these could take the port of a daemon
    that a test has killed. Test processes at the same time begin at different ones."""
    first = 10000 + os.getpid() % 500 * 40
    for at in itertools.count(first - 10000):
        yield 10000 + at % 20000


PORTS = candidates()


def free_ports(count):
    """Ports that were free a moment ago. The daemons must know each other's before they start."""
    found = []
    while len(found) < count:
        port = next(PORTS)
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            found.append(port)
    return found


class Node(Daemon):
    def __init__(self, name, port, agent, *args):
        self.name, self.port, self.agent = name, port, agent
        super().__init__("--node", name, "--listen", f"127.0.0.1:{port}", "--agent", f"127.0.0.1:{agent}",
                         "--pool", "off", *args, program=PROGRAM)


class DrainNode(Node):
    """Its templates are the same builds as those of the other nodes, so that sandboxes can be moved."""

    def template(self, name, **facts):
        super().template(name, created_at="2026-11-26T10:00:00Z", **facts)
        (self.home / "templates" / name / "vmstate").write_bytes(b"devices")


class GuestNode(Node):
    """Its machines are namespaces with a real envd."""

    guest, templates = Guests.guest, Guests.templates


class Fleet:
    """`with Fleet("a", "b") as fleet`: daemons, a key that all of them know, and the proxy."""

    def __init__(self, *names, args=(), peers=True, cert=None, kind=Node):
        self.where = pathlib.Path(tempfile.mkdtemp(prefix="cubby-fleet-"))
        ports = free_ports(2 * len(names) + 1)
        self.port = ports.pop()
        self.nodes_file, self.keys = self.where / "nodes", self.where / "keys.json"
        more = ["--keys", str(self.keys), *(["--peers", str(self.nodes_file)] if peers else []), *args]
        self.nodes = {name: kind(name, ports.pop(), ports.pop(), *more) for name in names}
        self.cert, self.proxy, self.key = cert, None, None
        self.list_nodes()

    def list_nodes(self, **more):
        """Writes the list of nodes; `more` has words for a node's line."""
        self.nodes_file.write_text("".join(
            f"{n.name} http://127.0.0.1:{n.port} agent=127.0.0.1:{n.agent} {more.get(n.name, '')}\n"
            for n in self.nodes.values()))

    # ---- life
    def new_key(self, name):
        home = self.where / "operator"
        made = subprocess.run([BIN / "cubby", "key", "new", "--plain", name], capture_output=True, text=True,
                              env=dict(os.environ, CUBBY_HOME=str(home)), check=True, timeout=60)
        self.keys.write_bytes((home / "keys.json").read_bytes())
        return made.stdout.strip()

    def config(self):
        cert = ["--cert", str(self.cert)] if self.cert else []
        wrote = subprocess.run([BIN / "cubby", "fleet", "config", "--listen", f"127.0.0.1:{self.port}", *cert,
                                str(self.nodes_file)], capture_output=True, text=True, check=True, timeout=60)
        path = self.where / "haproxy.cfg"
        path.write_text(wrote.stdout)
        return path

    def start_proxy(self):
        path = self.config()
        checked = subprocess.run([HAPROXY, "-c", "-f", path], capture_output=True, text=True, timeout=60)
        assert checked.returncode == 0 and "WARNING" not in checked.stderr, checked.stderr
        control = self.where / "control.cfg"
        control.write_text(f"global\n    stats socket {self.where}/haproxy.sock mode 600\n")
        with open(self.where / "haproxy.log", "ab") as log:
            self.proxy = subprocess.Popen([HAPROXY, "-f", path, "-f", control], stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        wait_for(self.answers, 30, "the proxy answers for each node")

    def answers(self):
        assert self.proxy.poll() is None, (self.where / "haproxy.log").read_text()
        with contextlib.suppress(OSError):
            return all(self.request("GET", f"/sandboxes/{n}{'x' * 20}").status == 404 for n in self.nodes)

    def ask_proxy(self, command):
        with socket.socket(socket.AF_UNIX) as control:
            control.settimeout(30)
            control.connect(f"{self.where}/haproxy.sock")
            control.sendall(command.encode() + b"\n")
            return b"".join(iter(lambda: control.recv(1 << 16), b"")).decode()

    def proxy_sessions(self):
        """What the proxy itself says of each session that it has."""
        return self.ask_proxy("show sess all")

    def proxy_uses(self, backend):
        """The nodes that are up for the proxy in this backend."""
        servers = [line.split(",") for line in self.ask_proxy("show stat").splitlines()]
        return {one[1] for one in servers if one[0] == backend and one[1] in self.nodes and one[17].startswith("UP")}

    def stop_proxy(self):
        self.proxy.send_signal(signal.SIGTERM)
        self.proxy.wait(30)
        self.proxy = None

    def __enter__(self):
        self.key = self.new_key("tester")
        with contextlib.ExitStack() as stack:
            for node in self.nodes.values():
                stack.enter_context(node)
            stack.callback(lambda: self.proxy and self.stop_proxy())
            self.start_proxy()
            self.stack = stack.pop_all()
        return self

    def __exit__(self, *exc):
        self.stack.__exit__(*exc)
        shutil.rmtree(self.where)

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    # ---- moving sandboxes
    def via(self, node):
        """How `cubby fleet drain` runs cubby on the host of this node."""
        return f"env CUBBY_HOME={self.nodes[node].home} {CUBBY}"

    def start_drain(self, node, to, *words, via=None):
        command = [CUBBY, "fleet", "drain", "--via", via or self.via(to), *words, node, self.nodes_file]
        return subprocess.Popen(command, env=self.nodes[node].env, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                stdin=subprocess.DEVNULL, text=True)

    # ---- talking
    def connection(self, timeout=30):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)

    def request(self, method, path, body=None, headers=None, timeout=30, port=None):
        """Through the proxy, or with `port` past it."""
        connection = http.client.HTTPConnection("127.0.0.1", port or self.port, timeout=timeout)
        headers = {"X-API-KEY": self.key, **(headers or {})}
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
            headers.setdefault("Content-Type", "application/json")
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            return Answer(answer.status, answer.headers, answer.read())
        finally:
            connection.close()

    def in_parts(self, method, path, body):
        """Through the proxy, with a body that has no length and comes when the proxy has answered other requests."""
        connection = self.connection()
        connection.putrequest(method, path)
        for name, value in {"X-API-KEY": self.key, "Content-Type": "application/json", "Transfer-Encoding": "chunked"}.items():
            connection.putheader(name, value)
        connection.endheaders()
        for _ in range(20):
            self.request("GET", "/health")
        data = json.dumps(body).encode()
        connection.send(b"%x\r\n%s\r\n0\r\n\r\n" % (len(data), data))
        answer = connection.getresponse()
        with contextlib.closing(connection):
            return Answer(answer.status, answer.headers, answer.read())

    def create(self, node=None, **fields):
        """A new sandbox; with `node` on this one."""
        port = self.nodes[node].port if node else None
        made = self.request("POST", "/v2/sandboxes", {"templateID": "default", **fields}, port=port)
        assert made.status == 201, made.body
        return made.json

    def through(self, sandbox, method="GET", path="/health", body=None, port=49983, headers=None):
        routed = {"E2b-Sandbox-Id": sandbox, "E2b-Sandbox-Port": str(port), **(headers or {})}
        return self.request(method, path, body, routed)

    def count(self, made, method="GET"):
        """The program in a sandbox of the tests' driver that counts; POST starts it."""
        answer = self.through(made["sandboxID"], method, "/count", headers={"X-Access-Token": made["envdAccessToken"]})
        assert answer.status == 200, answer.body
        return answer.json

    def here(self, node):
        """The ids of the sandboxes that are at this node."""
        return {one["sandboxID"] for one in self.nodes[node].request("GET", "/v2/sandboxes").json}

    def everywhere(self, method, path):
        """The answers of the nodes themselves, without the proxy."""
        return {name: self.request(method, path, port=node.port) for name, node in self.nodes.items()}


class DrainFleet(Fleet):
    def __init__(self, **more):
        super().__init__("a", "b", kind=DrainNode, **more)
        self.drains = []
        self.list_nodes(a="then=b")

    def begin(self, *words, via=None):
        process = self.start_drain("a", "b", *words, via=via)
        self.drains.append(process)
        return process

    def drain(self, *words, via=None, status=0):
        """Returns {sandbox: what was said of it}."""
        process = self.begin(*words, via=via)
        out, err = process.communicate(timeout=120)
        assert process.returncode == status, out + err
        self.said = err
        return dict(line.split(" ", 1) for line in out.splitlines())

    def end_all(self):
        while self.drains:
            process = self.drains.pop()
            process.kill()
            process.communicate(timeout=60)
        for node in self.nodes.values():
            node.request("DELETE", "/drain")
            for sandbox in node.directories():
                node.request("DELETE", f"/sandboxes/{sandbox}/move")
                node.kill(sandbox)

    def breaks(self, where, how):
        """A command for --via that answers the question before the drain, and then does `how` with the archive."""
        script = where / "breaks"
        script.write_text(f'#!/bin/sh\ncase "$*" in *--check*) exec {self.via("b")} "$@";; esac\n{how}\n')
        script.chmod(0o755)
        return str(script)


LOST = "cat >/dev/null; exit 255"  # all of the archive may have come to the other node


__all__ = ["CUBBY", "HAPROXY", "LOST", "DrainFleet", "DrainNode", "Fleet", "GuestNode", "Node", "free_ports"]
