# SPDX-License-Identifier: Apache-2.0
"""cubby cp, both ways, with a real envd: its commands and files are those of this host."""

import json
import os
import pathlib
import pwd
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import threading

import pytest

from fake_cubbyd import ID, wait_for
from fake_fixtures import *  # noqa: F401,F403

CUBBY = pathlib.Path(os.environ["BIN"]) / "cubby"
ME = pwd.getpwuid(os.getuid()).pw_name
LARGE = 5 << 20  # travels by itself


def cp(fake, *words, env=None, cwd=None):
    done = subprocess.run([CUBBY, "cp", "--user", ME, *words], env={**fake.env, **(env or {})}, capture_output=True,
                          timeout=120, cwd=cwd)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def make_tree(top):
    top.mkdir()
    (top / "empty").mkdir()
    (top / "src").mkdir(mode=0o750)
    (top / "src/run.sh").write_text("#!/bin/sh\necho hi\n")
    (top / "src/run.sh").chmod(0o755)
    (top / "src/private").write_bytes(bytes(range(256)) * 40)
    (top / "src/private").chmod(0o600)
    (top / "-x").write_text("a dash")
    (top / " space\nline '\"\\ü").write_text("odd")
    (top / "large").write_bytes(os.urandom(LARGE))
    (top / "nothing").touch()
    (top / "link").symlink_to("src/run.sh")
    (top / "src/up").symlink_to("../large")
    with open(os.fsencode(top) + b"/latin-\xe9", "wb") as file:
        file.write(b"not UTF-8")
    with open(os.fsencode(top) + b"/large-\xe9", "wb") as file:
        file.write(b"z" * LARGE)
    (top / "shut").mkdir()
    (top / "shut/in").write_text("in")
    (top / "shut").chmod(0o555)
    for path in top.rglob("*"):
        if not path.is_symlink():
            os.utime(path, (1_600_000_000, 1_600_000_000))


def tree(top):
    """Each entry with what a copy keeps."""
    top = os.fsencode(top)
    found = {}
    for where, dirs, files in os.walk(top):
        for name in dirs + files:
            path = os.path.join(where, name)
            st = os.lstat(path)
            what = os.readlink(path) if stat.S_ISLNK(st.st_mode) else None
            if stat.S_ISREG(st.st_mode):
                what = (pathlib.Path(os.fsdecode(path)).read_bytes(), int(st.st_mtime))
            mode = None if stat.S_ISLNK(st.st_mode) else st.st_mode
            found[os.path.relpath(path, top)] = (mode, what)
    return found


# ---- whole trees
def test_a_tree_goes_in_and_comes_out(fake, host, guest):
    temporary = guest.parent / "temporary"
    temporary.mkdir()
    fake.init(envVars={"PATH": os.environ["PATH"], "TMPDIR": str(temporary)})
    make_tree(host / "proj")
    assert cp(fake, host / "proj", f"{ID}:{guest}") == (0, "", "")
    assert tree(guest / "proj") == tree(host / "proj")
    assert cp(fake, f"{ID}:{guest}/proj", host / "back") == (0, "", "")
    assert tree(host / "back") == tree(host / "proj")
    assert not list(temporary.iterdir())


def test_the_names_follow_cp(fake, host, guest):
    (host / "a").mkdir()
    (host / "a/x").write_text("x")
    assert cp(fake, host / "a", f"{ID}:{guest}/new")[0] == 0
    assert cp(fake, f"{host}/a/.", f"{ID}:{guest}")[0] == 0
    assert cp(fake, host / "a/x", f"{ID}:{guest}/y")[0] == 0
    assert cp(fake, host / "a/x", f"{ID}:{guest}/new")[0] == 0
    assert sorted(tree(guest)) == [b"new", b"new/x", b"x", b"y"]
    assert cp(fake, f"{ID}:{guest}/new", host)[0] == 0
    assert cp(fake, f"{ID}:{guest}/new/.", host / "b")[0] == 0
    assert cp(fake, f"{ID}:{guest}/y", host)[0] == 0
    assert cp(fake, f"{ID}:{guest}/y", host / "z")[0] == 0
    assert sorted(tree(host)) == [b"a", b"a/x", b"b", b"b/x", b"new", b"new/x", b"y", b"z"]


