# SPDX-License-Identifier: Apache-2.0
"""Records a terminal session with a real sandbox and draws it as an SVG for the README.

    BIN=build/bin CUBBY_HOME=DIRECTORY python3 tests/bench/terminal.py docs/terminal.svg

It types each of COMMANDS into an interactive shell on a pseudo-terminal when the prompt is back,
and draws the terminal's contents. DIRECTORY has the template `default`. The daemon is stopped at
the end.
"""

import html
import os
import pathlib
import pty
import re
import select
import sys
import tempfile
import termios
import time

COLUMNS, LINE_HEIGHT, CHARACTER = 96, 19, 8.43
PROMPT = b"\x1b[32m$\x1b[0m "
WAIT_S = 120
COMMANDS = [
    "time id=$(cubby create)                              # the first one also starts the daemon",
    "cubby exec $id -- sh -c 'echo \"print(6 * 7)\" > answer.py; uname -sr; python3 answer.py'",
    "snapshot=$(cubby snapshot $id)                        # memory, processes and files",
    "cubby exec $id -- rm answer.py",
    "time cubby rollback $id $snapshot",
    "cubby exec $id -- python3 answer.py",
    "cubby network $id --allow pypi.org > /dev/null        # from now on, nothing else",
    "cubby exec $id -- curl -sS https://example.com",
    "cubby network $id | grep -A 1 refused",
    "cubby fork --count 2 $id > /dev/null && cubby ps",
]


class Shell:
    """An interactive bash on a pseudo-terminal."""

    def __init__(self, directory):
        inputrc = pathlib.Path(directory) / "inputrc"
        inputrc.write_text("set enable-bracketed-paste off\n", encoding="utf-8")
        env = {"PATH": f"{pathlib.Path(os.environ['BIN']).resolve()}:{os.environ['PATH']}", "TERM": "xterm", "LANG": "C.UTF-8",
               "CUBBY_HOME": str(pathlib.Path(os.environ["CUBBY_HOME"]).resolve()), "HOME": directory, "INPUTRC": str(inputrc),
               "PS1": r"\[\e[32m\]$\[\e[0m\] ", "TIMEFORMAT": "(%3R s)", "HISTFILE": "", "COLUMNS": str(COLUMNS)}
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            termios.tcsetwinsize(0, (24, COLUMNS * 2))  # wide: no line wraps
            os.chdir(directory)
            os.execvpe("bash", ["bash", "--norc", "--noprofile", "-i"], env)
        self.shown = b""

    def wait_for_prompt(self):
        deadline = time.monotonic() + WAIT_S
        before = len(self.shown)
        while not self.shown.endswith(PROMPT) or len(self.shown) == before:
            if not select.select([self.terminal], [], [], deadline - time.monotonic())[0]:
                sys.exit(f"no prompt within {WAIT_S} s after: {self.shown[-300:]!r}")
            self.shown += os.read(self.terminal, 65536)

    def type(self, command):
        os.write(self.terminal, command.encode() + b"\n")
        self.wait_for_prompt()


def record():
    """Return the lines that the terminal shows."""
    with tempfile.TemporaryDirectory() as directory:
        shell = Shell(directory)
        shell.wait_for_prompt()
        for command in COMMANDS:
            shell.type(command)
        shown = shell.shown
        shell.type("cubby daemon stop")
        os.write(shell.terminal, b"exit\n")
        os.waitpid(shell.pid, 0)
    text = shown.decode().removesuffix(PROMPT.decode())
    return [line.rstrip() for line in text.replace("\r", "").split("\n") if line.strip()]


def draw(lines):
    """Return the lines as an SVG. A line that starts with the prompt is a command."""
    height = (len(lines) + 2) * LINE_HEIGHT + 30
    width = round(COLUMNS * CHARACTER) + 40
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
           'font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, \'DejaVu Sans Mono\', monospace" font-size="14">',
           "<!-- Drawn by tests/bench/terminal.py from a real session. -->",
           f'<rect width="{width}" height="{height}" rx="8" fill="#0f172a"/>']
    out += [f'<circle cx="{22 + 20 * n}" cy="20" r="6" fill="{fill}"/>' for n, fill in enumerate(("#f87171", "#fbbf24", "#34d399"))]
    for number, line in enumerate(lines):
        y = 58 + number * LINE_HEIGHT
        if line.startswith(PROMPT.decode()):
            text, _, comment = re.sub("\x1b[^m]*m", "", line)[2:].partition("  # ")
            comment = f'<tspan fill="#64748b">  # {html.escape(comment)}</tspan>' if comment else ""
            line = f'<tspan fill="#34d399">$</tspan> <tspan fill="#f8fafc">{html.escape(text)}</tspan>{comment}'
        else:
            line = f'<tspan fill="#94a3b8">{html.escape(line)}</tspan>'
        out.append(f'<text x="20" y="{y}" xml:space="preserve">{line}</text>')
    return "\n".join([*out, "</svg>", ""])


def main():
    lines = record()
    print(*(re.sub("\x1b[^m]*m", "", line) for line in lines), sep="\n")
    pathlib.Path(sys.argv[1]).write_text(draw(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
