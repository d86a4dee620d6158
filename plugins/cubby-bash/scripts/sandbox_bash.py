#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the Bash commands of Claude Code and Codex in a sandbox of Cubby that has the project.

    sandbox_bash.py hook      a PreToolUse hook: replaces the command of the call by "run" below
    sandbox_bash.py run --session ID --project DIR -- COMMAND
    sandbox_bash.py end       a SessionEnd hook: ends the sandboxes of the session

A session has one sandbox for each project. The project is at the same path there as here, without
the files that git ignores. Each run first copies what changed here since the run before. What a
command changes in the sandbox stays there. If anything fails, the command does not run at all: not
in the sandbox, and not on this machine.

CUBBY names the program (default: cubby), CUBBY_BASH_TEMPLATE and CUBBY_BASH_NETWORK are the
template and the network policy of the sandbox, CUBBY_BASH_TIMEOUT the seconds that it lives
(default: 14400).
"""

import signal
import sys

# An agent that waits too long for a hook ends it and runs the command on this machine. So the hook
# ends itself much earlier. The signal keeps its default action, which also ends a process that
# waits for a file system. hooks.json makes exit status 2 of it, which blocks the command.
if sys.argv[1:2] == ["hook"]:
    signal.alarm(20)

import argparse  # noqa: E402
import fcntl  # noqa: E402
import io  # noqa: E402
import json  # noqa: E402
import os  # noqa: E402
import pathlib  # noqa: E402
import shlex  # noqa: E402
import subprocess  # noqa: E402
import tarfile  # noqa: E402

CUBBY = os.environ.get("CUBBY", "cubby")
MOST_BYTES = 500 << 20  # of a project: what is more is probably not source
FAILED = 125  # as "cubby exec" says that the failure is its own
GIT_SECONDS = 60

# Git runs here, on a tree whose configuration the agent may have written. So git starts no program
# that the configuration names, and fetches nothing.
GIT = ["git", "--no-pager", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null"]
GIT_ENVIRONMENT = {
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_TERMINAL_PROMPT": "0",
}


class Failure(Exception):
    """Why a command does not run."""


def cubby(*words, data=None):
    """Run Cubby's command-line program. Return what it printed."""
    try:
        done = subprocess.run(
            [CUBBY, *words],
            input=data,
            capture_output=True,
            stdin=subprocess.DEVNULL if data is None else None,
        )
    except OSError as e:
        raise Failure(f"{CUBBY}: {e.strerror}: install Cubby, or set CUBBY to its program") from e
    if done.returncode:
        raise Failure(done.stderr.decode(errors="replace").strip() or f"{CUBBY} {words[0]} failed")
    return done.stdout.decode()


# ---- the project
def git_tree(path):
    """The directory of the git tree around the path, or None.

    Git is not asked, because the tree's configuration can name any other directory. A tree that has
    the home directory keeps the user's settings and is not the project.
    """
    for directory in (path, *pathlib.Path(path).parents):
        if os.path.exists(os.path.join(directory, ".git")):
            return None if inside(home(), str(directory)) else str(directory)
    return None


def names_of(project):
    """The paths below the project that the sandbox gets: all, or what git does not ignore."""
    if not git_tree(project):
        return sorted(
            str(pathlib.Path(top, name).relative_to(project))
            for top, _, files in os.walk(project)
            for name in files
        )
    try:
        git = subprocess.run(
            [*GIT, "-C", project, "ls-files", "-coz", "--exclude-standard"],
            env={**os.environ, **GIT_ENVIRONMENT},
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=GIT_SECONDS,
        )
    except OSError as e:
        raise Failure(f"git: {e.strerror}: install git, which lists the project's files") from e
    except subprocess.TimeoutExpired as e:
        raise Failure(
            f"git did not list the files of {project} within {GIT_SECONDS} seconds: "
            "try 'git ls-files' there"
        ) from e
    if git.returncode:
        said = git.stderr.decode(errors="replace").strip()
        raise Failure(f"git cannot list the files of {project}: {said}")
    return sorted(os.fsdecode(name) for name in git.stdout.split(b"\0") if name)


