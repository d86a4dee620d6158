# SPDX-License-Identifier: Apache-2.0
"""A Python context's process: takes one run after the other and says what came of it.

From the server: {"op": "begin", "cwd", "environment"} once, then {"op": "run", "code", "changed",
"variables", "identity"}. To the server: {"started": execution_count}, {"result": {...}}, {"error":
{...}}, {"note": text for stderr}, and {"done": true} at the end of each run.
"""
import os
import signal
import sys

from . import results, seeds, streams


class Worker:
    def __init__(self, channel, shell):
        self.channel = channel
        self.shell = shell
        self.failed = False
        self.identity = None

    def serve(self):
        signal.signal(signal.SIGINT, _deaf)
        streams.install()
        self.shell.show = self._show
        self.shell.fail = self._fail
        while True:
            message = self.channel.receive()
            if message is None:
                return 0
            if message["op"] == "begin":
                self._begin(message)
            else:
                self._run(message)

    # ---- begin
    def _begin(self, message):
        seeds.draw()
        os.environ.update(message["environment"])
        os.chdir(message["cwd"])
        sys.path[0] = ""
        sys.argv = [""]

    # ---- a run
    def _run(self, message):
        if message["identity"] != self.identity:
            if self.identity is not None:
                seeds.draw()
            self.identity = message["identity"]
        restore = _set_environment(message["changed"], message["variables"])
        self.failed = False
        self.channel.send({"started": self.shell.execution_count})
        try:
            self._cell(message["code"])
        finally:
            _restore_environment(restore)
        streams.flush()
        self.channel.send({"done": True})

    def _cell(self, code):
        """SIGINT is heard only in here, whatever the last run made of it."""
        try:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            outcome = self.shell.run_cell(code, store_history=True)
            signal.signal(signal.SIGINT, _deaf)
            error = outcome.error_before_exec or outcome.error_in_exec
        except BaseException as e:  # an interrupt in IPython's own code, between two steps
            signal.signal(signal.SIGINT, _deaf)
            error = e
        if error is not None and not self.failed:
            self._fail(type(error).__name__, str(error), f"{type(error).__name__}: {error}")

    # ---- what the shell tells
    def _show(self, bundle, is_main):
        streams.flush()
        result, notes = results.from_bundle(bundle, is_main)
        for note in notes:
            self.channel.send({"note": note})
        self.channel.send({"result": result})

    def _fail(self, name, value, traceback):
        if self.failed:
            return  # the first error is the run's; what follows (a figure that cannot be drawn) is its echo
        self.failed = True
        streams.flush()
        self.channel.send({"error": {"name": name, "value": value, "traceback": traceback}})


def _deaf(number, frame):
    """Not SIG_IGN, which what a thread starts between two runs would inherit."""


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
