# SPDX-License-Identifier: Apache-2.0
"""Shared by whole-program tests: a state directory, an MCP pipe, waiting for a condition.

The programs under test are named by the environment (BIN, GUEST, TEST), so that the sanitizer tree
tests its own.
"""

import contextlib
import json
import os
import pathlib
import queue
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time

from proc import descriptors, parent

BIN = pathlib.Path(os.environ["BIN"])
TEST_HOME = pathlib.Path(os.environ.get("CUBBY_TEST_HOME", "/nonexistent"))


def wait_for(condition, seconds=30, what="the condition"):
    """Polls until the condition is true, and returns its value; fails after so many seconds."""
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"{what}: not within {seconds} s")
        time.sleep(0.005)


def process_exists(pid):
    """Return whether the process runs (a zombie does not)."""
    try:
        stat = pathlib.Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


def link_kernel_package(home):
    """Builds in this state directory find the guest kernel's package of the tests' template."""
    cache = home / "cache/apt"
    cache.mkdir(parents=True)
    for package in (TEST_HOME / "cache/apt").glob("linux-image-*.deb"):
        os.link(package, cache / package.name)


@contextlib.contextmanager
def tmpfs(where, size):
    """A file system in memory."""
    where.mkdir(parents=True, exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "none", where], check=True)
    try:
        yield where
    finally:
        subprocess.run(["umount", "-l", where], check=True)


class Home:
    """A state directory of its own, with the template that the tests share."""

    def __init__(self, tier=os.environ.get("CUBBY_TIER", "microvm")):
        self.path = pathlib.Path(tempfile.mkdtemp(prefix="cubby-test-"))
        (self.path / "templates").symlink_to(TEST_HOME / "templates")
        # Tests of microVMs test them also where another tier is better.
        self.tier = tier
        self.env = dict(os.environ, CUBBY_HOME=str(self.path), CUBBY_TIER=tier)

    def processes(self, program=None):
        """{pid: name} of the processes that have this state directory in their environment, in
        their command line or, if it is in neither (QEMU and cubby-netd), among their
        descriptors."""
        found = {}
        lines = pathlib.Path("/proc/net/unix").read_bytes().splitlines()[1:]
        sockets = {f"socket:[{f[6].decode()}]": f[7] for f in (line.split() for line in lines)
                   if len(f) > 7}
        for entry in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                words = (entry / "cmdline").read_bytes()
                known = words + (entry / "environ").read_bytes()
                if b"cubby-netd" in words or b"qemu-system" in words:
                    links = descriptors(entry.name).values()
                    known += b" ".join(sockets.get(link, os.fsencode(link)) for link in links)
            except OSError:
                continue
            name = os.path.basename(words.split(b"\0")[0]).decode()
            if str(self.path).encode() in known and process_exists(entry.name):
                if program is None or name.startswith(program):
                    found[int(entry.name)] = name
        return found

    def daemons(self):
        """The pids of its daemons: one, or none. A child has its parent's name until its execve."""
        found = self.processes("cubbyd")
        return [pid for pid in found if parent(pid) not in found]

    def daemon(self):
        """The pid of its daemon, or None."""
        return next(iter(self.daemons()), None)

    def stop_daemon(self):
        """Ends the daemon cleanly, and with it its sandboxes."""
        pid = self.daemon()
        if pid:
            os.kill(pid, signal.SIGTERM)
            wait_for(lambda: not process_exists(pid), 60, "the daemon ends after SIGTERM")

    def sandboxes(self):
        """Names in sandboxes/."""
        try:
            return sorted(os.listdir(self.path / "sandboxes"))
        except FileNotFoundError:
            return []

    def request(self, method, path, body=None, headers=None):
        """Send one request on the daemon's socket. Return (status, headers, body)."""
        payload = b"" if body is None else json.dumps(body).encode()
        lines = [f"{method} {path} HTTP/1.1", "Host: cubby", "Connection: close",
                 f"Content-Length: {len(payload)}"]
        lines += [f"{k}: {v}" for k, v in (headers or {}).items()]
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(60)
            s.connect(str(self.path / "cubbyd.sock"))
            s.sendall("\r\n".join(lines).encode() + b"\r\n\r\n" + payload)
            answer = b""
            while chunk := s.recv(65536):
                answer += chunk
        head, _, rest = answer.partition(b"\r\n\r\n")
        status, *fields = head.decode().split("\r\n")
        got = {k.lower(): v for k, v in (f.split(": ", 1) for f in fields)}
        return int(status.split()[1]), got, rest

    def api(self, method, path, body=None, want=(200, 201, 204)):
        """The answer's JSON, or None; any other status is an error."""
        status, _, answer = self.request(method, path, body)
        if status not in want:
            raise RuntimeError(f"{method} {path}: {status} {answer[:300]!r}")
        return json.loads(answer) if answer else None

    def cubby(self, *words, check=True, timeout=60, **options):
        """Runs the command-line program."""
        return subprocess.run([BIN / "cubby", *words], env=self.env, check=check, timeout=timeout,
                              capture_output=True, **options)

    def close(self):
        """Ends everything; fails when something is left behind."""
        self.stop_daemon()
        left, dirs = self.processes(), self.sandboxes()
        for pid in left:
            os.kill(pid, signal.SIGKILL)
        shutil.rmtree(self.path, ignore_errors=True)
        assert not left, f"processes left behind: {left}"
        assert not dirs, f"sandbox directories left behind: {dirs}"


