# SPDX-License-Identifier: Apache-2.0
"""GET and POST /files: forms of upload, atomic replacement, full disks, streaming, odd files."""

import hashlib
import json
import os
import pathlib
import socket
import subprocess
import tempfile

import pytest

from envd_peer import IS_ROOT, Envd, alive, basic, error, wait_for
from receive import receive, receive_until

MB = 1 << 20


@pytest.fixture
def envd():
    e = Envd()
    yield e
    e.close()


def leftovers(directory):
    return [p.name for p in pathlib.Path(directory).rglob("*") if ".envd-" in p.name]


# ---- uploads


def test_multipart(envd, tmp_path):
    home = tempfile.mkdtemp(dir=os.path.expanduser("~"), prefix=".envd-test-")
    name = os.path.basename(home)
    try:
        status, headers, body = envd.upload((f"{name}/a.txt", b"one"), (f"~/{name}/d/b.txt", b"two"),
                                            (f"{tmp_path}/c", b""))
        assert status == 200 and headers["content-type"] == "text/plain; charset=utf-8"
        assert json.loads(body) == [
            {"path": f"{home}/a.txt", "name": "a.txt", "type": "file"},
            {"path": f"{home}/d/b.txt", "name": "b.txt", "type": "file"},
            {"path": f"{tmp_path}/c", "name": "c", "type": "file"}]
        assert pathlib.Path(home, "a.txt").read_bytes() == b"one"
        assert pathlib.Path(home, "d/b.txt").read_bytes() == b"two"
        assert (tmp_path / "c").read_bytes() == b""
        assert pathlib.Path(home, "a.txt").stat().st_mode & 0o7777 == 0o644
        assert pathlib.Path(home, "d").stat().st_mode & 0o7777 == 0o755
    finally:
        subprocess.run(["rm", "-rf", home], check=True)


def test_multipart_with_a_path(envd, tmp_path):
    status, _, body = envd.upload(("ignored", b"x"), path=f"{tmp_path}/f")
    assert status == 200 and json.loads(body)[0]["path"] == f"{tmp_path}/f"
    assert error(envd.upload(("a", b"x"), ("b", b"y"), path=f"{tmp_path}/g"))[0] == 400


def test_multipart_other_fields_and_none(envd, tmp_path):
    body = ("--B\r\nContent-Disposition: form-data; name=\"note\"\r\n\r\nhello\r\n--B\r\n"
            f"Content-Disposition: form-data; name=\"file\"; filename=\"{tmp_path}/f\"\r\n\r\n"
            "x\r\n--B--\r\n")
    kind = {"Content-Type": "multipart/form-data; boundary=B"}
    status, _, answer = envd.request("POST", "/files", body, kind)
    assert status == 200 and len(json.loads(answer)) == 1
    assert envd.request("POST", "/files", "--B--\r\n", kind)[2] == b"[]"


DISPOSITION = "--B\r\nContent-Disposition: form-data; name=file"


@pytest.mark.parametrize("body", [
    "", "--B", DISPOSITION + "; filename=DIR/x\r\n\r\nhalf", DISPOSITION + "\r\n\r\nx\r\n--B--",
    DISPOSITION + "; filename=~other/x\r\n\r\nx\r\n--B--",
    "--B\r\nX: " + "y" * 20000 + "\r\n\r\n\r\n--B--"],
    ids=["empty", "begun", "half", "nameless", "home", "long"])
def test_malformed_multipart(envd, tmp_path, body):
    assert error(envd.request("POST", "/files", body.replace("DIR", str(tmp_path)),
                              {"Content-Type": "multipart/form-data; boundary=B"}))[0] == 400
    assert os.listdir(tmp_path) == [], "a file cut short is not there"


