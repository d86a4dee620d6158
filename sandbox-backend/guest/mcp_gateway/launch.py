# SPDX-License-Identifier: Apache-2.0
"""Starts the process that serves, and waits until it says that all servers have started.

That process gets its order over a socket, so neither the token nor a server's keys are in its
command line, and answers there. The template's machine was saved with such a process, which has
loaded the library and waits for an order (`mcp-gateway wait`): loading takes seconds on a host
without hardware virtualisation. Where none waits, one is started.
"""

import contextlib
import fcntl
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time

import install
from places import as_user

STOP_S = 10
GRACE_S = 5  # beyond the deadline: the serving process reports what was too slow


class Failed(Exception):
    """The gateway did not start."""


# ---- the gateway that already serves, in a sandbox made from a snapshot
def give_up(number, frame):
    raise BlockingIOError


def hold(file, seconds=None):
    """Locks the file; with `seconds`, waits so long."""
    if seconds is None:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return
    signal.signal(signal.SIGALRM, give_up)
    signal.alarm(seconds)
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
    finally:
        signal.alarm(0)


def stop_running(places):
    with open(places.running, "a+") as file:
        for number in (signal.SIGTERM, signal.SIGKILL):
            try:
                hold(file)
                return
            except BlockingIOError:
                file.seek(0)
            with contextlib.suppress(ProcessLookupError, ValueError):  # it ends or begins at this moment
                os.kill(int(file.read()), number)
            with contextlib.suppress(BlockingIOError):
                hold(file, STOP_S)
                return
    raise Failed("the gateway that runs here could not be stopped")


def stop(places):
    places.make()
    stop_running(places)
    places.token.unlink(missing_ok=True)


# ---- the order
def connect(places):
    """A socket to the process that waits, or to a new one."""
    waiting = socket.socket(socket.AF_UNIX)
    try:
        waiting.connect(str(places.waiting))
        return waiting
    except OSError:
        waiting.close()
    ours, theirs = socket.socketpair()
    program = pathlib.Path(__file__).parent
    with theirs, open(places.log("gateway"), "ab") as log:
        subprocess.Popen([sys.executable, "-I", str(program), "--root", str(places.root), "serve"],
                         stdin=theirs, stdout=log, stderr=log, start_new_session=True, **as_user())
    return ours


def order(connection, what, deadline):
    """Sends the order, and returns the answer."""
    connection.settimeout(max(deadline - time.monotonic(), 0) + GRACE_S)
    try:
        connection.sendall(json.dumps(what).encode() + b"\n")
        with connection.makefile() as answers:
            answer = json.loads(answers.readline() or "{}")
            if "port" not in answer:
                answers.read()  # until the process has ended, and with it the servers
            return answer
    except OSError as error:
        raise Failed(f"the gateway did not answer: {error}") from None


def write_token(token, places):
    places.token.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with open(os.open(places.token, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(token)


def start(servers, token, options, places):
    """Starts the servers in place of those that run."""
    places.make()
    with open(places.starting, "a") as starting:
        try:
            hold(starting, max(int(options.timeout), 1))
        except BlockingIOError:
            raise Failed("another start has not ended") from None
        start_alone(servers, token, options, places)


def start_alone(servers, token, options, places):
    deadline = time.monotonic() + options.timeout
    install.all_of(servers, places, deadline)
    stop(places)
    account = as_user()
    what = {"token": token, "port": options.port, "deadline": deadline, "timeout": options.timeout, "env": account["env"],
            "servers": [{"name": s.name, "command": s.command, "env": s.env, "cwd": s.cwd or account["cwd"]}
                        for s in servers]}
    with connect(places) as connection:
        answer = order(connection, what, deadline)
    if "port" not in answer:
        raise Failed(answer.get("error") or f"the gateway ended; {places.log('gateway')} may have the reason")
    try:
        write_token(token, places)
    except OSError:
        stop_running(places)
        raise
    print(f"{len(servers)} MCP servers at port {answer['port']}, path /mcp")


# ---- the process that serves
def log_to(file):
    with open(file, "ab") as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)


def obey(connection, places):
    import gateway  # it loads the library, which takes long

    running = open(places.running, "a+")  # and locked until the process has ended
    hold(running)
    running.truncate(0)
    running.write(str(os.getpid()))
    running.flush()
    log_to(places.log("gateway"))
    with connection.makefile("rw") as channel:
        gateway.run(json.loads(channel.readline()), places, channel)
    os._exit(0)  # what the library may still wait for has no use


def serve(places):
    connection = socket.socket(fileno=os.dup(0))
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    obey(connection, places)


def wait(places):
    import gateway  # noqa: F401

    places.make()
    places.waiting.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(places.waiting))
        os.chmod(places.waiting, 0o600)
        listener.listen(1)
        print("waiting", flush=True)
        connection, _ = listener.accept()
    places.waiting.unlink()
    obey(connection, places)
