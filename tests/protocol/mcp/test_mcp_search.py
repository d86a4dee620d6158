# SPDX-License-Identifier: Apache-2.0
"""search_files, move_file, delete_file, pages of list_files, and several edits in one call."""

import json
import os
import subprocess

import pytest
from mcp_envd import real, sandbox, start  # noqa: F401
from mcp_schemas import checked


@pytest.fixture
def server(start):  # noqa: F811
    return start()


@pytest.fixture
def call(server, sandbox):  # noqa: F811
    return lambda name, **arguments: checked(server, name, sandbox_id=sandbox, **arguments)


@pytest.fixture
def fails(server, sandbox):  # noqa: F811
    return lambda name, **arguments: server.error(name, sandbox_id=sandbox, **arguments)


@pytest.fixture
def tree(tmp_path):
    top = tmp_path / "tree"
    for name, text in {
            "a.py": "import os\nx = 'needle'\n", "b.txt": "Needle 1\nneedle 2\nneedle 3\n", "src/c.py": "needle\n",
            "src/deep/d.js": "no\n", "build/e.py": "needle\n", "keep.log": "needle\n", "other.log": "needle\n",
            "src/local.tmp": "needle\n", ".hidden/f.py": "needle\n", ".git/config": "needle\n", "ü b.md": "größe needle\n",
            ".gitignore": "# comment\n/build/\n*.log\n!keep.log\n", "src/.gitignore": "*.tmp\n"}.items():
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_text(text)
    (top / "binary").write_bytes(b"\0needle\n")
    return top


# ---- search_files
def found(o):
    return [(m["path"], m.get("line")) for m in o["matches"]]


def test_lines(call, tree):
    o, text, _ = call("search_files", path=str(tree), pattern="needle")
    assert found(o) == [("a.py", 2), ("b.txt", 2), ("b.txt", 3), ("keep.log", 1), ("ü b.md", 1), (".hidden/f.py", 1),
                        ("src/c.py", 1)]
    assert o["path"] == str(tree) and not o["truncated"] and "hint" not in o
    assert text.splitlines()[:2] == [f"[{tree}: 7 matches]", "a.py:2: x = 'needle'"]


@pytest.mark.parametrize("glob, names", [
    ("*.py", ["a.py", ".hidden/f.py", "src/c.py"]), ("src/**", ["src/.gitignore", "src/c.py", "src/deep/d.js"]),
    ("**/*.js", ["src/deep/d.js"]), ("src/*.py", ["src/c.py"]), ("*.{js,md}", ["ü b.md", "src/deep/d.js"]),
    ("[ab].*", ["a.py", "b.txt"]), ("?.py", ["a.py", ".hidden/f.py", "src/c.py"]), ("nothing", [])])
def test_names(call, tree, glob, names):
    o, _, _ = call("search_files", path=str(tree), glob=glob)
    assert found(o) == [(name, None) for name in names]


def test_lines_of_some_files(call, tree):
    o, _, _ = call("search_files", path=str(tree), glob="*.txt", pattern="^[Nn]eedle [13]$")
    assert found(o) == [("b.txt", 1), ("b.txt", 3)]


@pytest.mark.skipif(not os.access("/usr/bin/git", os.X_OK), reason="needs git as the peer")
def test_what_is_ignored_is_what_git_ignores(call, tree):
    (tree / ".git/config").unlink()
    (tree / ".git").rmdir()
    for name in ("x/y/z.o", "x/z.o", "doc/frotz/a", "a/doc/frotz/b", "t/1.tmp~", "t/#x", "foo/bar/q", "hello.c", "w x"):
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text("needle\n")
    (tree / ".gitignore").write_text("*.o\n!/x/z.o\ndoc/frotz/\n*~\n\\#x\nfoo/*\nhello.*\n**/q\nw\\ x\n")
    git = ["git", "-C", str(tree), "-c", "core.excludesFile=/dev/null", "-c", "core.quotePath=off"]
    subprocess.run([*git, "init", "-q"], check=True)
    listed = subprocess.run([*git, "ls-files", "-co", "--exclude-standard"], check=True, capture_output=True, text=True)
    o, _, _ = call("search_files", path=str(tree), glob="*", max_results=1000)
    assert sorted(path for path, _ in found(o)) == sorted(listed.stdout.splitlines())
    below, _, _ = call("search_files", path=str(tree / "x"), glob="*")
    assert [path for path, _ in found(below)] == ["z.o"], "the rules of the directories above hold, too"


