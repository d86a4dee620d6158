# SPDX-License-Identifier: Apache-2.0
"""cubby sync, with a real envd: its files are those of this host."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import threading

import pytest

from fake_cubbyd import ID, wait_for
from fake_fixtures import *  # noqa: F401,F403
from sync_program import CUBBY, ME, OLD, run, settled, sync, tree, write


def test_both_ways(fake, host, guest):
    write(host / "a/one", "1")
    write(guest / "b/two", "2")
    (host / "a/link").symlink_to("one")
    (guest / "b/run").write_text("x")
    (guest / "b/run").chmod(0o755)
    (host / "large").write_text("L" * (5 << 20))
    answer = sync(fake, host, guest)
    assert (answer["files"], answer["links"], answer["deleted"]) == (4, 1, 0)
    assert (host / "b/run").stat().st_mode & 0o777 == 0o755
    settled(fake, host, guest)
    write(host / "a/one", "11", OLD + 1)
    write(guest / "b/two", "22", OLD + 1)
    (guest / "large").write_text("M" * (5 << 20))
    (host / "a/link").unlink()
    (host / "a/link").symlink_to("../b")
    (host / "b/run").chmod(0o700)
    assert sync(fake, host, guest)["files"] == 4
    assert (guest / "a/one").read_text() == "11" and (host / "b/two").read_text() == "22"
    assert (guest / "b/run").stat().st_mode & 0o777 == 0o700 and (host / "large").read_text()[0] == "M"
    settled(fake, host, guest)


def test_two_names_of_one_file(fake, host, guest):
    write(guest / "a", "text")
    (guest / "a").chmod(0o666)
    os.link(guest / "a", guest / "b")
    assert sync(fake, host, guest)["files"] == 2
    settled(fake, host, guest)


def test_deletions(fake, host, guest):
    for name in ("a/x", "a/y", "b/z", "c"):
        write(host / name, name)
    sync(fake, host, guest)
    shutil.rmtree(host / "a")
    (guest / "c").unlink()
    assert sync(fake, host, guest)["deleted"] == 4
    assert tree(host) == {"b": None, "b/z": "b/z"}
    settled(fake, host, guest)


def test_a_directory_that_is_deleted_here_and_used_there(fake, host, guest):
    write(host / "d/old", "old")
    write(host / "other", "other")
    sync(fake, host, guest)
    shutil.rmtree(host / "d")
    write(guest / "d/new", "new")
    sync(fake, host, guest)
    sync(fake, host, guest)
    assert tree(host) == {"d": None, "d/new": "new", "other": "other"}
    settled(fake, host, guest)


def test_a_conflict_keeps_both(fake, host, guest):
    write(host / "f", "base")
    sync(fake, host, guest)
    write(host / "f", "ours!", OLD + 5)
    write(guest / "f", "theirs", OLD + 6)
    status, out, err = run(fake, host, guest)
    assert status == 0 and "conflict: f changed on both sides; the sandbox's version is f.sandbox-" in out, err
    (other,) = [name for name in tree(host) if name != "f"]
    assert tree(host) == {"f": "ours!", other: "theirs"}
    settled(fake, host, guest)


def test_changed_wins_over_deleted(fake, host, guest):
    write(host / "f", "base")
    write(host / "g", "base")
    sync(fake, host, guest)
    (host / "f").unlink()
    write(guest / "f", "theirs", OLD + 1)
    write(host / "g", "ours", OLD + 1)
    (guest / "g").unlink()
    status, out, _ = run(fake, host, guest)
    assert status == 0 and out.count("was deleted on one side and changed on the other; it is kept") == 2
    assert tree(host) == {"f": "theirs", "g": "ours"}
    settled(fake, host, guest)


def test_a_conflict_within_one_second(fake, host, guest):
    """Both versions have the same size. One sandbox and one person can change a file as fast as that."""
    write(host / "f", "was")
    sync(fake, host, guest)
    for place, text, part in (host, "one", 1), (guest, "two", 2):
        (place / "f").write_text(text)
        os.utime(place / "f", ns=(OLD * 10**9 + part, OLD * 10**9 + part))
    (conflict,) = sync(fake, host, guest)["conflicts"]
    assert {(host / "f").read_text(), (host / conflict["kept"]).read_text()} == {"one", "two"}
    settled(fake, host, guest)


def test_other_permissions_on_both_sides_are_a_conflict(fake, host, guest):
    write(host / "f", "text")
    sync(fake, host, guest)
    (host / "f").chmod(0o700)
    (guest / "f").chmod(0o600)
    (conflict,) = sync(fake, host, guest)["conflicts"]
    assert {(host / name).stat().st_mode & 0o777 for name in ("f", conflict["kept"])} == {0o700, 0o600}
    settled(fake, host, guest)


def test_the_first_time_equal_files_are_no_conflict(fake, host, guest):
    write(host / "same", "text")
    write(guest / "same", "text")
    write(host / "differs", "a")
    write(guest / "differs", "bb")
    answer = sync(fake, host, guest)
    assert [c["path"] for c in answer["conflicts"]] == ["differs"]
    settled(fake, host, guest)


def test_a_change_of_the_same_size_in_the_same_second(fake, host, guest):
    write(host / "f", "aa")
    sync(fake, host, guest)
    (guest / "f").write_text("bb")
    os.utime(guest / "f", ns=(OLD * 10**9 + 5, OLD * 10**9 + 5))
    assert sync(fake, host, guest)["files"] == 1
    assert (host / "f").read_text() == "bb"
    settled(fake, host, guest)


def test_names_that_are_not_utf8(fake, host, guest):
    name = b"/caf\xe9 \n'x"
    for top in (host, guest):
        (top / "d").mkdir()
        with open(os.fsencode(top / "d") + name, "w") as file:
            file.write("same size" if top == host else "other text")
    answer = sync(fake, host, guest)
    assert len(answer["conflicts"]) == 1
    settled(fake, host, guest)
    assert len(tree(host)) == 3


# ---- nothing is lost
@pytest.mark.parametrize("side", ["host", "guest"])
def test_a_side_that_lost_everything(fake, host, guest, side):
    for i in range(3):
        write(host / f"f{i}", "x")
    sync(fake, host, guest)
    lost, other = (host, guest) if side == "host" else (guest, host)
    for path in lost.iterdir():
        path.unlink()
    status, _, said = run(fake, host, guest)
    assert status == 1 and "are gone since the last time" in said and len(tree(other)) == 3
    if side == "guest":
        guest.rmdir()
        status, _, said = run(fake, host, guest)
        assert status == 1 and "is gone since the last time" in said and len(tree(host)) == 3
    assert sync(fake, host, guest, "--force")["deleted"] == 3
    assert tree(host) == tree(guest) == {}


def test_a_sandbox_that_deletes_most(fake, host, guest):
    """--only out, which programs use, asks for a person's word when more than half would go."""
    for i in range(50):
        write(host / f"d/f{i}", "x")
    sync(fake, host, guest)
    for i in range(49):
        (guest / f"d/f{i}").unlink()
    write(guest / "new", "new")
    status, _, said = run(fake, host, guest, "--only", "out")
    assert status == 1 and f"49 of 50 files of {host} are gone in the sandbox" in said and "--force" in said, said
    assert len(list((host / "d").iterdir())) == 50 and not (host / "new").exists()
    assert sync(fake, host, guest, "--only", "out", "--force")["deleted"] == 49
    assert tree(host) == tree(guest)


