# SPDX-License-Identifier: Apache-2.0
"""An envd of the host build (the environment names it: ENVD), and a client of its protocol."""

import base64
import getpass
import http.client
import json
import os
import pathlib
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time
import urllib.parse

ENVD = os.environ["ENVD"]
IS_ROOT = os.geteuid() == 0
ME = getpass.getuser() if not IS_ROOT else "root"
SLEEP = "/bin/sleep"  # a command that does nothing until it is ended


def wait_for(condition, seconds=30, what="the condition"):
    """Polls until the condition is true, and returns its value."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, f"{what}: not within {seconds} s"
        time.sleep(0.005)
    return value


def alive(pid):
    """Return whether a process runs; a zombie does not."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def basic(user):
    return {"Authorization": "Basic " + base64.b64encode(f"{user}:".encode()).decode()}


def b64(data):
    return base64.b64encode(data).decode()


def error(answer):
    """Status and message of a REST answer that is an error."""
    status, _, body = answer
    got = json.loads(body)
    assert got["code"] == status
    return status, got["message"]


def envelope(message, flags=0):
    payload = message if isinstance(message, bytes) else json.dumps(message).encode()
    return struct.pack(">BI", flags, len(payload)) + payload


class Stream:
    """A stream of answers: an iterator of messages; `end` is the end-of-stream's payload."""

    def __init__(self, sock):
        self.sock = sock
        self.file = sock.makefile("rb")
        self.status = int(self.file.readline().split()[1])
        self.headers = {}
        while line := self.file.readline().strip():
            name, value = line.decode().split(": ", 1)
            self.headers[name.lower()] = value
        self.buffer = b""
        self.end = None
        self.left = int(self.headers.get("content-length", -1))

    def _more(self):
        """The next bytes of the body; b"" at its end; an exception when it was cut."""
        if self.left >= 0:
            data = self.file.read1(min(self.left, 65536)) if self.left else b""
            self.left -= len(data)
            return data
        line = self.file.readline()
        if not line:
            raise ConnectionError("cut within the body")
        size = int(line, 16)
        data = self.file.read(size)
        self.file.read(2)
        return data

    def __iter__(self):
        return self

    def __next__(self):
        while True:
            if len(self.buffer) >= 5:
                flags, size = struct.unpack(">BI", self.buffer[:5])
                if len(self.buffer) >= 5 + size:
                    payload = json.loads(self.buffer[5 : 5 + size])
                    self.buffer = self.buffer[5 + size :]
                    if flags & 2:
                        self.end = payload
                        assert self.buffer == b"" and self._more() == b"", "bytes after the end"
                        raise StopIteration
                    return payload
            data = self._more()
            if not data:
                raise StopIteration
            self.buffer += data

    def event(self):
        return next(self)["event"]

    def close(self):
        self.file.close()
        self.sock.close()


class Result:
    """A command's whole stream."""

    def __init__(self, stream):
        self.events = [m["event"] for m in stream]
        self.end_stream = stream.end
        data = [e["data"] for e in self.events if "data" in e]
        self.stdout = b"".join(base64.b64decode(d["stdout"]) for d in data if "stdout" in d)
        self.stderr = b"".join(base64.b64decode(d["stderr"]) for d in data if "stderr" in d)
        self.pid = next((e["start"]["pid"] for e in self.events if "start" in e), None)
        self.end = next((e["end"] for e in self.events if "end" in e), None)
        self.code = self.end.get("exitCode", 0) if self.end else None
        self.error = (self.end_stream or {}).get("error")
        stream.close()


