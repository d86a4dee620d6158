# SPDX-License-Identifier: Apache-2.0
"""GET /files: versions and conditions, ranges of long files, compression, clients that are slow."""

import email.utils
import gzip
import json
import os
import socket

import pytest

from envd_peer import Envd, wait_for
from proc import descriptors
from receive import receive

KB, MB = 1 << 10, 1 << 20
OLD = 1700000000


@pytest.fixture
def envd():
    e = Envd()
    yield e
    e.close()


@pytest.fixture(params=[1000, 300 * KB], ids=["short", "long"])
def old(request, tmp_path):
    """A file that has not changed for a long time, and its bytes."""
    data = os.urandom(request.param // 2) + b"the same text again\n" * (request.param // 40)
    (tmp_path / "f.txt").write_bytes(data)
    os.utime(tmp_path / "f.txt", (OLD, OLD))
    return tmp_path / "f.txt", data


def message(answer):
    status, _, body = answer
    got = json.loads(body)
    assert got["code"] == status
    return status, got["message"]


# ---- versions


def test_what_is_said(envd, old):
    path, data = old
    status, headers, body = envd.read(path)
    assert (status, body) == (200, data)
    assert headers["last-modified"] == email.utils.formatdate(OLD, usegmt=True)
    assert headers["etag"].startswith('"') and headers["accept-ranges"] == "bytes"
    assert headers["content-type"] == "text/plain; charset=utf-8"
    head = envd.request("HEAD", envd.files(str(path)))
    assert head[0] == 200 and head[2] == b""
    for name in ["content-length", "etag", "last-modified", "content-type", "accept-ranges",
                 "content-disposition", "vary"]:
        assert head[1][name] == headers[name], name


def test_the_tag_is_the_version(envd, old):
    path, data = old
    tag = envd.read(path)[1]["etag"]
    assert envd.read(path)[1]["etag"] == tag
    os.utime(path, (OLD, OLD + 10))
    other = envd.read(path)[1]["etag"]
    assert other != tag
    envd.write(path, data)
    assert envd.read(path)[1]["etag"] != other
    assert envd.read(path)[1]["etag"].startswith("W/"), "just written: it may change unseen"


def test_not_modified(envd, old):
    path, data = old
    _, first, _ = envd.read(path)
    for condition in [{"If-None-Match": first["etag"]}, {"If-None-Match": '"x", W/' + first["etag"]},
                      {"If-Modified-Since": first["last-modified"]},
                      {"If-None-Match": first["etag"], "Range": "bytes=0-1"}]:
        for method in ["GET", "HEAD"]:
            status, headers, body = envd.request(method, envd.files(str(path)), None, condition)
            assert (status, body) == (304, b""), condition
            assert headers["etag"] == first["etag"]
    day_before = email.utils.formatdate(OLD - 86400, usegmt=True)
    for condition in [{"If-None-Match": '"x"'}, {"If-Modified-Since": day_before}]:
        assert envd.read(path, condition)[::2] == (200, data)


def test_preconditions(envd, old):
    path, data = old
    tag = envd.read(path)[1]["etag"]
    day_before = email.utils.formatdate(OLD - 86400, usegmt=True)
    assert envd.read(path, {"If-Match": tag})[::2] == (200, data)
    for condition in [{"If-Match": '"x"'}, {"If-Unmodified-Since": day_before}]:
        assert message(envd.read(path, condition))[0] == 412


def test_if_range(envd, old):
    path, data = old
    _, first, _ = envd.read(path)
    part = {"Range": "bytes=1-2"}
    for certain in [first["etag"], first["last-modified"]]:
        assert envd.read(path, {**part, "If-Range": certain})[::2] == (206, data[1:3])
    for other in ['"x"', "W/" + first["etag"], email.utils.formatdate(OLD + 1, usegmt=True)]:
        assert envd.read(path, {**part, "If-Range": other})[::2] == (200, data)


# ---- ranges


@pytest.mark.parametrize("first, last", [(0, 0), (1, 65536), (65535, 131072), (299999, None),
                                         (100000, 200000)])
def test_ranges_of_a_long_file(envd, tmp_path, first, last):
    data = os.urandom(300 * KB)
    (tmp_path / "f").write_bytes(data)
    want = data[first:last + 1 if last is not None else None]
    status, headers, body = envd.read(tmp_path / "f", {
        "Range": f"bytes={first}-{'' if last is None else last}"})
    assert (status, headers["content-length"]) == (206, str(len(want))) and body == want
    assert headers["content-range"] == f"bytes {first}-{first + len(want) - 1}/{len(data)}"


def test_a_range_that_is_not_there(envd, old):
    path, data = old
    answer = envd.read(path, {"Range": f"bytes={len(data)}-"})
    assert answer[1]["content-range"] == f"bytes */{len(data)}"
    assert message(answer)[0] == 416


def test_ranges_of_files_that_lie_about_their_size(envd):
    whole = envd.read("/proc/version")[2]
    status, headers, body = envd.read("/proc/version", {"Range": "bytes=2-5"})
    assert (status, body) == (206, whole[2:6])
    assert headers["content-range"] == f"bytes 2-5/{len(whole)}"
    name = "/sys/kernel/mm/transparent_hugepage/enabled"
    if os.path.exists(name):
        status, headers, body = envd.request("HEAD", envd.files(name))
        assert int(headers["content-length"]) == len(open(name).read())
    assert envd.request("HEAD", envd.files("/proc/version"))[1]["content-length"] == str(len(whole))


def test_empty_files_have_no_parts(envd, tmp_path):
    (tmp_path / "f").touch()
    for header in ["bytes=0-", "bytes=-1", "bytes=5-"]:
        status, headers, body = envd.read(tmp_path / "f", {"Range": header})
        assert (status, headers["content-length"], body) == (200, "0", b"")


# ---- compression


def test_gzip_when_it_is_liked_better(envd, old):
    path, data = old
    plain = envd.read(path)
    for accept in ["gzip", "gzip, identity;q=0.5", "gzip;q=0.2, identity;q=0", "identity;q=0, *"]:
        status, headers, body = envd.read(path, {"Accept-Encoding": accept})
        assert (status, headers["content-encoding"]) == (200, "gzip"), accept
        assert gzip.decompress(body) == data and len(body) < len(data)
        assert headers["vary"] == "Accept-Encoding"
        assert headers["etag"] != plain[1]["etag"], "another representation"
        assert "accept-ranges" not in headers
        status, headers, body = envd.request("HEAD", envd.files(str(path)), None,
                                             {"Accept-Encoding": accept})
        assert (status, headers["content-encoding"], body) == (200, "gzip", b"")
        assert "content-length" not in headers


def test_identity_else(envd, old):
    path, data = old
    for accept in ["", "gzip, deflate", "gzip, deflate, br", "*", "identity", "*;q=0, identity", "br;q=1"]:
        status, headers, body = envd.read(path, {"Accept-Encoding": accept})
        assert (status, body) == (200, data) and "content-encoding" not in headers, accept
    better = {"Accept-Encoding": "gzip, identity;q=0.5"}
    for condition in [{"Range": "bytes=1-2"}, {"If-None-Match": '"x"'},
                      {"If-Modified-Since": email.utils.formatdate(OLD - 1, usegmt=True)}]:
        status, headers, _ = envd.read(path, {**better, **condition})
        assert status in (200, 206) and "content-encoding" not in headers


def test_nothing_acceptable(envd, old):
    for accept in ["identity;q=0", "*;q=0", "deflate;q=1,*;q=0", "gzip;q=0, identity;q=0"]:
        assert message(envd.read(old[0], {"Accept-Encoding": accept})) == (
            406, "error parsing Accept-Encoding: no acceptable encoding found, supported: [gzip]")


def test_gzip_of_odd_files(envd, tmp_path):
    only = {"Accept-Encoding": "gzip;q=1, *;q=0"}
    (tmp_path / "empty").touch()
    assert gzip.decompress(envd.read(tmp_path / "empty", only)[2]) == b""
    assert gzip.decompress(envd.read("/proc/version", only)[2]) == open("/proc/version", "rb").read()
    assert len(gzip.decompress(envd.read("/proc/kallsyms", only)[2])) > 100000
    status, headers, body = envd.read("/proc/version", {**only, "Range": "bytes=0-1"})
    assert (status, headers["content-encoding"]) == (200, "gzip"), "the whole: identity is refused"


# ---- clients


def test_slow_clients_of_all_kinds(envd, tmp_path):
    """No client holds up another, and envd holds little memory for each."""
    data = os.urandom(MB) * 8
    (tmp_path / "f").write_bytes(data)
    before = envd.peak_kb()
    slow = []
    for accept in ["identity"] * 8 + ["identity;q=0, gzip"] * 4:
        s = socket.socket()
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        s.settimeout(60)
        s.connect(("127.0.0.1", envd.port))
        s.sendall(f"GET {envd.files(str(tmp_path / 'f'))} HTTP/1.1\r\nHost: x\r\n"
                  f"Accept-Encoding: {accept}\r\nConnection: close\r\n\r\n".encode())
        slow.append(s)
    for s in slow:
        assert receive(s, 12) == b"HTTP/1.1 200"
    assert envd.read(tmp_path / "f")[2] == data, "another is served meanwhile"
    if not os.environ.get("SAN"):
        assert envd.peak_kb() - before < 12 << 10
    for s in slow[:10]:
        s.close()
    slow[10].setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, MB)
    rest = b""
    while piece := slow[10].recv(MB):
        rest += piece
    assert len(rest) > len(data), "one that goes on gets it all"
    slow[10].close()
    slow[11].close()
    wait_for(lambda: str(tmp_path / "f") not in descriptors(envd.process.pid).values(), 30, "all files are closed")


def test_a_file_that_shrinks_breaks_the_answer(envd, tmp_path):
    path = tmp_path / "f"
    path.write_bytes(bytes(64 * MB))
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    s.settimeout(60)
    s.connect(("127.0.0.1", envd.port))
    s.sendall(f"GET {envd.files(str(path))} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    assert receive(s, 12) == b"HTTP/1.1 200"
    os.truncate(path, 1)
    got = 0
    try:
        while piece := s.recv(MB):
            got += len(piece)
    except ConnectionResetError:
        pass
    assert got < 64 * MB, "it ended before the length that was declared"
    s.close()
    assert envd.read(path)[2] == b"\0"