@pytest.mark.parametrize("gone, of", [(25, 50), (10, 11)], ids=["half", "few"])
def test_a_sandbox_that_deletes_some(fake, host, guest, gone, of):
    for i in range(of):
        write(host / f"f{i}", "x")
    sync(fake, host, guest)
    for i in range(gone):
        (guest / f"f{i}").unlink()
    assert sync(fake, host, guest, "--only", "out")["deleted"] == gone and len(tree(host)) == of - gone


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_loses_nothing(fake, host, guest, number):
    write(host / "a", "1")
    write(guest / "b", "2")
    sync(fake, host, guest)
    write(host / "a", "ours", OLD + 1)
    write(guest / "b", "theirs", OLD + 1)
    fake.files_gate = threading.Event()
    fake.seen.clear()
    running = subprocess.Popen([CUBBY, "sync", "--user", ME, host, f"{ID}:{guest}"], env=fake.env,
                               stderr=subprocess.PIPE)
    wait_for(lambda: any("/files?" in path for _, _, path, _, _ in fake.seen))
    running.send_signal(number)
    _, said = running.communicate(timeout=60)
    fake.files_gate.set()
    assert running.returncode == 128 + number and b"run cubby sync again" in said
    assert sync(fake, host, guest)["conflicts"] == []
    assert tree(host) == tree(guest) == {"a": "ours", "b": "theirs"}
    settled(fake, host, guest)


def test_a_file_on_one_side_and_a_directory_on_the_other(fake, host, guest):
    write(host / "x", "file")
    write(guest / "x/in", "in")
    write(host / "y", "y")
    answer = sync(fake, host, guest)
    assert [s["path"] for s in answer["skipped"]] == ["x", "x/in"]
    assert tree(guest) == {"x": None, "x/in": "in", "y": "y"} and tree(host) == {"x": "file", "y": "y"}