def test_octet_stream(envd, tmp_path):
    data = bytes(range(256)) * 10
    status, _, body = envd.write(tmp_path / "d/e/f", data)
    assert status == 200
    assert json.loads(body) == [{"path": f"{tmp_path}/d/e/f", "name": "f", "type": "file"}]
    assert (tmp_path / "d/e/f").read_bytes() == data
    assert envd.write(tmp_path / "empty", b"")[0] == 200
    assert (tmp_path / "empty").read_bytes() == b""


def test_chunked_uploads(envd, tmp_path):
    assert envd.write(tmp_path / "f", iter([b"a" * 10, b"b", b"c" * 100000]))[0] == 200
    assert (tmp_path / "f").read_bytes() == b"a" * 10 + b"b" + b"c" * 100000
    part = (f"--B\r\nContent-Disposition: form-data; name=file; filename=\"{tmp_path}/g\"\r\n\r\n"
            "hello\r\n--B--\r\n").encode()
    status, _, _ = envd.request("POST", "/files", (bytes([c]) for c in part),
                                {"Content-Type": "multipart/form-data; boundary=B"})
    assert status == 200 and (tmp_path / "g").read_bytes() == b"hello"


def test_expect_continue(envd, tmp_path):
    with envd.connect() as s:
        s.sendall(f"POST {envd.files(str(tmp_path / 'f'))} HTTP/1.1\r\nHost: x\r\nExpect: "
                  "100-continue\r\nContent-Type: application/octet-stream\r\nContent-Length: 3\r\n"
                  "\r\n".encode())
        assert receive_until(s, b"\r\n\r\n").startswith(b"HTTP/1.1 100")
        s.sendall(b"abc")
        assert receive(s, 12) == b"HTTP/1.1 200"
    assert (tmp_path / "f").read_bytes() == b"abc"


def test_refused_uploads(envd, tmp_path):
    def octets(target, headers=None):
        return error(envd.request("POST", target, b"x",
                                  {"Content-Type": "application/octet-stream", **(headers or {})}))
    assert octets("/files") == (400, "path query parameter is required for raw body upload")
    assert octets(envd.files(str(tmp_path))) == (400, f"path is a directory: {tmp_path}")
    assert octets(envd.files("~other/x"))[0] == 400
    assert octets("/files?path=a%00b")[0] == 400
    target = envd.files(str(tmp_path / "f"))
    for encoding in ["deflate", "br", "gzip, gzip"]:
        status, message = octets(target, {"Content-Encoding": encoding})
        assert status == 400 and message.startswith(f"unsupported content encoding: {encoding}, ")
    for kind in ["text/plain", "application/json", "multipart/mixed; boundary=x", ""]:
        status, message = octets(target, {"Content-Type": kind})
        assert status == 400 and message.startswith(f"unsupported content type: {kind}, expected ")
    (tmp_path / "file").write_text("x")
    assert octets(envd.files(str(tmp_path / "file/below")))[0] == 400
    os.mkfifo(tmp_path / "fifo")
    assert octets(envd.files(str(tmp_path / "fifo")))[0] == 400
    assert sorted(os.listdir(tmp_path)) == ["fifo", "file"]


def test_duplicate_targets(envd, tmp_path):
    status, message = error(envd.upload((f"{tmp_path}/a", b"1"), (f"{tmp_path}/./a", b"2")))
    assert status == 400 and "twice" in message


@pytest.mark.skipif(not IS_ROOT, reason="only root can give files to another user")
def test_owners(envd, tmp_path):
    tmp_path.chmod(0o755)
    import pwd
    daemon = pwd.getpwnam("daemon")
    assert envd.write(tmp_path / "d/new", b"x", basic("daemon"))[0] == 200
    assert envd.write(tmp_path / "named", b"x", username="daemon")[0] == 200
    for p in [tmp_path / "d", tmp_path / "d/new", tmp_path / "named"]:
        assert (p.stat().st_uid, p.stat().st_gid) == (daemon.pw_uid, daemon.pw_gid)
    assert envd.write(tmp_path / "d/new", b"y")[0] == 200
    assert (tmp_path / "d/new").stat().st_uid == 0, "an existing file becomes the user's"
    assert (tmp_path / "d").stat().st_uid == daemon.pw_uid, "a directory that was there does not"
    (tmp_path / "tool").write_text("x")
    (tmp_path / "tool").chmod(0o4755)
    assert envd.write(tmp_path / "tool", b"y", username="daemon")[0] == 200
    st = (tmp_path / "tool").stat()
    assert (st.st_uid, st.st_mode & 0o7777) == (daemon.pw_uid, 0o755), "not as another's set-id"


