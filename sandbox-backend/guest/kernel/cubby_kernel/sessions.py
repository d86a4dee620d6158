# SPDX-License-Identifier: Apache-2.0
"""How the server drives a context of each language: from a run to the lines of its response.

A session belongs to one process. `drive` sends the lines of a run and returns at its end, or raises
ProcessEnded.
"""
import asyncio
import contextlib
import random
import signal
import time

from . import bash, deadline, environment, figures, frames, limits


_SHOWN = frames.pack({"op": "shown"})


def _output(name, text):
    return {"type": name, "text": text, "timestamp": time.time_ns()}


class _Sending:
    """Send while the response is read, so that the two sides never wait for each other with full buffers."""

    def __init__(self, process, data):
        with contextlib.suppress(OSError):  # events report the process's end
            data = process.send_now(data)
        self._task = asyncio.ensure_future(process.send_all(data)) if data else None

    @property
    def is_over(self):
        return self._task is None or self._task.done()

    async def end(self):
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError, OSError):
                await self._task


class PythonSession:
    language = "python"

    def __init__(self, process):
        self._process = process
        self._decoder = frames.Decoder()
        self._count = 1  # IPython's number of the run
        self._sending = None  # the run's code; None: no run
        self._trying = None  # a timer for an interrupt of a run that has not begun

    async def begin(self, cwd, variables):
        await self._process.send(frames.pack({"op": "begin", "cwd": cwd, "environment": variables}))

    def interrupt(self):
        """Interrupt the run after the process has taken it: the process ignores an earlier SIGINT."""
        if self._sending is None:
            return  # `drive` will
        if self._sending.is_over and self._process.has_taken_all():
            self._process.signal(signal.SIGINT)
        elif self._trying is None:
            self._trying = asyncio.get_running_loop().call_later(limits.TAKEN_SECONDS, self._try_again)

    def _try_again(self):
        self._trying = None
        if self._sending is not None:
            self.interrupt()

    async def drive(self, run, changed, say):
        request = {
            "op": "run",
            "code": run.code,
            "changed": changed,
            "variables": run.variables,
            "quotes": run.quotes,
            "identity": environment.identity(),
        }
        self._sending = _Sending(self._process, frames.pack(request))
        try:
            if run.interrupted:
                self.interrupt()
            await say({"type": "number_of_executions", "execution_count": self._count}, True)
            await self._follow(run, say)
        finally:
            sending, self._sending = self._sending, None
            if self._trying is not None:
                self._trying.cancel()
                self._trying = None
            await sending.end()

    async def _follow(self, run, say):
        happened = self._process.begin_run()
        while True:
            for kind, value in happened:
                if kind != "message":
                    await say(_output(kind, value))
                    continue
                for message in self._decoder.feed(value):
                    if "done" in message:
                        self._count = message["done"]
                        return
                    await say(self._line(message, run))
                    if message.get("waits"):
                        await self._process.send(_SHOWN)
            happened = await self._process.more()

    @staticmethod
    def _line(message, run):
        if "error" in message:
            return {"type": "error", **message["error"]}
        if "note" in message:
            return _output("stderr", message["note"] + "\n")
        line = {"type": "result", **message["result"]}
        if run.figures_dir:
            try:
                path = figures.save(run.figures_dir, line)
            except (OSError, ValueError) as e:
                line["file_error"] = f"not saved in {run.figures_dir}: {e}"
            else:
                line |= {"file": path} if path else {}
        return line