def test_a_damaged_state(fake, host, guest):
    write(host / "f", "x")
    sync(fake, host, guest)
    (state,) = (pathlib.Path(fake.home) / "sync").iterdir()
    for text in ("", "other\n", state.read_text() + "h f junk\n", state.read_text().replace(" Zg==", " Li4veA==")):
        whole = state.read_text()
        state.write_text(text)
        status, _, said = run(fake, host, guest)
        assert status == 1 and "the state of the last cubby sync, and run it again" in said
        state.write_text(whole)
    settled(fake, host, guest)


# ---- what stays where it is
def test_rules(fake, host, guest):
    for top in (host, guest):
        for name in (".git/config", ".env", "sub/.env", "build/out", "src/a.c"):
            write(top / name, f"{top.name} {name}")
        shutil.rmtree(top / "src")
    write(host / ".cubbyignore", "build\n!sub/.env\n")
    write(guest / ".cubbyignore", "!.git\n")
    write(host / "new", "new")
    answer = sync(fake, host, guest)
    assert [c["path"] for c in answer["conflicts"]] == ["sub/.env"]
    assert (host / ".git/config").read_text() == "host .git/config"
    assert (guest / ".git/config").read_text() == "guest .git/config"
    assert (host / ".cubbyignore").read_text() == "build\n!sub/.env\n" and (guest / "new").exists()
    assert (host / "build/out").read_text() == "host build/out"


HIDDEN = ["a.key", "sub/a.key", "x/y/a.key", "secret", "sub/secret", "top", "n/private/notes/in", "private/notes", ".GIT/config"]
SHOWN = ["sub/top", "sub/ok.key", "private/other", "a.keys", "docs/.gitignore"]
RULES = "# rules as for mounts\n*.key\n!ok.key\n**/secret\n/top\nprivate/notes/\n"


def test_rules_mean_the_same_as_for_mounts(fake, host, guest):
    for name in HIDDEN + SHOWN:
        write(host / name, "host")
    write(guest / "new/a.key", "guest")
    write(host / ".cubbyignore", RULES)
    sync(fake, host, guest)
    files = {name for name, text in tree(guest).items() if text is not None}
    assert files == {*SHOWN, "new/a.key"} and not (host / "new/a.key").exists()


def test_an_exception_shows_nothing_in_a_hidden_directory(fake, host, guest):
    """!.git/config is for mounts, where .git itself is shown."""
    write(guest / ".git/config", "guest")
    write(guest / "hidden/a", "guest")
    write(guest / "b", "guest")
    write(host / ".cubbyignore", "!.git/config\nhidden\n!hidden/a\n")
    sync(fake, host, guest)
    assert tree(host) == {".cubbyignore": "!.git/config\nhidden\n!hidden/a\n", "b": "guest"}


@pytest.mark.parametrize("line", ["/", "!", "a\0b"])
def test_a_rule_that_cannot_be_kept(fake, host, guest, line):
    write(guest / "f", "guest")
    write(host / ".cubbyignore", f"ok\n{line}\n")
    status, _, said = run(fake, host, guest)
    assert status == 1 and ".cubbyignore" in said and not (host / "f").exists()


LAYOUTS = {"bare": ["x/HEAD", "x/objects/o", "x/refs/heads/main", "x/config"], "top": ["HEAD", "objects/o", "refs/r", "config"],
           "elsewhere": ["x/HEAD", "x/commondir", "x/config"], "deep": ["a/x/HEAD", "a/x/objects/o", "a/x/refs/r", "a/x/hooks/h"]}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_bare_repository_of_the_sandbox_is_left_out(fake, host, guest, layout):
    """git takes it for a repository, and runs what its config says."""
    for name in LAYOUTS[layout]:
        write(guest / name, "guest")
    write(guest / "HEAD-1/refs", "guest")
    write(host / "mine", "mine")
    answer = sync(fake, host, guest)
    top = layout == "top"
    where = "." if top else LAYOUTS[layout][0].removesuffix("/HEAD")
    assert [s["path"] for s in answer["skipped"]] == [where] and "a git repository" in answer["skipped"][0]["reason"]
    assert {name for name, text in tree(host).items() if text is not None} == {"mine", *([] if top else ["HEAD-1/refs"])}
    assert (guest / "mine").exists() and sync(fake, host, guest)["deleted"] == 0


