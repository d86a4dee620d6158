# SPDX-License-Identifier: Apache-2.0
"""cubby sync while files change: a change comes right before a request that the test knows."""

import json
import os
import shutil
import signal
import subprocess

import pytest

from fake_cubbyd import ID, wait_for
from fake_fixtures import *  # noqa: F401,F403
from sync_program import CUBBY, ME, OLD, run, settled, sync, tree, write

LARGE = 5 << 20
CHANGES = "it changes while it is copied; the next cubby sync copies it"
LIST, PACK, UNPACK, PLACE, DELETE = b"-mindepth", b"tar -cf", b"tar -xpf", b"touch -d", b"rmdir"  # words of the scripts


@pytest.fixture
def before(fake):
    """before(words, change): call `change` before each request that has the words."""
    def hook(words, change):
        fake.on_request = lambda path, body: change() if words in path.encode() + body else None
    return hook


@pytest.fixture
def tools(fake, tmp_path):
    """tools(name, script): what the sandbox runs for a program, in which $REAL is the real one."""
    def replace(name, script):
        (tmp_path / "tools").mkdir(exist_ok=True)
        program = tmp_path / "tools" / name
        program.write_text(f"#!/bin/sh\nREAL={shutil.which(name)}\n{script}\n")
        program.chmod(0o755)
        fake.init(envVars={"PATH": f"{tmp_path / 'tools'}:{os.environ['PATH']}"})
        return program
    return replace


def append(path, text):
    with open(path, "a") as file:
        file.write(text)


def left_out(fake, host, guest, *names):
    """A sync that leaves the names out, because they change. Return its answer."""
    status, out, err = run(fake, host, guest, "--json")
    answer = json.loads(out)
    assert status == 1 and answer["changingCount"] == len(names), (out, err)
    assert [s for s in answer["skipped"] if s["reason"] == CHANGES] == [
        {"path": name, "reason": CHANGES} for name in names]
    return answer


# ---- one side only writes
def test_a_log_that_grows_in_the_sandbox_is_no_conflict(fake, host, guest, before):
    write(guest / "log", "line 0\n")
    before(PACK, lambda: append(guest / "log", "one more\n"))
    for turn in range(3):
        assert sync(fake, host, guest)["conflicts"] == []
        assert (host / "log").read_text() == (guest / "log").read_text() and len(tree(guest)) == 1
        append(guest / "log", "between\n")
    fake.on_request = None
    assert sync(fake, host, guest)["conflicts"] == []
    settled(fake, host, guest)


def test_a_log_that_grows_on_the_host_blocks_nothing(fake, host, guest, before):
    write(host / "log", "line 0\n")
    write(host / "a", "base")
    sync(fake, host, guest)
    before(b"filesystem.Filesystem/Stat", lambda: append(host / "log", "one more\n"))
    write(host / "a", "ours", OLD + 1)
    write(guest / "a", "theirs", OLD + 2)
    write(host / "new", "new")
    for turn in range(3):
        append(host / "log", "between\n")
        assert len(sync(fake, host, guest)["conflicts"]) == (turn == 0)
        assert (guest / "log").read_text() == (host / "log").read_text()
    assert (guest / "new").exists() and len(tree(guest)) == 4
    fake.on_request = None
    assert sync(fake, host, guest)["conflicts"] == []
    settled(fake, host, guest)


def test_a_large_log_that_grows_in_the_sandbox(fake, host, guest, before):
    write(guest / "log", "L" * LARGE)
    write(guest / "small", "small")
    before(b"/files?", lambda: append(guest / "log", "more"))
    left_out(fake, host, guest, "log")
    assert tree(host) == {"small": "small"}
    fake.on_request = None
    sync(fake, host, guest)
    settled(fake, host, guest)


# ---- it changes while it is read
def test_a_file_that_changes_while_tar_reads_it(fake, host, guest, tools):
    write(guest / "log", "old")
    write(guest / "other", "other")
    tar = tools("tar", f'"$REAL" "$@"; echo more >>"{guest}/log"; case "$1" in -cf) exit 1; esac')
    left_out(fake, host, guest, "log")
    assert tree(host) == {"other": "other"}
    tar.unlink()
    sync(fake, host, guest)
    settled(fake, host, guest)