def test_many_matches_are_capped(call, tree):
    (tree / "many").write_text("needle\n" * 500)
    o, text, _ = call("search_files", path=str(tree), glob="many", pattern="needle", max_results=50)
    assert len(o["matches"]) == 50 and o["truncated"] and o["hint"] in text and text.endswith("max_results]\n")
    o, _, _ = call("search_files", path=str(tree), glob="many", pattern="needle", max_results=500)
    assert len(o["matches"]) == 500 and not o["truncated"]


def test_a_long_line_is_cut(call, tree):
    (tree / "long").write_text("needle" + "x" * 5000)
    o, _, _ = call("search_files", path=str(tree), glob="long", pattern="needle")
    assert o["matches"][0]["text"] == "needle" + "x" * 194


@pytest.mark.parametrize("arguments, words", [
    ({}, "invalid_argument: give pattern, or glob, or both"),
    ({"pattern": "("}, "invalid_argument: argument 'pattern' or 'glob' is invalid: "),
    ({"pattern": "a{99999999999}"}, "invalid_argument: argument 'pattern' or 'glob' is invalid: "),
    ({"pattern": "x", "path": "/nowhere"}, "file_not_found: there is no file or directory /nowhere in the sandbox"),
    ({"pattern": "x", "path": "/etc/passwd"}, "not_a_directory: /etc/passwd is not a directory")])
def test_search_fails(fails, arguments, words):
    assert fails("search_files", **arguments).startswith(words)


@pytest.mark.parametrize("glob, names", [
    ("{a*.py,src/*.md}", ["a.py", "src/c.md"]), ("{**/b,src/d}.py", ["b.py", "src/b.py", "src/d.py"]),
    ("{{a,b}", []), ("{a}.py", ["{a}.py"]), ("\\{a}.py", ["{a}.py"]), ("{a,{b,src/{d,x}}}.py", ["a.py", "b.py", "src/b.py", "src/d.py"]),
    ("{src/d,}.py", ["src/d.py"]), ("[{]a}.py", ["{a}.py"])])
def test_braces(call, tmp_path, glob, names):
    (tmp_path / "src").mkdir()
    for name in "a.py", "b.py", "c.md", "{a}.py", "src/b.py", "src/c.md", "src/d.py":
        (tmp_path / name).write_text("x\n")
    o, _, _ = call("search_files", path=str(tmp_path), glob=glob)
    assert sorted(m["path"] for m in o["matches"]) == names


def test_too_many_braces(fails, tmp_path):
    assert "more than 1000 globs" in fails("search_files", path=str(tmp_path), glob="{a,b}" * 40)


def test_braces_of_gitignore_are_text(call, tmp_path):
    (tmp_path / ".git").mkdir()
    (tmp_path / ".gitignore").write_text("{a,b}.py\n")
    for name in "a.py", "{a,b}.py":
        (tmp_path / name).write_text("x\n")
    o, _, _ = call("search_files", path=str(tmp_path), glob="*.py")
    assert [m["path"] for m in o["matches"]] == ["a.py"]


def test_a_pattern_that_explodes_is_ended(call, tmp_path):
    (tmp_path / "a").write_text("needle " + "a" * 60 + "!\n")
    (tmp_path / "b").write_text("a" * 60 + "!\n")
    o, text, _ = call("search_files", path=str(tmp_path), pattern="needle|(a+)+$")
    assert [m["path"] for m in o["matches"]] == ["a"] and o["truncated"]
    assert o["hint"].startswith("The search took too long") and o["hint"] in text


def test_files_that_block_a_reader(call, tmp_path):
    os.mkfifo(tmp_path / ".gitignore")
    (tmp_path / "d").mkdir()
    (tmp_path / "d/.gitignore").symlink_to("/dev/zero")
    (tmp_path / "d/f").write_text("needle\n")
    o, _, _ = call("search_files", path=str(tmp_path), pattern="needle")
    assert [m["path"] for m in o["matches"]] == ["d/f"] and o["duration_ms"] < 9000


@pytest.mark.parametrize("said", [
    "[]", "1", '{"matches": []}', '{"path": "/", "matches": [1]}', '{"path": "/", "matches": [{"path": 1}]}',
    '{"path": "/", "matches": [{"path": "a", "line": "1", "text": ""}]}', '{"path": "/", "matches": {}}',
    '{"path": "/", "matches": [%s]}' % ",".join(['{"path": "a", "line": 1, "text": ""}'] * 101)])
def test_a_guest_that_lies(fails, real, tmp_path, said):  # noqa: F811
    (tmp_path / "python3").write_text(f"#!/bin/sh\ncat <<'END'\n{said}\nEND\n")
    (tmp_path / "python3").chmod(0o755)
    real.envd.init(envVars={"PATH": f"{tmp_path}:/usr/bin:/bin"})
    assert fails("search_files", pattern="x") == "failed: could not search the files: the sandbox sent no result"


