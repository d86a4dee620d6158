# SPDX-License-Identifier: Apache-2.0
"""POST /files: compressed bodies, metadata, names as clients write them."""

import gzip
import json
import os
import zlib

import pytest

from envd_peer import Envd, error

MB = 1 << 20
OCTETS = {"Content-Type": "application/octet-stream"}
GZIP = {"Content-Encoding": "gzip"}


@pytest.fixture
def envd():
    e = Envd()
    yield e
    e.close()


def stat(envd, path):
    status, answer = envd.fs("Stat", path=str(path))
    assert status == 200
    return answer["entry"]


def attributes(path):
    return {n: os.getxattr(path, n) for n in os.listxattr(path) if n.startswith("user.e2b.")}


# ---- compressed


@pytest.mark.parametrize("name", ["gzip", "GZip"])
def test_gzip(envd, tmp_path, name):
    data = os.urandom(300000) + bytes(300000)
    encoded = {"Content-Encoding": name}
    assert envd.write(tmp_path / "f", gzip.compress(data), encoded)[0] == 200
    assert (tmp_path / "f").read_bytes() == data
    pieces = gzip.compress(data)
    assert envd.write(tmp_path / "g", iter([pieces[:1], pieces[1:20], pieces[20:]]), encoded)[0] == 200
    assert (tmp_path / "g").read_bytes() == data
    assert envd.write(tmp_path / "empty", gzip.compress(b""), encoded)[0] == 200
    assert (tmp_path / "empty").read_bytes() == b""
    assert envd.write(tmp_path / "two", gzip.compress(b"a") + gzip.compress(b"b"), encoded)[0] == 200
    assert (tmp_path / "two").read_bytes() == b"ab", "members after one another"


def test_gzip_multipart(envd, tmp_path):
    body = b"".join(
        b'--B\r\nContent-Disposition: form-data; name="file"; filename="%s"\r\n\r\n%s\r\n'
        % (os.fsencode(tmp_path / name), data)
        for name, data in [("a", b"one"), ("d/b", bytes(100000))]) + b"--B--\r\n"
    status, _, answer = envd.request("POST", "/files", gzip.compress(body), {
        "Content-Type": "multipart/form-data; boundary=B", **GZIP})
    assert status == 200 and [e["name"] for e in json.loads(answer)] == ["a", "b"]
    assert (tmp_path / "a").read_bytes() == b"one"
    assert (tmp_path / "d/b").read_bytes() == bytes(100000)


@pytest.mark.parametrize("body", [b"", b"no gzip at all", gzip.compress(bytes(100000))[:-4],
                                  gzip.compress(os.urandom(100000))[:60000],
                                  zlib.compress(b"deflate"), gzip.compress(b"x") + b"more"],
                         ids=["empty", "text", "trailer", "half", "deflate", "garbage"])
def test_bad_gzip_leaves_nothing(envd, tmp_path, body):
    (tmp_path / "f").write_text("old")
    assert error(envd.write(tmp_path / "f", body, GZIP))[0] == 400
    assert os.listdir(tmp_path) == ["f"] and (tmp_path / "f").read_text() == "old"