def files_of(project):
    """{path: [size, time of the last change, mode]} of what the sandbox gets."""
    files = {}
    for name in names_of(project):
        try:
            stat = os.lstat(os.path.join(project, name))
        except (FileNotFoundError, NotADirectoryError):
            continue  # deleted, or below what is a file now, and git still lists it
        files[name] = [stat.st_size, stat.st_mtime_ns, stat.st_mode]
    total = sum(size for size, _, _ in files.values())
    if total > MOST_BYTES:
        raise Failure(
            f"{project} has {total >> 20} MiB without what git ignores, and at most "
            f"{MOST_BYTES >> 20} MiB are copied: add large files to .gitignore"
        )
    return files


def archive(project, names):
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as tar:
        for name in names:
            tar.add(os.path.join(project, name), name, recursive=False)
    return data.getvalue()


def push(sandbox, project, before, now):
    """Copy to the sandbox what changed between two results of files_of()."""
    if not before:
        make = 'mkdir -p "$1" && chown "$(id -u user):$(id -g user)" "$1"'
        cubby("exec", "--user", "root", sandbox, "--", "sh", "-c", make, "sh", project)
    gone = [name for name in before if name not in now]
    if gone:
        remove = 'cd "$1" && xargs -0 rm -rf --'
        names = os.fsencode("\0".join(gone))
        cubby("exec", sandbox, "--", "sh", "-c", remove, "sh", project, data=names)
    changed = [name for name, facts in now.items() if before.get(name) != facts]
    if changed:
        cubby("exec", sandbox, "--", "tar", "-x", "-C", project, data=archive(project, changed))


# ---- the session
class Session:
    """What is known of a session: {project: {sandbox, files}}, in a file that is locked."""

    def __init__(self, name):
        state = os.environ.get("XDG_STATE_HOME") or os.path.join(home(), ".local/state")
        state = pathlib.Path(state, "cubby-bash")
        self.name = name
        self.path = state / "".join(c for c in name if c.isalnum() or c in "-_")
        try:
            state.mkdir(parents=True, exist_ok=True)
            self.file = open(self.path, "a+")
        except OSError as e:
            raise Failure(
                f"{self.path}: {e.strerror}: the session's sandboxes are noted there. Make {state} "
                "writable, also in the agent's own sandbox, or set XDG_STATE_HOME"
            ) from e

    def __enter__(self):
        fcntl.flock(self.file, fcntl.LOCK_EX)
        self.file.seek(0)
        try:
            self.known = json.loads(self.file.read())
        except ValueError:
            self.known = {}  # new, or a write that was cut off
        return self

    def __exit__(self, *exc):
        self.file.close()

    def keep(self):
        self.file.truncate(0)
        self.file.write(json.dumps(self.known))
        self.file.flush()

    def alive(self):
        """The projects whose sandboxes still exist."""
        ids = [one["sandboxID"] for one in json.loads(cubby("ps", "--json"))]
        return [project for project, one in self.known.items() if one["sandbox"] in ids]

    def create(self):
        options = [
            "--timeout",
            os.environ.get("CUBBY_BASH_TIMEOUT", "14400"),
            "--metadata",
            f"agent-session={self.name}",
        ]
        for option in "template", "network":
            value = os.environ.get(f"CUBBY_BASH_{option.upper()}")
            options += [f"--{option}", value] if value else []
        return cubby("create", *options).strip()

    def sandbox(self, project):
        """The session's sandbox for the project, with the project as it is now."""
        now = files_of(project)
        if project not in self.known or project not in self.alive():
            self.known[project] = {"sandbox": self.create(), "files": {}}
            self.keep()
        one = self.known[project]
        push(one["sandbox"], project, one["files"], now)
        one["files"] = now
        self.keep()
        return one["sandbox"]


