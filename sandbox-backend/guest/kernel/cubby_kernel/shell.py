# SPDX-License-Identifier: Apache-2.0
"""IPython's shell without a terminal: results and errors go to callbacks."""
import builtins
import contextlib
import re

from IPython.core.error import UsageError
from IPython.core.formatters import BaseFormatter
from IPython.core.interactiveshell import InteractiveShell, InteractiveShellABC
from traitlets import ObjectName, Type, Unicode
from traitlets.config import Config

from . import display, loop, streams, tables


_CHAINED = "During handling of the above exception, another exception occurred:"


class _DataFormatter(BaseFormatter):
    format_type = Unicode("e2b/data")
    print_method = ObjectName("_repr_e2b_data_")
    _return_type = dict


class _ChartFormatter(BaseFormatter):
    format_type = Unicode("e2b/chart")
    print_method = ObjectName("_repr_e2b_chart_")
    _return_type = dict


# Text that may be IPython's own syntax, or that IPython strips: then IPython parses the cell.
_SPECIAL = re.compile(r"[%!?]|In \[|\A\s|^\s*(?:[,;/]|>>>|\.\.\.)", re.MULTILINE)


class KernelShell(InteractiveShell):
    displayhook_class = Type(display.Hook)
    display_pub_class = Type(display.Publisher)

    def init_display_formatter(self):
        self.display_formatter = display.Display(parent=self)
        self.configurables.append(self.display_formatter)

    def transform_cell(self, raw_cell):
        if self._transformers() != self._own_transformers or _SPECIAL.search(raw_cell):
            return super().transform_cell(raw_cell)
        cell = raw_cell if raw_cell.endswith("\n") else raw_cell + "\n"
        if len(cell.splitlines()) == 1:  # `ls`
            cell = self.prefilter_manager.prefilter_lines(cell) + "\n"
        return cell

    def _transformers(self):
        """The transformations of a cell's text; users add to them."""
        m = self.input_transformer_manager
        return [*m.cleanup_transforms, *m.line_transforms, *m.token_transformers, *self.input_transformers_post]

    def should_run_async(self, raw_cell, *, transformed_cell=None, **kwargs):
        """IPython compiles the cell to find out."""
        if transformed_cell is not None and not ("await" in transformed_cell or "async" in transformed_cell):
            return False
        return super().should_run_async(raw_cell, transformed_cell=transformed_cell, **kwargs)

    # Set by the worker: begin(), before each code object of a cell; show(bundle, is_main), fail(name, value, traceback).
    begin = staticmethod(lambda: None)
    show = staticmethod(lambda bundle, is_main: None)
    fail = staticmethod(lambda name, value, traceback: None)

    async def run_code(self, code_obj, result=None, *, async_=False):
        __tracebackhide__ = "__ipython_bottom__"
        self.begin()
        return await super().run_code(code_obj, result, async_=async_)

    def _showtraceback(self, etype, evalue, stb):
        text = stb if isinstance(stb, str) else self.InteractiveTB.stb2text(stb)
        name = etype.__name__
        if loop.interrupted and name == "CancelledError":
            # The exception that the cell got for a SIGINT while it awaited.
            name = "KeyboardInterrupt"
            text = text.split(_CHAINED)[-1].strip().removesuffix("CancelledError:") + name
        self.fail(name, _text(evalue), text)

    def show_usage_error(self, exc):
        self.fail(UsageError.__name__, _text(exc), f"UsageError: {_text(exc)}")

    def system(self, cmd):
        """!cmd and %%system: use this process's descriptors, so that output arrives while the command runs."""
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
    except Exception as e:  # a user's __str__ may raise anything
        return f"<no text: {type(e).__name__}>"


def _input(prompt="", /):
    raise EOFError("input() has nobody to ask here: write the value into the code")


def _page(shell, data, start, screen_lines):
    """Print help (`name?`) and similar texts without a pager."""
    print(data["text/plain"] if isinstance(data, dict) else data)


def _add_formatters(shell):
    for formatter_class in (_DataFormatter, _ChartFormatter):
        formatter = formatter_class(parent=shell.display_formatter)
        shell.display_formatter.formatters[formatter.format_type] = formatter
    formatters = shell.display_formatter.formatters
    shell.display_formatter.active_types = list(formatters)
    formatters["e2b/data"].for_type_by_name("pandas.core.frame", "DataFrame", tables.frame_data)


def make():
    """Return the shell, one in each process. It has no history file, which would need a thread."""
    config = Config()
    config.HistoryManager.enabled = False
    config.InteractiveShell.colors = "NoColor"
    config.InteractiveShell.banner1 = ""
    shell = KernelShell.instance(config=config)
    InteractiveShellABC.register(KernelShell)
    shell.loop_runner = loop.run
    shell._own_transformers = shell._transformers()
    # Once, not for each cell: a change of the builtins drops Python's caches of them.
    shell.builtin_trap.__enter__()
    _add_formatters(shell)
    builtins.input = _input
    with contextlib.suppress(ImportError):
        import getpass

        getpass.getpass = lambda prompt="", stream=None: _input()
    shell.set_hook("show_in_pager", _page)
    return shell
