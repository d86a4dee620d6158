# SPDX-License-Identifier: Apache-2.0
"""read_file, write_file, edit_file and list_files, in a real envd."""

import base64
import hashlib
import os
import stat
import subprocess
import threading
import urllib.parse

import pytest
from harness import wait_for
from mcp_envd import fresh, real, sandbox, server, start  # noqa: F401
from mcp_schemas import checked

PNG = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")


@pytest.fixture
def call(server, sandbox):  # noqa: F811
    """(structuredContent, text, all blocks) of a tool's result, checked against its schema."""
    return lambda name, **arguments: checked(server, name, sandbox_id=sandbox, **arguments)


@pytest.fixture
def fails(server, sandbox):  # noqa: F811
    return lambda name, **arguments: server.error(name, sandbox_id=sandbox, **arguments)


# ---- read_file
def test_read_a_whole_file(call, tmp_path):
    (tmp_path / "a.txt").write_text("eins\nzwei\ndrei ü\n")
    o, text, _ = call("read_file", path=str(tmp_path / "a.txt"))
    assert o["content"] == "eins\nzwei\ndrei ü\n" and o["mime_type"] == "text/plain"
    assert (o["start_line"], o["end_line"], o["total_lines"], o["truncated"]) == (1, 3, 3, False)
    assert text == f"[{tmp_path}/a.txt: lines 1-3 of 3, 18 bytes]\neins\nzwei\ndrei ü\n"


@pytest.mark.parametrize("first, last, content, shown", [
    (2, 3, "2\n3\n", (2, 3)), (4, None, "4\n5", (4, 5)), (None, 1, "1\n", (1, 1)), (5, 99, "5", (5, 5))])
def test_read_a_range(call, tmp_path, first, last, content, shown):
    (tmp_path / "f").write_text("1\n2\n3\n4\n5")
    lines = {k: v for k, v in {"start_line": first, "end_line": last}.items() if v}
    o, _, _ = call("read_file", path=str(tmp_path / "f"), **lines)
    assert (o["content"], (o["start_line"], o["end_line"])) == (content, shown)
    assert o["total_lines"] == 5 and o["truncated"] is False


def test_read_an_empty_file(call, tmp_path):
    (tmp_path / "f").write_text("")
    o, text, _ = call("read_file", path=str(tmp_path / "f"))
    assert (o["content"], o["total_lines"], o["end_line"]) == ("", 0, 0)
    assert "no lines of 0" in text


def test_read_past_the_end(fails, tmp_path):
    (tmp_path / "f").write_text("1\n2\n")
    assert fails("read_file", path=str(tmp_path / "f"), start_line=3) == \
        "out_of_range: start_line is 3, but the file has 2 lines"


def test_read_page_by_page(call, tmp_path):
    whole = "".join(f"line {i} {'x' * (i % 90)}\n" for i in range(7000))
    (tmp_path / "f").write_text(whole)
    got, line = "", 1
    for _ in range(50):
        o, text, _ = call("read_file", path=str(tmp_path / "f"), start_line=line)
        assert len(o["content"]) <= 16384 and o["content"].count("\n") <= 2000
        got += o["content"]
        if not o["truncated"]:
            break
        assert text.endswith(f"[truncated; continue with start_line {o['next_line']}]")
        line = o["next_line"]
    assert got == whole


def test_read_a_line_that_is_too_long(call, tmp_path):
    (tmp_path / "f").write_text("ä" * 100000)
    o, text, _ = call("read_file", path=str(tmp_path / "f"))
    assert o["content"] == "ä" * 8192 and o["truncated"] and o["cut_line"]
    assert "cut" in text.splitlines()[-1]


def test_read_an_image(call, tmp_path):
    (tmp_path / "p.txt").write_bytes(PNG)
    o, text, blocks = call("read_file", path=str(tmp_path / "p.txt"))
    assert o["mime_type"] == "image/png" and o["size"] == len(PNG) and "content" not in o
    assert blocks[1] == {"type": "image", "mimeType": "image/png", "data": base64.b64encode(PNG).decode()}
    assert blocks[0]["type"] == "text" and "image/png" in text


def test_an_image_that_is_too_large(call, tmp_path):
    (tmp_path / "x").write_bytes(b"\xff\xd8\xff\xe0" + b"\0" * (5 << 20))
    o, text, blocks = call("read_file", path=str(tmp_path / "x"))
    assert o["size"] == (5 << 20) + 4 and len(blocks) == 1 and "too large" in text


