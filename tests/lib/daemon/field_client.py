# SPDX-License-Identifier: Apache-2.0
"""A client of a CubeSandbox host as an engineer wrote it with the Python standard library and a
field report: it follows that text and nothing else. It uses no SDK and no library of this tree.
"""

import base64
import json
import struct
import time
import urllib.error
import urllib.parse
import urllib.request

ROOT = "Basic cm9vdDo="  # root, without a password
BOUNDARY = "----a-boundary-of-my-own"


def http(method, url, body=None, headers=None):
    """(status, body)."""
    request = urllib.request.Request(url, body, headers or {}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as e:
        return e.code, e.read()


class Guest:
    """envd of a sandbox, at a URL; `host`: the Host header to send where the URL's own is not right."""

    def __init__(self, url, host=None):
        self.url = url
        self.host = {"Host": host} if host else {}

    def call(self, method, path, body=None, headers=None, user=ROOT):
        who = {"Authorization": user} if user else {}
        return http(method, self.url + path, body, {**self.host, **who, **(headers or {})})

    def rpc(self, name, message, **options):
        """(status, the answer) of a unary call."""
        status, body = self.call("POST", f"/filesystem.Filesystem/{name}", json.dumps(message).encode(),
                                 {"Content-Type": "application/json", "Connect-Protocol-Version": "1"},
                                 **options)
        return status, json.loads(body)

    def await_ready(self, seconds=30):
        end = time.monotonic() + seconds
        while True:
            try:
                if self.rpc("Stat", {"path": "/"})[0] == 200:
                    return
            except (OSError, ValueError):
                pass  # nothing listens yet, or what answers is not envd
            assert time.monotonic() < end, f"not ready within {seconds} s"
            time.sleep(0.005)

    def read(self, path):
        status, body = self.call("GET", f"/files?path={urllib.parse.quote(path)}&username=root")
        assert status == 200, body
        return body

    def write(self, path, data):
        name = path.rpartition("/")[2]
        body = (f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n'
                "Content-Type: application/octet-stream\r\n\r\n").encode() + data + (
                    f"\r\n--{BOUNDARY}--\r\n").encode()
        status, answer = self.call("POST", f"/files?path={urllib.parse.quote(path)}&username=root", body,
                                   {"Content-Type": f"multipart/form-data; boundary={BOUNDARY}"})
        assert status == 200, answer
        return json.loads(answer)

    def run(self, command):
        """(exit code, stdout, stderr): reads the whole answer, then takes it apart."""
        message = json.dumps({"process": {"cmd": "/bin/bash", "args": ["-lc", command]}}).encode()
        status, body = self.call("POST", "/process.Process/Start", b"\0" + struct.pack(">I", len(message))
                                 + message, {"Content-Type": "application/connect+json",
                                             "Connect-Protocol-Version": "1"})
        assert status == 200, body
        out, err, code, flags = b"", b"", None, 0
        while body:
            flags, length = body[0], struct.unpack(">I", body[1:5])[0]
            envelope, body = json.loads(body[5:5 + length]), body[5 + length:]
            event = envelope.get("event", {})
            out += base64.b64decode(event.get("data", {}).get("stdout", ""))
            err += base64.b64decode(event.get("data", {}).get("stderr", ""))
            if "end" in event:
                code = int(event["end"]["status"].split()[-1])
        assert flags == 2, "the last envelope ends the stream"
        return code, out.decode(), err.decode()


class Host:
    """The services of a host: the one that makes sandboxes, and (in a cluster) the one that routes
    to them."""

    def __init__(self, api, master=None, headers=None):
        self.api = api
        self.master = master
        self.headers = {"Content-Type": "application/json", **(headers or {})}

    def create(self, **fields):
        return http("POST", self.api + "/sandboxes", json.dumps(fields).encode(), self.headers)

    def delete(self, sandbox):
        return http("DELETE", f"{self.api}/sandboxes/{sandbox}", None, self.headers)[0]

    def address(self, sandbox):
        status, body = http("GET", f"{self.master}/cube/sandbox/info?sandbox_id={sandbox}")
        assert status == 200
        return json.loads(body)["data"][0]["sandbox_ip"]
