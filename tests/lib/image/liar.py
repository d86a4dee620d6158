# SPDX-License-Identifier: Apache-2.0
"""A registry on the loopback that serves an image falsely: other bytes, fewer bytes, a silence, or another address."""
import http.server
import json
import threading

MANIFEST_TYPE = "application/vnd.oci.image.manifest.v1+json"


class Liar:
    """layout: the image (oci_image.Layout). lie: a name of LIES, for which part of the image, "manifest" or "layer"."""

    LIES = ("honest", "bytes", "short", "silence", "redirect")

    def __init__(self, layout, part="layer", lie="honest", redirect=None):
        index = json.loads((layout.path / "index.json").read_text())
        self.digest = index["manifests"][0]["digest"]
        self.blobs = layout.path / "blobs/sha256"
        manifest = json.loads(self.read(self.digest))
        self.media_type = manifest.get("mediaType", MANIFEST_TYPE)
        self.false = {"manifest": self.digest, "layer": manifest["layers"][0]["digest"]}[part]
        assert lie in self.LIES
        self.lie, self.redirect = lie, redirect
        self.silent, self.ended = threading.Event(), threading.Event()
        self.asked = []
        liar = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                liar.answer(self)

            do_HEAD = do_GET

            def log_message(self, *words):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.name = f"127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def read(self, digest):
        return (self.blobs / digest.removeprefix("sha256:")).read_bytes()

    def reference(self):
        """The image by its digest, so that a false manifest is one."""
        return f"{self.name}/team/app@{self.digest}"

    def answer(self, handler):
        self.asked.append(handler.path)
        word = handler.path.rsplit("/", 1)[-1]
        if handler.path == "/v2/":
            return self.send(handler, b"{}", "application/json")
        if not word.startswith("sha256:"):
            return handler.send_error(404)
        data = self.read(word)
        kind = self.media_type if "/manifests/" in handler.path else "application/octet-stream"
        if word != self.false or self.lie == "honest":
            return self.send(handler, data, kind)
        if self.lie == "bytes":
            return self.send(handler, data[:-1] + bytes([data[-1] ^ 1]), kind)
        if self.lie == "redirect":
            handler.send_response(307)
            handler.send_header("Location", self.redirect)
            handler.send_header("Content-Length", "0")
            return handler.end_headers()
        self.send(handler, data, kind, len(data) // 2)
        if self.lie == "silence":
            self.silent.set()
            self.ended.wait()
        handler.close_connection = True
        return None

    def send(self, handler, data, kind, most=None):
        handler.send_response(200)
        handler.send_header("Content-Type", kind)
        handler.send_header("Content-Length", str(len(data)))
        if kind == self.media_type:
            handler.send_header("Docker-Content-Digest", self.digest)
        handler.end_headers()
        if handler.command == "GET":
            handler.wfile.write(data[:most])
            handler.wfile.flush()

    def close(self):
        self.ended.set()
        self.server.shutdown()
        self.server.server_close()
