# SPDX-License-Identifier: Apache-2.0
"""cubby-mountd against a guest that speaks the protocol itself: only the directory, only what was
allowed, whatever is sent. In the jail as cubbyd starts it, and once without, where its own checks are
all there is.
"""

import errno
import os
import pathlib
import struct
import subprocess

import pytest

from harness import wait_for
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


CONFIG = b"[core]\n\trepositoryformatversion = 0\n\tworktree = .\n\tfsmonitor = touch ran; false\n"


def put(mountd, path, data):
    return (mountd.error("create", path, handle=9, flags=os.O_RDWR, mode=0o755) or
            mountd.error("write", b"", data, handle=9))


def git_status(directory):
    """git on the host, for whoever owns the directory."""
    subprocess.run(["git", "-c", "safe.directory=*", "status"], cwd=directory, capture_output=True, timeout=60, check=False,
                   env={"PATH": os.environ["PATH"], "HOME": str(directory), "GIT_CONFIG_NOSYSTEM": "1"})
    return (directory / "ran").exists()


def make_elsewhere(mountd):
    """A configuration under a name that is not hidden, with what a repository needs beside HEAD."""
    for name in (b"e", b"e/objects", b"e/refs"):
        assert mountd.error("mkdir", name, mode=0o755) == 0
    assert put(mountd, b"e/config", CONFIG) == 0


@pytest.mark.parametrize("path", [b".git/commondir", b".git/gitdir", b".git/modules", b".git/worktrees",
                                  b".git/modules/s/config", b"sub/.git/commondir"])
def test_no_file_of_git_leads_elsewhere(mountd, directory, path):
    mountd.error("mkdir", b"sub/.git", mode=0o755)
    make_elsewhere(mountd)
    assert put(mountd, path, b"../e\n") == errno.EACCES and mountd.error("mkdir", path) == errno.EACCES
    assert mountd.error("rename", b"a", path) == errno.EACCES and mountd.error("rename", b"e", path) == errno.EACCES


def test_git_is_a_directory(mountd, directory):
    make_elsewhere(mountd)
    assert put(mountd, b"g", b"gitdir: ../e\n") == 0
    assert put(mountd, b"sub/.git", b"gitdir: ../e\n") == errno.EACCES
    assert mountd.error("symlink", b"sub/.git", b"../e") == errno.EACCES
    assert mountd.error("link", b"g", b"sub/.git") == errno.EACCES
    assert mountd.error("rename", b"g", b"sub/.git") == errno.EPERM
    assert mountd.error("rename", b"e", b"sub/.git") == errno.EPERM
    assert mountd.error("mkdir", b"sub/.git", mode=0o755) == 0, "a directory may have the name"
    assert mountd.error("rename", b"g", b"sub/.git", flags=2) == errno.EPERM
    assert mountd.error("rename", b"sub/.git", b"g", flags=2) == errno.EPERM


def test_a_file_git_of_the_host_is_only_read(mountd, directory):
    (directory / "sub" / ".git").write_text("gitdir: ../.git/modules/sub")
    os.chown(directory / "sub" / ".git", OWNER, OWNER)
    assert mountd.error("open", b"sub/.git", handle=1) == 0
    assert mountd.ask("read", b"", handle=1, size=7) == (0, b"gitdir:")
    for flags in (os.O_RDWR, os.O_WRONLY, os.O_TRUNC):
        assert mountd.error("open", b"sub/.git", handle=2, flags=flags) == errno.EACCES
    assert mountd.error("change", b"sub/.git", mask=2, size=9) == errno.EACCES
    assert mountd.error("link", b"sub/.git", b"second") == errno.EACCES
    assert mountd.error("rename", b"a", b"sub/.git", flags=2) == errno.EPERM
    assert mountd.error("rename", b"sub/.git", b"a", flags=2) == errno.EPERM
    assert (directory / "sub" / ".git").read_text() == "gitdir: ../.git/modules/sub"


