# SPDX-License-Identifier: Apache-2.0
"""A context: a process with its variables, and the runs that wait for it.

If the client of a run leaves, the run is interrupted and its further output is dropped. A process that
ignores SIGINT is killed after GRACE_SECONDS. Only then does the next run begin.
"""
import asyncio
import logging
import os
import signal

from . import deadline, limits
from .frames import TooLong
from .nursery import NurseryError
from .process import ProcessEnded
from .sessions import SESSIONS
from .web import WebError

log = logging.getLogger("kernel")

_LOST = "what it had in memory is lost; the next run starts clean"


class Run:
    """A run: its code, and where its lines go. emit: a coroutine function that raises ConnectionError when
    the client has left. give_up: ends a waiting call of emit."""

    def __init__(self, code, variables, figures_dir, quotes, emit, give_up):
        self.code = code
        self.variables = variables
        self.figures_dir = figures_dir
        self.quotes = quotes  # the text of a string result keeps its quotes
        self.abandoned = False
        self.interrupted = False  # possibly before it began
        self.give_up = give_up
        self._emit = emit
        self._emitting = 0  # calls of emit that have not returned
        self._emitting_since = 0.0
        self._said_at = asyncio.get_running_loop().time()
        self._timer = None
        self._saying = None  # a task: the keepalive line

    async def say(self, line, hold=False):
        """Send a line. Return False if the client has left. hold: the line may wait a moment for the next."""
        if self.abandoned:
            return False
        self._said_at = asyncio.get_running_loop().time()
        if not self._emitting:
            self._emitting_since = self._said_at
        self._emitting += 1
        try:
            await self._emit(line, hold)
        except ConnectionError:
            return False
        finally:
            self._emitting -= 1
        return True

    def is_stuck(self):
        """Return True if the client has not read a line for GRACE_SECONDS."""
        waits = asyncio.get_running_loop().time() - self._emitting_since
        return self._emitting > 0 and waits >= limits.GRACE_SECONDS

    def keep_alive(self):
        """Until `rest`, send a keepalive after each KEEPALIVE_SECONDS without another line."""
        loop = asyncio.get_running_loop()
        self._timer = loop.call_at(self._said_at + limits.KEEPALIVE_SECONDS, self._on_timer)

    def _on_timer(self):
        clock = asyncio.get_running_loop().time
        is_saying = self._saying is not None and not self._saying.done()
        if clock() - self._said_at >= limits.KEEPALIVE_SECONDS:
            self._said_at = clock()
            if not is_saying:
                self._saying = asyncio.ensure_future(self.say({"type": "keepalive"}))
        self.keep_alive()

    def rest(self):
        self._timer.cancel()
        if self._saying is not None:
            self._saying.cancel()


