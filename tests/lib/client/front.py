# SPDX-License-Identifier: Apache-2.0
"""A server in front of cubbyd that gives it another server's shape: HTTP/1.1 over TLS. It reads
each request whole and answers it here, or passes it to cubbyd's socket and returns the answer
unchanged.

Fronts run in a thread of the test; their sockets may be of any network namespace. Requests are kept
byte for byte for golden recordings; `wrong` collects requests that a client of that server must not
make.
"""

import asyncio
import json
import re
import socket
import ssl
import subprocess
import threading

HEAD_MAX = 65536
TOKEN_HEADERS = {"x-api-key", "x-access-token", "e2b-sandbox-id", "e2b-sandbox-port"}


class Request:
    def __init__(self, head, body, wire, where):
        lines = head.decode("latin-1").split("\r\n")
        self.method, self.target, _ = lines[0].split(" ", 2)
        self.path, _, self.query = self.target.partition("?")
        self.fields = [tuple(line.split(": ", 1)) for line in lines[1:] if line]
        self.headers = {k.lower(): v for k, v in self.fields}
        self.body = body
        self.wire = wire    # the bytes as they came
        self.where = where  # the name of the listener, and the address that was connected to
        self.host = self.headers.get("host", "").rpartition(":")[0] or self.headers.get("host", "")

    @property
    def json(self):
        return json.loads(self.body)


class Answer(Exception):
    """Raised or returned: the front's own answer."""

    def __init__(self, status, body="", kind="application/json", **headers):
        super().__init__(status)
        self.status = status
        self.body = body if isinstance(body, bytes) else (
            body if isinstance(body, str) else json.dumps(body)).encode()
        self.headers = {k.replace("_", "-"): v for k, v in headers.items()}
        if self.body:
            self.headers["Content-Type"] = kind

    def wire(self):
        lines = [f"HTTP/1.1 {self.status} X", *(f"{k}: {v}" for k, v in self.headers.items()),
                 f"Content-Length: {len(self.body)}", "Connection: close"]
        return "\r\n".join(lines).encode() + b"\r\n\r\n" + self.body


