# SPDX-License-Identifier: Apache-2.0
"""The microvm driver as a program (tests/lib/drivers/machine_shell.c), and the guest behind it."""

import base64
import json
import os
import pathlib
import queue
import shutil
import signal
import socket
import struct
import subprocess
import threading

import pytest

from harness import BIN, TEST_HOME, process_exists
from proc import descriptors
from receive import receive_until

TEST = pathlib.Path(os.environ["TEST"])
TEMPLATE = TEST_HOME / "templates" / "default"
ID = "abcdefghij0123456789"


class Shell:
    """One machine-shell, which stands for one life of the daemon."""

    def __init__(self, place, name="s"):
        self.dir = place / name
        self.id = (name + ID)[:len(ID)]
        program = place / "machine-shell"
        if not program.exists():
            # A copy, so that it finds the others beside itself.
            shutil.copy(TEST / "machine-shell", program)
            for beside in ("cubby-netd", "cubby-jail", "cubby-qemu.so"):
                (place / beside).symlink_to(BIN / beside)
        self.log = open(place / "shell.log", "ab")
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=self.log)
        self.lines = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.process.stdout:
            self.lines.put(json.loads(line))
        self.lines.put({"event": "eof"})

    def say(self, *words):
        self.process.stdin.write(" ".join(map(str, words)).encode() + b"\n")
        self.process.stdin.flush()

    def hear(self, event, seconds=60):
        got = self.lines.get(timeout=seconds)
        assert got["event"] == event, got
        return got

    def ask(self, event, *words):
        self.say(*words)
        return self.hear(event)

    def create(self, template=TEMPLATE, mode="none", image=None, event="ready"):
        self.dir.mkdir(exist_ok=True)
        from_image = [f"image={image}"] if image else []
        return self.ask(event, "create", self.id, self.dir, template, mode, *from_image)

    def record(self):
        return self.ask("record", "record")["record"]

    def pids(self):
        record = self.record()
        return record["qemu"]["pid"], record["netd"]["pid"]

    def silent(self, seconds=0.3):
        """Checks that no event comes for so long: for events that must not happen twice."""
        with pytest.raises(queue.Empty):
            pytest.fail(str(self.lines.get(timeout=seconds)))

    def end(self, killed=True):
        """Ends the shell, not the machine: by SIGKILL, like a daemon that is killed, or in order
        (and then checks for leaks)."""
        if self.process.returncode is None:
            if killed:
                self.process.kill()
            self.process.stdin.close()
            assert self.process.wait(60) == (-signal.SIGKILL if killed else 0)
            self.process.stdout.close()
            self.log.close()


def left_behind(place):
    """Processes that still have the directory's name in their arguments or descriptors."""
    found = []
    for proc in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            text = (proc / "cmdline").read_bytes()
            text += b"".join(os.fsencode(link) for link in descriptors(proc.name).values())
        except OSError:
            continue
        if str(place).encode() in text and process_exists(proc.name) and int(proc.name) != os.getpid():
            found.append(int(proc.name))
    return found


def connect(vmnet, port=49983):
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(20)
    s.connect(str(vmnet))
    s.sendall(f"CONNECT {port}\n".encode())
    answer = b""
    while not answer.endswith(b"\n"):
        chunk = s.recv(1)
        assert chunk, answer
        answer += chunk
    assert answer == b"OK\n"
    return s


def health(vmnet):
    with connect(vmnet) as s:
        s.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        return int(receive_until(s, b"\r\n").split()[1])


def answers(vmnet):
    try:
        return health(vmnet) == 204
    except (AssertionError, OSError, IndexError):
        return False


def start_in_guest(vmnet, script):
    """Starts a command as root without waiting for it; the connection stays open as long."""
    request = json.dumps({"process": {"cmd": "/bin/sh", "args": ["-c", script]}}).encode()
    body = struct.pack(">BI", 0, len(request)) + request
    user = base64.b64encode(b"root:").decode()
    s = connect(vmnet)
    s.sendall((f"POST /process.Process/Start HTTP/1.1\r\nHost: x\r\nAuthorization: Basic {user}\r\n"
               "Content-Type: application/connect+json\r\nConnect-Protocol-Version: 1\r\n"
               f"Content-Length: {len(body)}\r\n\r\n").encode() + body)
    return s


def output_of(vmnet, script):
    """The command's standard output."""
    with start_in_guest(vmnet, script) as s:
        answer = b""
        while b'"end"' not in answer:
            chunk = s.recv(65536)
            assert chunk, answer
            answer += chunk
    parts = [p.split(b'"')[0] for p in answer.split(b'"stdout":"')[1:]]
    return b"".join(map(base64.b64decode, parts)).decode()


def one_word(value):
    return json.dumps(value, separators=(",", ":")).replace(" ", "\\u0020")


def adopt(shell, record, event="ready"):
    return shell.ask(event, "adopt", shell.id, shell.dir, TEMPLATE, one_word(record))
