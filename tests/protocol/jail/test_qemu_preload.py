# SPDX-License-Identifier: Apache-2.0
"""cubby-qemu.so, which is preloaded into QEMU, answers one name with a descriptor and keeps holes
out of that file.
"""

import json
import os
import pathlib
import subprocess
import sys

import pytest

PRELOAD = pathlib.Path(os.environ["BIN"]) / "cubby-qemu.so"
MEMORY_FD = 6  # QEMU_FD_MEMORY
NAME = b"/dev/null/cubby-memory"

# In a process of its own, as QEMU is. Each way that a program may open a file, and a hole in what came of it.
CHILD = """
import ctypes, errno, json, os, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.fallocate64.argtypes = libc.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]
PUNCH = 3  # FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE
def call(name, *args):
    ctypes.set_errno(0)
    n = getattr(libc, name)(*args)
    return n, errno.errorcode.get(ctypes.get_errno(), "")
out = {}
for how in sys.argv[2].split():
    args = (os.O_RDWR,) if how.endswith("_2") else (os.O_RDWR | os.O_CREAT, 0o600)
    fd, error = call(how, sys.argv[1].encode(), *args)
    one = out[how] = {"fd": fd, "error": error}
    if fd < 0:
        continue
    one["cloexec"] = not os.get_inheritable(fd)
    one["punch"] = call("fallocate64", fd, PUNCH, 0, 4096)
    one["punch32"] = call("fallocate", fd, PUNCH, 4096, 4096)
    one["grow"] = call("fallocate64", fd, 0, 0, 1 << 20)
    one["start"] = os.pread(fd, 2, 4095).hex()
    os.close(fd)
print(json.dumps(out))
"""
WAYS = ["open", "open64", "__open_2", "__open64_2"]


def run(path, memory=None, flags=os.O_RDONLY, preload=True):
    env = {"PATH": os.environ["PATH"], **({"LD_PRELOAD": str(PRELOAD)} if preload else {})}

    def give():
        if memory:
            os.dup2(os.open(memory, flags), MEMORY_FD)

    done = subprocess.run([sys.executable, "-c", CHILD, str(path), " ".join(WAYS)], env=env, close_fds=False,
                          preexec_fn=give, capture_output=True, check=True)
    assert done.stderr == b"", done.stderr  # ld.so says so of an object that it cannot load
    return json.loads(done.stdout)


@pytest.fixture
def memory(tmp_path):
    file = tmp_path / "memory"
    file.write_bytes(b"x" * 65536)
    return file


def test_the_memory_is_for_reading(memory):
    for how, got in run(NAME.decode(), memory).items():
        assert got["fd"] >= 0, (how, got)
        assert got["cloexec"]
        # A hole is said to be made and is none; whatever else would change the file is refused.
        assert got["punch"] == got["punch32"] == [0, ""], (how, got)
        assert got["grow"] == [-1, "EBADF"], (how, got)
        assert got["start"] == "7878"
    assert memory.read_bytes() == b"x" * 65536


def test_what_may_be_written_gets_its_holes(memory):
    """Holes reach a template's memory while it is built, and every other file under its own name."""
    for how, got in run(NAME.decode(), memory, os.O_RDWR).items():
        assert got["punch"] == got["punch32"] == got["grow"] == [0, ""], (how, got)
        assert got["start"] == "0000", (how, got)
    other = memory.parent / "other"
    other.write_bytes(b"x" * 65536)
    for how, got in run(other, memory).items():
        assert got["fd"] >= 0 and got["punch"] == [0, ""] and got["start"] == "0000", (how, got)
    assert other.read_bytes()[:8192] == bytes(8192)


def test_a_file_is_made_with_its_mode(tmp_path):
    assert run(tmp_path / "new")["open"]["fd"] >= 0
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o600


def test_without_it_there_is_no_memory(memory):
    """The name cannot be opened, and no file with that name can be made."""
    for how, got in run(NAME.decode(), memory, preload=False).items():
        assert (got["fd"], got["error"]) == (-1, "ENOTDIR"), (how, got)
    for how, got in run(NAME.decode()).items():  # preloaded, but not given any
        assert (got["fd"], got["error"]) == (-1, "EBADF"), (how, got)
