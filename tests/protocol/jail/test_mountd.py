# SPDX-License-Identifier: Apache-2.0
"""cubby-mountd against a guest that speaks the protocol itself: only the directory, only what was
allowed, whatever is sent. In the jail as cubbyd starts it, and once without, where its own checks are
all there is.
"""

import errno
import os
import struct

import pytest

from jail_peer import WALLS
from mountd_peer import BY_HANDLE, RETRY, Mountd

OWNER = 1234


@pytest.fixture
def directory(tmp_path):
    """A directory of another user than root, and a secret beside it."""
    path = tmp_path / "shared"
    (path / "sub").mkdir(parents=True)
    (tmp_path / "secret").write_text("secret")
    (path / "a").write_text("text")
    (path / ".env").write_text("hidden")
    (path / ".git").mkdir()
    (path / ".git" / "config").write_text("hidden")
    (path / "out").symlink_to("../secret")
    (path / "up").symlink_to("..")
    for one in (path, *path.rglob("*")):
        os.chown(one, OWNER, OWNER, follow_symlinks=False)
    return path


@pytest.fixture(params=["jail", "no jail"])
def mountd(request, directory):
    with Mountd(directory, walls=WALLS if request.param == "jail" else ()) as server:
        yield server


def test_it_serves(mountd):
    assert mountd.error("open", b"a", handle=1, flags=os.O_RDWR) == 0
    assert mountd.ask("read", handle=1, size=100) == (0, b"text")
    assert mountd.ask("write", b"", b"more", handle=1, offset=4) == (0, b"")
    assert mountd.ask("read", handle=1, size=100) == (0, b"textmore")
    assert mountd.error("change", b"", handle=1, how=BY_HANDLE, mask=2, size=3 << 30) == 0
    assert mountd.error("open", b"a", handle=2) == 0, "a file above 2 GiB"
    assert mountd.ask("read", handle=2, offset=(3 << 30) - 1, size=9) == (0, b"\0")
    assert mountd.error("mkdir", b"d", mode=0o755) == 0
    assert mountd.error("rename", b"a", b"d/b") == 0 and mountd.error("link", b"d/b", b"c") == 0
    assert mountd.error("stat", b"a") == errno.ENOENT and mountd.error("stat", b"c") == 0
    assert mountd.error("rmdir", b"d") == errno.ENOTEMPTY


@pytest.mark.parametrize("path", [b"..", b"../secret", b"sub/../../secret", b"/etc/passwd", b"sub//x", b".", b"./a",
                                  b"sub/", b"a\0b", b"x" * 5000, b"out", b"up/secret"])
def test_no_path_leads_out(mountd, path):
    if len(path) >= 4096:
        mountd.send("stat", path)
        with pytest.raises(EOFError):
            mountd.exactly(1)
        return
    for op, flags in (("open", os.O_RDONLY), ("open", os.O_RDWR), ("create", os.O_RDWR)):
        assert mountd.error(op, path, handle=2, flags=flags, mode=0o600) in (errno.EINVAL, errno.ELOOP), op
    assert mountd.error("read", handle=2, size=9) == errno.ESTALE
    assert mountd.error("rename", b"a", path) in (0 if path == b"out" else None, errno.EINVAL, errno.ELOOP)


def test_links_are_made_and_never_followed(mountd, directory):
    assert mountd.error("symlink", b"l", b"/etc/passwd") == 0
    assert mountd.ask("readlink", b"l") == (0, b"/etc/passwd")
    assert mountd.error("open", b"l", handle=1) == errno.ELOOP
    before = os.stat("/etc/passwd")
    mountd.error("change", b"l", mask=15, mode=0o600)
    now = os.stat("/etc/passwd")
    assert (now.st_mode, now.st_mtime_ns, now.st_size) == (before.st_mode, before.st_mtime_ns, before.st_size)
    assert mountd.error("link", b"out", b"hard") == 0
    assert os.readlink(directory / "hard") == "../secret", "the link itself"


def test_hidden_files_stay_hidden(mountd, directory):
    for path in (b".env", b".git/config"):
        assert mountd.error("stat", path) == errno.ENOENT and mountd.error("open", path, handle=1) == errno.ENOENT
        assert mountd.error("create", path, handle=1, flags=os.O_RDWR, mode=0o600) == errno.EACCES
        assert mountd.error("link", path, b"seen") == errno.ENOENT
        assert mountd.error("rename", b"a", path) == errno.EACCES
    assert mountd.error("rename", b".git", b"g") == errno.EPERM
    assert mountd.error("rename", b"sub", b".git", flags=2) == errno.EPERM  # an exchange
    for op, path, more in (("create", b".cubbyignore", b""), ("rename", b"a", b".cubbyignore"),
                           ("symlink", b".cubbyignore", b"a"), ("link", b"a", b".cubbyignore")):
        assert mountd.error(op, path, more, flags=os.O_RDWR, handle=1, mode=0o600) == errno.EACCES, op
    for op, path in (("list", b""), ("list", b".git")):
        _, names = mountd.ask(op, path)
        assert b".env" not in names and b"config" not in names
    assert mountd.error("opendir", b".git", handle=3) == 0
    assert b"config" not in mountd.ask("readdir", b"sub", handle=3)[1], "whatever path comes with the handle"
    assert (directory / ".env").read_text() == "hidden"


