# SPDX-License-Identifier: Apache-2.0
"""A bash context: what its process is started as, and the lines it is driven by.

It is an interactive bash, since only that goes on with its next line of input after SIGINT, which is
what ends a run. Each run is followed by a line that reports its number and status over the channel; the
number makes it harmless to ask twice, which is done after an interrupt (bash may have thrown away the
line it was just reading). The code of a run is one quoted word: no code can break out of its line.
A run says when its code is read, and may be interrupted only then: bash would throw half of the text
away and take the rest for commands. A line that matters follows one that does not (":"), which is what a
late SIGINT takes. No line of ours is traced (set -x, set -v), and the code's commands do not have the channel.

Our lines use builtins whatever functions and aliases the code has made: by \\builtin, which no alias is
expanded in. A function of that very name is taken away, by a special builtin in POSIX mode, where those
come before functions. (What the code does to readonly functions, reserved words or by DEBUG is its own.)
"""
import os
import re
import shlex

CHANNEL = 250  # of bash; away from the numbers that people use
KEPT_STDERR = 251
ARGV = ["bash", "--noprofile", "--norc", "--noediting", "-i"]
SETUP = "PS1= PS2= PROMPT_COMMAND=; unset HISTFILE; set +m +H +o history"
_BUILTIN = r"\builtin"
# An interactive bash says "exit" when it exits.
QUIET_EXIT = 'exit() { builtin exit "${@:-$?}" 2>/dev/null; }'

# Twice the line after the code's says the status; it is unset when SIGINTs took both.
_STATUS = '"${__cubby_status:-130}"'
_CHECK = f"__cubby_real=; {_BUILTIN} eval __cubby_real=1"
_RESCUE = r"POSIXLY_CORRECT=1; \unset -f builtin; \unset POSIXLY_CORRECT; \builtin shopt -u inherit_errexit"
_REAL = f"{_CHECK}; [[ $__cubby_real ]] || {{ {_RESCUE}; }}"


def _off(flag, note):
    return f"case $- in *{flag}*) {_BUILTIN} set +{flag}; {note}=1;; esac"


def _on(flag, note):
    return f'"${{{note}:+{note}=; {_BUILTIN} set -{flag}; }}"'


# Between the codes of two runs set -x and set -v are off; these variables say that they were on.
_UNTRACED = f"{{ {_REAL}; {_off('x', '__cubby_trace')}; {_off('v', '__cubby_verbose')}; }} >/dev/null 2>&1"
_TRACED = _on("v", "__cubby_verbose") + _on("x", "__cubby_trace")

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


def _tell(number, word):
    return f'{_BUILTIN} printf "%d %s\\n" {number} {word} >&{CHANNEL}'


def report(number):
    return f'{_UNTRACED}\n{_tell(number, _STATUS)}\n'.encode()


def settle(number):
    """Answered when bash has taken every SIGINT that was sent before."""
    return f"{_BUILTIN} :\n{_BUILTIN} :\n{_tell(number, 'settled')}\n".encode()


def restore(variables):
    """What undoes a run's own variables; again it does nothing."""
    lines = []
    for i, name in enumerate(variables):
        old, kind = f"__cubby_{i}", f"__cubby_kind_{i}"
        again = f"{name}=${{{old}#x}}; [[ ${kind} == *x* ]] || {_BUILTIN} export -n {name}"
        lines.append(f"if [[ ${{{old}+x}} ]]; then if [[ ${old} ]]; then {again}; else {_BUILTIN} unset {name}; fi; {_BUILTIN} unset {old} {kind}; fi")
    return lines


def run(number, code, changed, variables, before=()):
    """The lines of a run. changed: exported (or unset, None) for good; variables: only for this run;
    before: those of the run before, whose lines an interrupt may have taken."""
    lines = [f"{_BUILTIN} :", _UNTRACED, *restore(before), f"{_BUILTIN} unset __cubby_status"]
    for name, value in changed.items():
        lines.append(f"{_BUILTIN} unset {name}" if value is None else f"{_BUILTIN} export {name}={shlex.quote(value)}")
    for i, (name, value) in enumerate(variables.items()):
        saved = f"__cubby_{i}=${{{name}+x}}${{{name}-}}; __cubby_kind_{i}=${{{name}+${{{name}@a}}}}"
        lines.append(f"{saved}; {_BUILTIN} export {name}={shlex.quote(value)}")
    # Said in the code's own line, which is read before the code can turn set -v on; and again, as an
    # error or SIGINT makes bash forget the rest of that line.
    told = f"{{ __cubby_status=${{__cubby_status-$?}}; }} 2>/dev/null; {_UNTRACED}"
    lines.append(f"{_tell(number, 'started')}; {_BUILTIN} eval {_TRACED}{shlex.quote(code)} </dev/null {CHANNEL}>&-; {told}")
    lines.append(told)
    text = "\n".join(lines + restore(variables)) + "\n"
    return text.encode(errors="surrogatepass") + report(number)