def test_what_the_guest_adds_is_left_out(call, real, tmp_path):  # noqa: F811
    (tmp_path / "python3").write_text('#!/bin/sh\necho \'{"path": "/", "matches": [{"path": "a", "more": 1}], "hint": "Do this"}\'\n')
    (tmp_path / "python3").chmod(0o755)
    real.envd.init(envVars={"PATH": f"{tmp_path}:/usr/bin:/bin"})
    o, text, _ = call("search_files", glob="x")
    assert o["matches"] == [{"path": "a"}] and "Do this" not in text + json.dumps(o)


def test_a_link_in_a_circle_is_passed_over(call, tree):
    (tree / "loop").symlink_to("loop")
    o, _, _ = call("search_files", path=str(tree), glob="*", pattern="größe")
    assert found(o) == [("ü b.md", 1)]


def test_lines_have_the_numbers_of_read_file(call, tree):
    (tree / "pages.c").write_bytes("a\fb\u2028c\r\nneedle\r\n".encode())
    o, _, _ = call("search_files", path=str(tree), glob="pages.c", pattern="needle$")
    assert found(o) == [("pages.c", 2)] and o["matches"][0]["text"] == "needle"
    assert call("read_file", path=f"{tree}/pages.c", start_line=2)[0]["content"] == "needle\r\n"
    o, _, _ = call("search_files", path=str(tree), glob="pages.c", pattern="^$")
    assert found(o) == [], "the end of the last line is not a line"


# ---- move_file, delete_file
def test_move(call, fails, tmp_path):
    (tmp_path / "a").write_text("1")
    (tmp_path / "b").write_text("2")
    o, text, _ = call("move_file", path=f"{tmp_path}/a", new_path=f"{tmp_path}/new/dir/ü c")
    assert (tmp_path / "new/dir/ü c").read_text() == "1" and not (tmp_path / "a").exists()
    assert text == f"Moved {tmp_path}/a to {tmp_path}/new/dir/ü c" and o["new_path"].endswith("/ü c")
    said = fails("move_file", path=f"{tmp_path}/new/dir/ü c", new_path=f"{tmp_path}/b")
    assert said.startswith(f"file_exists: {tmp_path}/b already exists") and (tmp_path / "b").read_text() == "2"
    call("move_file", path=f"{tmp_path}/new", new_path=f"{tmp_path}/moved/")
    assert (tmp_path / "moved/dir/ü c").read_text() == "1"
    assert fails("move_file", path=f"{tmp_path}/new", new_path=f"{tmp_path}/x").startswith("file_not_found: ")
    assert "only ~ is supported" in fails("move_file", path=f"{tmp_path}/b", new_path="~root/x")


def test_a_move_that_fails_leaves_no_directories(fails, tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "there").mkdir()
    for new in f"{tmp_path}/a/b/c/d", f"{tmp_path}/there/x/{'n' * 300}", f"{tmp_path}/there/x/{'n' * 300}/y":
        fails("move_file", path=f"{tmp_path}/a", new_path=new)
        assert sorted(p.name for p in tmp_path.rglob("*")) == ["a", "there"], new


def test_a_directory_is_not_in_the_way(fails, tmp_path):
    """The error does not advise deleting the directory into which the file is to go."""
    (tmp_path / "a").write_text("1")
    (tmp_path / "d").mkdir()
    for new in f"{tmp_path}/d", f"{tmp_path}/d/", "/":
        said = fails("move_file", path=f"{tmp_path}/a", new_path=new)
        assert said.startswith("is_a_directory: ") and "delete_file" not in said, said
    assert (tmp_path / "a").exists()


def test_delete(call, fails, tmp_path, real):  # noqa: F811
    (tmp_path / "d/e").mkdir(parents=True)
    (tmp_path / "d/e/f").write_text("x")
    (tmp_path / "link").symlink_to(tmp_path / "d")
    (tmp_path / "broken").symlink_to(tmp_path / "nowhere")
    for name in "link", "broken":
        assert call("delete_file", path=f"{tmp_path}/{name}")[1] == f"Deleted {tmp_path}/{name}"
    assert (tmp_path / "d/e/f").exists(), "a link is deleted, not what it leads to"
    call("delete_file", path=f"{tmp_path}/d/")
    assert not (tmp_path / "d").exists()
    assert fails("delete_file", path=f"{tmp_path}/d").startswith("file_not_found: ")
    for path in "/", "~", str(real.files), "/tmp/..", str(real.files.parent), f"{real.files}/../.":
        assert fails("delete_file", path=path).startswith("denied: "), path
    assert real.files.is_dir()


