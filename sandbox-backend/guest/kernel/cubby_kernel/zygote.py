# SPDX-License-Identifier: Apache-2.0
"""The zygote, from which contexts are forked: everything imported, one thread, no state of a user.

The server sends {"id", "language"} with three descriptors (channel, stdout, stderr) and is
told {"forked": id, "pid"}. {"exited": pid, "status"} follows each child's end.
"""
import contextlib
import ctypes
import os
import select
import signal
import socket
import sys

from . import bash, node
from .frames import Channel
from .worker import Worker

PR_SET_PDEATHSIG = 1
# When memory runs out, the kernel should kill the largest process, and count for a context only its own
# memory: what it shares with the zygote is 200 of 1000 points in a small machine. A command has a score of
# 100, and the zygote a lower one than both (guest/supervise.c).
OOM_SCORE = "-150"


def _describe(status):
    code = os.waitstatus_to_exitcode(status)
    return {"signal": -code} if code < 0 else {"code": code}


class Zygote:
    def __init__(self, sock, shell):
        self.channel = Channel(sock)
        self.shell = shell
        self.children = set()
        self.wake, wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self.wake_write = wake_write
        self.libc = ctypes.CDLL(None, use_errno=True)

    def serve(self):
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self.wake_write, warn_on_full_buffer=False)
        self.channel.send({"ready": os.getpid()})
        while True:
            readable, _, _ = select.select([self.channel, self.wake], [], [])
            if self.wake in readable:
                self._reap()
            if self.channel in readable and not self._take():
                return

    def _reap(self):
        try:
            while os.read(self.wake, 512):
                pass
        except BlockingIOError:
            pass
        for pid in list(self.children):
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                self.children.discard(pid)
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(pid, signal.SIGKILL)  # what it left running
                self.channel.send({"exited": pid, "status": _describe(status)})

    def _take(self):
        request, fds = self.channel.receive_with_fds(3)
        for fd in fds:
            os.set_inheritable(fd, False)  # a command with the channel could send messages as its context
        if request is not None:
            self._fork(request, fds)
        return request is not None

    def _fork(self, request, fds):
        pid = os.fork()
        if pid == 0:
            self._become(request, fds)
        for fd in fds:
            os.close(fd)
        self.children.add(pid)
        self.channel.send({"forked": request["id"], "pid": pid})

    def _become(self, request, fds):
        """In the child: set up a process session and the descriptors, then run the language's loop. Never return."""
        status = 1
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            self.libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
            os.setsid()
            self._set_oom_score()
            channel, out, err = fds
            os.dup2(out, 1)
            os.dup2(err, 2)
            for fd in (out, err, self.wake, self.wake_write):
                os.close(fd)
            self.channel.sock.close()
            if request["language"] == "bash":
                signal.signal(signal.SIGINT, signal.SIG_DFL)  # else its commands would ignore it too
                bash.become(channel)
            if request["language"] in node.LANGUAGES:
                signal.signal(signal.SIGINT, signal.SIG_DFL)
                node.become(channel, request["language"])
            status = Worker(Channel(socket.socket(fileno=channel)), self.shell).serve()
        except BaseException:  # no exception may unwind into the zygote's loop
            sys.excepthook(*sys.exc_info())
        finally:
            os._exit(status)

    @staticmethod
    def _set_oom_score():
        try:
            with open("/proc/self/oom_score_adj", "w", encoding="ascii") as f:
                f.write(OOM_SCORE)
        except OSError:
            pass  # not permitted; only the choice of a victim is worse


def main():
    from . import warm

    sock = socket.socket(fileno=int(sys.argv[1]))
    Zygote(sock, warm.warm_up()).serve()
    return 0