def test_a_bomb_takes_no_memory(envd, tmp_path):
    """A small compressed body that becomes large goes to the disk, not to memory."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    body = b"".join(packer.compress(bytes(MB)) for _ in range(32)) + packer.flush()
    assert len(body) < 128 << 10
    assert envd.write(tmp_path / "f", body, GZIP)[0] == 200
    assert (tmp_path / "f").stat().st_size == 32 * MB
    if not os.environ.get("SAN"):
        assert envd.peak_kb() < 16 << 10


# ---- metadata


def test_metadata(envd, tmp_path):
    path = tmp_path / "f"
    status, _, body = envd.write(path, b"x", {"X-Metadata-K": "v", "x-metadata-Two-Words": "a b"})
    noted = {"k": "v", "two-words": "a b"}
    assert (status, json.loads(body)[0]["metadata"]) == (200, noted)
    assert attributes(path) == {"user.e2b.k": b"v", "user.e2b.two-words": b"a b"}
    assert stat(envd, path)["metadata"] == noted
    assert envd.fs("ListDir", path=str(tmp_path))[1]["entries"][0]["metadata"] == noted
    (tmp_path / "link").symlink_to("f")
    assert stat(envd, tmp_path / "link")["metadata"] == noted
    status, answer = envd.fs("Move", source=str(path), destination=str(tmp_path / "g"))
    assert answer["entry"]["metadata"] == noted
    assert envd.write(tmp_path / "g", b"y", {"X-Metadata-New": ""})[0] == 200
    assert stat(envd, tmp_path / "g")["metadata"] == {"new": ""}, "replaced as a whole"
    assert "metadata" not in json.loads(envd.write(tmp_path / "g", b"y")[2])[0]
    assert "metadata" not in stat(envd, tmp_path / "g") and attributes(tmp_path / "g") == {}


def test_metadata_is_on_each_part(envd, tmp_path):
    body = (f'--B\r\nContent-Disposition: form-data; name=file; filename="{tmp_path}/a"\r\n\r\n1\r\n'
            f'--B\r\nContent-Disposition: form-data; name=file; filename="{tmp_path}/b"\r\n\r\n2\r\n'
            "--B--\r\n")
    status, _, answer = envd.request("POST", "/files", body, {
        "Content-Type": "multipart/form-data; boundary=B", "X-Metadata-Who": "me"})
    assert status == 200 and [e["metadata"] for e in json.loads(answer)] == [{"who": "me"}] * 2
    assert stat(envd, tmp_path / "b")["metadata"] == {"who": "me"}


def test_metadata_limits(envd, tmp_path):
    key = "k" * 246
    assert envd.write(tmp_path / "f", b"x", {"X-Metadata-" + key: "v"})[0] == 200
    assert stat(envd, tmp_path / "f")["metadata"] == {key: "v"}
    long = "v" * 3000
    assert envd.write(tmp_path / "f", b"x", {"X-Metadata-L": long})[0] == 200
    assert stat(envd, tmp_path / "f")["metadata"] == {"l": long}
    for headers in [{"X-Metadata-" + "k" * 247: "v"}, {"X-Metadata-K": "v" * (4096 - 9)},
                    {"X-Metadata-": "v"}, {"X-Metadata-K": "\xe9"}, {"X-Metadata-K": "a\tb"},
                    {"X-Metadata-K": "1", "X-METADATA-k": "2"}]:
        status, message = error(envd.write(tmp_path / "f", b"y", headers))
        assert status == 400 and message.startswith("invalid metadata: "), headers
    assert (tmp_path / "f").read_bytes() == b"x" and os.listdir(tmp_path) == ["f"]


def test_metadata_where_none_can_be_kept(envd):
    target = f"/proc/{envd.process.pid}/oom_score_adj"
    status, message = error(envd.write(target, b"7", {"X-Metadata-K": "v"}))
    assert status == 400 and message.startswith("invalid metadata: ")


def test_metadata_of_others_is_shown_as_it_can_be(envd, tmp_path):
    (tmp_path / "f").touch()
    os.setxattr(tmp_path / "f", "user.e2b.raw", b"\xff\"\n")
    os.setxattr(tmp_path / "f", "user.other", b"not ours")
    assert stat(envd, tmp_path / "f")["metadata"] == {"raw": "\ufffd\"\n"}


# ---- names


@pytest.mark.parametrize("sent, name", [
    ("a%22b", 'a"b'), ("a%0D%0Ab", "a\r\nb"), ("a%20b", "a%20b"), ("ünï cödé", "ünï cödé"),
    ("a;b=c", "a;b=c"), ("100%", "100%"), ("b\\\\s", "b\\s")])
def test_filenames(envd, tmp_path, sent, name):
    status, _, body = envd.upload((f"{tmp_path}/{sent}", b"x"))
    assert status == 200 and json.loads(body)[0] == {
        "path": f"{tmp_path}/{name}", "name": name, "type": "file"}
    assert (tmp_path / name).read_bytes() == b"x"


def test_one_request_for_every_file(envd, tmp_path):
    """Many parts: every one arrives, in order."""
    parts = [(f"{tmp_path}/{i % 7}/{i}", os.urandom(i * 37 % 5000)) for i in range(400)]
    status, _, body = envd.upload(*parts)
    assert status == 200 and [e["path"] for e in json.loads(body)] == [p for p, _ in parts]
    for path, data in parts:
        assert open(path, "rb").read() == data


def test_parts_are_split_anywhere(envd, tmp_path):
    """A body whose bytes look like its boundary, in pieces of all sizes."""
    data = (b"\r\n--Xy\r\n--XyZ-\r\n--XyZ\r\r\n-" + bytes(100)) * 700
    body = (f'--XyZw\r\nContent-Disposition: form-data; name="file"; filename="{tmp_path}/f"\r\n'
            "\r\n").encode() + data + b"\r\n--XyZw--\r\n"
    kind = {"Content-Type": "multipart/form-data; boundary=XyZw"}
    for size in [1000, 4093, 65536]:
        pieces = (body[i:i + size] for i in range(0, len(body), size))
        assert envd.request("POST", "/files", pieces, kind)[0] == 200
        assert (tmp_path / "f").read_bytes() == data