def test_read_what_is_no_text(call, tmp_path):
    (tmp_path / "x").write_bytes(b"\x7fELF\x02\x01\0\0" + os.urandom(500))
    o, text, _ = call("read_file", path=str(tmp_path / "x"))
    assert o["mime_type"] == "application/octet-stream" and o["first_bytes"].startswith("7f454c46")
    assert "content" not in o and "508 bytes" in text


def test_read_what_is_almost_utf8(call, tmp_path):
    (tmp_path / "x").write_bytes("Grüße\n".encode("latin-1"))
    assert call("read_file", path=str(tmp_path / "x"))[0]["content"] == "Gr\ufffd\ufffde\n"


def test_read_what_cannot_be_read(fails, tmp_path):
    assert fails("read_file", path=str(tmp_path)) == f"is_a_directory: {tmp_path} is a directory: use list_files"
    assert fails("read_file", path=str(tmp_path / "no")).startswith("file_not_found: there is no file")
    os.mkfifo(tmp_path / "pipe")
    assert fails("read_file", path=str(tmp_path / "pipe")).startswith("not_a_file")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "round").symlink_to("round")
    for path in "loop", "loop/f":
        text = fails("read_file", path=f"{tmp_path}/{path}")
        assert "Too many levels of symbolic links" in text and "no file" not in text
    (tmp_path / "astray").symlink_to("nowhere")
    assert fails("read_file", path=f"{tmp_path}/astray").startswith("file_not_found: ")
    assert fails("read_file", path=f"{tmp_path}/pipe/f") .startswith("file_not_found: ")


def test_read_lines_that_end_before_they_begin(fails, tmp_path):
    (tmp_path / "f").write_text("1\n2\n3\n")
    assert fails("read_file", path=str(tmp_path / "f"), start_line=3, end_line=1) == \
        "invalid_argument: argument 'end_line' must not be less than start_line, which is 3"


TILDE = "invalid_argument: cannot expand '~root/x': only ~ is supported. For a file of that name write ./~root/x"


def test_of_homes_only_the_own_is_known(server, sandbox, fails, tmp_path):  # noqa: F811
    """"~name" is refused by each tool, before it does anything."""
    assert fails("read_file", path="~root/x") == TILDE
    assert fails("write_file", path="~root/x", content="") == TILDE
    assert fails("write_file", path="~root/x", content="", append=True) == TILDE
    assert fails("edit_file", path="~root/x", old_text="a", new_text="b") == TILDE
    assert fails("list_files", path="~root/x") == TILDE
    assert fails("run_command", command="pwd", cwd="~root/x") == TILDE
    assert fails("start_command", command="pwd", cwd="~root/x") == TILDE
    (tmp_path / "f").write_text("")
    assert fails("upload_file_from_local_to_sandbox", local_file_path="f", sandbox_file_path="~root/x") == TILDE
    assert fails("download_file_from_internet_to_sandbox", url="http://x.invalid/", sandbox_file_path="~root/x") == TILDE
    assert fails("download_file_from_sandbox_to_local", sandbox_file_path="~root/x") == TILDE


def test_names_are_only_names(call, tmp_path):
    for name in "-n", "$(touch x)", "a b'\"\\", "*", "\u00fc\n":
        o, _, _ = call("write_file", path=f"{tmp_path}/{name}", content="in " + name)
        assert o["path"] == f"{tmp_path}/{name}"
        assert (tmp_path / name).read_text() == "in " + name
        assert call("read_file", path=f"{tmp_path}/{name}")[0]["content"] == "in " + name
        o, _, _ = call("edit_file", path=f"{tmp_path}/{name}", old_text="in ", new_text="of ")
        assert o["path"] == f"{tmp_path}/{name}" and (tmp_path / name).read_text() == "of " + name
    assert len(list(tmp_path.iterdir())) == 5


def test_names_obey_nobody_where_they_are_shown(call, fails, tmp_path):
    """Control characters and those that change the reading direction are shown as their bytes."""
    (tmp_path / "a\x1b]52;c;eA==\x07\u202egpj.\u009b").write_text("x")
    o, text, _ = call("list_files", path=str(tmp_path))
    assert not any(c in text for c in "\x1b\x07\u202e\u009b") and "a\\x1b]52;c;eA==\\x07\\xe2\\x80\\xaegpj." in text
    assert o["entries"][0]["name"] == "a\x1b]52;c;eA==\x07\u202egpj.\u009b"
    text = fails("read_file", path=f"{tmp_path}/\x1b[2J\u202e")
    assert "\x1b" not in text and "\u202e" not in text and "\\x1b[2J\\xe2\\x80\\xae" in text