@pytest.mark.skipif(not IS_ROOT, reason="only root can give files to another user")
def test_files_are_read_and_listed_by_envd_itself(envd, tmp_path):
    """As upstream: a user's name only decides where relative paths begin and who owns a new file.
    The control is a command of that user."""
    (tmp_path / "closed").mkdir(mode=0o700)
    (tmp_path / "closed/secret").write_bytes(b"of root alone")
    refused = envd.run("cat", str(tmp_path / "closed/secret"), headers=basic("daemon"))
    assert refused.code == 1 and b"ermission denied" in refused.stderr
    assert envd.read(tmp_path / "closed/secret", username="daemon")[2] == b"of root alone"
    assert envd.read(tmp_path / "closed/secret", basic("daemon"))[2] == b"of root alone"
    status, listed = envd.rpc("filesystem.Filesystem/ListDir", {"path": str(tmp_path / "closed")}, basic("daemon"))
    assert status == 200 and [e["name"] for e in listed["entries"]] == ["secret"]


def test_replacement_keeps_the_mode_and_follows_links(envd, tmp_path):
    tool = tmp_path / "tool"
    tool.write_text("old")
    tool.chmod(0o4751)
    (tmp_path / "link").symlink_to("tool")
    (tmp_path / "dangling").symlink_to("new/target")
    assert envd.write(tmp_path / "link", b"new")[0] == 200
    assert (tmp_path / "link").is_symlink() and tool.read_text() == "new"
    assert tool.stat().st_mode & 0o7777 == 0o4751
    assert envd.write(tmp_path / "dangling", b"x")[0] == 200
    assert (tmp_path / "new/target").read_text() == "x"
    (tmp_path / "loop").symlink_to("loop")
    assert envd.write(tmp_path / "loop", b"x")[0] in (400, 500)


def test_replacement_is_atomic(envd, tmp_path):
    target = tmp_path / "f"
    target.write_text("old")
    reader = open(target)
    sock = envd.connect()
    sock.sendall(f"POST {envd.files(str(target))} HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n"
                 "Content-Type: application/octet-stream\r\n\r\n".encode() + b"n" * 500000)
    wait_for(lambda: leftovers(tmp_path), what="the temporary file")
    assert target.read_text() == "old"
    sock.close()
    wait_for(lambda: not leftovers(tmp_path), what="an upload cut short leaves nothing")
    assert target.read_text() == "old"
    assert envd.write(target, b"new")[0] == 200
    assert (reader.read(), target.read_text()) == ("old", "new")
    reader.close()


