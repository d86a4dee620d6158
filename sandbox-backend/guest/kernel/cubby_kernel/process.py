# SPDX-License-Identifier: Apache-2.0
"""One context's process as the server has it: its channel, its two pipes, and that it ended.

`more` gives what happens during a run in the order in which it happened: ("stdout" | "stderr", text)
and ("message", bytes). It reads only when it is asked for the next ones, so a client that reads slowly
makes the process wait. Between runs what is written is kept, the last BETWEEN_RUNS_BYTES_MAX bytes of
each stream, and belongs to the next run: a server that a cell left running never waits for us.

The descriptors are watched once for the process's whole life, by an epoll of its own that tells of
arrivals (edges): to watch and unwatch them for each message was half of a short run's time.
"""
import array
import asyncio
import codecs
import fcntl
import os
import select
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
        self.arrived = True  # there may be bytes in it
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
        """Reads between two runs. Whether there may be more: what comes after the last of it is told."""
        data = self._read(limits.OUTPUT_READ_BYTES)
        self._kept += data
        surplus = len(self._kept) - limits.BETWEEN_RUNS_BYTES_MAX
        if surplus > 0:
            self._dropped += surplus
            del self._kept[:surplus]
        return len(data) == limits.OUTPUT_READ_BYTES

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
        self._in_run = False
        self._is_told = False  # all that it wrote before its end
        self._closed = False
        self._sending = asyncio.Lock()
        self._connected = True  # the other end of its channel is open
        self._arrivals = select.epoll()
        sock.setblocking(False)
        for fd in (sock.fileno(), out, err):
            self._arrivals.register(fd, select.EPOLLIN | select.EPOLLET)
        asyncio.get_running_loop().add_reader(self._arrivals.fileno(), self._on_arrival)

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
        asyncio.get_running_loop().remove_reader(self._arrivals.fileno())
        self._arrivals.close()
        self.sock.close()
        for pipe in self.pipes:
            os.close(pipe.fd)

    # ---- descriptors
    def _on_arrival(self):
        if self._in_run:
            self._wake.set()  # what has arrived is found out when it is read
        else:
            self._look()
            self._keep()

    def _look(self):
        """Which pipes have been written to up to now. An arrival is told once: whoever waits hears of a message's."""
        for fd, _ in self._arrivals.poll(0):
            if fd == self.sock.fileno():
                self._wake.set()
            for pipe in self.pipes:
                pipe.arrived = pipe.arrived or pipe.fd == fd

    def idle(self):
        """From now on until the next `begin_run` what is written is kept for it."""
        self._in_run = False
        self._keep()

    def _keep(self):
        if self._in_run or self._closed:
            return
        for pipe in self.pipes:
            if pipe.arrived and pipe.open:
                pipe.arrived = pipe.keep()
        if any(pipe.arrived and pipe.open for pipe in self.pipes):
            asyncio.get_running_loop().call_soon(self._keep)

    async def send(self, data):
        """To its channel. BrokenPipeError and the like when it is gone: its end is reported, too."""
        rest = self.send_now(data)
        if rest:
            await self.send_all(rest)

    def send_now(self, data):
        """As much as goes without waiting; what is left."""
        if self._sending.locked():
            return data
        try:
            return data[self.sock.send(data) :]
        except BlockingIOError:
            return data

    async def send_all(self, data):
        async with self._sending:
            await asyncio.get_running_loop().sock_sendall(self.sock, data)

    def has_taken_all(self):
        """Whether it has read all that was sent to it."""
        if self._sending.locked():
            return False
        unread = array.array("i", [0])
        fcntl.ioctl(self.sock.fileno(), termios.TIOCOUTQ, unread)
        return unread[0] == 0

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

    def _drain(self):
        """What the pipes hold at this moment: bounded, whoever goes on writing."""
        self._look()
        outputs = []
        for pipe in self.pipes:
            if pipe.arrived:
                pipe.arrived = False  # what comes after this moment is an arrival of its own
                text = pipe.text(pipe.pending()) if pipe.open else ""
                if text:
                    outputs.append((pipe.name, text))
        return outputs

    def begin_run(self):
        """What was kept since the last one."""
        self._in_run = True
        self._wake.set()
        return [(pipe.name, text) for pipe in self.pipes if (text := pipe.kept_text())]

    async def more(self):
        """What has happened since the last call, at least one thing, a message last. ProcessEnded when the
        process has ended and all it wrote was given."""
        while True:
            self._wake.clear()
            ended = self.status
            data = self._receive()
            happened = self._drain()
            if data:
                happened.append(("message", data))
            elif self._is_told:
                raise ProcessEnded(self.status)
            elif ended is not None:  # what its children go on writing is nobody's
                happened += [(pipe.name, text) for pipe in self.pipes if (text := pipe.text(0, final=True))]
                self._is_told = True
                if not happened:
                    raise ProcessEnded(ended)
            if happened:
                self._wake.set()  # there may be more
                return happened
            await self._wake.wait()