# ---- the three ways to call this program
def project_of(cwd):
    """The directory of the agent's session, or the git tree around the working directory."""
    cwd = os.path.realpath(cwd)
    given = os.environ.get("CLAUDE_PROJECT_DIR")
    project = os.path.realpath(given) if given else git_tree(cwd) or cwd
    project = project if inside(cwd, project) else git_tree(cwd) or cwd
    if inside(home(), project):
        raise Failure(
            f"the project would be {project}, which has your home directory, and no home directory "
            "is copied to a sandbox: start the agent in the directory of one project"
        )
    return project


def home():
    return os.path.realpath(os.path.expanduser("~"))


def inside(path, directory):
    return os.path.commonpath([os.path.realpath(path), directory]) == directory


def read_call(find):
    """The agent's call, and the texts that `find` takes out of it."""
    try:
        call = json.load(sys.stdin)
        texts = find(call)
        for text in texts:
            if not isinstance(text, str) or b"\0" in os.fsencode(text):
                raise ValueError(f"{text!r:.60} should be a text")
        return call, texts
    except (ValueError, KeyError, TypeError) as e:
        raise Failure(
            f"the hook does not understand this call of the agent ({e!r}): update the plugin"
        ) from e


def hook():
    call, (command, session, cwd) = read_call(
        lambda call: (call["tool_input"]["command"], call["session_id"], call["cwd"])
    )
    Session(session)  # fails here, where the agent's own sandbox does not hide the reason
    words = [
        sys.executable,
        os.path.abspath(__file__),
        "run",
        "--session",
        session,
        "--project",
        project_of(cwd),
        "--",
        command,
    ]
    print(
        json.dumps(
            {
                "hookSpecificOutput": {
                    "hookEventName": "PreToolUse",
                    "permissionDecision": "allow",
                    "permissionDecisionReason": "The command runs in a sandbox.",
                    "updatedInput": {**call["tool_input"], "command": shlex.join(words)},
                }
            }
        )
    )


def run(options):
    """Run the command. The agent starts this program where the command is to run."""
    try:
        cwd = os.path.realpath(os.getcwd())
    except OSError as e:
        raise Failure(f"the working directory: {e.strerror}: change to another one") from e
    project = options.project if inside(cwd, options.project) else project_of(cwd)
    with Session(options.session) as session:
        sandbox = session.sandbox(project)
    words = [
        CUBBY,
        "exec",
        "--no-stdin",
        "--cwd",
        cwd,
        sandbox,
        "--",
        "bash",
        "-lc",
        options.command,
    ]
    sys.stdout.flush()
    os.execvp(CUBBY, words)


def end():
    """Leave the work to a process of its own: agents give the end of a session about a second."""
    _, (session,) = read_call(lambda call: (call["session_id"],))
    words = [sys.executable, os.path.abspath(__file__), "finish", "--session", session]
    subprocess.Popen(
        words,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def finish(options):
    with Session(options.session) as session:
        if session.known:
            cubby("kill", *[session.known[project]["sandbox"] for project in session.alive()])
        session.path.unlink()


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser("hook")
    verbs.add_parser("end")
    runner = verbs.add_parser("run")
    for name in "session", "project":
        runner.add_argument(f"--{name}", required=True)
    runner.add_argument("command")
    verbs.add_parser("finish").add_argument("--session", required=True)
    options = parser.parse_args()
    try:
        if options.verb in ("run", "finish"):
            {"run": run, "finish": finish}[options.verb](options)
        else:
            {"hook": hook, "end": end}[options.verb]()
    except (Failure, OSError) as e:
        said = f"{e.filename}: {e.strerror}" if isinstance(e, OSError) and e.filename else e
        print(
            f"cubby-bash: {said}\nThe command did not run, neither in a sandbox nor on this machine. "
            "'cubby doctor' says what is missing.",
            file=sys.stderr,
        )
        return 2 if options.verb == "hook" else FAILED
    return 0


if __name__ == "__main__":
    sys.exit(main())