@pytest.mark.skipif(not IS_ROOT, reason="only root can mount a small disk")
def test_full_disk(envd, tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", disk], check=True)
    try:
        (disk / "f").write_text("old")
        for chunks in [iter([b"x" * 65536] * 160), b"x" * (3 * MB)]:
            status, message = error(envd.write(disk / "f", chunks))
            assert status == 507 and "No space left" in message
        assert error(envd.upload((f"{disk}/g", b"x" * (2 * MB))))[0] == 507
        assert os.listdir(disk) == ["f"] and (disk / "f").read_text() == "old"
        assert envd.write(disk / "f", b"x" * 500000)[0] == 200
    finally:
        subprocess.run(["umount", disk], check=True)


def test_special_files_are_written_in_place(envd):
    path = pathlib.Path("/proc/self/oom_score_adj")
    if not os.access(path, os.W_OK):
        pytest.skip("no /proc file that may be written")
    target = f"/proc/{envd.process.pid}/oom_score_adj"
    assert envd.write(target, b"7")[0] == 200
    assert pathlib.Path(target).read_text() == "7\n"


# ---- downloads


def test_download(envd, tmp_path):
    data = os.urandom(1000)
    (tmp_path / "f.bin").write_bytes(data)
    status, headers, body = envd.read(tmp_path / "f.bin")
    assert (status, body, headers["content-length"]) == (200, data, "1000")
    assert headers["vary"] == "Accept-Encoding" and "content-encoding" not in headers
    assert headers["content-disposition"] == "inline; filename=f.bin"
    assert headers["accept-ranges"] == "bytes" and headers["last-modified"].endswith("GMT")


@pytest.mark.parametrize("name,want", [("a b", 'inline; filename="a b"'),
                                       ('q"\\', 'inline; filename="q\\"\\\\"'),
                                       ("é.txt", "inline; filename*=utf-8''%C3%A9.txt"),
                                       ("a\nb", "inline; filename*=utf-8''a%0Ab")])
def test_names_in_the_answer(envd, tmp_path, name, want):
    (tmp_path / name).write_text("x")
    status, headers, body = envd.read(tmp_path / name)
    assert (status, body, headers["content-disposition"]) == (200, b"x", want)


@pytest.mark.parametrize("size", [65535, 65536, 65537, 300000])
def test_sizes_around_a_chunk(envd, tmp_path, size):
    data = os.urandom(size)
    assert envd.write(tmp_path / "f", data)[0] == 200
    status, headers, body = envd.read(tmp_path / "f")
    assert (status, headers["content-length"]) == (200, str(size)) and body == data


def test_empty_and_proc_files(envd, tmp_path):
    (tmp_path / "empty").touch()
    status, headers, body = envd.read(tmp_path / "empty")
    assert (status, headers["content-length"], body) == (200, "0", b"")
    assert envd.read("/proc/version")[2] == pathlib.Path("/proc/version").read_bytes()
    maps = envd.read("/proc/kallsyms")[2]
    assert len(maps) > 100000 and maps.endswith(b"\n"), "longer than a chunk, without a size"
    assert envd.read("/sys/kernel/mm/transparent_hugepage/enabled")[2]


def test_refused_downloads(envd, tmp_path):
    assert error(envd.read(tmp_path)) == (400, f"path '{tmp_path}' is a directory")
    assert error(envd.read(tmp_path / "no")) == (404, f"path '{tmp_path}/no' does not exist")
    assert error(envd.read("/etc/passwd/x"))[0] == 404
    assert error(envd.request("GET", "/files?path=a%00b"))[0] == 400
    assert error(envd.request("GET", "/files"))[0] == 400, "no path is the home, a directory"
    os.mkfifo(tmp_path / "fifo")
    assert error(envd.read(tmp_path / "fifo"))[0] == 400
    assert error(envd.read("/dev/zero"))[0] == 400
    with socket.socket(socket.AF_UNIX) as s:
        s.bind(str(tmp_path / "socket"))
        assert error(envd.read(tmp_path / "socket"))[0] == 400


def test_head(envd, tmp_path):
    (tmp_path / "f").write_bytes(b"x" * 200000)
    target = envd.files(str(tmp_path / "f"))
    status, headers, body = envd.request("HEAD", target)
    assert (status, headers["content-length"], body) == (200, "200000", b"")
    assert envd.request("HEAD", envd.files(str(tmp_path / "no")))[0] == 404


@pytest.mark.parametrize("header,status,want", [
    ("bytes=1-2", 206, b"12"), ("bytes=0-0", 206, b"0"), ("bytes=8-", 206, b"89"),
    ("bytes=-3", 206, b"789"), ("bytes=5-99", 206, b"56789"), ("bytes=-99", 206, b"0123456789"),
    ("bytes=10-", 416, None), ("bytes=-0", 416, None), ("bytes=2-1", 200, b"0123456789"),
    ("bytes=1-2,4-5", 200, b"0123456789"), ("lines=1-2", 200, b"0123456789"),
    ("bytes=a-b", 200, b"0123456789"), ("bytes=-", 200, b"0123456789")])
def test_ranges(envd, tmp_path, header, status, want):
    (tmp_path / "f").write_bytes(b"0123456789")
    got, headers, body = envd.read(tmp_path / "f", {"Range": header})
    assert got == status and (want is None or body == want)
    if status == 206:
        start = b"0123456789".index(want)
        assert headers["content-range"] == f"bytes {start}-{start + len(want) - 1}/10"
    if status == 416:
        assert headers["content-range"] == "bytes */10"


def test_paths_that_are_not_utf8(envd, tmp_path):
    raw = os.fsencode(tmp_path) + b"/\xff\xfe\x80"
    target = "/files?path=" + "".join(f"%{c:02X}" for c in raw)
    status, _, body = envd.request("POST", target, b"data",
                                   {"Content-Type": "application/octet-stream"})
    assert status == 200 and json.loads(body)[0]["name"] == "\ufffd" * 3
    assert open(raw, "rb").read() == b"data"
    status, headers, body = envd.request("GET", target)
    assert (status, body) == (200, b"data") and "%FF%FE%80" in headers["content-disposition"]
    assert envd.request("GET", target + "%FF")[0] == 404
    status, answer = envd.fs("ListDir", path=str(tmp_path))
    assert [e["name"] for e in answer["entries"]] == ["\ufffd" * 3]


# ---- large ones


def rss_bound(envd):
    if not os.environ.get("SAN"):
        assert envd.peak_kb() < 12 << 10, "memory does not grow with the file"


def test_a_hundred_megabytes(envd, tmp_path):
    size = 100 * MB
    block = os.urandom(MB)
    status, _, _ = envd.write(tmp_path / "big", iter([block] * 100))
    assert status == 200 and (tmp_path / "big").stat().st_size == size
    rss_bound(envd)
    with envd.connect() as s:
        s.sendall(f"GET {envd.files(str(tmp_path / 'big'))} HTTP/1.1\r\nHost: x\r\n"
                  "Connection: close\r\n\r\n".encode())
        f = s.makefile("rb")
        while f.readline().strip():
            pass
        got = hashlib.sha256()
        while data := f.read(MB):
            got.update(data)
    want = hashlib.sha256()
    for _ in range(100):
        want.update(block)
    assert got.digest() == want.digest()
    rss_bound(envd)


def test_slow_downloader_holds_nobody(envd, tmp_path):
    with open(tmp_path / "big", "wb") as f:
        f.truncate(200 * MB)
    slow = [envd.connect() for _ in range(4)]
    for s in slow:
        s.sendall(f"GET {envd.files(str(tmp_path / 'big'))} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        s.recv(1000)
    assert envd.read("/proc/version")[0] == 200
    rss_bound(envd)
    before = len(os.listdir(f"/proc/{envd.process.pid}/fd"))
    for s in slow:
        s.close()
    wait_for(lambda: len(os.listdir(f"/proc/{envd.process.pid}/fd")) <= before - 8,
             what="files and sockets of those that left are closed")


def test_file_that_shrinks_is_a_broken_answer(envd, tmp_path):
    with open(tmp_path / "f", "wb") as f:
        f.truncate(50 * MB)
    with envd.connect() as s:
        s.settimeout(30)
        s.sendall(f"GET {envd.files(str(tmp_path / 'f'))} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        got = len(s.recv(1000))
        os.truncate(tmp_path / "f", 100)
        try:
            while n := len(s.recv(MB)):
                got += n
        except ConnectionResetError:
            pass
    assert got < 50 * MB
    assert alive(envd.process.pid)