def test_a_relative_path_begins_at_the_home(fake, host):
    home = pathlib.Path(pwd.getpwnam(ME).pw_dir)
    name = f"cubby-cp-{os.getpid()}"
    (host / "f").write_text("mine")
    try:
        assert cp(fake, host / "f", f"{ID}:{name}") == (0, "", "")
        assert (home / name).read_text() == "mine"
        assert cp(fake, f"{ID}:~/{name}", host / "g") == (0, "", "")
        assert (host / "g").read_text() == "mine"
    finally:
        (home / name).unlink(missing_ok=True)


def test_a_file_keeps_its_permissions_and_time(fake, host, guest):
    (host / "f").write_bytes(os.urandom(100000))
    (host / "f").chmod(0o711)
    os.utime(host / "f", (1_500_000_000, 1_500_000_000))
    assert cp(fake, host / "f", f"{ID}:{guest}/f")[0] == 0
    assert cp(fake, f"{ID}:{guest}/f", host / "g")[0] == 0
    assert (host / "f").read_bytes() == (guest / "f").read_bytes() == (host / "g").read_bytes()
    for path in (guest / "f", host / "g"):
        assert (path.stat().st_mode & 0o7777, int(path.stat().st_mtime)) == (0o711, 1_500_000_000)


def test_many_files_need_several_tars(fake, host, guest):
    top = host / "many"
    top.mkdir()
    for i in range(700):
        (top / f"file-{i:05}-{'x' * 60}").write_text(str(i))
    status, out, _ = cp(fake, "--json", top, f"{ID}:{guest}")
    assert status == 0 and json.loads(out)["files"] == 700
    assert tree(guest / "many") == tree(top)
    assert cp(fake, f"{ID}:{guest}/many", host / "back")[0] == 0
    assert tree(host / "back") == tree(top)


def test_json(fake, host, guest):
    make_tree(host / "proj")
    os.mkfifo(host / "proj/fifo")
    status, out, err = cp(fake, "--json", host / "proj", f"{ID}:{guest}")
    answer = json.loads(out)
    assert status == 0 and err == ""
    assert (answer["files"], answer["directories"], answer["links"]) == (9, 3, 2)
    assert answer["skipped"] == [{"path": "fifo", "reason": "neither a file, a directory nor a link"}]


# ---- resume
def test_resume_copies_only_what_differs(fake, host, guest):
    make_tree(host / "proj")
    assert cp(fake, host / "proj", f"{ID}:{guest}")[0] == 0
    (guest / "proj/large").unlink()
    (host / "proj/src/private").write_text("other")
    status, out, _ = cp(fake, "--resume", "--json", host / "proj", f"{ID}:{guest}")
    answer = json.loads(out)
    assert status == 0 and (answer["files"], answer["unchanged"]) == (2, 7)
    assert answer["bytes"] == LARGE + len("other")
    assert tree(guest / "proj") == tree(host / "proj")
    assert cp(fake, f"{ID}:{guest}/proj", host / "back")[0] == 0
    (guest / "proj/nothing").write_text("more")
    answer = json.loads(cp(fake, "--resume", "--json", f"{ID}:{guest}/proj/.", host / "back")[1])
    assert (answer["files"], answer["unchanged"], answer["bytes"]) == (1, 8, 4)
    assert tree(guest / "proj") == tree(host / "back")


def test_resume_of_one_file(fake, host, guest):
    (host / "f").write_text("one")
    assert cp(fake, host / "f", f"{ID}:{guest}/f")[0] == 0
    assert json.loads(cp(fake, "--resume", "--json", host / "f", f"{ID}:{guest}/f")[1])["unchanged"] == 1
    assert cp(fake, f"{ID}:{guest}/f", host / "g")[0] == 0
    assert json.loads(cp(fake, "--resume", "--json", f"{ID}:{guest}/f", host / "g")[1])["unchanged"] == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("inward", [True, False], ids=["in", "out"])