@pytest.mark.parametrize("offered, name, more, advice", [
    ("read_file", "read_file", {"path": "/"}, "is_a_directory: / is a directory"),
    ("list_files", "list_files", {"path": "/etc/passwd"}, "not_a_directory: "),
    ("edit_file", "edit_file", {"path": "big", "old_text": "x", "new_text": "y"}, "too_large: "),
    ("read_file", "read_file", {"path": "/", "sandbox_id": "nosuch00000000000000"}, "sandbox_not_found: "),
    ("read_file", "read_file", {"path": "/", "sandbox_id": "mine"}, "invalid_sandbox_id: ")])
def test_advice_names_no_tool_that_is_not_offered(start, sandbox, tmp_path, offered, name, more, advice):  # noqa: F811
    (tmp_path / "big").write_bytes(b"x" * ((4 << 20) + 1))
    if more["path"] == "big":
        more = {**more, "path": f"{tmp_path}/big"}
    arguments = {"sandbox_id": sandbox, **more}
    few, all_of_them = start("--tools", offered).error(name, **arguments), start().error(name, **arguments)
    others = ["list_files", "read_file", "run_command", "create_sandbox"]
    others.remove(offered) if offered in others else None
    assert few.startswith(advice) and not [n for n in others if n in few]
    assert all_of_them.startswith(few) and [n for n in others if n in all_of_them]


@pytest.mark.parametrize("size", [20, 6 << 20], ids=["whole", "by a script"])
def test_pages_smaller_than_a_character_go_on(call, tmp_path, size):
    (tmp_path / "f").write_text("€x\n" + "y" * size + "\n")
    o, _, _ = call("read_file", path=f"{tmp_path}/f", max_bytes=1)
    assert o["content"] == "€" and o["cut_line"] and (o["start_line"], o["next_line"]) == (1, 2)


# ---- write_file
def test_write_and_replace(call, tmp_path):
    path = f"{tmp_path}/new/deep/f ü.txt"
    o, text, blocks = call("write_file", path=path, content="eins\n")
    assert (o["size"], o["existed"], text) == (5, False, f"Created {path} (5 bytes)")
    assert [block["type"] for block in blocks] == ["text"]
    os.chmod(path, 0o751)
    o, text, _ = call("write_file", path=path, content="")
    assert (o["size"], o["existed"], text) == (0, True, f"Replaced {path} (0 bytes)")
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o751


def test_append(call, tmp_path):
    for i, word in enumerate(["a\n", "b"]):
        o, text, _ = call("write_file", path=f"{tmp_path}/f", content=word, append=True)
        assert o["appended"] and o["existed"] == bool(i)
    assert (tmp_path / "f").read_text() == "a\nb" and text.startswith("Appended to")


