# SPDX-License-Identifier: Apache-2.0
"""How a context of each language is spoken to: from a run to the lines of its answer.

A session belongs to one process. `drive` says the lines of a run and returns at its end; or there is
ProcessEnded.
"""
import asyncio
import contextlib
import random
import signal
import time

from . import bash, environment, figures, frames, limits


_SHOWN = frames.pack({"op": "shown"})


def _output(name, text):
    return {"type": name, "text": text, "timestamp": time.time_ns()}


class _Sending:
    """Sends while the answer is read: neither side may wait for the other with both buffers full."""

    def __init__(self, process, data):
        with contextlib.suppress(OSError):  # the process's end is told by its events
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
        self._count = 1  # the run's number, as IPython has it
        self._sending = None  # the run's code; None: there is no run
        self._trying = None  # to interrupt a run that has not begun

    async def begin(self, cwd, variables):
        await self._process.send(frames.pack({"op": "begin", "cwd": cwd, "environment": variables}))

    def interrupt(self):
        """When the process has taken the run: the process forgets each SIGINT that came before."""
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
        self._started = False  # the run's code is read
        self._run = None
        self._pressed = False  # the run was sent a SIGINT
        self._settled = False

    async def begin(self, cwd, variables):
        self._begun = (bash.begin(cwd), {n: v for n, v in variables.items() if bash.is_name(n)})

    def interrupt(self):
        """As PythonSession's."""
        if self._started:
            asyncio.ensure_future(self._press(self._count))

    async def _press(self, number):
        """As a person at a terminal: a signal between a fork and its exec is lost to both, so again. The
        line that bash was just reading may be lost to the signal: the report is asked for again."""
        with contextlib.suppress(OSError, asyncio.CancelledError):
            for _ in range(limits.BASH_PRESSES):
                if not self._started or self._count != number or self._process.status is not None:
                    return
                self._pressed = True
                self._process.signal(signal.SIGINT)
                await self._process.send(bash.report(number))
                await asyncio.sleep(limits.BASH_PRESS_SECONDS)

    def _seeded(self):
        """$RANDOM goes on where a copied machine's went on, unless it is set."""
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
        """To the end of the run: its status."""
        happened = self._process.begin_run()
        while True:
            for kind, value in happened:
                if kind != "message":
                    if not (self._pressed and (kind, value) == ("stderr", "\n")):  # bash's word on a SIGINT
                        await say(_output(kind, value))
                elif (status := self._status(value)) is not None:
                    return status
            happened = await self._process.more()

    async def _settle(self):
        """A SIGINT that came after the code's end must not be the next run's. Gives what was written
        meanwhile, which is little: a command that goes on writing is the next run's."""
        self._settled = False
        lines, size = [], 0
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limits.BASH_SETTLE_SECONDS):
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
        """The status out of this run's report, when it has come; others are of older runs."""
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
                self._started = False  # no SIGINT from here on
                return int(word)
        return None


SESSIONS = {"python": PythonSession, "bash": BashSession}
