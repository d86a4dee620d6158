# SPDX-License-Identifier: Apache-2.0
"""A control plane that a test scripts, on the daemon's socket, in front of a real envd on this
host.

It is for the programs that use the client library: their requests to a daemon and their handling of
its answers, without QEMU. Commands run as the user of the test.
"""

import contextlib
import http.client
import http.server
import json
import os
import pathlib
import shutil
import signal
import socket
import socketserver
import subprocess
import tempfile
import threading

from harness import wait_for

ID = "abcdefghij0123456789"
OTHER = "abcdefzzzz0123456789"
TOKEN = "secret-token"


def listed(sandbox, **more):
    return {"sandboxID": sandbox, "templateID": "default", "alias": "default", "clientID": "cubby",
            "state": "running", "tier": "microvm", "isolation": "microvm (tcg)", "envdVersion": "0.5.7",
            "startedAt": "2026-01-01T00:00:00Z", "endAt": "2026-01-01T01:00:00Z", "cpuCount": 1,
            "memoryMB": 512, "diskSizeMB": 2048, "metadata": {}, **more}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def address_string(self):
        return "unix"

    def log_message(self, *args):
        pass

    def body(self):
        if "chunked" not in self.headers.get("Transfer-Encoding", ""):
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        data = b""
        while size := int(self.rfile.readline(), 16):
            data += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return data

    def answer(self, status, value=None):
        data = b"" if value is None else json.dumps(value).encode()
        self.send_response(status)
        if value is not None:
            self.send_header("Content-Type", "application/json")
        if status != 204:
            self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def handle_any(self):
        fake = self.server.fake
        body = self.body()
        where = "envd" if "E2b-Sandbox-Id" in self.headers else "api"
        if where == "envd" and fake.on_request:
            fake.on_request(self.path, body)
        fake.seen.append((where, self.command, self.path, dict(self.headers), body))
        if where == "api":
            status, value = fake.control(self.command, self.path, body)
            self.answer(status, value)
        elif fake.refusal:
            self.answer(502, fake.refusal)
        elif fake.files_gate and self.path.startswith("/files?"):
            fake.files_gate.wait()
            self.proxy(fake, body)
        else:
            self.proxy(fake, body)

    do_GET = do_POST = do_DELETE = handle_any

    def proxy(self, fake, body):
        envd = http.client.HTTPConnection("127.0.0.1", fake.port, timeout=60)
        envd.request(self.command, self.path, body,
                     {k: v for k, v in self.headers.items() if k != "Transfer-Encoding"})
        answer = envd.getresponse()
        self.send_response(answer.status)
        for key, value in answer.headers.items():
            if key.lower() not in ("transfer-encoding", "connection"):
                self.send_header(key, value)
        chunked = answer.getheader("Content-Length") is None and answer.status != 204
        if chunked:
            fake.streams.append(self.connection)
        if chunked:
            self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        while chunk := answer.read1(65536):
            self.wfile.write(b"%x\r\n%s\r\n" % (len(chunk), chunk) if chunked else chunk)
            self.wfile.flush()
        if chunked:
            self.wfile.write(b"0\r\n\r\n")
        envd.close()


class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request, client_address):
        pass

    def get_request(self):
        self.fake.connections += 1
        return super().get_request()


class FakeDaemon:
    """`sandboxes` are those that exist; `ended` maps the ids of others to the reason of their end."""

    def __init__(self):
        self.home = pathlib.Path(tempfile.mkdtemp(prefix="cubby-fake-"))
        self.env = dict(os.environ, CUBBY_HOME=str(self.home))
        self.sandboxes = {}
        self.ended = {}
        self.refusal = None
        self.on_request = None  # called with the path and the body of each request to envd, before it
        self.files_gate = None  # an Event that the requests for files wait for
        self.seen = []
        self.connections = 0
        self.streams = []  # connections of streams of output
        ours, theirs = os.pipe()
        self.envd = subprocess.Popen(
            [os.environ["ENVD"], "--port", "0", "--bind", "127.0.0.1", "--machine", "no",
             "--state-dir", self.home / "envd", "--ready-fd", str(theirs)], pass_fds=[theirs])
        os.close(theirs)
        with os.fdopen(ours) as ready:
            self.port = int(ready.readline().rpartition("=")[2])
        self.init()
        self.server = Server(str(self.home / "cubbyd.sock"), Handler)
        self.server.fake = self
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    def init(self, **more):
        envd = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        envd.request("POST", "/init", json.dumps({"accessToken": TOKEN, **more}))
        assert envd.getresponse().status == 204
        envd.close()

    def control(self, method, path, body):
        if path in ("/v2/sandboxes", "/sandboxes"):
            if method == "GET":
                return 200, list(self.sandboxes.values())
            self.sandboxes[ID] = listed(ID, metadata=json.loads(body).get("metadata", {}))
            return 201, {**self.sandboxes[ID], "envdAccessToken": TOKEN}
        sandbox = path.split("/")[2]
        if sandbox in self.ended:
            return 404, {"code": 404, "message": self.ended[sandbox], "error_code": "sandbox_ended"}
        if sandbox not in self.sandboxes:
            return 404, {"code": 404, "message": f'Sandbox "{sandbox}" does not exist',
                         "error_code": "sandbox_not_found"}
        if method == "DELETE":
            self.ended[sandbox] = "killed"
            del self.sandboxes[sandbox]
            return 204, None
        return 200, {**self.sandboxes[sandbox], "envdAccessToken": TOKEN}

    def processes(self):
        """The pids of the commands that envd still runs."""
        found = []
        for entry in pathlib.Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = entry.read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[1]) == self.envd.pid and fields[0] != "Z":
                found.append(int(entry.parent.name))
        return found

    def kill_envd(self):
        """Kills envd and its commands, which would otherwise live on, on this host."""
        groups = self.processes()  # each leads its own
        self.envd.kill()
        self.envd.wait()
        for group in groups:
            with contextlib.suppress(ProcessLookupError):  # it may have ended with envd's end of its pipe
                os.killpg(group, signal.SIGKILL)

    def cut_streams(self):
        """Breaks the connections of all streams. The commands run on."""
        for stream in self.streams:
            with contextlib.suppress(OSError):
                stream.shutdown(socket.SHUT_RDWR)
        self.streams.clear()

    def close(self):
        self.server.shutdown()
        self.server.server_close()
        self.envd.terminate()
        self.envd.wait(60)
        shutil.rmtree(self.home, ignore_errors=True)


__all__ = ["FakeDaemon", "ID", "OTHER", "TOKEN", "listed", "wait_for"]