class BashSession:
    language = "bash"

    def __init__(self, process):
        self._process = process
        self._count = 0
        self._answers = b""
        self._identity = environment.identity()
        self._started = False  # bash has read the run's code
        self._run = None
        self._pressed = False  # a SIGINT was sent to the run
        self._settled = False

    async def begin(self, cwd, variables):
        self._begun = (bash.begin(cwd), {n: v for n, v in variables.items() if bash.is_name(n)})

    def interrupt(self):
        """As in PythonSession."""
        if self._started:
            asyncio.ensure_future(self._press(self._count))

    async def _press(self, number):
        """Interrupt as a person at a terminal does: repeat the signal, since both processes miss a signal between
        fork and exec. bash may drop the line that it was reading, so request the report again."""
        with contextlib.suppress(OSError, asyncio.CancelledError):
            for _ in range(limits.BASH_PRESSES):
                if not self._started or self._count != number or self._process.status is not None:
                    return
                self._pressed = True
                self._process.signal(signal.SIGINT)
                await self._process.send(bash.report(number))
                await asyncio.sleep(limits.BASH_PRESS_SECONDS)

    def _seeded(self):
        """Set $RANDOM, which would otherwise continue as in other copies of the machine."""
        now = environment.identity()
        if now == self._identity:
            return b""
        self._identity = now
        return f"RANDOM={random.SystemRandom().randrange(32768)}\n".encode()

    async def drive(self, run, changed, say):
        first, variables = (b"", {}) if self._count else self._begun
        self._count += 1
        before = self._run.variables if self._run else ()
        self._started, self._run, self._pressed = False, run, False
        changed = {**variables, **{n: v for n, v in changed.items() if bash.is_name(n)}}
        text = first + self._seeded() + bash.run(self._count, run.code, changed, run.variables, before)
        await say({"type": "number_of_executions", "execution_count": self._count}, True)
        sending = _Sending(self._process, text)
        try:
            status = await self._follow(say)
        finally:
            await sending.end()
        if self._pressed:
            for line in await self._settle():
                await say(line)
        if status:
            await say({
                "type": "error",
                "name": "ExitStatus" if status != 130 else "KeyboardInterrupt",
                "value": str(status),
                "traceback": f"the last command ended with status {status}",
            })

    async def _follow(self, say):
        """Read to the end of the run. Return its status."""
        happened = self._process.begin_run()
        while True:
            for kind, value in happened:
                if kind != "message":
                    if not (self._pressed and (kind, value) == ("stderr", "\n")):  # bash's newline for a SIGINT
                        await say(_output(kind, value))
                elif (status := self._status(value)) is not None:
                    return status
            happened = await self._process.more()

    async def _settle(self):
        """Wait for a SIGINT that came after the end of the code, so that it does not reach the next run. Return
        the output meanwhile, which is short: later output of a command belongs to the next run."""
        self._settled = False
        lines, size = [], 0
        with contextlib.suppress(TimeoutError):
            async with deadline.limit(limits.BASH_SETTLE_SECONDS):
                await self._process.send(bash.settle(self._count))
                while not self._settled and size <= limits.BETWEEN_RUNS_BYTES_MAX:
                    for kind, value in await self._process.more():
                        if kind == "message":
                            self._status(value)
                        elif (kind, value) != ("stderr", "\n"):
                            lines.append(_output(kind, value))
                            size += len(value)
        return lines

    def _status(self, data):
        """Return the status from this run's report if it has come; other reports are of earlier runs."""
        *whole, self._answers = (self._answers + data).split(b"\n")
        self._answers = self._answers[-64:]
        for line in whole:
            number, _, word = line.partition(b" ")
            if number != b"%d" % self._count:
                continue
            if word == b"started":
                self._started = True
                if self._run.interrupted:
                    self.interrupt()
            elif word == b"settled":
                self._settled = True
            elif word.lstrip(b"-").isdigit():
                self._started = False  # no SIGINT from now on
                return int(word)
        return None


class JavaScriptSession(PythonSession):
    """Node.js speaks the messages of a Python context."""

    def interrupt(self):
        """Repeat the signal as in BashSession: Node.js misses one that comes just before the code begins."""
        super().interrupt()
        asyncio.ensure_future(self._press(self._sending))

    async def _press(self, run):
        for _ in range(limits.BASH_PRESSES):
            await asyncio.sleep(limits.BASH_PRESS_SECONDS)
            if run is None or self._sending is not run or self._process.status is not None:
                return
            super().interrupt()


SESSIONS = {
    "python": PythonSession,
    "bash": BashSession,
    "javascript": JavaScriptSession,
    "typescript": JavaScriptSession,
}