def test_rules_of_the_directory(directory):
    (directory / ".cubbyignore").write_text("# mine\n/sub\n*.log\n!.env\n")
    (directory / "x.log").touch()
    with Mountd(directory) as server:
        assert server.error("stat", b"sub") == errno.ENOENT and server.error("stat", b"x.log") == errno.ENOENT
        assert server.error("stat", b".env") == 0 and server.error("stat", b".git/config") == errno.ENOENT
        assert server.error("unlink", b".cubbyignore") == errno.EACCES
        assert server.error("open", b".cubbyignore", handle=1, flags=os.O_RDWR) == errno.EACCES


def test_what_is_made_belongs_to_the_owner(directory):
    with Mountd(directory) as server:
        assert server.error("create", b"n", handle=1, flags=os.O_RDWR, mode=0o4777) == 0
        assert server.error("change", b"a", mask=1, mode=0o6755) == 0
    assert [(directory / n).stat().st_uid for n in "na"] == [OWNER, OWNER]
    assert [(directory / n).stat().st_mode & 0o7777 for n in "na"] == [0o777, 0o755], "no set-user-id bits"


def test_what_the_owner_may_not_read(directory):
    (directory / "root").write_text("root's")
    (directory / "root").chmod(0o600)
    with Mountd(directory) as server:
        assert server.error("open", b"root", handle=1) == errno.EACCES


def test_only_files_are_opened(directory):
    os.mkfifo(directory / "pipe")
    os.mknod(directory / "device", 0o20666, os.makedev(1, 3))
    for name in ("pipe", "device"):
        os.chown(directory / name, OWNER, OWNER)
    with Mountd(directory) as server:
        for name in (b"pipe", b"device"):
            assert server.error("open", name, handle=1) == errno.EACCES
        assert server.error("open", b"sub", handle=1) == errno.EISDIR


@pytest.mark.parametrize("walls", [WALLS, ()], ids=["jail", "no jail"])
def test_read_only(directory, walls):
    with Mountd(directory, walls=walls, read_only=True) as server:
        assert server.error("open", b"a", handle=1) == 0
        for op, path, more in (("create", b"n", b""), ("mkdir", b"n", b""), ("unlink", b"a", b""), ("rmdir", b"sub", b""),
                               ("rename", b"a", b"b"), ("symlink", b"n", b"a"), ("link", b"a", b"n"),
                               ("change", b"a", b""), ("write", b"", b"x"), ("allocate", b"", b"")):
            assert server.error(op, path, more, handle=1, mask=1, size=9, flags=os.O_RDWR) == errno.EROFS, op
        for flags in (os.O_RDWR, os.O_WRONLY, os.O_RDONLY | os.O_TRUNC):
            assert server.error("open", b"a", handle=2, flags=flags) == errno.EROFS
    assert (directory / "a").read_text() == "text"


def test_a_request_that_comes_again(directory):
    with Mountd(directory, walls=()) as server:
        assert server.error("mkdir", b"sub") == errno.EEXIST and server.error("mkdir", b"sub", how=RETRY) == 0
        assert server.error("unlink", b"none") == errno.ENOENT and server.error("unlink", b"none", how=RETRY) == 0
        assert server.error("rename", b"none", b"a") == errno.ENOENT
        assert server.error("rename", b"none", b"a", how=RETRY) == 0
        create = {"handle": 1, "flags": os.O_RDWR | os.O_EXCL}
        assert server.error("create", b"a", **create) == errno.EEXIST
        assert server.error("create", b"a", how=RETRY, **create) == 0
        assert server.error("open", b"a", handle=2, flags=os.O_RDWR | os.O_APPEND) == 0
        assert server.error("write", b"", b"ext", handle=2, offset=1, how=RETRY) == 0, "it is there already"
        assert (directory / "a").read_text() == "text"
        assert server.error("write", b"", b"new", handle=2, offset=4, how=RETRY) == 0
        assert (directory / "a").read_text() == "textnew"


@pytest.mark.parametrize("op", [0, 22, 999])
def test_unknown_requests(mountd, op):
    assert mountd.error(op) == errno.ENOSYS and mountd.error("stat", b"a") == 0


def test_numbers_out_of_range(mountd):
    for op in ("read", "write", "fsync", "allocate", "seek", "readdir"):
        assert mountd.error(op, handle=0xffffffff, size=1 << 60, offset=1 << 63) == errno.ESTALE
    for op in ("open", "create", "opendir"):
        assert mountd.error(op, b"n", handle=2048) == errno.EMFILE
    assert mountd.error("open", b"a", handle=1, flags=os.O_RDWR) == 0
    assert mountd.error("read", handle=1, size=1 << 40) == errno.EINVAL
    assert mountd.error("write", b"", b"x", handle=1, offset=(1 << 64) - 1) == errno.EINVAL
    assert mountd.error("seek", handle=1, mode=0) == errno.EINVAL
    mountd.socket.sendall(struct.pack("<80s", b"\xff" * 80))
    with pytest.raises(EOFError):
        mountd.exactly(1)


def test_a_flood_of_open_files(mountd):
    found = [mountd.error("open", b"a", handle=handle) for handle in range(2048)]
    assert set(found) <= {0, errno.EMFILE} and found.count(0) > 500
    assert mountd.error("stat", b"a") == 0
