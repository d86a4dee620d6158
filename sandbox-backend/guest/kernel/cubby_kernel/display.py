# SPDX-License-Identifier: Apache-2.0
"""How IPython formats an object, with a shortcut for plain values.

The last value of most cells is a number or a string. IPython passes it to fourteen formatters and builds a
pretty-printer, which under emulation takes two thirds of a small cell's time.
"""
from IPython.core.displayhook import DisplayHook
from IPython.core.displaypub import DisplayPublisher
from IPython.core.formatters import DisplayFormatter
from IPython.lib import pretty

# Types with only a text form, unless the user registers another. Subclasses may have more forms.
_PLAIN = frozenset((bool, int, float, complex, str, bytes, bytearray, list, tuple, dict, set, frozenset, range))
_BY_REPR = frozenset((int, str, bytes))
_WIDE = 1 << 64  # Python may refuse to convert a longer integer


class Display(DisplayFormatter):
    """IPython's formatter; for plain types it uses one of the fourteen formatters, as the others have no result."""

    _printers = ()  # of each formatter but plain text: the registered printers, by class and by name

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
        """Return True if a printer is registered for the type."""
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
        """Return True if the cell ends in a semicolon. IPython parses the whole cell for that."""
        parsed = self.shell.history_manager.input_hist_parsed
        return ";" in parsed[-1] and super().quiet() if parsed else False

    def write_output_prompt(self):
        pass

    def write_format_data(self, format_dict, md_dict=None):
        self.shell.show(format_dict, True)

    def finish_displayhook(self):
        self._is_active = False


class Publisher(DisplayPublisher):
    """display(), figures, and other output of libraries."""

    def publish(self, data, metadata=None, source=None, *, transient=None, update=False, **kwargs):
        self.shell.show(data, False)

    def clear_output(self, wait=False):
        pass  # the client has the earlier output