@pytest.mark.parametrize("size", [98304, 98305, 3_000_000])
def test_write_much(call, tmp_path, real, size):  # noqa: F811
    content = ("0123456789abcdef" * (size // 16 + 1))[:size]
    call("write_file", path=f"{tmp_path}/f", content=content)
    assert (tmp_path / "f").read_text() == content
    assert real.count("/files") == (0 if size <= 98304 else 1)
    call("write_file", path=f"{tmp_path}/f", content=content, append=True)
    assert (tmp_path / "f").read_text() == content * 2
    assert len(uploaded(real)) == (0 if size <= 98304 else 2) and gone(uploaded(real))


def uploaded(real):  # noqa: F811
    """Scripts in /tmp, which may include those of other tests that run meanwhile."""
    queries = [urllib.parse.parse_qs(p.partition("?")[2]) for m, p in real.requests if (m, p.split("?")[0]) == ("POST", "/files")]
    return {q["path"][0] for q in queries}


def gone(paths):
    wait_for(lambda: not any(map(os.path.exists, paths)), what=f"{paths} are removed")
    return True


def test_nothing_is_left_of_a_script_that_does_not_start(fails, tmp_path, real, monkeypatch):  # noqa: F811
    handler, seen = real.server.RequestHandlerClass, set()
    envd = handler.envd

    def refuse(self, url, body):
        if url.path != "/process.Process/Start":
            return envd(self, url, body)
        seen.update(filter(os.path.exists, uploaded(real)))
        self.answer(429, {"code": "resource_exhausted", "message": "no more processes"})
    monkeypatch.setattr(handler, "envd", refuse)
    assert "no more processes" in fails("write_file", path=f"{tmp_path}/f", content="x" * 100_000)
    assert len(seen) == 1 and gone(seen) and not (tmp_path / "f").exists()


def test_nothing_is_left_of_a_write_that_is_cancelled(server, sandbox, tmp_path, real, monkeypatch):  # noqa: F811
    handler, seen, held = real.server.RequestHandlerClass, set(), threading.Event()
    envd = handler.envd

    def hold(self, url, body):
        if url.path != "/process.Process/Start":
            return envd(self, url, body)
        seen.update(filter(os.path.exists, uploaded(real)))
        held.set()
        self.connection.recv(1)  # until the client leaves
    monkeypatch.setattr(handler, "envd", hold)
    server.send({"jsonrpc": "2.0", "id": 99, "method": "tools/call", "params": {
        "name": "write_file", "arguments": {"sandbox_id": sandbox, "path": f"{tmp_path}/f", "content": "x" * 100_000}}})
    assert held.wait(60)
    server.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 99}})
    assert len(seen) == 1 and gone(seen) and not (tmp_path / "f").exists()


def test_write_bytes(call, fails, tmp_path):
    data = bytes(range(256))
    call("write_file", path=f"{tmp_path}/f", content=base64.b64encode(data).decode(), encoding="base64")
    assert (tmp_path / "f").read_bytes() == data
    assert fails("write_file", path=f"{tmp_path}/f", content="a!", encoding="base64") == \
        "invalid_argument: argument 'content' is not valid base64"
    assert 'must be one of ["utf-8","base64"]' in \
        fails("write_file", path=f"{tmp_path}/f", content="a!", encoding="hex").replace(", ", ",")


@pytest.mark.parametrize("data", [b"\xff\xfe", b"caf\xe9\n", "Grüße, ".encode("latin-1") * 125, b"\xed\xa0\x80"], ids=repr)
def test_write_short_bytes_that_are_no_text(call, tmp_path, real, data):  # noqa: F811
    """envd takes only UTF-8 as an argument."""
    content = base64.b64encode(data).decode()
    for old in False, True:
        o, _, _ = call("write_file", path=f"{tmp_path}/f", content=content, encoding="base64")
        assert (tmp_path / "f").read_bytes() == data and (o["size"], o["existed"]) == (len(data), old)
    call("write_file", path=f"{tmp_path}/f", content=content, encoding="base64", append=True)
    assert (tmp_path / "f").read_bytes() == data * 2
    assert len(uploaded(real)) == 3 and gone(uploaded(real))


def test_edit_a_text_that_is_not_utf8(call, tmp_path):
    (tmp_path / "f").write_bytes("Grüße\nalt\n".encode("latin-1"))
    call("edit_file", path=f"{tmp_path}/f", old_text="alt", new_text="neu")
    assert (tmp_path / "f").read_bytes() == "Grüße\nneu\n".encode("latin-1")


@pytest.mark.parametrize("name", ["trail/", "trail/.", "trail/..", "a/trail/", "f/"])
@pytest.mark.parametrize("more", [{}, {"append": True}], ids=str)
def test_write_to_the_name_of_a_directory(fails, tmp_path, name, more):
    (tmp_path / "f").write_text("old")
    assert fails("write_file", path=f"{tmp_path}/{name}", content="x", **more) == (
        f"is_a_directory: the path {tmp_path}/{name} names a directory. Add the name of the file to it")
    assert [p.name for p in tmp_path.iterdir()] == ["f"] and (tmp_path / "f").read_text() == "old"


def test_write_where_it_cannot_be(fails, tmp_path):
    assert fails("write_file", path=str(tmp_path), content="x").startswith("is_a_directory")
    (tmp_path / "f").write_text("")
    text = fails("write_file", path=f"{tmp_path}/f/g", content="x")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("pipe")
    for name in "pipe", "link":
        for append in False, True:
            for content in "x", "x" * 100_000:
                assert fails("write_file", path=f"{tmp_path}/{name}", content=content, append=append) == \
                    f"not_a_file: {tmp_path}/{name} is not a regular file"
    assert text.startswith("failed: could not write the file: ") and "f" in text and "cubby" not in text.split(tmp_path.name)[0]


