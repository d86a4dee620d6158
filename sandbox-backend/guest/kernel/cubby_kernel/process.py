# SPDX-License-Identifier: Apache-2.0
"""A context's process, in the server: its channel, its two pipes, and its end.

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
    """Return {"signal": n} or {"code": n} as the end of a sentence."""
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
        self.arrived = True  # it may hold bytes
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._kept = bytearray()  # output between two runs
        self._dropped = 0
        os.set_blocking(fd, False)

    def pending(self):
        """Return the number of bytes in the pipe."""
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
        """Read between two runs. Return True if there may be more; later output causes a new event."""
        data = self._read(limits.OUTPUT_READ_BYTES)
        self._kept += data
        surplus = len(self._kept) - limits.BETWEEN_RUNS_BYTES_MAX
        if surplus > 0:
            self._dropped += surplus
            del self._kept[:surplus]
        return len(data) == limits.OUTPUT_READ_BYTES

    def kept_text(self):
        """Return the kept text once, with a note about dropped bytes."""
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
        self._is_told = False  # all output before its end has been returned
        self._closed = False
        self._sending = asyncio.Lock()
        self._connected = True  # the other end of its channel is open
        self._arrivals = select.epoll()
        sock.setblocking(False)
        for fd in (sock.fileno(), out, err):
            self._arrivals.register(fd, select.EPOLLIN | select.EPOLLET)
        asyncio.get_running_loop().add_reader(self._arrivals.fileno(), self._on_arrival)

    # ---- events
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
        self._look()  # takes the events, or the loop would report them again until `more` comes
        if self._in_run:
            self._wake.set()  # `more` reads it
        else:
            self._keep()

    def _look(self):
        """Note which pipes have new output. epoll reports an arrival once, so wake a waiting `more` for a message."""
        for fd, _ in self._arrivals.poll(0):
            if fd == self.sock.fileno():
                self._wake.set()
            for pipe in self.pipes:
                pipe.arrived = pipe.arrived or pipe.fd == fd

    def idle(self):
        """Keep the output from now on for the next `begin_run`."""
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
        """Send to the channel. Raise OSError if the process has ended, which is reported separately."""
        rest = self.send_now(data)
        if rest:
            await self.send_all(rest)

    def send_now(self, data):
        """Send as much as possible without a wait. Return the rest."""
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
        """Return True if the process has read everything that was sent."""
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
        """Return what the pipes hold at this moment, so a process that writes on cannot extend it."""
        self._look()
        outputs = []
        for pipe in self.pipes:
            if pipe.arrived:
                text = pipe.text(pipe.pending()) if pipe.open else ""
                # Only what is written into an empty pipe surely causes a new event: a writer that filled the
                # rest of the pipe meanwhile, and waits, causes none.
                pipe.arrived = pipe.open and pipe.pending() > 0
                if text:
                    outputs.append((pipe.name, text))
        return outputs

    def begin_run(self):
        """Begin a run. Return the output kept since the last run."""
        self._in_run = True
        self._wake.set()
        return [(pipe.name, text) for pipe in self.pipes if (text := pipe.kept_text())]

    async def more(self):
        """Return what has happened since the last call: at least one item, a message last. Raise ProcessEnded
        when the process has ended and all of its output has been returned."""
        while True:
            self._wake.clear()
            ended = self.status
            data = self._receive()
            happened = self._drain()
            if data:
                happened.append(("message", data))
            elif self._is_told:
                raise ProcessEnded(self.status)
            elif ended is not None:  # drop later output of its children
                happened += [(pipe.name, text) for pipe in self.pipes if (text := pipe.text(0, final=True))]
                self._is_told = True
                if not happened:
                    raise ProcessEnded(ended)
            if happened:
                self._wake.set()  # there may be more
                return happened
            if not any(pipe.arrived for pipe in self.pipes):  # else it was a part of a character
                await self._wake.wait()