def test_an_interrupted_copy_goes_on(fake, host, guest, number, inward):
    source, target = (host, guest) if inward else (guest, host)
    make_tree(source / "proj")
    words = [source / "proj", f"{ID}:{target}/copy"] if inward else [f"{ID}:{source}/proj", target / "copy"]
    fake.files_gate = threading.Event()
    running = subprocess.Popen([CUBBY, "cp", "--user", ME, *words], env=fake.env, stderr=subprocess.PIPE)
    wait_for(lambda: any("/files?" in path for _, _, path, _, _ in fake.seen))
    running.send_signal(number)
    _, said = running.communicate(timeout=60)
    fake.files_gate.set()
    words[0] = f"{words[0]}/."  # the words that it says; without "/." the copy would go inside
    assert running.returncode == 128 + number
    assert f"cubby cp --resume {words[0]} {words[1]} goes on with it" in said.decode()
    assert cp(fake, "--resume", *words) == (0, "", "")
    assert tree(target / "copy") == tree(source / "proj")


# ---- hostile sandboxes: whatever they send, nothing is written outside the destination
TAR = """#!{python}
import io, os, sys, tarfile
if "-cf" not in sys.argv:
    os.execv("/bin/tar", sys.argv)
with tarfile.open(sys.argv[sys.argv.index("-cf") + 1], "w") as out:
{lines}
"""


def hostile(fake, guest, lines):
    """Makes the sandbox's tar write the entries of a program."""
    tools = guest.parent / "tools"
    tools.mkdir()
    body = "\n".join("    " + line for line in lines)
    (tools / "tar").write_text(TAR.format(python=sys.executable, lines=body))
    (tools / "tar").chmod(0o755)
    fake.init(envVars={"PATH": f"{tools}:{os.environ['PATH']}"})


ENTRY = "e = tarfile.TarInfo({!r}); "
# A sparse file of GNU tar's old format: its map of (offset, bytes), and its size. It has 512 bytes of data.
SPARSE = """e = tarfile.TarInfo("./d/x"); e.type = tarfile.GNUTYPE_SPARSE; e.size = 512; \\
    h = bytearray(e.tobuf(tarfile.GNU_FORMAT)); n = lambda v: tarfile.itn(v, 12, tarfile.GNU_FORMAT); \\
    h[386:482] = b"".join(n(v) for pair in {} for v in pair); h[483:495] = n({}); \\
    h[148:156] = b" " * 8; h[148:156] = b"%06o\\0 " % sum(h); \\
    out.fileobj.write(bytes(h) + b"x" * 512); out.offset += 1024"""
HOSTILE = {
    "absolute": [ENTRY.format("/OUT/x") + "e.size = 1; out.addfile(e, io.BytesIO(b'x'))"],
    "dots": [ENTRY.format("../OUT/x") + "e.size = 1; out.addfile(e, io.BytesIO(b'x'))"],
    "dots within": [ENTRY.format("./d/../../OUT/x") + "e.size = 1; out.addfile(e, io.BytesIO(b'x'))"],
    "through a link": [ENTRY.format("./d") + "e.type = tarfile.SYMTYPE; e.linkname = '../OUT'; out.addfile(e)",
                       ENTRY.format("./d/x") + "e.size = 1; out.addfile(e, io.BytesIO(b'x'))"],
    "a hard link out": [ENTRY.format("./d/x") + "e.type = tarfile.LNKTYPE; e.linkname = '../../OUT/kept'; out.addfile(e)"],
    "a device": [ENTRY.format("./d/x") + "e.type = tarfile.CHRTYPE; e.devmajor = 1; e.devminor = 3; out.addfile(e)"],
    "not asked for": [ENTRY.format("./other") + "e.size = 1; out.addfile(e, io.BytesIO(b'x'))"],
    "garbage": ["out.fileobj.write(os.urandom(100000))"],
    "larger than listed": [ENTRY.format("./d/x") + "e.size = 3 << 20; out.addfile(e, io.BytesIO(bytes(e.size)))"],
    "a hole at the beginning": [SPARSE.format([(64 << 20, 512), (0, 0), (0, 0), (0, 0)], (64 << 20) + 512)],
    "a hole at the end": [SPARSE.format([(0, 512), (64 << 20, 0), (0, 0), (0, 0)], 64 << 20)],
    "a hole of 8 TiB": [SPARSE.format([((8 << 40) - 512, 512), (0, 0), (0, 0), (0, 0)], 8 << 40)],
    "endless": ["e = tarfile.TarInfo('./d/x'); e.size = 9 << 20; out.addfile(e, open('/dev/zero', 'rb'))"],
}