def test_write_follows_a_link(call, tmp_path):
    (tmp_path / "f").write_text("old")
    (tmp_path / "l").symlink_to("f")
    call("write_file", path=f"{tmp_path}/l", content="new")
    assert (tmp_path / "l").is_symlink() and (tmp_path / "f").read_text() == "new"


def test_write_keeps_what_a_file_has(call, tmp_path):
    """Mode, attributes and hard links, whether the new content is shorter or longer."""
    path = tmp_path / "f"
    path.write_text("old")
    os.chmod(path, 0o751)
    os.setxattr(path, "user.x", b"y")
    os.utime(path, (0, 0))
    for content in "longer than before", "short", "":
        call("write_file", path=str(path), content=content)
        assert path.read_text() == content and stat.S_IMODE(path.stat().st_mode) == 0o751
        assert os.getxattr(path, "user.x") == b"y" and path.stat().st_mtime > 0
    path.write_text("old")
    os.link(path, tmp_path / "h")
    for content in "longer than before", "short":
        call("write_file", path=str(path), content=content)
        assert (tmp_path / "h").read_text() == content and path.stat().st_nlink == 2
    (tmp_path / "l").symlink_to("f")
    call("write_file", path=f"{tmp_path}/l", content="by a link")
    assert path.read_text() == "by a link" and (tmp_path / "l").is_symlink()
    (tmp_path / "l").unlink()
    assert sorted(os.listdir(tmp_path)) == ["f", "h"], "nothing is left beside it"


@pytest.mark.skipif(os.geteuid() != 0, reason="gives a file to another user")
def test_write_keeps_the_owner(call, tmp_path):
    path = tmp_path / "f"
    path.write_text("old")
    os.chown(path, 65534, 65534)
    for content in "longer than before", "short":
        call("write_file", path=str(path), content=content)
        assert path.read_text() == content and path.stat().st_uid == 65534


@pytest.fixture
def disk(tmp_path):
    """A small disk with 64 KiB of room, and a file that takes 32 KiB of it."""
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", disk], check=True)
    (disk / "rest").write_bytes(b"r" * (192 << 10))
    (disk / "f").write_text("x" * (32 << 10))
    yield disk
    subprocess.run(["umount", disk], check=True)


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a small disk")
@pytest.mark.parametrize("size", [90_000, 120_000])  # as an argument, and by a temporary file
@pytest.mark.parametrize("links", [1, 2])
@pytest.mark.parametrize("old", ["\u00e9\n" * (10 << 10), "x\0" * (16 << 10), "", "\n\n"])
def test_write_on_a_full_disk(call, fails, disk, size, links, old):
    """A file that exists stays as it was, and a new file is not left behind."""
    path = disk / "f"
    path.write_text(old)
    if links == 2:
        os.link(path, disk / "h")
    before = sorted(os.listdir(disk))
    text = fails("write_file", path=str(path), content="y" * size)
    assert text.startswith("failed: could not write the file: ") and "No space left on device" in text, text
    assert path.read_text() == old and path.stat().st_nlink == links
    text = fails("write_file", path=f"{disk}/new", content="y" * size)
    assert "No space left on device" in text and sorted(os.listdir(disk)) == before
    text = fails("write_file", path=str(path), content="y" * size, append=True)
    assert "No space left on device. The file may have a part of it" in text, text


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a small disk")
def test_write_a_shorter_file_on_a_full_disk(call, disk):
    """There is no room for a second file, so the old one is overwritten."""
    path = disk / "f"
    with open(disk / "rest", "ab") as rest:
        rest.write(b"r" * (32 << 10))
    content = "y" * (20 << 10)
    call("write_file", path=str(path), content=content)
    assert path.read_text() == content and sorted(os.listdir(disk)) == ["f", "rest"]


