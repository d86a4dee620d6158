# SPDX-License-Identifier: Apache-2.0
"""A bash context: how its process starts, and the lines that the server sends to it.

It is an interactive bash, since only an interactive bash continues with its next line of input after the
SIGINT that ends a run. After each run, a line reports the run's number and status over the channel. Because
of the number, the server can ask twice, and does so after an interrupt: bash may have dropped the line that
it was reading. The code of a run is one quoted word, so no code can break out of its line. A run reports
when bash has read its code, and can be interrupted only then: otherwise bash would drop half of the text
and run the rest as commands. A line that matters follows a line that does not (":"), which a late SIGINT
takes. Lines of the server are never traced (set -x, set -v), and the code's commands do not get the channel.

Lines of the server use builtins by \\builtin, which expands no alias, whatever functions and aliases the
code has defined. A function of that name is removed by a special builtin in POSIX mode, where special
builtins come before functions. (Readonly functions, reserved words and DEBUG traps of the code remain.)
"""
import os
import re
import shlex

CHANNEL = 250  # in bash; far from the numbers that people use
KEPT_STDERR = 251
ARGV = ["bash", "--noprofile", "--norc", "--noediting", "-i"]
SETUP = "PS1= PS2= PROMPT_COMMAND=; unset HISTFILE; set +m +H +o history"
_BUILTIN = r"\builtin"
# An interactive bash says "exit" when it exits.
QUIET_EXIT = 'exit() { builtin exit "${@:-$?}" 2>/dev/null; }'

# The line after the code sets the status twice; it is unset if SIGINTs took both.
_STATUS = '"${__cubby_status:-130}"'
_CHECK = f"__cubby_real=; {_BUILTIN} eval __cubby_real=1"
_RESCUE = r"POSIXLY_CORRECT=1; \unset -f builtin; \unset POSIXLY_CORRECT; \builtin shopt -u inherit_errexit"
_REAL = f"{_CHECK}; [[ $__cubby_real ]] || {{ {_RESCUE}; }}"


def _off(flag, note):
    return f"case $- in *{flag}*) {_BUILTIN} set +{flag}; {note}=1;; esac"


def _on(flag, note):
    return f'"${{{note}:+{note}=; {_BUILTIN} set -{flag}; }}"'


# Between two runs set -x and set -v are off; these variables note that they were on.
_UNTRACED = f"{{ {_REAL}; {_off('x', '__cubby_trace')}; {_off('v', '__cubby_verbose')}; }} >/dev/null 2>&1"
_TRACED = _on("v", "__cubby_verbose") + _on("x", "__cubby_trace")

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


def is_name(name):
    """Return True if bash can have a variable of that name."""
    return bool(_NAME.match(name))


def become(channel):
    """Replace this process by bash. Its stderr is dropped until the setup, since bash complains there that
    it has no terminal."""
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


def _tell(number, word):
    return f'{_BUILTIN} printf "%d %s\\n" {number} {word} >&{CHANNEL}'


def report(number):
    return f'{_UNTRACED}\n{_tell(number, _STATUS)}\n'.encode()


def settle(number):
    """Return lines that bash answers when it has taken every SIGINT sent before."""
    return f"{_BUILTIN} :\n{_BUILTIN} :\n{_tell(number, 'settled')}\n".encode()


def restore(variables):
    """Return lines that undo a run's own variables; a second time they do nothing."""
    lines = []
    for i, name in enumerate(variables):
        old, kind = f"__cubby_{i}", f"__cubby_kind_{i}"
        again = f"{name}=${{{old}#x}}; [[ ${kind} == *x* ]] || {_BUILTIN} export -n {name}"
        lines.append(f"if [[ ${{{old}+x}} ]]; then if [[ ${old} ]]; then {again}; else {_BUILTIN} unset {name}; fi; {_BUILTIN} unset {old} {kind}; fi")
    return lines


def run(number, code, changed, variables, before=()):
    """Return the lines of a run. changed: variables to export (None: unset) permanently. variables: for this
    run only. before: those of the previous run, whose restoring lines an interrupt may have taken."""
    lines = [f"{_BUILTIN} :", _UNTRACED, *restore(before), f"{_BUILTIN} unset __cubby_status"]
    for name, value in changed.items():
        lines.append(f"{_BUILTIN} unset {name}" if value is None else f"{_BUILTIN} export {name}={shlex.quote(value)}")
    for i, (name, value) in enumerate(variables.items()):
        saved = f"__cubby_{i}=${{{name}+x}}${{{name}-}}; __cubby_kind_{i}=${{{name}+${{{name}@a}}}}"
        lines.append(f"{saved}; {_BUILTIN} export {name}={shlex.quote(value)}")
    # The status is set in the code's own line, which bash reads before the code can turn set -v on. It is
    # set again in the next line, since an error or SIGINT makes bash drop the rest of a line.
    told = f"{{ __cubby_status=${{__cubby_status-$?}}; }} 2>/dev/null; {_UNTRACED}"
    lines.append(f"{_tell(number, 'started')}; {_BUILTIN} eval {_TRACED}{shlex.quote(code)} </dev/null {CHANNEL}>&-; {told}")
    lines.append(told)
    text = "\n".join(lines + restore(variables)) + "\n"
    return text.encode(errors="surrogatepass") + report(number)
