# SPDX-License-Identifier: Apache-2.0
"""A program that a user serves from a sandbox: an HTTP server that answers with the request it got,
and echoes a WebSocket's messages. Arguments: address, port. Prints "listening" once it does.
"""

import base64
import hashlib
import http.server
import json
import sys

MAGIC = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        if self.headers.get("Upgrade", "").lower() == "websocket":
            self.websocket()
            return
        self.answer({"path": self.path, "host": self.headers["Host"]})

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.answer({"path": self.path, "body": body.decode()})

    def answer(self, what):
        data = json.dumps(what).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def websocket(self):
        key = self.headers["Sec-WebSocket-Key"].encode()
        self.send_response(101)
        self.send_header("Upgrade", "websocket")
        self.send_header("Connection", "Upgrade")
        self.send_header("Sec-WebSocket-Accept", base64.b64encode(hashlib.sha1(key + MAGIC).digest()).decode())
        self.end_headers()
        self.close_connection = True
        while self.echo():
            pass

    def echo(self):
        """Returns one short frame unchanged; false after a close frame."""
        head = self.rfile.read(2)
        if len(head) < 2:
            return False
        length = head[1] & 0x7F
        mask = self.rfile.read(4)
        data = bytes(b ^ mask[i % 4] for i, b in enumerate(self.rfile.read(length)))
        self.wfile.write(bytes([head[0], length]) + data)
        return head[0] & 0x0F != 8

    def log_message(self, *words):
        pass


server = http.server.ThreadingHTTPServer((sys.argv[1], int(sys.argv[2])), Handler)
print("listening", flush=True)
server.serve_forever()
