# SPDX-License-Identifier: Apache-2.0
"""A bash context: what its process is started as, and the lines it is driven by.

It is an interactive bash, since only that goes on with its next line of input after SIGINT, which is
what ends a run. Each run is followed by a line that reports its number and status over the channel; the
number makes it harmless to ask twice, which is done after an interrupt (bash may have thrown away the
line it was just reading). The code of a run is one quoted word: no code can break out of its line.
A run says when its code is read, and may be interrupted only then: bash would throw half of the text
away and take the rest for commands.
"""
import os
import re
import shlex

CHANNEL = 250  # of bash; away from the numbers that people use
KEPT_STDERR = 251
ARGV = ["bash", "--noprofile", "--norc", "--noediting", "-i"]
SETUP = "PS1= PS2= PROMPT_COMMAND=; unset HISTFILE; set +m +H +o history"
# An interactive bash says "exit" when it exits.
QUIET_EXIT = 'exit() { builtin exit "${@:-$?}" 2>/dev/null; }'

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


def is_name(name):
    """Whether bash can have a variable of that name."""
    return bool(_NAME.match(name))


def become(channel):
    """Replaces this process by bash. Until the setup its stderr goes nowhere: there it says that there
    is no terminal, which is of no use to anybody."""
    os.dup2(channel, CHANNEL)
    os.dup2(channel, 0)
    os.dup2(2, KEPT_STDERR)
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 2)
    os.close(null)
    os.execvp(ARGV[0], ARGV)


def begin(cwd):
    lines = [SETUP, QUIET_EXIT, f"cd -- {shlex.quote(cwd)}", f"exec 2>&{KEPT_STDERR} {KEPT_STDERR}>&-"]
    return ("\n".join(lines) + "\n").encode()


def report(number):
    return f'printf "%d %d\\n" {number} "${{__cubby_status:-1}}" >&{CHANNEL}\n'.encode()


def run(number, code, changed, variables):
    """The lines of a run. changed: exported (or unset, None) for good; variables: only for this run."""
    lines = ["unset __cubby_status"]
    for name, value in changed.items():
        lines.append(f"unset {name}" if value is None else f"export {name}={shlex.quote(value)}")
    after = []
    for i, (name, value) in enumerate(variables.items()):
        old = f"__cubby_{i}"
        lines.append(f'{old}=${{{name}+x}}${{{name}-}}; export {name}={shlex.quote(value)}')
        after.append(f'if [ -n "${old}" ]; then {name}=${{{old}#x}}; else unset {name}; fi; unset {old}')
    started = f'printf "%d started\\n" {number} >&{CHANNEL}'
    lines.append(f"{started}; eval {shlex.quote(code)} </dev/null")
    lines.append("__cubby_status=$?")
    return ("\n".join(lines + after) + "\n").encode(errors="surrogatepass") + report(number)
