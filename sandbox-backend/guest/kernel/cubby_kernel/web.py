# SPDX-License-Identifier: Apache-2.0
"""HTTP/1.1 for few clients: bounded requests, responses as a whole or line by line.

A handler gets the request and the connection and calls `answer`, or `begin_lines` and `line`. When the
client goes away, the handler is cancelled at once, or what it left in `on_lost` is called: an end of its
stream counts as going away, since nothing that speaks this protocol closes one half of a connection.

Under emulation a packet costs a millisecond and a turn of the loop a third of one. So what is written goes
out at the end of a turn, an answer's last bytes at once, and what says nothing yet (its head) is held back
for a moment for what follows.
"""
import asyncio
import functools
import json
import socket
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from . import deadline, limits

REASONS = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    408: "Request Timeout",
    411: "Length Required",
    413: "Content Too Large",
    417: "Expectation Failed",
    429: "Too Many Requests",
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
    501: "Not Implemented",
    503: "Service Unavailable",
    505: "HTTP Version Not Supported",
}

# A client that keeps a connection must know for how long it is usable (the daemon's proxy does).
_KEPT = f"Keep-Alive: timeout={limits.IDLE_SECONDS}\r\n"
_line_of = json.JSONEncoder(separators=(",", ":")).encode


class WebError(Exception):
    """An error response: its status, and a sentence for the client."""

    def __init__(self, status, text, headers=()):
        super().__init__(text)
        self.status = status
        self.text = text
        self.headers = headers


@dataclass
class Request:
    method: str
    path: str  # decoded
    headers: dict  # by lower-case name; must not be changed
    version: str
    body: bytes = b""

    @property
    def keep_alive(self):
        wanted = self.headers.get("connection", "").lower()
        return "close" not in wanted and (self.version == "HTTP/1.1" or "keep-alive" in wanted)

    def json(self):
        """Return the body as an object; an empty body is an empty object."""
        try:
            value = json.loads(self.body or b"{}")
        except (ValueError, RecursionError) as e:
            raise WebError(400, f"the body is not JSON: {e}") from None
        if not isinstance(value, dict):
            raise WebError(400, "the body must be a JSON object")
        return value


@functools.lru_cache(maxsize=limits.HEADS_KEPT)
def _parse_head(head):
    """Return (method, path, headers, version), cached: a client's next request usually has the same head."""
    lines = head.decode("latin-1").split("\r\n")
    parts = lines[0].split(" ")
    if len(parts) != 3 or not parts[1].startswith("/"):
        raise WebError(400, "this is not an HTTP request")
    method, target, version = parts
    if version not in ("HTTP/1.1", "HTTP/1.0"):
        raise WebError(505, "HTTP/1.1 is spoken here")
    headers = {}
    for line in lines[1:]:
        name, colon, value = line.partition(":")
        if not colon or not name or name != name.strip():
            raise WebError(400, "a header line is not name: value")
        name = name.lower()
        if name in headers and name in ("content-length", "transfer-encoding"):
            raise WebError(400, f"{name} is there twice")
        headers[name] = value.strip()
    return method, unquote(urlsplit(target).path), headers, version


