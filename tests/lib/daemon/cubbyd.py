# SPDX-License-Identifier: Apache-2.0
"""A daemon under test, with machines that are processes (cubbyd-process), and a client for it.

A machine's port 49983 is a small envd (tests/lib/process_driver/process_machine.c); each other port is the same
port of 127.0.0.1, so that a test can be the guest's program.
"""

import base64
import contextlib
import http.client
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile

from harness import BIN, TEST_HOME, process_exists, tmpfs, wait_for
from proc import descriptors
from threaded import Threaded

PROGRAM = pathlib.Path(os.environ["TEST"]) / "cubbyd-process"
ENVD = 49983


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path, timeout=30):
        super().__init__("localhost", timeout=timeout)
        self.path = str(path)

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Answer:
    def __init__(self, status, headers, body):
        self.status = status
        self.headers = headers
        self.body = body

    @property
    def json(self):
        return json.loads(self.body)


class Daemon:
    """A state directory, its templates, and the daemon that serves it."""

    running = []  # all, for the report of a failed test (conftest.py)

    def __init__(self, *args, env=None, program=PROGRAM):
        self.home = pathlib.Path(tempfile.mkdtemp(prefix="cubby-test-"))
        self.program = program
        self.args = list(args)
        self.preexec = None  # called in it before it is executed
        self.wrap = []  # words of a command that runs the daemon somewhere else
        self.env = dict(os.environ, CUBBY_HOME=str(self.home), **(env or {}))
        self.process = None
        self.log = self.home / "log"
        self.templates()

    # ---- life
    def templates(self):
        self.template("default")

    def template(self, name, **facts):
        where = self.home / "templates" / name
        where.mkdir(parents=True, exist_ok=True)
        known = {"driver": "process", "cpus": 2, "memory_mb": 512, "disk_mb": 2048, **facts}
        (where / "template.json.new").write_text(json.dumps(known))
        (where / "template.json.new").rename(where / "template.json")  # a daemon may be reading it

    def start(self, *more):
        """Starts it and returns when it reports that it listens."""
        ours, theirs = os.pipe()
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                [*self.wrap, self.program, "--log-level", "debug", "--ready-fd", str(theirs), *self.args, *more],
                env=self.env, pass_fds=[theirs], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                preexec_fn=self.preexec)
        os.close(theirs)
        with os.fdopen(ours) as ready:
            assert ready.read() == "ready\n", self.log.read_text()
        if self not in Daemon.running:
            Daemon.running.append(self)
        return self

    def stop(self, number=signal.SIGTERM):
        """Ends it; returns its exit status."""
        self.process.send_signal(number)
        status = self.process.wait(60)
        self.process = None
        return status

    def close(self):
        """Ends it with everything it runs; fails when something is left, or a sanitizer complained."""
        if self in Daemon.running:
            Daemon.running.remove(self)
        try:
            status = self.stop() if self.process else 0
            left = self.machines()
            for pid in left:
                os.kill(pid, signal.SIGKILL)
            text = self.log.read_text(errors="replace") if self.log.exists() else ""
            assert status == 0, text
            assert not left, f"machines left behind: {left}"
            assert self.directories() == []
            assert "ERROR: " not in text and "runtime error" not in text, text
        finally:
            shutil.rmtree(self.home, ignore_errors=True)

    def __enter__(self):
        return self.start()

    def __exit__(self, kind, *exc):
        if kind:  # the log is removed before the test's report is made
            print(self.log_tail())
        self.close()

    # ---- looking
    def log_tail(self, lines=60):
        text = self.log.read_text(errors="replace") if self.log.exists() else ""
        return "\n".join([f"the end of {self.log}:", *text.splitlines()[-lines:]])

    def machines(self):
        """Processes of this home's machines."""
        found = []
        for entry in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
                if b"qemu-system" in words[0]:  # it has descriptors, no names
                    words += [os.fsencode(link) for link in descriptors(entry.name).values()]
            except OSError:
                continue
            if os.path.basename(words[0]) != b"cubbyd" and process_exists(entry.name):
                if any(os.fsencode(self.home / place) in w for w in words for place in ("sandboxes", "runsc", "spares")):
                    found.append(int(entry.name))
        return found

    def machine(self, sandbox):
        return self.record(sandbox)["machine"]["pid"]

    def directories(self):
        where = self.home / "sandboxes"
        return sorted(os.listdir(where)) if where.exists() else []

    def directory(self, sandbox):
        return self.home / "sandboxes" / sandbox

    def record(self, sandbox):
        return json.loads((self.directory(sandbox) / "sandbox.json").read_text())

    def fds(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def descriptors(self):
        """What the daemon has open, as text, for the report of a test that fails."""
        return "\n".join(f"{fd} {link}" for fd, link in sorted(descriptors(self.process.pid).items()))

    def connects(self, sandbox):
        """The ports that were connected to in it, in order."""
        log = self.directory(sandbox) / "connects.log"
        return [int(x) for x in log.read_text().split()] if log.exists() else []

    # ---- talking
    def connection(self, timeout=30):
        return UnixConnection(self.home / "cubbyd.sock", timeout)

    def request(self, method, path, body=None, headers=None, timeout=30):
        """body: bytes, an iterable (sent chunked), or a value that is sent as JSON."""
        connection = self.connection(timeout)
        headers = dict(headers or {})
        if body is not None and not isinstance(body, bytes) and not hasattr(body, "__next__"):
            body = json.dumps(body).encode()
            headers.setdefault("Content-Type", "application/json")
        try:
            connection.request(method, path, body, headers,
                               encode_chunked=hasattr(body, "__next__"))
            answer = connection.getresponse()
            return Answer(answer.status, answer.headers, answer.read())
        finally:
            connection.close()

    def create(self, version="v2", **fields):
        fields.setdefault("templateID", "default")
        path = "/v2/sandboxes" if version == "v2" else "/sandboxes"
        answer = self.request("POST", path, fields)
        assert answer.status == 201, answer.body
        return answer.json

    def get(self, sandbox):
        return self.request("GET", f"/sandboxes/{sandbox}")

    def kill(self, sandbox):
        return self.request("DELETE", f"/sandboxes/{sandbox}").status

    def through(self, sandbox, method="GET", path="/health", body=None, port=ENVD, headers=None,
                token=None, timeout=30):
        """Sends a request through the proxy."""
        routed = {"E2b-Sandbox-Id": sandbox, "E2b-Sandbox-Port": str(port), **(headers or {})}
        if token:
            routed["X-Access-Token"] = token
        return self.request(method, path, body, routed, timeout)

    def open(self, sandbox, port, head="GET / HTTP/1.1", more="", timeout=30):
        """A socket on which a request for a port was sent, and no answer read yet."""
        s = socket.socket(socket.AF_UNIX)
        s.settimeout(timeout)
        s.connect(str(self.home / "cubbyd.sock"))
        s.sendall(f"{head}\r\nHost: x\r\nE2b-Sandbox-Id: {sandbox}\r\nE2b-Sandbox-Port: {port}\r\n"
                  f"{more}\r\n".encode())
        return s


class Shipped(Daemon):
    """The shipped daemon, with the template that the tests share. Its sandboxes are of the given tier, whatever
    the best one is on this host. It keeps no spares, so that tests can count processes."""

    def __init__(self, *args, tier, env=None):
        self.tier = tier
        super().__init__(*args, env={"CUBBY_TIER": tier, "CUBBY_SPARES": "off", **(env or {})}, program=BIN / "cubbyd")

    def templates(self):
        (self.home / "templates").symlink_to(TEST_HOME / "templates")

    def guest_pid(self, made):
        """The process that runs the guest: QEMU or gVisor's sentry."""
        machine = self.record(made["sandboxID"])["machine"]
        pid = machine["qemu" if self.tier == "microvm" else "sentry"]["pid"]
        assert pid in self.machines()
        return pid

    def netd_pid(self, made):
        return self.record(made["sandboxID"])["machine"]["netd"]["pid"]

    def rpc(self, made, method, message, timeout=60):
        """A unary call to envd."""
        answer = self.through(made["sandboxID"], "POST", "/" + method, json.dumps(message).encode(),
                              headers={"Content-Type": "application/json"},
                              token=made["envdAccessToken"], timeout=timeout)
        assert answer.status == 200, answer.body
        return answer.json

    def open_command(self, made, command, user="user", timeout=60):
        """Starts a shell command; returns a socket on which its events come."""
        message = json.dumps({"process": {"cmd": "/bin/sh", "args": ["-c", command]},
                              "stdin": False}).encode()
        who = base64.b64encode(f"{user}:".encode()).decode()
        s = self.open(made["sandboxID"], ENVD, "POST /process.Process/Start HTTP/1.1",
                      f"X-Access-Token: {made['envdAccessToken']}\r\nAuthorization: Basic {who}\r\n"
                      "Content-Type: application/connect+json\r\nConnection: close\r\n"
                      f"Content-Length: {len(message) + 5}\r\n", timeout=timeout)
        s.sendall(b"\0" + len(message).to_bytes(4, "big") + message)
        return s

    def command(self, made, command, user="user", timeout=60):
        """(exit code, standard output) of a shell command."""
        s = self.open_command(made, command, user, timeout)
        data = read_all(s)
        s.close()
        output, code = b"", None
        for event in events(data):
            output += base64.b64decode(event.get("data", {}).get("stdout", ""))
            if "end" in event:
                code = event["end"].get("exitCode", 0)
        return code, output


class MicroVMs(Shipped):
    """Its machines are QEMU processes."""

    def __init__(self, *args, env=None):
        super().__init__(*args, tier="microvm", env=env)


def unchunk(data):
    """The body of an answer in chunks, as far as it has arrived."""
    body = b""
    rest = data.partition(b"\r\n\r\n")[2]
    while b"\r\n" in rest:
        size, _, rest = rest.partition(b"\r\n")
        length = int(size, 16)
        if length == 0 or len(rest) < length:
            break
        body += rest[:length]
        rest = rest[length + 2:]
    return body


def events(answer):
    """The events of a Start stream, from the bytes of the whole answer."""
    body = unchunk(answer)
    while len(body) >= 5:
        length = int.from_bytes(body[1:5], "big")
        message = json.loads(body[5:5 + length] or b"{}")
        if "event" in message:
            yield message["event"]
        body = body[5 + length:]


class Guest(Threaded):
    """A program in the guest: listens, and runs `serve(connection)` in a thread for each."""

    def __init__(self, serve, address=("127.0.0.1", 0)):
        self.serve = serve
        super().__init__(socket.create_server(address))


class Web(Guest):
    """Answers every request with its head, as JSON lines of text."""

    def __init__(self, more="", address=None):
        self.heads, self.more = [], more
        self.held = closed_port() if address else None  # on 127.0.0.1, where nobody else may listen
        super().__init__(self.answer, (address, self.held.getsockname()[1]) if address else ("127.0.0.1", 0))

    def close(self):
        super().close()
        if self.held:
            self.held.close()

    def answer(self, connection):
        head, _ = read_head(connection)
        self.heads.append(head)
        body = b"hello\n"
        connection.sendall(f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\n{self.more}\r\n".encode() + body)


@contextlib.contextmanager
def small_disk(home, size):
    """A separate file system for a home's sandboxes; returns a function that fills it, and a file
    to remove."""
    filler = home / "sandboxes/.filler"

    def fill():
        with open(filler, "wb", buffering=0) as file, contextlib.suppress(OSError):
            while True:
                file.write(b"x" * 4096)
        return filler

    with tmpfs(filler.parent, size):
        yield fill


def closed_port():
    """A socket bound to a free port: the port stays closed, and nobody else gets it, while the
    socket exists."""
    s = socket.socket()
    s.bind(("127.0.0.1", 0))
    return s


def read_head(connection):
    """A request's head, and the bytes that came after it."""
    data = b""
    while b"\r\n\r\n" not in data:
        chunk = connection.recv(65536)
        if not chunk:
            raise OSError("no whole head")
        data += chunk
    head, _, rest = data.partition(b"\r\n\r\n")
    return head.decode(), rest


def read_all(connection):
    """Everything until the end; and whether the end was a clean one."""
    data = b""
    while True:
        try:
            chunk = connection.recv(65536)
        except ConnectionResetError:
            return data
        if not chunk:
            return data
        data += chunk


__all__ = ["Answer", "Daemon", "ENVD", "Guest", "MicroVMs", "PROGRAM", "Shipped", "closed_port", "events",
           "process_exists", "read_all", "read_head", "wait_for"]
