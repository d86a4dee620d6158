# SPDX-License-Identifier: Apache-2.0
"""One context's process as the server has it: its channel, its two pipes, and that it ended.

`events` gives what happens during a run in the order in which it happened: ("stdout" | "stderr", text)
and ("message", bytes). It reads only when it is asked for the next one, so a client that reads slowly
makes the process wait. Between runs what is written is kept, the last BETWEEN_RUNS_BYTES_MAX bytes of
each stream, and belongs to the next run: a server that a cell left running never waits for us.
"""
import array
import asyncio
import codecs
import fcntl
import os
import termios

from . import limits


class ProcessEnded(Exception):
    def __init__(self, status):
        super().__init__(describe(status))
        self.status = status


def describe(status):
    """{"signal": n} or {"code": n} as the end of a sentence."""
    if "signal" in status:
        import signal

        try:
            name = signal.Signals(status["signal"]).name
        except ValueError:
            name = str(status["signal"])
        hint = " (the sandbox may be out of memory)" if name == "SIGKILL" else ""
        return f"was ended by {name}{hint}"
    return f"ended itself with status {status['code']}"


class _Pipe:
    """One stream of output: bytes in, whole characters out."""

    def __init__(self, name, fd):
        self.name = name
        self.fd = fd
        self.open = True
        self.readable = False  # it was, and was not read since
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._kept = bytearray()  # of between two runs
        self._dropped = 0
        os.set_blocking(fd, False)

    def pending(self):
        """How many bytes are in the pipe now."""
        count = array.array("i", [0])
        fcntl.ioctl(self.fd, termios.FIONREAD, count)
        return count[0]

    def _read(self, count):
        try:
            data = os.read(self.fd, count)
        except BlockingIOError:
            return b""
        if not data:
            self.open = False
        return data

    def text(self, count=limits.OUTPUT_READ_BYTES, final=False):
        return self._decoder.decode(self._read(count) if self.open and count else b"", final)

    def keep(self):
        """Reads between two runs."""
        self._kept += self._read(limits.OUTPUT_READ_BYTES)
        surplus = len(self._kept) - limits.BETWEEN_RUNS_BYTES_MAX
        if surplus > 0:
            self._dropped += surplus
            del self._kept[:surplus]

    def kept_text(self):
        """What was kept, once, with a word on what was not."""
        text = self._decoder.decode(bytes(self._kept))
        if self._dropped:
            text = f"[{self._dropped} bytes that were written between two runs are left out]\n{text}"
        self._kept.clear()
        self._dropped = 0
        return text


class Process:
    def __init__(self, nursery, pid, sock, out, err):
        self.nursery = nursery
        self.pid = pid
        self.sock = sock
        self.pipes = [_Pipe("stdout", out), _Pipe("stderr", err)]
        self.status = None
        self._wake = asyncio.Event()
        self._ended = asyncio.Event()
        self._watched = set()
        self._closed = False
        self._sending = asyncio.Lock()
        self._connected = True  # the other end of its channel is open
        sock.setblocking(False)
        self.idle()

    # ---- what happens to it
    def on_exit(self, status):
        self.status = status
        self._wake.set()
        self._ended.set()

    def signal(self, number):
        self.nursery.signal(self, number)

    async def ended(self):
        await self._ended.wait()

    def close(self):
        if self._closed:
            return
        self._closed = True
        self._unwatch()
        self.sock.close()
        for pipe in self.pipes:
            os.close(pipe.fd)

    # ---- descriptors
    def _watch(self, fd, callback, *args):
        asyncio.get_running_loop().add_reader(fd, callback, *args)
        self._watched.add(fd)

    def _unwatch(self):
        for fd in self._watched:
            asyncio.get_running_loop().remove_reader(fd)
        self._watched.clear()

    def idle(self):
        """From now on until the next `events` what is written is kept for it."""
        self._unwatch()
        for pipe in self.pipes:
            if pipe.open:
                self._watch(pipe.fd, self._keep, pipe)

    def _keep(self, pipe):
        pipe.keep()
        if not pipe.open:
            asyncio.get_running_loop().remove_reader(pipe.fd)
            self._watched.discard(pipe.fd)

    async def send(self, data):
        """To its channel. BrokenPipeError and the like when it is gone: its end is reported, too."""
        async with self._sending:
            await asyncio.get_running_loop().sock_sendall(self.sock, data)

    def _receive(self):
        if not self._connected:
            return b""
        try:
            data = self.sock.recv(limits.OUTPUT_READ_BYTES)
        except BlockingIOError:
            return b""
        except ConnectionError:
            data = b""
        self._connected = bool(data)
        return data

    def _on_output(self, pipe):
        pipe.readable = True
        self._wake.set()

    async def _readable(self):
        """Waits for output, a message or the end; the descriptors are not watched meanwhile."""
        self._wake.clear()
        if self.status is not None:
            return
        for pipe in self.pipes:
            if pipe.open:
                self._watch(pipe.fd, self._on_output, pipe)
        if self._connected:
            self._watch(self.sock.fileno(), self._wake.set)
        try:
            await self._wake.wait()
        finally:
            self._unwatch()

    def _drain(self):
        """What the pipes hold at this moment: bounded, whoever goes on writing. One that is readable and
        holds nothing is at its end, which a read tells; watched further, it would never let us wait."""
        for pipe in self.pipes:
            text = pipe.text(pipe.pending() or int(pipe.readable)) if pipe.open else ""
            pipe.readable = False
            if text:
                yield pipe.name, text

    async def events(self):
        """What happens until the process ends (ProcessEnded, after all it wrote)."""
        self._unwatch()
        for pipe in self.pipes:
            text = pipe.kept_text()
            if text:
                yield pipe.name, text
        while True:
            ended = self.status
            data = self._receive()
            for output in self._drain():
                yield output
            if data:
                yield "message", data
            elif ended is not None:
                for pipe in self.pipes:
                    text = pipe.text(0, final=True)
                    if text:
                        yield pipe.name, text
                raise ProcessEnded(ended)
            else:
                await self._readable()