class Context:
    def __init__(self, identifier, language, cwd, nursery, env):
        self.id = identifier
        self.language = language
        self.cwd = cwd
        self._nursery = nursery
        self._env = env
        self._turn = asyncio.Lock()  # first come, first served
        self._waiting = 0
        self._process = None
        self._session = None
        self._variables = {}  # the global variables that its process has
        self._run = None
        self._killed_for = None  # the reason if the server ended the process
        self._deleted = False

    def describe(self):
        return {"id": self.id, "language": self.language, "cwd": self.cwd}

    # ---- runs
    def check_room(self):
        if self._waiting >= limits.QUEUE_MAX:
            raise WebError(429, f"{self._waiting} runs wait in context {self.id}; wait for one to end")

    async def execute(self, run):
        """Do the run to its end, and send all of its lines."""
        self._waiting += 1
        run.keep_alive()
        try:
            async with self._turn:
                self._run = run
                try:
                    await self._drive(run)
                finally:
                    self._run = None
        finally:
            self._waiting -= 1
            run.rest()
        await run.say({"type": "end_of_execution"})

    async def _drive(self, run):
        self._killed_for = None
        try:
            if run.abandoned:
                return
            if self._deleted:
                await self._say_error(run, "ContextDeleted", f"context {self.id} was deleted")
                return
            changed = await self._prepare()
            if self._killed_for:  # before there was a process
                raise ProcessEnded({"signal": signal.SIGKILL})
            if run.abandoned:
                return

            async def say(line, hold=False):
                if not await run.say(line, hold) and not run.abandoned:
                    self.abandon(run)

            await self._session.drive(run, changed, say)
        except (ProcessEnded, OSError) as e:
            await self._say_end(run, e)
        except NurseryError as e:
            await self._say_error(run, "KernelNotStarted", str(e))
        except TooLong as e:
            await self._say_error(run, "KernelFailed", f"the run cannot be handed over: {e}")
        except Exception as e:  # the process sent an invalid message
            log.exception("a run of context %s", self.id)
            await self._drop_process()
            await self._say_error(run, "KernelFailed", f"the context's process was ended: {e}; {_LOST}")
        finally:
            if self._deleted:
                await self._drop_process()
            if self._process:
                self._process.idle()

    @staticmethod
    async def _say_error(run, name, text):
        await run.say({"type": "error", "name": name, "value": text, "traceback": f"{name}: {text}"})

    async def _say_end(self, run, ended):
        """Report that the process ended during the run or before it."""
        why, self._killed_for = self._killed_for, None
        name = "ContextDeleted" if self._deleted else "KernelRestarted" if why else "KernelDied"
        await self._drop_process()
        if not why and self.language == "bash" and "code" in getattr(ended, "status", {}):
            text = f"bash exited; {_LOST}"
            await run.say({"type": "error", "name": "ExitStatus", "value": str(ended.status["code"]), "traceback": text})
            return
        await self._say_error(run, name, f"the context {why}; {_LOST}" if why else f"the context's process {ended}; {_LOST}")
        await run.say({"type": "unexpected_end_of_execution"})

    # ---- the process
    async def _prepare(self):
        """Ensure a live process, and return the global variables that it does not have yet."""
        if self._process and self._process.status is not None:
            await self._drop_process()
        now = dict(self._env.variables())
        before, self._variables = self._variables, now
        if self._process is None:
            self._process = await self._nursery.take(self.language)
            self._session = SESSIONS[self.language](self._process)
            cwd = self.cwd if os.path.isdir(self.cwd) else "/"
            await self._session.begin(cwd, now)
            return {}
        changed = {name: value for name, value in now.items() if before.get(name) != value}
        return changed | {name: None for name in before if name not in now}

    async def _drop_process(self):
        process, self._process, self._session = self._process, None, None
        if process is None:
            return
        process.signal(signal.SIGKILL)
        try:
            async with deadline.limit(limits.END_SECONDS):
                await process.ended()
        except TimeoutError:
            log.error("process %d of context %s does not end", process.pid, self.id)
        process.close()

    def interrupt(self):
        """Interrupt the present run. Return False if there is none."""
        if self._run is None:
            return False
        self._run.interrupted = True
        if self._session is not None:
            self._session.interrupt()
        return True

    def abandon(self, run):
        """Interrupt a run whose client has left."""
        run.abandoned = run.interrupted = True
        if self._run is run and self._session is not None:
            self._session.interrupt()
            asyncio.get_running_loop().call_later(limits.GRACE_SECONDS, self._kill_if_running, run)

    def _kill_if_running(self, run):
        if self._run is run and self._process is not None:
            self._process.signal(signal.SIGKILL)

    async def restart(self):
        """End the process and the present run; the next run starts with a new process."""
        process, run = self._process, self._run
        if run is not None:
            self._killed_for = "was restarted" if not self._deleted else "was deleted"
            # The client gets an error; a client that does not read must not delay the next run.
            asyncio.get_running_loop().call_later(limits.GRACE_SECONDS, self._give_up_if_running, run)
        if run is None:
            await self._drop_process()
        elif process is not None:
            process.signal(signal.SIGKILL)
            async with deadline.limit(limits.END_SECONDS):
                await process.ended()

    def _give_up_if_running(self, run):
        if self._run is not run:
            return
        if run.is_stuck():
            run.give_up()
        else:
            asyncio.get_running_loop().call_later(limits.GRACE_SECONDS, self._give_up_if_running, run)

    async def delete(self):
        self._deleted = True
        await self.restart()