@pytest.mark.parametrize("attack", HOSTILE)
def test_a_hostile_archive_writes_nothing_outside(fake, host, guest, attack):
    outside = host / "OUT"
    outside.mkdir()
    (outside / "kept").write_text("kept")
    (guest / "p/d").mkdir(parents=True)
    (guest / "p/d/x").write_text("x")
    for i in range(500):  # the more entries, the larger the archive may be
        (guest / f"p/e{i}").mkdir()
    hostile(fake, guest, [line.replace("/OUT/", f"{outside}/") if attack == "absolute" else line
                          for line in HOSTILE[attack]])
    status, _, said = cp(fake, f"{ID}:{guest}/p", host / "copy")
    assert status == 1 and said.startswith("cubby: ")
    assert ("sparse" in said) == ("hole" in attack)
    assert "changed" in said or attack != "larger than listed"
    assert {k: v[1] for k, v in tree(outside).items()} == {b"kept": (b"kept", int((outside / "kept").stat().st_mtime))}
    assert (outside / "kept").stat().st_nlink == 1
    assert set(tree(host)) <= {b"OUT", b"OUT/kept", b"copy", b"copy/d"}


def test_links_that_lead_out_are_left_out(fake, host, guest):
    (guest / "p/d").mkdir(parents=True)
    for name, target in {"abs": "/etc/passwd", "up": "../x", "d/up": "../../x", "trick": "d/../..", "d/in": "../x",
                         "in": "d/./x", "nowhere": "none"}.items():
        (guest / "p" / name).symlink_to(target)
    status, out, err = cp(fake, f"{ID}:{guest}/p", host / "a")
    assert status == 0 and out == "" and err.count("left out") == 4
    assert {k for k in tree(host / "a")} == {b"d", b"d/in", b"in", b"nowhere"}
    assert cp(fake, "--keep-links", f"{ID}:{guest}/p", host / "b") == (0, "", "")
    assert tree(host / "b") == tree(guest / "p")


DEEP = "d/d/d/d/d/d/d/d"
LINK = ENTRY.format(f"./{DEEP}/l") + "e.type = tarfile.SYMTYPE; e.linkname = '../' * 8 + 'f'; out.addfile(e)"
SECOND = "e.type = tarfile.LNKTYPE; e.linkname = './{}'; out.addfile(e)"


@pytest.mark.parametrize("lines", [
    [LINK, ENTRY.format("./x") + SECOND.format(f"{DEEP}/l")], [LINK, ENTRY.format("./s") + SECOND.format(f"{DEEP}/l")],
    [ENTRY.format("./x") + SECOND.format("was")], [ENTRY.format("./x") + SECOND.format("d")]],
    ids=["of a link", "that should be a link", "of a link that was there", "of a directory"])
def test_a_hard_link_of_a_symbolic_link_is_refused(fake, host, guest, lines):
    """A link may lead up as far as it is deep. Its second name nearer to the top would lead out."""
    (guest / "p" / DEEP).mkdir(parents=True)
    (guest / "p" / DEEP / "l").symlink_to("../" * 8 + "f")
    (guest / "p/s").symlink_to("f")
    for name in ("f", "x", "was"):
        (guest / "p" / name).touch()
    (host / "copy/d").mkdir(parents=True)
    (host / "copy/was").symlink_to("../../victim")
    hostile(fake, guest, lines)
    status, _, said = cp(fake, f"{ID}:{guest}/p/.", host / "copy")
    assert status == 1 and ("changed while it was copied" in said or "is no file" in said)
    links = {name: what for name, (_, what) in tree(host / "copy").items() if isinstance(what, str | bytes)}
    assert set(links) <= {b"was", f"{DEEP}/l".encode()}


