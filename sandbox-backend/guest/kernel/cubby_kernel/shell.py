# SPDX-License-Identifier: Apache-2.0
"""IPython's shell without a terminal: what it displays and what fails goes to a recorder."""
import builtins
import contextlib

from IPython.core.displayhook import DisplayHook
from IPython.core.displaypub import DisplayPublisher
from IPython.core.error import UsageError
from IPython.core.formatters import BaseFormatter, DisplayFormatter
from IPython.core.interactiveshell import InteractiveShell, InteractiveShellABC
from traitlets import ObjectName, Type, Unicode
from traitlets.config import Config

from . import loop, streams, tables


_CHAINED = "During handling of the above exception, another exception occurred:"


class _DataFormatter(BaseFormatter):
    format_type = Unicode("e2b/data")
    print_method = ObjectName("_repr_e2b_data_")
    _return_type = dict


class _ChartFormatter(BaseFormatter):
    format_type = Unicode("e2b/chart")
    print_method = ObjectName("_repr_e2b_chart_")
    _return_type = dict


# What only text shows, unless the user says otherwise. Their subclasses may have methods for more.
_PLAIN = frozenset((bool, int, float, complex, str, bytes, bytearray, list, tuple, dict, set, frozenset, range))


class _Display(DisplayFormatter):
    """As IPython's; it asks one formatter instead of fourteen where the others have nothing to say."""

    def format(self, obj, include=None, exclude=None):
        if include or exclude or type(obj) not in _PLAIN or self._is_special(type(obj)):
            return super().format(obj, include=include, exclude=exclude)
        text = self.formatters["text/plain"](obj)
        return ({} if text is None else {"text/plain": text}), {}

    def _is_special(self, cls):
        """Whether somebody has registered how it is shown."""
        others = [f for name, f in self.formatters.items() if name != "text/plain"]
        for formatter in (*others, self.ipython_display_formatter, self.mimebundle_formatter):
            printers, deferred = formatter.type_printers, formatter.deferred_printers
            if printers and any(c in printers for c in cls.__mro__):
                return True
            if deferred and any((c.__module__, c.__name__) in deferred for c in cls.__mro__):
                return True
        return False


class _Hook(DisplayHook):
    """The last expression's value."""

    def write_output_prompt(self):
        pass

    def write_format_data(self, format_dict, md_dict=None):
        self.shell.show(format_dict, True)

    def finish_displayhook(self):
        self._is_active = False


class _Publisher(DisplayPublisher):
    """display(), figures, and whatever else a library shows."""

    def publish(self, data, metadata=None, source=None, *, transient=None, update=False, **kwargs):
        self.shell.show(data, False)

    def clear_output(self, wait=False):
        pass  # what was sent is with the client


class KernelShell(InteractiveShell):
    displayhook_class = Type(_Hook)
    display_pub_class = Type(_Publisher)

    def init_display_formatter(self):
        self.display_formatter = _Display(parent=self)
        self.configurables.append(self.display_formatter)

    # Set by the worker: show(bundle, is_main), fail(name, value, traceback).
    show = staticmethod(lambda bundle, is_main: None)
    fail = staticmethod(lambda name, value, traceback: None)

    def _showtraceback(self, etype, evalue, stb):
        text = stb if isinstance(stb, str) else self.InteractiveTB.stb2text(stb)
        name = etype.__name__
        if loop.interrupted and name == "CancelledError":
            # What the cell saw of the SIGINT that came while it awaited.
            name = "KeyboardInterrupt"
            text = text.split(_CHAINED)[-1].strip().removesuffix("CancelledError:") + name
        self.fail(name, _text(evalue), text)

    def show_usage_error(self, exc):
        self.fail(UsageError.__name__, _text(exc), f"UsageError: {_text(exc)}")

    def system(self, cmd):
        """!cmd and %%system: on our own descriptors, so that it is heard while it runs."""
        streams.flush()
        self.system_raw(cmd)

    def ask_exit(self):
        raise SystemExit(0)

    def enable_gui(self, gui=None):
        if gui not in (None, "inline", "agg"):
            raise UsageError(f"there is no screen for {gui}: figures are shown as images (inline)")


def _text(exception):
    try:
        return str(exception)
    except Exception as e:  # a user's own __str__ may do anything
        return f"<no text: {type(e).__name__}>"


def _input(prompt="", /):
    raise EOFError("input() has nobody to ask here: write the value into the code")


def _page(shell, data, start, screen_lines):
    """Help (`name?`) and the like: printed whole."""
    print(data["text/plain"] if isinstance(data, dict) else data)


def _add_formatters(shell):
    for formatter_class in (_DataFormatter, _ChartFormatter):
        formatter = formatter_class(parent=shell.display_formatter)
        shell.display_formatter.formatters[formatter.format_type] = formatter
    formatters = shell.display_formatter.formatters
    shell.display_formatter.active_types = list(formatters)
    formatters["e2b/data"].for_type_by_name("pandas.core.frame", "DataFrame", tables.frame_data)


def make():
    """The shell; there is one a process. No history file: it would bring a thread."""
    config = Config()
    config.HistoryManager.enabled = False
    config.InteractiveShell.colors = "NoColor"
    config.InteractiveShell.banner1 = ""
    shell = KernelShell.instance(config=config)
    InteractiveShellABC.register(KernelShell)
    shell.loop_runner = loop.run
    _add_formatters(shell)
    builtins.input = _input
    with contextlib.suppress(ImportError):
        import getpass

        getpass.getpass = lambda prompt="", stream=None: _input()
    shell.set_hook("show_in_pager", _page)
    return shell
