# SPDX-License-Identifier: Apache-2.0
"""A guest's end of a mount, which speaks the protocol itself (sandbox-backend/mountd/wire.h)."""

import os
import socket
import struct
import subprocess

from harness import BIN
from jail_peer import JAIL, WALLS, files_of

MOUNTD = BIN / "cubby-mountd"
MAGIC, VERSION = 0x744d6243, 1
HEAD = struct.Struct("<QQQqqIIIIIIHHIII")
ANSWER = struct.Struct("<QIIII")
OPS = {name: i + 1 for i, name in enumerate(
    "stat list open create opendir read write readdir release fsync allocate seek mkdir unlink rmdir rename "
    "symlink link readlink change statfs".split())}
RETRY, BY_HANDLE = 1, 2
CONN, DIR, TOKEN, SPACE = 63, 64, 65, 66  # descriptors of the server


class Room:
    """The counts of a volume that its servers share (sandbox-backend/volume/space.c)."""

    COUNTS = struct.Struct("<qqqqq")  # used, coming, when it was measured, the limit, when it may be again

    def __init__(self, limit):
        self.limit = limit
        self.fd = os.memfd_create("volume")
        os.write(self.fd, self.COUNTS.pack(limit, 0, 0, limit, 0))

    def used(self):
        return self.COUNTS.unpack(os.pread(self.fd, self.COUNTS.size, 0))[0]

    def opened(self):
        """A descriptor with a lock of its own."""
        return os.open(f"/proc/self/fd/{self.fd}", os.O_RDWR)


class Mountd:
    """A cubby-mountd that serves `directory`, in cubby-jail's walls or (with none) in no jail. With a `room` the
    directory is a volume."""

    def __init__(self, directory, *options, walls=WALLS, read_only=False, room=None):
        ours, theirs = socket.socketpair()
        token = os.memfd_create("token")
        os.write(token, b"t" * 32)
        os.lseek(token, 0, 0)
        root = os.open(directory, os.O_PATH | os.O_DIRECTORY)
        space = room.opened() if room else None
        for fd, at in ((theirs.fileno(), CONN), (root, DIR), (token, TOKEN)):
            os.dup2(fd, at)
        if room:
            os.dup2(space, SPACE)
        shown = (CONN, DIR, TOKEN, *([SPACE] if room else []))
        argv = [MOUNTD, "--port", "0", "--conn-fd", CONN, "--dir-fd", DIR, "--token-fd", TOKEN,
                *(["--read-only"] if read_only else []),
                *(["--space-fd", SPACE] if room else []), *options]
        if walls:
            files = files_of(MOUNTD)
            argv = ["unshare", "--pid", "--fork", JAIL, "--kind", "files", "--walls", ",".join(walls),
                    "--share", directory, "--share-fd", DIR, *(["--share-read-only"] if read_only else []),
                    "--file-count", len(files), "--", *files, MOUNTD, *argv]
        self.server = subprocess.Popen([str(word) for word in argv], pass_fds=shown,
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for fd in (root, token, *shown, *([space] if room else [])):
            os.close(fd)
        theirs.close()
        self.socket = ours
        ours.settimeout(60)
        magic, version, self.flags, _, self.token = struct.unpack("<IIII32s", self.exactly(48))
        assert (magic, version) == (MAGIC, VERSION)
        ours.sendall(struct.pack("<II", MAGIC, VERSION))

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.socket.close()
        self.server.communicate(timeout=60)

    def exactly(self, size):
        data = b""
        while len(data) < size:
            more = self.socket.recv(size - len(data))
            if not more:
                raise EOFError
            data += more
        return data

    def send(self, op, path=b"", more=b"", handle=0, flags=0, mode=0, mask=0, how=0, offset=0, size=0):
        self.socket.sendall(HEAD.pack(1, offset, size, 0, 0, 0, 0, handle, flags, mode, mask, OPS.get(op, op), how,
                                      len(path), len(more), 0) + path + more)

    def ask(self, op, *args, **more):
        """(errno, bytes) of an answer."""
        self.send(op, *args, **more)
        return self.answer()

    def answer(self):
        _, error, _, size, _ = ANSWER.unpack(self.exactly(ANSWER.size))
        return error, self.exactly(size)

    def error(self, op, *args, **more):
        return self.ask(op, *args, **more)[0]