class Envd:
    def __init__(self, *args, state=None, wrap=()):
        """`wrap` is a command that executes the rest of its arguments."""
        self.wrap = wrap
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="envd-test-"))
        self.state = pathlib.Path(state or self.dir / "state")
        self.args = args
        self.token = None
        self.start()

    def start(self):
        self.process = subprocess.Popen(
            [*self.wrap, ENVD, "--port", "0", "--bind", "127.0.0.1", "--state-dir", self.state, *self.args],
            stdout=subprocess.PIPE, stderr=open(self.dir / "log", "ab"))
        line = self.process.stdout.readline().decode()
        assert line.startswith("ready port="), (self.dir / "log").read_text()
        ports = dict(word.split("=") for word in line.split()[1:])
        self.port = int(ports["port"])
        self.relay_port = int(ports.get("relay", 0))
        if not IS_ROOT and not (self.state / "envd.json").exists():
            assert self.init(defaultUser=ME)[0] == 204

    def stop(self):
        """Ends it cleanly; it must exit with 0 (its log has the sanitizers' findings)."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(20)
        self.process.stdout.close()
        return code

    def close(self):
        code = self.stop()
        log = (self.dir / "log").read_text()
        shutil.rmtree(self.dir, ignore_errors=True)
        assert code == 0, f"exit {code}\n{log}"

    def peak_kb(self):
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.split("VmHWM:")[1].split()[0])

    def connect(self):
        sock = socket.create_connection(("127.0.0.1", self.port), 60)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return sock

    def _headers(self, headers):
        own = {"X-Access-Token": self.token} if self.token else {}
        return {**own, **(headers or {})}

    def request(self, method, target, body=None, headers=None):
        """(status, headers, body). A body that is an iterator is sent chunked."""
        conn = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        conn.request(method, target, body, self._headers(headers))
        answer = conn.getresponse()
        data = answer.read()
        conn.close()
        return answer.status, {k.lower(): v for k, v in answer.getheaders()}, data

    def json(self, method, target, body=None, headers=None):
        status, _, data = self.request(method, target, body, headers)
        return status, json.loads(data)

    def init(self, headers=None, **fields):
        return self.request("POST", "/init", json.dumps(fields), headers)

    def rpc(self, method, message=None, headers=None, **fields):
        """A unary call: (status, answer)."""
        body = json.dumps(message if message is not None else fields)
        return self.json("POST", "/" + method, body,
                         {"Content-Type": "application/json", **(headers or {})})

    def fs(self, method, **fields):
        return self.rpc("filesystem.Filesystem/" + method, fields)

    def proc(self, method, **fields):
        return self.rpc("process.Process/" + method, fields)

    def stream(self, method, message, headers=None, service="process.Process"):
        body = message if isinstance(message, bytes) else envelope(message)
        head = {"Host": "envd", "Content-Type": "application/connect+json",
                "Content-Length": str(len(body)), **self._headers(headers)}
        lines = [f"POST /{service}/{method} HTTP/1.1", *(f"{k}: {v}" for k, v in head.items())]
        sock = self.connect()
        sock.sendall("\r\n".join(lines).encode() + b"\r\n\r\n" + body)
        return Stream(sock)

    def begin(self, cmd, *args, headers=None, request=None, **config):
        """Starts a command; returns its stream, after the start event; `pid` is set on it."""
        stream = self.stream("Start", {"process": {"cmd": cmd, "args": args, **config},
                                       "stdin": False, **(request or {})}, headers)
        stream.pid = stream.event()["start"]["pid"]
        return stream

    def run(self, cmd, *args, headers=None, request=None, **config):
        """Runs a command to its end."""
        message = {"process": {"cmd": cmd, "args": args, **config}, "stdin": False,
                   **(request or {})}
        return Result(self.stream("Start", message, headers))

    def sh(self, script, **options):
        return self.run("/bin/sh", "-c", script, **options)

    def list(self):
        return self.proc("List")[1].get("processes", [])

    def listed(self, pid):
        return any(p["pid"] == pid for p in self.list())

    @staticmethod
    def files(path=None, **query):
        if path is not None:
            query["path"] = path
        return "/files?" + urllib.parse.urlencode(query)

    def read(self, path, headers=None, **query):
        return self.request("GET", self.files(str(path), **query), None, headers)

    def write(self, path, data, headers=None, **query):
        """Uploads one file as application/octet-stream."""
        return self.request("POST", self.files(str(path), **query), data,
                            {"Content-Type": "application/octet-stream", **(headers or {})})

    def upload(self, *parts, path=None, boundary="XyZ", **query):
        """Uploads (filename, bytes) pairs as multipart/form-data."""
        body = b""
        for name, data in parts:
            body += (f'--{boundary}\r\nContent-Disposition: form-data; name="file"; '
                     f'filename="{name}"\r\nContent-Type: application/octet-stream\r\n\r\n').encode()
            body += data + b"\r\n"
        body += f"--{boundary}--\r\n".encode()
        return self.request("POST", self.files(path, **query), body,
                            {"Content-Type": f"multipart/form-data; boundary={boundary}"})