class Front:
    """listeners: {name: (socket, TLS context or None)}. Subclasses decide in `handle`."""

    def __init__(self, daemon, listeners):
        self.daemon = daemon
        self.requests = []
        self.wrong = []
        self.refusals = []  # answers that are given first, each once: (path prefix, Answer)
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()
        self.ports = {name: sock.getsockname()[1] for name, (sock, _) in listeners.items()}
        for name, (sock, tls) in listeners.items():
            self._await(self._listen(name, sock, tls))

    # ---- life
    def _run(self):
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()
        self.loop.run_until_complete(self._end())
        self.loop.close()

    async def _end(self):
        tasks = [t for t in asyncio.all_tasks() if t is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _await(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(30)

    async def _listen(self, name, sock, tls):
        async def serve(reader, writer):
            try:
                await self._serve(name, reader, writer)
            except (ConnectionError, asyncio.IncompleteReadError, ssl.SSLError):
                pass
            finally:
                writer.transport.abort()
        await asyncio.start_server(serve, sock=sock, ssl=tls, limit=HEAD_MAX)

    def close(self):
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(30)

    def port(self, name):
        return self.ports[name]

    # ---- a connection
    async def _read(self, reader, where):
        head = await reader.readuntil(b"\r\n\r\n")
        wire, body = head, b""
        fields = head.lower()
        if b"transfer-encoding: chunked" in fields:
            while True:
                line = await reader.readuntil(b"\r\n")
                data = await reader.readexactly(int(line, 16) + 2)
                wire, body = wire + line + data, body + data[:-2]
                if len(data) == 2:
                    break
        elif b"content-length:" in fields:
            length = int(fields.split(b"content-length:")[1].split(b"\r\n")[0])
            body = await reader.readexactly(length)
            wire += body
        return Request(head[:-4], body, wire, where)

    async def _serve(self, name, reader, writer):
        address = writer.get_extra_info("sockname")[0]
        request = await self._read(reader, (name, address))
        self.requests.append(request)
        try:
            for i, (prefix, answer) in enumerate(self.refusals):
                if request.path.startswith(prefix):
                    del self.refusals[i]
                    raise answer
            await self.handle(request, reader, writer)
        except Answer as answer:
            writer.write(answer.wire())
            await writer.drain()
            writer.close()
            await writer.wait_closed()

    async def handle(self, request, reader, writer):
        raise NotImplementedError

    # ---- to cubbyd
    async def _upstream(self, method, target, headers, body):
        reader, writer = await asyncio.open_unix_connection(
            str(self.daemon.home / "cubbyd.sock"), limit=1 << 20)
        lines = [f"{method} {target} HTTP/1.1", "Host: cubbyd", "Connection: close",
                 f"Content-Length: {len(body)}", *(f"{k}: {v}" for k, v in headers.items())]
        writer.write("\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body)
        return reader, writer

    async def api(self, method, target, body=None):
        """(status, headers, JSON or None) of cubbyd's control plane."""
        data = b"" if body is None else json.dumps(body).encode()
        reader, writer = await self._upstream(method, target, {"Content-Type": "application/json"}, data)
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            rest = await reader.read()
        finally:
            writer.transport.abort()
        headers = {k.lower(): v for k, v in (x.split(": ", 1) for x in head.split("\r\n")[1:] if x)}
        if headers.get("transfer-encoding") == "chunked":
            rest = unchunk(rest)
        return int(head.split()[1]), headers, json.loads(rest) if rest.strip() else None

    async def passed_on(self, request, sandbox, port, token, reader, writer, body=None, page=None, hold=0):
        """Passes a request to a port of a sandbox, and its answer back, until either side ends. `page` is
        answered in place of cubbyd's own 502. An answer is held back until `hold` bytes of it are there,
        or it has ended."""
        headers = {k: v for k, v in request.fields
                   if k.lower() not in ("host", "content-length", "transfer-encoding", "connection",
                                        *TOKEN_HEADERS)}
        headers |= {"E2b-Sandbox-Id": sandbox, "E2b-Sandbox-Port": str(port)}
        if token:
            headers["X-Access-Token"] = token
        up, to = await self._upstream(request.method, request.target, headers,
                                      request.body if body is None else body)

        async def back():
            data = await up.read(65536)
            if page and data.startswith(b"HTTP/1.1 502"):
                writer.write(page.wire())
                await writer.drain()
                return
            held = b""
            while data:
                held += data
                if len(held) > hold:
                    writer.write(held)
                    await writer.drain()
                    held = b""
                data = b"" if ended(held) else await up.read(65536)
            writer.write(held)
            await writer.drain()

        async def left():
            while await reader.read(65536):
                pass

        tasks = [asyncio.ensure_future(back()), asyncio.ensure_future(left())]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            to.transport.abort()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        if not writer.is_closing():
            writer.close()
            await writer.wait_closed()


def ended(answer):
    """Whether these bytes are a whole answer with a length or in chunks, as nginx finds it out."""
    head, _, body = answer.partition(b"\r\n\r\n")
    fields = head.lower()
    if b"transfer-encoding: chunked" in fields:
        return body.endswith(b"0\r\n\r\n")
    length = re.search(rb"content-length: (\d+)", fields)
    return bool(length) and len(body) >= int(length[1])


def unchunk(data):
    body = b""
    while data:
        size, _, data = data.partition(b"\r\n")
        length = int(size, 16)
        if length == 0:
            break
        body, data = body + data[:length], data[length + 2:]
    return body


# ---- certificates
def authority(directory, *names):
    """(the authority's file, a server's TLS context) for DNS names, "IP:..." for addresses."""
    directory.mkdir(exist_ok=True)

    def openssl(*words):
        subprocess.run(["openssl", *words], cwd=directory, check=True, capture_output=True)

    alternatives = ",".join(n if n.startswith("IP:") else f"DNS:{n}" for n in names)
    (directory / "server.ext").write_text(f"subjectAltName={alternatives}\nbasicConstraints=CA:FALSE\n")
    openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
            "-keyout", "ca.key", "-out", "ca.pem", "-days", "2", "-subj", "/CN=Test authority",
            "-addext", "keyUsage=critical,keyCertSign,cRLSign")
    openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
            "-keyout", "server.key", "-out", "server.csr", "-subj", "/CN=server")
    openssl("x509", "-req", "-in", "server.csr", "-CA", "ca.pem", "-CAkey", "ca.key",
            "-CAcreateserial", "-out", "server.pem", "-days", "2", "-extfile", "server.ext")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(directory / "server.pem", directory / "server.key")
    return directory / "ca.pem", context


def listener(address="127.0.0.1", port=0):
    """Opens a socket for a front on this host; in another namespace use Namespace.listen of netd_guest.py."""
    return socket.create_server((address, port), backlog=128)
