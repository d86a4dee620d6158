# SPDX-License-Identifier: Apache-2.0
"""sys.stdout and sys.stderr of a Python context: a line at a time, as on a terminal."""
import io
import sys


class LineStream(io.TextIOWrapper):
    """Line-buffered, so that a line arrives whole; and at the end of a print that ends no line.

    `print(".", end="")` writes "." and then "": the empty write is how its end is known.
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
    """Also what libraries and IPython got hold of before (sys.__stdout__)."""
    sys.stdin = open(0, encoding="utf-8", errors="replace", closefd=False)  # noqa: SIM115
    sys.stdout = sys.__stdout__ = _stream(1)
    sys.stderr = sys.__stderr__ = _stream(2)


def flush():
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (AttributeError, OSError, ValueError):
            pass  # the user replaced or closed it