# ---- edit_file
def test_edit(call, tmp_path):
    path = tmp_path / "f.py"
    path.write_text("def f():\n    return 1\n\ndef g():\n    return 2\n")
    os.chmod(path, 0o640)
    o, text, blocks = call("edit_file", path=str(path), old_text="return 2", new_text="x = 2\n    return x")
    assert path.read_text() == "def f():\n    return 1\n\ndef g():\n    x = 2\n    return x\n"
    assert o["replacements"] == 1 and o["size"] == path.stat().st_size
    assert text.splitlines()[1:] == ["     3 ", "     4 def g():", "-    5     return 2",
                                     "+    5     x = 2", "+    6     return x"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert [block["type"] for block in blocks] == ["text"]
    assert os.listdir(tmp_path) == ["f.py"], "nothing is left beside it"


def test_edit_every_occurrence(call, fails, tmp_path):
    path = tmp_path / "f"
    path.write_text("a b a\nc\na\n")
    assert fails("edit_file", path=str(path), old_text="a", new_text="x") == \
        "not_unique: old_text occurs 3 times, at lines 1, 3. Add surrounding lines to old_text so that it matches once, or set replace_all"
    o, text, _ = call("edit_file", path=str(path), old_text="a", new_text="xx", replace_all=True)
    assert o["replacements"] == 3 and path.read_text() == "xx b xx\nc\nxx\n"
    assert "-    1 a b a" in text and "+    1 xx b xx" in text and "+    3 xx" in text


def test_edit_what_is_not_there(fails, tmp_path):
    path = tmp_path / "f"
    path.write_text("if x:\n\treturn 1\nlong_name = compute(3)\n")
    text = fails("edit_file", path=str(path), old_text="if x:\n    return 1", new_text="y")
    assert text.startswith("no_match: ") and "line 1" in text and "white space" in text
    text = fails("edit_file", path=str(path), old_text="long_name = compute(4)", new_text="y")
    assert text.startswith("no_match: ") and "line 3: long_name = compute(3)" in text
    assert "no line is similar" in fails("edit_file", path=str(path), old_text="zzzz", new_text="y")
    assert fails("edit_file", path=str(path), old_text="x", new_text="x").endswith("are the same: nothing to change")
    assert fails("edit_file", path=str(tmp_path / "no"), old_text="x", new_text="y").startswith("file_not_found: ")
    assert path.read_text() == "if x:\n\treturn 1\nlong_name = compute(3)\n"


def test_edit_keeps_crlf(call, tmp_path):
    path = tmp_path / "f"
    path.write_bytes(b"one\r\ntwo\r\nthree\r\n")
    call("edit_file", path=str(path), old_text="one\ntwo\n", new_text="1\n2\n2b\n")
    assert path.read_bytes() == b"1\r\n2\r\n2b\r\nthree\r\n"


def test_edit_a_link_and_a_file_with_two_names(call, tmp_path):
    (tmp_path / "f").write_text("a")
    (tmp_path / "l").symlink_to("f")
    os.link(tmp_path / "f", tmp_path / "h")
    call("edit_file", path=f"{tmp_path}/l", old_text="a", new_text="b")
    assert (tmp_path / "l").is_symlink() and (tmp_path / "h").read_text() == "b"
    assert os.path.samefile(tmp_path / "f", tmp_path / "h")


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a small disk")
def test_edit_a_file_with_two_names_on_a_full_disk(call, fails, tmp_path):
    """Such a file is overwritten. If the disk is full, it stays as it was."""
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", disk], check=True)
    try:
        path, old = disk / "f", "a" + "x" * 30000 + "\n"
        path.write_text(old)
        os.link(path, disk / "h")
        (disk / "rest").write_bytes(b"r" * (160 << 10))
        text = fails("edit_file", path=str(path), old_text="a", new_text="b" * 90000)
        assert "No space left on device" in text, text
        assert path.read_text() == old and path.stat().st_nlink == 2
        call("edit_file", path=str(path), old_text="a", new_text="b" * 20000)
        assert path.read_text() == "b" * 20000 + old[1:]
        call("edit_file", path=str(path), old_text="b" * 20000, new_text="")
        assert path.read_text() == old[1:] and path.stat().st_nlink == 2
    finally:
        subprocess.run(["umount", disk], check=True)


def test_edit_much(call, fails, tmp_path):
    path = tmp_path / "f"
    path.write_text("".join(f"{i}\n" for i in range(300000)))
    call("edit_file", path=str(path), old_text="\n299999\n", new_text="\nend\n")
    assert path.read_text() == "".join(f"{i}\n" for i in range(299999)) + "end\n"
    path.write_bytes(b"x" * ((4 << 20) + 1))
    assert fails("edit_file", path=str(path), old_text="x", new_text="y").startswith("too_large: ")


def test_edit_that_would_be_more_than_memory_holds(fails, tmp_path):
    path = tmp_path / "f"
    path.write_bytes(b"a" * (4 << 20))
    assert fails("edit_file", path=str(path), old_text="a", new_text="b" * 4096, replace_all=True) == \
        "too_large: the edit would make the file larger than 4194304 bytes"
    assert path.read_bytes() == b"a" * (4 << 20)


def test_a_change_in_between_is_kept(call, fails, tmp_path, real, monkeypatch):  # noqa: F811
    """The file changes after edit_file has read it: the change is not overwritten."""
    path = tmp_path / "f"
    path.write_text("mine")
    handler = real.server.RequestHandlerClass
    envd = handler.envd

    def meddle(self, url, body):
        envd(self, url, body)
        if url.path == "/files":
            path.write_text("theirs, with mine")
    monkeypatch.setattr(handler, "envd", meddle)
    text = fails("edit_file", path=str(path), old_text="mine", new_text="ours")
    assert text.startswith("file_changed: ") and path.read_text() == "theirs, with mine"


# ---- list_files
def test_list(call, tmp_path):
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "in").write_text("xyz")
    (tmp_path / "a\nb").write_text("")
    (tmp_path / "l").symlink_to("d/in")
    o, text, _ = call("list_files", path=str(tmp_path))
    by = {e["name"]: e for e in o["entries"]}
    assert list(by) == ["a\nb", "d", "l"] and o["total"] == 3 and o["path"] == str(tmp_path)
    assert [by[n]["type"] for n in by] == ["file", "directory", "symlink"]
    assert by["l"]["target"] == str(tmp_path / "d/in")
    assert len(text.splitlines()) == 4 and "a\\x0ab" in text and "d/" in text.splitlines()
    o, text, _ = call("list_files", path=str(tmp_path), depth=2, details=True)
    assert [e["name"] for e in o["entries"]] == ["a\nb", "d", "d/in", "l"]
    assert next(e for e in o["entries"] if e["name"] == "d/in")["size"] == 3


