# SPDX-License-Identifier: Apache-2.0
"""A FUSE file system of one empty directory (linux/fuse.h): what a network mount looks like."""

import contextlib
import ctypes
import errno
import os
import struct
import threading

LOOKUP, FORGET, GETATTR, STATFS, INIT, OPENDIR, READDIR, RELEASEDIR = 1, 2, 3, 17, 26, 27, 28, 29
GETXATTR, ACCESS, INTERRUPT, BATCH_FORGET = 22, 34, 36, 42
IN_HEADER, OUT_HEADER = struct.Struct("<IIQQIIIHH"), struct.Struct("<IiQ")
libc = ctypes.CDLL(None, use_errno=True)


def attributes():
    """struct fuse_attr_out of the root."""
    return struct.pack("<QIIQQQQQQIIIIIIIIII", 3600, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0,
                       0o40755, 2, os.getuid(), os.getgid(), 0, 4096, 0)


def answer(opcode):
    """The payload, or a negative errno."""
    if opcode == INIT:
        return struct.pack("<IIIIHHIIHHI", 7, 23, 65536, 0, 12, 10, 4096, 1, 0, 0, 0) + bytes(28)
    if opcode == GETATTR:
        return attributes()
    if opcode == STATFS:
        return struct.pack("<QQQQQIIII", 1, 1, 1, 1, 1, 4096, 255, 4096, 0) + bytes(24)
    if opcode == OPENDIR:
        return struct.pack("<QII", 1, 0, 0)
    if opcode in (READDIR, RELEASEDIR, ACCESS):
        return b""
    return -errno.ENOENT if opcode == LOOKUP else -errno.ENOSYS


def serve(fd):
    while True:
        try:
            request = os.read(fd, 1 << 17)
        except OSError:
            return  # unmounted
        _, opcode, unique, *_ = IN_HEADER.unpack_from(request)
        if opcode in (FORGET, BATCH_FORGET, INTERRUPT):
            continue
        payload = answer(opcode)
        code, data = (payload, b"") if isinstance(payload, int) else (0, payload)
        os.write(fd, OUT_HEADER.pack(OUT_HEADER.size + len(data), code, unique) + data)


@contextlib.contextmanager
def mounted(directory):
    fd = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
    options = f"fd={fd},rootmode=40755,user_id={os.getuid()},group_id={os.getgid()},allow_other"
    path = os.fsencode(directory)
    if libc.mount(b"tiny", path, b"fuse", 0, options.encode()) != 0:
        error = ctypes.get_errno()
        os.close(fd)
        raise OSError(error, os.strerror(error))
    thread = threading.Thread(target=serve, args=(fd,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        libc.umount2(path, 2)  # MNT_DETACH
        os.close(fd)
