# SPDX-License-Identifier: Apache-2.0
"""A Python context's process: takes one run after the other and says what came of it.

From the server: {"op": "begin", "cwd", "environment"} once, then {"op": "run", "code", "changed",
"variables", "quotes", "identity"}. To the server: {"result": {...}}, {"error": {...}}, {"note": text for
stderr}, and {"done": number of the next run} at the end of each run. The server interrupts a run when its
message is taken; each SIGINT that came before that is forgotten.

A result that says "waits" is followed by a wait for the server's {"op": "shown"}: what is printed after it
would otherwise overtake it, since output goes another way. A thread's between two runs does not wait. Nor
does the last expression's value, after which a cell prints nothing: it goes with the next message, which
mostly is the run's end.
"""
import contextlib
import os
import signal
import sys
import threading

from . import frames, limits, results, seeds, streams


class Worker:
    def __init__(self, channel, shell):
        self.channel = channel
        self.shell = shell
        self.failed = False
        self.running = False
        self.raises = False  # SIGINT does, or does what the user made of it
        self.held = b""  # messages, packed, that go with the next one
        self.quotes = False  # the run wants those of strings
        self.identity = None
        self.interrupts = 0  # that came while a run was not in its code yet
        self.lock = threading.Lock()  # the user's threads may display, too
        self.pid = os.getpid()

    def serve(self):
        signal.signal(signal.SIGINT, self._on_early_sigint)
        streams.install()
        self.shell.begin = self._begin_code
        self.shell.show = self._show
        self.shell.fail = self._fail
        while True:
            message = self.channel.receive(self._forget_interrupts)
            if message is None:
                return 0
            if message["op"] == "begin":
                self._begin(message)
            elif message["op"] == "run":
                self._run(message)

    def _forked(self):
        """Whether this is a process that the user forked."""
        return os.getpid() != self.pid

    def _send(self, *messages, result=None):
        """Whole messages, whatever signal comes; and nothing from a process that the user forked, which
        has our descriptors, too."""
        if self._forked():
            return
        with _uninterrupted() if self.raises else contextlib.nullcontext(), self.lock:
            waits = result is not None and self.running
            if result is not None:
                messages = (*messages, {"result": result, "waits": waits})
            self.channel.send_packed(self.held + b"".join(map(frames.pack, messages)))
            self.held = b""
            if waits:
                self.channel.receive()

    # ---- begin
    def _begin(self, message):
        seeds.draw()
        os.environ.update(message["environment"])
        os.chdir(message["cwd"])
        sys.path[0] = ""
        sys.argv = [""]

    # ---- a run
    def _on_early_sigint(self, number, frame):
        """Also of the run before, just over. Not SIG_IGN, which what a thread starts would inherit."""
        self.interrupts += 1

    def _forget_interrupts(self):
        self.interrupts = 0

    def _run(self, message):
        if message["identity"] != self.identity:
            if self.identity is not None:
                seeds.draw()
            self.identity = message["identity"]
        restore = _set_environment(message["changed"], message["variables"])
        self.failed = False
        self.quotes = message["quotes"]
        self.running = True
        error = self._cell(message["code"])
        if self._forked():  # not to serve: it would take the next runs from its parent
            streams.flush()
            os._exit(_exit_status(error))
        _restore_environment(restore)
        streams.flush()
        with self.lock:
            self.running = False
        self._send({"done": self.shell.execution_count})

    def _begin_code(self):
        """SIGINT raises only from here on, whatever the last run made of it: what comes before in a cell is
        IPython's own, which swallows an interrupt in the callbacks that it calls."""
        if self.raises:
            return
        self.raises = True
        signal.signal(signal.SIGINT, signal.default_int_handler)
        if self.interrupts:
            raise KeyboardInterrupt

    def _cell(self, code):
        """The error that ended it, or None."""
        try:
            if self.interrupts:
                raise KeyboardInterrupt
            outcome = self.shell.run_cell(code, store_history=True)
            signal.signal(signal.SIGINT, self._on_early_sigint)
            self.raises = False
            error = outcome.error_before_exec or outcome.error_in_exec
        except BaseException as e:  # an interrupt in IPython's own code, between two steps
            signal.signal(signal.SIGINT, self._on_early_sigint)
            self.raises = False
            error = e
        if error is not None and not self.failed:
            self._fail(type(error).__name__, str(error), f"{type(error).__name__}: {error}")
        return error

    # ---- what the shell tells
    def _show(self, bundle, is_main):
        streams.flush()
        result, notes = results.from_bundle(bundle, is_main, self.quotes)
        notes = [{"note": note} for note in notes]
        if is_main and self._is_last():
            self.held += b"".join(map(frames.pack, [*notes, {"result": result}]))
        else:
            self._send(*notes, result=result)

    def _is_last(self):
        """Of the expressions whose values a cell shows; a user may want all of them."""
        return self.running and self.shell.ast_node_interactivity != "all" and not self._forked()

    def _fail(self, name, value, traceback):
        if self.failed:
            return  # the first error is the run's; what follows (a figure that cannot be drawn) is its echo
        self.failed = True
        streams.flush()
        if self._forked():
            if name != "SystemExit":
                print(traceback, file=sys.stderr)
            return
        self._send({"error": {"name": _cut(name), "value": _cut(value), "traceback": _cut(traceback)}})


def _cut(text):
    if len(text) <= limits.ERROR_CHARACTERS_MAX:
        return text
    return f"{text[:limits.ERROR_CHARACTERS_MAX]}[{len(text) - limits.ERROR_CHARACTERS_MAX} characters are left out]"


def _exit_status(error):
    """Of a process that ends as a program does that ended so."""
    if not isinstance(error, SystemExit):
        return 0 if error is None else 1
    if error.code is None or isinstance(error.code, int):
        return (error.code or 0) & 0xFF
    return 1


@contextlib.contextmanager
def _uninterrupted():
    """Keeps SIGINT until the end. Only the main thread is ever interrupted."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came = []
    before = signal.signal(signal.SIGINT, lambda *signal_and_frame: came.append(signal_and_frame))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if came and callable(before):
        before(*came[0])


def _set_environment(changed, variables):
    """changed stays (None: unset); returns what the run's own variables replaced."""
    for name, value in changed.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    return before


def _restore_environment(before):
    for name, value in before.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