def text_of(result):
    """The text of a tool's result, which may come after images and before links."""
    return [block["text"] for block in result["content"] if block["type"] == "text"][-1]


class ToolError(Exception):
    """A tool's answer with isError."""


class Mcp:
    """A cubby-mcp process on a pipe. Answers are matched by id; notifications are kept."""

    def __init__(self, home, *args, cwd=None, program=None, stderr=subprocess.DEVNULL):
        self.process = subprocess.Popen([str(program or BIN / "cubby-mcp"), *map(str, args)],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=stderr, env=home.env, cwd=cwd)
        self.next_id = 0
        self.notifications = []
        self.answers = {}
        self.lines = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.process.stdout:
            self.lines.put(line)
        self.lines.put(None)

    def send(self, message):
        data = message if isinstance(message, bytes) else json.dumps(message).encode()
        self.process.stdin.write(data + b"\n")
        self.process.stdin.flush()

    def start(self, method, params):
        """Sends a request; returns its id."""
        self.next_id += 1
        self.send({"jsonrpc": "2.0", "id": self.next_id, "method": method, "params": params})
        return self.next_id

    def answer(self, request_id, seconds=60):
        """The whole answer to a request."""
        deadline = time.monotonic() + seconds
        while request_id not in self.answers:
            try:
                line = self.lines.get(timeout=max(0.001, deadline - time.monotonic()))
            except queue.Empty:
                raise AssertionError(f"no answer to request {request_id} within {seconds} s") from None
            assert line is not None, "the server ended"
            message = json.loads(line)
            if "id" in message:
                self.answers[message["id"]] = message
            else:
                self.notifications.append(message)
        return self.answers.pop(request_id)

    def request(self, method, params, seconds=60):
        answer = self.answer(self.start(method, params), seconds)
        assert "error" not in answer, answer
        return answer["result"]

    def initialize(self, version="2025-11-25", capabilities=None):
        result = self.request("initialize", {"protocolVersion": version, "capabilities": capabilities or {},
                                             "clientInfo": {"name": "test", "version": "1"}})
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return result

    def start_tool(self, name, /, **arguments):
        return self.start("tools/call", {"name": name, "arguments": arguments})

    def tool_result(self, request_id, seconds=60):
        """structuredContent of a call that was started, or ToolError with its last text."""
        answer = self.answer(request_id, seconds)
        assert "error" not in answer, answer
        result = answer["result"]
        if result.get("isError"):
            raise ToolError(text_of(result))
        return result["structuredContent"]

    def tool(self, name, seconds=60, **arguments):
        return self.tool_result(self.start_tool(name, **arguments), seconds)

    def close(self):
        """Closes its input; returns its exit status and resource usage."""
        if self.process.returncode is None:
            self.process.stdin.close()
            _, status, usage = os.wait4(self.process.pid, 0)
            self.process.returncode = os.waitstatus_to_exitcode(status)
            return self.process.returncode, usage
        return self.process.returncode, None


class Later(threading.Thread):
    """A function that runs in a thread; .join() returns its value."""

    def __init__(self, function):
        super().__init__(daemon=True)
        self.function = function
        self.start()

    def run(self):
        self.value = self.function()

    def join(self, timeout=90):
        super().join(timeout)
        assert not self.is_alive(), "it did not come to its end"
        return self.value