def test_a_file_that_changes_while_it_is_uploaded(fake, host, guest, before):
    """The rest is finished, with its conflict; the file comes in the next turn."""
    write(host / "a", "base")
    sync(fake, host, guest)
    write(host / "a", "ours", OLD + 1)
    write(guest / "a", "theirs", OLD + 2)
    write(host / "log", "L" * LARGE)
    write(host / "new", "new")
    before(b".part", lambda: append(host / "log", "more"))
    answer = left_out(fake, host, guest, "log")
    (conflict,) = answer["conflicts"]
    assert tree(guest) == {"a": "ours", conflict["kept"]: "theirs", "new": "new"}
    status, out, err = run(fake, host, guest)
    assert (status, out) == (1, "") and f"left out log: {CHANGES}" in err
    fake.on_request = None
    sync(fake, host, guest)
    settled(fake, host, guest)


# ---- what is to be replaced changes
@pytest.mark.parametrize("size", [1, LARGE], ids=["small", "large"])
@pytest.mark.parametrize("is_there", [True, False], ids=["changed", "new"])
def test_a_file_of_the_sandbox_that_changed_is_not_replaced(fake, host, guest, before, size, is_there):
    write(host / "other", "other")
    if is_there:
        write(host / "f", "base")
    sync(fake, host, guest)
    write(host / "f", "o" * size, OLD + 1)
    write(host / "more", "more")
    before(UNPACK if size == 1 else PLACE, lambda: write(guest / "f", "theirs", OLD + 2))
    assert left_out(fake, host, guest, "f")["conflicts"] == []
    assert tree(guest) == {"f": "theirs", "other": "other", "more": "more"}
    fake.on_request = None
    (conflict,) = sync(fake, host, guest)["conflicts"]
    assert (host / conflict["kept"]).read_text() == "theirs" and (host / "f").stat().st_size == size
    settled(fake, host, guest)


@pytest.mark.parametrize("size", [1, LARGE], ids=["small", "large"])
@pytest.mark.parametrize("is_there", [True, False], ids=["changed", "new"])
def test_a_file_of_the_host_that_changed_is_not_replaced(fake, host, guest, before, size, is_there):
    write(host / "other", "other")
    if is_there:
        write(host / "f", "base")
    sync(fake, host, guest)
    write(guest / "f", "t" * size, OLD + 1)
    before(PACK if size == 1 else b"printf $kind; list; exit 0", lambda: write(host / "f", "ours", OLD + 2))
    assert left_out(fake, host, guest, "f")["conflicts"] == []
    assert tree(host) == {"f": "ours", "other": "other"}
    fake.on_request = None
    (conflict,) = sync(fake, host, guest)["conflicts"]
    assert (host / "f").read_text() == "ours" and (host / conflict["kept"]).stat().st_size == size
    settled(fake, host, guest)


@pytest.mark.parametrize("side", ["host", "guest"])
def test_a_file_that_changed_is_not_deleted(fake, host, guest, before, side):
    for name in ("f", "g", "h"):
        write(host / name, name)
    sync(fake, host, guest)
    here, there = (guest, host) if side == "host" else (host, guest)
    (here / "f").unlink()
    (here / "g").unlink()
    before(LIST if side == "host" else DELETE, lambda: write(there / "f", "changed", OLD + 1))
    assert left_out(fake, host, guest, "f")["deleted"] == 1
    assert tree(there) == {"f": "changed", "h": "h"}
    fake.on_request = None
    assert sync(fake, host, guest)["conflicts"] == [{"path": "f", "kept": "f"}]
    settled(fake, host, guest)


def test_a_conflict_that_grows_in_the_sandbox(fake, host, guest, before):
    """Its new version is as good as the listed one: it gets the other path in the next turn."""
    write(host / "f", "base")
    sync(fake, host, guest)
    write(host / "f", "ours", OLD + 1)
    write(guest / "f", "theirs", OLD + 2)
    before(UNPACK, lambda: append(guest / "f", "more"))
    assert left_out(fake, host, guest, "f")["conflicts"] == [] and list(tree(guest)) == ["f"]
    fake.on_request = None
    (conflict,) = sync(fake, host, guest)["conflicts"]
    assert tree(host) == {"f": "ours", conflict["kept"]: "theirsmore"}
    settled(fake, host, guest)


# ---- a turn that fails
def test_a_conflict_gets_its_path_back(fake, host, guest, tools):
    write(host / "a", "base")
    sync(fake, host, guest)
    write(host / "a", "ours", OLD + 1)
    write(guest / "a", "theirs", OLD + 2)
    tar = tools("tar", "echo 'tar: it failed' >&2; exit 2")
    status, out, err = run(fake, host, guest)
    assert status == 1 and "tar: it failed" in err and out == ""
    assert tree(guest) == {"a": "theirs"}
    tar.write_text(f"#!/bin/sh\necho part >{guest}/a; exit 2\n")  # as when the disk is full
    status, out, err = run(fake, host, guest)
    assert status == 1 and "conflict: a changed on both sides; the sandbox's version is a.sandbox-" in out
    assert sorted(tree(guest).values()) == ["part\n", "theirs"]
    tar.unlink()
    sync(fake, host, guest)
    assert {"ours", "theirs"} < set(tree(host).values())
    settled(fake, host, guest)


