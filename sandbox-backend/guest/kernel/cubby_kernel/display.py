# SPDX-License-Identifier: Apache-2.0
"""What IPython asks of an object that is shown, short for plain values.

The last value of most cells is a number or a string. Of those IPython asks fourteen formatters and builds a
pretty-printer; under emulation that is two thirds of a small cell's time.
"""
from IPython.core.displayhook import DisplayHook
from IPython.core.displaypub import DisplayPublisher
from IPython.core.formatters import DisplayFormatter
from IPython.lib import pretty

# What only text shows, unless the user says otherwise. Their subclasses may have methods for more.
_PLAIN = frozenset((bool, int, float, complex, str, bytes, bytearray, list, tuple, dict, set, frozenset, range))
_BY_REPR = frozenset((int, str, bytes))
_WIDE = 1 << 64  # an integer's text may be refused for its length


class Display(DisplayFormatter):
    """As IPython's; it asks one formatter instead of fourteen where the others have nothing to say."""

    _printers = ()  # of each formatter but that of plain text: how types are shown, by class and by name

    def format(self, obj, include=None, exclude=None):
        if include or exclude or type(obj) not in _PLAIN or self._is_special(type(obj)):
            return super().format(obj, include=include, exclude=exclude)
        text = self._text(obj)
        return ({} if text is None else {"text/plain": text}), {}

    def _text(self, obj):
        formatter, cls = self.formatters["text/plain"], type(obj)
        if cls in _BY_REPR and formatter.type_printers.get(cls) is pretty._repr_pprint:
            if cls is not int or -_WIDE < obj < _WIDE:
                return repr(obj)
        return formatter(obj)

    def _is_special(self, cls):
        """Whether somebody has registered how it is shown."""
        if len(self._printers) != len(self.formatters) + 1:
            self._printers = [
                (f.type_printers, f.deferred_printers)
                for name, f in (*self.formatters.items(), ("", self.ipython_display_formatter),
                                ("", self.mimebundle_formatter))
                if name != "text/plain"
            ]
        for printers, deferred in self._printers:
            if printers and any(c in printers for c in cls.__mro__):
                return True
            if deferred and any((c.__module__, c.__name__) in deferred for c in cls.__mro__):
                return True
        return False


class Hook(DisplayHook):
    """The last expression's value."""

    def quiet(self):
        """IPython takes the cell apart for a semicolon at its end."""
        parsed = self.shell.history_manager.input_hist_parsed
        return ";" in parsed[-1] and super().quiet() if parsed else False

    def write_output_prompt(self):
        pass

    def write_format_data(self, format_dict, md_dict=None):
        self.shell.show(format_dict, True)

    def finish_displayhook(self):
        self._is_active = False


class Publisher(DisplayPublisher):
    """display(), figures, and whatever else a library shows."""

    def publish(self, data, metadata=None, source=None, *, transient=None, update=False, **kwargs):
        self.shell.show(data, False)

    def clear_output(self, wait=False):
        pass  # what was sent is with the client
