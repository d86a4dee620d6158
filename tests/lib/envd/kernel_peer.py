# SPDX-License-Identifier: Apache-2.0
"""The kernel's server as a process of this machine, and a client for it.

It runs with Debian's Python, since what the guest has are Debian's IPython, numpy, pandas and matplotlib.
"""

import atexit
import functools
import http.client
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import tempfile

from harness import Later, wait_for

SOURCES = pathlib.Path(__file__).parents[3] / "sandbox-backend" / "guest" / "kernel"
PYTHON = os.environ.get("KERNEL_PYTHON", "/usr/bin/python3")  # another one by hand


class Lines(list):
    """The lines of one run's answer."""

    def of(self, *types):
        return [line for line in self if line["type"] in types]

    @property
    def types(self):
        return [line["type"] for line in self]

    @property
    def stdout(self):
        return "".join(line["text"] for line in self.of("stdout"))

    @property
    def stderr(self):
        return "".join(line["text"] for line in self.of("stderr"))

    @property
    def results(self):
        return self.of("result")

    @property
    def error(self):
        found = self.of("error")
        assert len(found) < 2, found
        return found[0] if found else None

    @property
    def text(self):
        """The last expression's value as text."""
        assert not self.error, self.error
        (main,) = [r for r in self.results if r["is_main_result"]]
        return main["text"]


class Stream:
    """A run that is not finished."""

    def __init__(self, kernel, body):
        self.connection = kernel.connection()
        self.connection.request("POST", "/execute", json.dumps(body),
                                {"Content-Type": "application/json"})
        self.answer = self.connection.getresponse()
        assert self.answer.status == 200, self.answer.read()
        self.lines = Lines()

    def line(self):
        raw = self.answer.readline()
        assert raw.endswith(b"\n"), f"the stream ended after {self.lines[-3:]}"
        assert raw.isascii()
        self.lines.append(json.loads(raw))
        return self.lines[-1]

    def until(self, type_, text=""):
        """Reads up to a line of that type (with that text in it)."""
        while True:
            line = self.line()
            if line["type"] == type_ and text in line.get("text", ""):
                return line

    def rest(self):
        while not self.lines or self.lines[-1]["type"] != "end_of_execution":
            self.line()
        assert self.answer.read() == b""
        self.connection.close()
        return self.lines

    def close(self):
        """Disconnects in the middle."""
        self.connection.sock.shutdown(socket.SHUT_RDWR)
        self.connection.close()


class Kernel:
    def __init__(self):
        self.run_dir = pathlib.Path(tempfile.mkdtemp(prefix="cubby-kernel-"))
        self.home = self.run_dir / "home"
        self.home.mkdir()
        self.log = open(self.run_dir / "log", "wb")
        # As in the guest, so that a run gets none of the variables of the person who runs the tests.
        env = {"HOME": str(self.home), "PATH": os.environ["PATH"], "LANG": "C.UTF-8",
               "PYTHONDONTWRITEBYTECODE": "1"}
        self.process = subprocess.Popen(
            [PYTHON, SOURCES, "--host", "127.0.0.1", "--port", "0", "--run-dir", self.run_dir,
             "--keepalive", "1", "--grace", "1"],
            stdout=subprocess.PIPE, stderr=self.log, stdin=subprocess.DEVNULL, env=env, text=True)
        said = self.process.stdout.readline()
        found = re.search(r"port (\d+)", said)
        assert found, (said, self.said())
        self.port = int(found.group(1))
        self.warm()

    def warm(self):
        """The server listens before all is imported, and the first run waits for the rest. Leaves
        no context."""
        context = self.context()
        context.run("1")
        context.delete()

    def said(self):
        return (self.run_dir / "log").read_text(errors="replace")

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(30)
        self.process.stdout.close()
        self.log.close()
        shutil.rmtree(self.run_dir, ignore_errors=True)

    # ---- talking
    def connection(self, timeout=120):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)

    def request(self, method, path, body=None, headers=None):
        """(status, headers, text)"""
        connection = self.connection()
        try:
            if body is not None and not isinstance(body, (str, bytes)):
                body = json.dumps(body)
            connection.request(method, path, body, headers or {})
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read().decode()
        finally:
            connection.close()

    def start(self, code, **fields):
        return Stream(self, {"code": code, **fields})

    def run(self, code, **fields):
        return self.start(code, **fields).rest()

    def refused(self, **body):
        status, headers, text = self.request("POST", "/execute", body)
        assert headers["Content-Type"].startswith("text/plain")
        return status, text

    def environment(self, variables):
        """Writes the environment file, as envd does."""
        part = self.run_dir / "environment.part"
        part.write_text(json.dumps(variables))
        part.rename(self.run_dir / "environment.json")

    def context(self, **fields):
        status, _, text = self.request("POST", "/contexts", fields)
        assert status == 200, text
        return Context(self, json.loads(text))

    def later(self, function):
        """Runs it in a thread; .join() returns its value."""
        return Later(function)


class Context:
    def __init__(self, kernel, facts):
        self.kernel = kernel
        self.facts = facts
        self.id = facts["id"]

    def start(self, code, **fields):
        return self.kernel.start(code, context_id=self.id, **fields)

    def run(self, code, **fields):
        return self.start(code, **fields).rest()

    def ask(self, what):
        status, _, text = self.kernel.request("POST", f"/contexts/{self.id}/{what}")
        assert (status, text) == (200, "null")

    def interrupt(self):
        self.ask("interrupt")

    def restart(self):
        self.ask("restart")

    def pid(self):
        return int(self.run("__import__('os').getpid()").text)

    def delete(self):
        status, _, text = self.kernel.request("DELETE", f"/contexts/{self.id}")
        assert (status, text) == (200, "null")


@functools.cache
def shared():
    """Return one server for all test files, because its start costs seconds."""
    kernel = Kernel()
    atexit.register(kernel.stop)
    return kernel


def started(stream):
    """Waits until its code runs."""
    stream.until("number_of_executions")
    return stream


__all__ = ["Context", "Kernel", "Later", "Lines", "Stream", "shared", "started", "wait_for"]
