# SPDX-License-Identifier: Apache-2.0
"""sys.stdout and sys.stderr of a Python context: line by line, as on a terminal."""
import io
import sys


class LineStream(io.TextIOWrapper):
    """A line-buffered stream, so that a line arrives whole. It also flushes after a print without a newline:
    `print(".", end="")` writes "." and then "", and the empty write marks the end.
    """

    def write(self, s):
        count = super().write(s)
        if s == "":
            self.flush()
        return count


def _stream(fd):
    raw = io.FileIO(fd, "w", closefd=False)
    buffered = io.BufferedWriter(raw)
    return LineStream(buffered, encoding="utf-8", errors="backslashreplace", line_buffering=True)


def install():
    """Replace the streams, including those that libraries and IPython already hold (sys.__stdout__)."""
    sys.stdin = open(0, encoding="utf-8", errors="replace", closefd=False)  # noqa: SIM115
    sys.stdout = sys.__stdout__ = _stream(1)
    sys.stderr = sys.__stderr__ = _stream(2)


def flush():
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (AttributeError, OSError, ValueError):
            pass  # the user has replaced or closed it