def test_no_bare_repository_is_made(mountd, directory):
    make_elsewhere(mountd)
    assert put(mountd, b".git/HEAD", b"ref: refs/heads/main\n") == 0, "git itself writes it"
    assert mountd.error("mkdir", b".git/refs", mode=0o755) == 0
    assert put(mountd, b".git/refs/HEAD", b"ref: refs/heads/main\n") == 0
    assert put(mountd, b"e/HEAD", b"ref: refs/heads/main\n") == errno.EACCES
    assert mountd.error("symlink", b"e/HEAD", b"refs/heads/main") == errno.EACCES
    assert mountd.error("link", b".git/HEAD", b"e/HEAD") == errno.EACCES
    assert mountd.error("rename", b".git/HEAD", b"e/HEAD") == errno.EPERM
    assert mountd.error("rename", b"a", b"e/HEAD") == errno.EPERM
    assert mountd.error("rename", b".git/refs", b"f") == errno.EPERM, "with a HEAD in it"
    assert mountd.error("rename", b"e", b".git/refs", flags=2) == errno.EPERM
    assert not git_status(directory / "e")
    (directory / "e" / "HEAD").write_text("ref: refs/heads/main\n")  # what the test would see otherwise
    assert git_status(directory / "e")


def test_rules_of_the_directory(directory):
    (directory / ".cubbyignore").write_text("# mine\n/sub\n*.log\n!.env\n")
    (directory / "x.log").touch()
    with Mountd(directory) as server:
        assert server.error("stat", b"sub") == errno.ENOENT and server.error("stat", b"x.log") == errno.ENOENT
        assert server.error("stat", b".env") == 0 and server.error("stat", b".git/config") == errno.ENOENT
        assert server.error("unlink", b".cubbyignore") == errno.EACCES
        assert server.error("open", b".cubbyignore", handle=1, flags=os.O_RDWR) == errno.EACCES


@pytest.mark.parametrize("rule", ["**/secret.txt", "/**/secret.txt", "secret.txt"])
def test_a_rule_for_every_directory(directory, rule):
    (directory / ".cubbyignore").write_text(rule + "\n")
    for where in (directory, directory / "sub"):
        (where / "secret.txt").write_text("secret")
    with Mountd(directory) as server:
        for path in (b"secret.txt", b"sub/secret.txt"):
            assert server.error("stat", path) == errno.ENOENT
        assert server.error("rename", b"sub", b"moved") == 0, "no directory is pinned by it"


@pytest.mark.parametrize("text, words", [
    ("a/**/b", '"**"'), ("a/**", '"**"'), ("**", '"**"'), ("a**", '"**"'), ("\\!x", "backslash"), ("/", "names nothing"),
    ("/".join("abcdefghijklmnopq"), "16 names"), ("x\n" * 1100, "1024 rules")], ids=range(8))
def test_a_rule_that_cannot_be_kept(directory, text, words):
    (directory / ".cubbyignore").write_text(text + "\n")
    with Mountd(directory) as server:
        with pytest.raises((EOFError, OSError)):
            server.ask("stat", b"a")
        said = server.server.stderr.read().decode()
        assert words in said and "of .cubbyignore" in said and server.server.wait(60) == 1


def test_what_is_mounted_below_is_not_served(directory):
    subprocess.run(["mount", "-t", "tmpfs", "none", directory / "sub"], check=True)
    try:
        (directory / "sub" / "x").touch()
        with Mountd(directory, walls=()) as server:
            assert server.error("stat", b"sub/x") == errno.EXDEV
            assert server.error("create", b"sub/y", handle=1, flags=os.O_RDWR, mode=0o600) == errno.EXDEV
    finally:
        subprocess.run(["umount", "-l", directory / "sub"], check=True)


def test_a_pipe_gets_no_peer(mountd, directory):
    os.mkfifo(directory / "pipe")
    os.chmod(directory / "pipe", 0o666)
    with subprocess.Popen(["sh", "-c", "exec 3>pipe; echo it has one"], cwd=directory, stdout=subprocess.PIPE) as writer:
        wait_for(lambda: b"pipe" in pathlib.Path(f"/proc/{writer.pid}/wchan").read_bytes() or
                 pathlib.Path(f"/proc/{writer.pid}/stat").read_text().split()[2] == "S", 60, "the writer waits")
        assert mountd.error("open", b"pipe", handle=1) == errno.EACCES
        assert mountd.error("change", b"pipe", mask=2, size=0) == errno.EACCES
        assert mountd.error("create", b"pipe", handle=1, flags=os.O_RDWR) == errno.EACCES
        with pytest.raises(subprocess.TimeoutExpired):
            writer.wait(0.2)
        writer.kill()


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


def test_a_write_that_appends(mountd, directory):
    """A guest may say O_APPEND for the first time when it writes."""
    assert mountd.error("create", b"log", handle=1, flags=os.O_RDWR, mode=0o644) == 0
    (directory / "log").write_bytes(b"host\n")
    assert mountd.error("write", b"", b"guest\n", handle=1, offset=0, flags=os.O_APPEND) == 0
    assert (directory / "log").read_bytes() == b"host\nguest\n"


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
