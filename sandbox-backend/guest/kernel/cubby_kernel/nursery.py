# SPDX-License-Identifier: Apache-2.0
"""The server's side of the zygote: start it, request processes, learn of their ends."""
import asyncio
import contextlib
import itertools
import logging
import os
import signal
import socket
import sys

from . import deadline, frames, limits
from .process import Process

log = logging.getLogger("kernel")


class NurseryError(Exception):
    pass


class Nursery:
    """The source of processes. If the zygote ends, all contexts' processes end; the next request starts a new one."""

    def __init__(self):
        self._zygote = None  # asyncio's process
        self._sock = None
        self._reader = None
        self._starting = None
        self._pending = {}  # id -> (future of a Process, function that makes it from its pid)
        self._processes = {}  # pid -> Process
        self._ids = itertools.count(1)
        self._spare = None  # a Python process without a context
        self._preparing = None  # the task that forks it

    # ---- the zygote
    async def ready(self):
        """Wait until there is a zygote."""
        if self._sock is not None:
            return
        if self._starting is None:
            self._starting = asyncio.ensure_future(self._start())
            self._starting.add_done_callback(self._on_started)
        await asyncio.shield(self._starting)

    def _on_started(self, task):
        self._starting = None
        if not task.cancelled() and task.exception():
            log.error("the zygote does not start: %s", task.exception())

    async def _start(self):
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        code = "import sys; sys.path.insert(0, sys.argv.pop(2)); from cubby_kernel import zygote; zygote.main()"
        folder = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        with theirs:
            self._zygote = await asyncio.create_subprocess_exec(
                sys.executable, "-c", code, str(theirs.fileno()), folder,
                stdin=asyncio.subprocess.DEVNULL, pass_fds=[theirs.fileno()], start_new_session=True,
            )
        decoder = frames.Decoder()
        try:
            async with deadline.limit(limits.START_SECONDS):
                first = await self._read(ours, decoder)
        except (TimeoutError, ConnectionError):
            self._zygote.kill()
            ours.close()
            raise NurseryError("the Python kernel did not start; see the kernel's log") from None
        self._sock = ours
        self._reader = asyncio.ensure_future(self._listen(ours, decoder, first[1:]))

    @staticmethod
    async def _read(sock, decoder):
        while True:
            data = await asyncio.get_running_loop().sock_recv(sock, 65536)
            if not data:
                raise ConnectionResetError
            messages = decoder.feed(data)
            if messages:
                return messages

    async def _listen(self, sock, decoder, messages):
        try:
            while True:
                for message in messages:
                    self._hear(message)
                messages = await self._read(sock, decoder)
        except (ConnectionError, frames.FrameError) as e:
            log.error("the zygote ended: %s", e or "its connection is closed")
        finally:
            self._lose(sock)

    def _hear(self, message):
        if "forked" in message:
            self._hear_of_fork(message["forked"], message["pid"])
        elif "exited" in message:
            process = self._processes.pop(message["exited"], None)
            if process:
                process.on_exit(message["status"])

    def _hear_of_fork(self, number, pid):
        """Register the process at once, since its end may be the next message; fork's caller continues later."""
        future, make = self._pending.pop(number, (None, None))
        if future is None or future.done():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)  # no caller waits for it
            return
        self._processes[pid] = make(pid)
        future.set_result(self._processes[pid])

    def _lose(self, sock):
        sock.close()
        self._sock = None
        for future, _ in self._pending.values():
            if not future.done():
                future.set_exception(NurseryError("the process that makes contexts ended"))
        self._pending.clear()
        # The zygote's children end with it (PR_SET_PDEATHSIG).
        for process in self._processes.values():
            process.on_exit({"signal": signal.SIGKILL})
        self._processes.clear()

    # ---- processes
    def _send(self, message, fds=()):
        """Send a request, which is far smaller than the socket's buffer: if it does not fit, the zygote hangs."""
        data = frames.pack(message)
        try:
            sent = socket.send_fds(self._sock, [data], list(fds)) if fds else self._sock.send(data)
        except OSError as e:
            raise NurseryError(f"the process that makes contexts does not listen: {e}") from None
        if sent != len(data):
            raise NurseryError("the process that makes contexts does not listen")

    async def fork(self, language):
        await self.ready()
        number = next(self._ids)
        ours, theirs = socket.socketpair()
        out_read, out_write = os.pipe()
        err_read, err_write = os.pipe()
        future = asyncio.get_running_loop().create_future()
        self._pending[number] = future, lambda pid: Process(self, pid, ours, out_read, err_read)
        try:
            self._send(
                {"id": number, "language": language}, [theirs.fileno(), out_write, err_write]
            )
            async with deadline.limit(limits.FORK_SECONDS):
                return await future
        except TimeoutError:
            if not future.cancelled() and future.exception() is None:
                return future.result()  # it came at the same moment
            raise NurseryError("the process that makes contexts does not answer") from None
        finally:
            self._pending.pop(number, None)
            theirs.close()
            future.cancel()  # if it is not done
            made = not future.cancelled() and future.exception() is None
            for fd in (out_write, err_write, *(() if made else (out_read, err_read))):
                os.close(fd)
            if not made:
                ours.close()

    async def prepare(self):
        """Prepare a process for the first Python context: a fork is the largest cost in a new sandbox."""
        if self._preparing is None and (self._spare is None or self._spare.status is not None):
            self._preparing = asyncio.ensure_future(self.fork("python"))
            self._preparing.add_done_callback(self._on_prepared)
        if self._preparing is not None:
            await asyncio.wait([self._preparing])

    def _on_prepared(self, task):
        """Keep the process. After a failure the first context requests one itself, and its run reports the error."""
        self._preparing = None
        if not task.cancelled() and task.exception() is None:
            self._spare = task.result()

    async def take(self, language):
        if language == "python" and self._preparing is not None:
            await asyncio.wait([self._preparing])
        spare, self._spare = (self._spare, None) if language == "python" else (None, self._spare)
        if spare is not None and spare.status is None:
            return spare
        if spare is not None:
            spare.close()
        return await self.fork(language)

    async def close(self):
        """End the zygote, and with it all of its processes."""
        if self._zygote is not None and self._zygote.returncode is None:
            self._zygote.kill()
            await self._zygote.wait()

    def signal(self, process, number):
        """Send a signal to the process and to all that it started in its group."""
        if process.pid in self._processes:  # not reported as reaped
            try:
                os.killpg(process.pid, number)
            except ProcessLookupError:  # newly forked, it has no group yet
                if number == signal.SIGKILL:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(process.pid, number)
