# SPDX-License-Identifier: Apache-2.0
"""A Python context's process: takes one run after the other and says what came of it.

From the server: {"op": "begin", "cwd", "environment"} once, then {"op": "run", "code", "changed",
"variables", "quotes", "identity"}. To the server: {"started": execution_count}, {"result": {...}},
{"error": {...}}, {"note": text for stderr}, and {"done": true} at the end of each run.

A result is followed by a wait for the server's {"op": "shown"}: what is printed after it would otherwise
overtake it, since output goes another way.
"""
import contextlib
import os
import signal
import sys
import threading

from . import results, seeds, streams


class Worker:
    def __init__(self, channel, shell):
        self.channel = channel
        self.shell = shell
        self.failed = False
        self.running = False
        self.quotes = False  # the run wants those of strings
        self.identity = None
        self.interrupts = 0  # that came while a run was not in its cell yet
        self.lock = threading.Lock()  # the user's threads may display, too
        self.pid = os.getpid()

    def serve(self):
        signal.signal(signal.SIGINT, self._on_early_sigint)
        streams.install()
        self.shell.show = self._show
        self.shell.fail = self._fail
        while True:
            message = self.channel.receive()
            if message is None:
                return 0
            if message["op"] == "begin":
                self._begin(message)
            elif message["op"] == "run":
                self._run(message)

    def _send(self, *messages, wait=False):
        """Whole messages, whatever signal comes; and nothing from a process that the user forked, which
        has our descriptors, too."""
        if os.getpid() != self.pid:
            return
        with _uninterrupted(), self.lock:
            for message in messages:
                self.channel.send(message)
            if wait and self.running:
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

    def _run(self, message):
        self.interrupts = 0
        if message["identity"] != self.identity:
            if self.identity is not None:
                seeds.draw()
            self.identity = message["identity"]
        restore = _set_environment(message["changed"], message["variables"])
        self.failed = False
        self.quotes = message["quotes"]
        self._send({"started": self.shell.execution_count})
        self.running = True
        self._cell(message["code"])
        _restore_environment(restore)
        streams.flush()
        with self.lock:
            self.running = False
        self._send({"done": True})

    def _cell(self, code):
        """SIGINT raises only in here, whatever the last run made of it."""
        try:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            if self.interrupts:
                raise KeyboardInterrupt
            outcome = self.shell.run_cell(code, store_history=True)
            signal.signal(signal.SIGINT, self._on_early_sigint)
            error = outcome.error_before_exec or outcome.error_in_exec
        except BaseException as e:  # an interrupt in IPython's own code, between two steps
            signal.signal(signal.SIGINT, self._on_early_sigint)
            error = e
        if error is not None and not self.failed:
            self._fail(type(error).__name__, str(error), f"{type(error).__name__}: {error}")

    # ---- what the shell tells
    def _show(self, bundle, is_main):
        streams.flush()
        result, notes = results.from_bundle(bundle, is_main, self.quotes)
        self._send(*({"note": note} for note in notes), {"result": result}, wait=True)

    def _fail(self, name, value, traceback):
        if self.failed:
            return  # the first error is the run's; what follows (a figure that cannot be drawn) is its echo
        self.failed = True
        streams.flush()
        self._send({"error": {"name": name, "value": value, "traceback": traceback}})


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