def test_list_nothing_and_much(call, tmp_path):
    o, text, _ = call("list_files", path=str(tmp_path))
    assert o == {**o, "entries": [], "total": 0, "path": str(tmp_path)} and text == f"[{tmp_path}: 0 entries]\n"
    for i in range(503):
        (tmp_path / f"{i:03}").touch()
    o, text, _ = call("list_files", path=str(tmp_path))
    assert len(o["entries"]) == 200 and o["total"] == 503 and "[303 more; continue with offset 200]" in text


def test_list_what_is_no_directory(fails, tmp_path):
    (tmp_path / "f").touch()
    assert fails("list_files", path=str(tmp_path / "f")).startswith(
        f"not_a_directory: path is not a directory: {tmp_path}/f. For")
    assert fails("list_files", path=str(tmp_path / "no")) == \
        f"file_not_found: there is no file or directory {tmp_path}/no in the sandbox"
    assert "must be from 1 to 10, not 11" in fails("list_files", path="/", depth=11)


def test_the_digest_of_what_is_written(call, tmp_path):
    """Text arrives unchanged, even if a shell would change it."""
    content = "".join(map(chr, range(1, 1000))) + "%s%%\\n$HOME`id`\n\n"
    call("write_file", path=f"{tmp_path}/f", content=content)
    assert hashlib.sha256((tmp_path / "f").read_bytes()).digest() == hashlib.sha256(content.encode()).digest()


# ---- relative paths
def test_relative_paths_begin_at_home_in_every_tool(real, fails, call, tmp_path):
    """Commands of a template with WORKDIR begin there, and so would the tools that run scripts."""
    (tmp_path / "only-here.txt").write_text("x\n")
    assert real.envd.init(defaultWorkdir=str(tmp_path))[0] == 204
    assert call("run_command", command="ls")[0]["stdout"] == "only-here.txt\n"
    for tool, more in (("read_file", {}), ("edit_file", {"old_text": "x", "new_text": "y"}), ("delete_file", {}),
                       ("move_file", {"new_path": "there.txt"})):
        assert "only-here.txt" in fails(tool, path="only-here.txt", **more), tool
    assert (tmp_path / "only-here.txt").read_text() == "x\n"