def test_a_bare_repository_that_comes_in_parts(fake, host, guest):
    write(guest / "x/HEAD", "guest")
    write(guest / "x/config", "guest")
    sync(fake, host, guest)
    for name in ("x/objects/o", "x/refs/r"):
        write(guest / name, "guest")
    assert len(sync(fake, host, guest)["skipped"]) == 1
    assert not (host / "x/objects").exists() and not (host / "x/refs").exists()


def test_a_bare_repository_of_the_host_is_the_hosts(fake, host, guest):
    for name in LAYOUTS["bare"]:
        write(host / name, "host")
    assert sync(fake, host, guest)["files"] == 4 and (guest / "x/config").read_text() == "host"
    write(guest / "x/config", "guest", OLD + 1)
    write(guest / "x/hooks/h", "guest")
    write(host / "x/HEAD", "host 2", OLD + 1)
    assert [s["path"] for s in sync(fake, host, guest)["skipped"]] == ["x"]
    assert (host / "x/config").read_text() == "host" and not (host / "x/hooks").exists()
    assert (guest / "x/HEAD").read_text() == "host 2"


def test_links_of_the_sandbox_that_lead_out(fake, host, guest):
    (guest / "out").symlink_to("/etc/passwd")
    (guest / "up").symlink_to("../x")
    (guest / "in").symlink_to("y")
    answer = sync(fake, host, guest)
    assert sorted(s["path"] for s in answer["skipped"]) == ["out", "up"]
    assert tree(host) == {"in": "y"} and len(tree(guest)) == 3
    assert sync(fake, host, guest)["deleted"] == 0 and len(tree(guest)) == 3


def test_a_link_of_the_host_is_not_followed(fake, host, guest, tmp_path):
    (tmp_path / "OUT").mkdir()
    write(host / "d/f", "f")
    sync(fake, host, guest)
    shutil.rmtree(host / "d")
    (host / "d").symlink_to(tmp_path / "OUT")
    write(guest / "d/g", "g")
    run(fake, host, guest)
    assert not list((tmp_path / "OUT").iterdir())


# ---- watching
def test_one_way(fake, host, guest):
    for name in ("here", "there", "gone here", "gone there"):
        write(host / name, name)
    sync(fake, host, guest)
    write(host / "here", "changed", OLD + 1)
    write(guest / "there", "changed", OLD + 1)
    (host / "gone here").unlink()
    (guest / "gone there").unlink()
    answer = sync(fake, host, guest, "--only", "in")
    assert (answer["files"], answer["deleted"], answer["waiting"]) == (1, 1, 2)
    assert (host / "there").read_text() == "there" and (host / "gone there").exists()
    assert tree(guest) == {"here": "changed", "there": "changed"}
    write(host / "new", "new")
    answer = sync(fake, host, guest, "--only", "out")
    assert (answer["files"], answer["deleted"], answer["waiting"]) == (1, 1, 1)
    assert not (guest / "new").exists()
    status, _, err = run(fake, host, guest, "--only", "out")
    assert status == 0 and "changes of the other side that were not copied (--only): 1" in err
    sync(fake, host, guest)
    settled(fake, host, guest)


def test_watch(fake, host, guest):
    write(host / "a", "1")
    running = subprocess.Popen([CUBBY, "sync", "--user", ME, "--watch", "--json", host, f"{ID}:{guest}"], env=fake.env,
                               stdout=subprocess.PIPE)
    assert json.loads(running.stdout.readline())["files"] == 1
    (host / "mine").write_text("mine")
    assert json.loads(running.stdout.readline())["files"] == 1
    assert (guest / "mine").read_text() == "mine"
    (guest / "theirs").write_text("theirs")
    wait_for(lambda: (host / "theirs").exists() and (host / "theirs").read_text() == "theirs", 60)
    (host / "a").unlink()
    wait_for(lambda: not (guest / "a").exists(), 60)
    running.send_signal(signal.SIGINT)
    assert running.wait(60) == 0
    running.stdout.close()
    settled(fake, host, guest)


@pytest.mark.parametrize("words, status, said", [
    ([], 2, "takes a directory and ID:PATH"), (["a", "b"], 2, "takes a directory and ID:PATH"),
    (["none", f"{ID}:/x"], 1, "none: No such file"), (["/dev/null", f"{ID}:/x"], 1, "Not a directory"),
    ([".", "ffffffffffffffffffff:/x"], 1, "does not exist")])
def test_mistakes(fake, host, words, status, said):
    done = subprocess.run([CUBBY, "sync", *words], env=fake.env, cwd=host, capture_output=True, timeout=60)
    assert done.returncode == status and said in done.stderr.decode()