def test_a_conflict_is_told_also_by_a_turn_that_fails(fake, host, guest, before):
    write(host / "a", "base")
    sync(fake, host, guest)
    write(host / "a", "ours", OLD + 1)
    write(guest / "a", "theirs", OLD + 2)
    write(host / "large", "L" * LARGE)
    refusal = {"code": 502, "message": "refused by the test"}
    before(b".part", lambda: setattr(fake, "refusal", refusal))
    status, out, err = run(fake, host, guest, "--json")
    answer = json.loads(out)
    assert status == 1 and "refused by the test" in err and "refused by the test" in answer["error"], err
    (conflict,) = answer["conflicts"]
    fake.on_request = fake.refusal = None
    answer = sync(fake, host, guest)
    assert answer["conflicts"] == [] and answer["files"] == 2
    assert tree(host) == {"a": "ours", conflict["kept"]: "theirs", "large": "L" * LARGE}
    settled(fake, host, guest)


# ---- watching
@pytest.fixture
def watching(fake, host, guest):
    """A watch whose first turn is over."""
    write(host / "first", "first")
    program = subprocess.Popen([CUBBY, "sync", "--user", ME, "--watch", "--json", "--quiet", host, f"{ID}:{guest}"],
                               env=fake.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert json.loads(program.stdout.readline())["files"] == 1
    yield program
    program.kill()
    program.communicate()


def stop(program):
    program.send_signal(signal.SIGINT)
    out, err = program.communicate(timeout=60)
    assert program.returncode == 0, err
    return err.decode()


def test_a_watch_tries_again(fake, host, guest, before, watching):
    times = []

    def change():
        if not times:
            append(host / "log", "more")
        times.append(1)
    before(b".part", change)
    write(host / "log.new", "L" * LARGE)
    os.rename(host / "log.new", host / "log")
    wait_for(lambda: (guest / "log").exists(), 60)
    assert (guest / "log").read_text() == "L" * LARGE + "more" and len(times) > 1
    assert stop(watching) == ""


def test_a_watch_waits_while_the_sandbox_is_paused(fake, host, guest, watching):
    fake.sandboxes[ID]["state"] = "paused"
    fake.refusal = {"code": 502, "message": "it is paused", "error_code": "sandbox_paused"}
    fake.cut_streams()
    write(host / "new", "new")
    line = watching.stderr.readline().decode()
    assert line == "cubby: the sandbox is paused; the synchronisation goes on when it runs again\n"
    fake.seen.clear()
    wait_for(lambda: len(fake.seen) > 2, 60)
    assert {where for where, *_ in fake.seen} == {"api"}  # nothing that could wake it
    fake.refusal = None
    fake.sandboxes[ID]["state"] = "running"
    wait_for(lambda: (guest / "new").exists(), 60)
    assert stop(watching) == ""


def test_a_watch_goes_on_after_a_pause_during_a_turn(fake, host, guest, before, watching):
    """It is over again when the program asks."""
    refusal = {"code": 502, "message": "it is paused", "error_code": "sandbox_paused"}
    times = []

    def change():
        times.append(1)
        fake.refusal = refusal if len(times) == 1 else None
    before(b"filesystem.Filesystem/Stat", change)
    write(host / "new", "new")
    wait_for(lambda: (guest / "new").exists(), 60)
    stop(watching)


def test_a_watch_reads_the_rules_again(fake, host, guest, watching):
    write(host / "notes", "none")
    wait_for(lambda: (guest / "notes").exists(), 60)
    write(host / ".cubbyignore", "secret\n")
    write(host / "secret", "secret")
    write(host / "new", "new")
    wait_for(lambda: (guest / "new").exists(), 60)
    stop(watching)
    assert not (guest / "secret").exists()


def test_a_watch_ends_with_the_sandbox(fake, host, guest, watching):
    del fake.sandboxes[ID]
    fake.ended[ID] = "it ended"
    fake.refusal = {"code": 502, "message": "it ended", "error_code": "sandbox_ended"}
    write(host / "new", "new")
    assert watching.wait(60) == 1 and b"ended" in watching.stderr.read()