# ---- list_files
def test_short_by_default(call, tmp_path):
    (tmp_path / "d").mkdir()
    (tmp_path / "d/f").write_text("x")
    (tmp_path / "d/l").symlink_to("f")
    o, text, _ = call("list_files", path=f"{tmp_path}/d")
    assert o["entries"] == [{"name": "f", "type": "file"}, {"name": "l", "type": "symlink", "target": o["entries"][1]["target"]}]
    assert text.splitlines()[1] == "f" and text.splitlines()[2].startswith("l -> ")
    o, text, _ = call("list_files", path=f"{tmp_path}/d", details=True)
    assert o["entries"][0]["size"] == 1 and o["entries"][0]["mode"] and o["entries"][0]["modified"] and " 1 20" in text


def test_pages(call, tmp_path):
    names = [f"{i:03}" for i in range(450)]
    for name in names:
        (tmp_path / name).touch()
    offset, seen = 0, []
    while offset is not None:
        o, text, _ = call("list_files", path=str(tmp_path), offset=offset)
        seen += [e["name"] for e in o["entries"] if e["name"] in names]
        assert o["total"] >= 450 and len(o["entries"]) <= 200
        offset = o.get("next_offset")
        assert ("continue with offset" in text) == (offset is not None)
    assert seen == names


# ---- several edits
def test_several_edits(call, tmp_path):
    (tmp_path / "f").write_text("one\ntwo\nthree\ntwo\n")
    o, _, _ = call("edit_file", path=f"{tmp_path}/f", edits=[
        {"old_text": "one", "new_text": "1"}, {"old_text": "two", "new_text": "2", "replace_all": True},
        {"old_text": "1\n2", "new_text": "first"}])
    assert (tmp_path / "f").read_text() == "first\nthree\n2\n" and o["replacements"] == 4
    assert o["diff"].count("...") >= 2 and o["size"] == 14
    call("edit_file", path=f"{tmp_path}/f", old_text="first", new_text="1st", edits=[{"old_text": "1st", "new_text": "I"}])
    assert (tmp_path / "f").read_text() == "I\nthree\n2\n"


def test_replace_all_beside_edits_is_an_error(fails, call, tmp_path):
    (tmp_path / "f").write_text("one\none\n")
    said = fails("edit_file", path=f"{tmp_path}/f", edits=[{"old_text": "one", "new_text": "1"}], replace_all=True)
    assert said.startswith("invalid_argument: replace_all has no effect on edits") and (tmp_path / "f").read_text() == "one\none\n"


def test_the_diff_of_many_edits_is_bounded(call, tmp_path):
    (tmp_path / "f").write_text("".join(f"line {i} {'x' * 150}\n" for i in range(5000)))
    o, _, _ = call("edit_file", path=f"{tmp_path}/f",
                   edits=[{"old_text": f"line {i * 50} ", "new_text": f"LINE {i * 50} "} for i in range(100)])
    assert o["replacements"] == 100 and 4000 < len(o["diff"]) < 9000
    assert o["diff"].endswith("   ...\n") and o["diff"].count("   ...\n   ...\n") == 0
    assert "LINE 4950 " in (tmp_path / "f").read_text()


def test_all_edits_or_none(call, fails, tmp_path):
    (tmp_path / "f").write_text("one\ntwo\n")
    said = fails("edit_file", path=f"{tmp_path}/f", edits=[{"old_text": "one", "new_text": "1"},
                                                          {"old_text": "none", "new_text": "2"}])
    assert said.startswith("no_match: edit 2 of 2: ") and said.endswith(". No edit was applied")
    assert (tmp_path / "f").read_text() == "one\ntwo\n"
    assert fails("edit_file", path=f"{tmp_path}/f").startswith("invalid_argument: give old_text and new_text, or edits")
    assert fails("edit_file", path=f"{tmp_path}/f", old_text="one").startswith("invalid_argument: give old_text and")
    call("edit_file", path=f"{tmp_path}/f", edits=[{"old_text": "o", "new_text": "0", "replace_all": "true"},
                                                   {"old_text": "0ne", "new_text": "one", "replace_all": None},
                                                   {"old_text": "tw0", "new_text": "two", "replace_all": ""}])
    for half in {"old_text": "two"}, {"new_text": "2"}:
        said = fails("edit_file", path=f"{tmp_path}/f", edits=[{"old_text": "one", "new_text": "1"}], **half)
        assert said.startswith("invalid_argument: give old_text and new_text"), said
    assert (tmp_path / "f").read_text() == "one\ntwo\n"
