# SPDX-License-Identifier: Apache-2.0
"""Messages between the server and its processes: four bytes of length, then JSON."""
import json
import socket
import struct

from .limits import FRAME_BYTES_MAX, MIB

_LENGTH = struct.Struct(">I")
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class FrameError(Exception):
    """The peer sent an invalid frame."""


class TooLong(FrameError):
    """A message to be sent is longer than a frame may be."""


def pack(message):
    body = _encode(message).encode(errors="surrogatepass")
    if len(body) > FRAME_BYTES_MAX:
        raise TooLong(f"a message of {len(body)} bytes is longer than {FRAME_BYTES_MAX}")
    return _LENGTH.pack(len(body)) + body


class Decoder:
    """Turn bytes, in pieces of any size, into complete messages."""

    def __init__(self):
        self._bytes = bytearray()

    def feed(self, data):
        self._bytes += data
        messages = []
        while len(self._bytes) >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._bytes)
            if length > FRAME_BYTES_MAX:
                raise FrameError(f"a message of {length} bytes is longer than {FRAME_BYTES_MAX}")
            end = _LENGTH.size + length
            if len(self._bytes) < end:
                break
            try:
                messages.append(json.loads(bytes(self._bytes[_LENGTH.size : end])))
            except ValueError as e:
                raise FrameError(f"not JSON: {e}") from None
            del self._bytes[:end]
        return messages


class Channel:
    """The blocking end of a socket, in the zygote or a worker."""

    def __init__(self, sock: socket.socket):
        self.sock = sock

    def fileno(self):
        return self.sock.fileno()

    def send(self, message):
        self.send_packed(pack(message))

    def send_packed(self, data):
        self.sock.sendall(data)

    def _read(self, count):
        data = self.sock.recv(min(count, MIB))
        if len(data) == count:
            return data
        data = bytearray(data)
        if not data:
            return None
        while len(data) < count:
            part = self.sock.recv(min(count - len(data), MIB))
            if not part:
                return None
            data += part
        return bytes(data)

    def receive_with_fds(self, count):
        """Return the next message and the descriptors with it; (None, []) if the peer has closed."""
        head, fds, _, _ = socket.recv_fds(self.sock, _LENGTH.size, count)
        rest = self._read(_LENGTH.size - len(head)) if head else None
        body = self._read(_LENGTH.unpack(head + rest)[0]) if rest is not None else None
        return (json.loads(body), fds) if body is not None else (None, [])

    def receive(self, on_begun=None):
        """Return the next message, or None if the peer has closed. on_begun is called when the message has
        arrived but is unread: the sender sees only afterwards that it was taken."""
        head = self._read(_LENGTH.size)
        if head is not None and on_begun:
            on_begun()
        body = self._read(_LENGTH.unpack(head)[0]) if head is not None else None
        return json.loads(body) if body is not None else None
