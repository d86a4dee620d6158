# SPDX-License-Identifier: Apache-2.0
"""POST /files/compose joins several files into one."""

import json
import os
import socket
import subprocess

import pytest

from envd_peer import IS_ROOT, Envd, basic, wait_for

MB = 1 << 20


@pytest.fixture
def envd():
    e = Envd()
    yield e
    e.close()


def compose(envd, sources, destination, headers=None, **fields):
    body = {"source_paths": [str(s) for s in sources], "destination": str(destination), **fields}
    return envd.json("POST", "/files/compose", json.dumps(body),
                     {"Content-Type": "application/json", **(headers or {})})


def test_compose(envd, tmp_path):
    parts = [os.urandom(3 * MB), b"", b"middle", os.urandom(MB + 1)]
    for i, data in enumerate(parts):
        (tmp_path / f"part{i}").write_bytes(data)
    sources = [tmp_path / f"part{i}" for i in range(len(parts))]
    status, answer = compose(envd, sources, tmp_path / "new/whole")
    assert (status, answer) == (200, {"path": f"{tmp_path}/new/whole", "name": "whole", "type": "file"})
    assert (tmp_path / "new/whole").read_bytes() == b"".join(parts)
    assert os.listdir(tmp_path) == ["new"] and os.listdir(tmp_path / "new") == ["whole"]
    assert (tmp_path / "new/whole").stat().st_mode & 0o7777 == 0o644


def test_one_source_and_an_old_destination(envd, tmp_path):
    (tmp_path / "a").write_text("new")
    (tmp_path / "f").write_text("the old one")
    (tmp_path / "f").chmod(0o750)
    assert compose(envd, [tmp_path / "a"], tmp_path / "f")[0] == 200
    assert (tmp_path / "f").read_text() == "new" and os.listdir(tmp_path) == ["f"]
    assert (tmp_path / "f").stat().st_mode & 0o7777 == 0o750


def test_a_source_twice(envd, tmp_path):
    (tmp_path / "a").write_text("a")
    assert compose(envd, [tmp_path / "a", tmp_path / "a"], tmp_path / "f")[0] == 200
    assert (tmp_path / "f").read_text() == "aa" and os.listdir(tmp_path) == ["f"]


def test_paths_as_everywhere(envd, tmp_path):
    assert envd.init(defaultWorkdir=str(tmp_path))[0] == 204
    home = os.path.expanduser("~")
    name = f".envd-compose-test-{os.getpid()}"
    open(f"{home}/{name}", "w").write("x")
    try:
        status, answer = compose(envd, [f"~/{name}"], f"{name}-2")
        assert (status, answer["path"]) == (200, f"{home}/{name}-2")
    finally:
        for path in [f"{home}/{name}", f"{home}/{name}-2"]:
            if os.path.exists(path):
                os.unlink(path)


def test_refusals_change_nothing(envd, tmp_path):
    (tmp_path / "a").write_text("a")
    (tmp_path / "d").mkdir()
    (tmp_path / "link").symlink_to("a")
    os.link(tmp_path / "a", tmp_path / "hard")
    os.mkfifo(tmp_path / "fifo")
    before = sorted(os.listdir(tmp_path))

    def refused(sources, destination=tmp_path / "f", **fields):
        status, answer = compose(envd, [tmp_path / s for s in sources], destination, **fields)
        assert answer["code"] == status
        return status, answer["message"]
    assert refused([])[0] == 400
    assert refused(["a", "no"]) == (404, f"source file not found: {tmp_path}/no")
    assert refused(["a", "a/below"])[0] == 404
    for kind in ["d", "fifo"]:
        assert refused(["a", kind])[0] == 400
    for same in ["a", "./a", "link", "hard"]:
        assert refused([same], tmp_path / "a")[0] == 400, same
    assert refused(["a"], tmp_path / "d") == (400, f"path is a directory: {tmp_path}/d")
    assert refused(["a"], "~other/x")[0] == 400
    assert refused(["a"], "")[0] == 400
    assert refused(["a"], username="nosuch")[0] == 401
    for body in ["", "{", "[]", "{}", '{"source_paths":["/a"]}', '{"destination":"/x"}',
                 '{"source_paths":"/a","destination":"/x"}', '{"source_paths":[1],"destination":"/x"}',
                 '{"source_paths":[""],"destination":"/x"}', '{"source_paths":["/a"],"destination":1}']:
        status, answer = envd.json("POST", "/files/compose", body)
        assert (status, answer["code"]) == (400, 400), body
    assert envd.request("GET", "/files/compose")[0] == 405
    assert sorted(os.listdir(tmp_path)) == before and (tmp_path / "a").read_text() == "a"


def test_the_token_is_needed(envd, tmp_path):
    (tmp_path / "a").write_text("a")
    envd.init(accessToken="secret")
    status, answer = compose(envd, [tmp_path / "a"], tmp_path / "f")
    assert (status, answer["code"]) == (401, 401)
    assert compose(envd, [tmp_path / "a"], tmp_path / "f", {"X-Access-Token": "secret"})[0] == 200


@pytest.mark.skipif(not IS_ROOT, reason="only root can give files to another user")
def test_owner(envd, tmp_path):
    for i, (headers, fields) in enumerate([(basic("daemon"), {}), (None, {"username": "daemon"})]):
        (tmp_path / "a").write_text("a")
        assert compose(envd, [tmp_path / "a"], tmp_path / f"{i}/f", headers, **fields)[0] == 200
        assert (tmp_path / f"{i}/f").owner() == "daemon" and (tmp_path / f"{i}").owner() == "daemon"


@pytest.mark.skipif(not IS_ROOT, reason="only root can mount a small disk")
def test_full_disk(envd, tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    (tmp_path / "a").write_bytes(bytes(2 * MB))
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", disk], check=True)
    try:
        (disk / "f").write_text("old")
        status, answer = compose(envd, [tmp_path / "a"], disk / "f")
        assert (status, answer["code"]) == (507, 507)
        assert os.listdir(disk) == ["f"] and (disk / "f").read_text() == "old"
        assert (tmp_path / "a").exists(), "the source is still there"
    finally:
        subprocess.run(["umount", disk], check=True)


def test_a_client_that_leaves_ends_it(envd, tmp_path):
    """The sources stay, and nothing half written is left."""
    with open(tmp_path / "huge", "wb") as f:
        f.truncate(1 << 40)
    body = json.dumps({"source_paths": [f"{tmp_path}/huge"], "destination": f"{tmp_path}/f"}).encode()
    s = socket.create_connection(("127.0.0.1", envd.port), 30)
    s.sendall(b"POST /files/compose HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    wait_for(lambda: len(os.listdir(tmp_path)) == 2, 30, "the copy has begun")
    assert envd.request("GET", "/health")[0] == 204, "others are served meanwhile"
    s.close()
    wait_for(lambda: os.listdir(tmp_path) == ["huge"], 30, "it is gone")


def test_files_that_the_kernel_does_not_copy_by_itself(envd, tmp_path):
    """/proc's files can be read but not removed: the answer reports that failure."""
    status, answer = compose(envd, ["/proc/version"], tmp_path / "f")
    assert status == 500 or status == 403
    assert answer["message"].startswith(f"{tmp_path}/f is written, but /proc/version could not be removed")
    assert (tmp_path / "f").read_bytes() == open("/proc/version", "rb").read()
    assert envd.process.poll() is None
