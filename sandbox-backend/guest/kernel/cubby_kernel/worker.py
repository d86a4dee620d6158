# SPDX-License-Identifier: Apache-2.0
"""The process of a Python context: does one run after another and reports the results.

From the server: {"op": "begin", "cwd", "environment"} once, then {"op": "run", "code", "changed",
"variables", "quotes", "identity"}. To the server: {"result": {...}}, {"error": {...}}, {"note": text for
stderr}, and {"done": number of the next run} at the end of each run. The server interrupts a run after the
process has taken its message; the process ignores an earlier SIGINT.

After a result with "waits" the process waits for the server's {"op": "shown"}. Otherwise later output, which
takes another way, could overtake the result. A result of a thread between two runs does not wait. Neither
does the value of the last expression, after which a cell prints nothing: it is sent with the next message,
usually the end of the run.
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
        self.raises = False  # SIGINT raises KeyboardInterrupt, or calls the user's handler
        self.held = b""  # packed messages that are sent with the next one
        self.quotes = False  # the text of a string result keeps its quotes
        self.identity = None
        self.interrupts = 0  # SIGINTs that came before the code of a run
        self.lock = threading.Lock()  # the user's threads may display too
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
        """Return True in a process that the user forked."""
        return os.getpid() != self.pid

    def _send(self, *messages, result=None):
        """Send complete messages despite signals. Send nothing from a process that the user forked, which has
        the same descriptors."""
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
        """Count a SIGINT outside the code of a run. SIG_IGN would be inherited by programs that threads start."""
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
        if self._forked():  # it must not take the next runs from its parent
            streams.flush()
            os._exit(_exit_status(error))
        _restore_environment(restore)
        streams.flush()
        with self.lock:
            self.running = False
        self._send({"done": self.shell.execution_count})

    def _begin_code(self):
        """Let SIGINT raise from here on, whatever handler the last run set. Earlier in a cell only IPython's own
        code runs, which swallows an interrupt in its callbacks."""
        if self.raises:
            return
        self.raises = True
        signal.signal(signal.SIGINT, signal.default_int_handler)
        if self.interrupts:
            raise KeyboardInterrupt

    def _cell(self, code):
        """Run a cell. Return the error that ended it, or None."""
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

    # ---- results and errors of the shell
    def _show(self, bundle, is_main):
        streams.flush()
        result, notes = results.from_bundle(bundle, is_main, self.quotes)
        notes = [{"note": note} for note in notes]
        if is_main and self._is_last():
            self.held += b"".join(map(frames.pack, [*notes, {"result": result}]))
        else:
            self._send(*notes, result=result)

    def _is_last(self):
        """Return True if this value is the last that the cell shows. A user may set IPython to show all values."""
        return self.running and self.shell.ast_node_interactivity != "all" and not self._forked()

    def _fail(self, name, value, traceback):
        if self.failed:
            return  # report only the first error; later ones (a figure that cannot be drawn) follow from it
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
    """Return the exit status of a program that ends with this error."""
    if not isinstance(error, SystemExit):
        return 0 if error is None else 1
    if error.code is None or isinstance(error.code, int):
        return (error.code or 0) & 0xFF
    return 1


@contextlib.contextmanager
def _uninterrupted():
    """Delay SIGINT to the end of the block. Only the main thread is ever interrupted."""
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
    """Set `changed` permanently (None: unset) and `variables`. Return the values that `variables` replaced."""
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