def test_a_size_that_no_sum_can_hold(fake, host, guest):
    tools = guest.parent / "tools"
    tools.mkdir()
    (tools / "find").write_text("#!/bin/sh\n[ \"$2\" = -maxdepth ] || printf 'f 644 9223372036854775807 1.0 ./x\\0\\0'\n")
    (tools / "find").chmod(0o755)
    fake.init(envVars={"PATH": f"{tools}:{os.environ['PATH']}"})
    status, _, said = cp(fake, f"{ID}:{guest}", host / "copy")
    assert status == 1 and "invalid listing entry" in said


def test_a_link_in_the_destination_is_not_followed(fake, host, guest):
    """As an earlier copy, or another program, may have left it."""
    (guest / "p/d").mkdir(parents=True)
    (guest / "p/d/x").write_text("x")
    (host / "OUT").mkdir()
    (host / "copy").mkdir()
    (host / "copy/d").symlink_to(host / "OUT")
    status, _, said = cp(fake, f"{ID}:{guest}/p/.", host / "copy")
    assert status == 1 and "d" in said and not list((host / "OUT").iterdir())
    (host / "copy/d").unlink()
    (host / "copy/d").mkdir()
    (host / "copy/d/x").symlink_to(host / "OUT/x")
    assert cp(fake, f"{ID}:{guest}/p/.", host / "copy") == (0, "", "")
    assert (host / "copy/d/x").read_text() == "x" and not (host / "OUT/x").exists()


def test_permissions_that_the_host_does_not_take(fake, host, guest):
    (guest / "p").mkdir()
    (guest / "p/f").write_text("f")
    (guest / "p/f").chmod(0o6777)
    assert cp(fake, f"{ID}:{guest}/p", host)[0] == 0
    assert (host / "p/f").stat().st_mode & 0o7777 == 0o755


def test_hard_links(fake, host, guest):
    (guest / "p").mkdir()
    (guest / "p/a").write_text("same")
    os.link(guest / "p/a", guest / "p/b")
    assert cp(fake, f"{ID}:{guest}/p", host)[0] == 0
    assert os.path.samefile(host / "p/a", host / "p/b") and (host / "p/b").read_text() == "same"


# ---- sandboxes with fewer programs
def only(fake, guest, *programs):
    tools = guest.parent / "few"
    tools.mkdir()
    for name in programs:
        (tools / name).symlink_to(shutil.which(name))
    fake.init(envVars={"PATH": str(tools)})


def test_a_sandbox_without_tar(fake, host, guest):
    make_tree(host / "proj")
    only(fake, guest, "find", "chmod", "touch", "mv", "rm")
    status, _, said = cp(fake, host / "proj", f"{ID}:{guest}")
    assert status == 1 and "the sandbox has no tar: install it, or copy single files" in said
    assert cp(fake, host / "proj/large", f"{ID}:{guest}") == (0, "", "")
    assert cp(fake, f"{ID}:{guest}/large", host / "large") == (0, "", "")
    assert (host / "large").read_bytes() == (host / "proj/large").read_bytes()


def test_busybox(fake, host, guest):
    """Its find has no -printf, and its tar and xargs are other programs."""
    make_tree(host / "proj")
    (host / "proj/ space\nline '\"\\ü").unlink()
    tools = guest.parent / "few"
    tools.mkdir()
    for name in ("find", "tar", "xargs", "stat", "mktemp", "rm", "mkdir", "chmod", "touch", "mv"):
        (tools / name).symlink_to(shutil.which("busybox"))
    fake.init(envVars={"PATH": str(tools)})
    assert cp(fake, host / "proj", f"{ID}:{guest}") == (0, "", "")
    assert tree(guest / "proj") == tree(host / "proj")
    assert cp(fake, f"{ID}:{guest}/proj", host / "back") == (0, "", "")
    assert tree(host / "back") == tree(host / "proj")
    (guest / "proj/a\nb").touch()
    status, _, said = cp(fake, f"{ID}:{guest}/proj", host / "again")
    assert status == 1 and "line end" in said