class Connection(asyncio.Protocol):
    def __init__(self, server):
        self.server = server
        self.buffer = bytearray()
        self.gone = False
        self._arrived = asyncio.Event()
        self._writable = asyncio.Event()
        self._writable.set()
        self._paused = False
        self._chunked = True
        self._unsent = bytearray()
        self._flushing = None  # the timer that will call _flush
        self._flushing_soon = False  # at the end of this turn of the loop: one packet for several lines
        self._deadline = 0.0  # of the present wait
        self._watch = None  # the timer that checks the deadline; one for many deadlines
        self.on_lost = None  # called instead of a cancellation of the handler

    # ---- callbacks of asyncio
    def connection_made(self, transport):
        self.transport = transport
        transport.set_write_buffer_limits(high=limits.WRITE_BYTES_MAX)
        # asyncio sets it only for sockets created with the protocol's number; without it lines wait 40 ms.
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if not self.server.admit(self):
            self._send_whole(503, b"too many connections", "text/plain; charset=utf-8", (), False)
            transport.close()
            return
        self.task = asyncio.get_running_loop().create_task(self._serve())

    def data_received(self, data):
        self.buffer += data
        self._arrived.set()
        if len(self.buffer) > limits.READ_BYTES_MAX and not self._paused:
            self._paused = True
            self.transport.pause_reading()

    def eof_received(self):
        self._lost()
        return False

    def connection_lost(self, exc):
        self._lost()

    def pause_writing(self):
        self._writable.clear()

    def resume_writing(self):
        self._writable.set()

    def _lost(self):
        if self.gone:
            return
        self.gone = True
        self._arrived.set()
        self._writable.set()
        self.server.dismiss(self)
        if self._watch is not None:
            self._watch.cancel()
        if self.on_lost is not None:
            self.on_lost()
        elif hasattr(self, "task"):
            self.task.cancel()

    # ---- reading
    async def _more(self, seconds):
        self._arrived.clear()
        if self._paused:
            self._paused = False
            self.transport.resume_reading()
        self._deadline = asyncio.get_running_loop().time() + seconds
        if self._watch is None or self._watch.when() > self._deadline:
            self._rewatch()
        await self._arrived.wait()
        if self.gone:
            raise ConnectionResetError
        if not self._deadline:
            raise WebError(408, "the request did not come to its end in time")
        self._deadline = 0.0

    def _rewatch(self):
        if self._watch is not None:
            self._watch.cancel()
        self._watch = asyncio.get_running_loop().call_at(self._deadline, self._on_watch)

    def _on_watch(self):
        self._watch = None
        if not self._deadline:
            return  # no wait is in progress
        if asyncio.get_running_loop().time() < self._deadline:
            self._rewatch()
        else:
            self._deadline = 0.0
            self._arrived.set()

    async def _until(self, end, limit, status, seconds):
        searched = 0
        while (at := self.buffer.find(end, searched)) < 0:
            if len(self.buffer) > limit:
                raise WebError(status, f"more than {limit} bytes where an end was expected")
            searched = max(0, len(self.buffer) - len(end) + 1)
            await self._more(seconds)
        if at > limit:
            raise WebError(status, f"more than {limit} bytes where an end was expected")
        part = bytes(self.buffer[:at])
        del self.buffer[: at + len(end)]
        return part

    async def _exactly(self, count):
        data = bytearray()
        while True:
            part = self.buffer[: count - len(data)]
            data += part
            del self.buffer[: len(part)]
            if len(data) == count:
                return data
            await self._more(limits.BODY_SECONDS)

    async def _body(self, request):
        coding = request.headers.get("transfer-encoding", "").lower()
        length = request.headers.get("content-length")
        expect = request.headers.get("expect", "").lower()
        if coding and (coding != "chunked" or length is not None):
            raise WebError(501, "of Transfer-Encoding only chunked is known here, without Content-Length")
        if length is not None and not (length.isascii() and length.isdigit() and len(length) < 16):
            raise WebError(400, "Content-Length is not a number")
        if length is not None and int(length) > limits.BODY_BYTES_MAX:
            raise WebError(413, f"a request may have {limits.BODY_BYTES_MAX} bytes")
        if expect and expect != "100-continue":
            raise WebError(417, "of Expect only 100-continue is known here")
        if expect and (coding or int(length or 0)):
            self._write(b"HTTP/1.1 100 Continue\r\n\r\n")
        return bytes(await self._chunks() if coding else await self._exactly(int(length or 0)))

    async def _chunks(self):
        body = bytearray()
        line_max = limits.CHUNK_LINE_BYTES_MAX
        while True:
            line = await self._until(b"\r\n", line_max, 400, limits.BODY_SECONDS)
            try:
                size = int(line.split(b";")[0].strip(), 16)
            except ValueError:
                raise WebError(400, "a chunk's size is not a number") from None
            if size < 0 or len(body) + size > limits.BODY_BYTES_MAX:
                raise WebError(413, f"a request may have {limits.BODY_BYTES_MAX} bytes")
            if size == 0:
                while await self._until(b"\r\n", limits.HEAD_BYTES_MAX, 431, limits.BODY_SECONDS):
                    pass  # trailers
                return body
            body += await self._exactly(size)
            if await self._exactly(2) != b"\r\n":
                raise WebError(400, "a chunk does not end where it says")

    async def _request(self):
        while self.buffer[:2] == b"\r\n":
            del self.buffer[:2]
        if not self.buffer:
            await self._more(limits.IDLE_SECONDS)
        head = await self._until(b"\r\n\r\n", limits.HEAD_BYTES_MAX, 431, limits.HEAD_SECONDS)
        return Request(*_parse_head(head))

    # ---- serving
    async def _serve(self):
        try:
            while not self.gone and await self._serve_one():
                pass
        except (asyncio.CancelledError, ConnectionError):
            pass
        finally:
            self._flush()
            self.transport.close()

    async def _serve_one(self):
        self._begun = False
        request = None
        try:
            request = await self._request()
            request.body = await self._body(request)
            self.keep_alive = request.keep_alive
            self._chunked = request.version == "HTTP/1.1"
            await self.server.handle(request, self)
            return self.keep_alive
        except WebError as e:
            if self._begun:
                return False  # a response that is cut off has failed
            # After an incomplete request, the next bytes on the connection are unknown.
            unread = e.status in (400, 408, 411, 413, 417, 431, 501, 505)
            if e.status == 408 and request is None and not self.buffer:
                return False  # an idle connection
            keep = request is not None and not unread and request.keep_alive
            self._send_whole(e.status, e.text.encode(), "text/plain; charset=utf-8", e.headers, keep)
            return keep

    # ---- answering
    def _write(self, data, hold=False):
        self._unsent += data
        if len(self._unsent) >= limits.UNSENT_BYTES_MAX:
            self._flush()
        elif self._flushing is None and hold:
            self._flushing = asyncio.get_running_loop().call_later(limits.HOLD_SECONDS, self._flush)
        elif not self._flushing_soon and not hold:
            self._unschedule()
            self._flushing, self._flushing_soon = asyncio.get_running_loop().call_soon(self._flush), True

    def _unschedule(self):
        if self._flushing is not None:
            self._flushing.cancel()
        self._flushing, self._flushing_soon = None, False

    def _flush(self):
        self._unschedule()
        data, self._unsent = self._unsent, bytearray()
        if data and not self.gone:
            self.transport.write(data)

    def _send_whole(self, status, body, content_type, headers, keep):
        self._head(status, content_type, [("Content-Length", str(len(body))), *headers], keep, body)
        self._flush()

    def _head(self, status, content_type, headers, keep, body=b"", hold=False):
        fields = [("Content-Type", content_type), *headers]
        fields.append(("Connection", "keep-alive" if keep else "close"))
        text = f"HTTP/1.1 {status} {REASONS[status]}\r\n"
        text += "".join(f"{name}: {value}\r\n" for name, value in fields)
        if keep:
            text += _KEPT
        self._write(text.encode("latin-1") + b"\r\n" + body, hold)

    def answer(self, text, content_type="text/plain; charset=utf-8", status=200, headers=()):
        self._send_whole(status, text.encode(), content_type, headers, self.keep_alive)

    def answer_json(self, value):
        self.answer(json.dumps(value), "application/json")

    def begin_lines(self):
        self._begun = True
        self.keep_alive = self.keep_alive and self._chunked
        headers = [("Transfer-Encoding", "chunked")] if self._chunked else []
        self._head(200, "application/x-ndjson", [*headers, ("Cache-Control", "no-store")], self.keep_alive,
                   hold=True)

    async def line(self, value, hold=False):
        """Send one JSON line, in ASCII, as a chunk. Wait while the client reads too slowly; raise
        ConnectionResetError if it has left. hold: the next line usually follows in a moment."""
        if self.gone:
            raise ConnectionResetError
        body = _line_of(value).encode("ascii") + b"\n"
        self._write(b"%x\r\n%s\r\n" % (len(body), body) if self._chunked else body, hold)
        if self._writable.is_set():
            return
        try:
            async with deadline.limit(limits.WRITE_SECONDS):
                await self._writable.wait()
        except TimeoutError:
            self.abort()
            raise ConnectionResetError from None

    def abort(self):
        """Drop the client and all unsent data."""
        self.transport.abort()
        self._lost()

    def end_lines(self):
        if self._chunked and not self.gone:
            self._write(b"0\r\n\r\n")
            self._flush()