# ---- failures
@pytest.mark.skipif(os.getuid() != 0, reason="mounts a file system, which needs root")
def test_a_full_disk(fake, host, guest):
    (host / "f").write_bytes(b"x" * (3 << 20))
    small = host / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1M", "none", small], check=True)
    try:
        (guest / "p").mkdir()
        (guest / "p/f").write_bytes(b"x" * (3 << 20))
        (guest / "p/g").write_bytes(b"x" * LARGE)
        for source in (f"{ID}:{guest}/p", f"{ID}:{guest}/p/g"):
            status, _, said = cp(fake, source, small)
            assert status == 1 and "No space left" in said
            assert not list(small.rglob(".cubby-*")) and not list(small.rglob("[fg]"))
        (host / "d").mkdir()
        (host / "d/f").write_bytes(b"x" * (3 << 20))
        for source in (host / "f", host / "d"):
            status, _, said = cp(fake, source, f"{ID}:{small}/q")
            assert status == 1 and ("No space left" in said or "is its disk full?" in said or "not enough" in said)
            assert not list(small.rglob(".cubby-*"))
    finally:
        subprocess.run(["umount", small], check=True)


@pytest.mark.parametrize("words, status, said", [
    ([], 2, "takes a source and a destination"), (["a", "b"], 2, "one of the two paths must be in a sandbox"),
    ([f"{ID}:a", f"{ID}:b"], 2, "one of the two paths"), (["none", f"{ID}:/tmp"], 1, "none: No such file"),
    ([f"{ID}:/none/x", "."], 1, "the sandbox has no /none/x"), ([f"{ID}:/dev/null", "."], 1, "neither a file"),
    (["/dev/null", f"{ID}:/tmp"], 1, "neither a file"), ([f"{ID}:/etc", "/dev/null"], 1, "not a directory"),
    ([f"{ID}:/etc/passwd", "none/"], 1, "no directory"), (["/etc", f"{ID}:/etc/passwd"], 1, "is not a directory"),
    (["x", f"{ID}:/\udce9"], 1, "UTF-8"), (["/etc/passwd", "ffffffffffffffffffff:/x"], 1, "does not exist")])
def test_mistakes(fake, host, words, status, said):
    (host / "x").touch()
    done = cp(fake, *words, cwd=host)
    assert done[0] == status and said in done[2]
    assert [path.name for path in host.iterdir()] == ["x"]


@pytest.mark.skipif(os.getuid() != 0, reason="envd of another user has one user")
def test_a_user_who_may_not_write_there(fake, host):
    (host / "f").write_text("x")
    shut = pathlib.Path(tempfile.mkdtemp())
    shut.chmod(0o755)
    done = subprocess.run([CUBBY, "cp", "--user", "nobody", host / "f", f"{ID}:{shut}/new/f"], env=fake.env, capture_output=True,
                          timeout=120, text=True)
    assert done.returncode == 1 and f"may not write in {shut}; with --user root" in done.stderr, done.stderr
    assert list(shut.iterdir()) == []
    (shut / "f").mkdir()  # mv fails, when the file has been uploaded
    (shut / "f/f").mkdir()
    assert cp(fake, host / "f", f"{ID}:{shut}/f")[0] == 1
    assert [path.name for path in shut.rglob("*")] == ["f", "f"]
    shutil.rmtree(shut)


def test_the_progress_is_shown_on_a_terminal(fake, host, guest):
    (host / "f").write_bytes(b"x" * LARGE)
    ours, theirs = os.openpty()
    fake.files_gate = threading.Event()
    running = subprocess.Popen([CUBBY, "cp", "--user", ME, host / "f", f"{ID}:{guest}"], env=fake.env, stderr=theirs)
    os.close(theirs)
    shown = b""
    while b"of 5.2 MB" not in shown:
        shown += os.read(ours, 65536)
    assert b"%" in shown and b"[" in shown
    fake.files_gate.set()
    assert running.wait(60) == 0
    os.close(ours)
