# SPDX-License-Identifier: Apache-2.0
"""filesystem.Filesystem: entries, directories, moving, removing."""

import json
import os
import pathlib
import re
import subprocess

import pytest

from envd_peer import IS_ROOT, ME, Envd, basic
from receive import receive


@pytest.fixture
def envd():
    e = Envd()
    yield e
    e.close()


def entry(envd, path):
    status, answer = envd.fs("Stat", path=str(path))
    assert status == 200, answer
    return answer["entry"]


def failure(answer):
    status, body = answer
    return status, body["code"]


def test_stat_of_a_file(envd, tmp_path):
    f = tmp_path / "f"
    f.write_text("12345")
    os.utime(f, ns=(0, 1767225600_120000000))
    e = entry(envd, f)
    import grp
    assert e == {"name": "f", "type": "FILE_TYPE_FILE", "path": str(f), "size": "5", "mode": 420,
                 "permissions": "-rw-r--r--", "owner": ME, "group": grp.getgrgid(os.getgid()).gr_name,
                 "modifiedTime": "2026-01-01T00:00:00.120Z"}


def test_stat_of_others(envd, tmp_path):
    root = entry(envd, "/")
    assert (root["name"], root["path"], root["type"]) == ("/", "/", "FILE_TYPE_DIRECTORY")
    assert entry(envd, "/tmp")["permissions"] == "dtrwxrwxrwx"
    null = entry(envd, "/dev/null")
    assert (null["permissions"], null.get("type")) == ("Dcrw-rw-rw-", None)
    assert entry(envd, "")["path"] == os.path.expanduser("~")
    assert entry(envd, "~")["path"] == os.path.expanduser("~")
    assert failure(envd.fs("Stat", path=str(tmp_path / "no"))) == (404, "not_found")
    assert envd.fs("Stat", path=str(tmp_path / "no"))[1]["message"].startswith("file not found: ")
    assert failure(envd.fs("Stat", path="/etc/passwd/x")) == (404, "not_found")
    assert failure(envd.fs("Stat", path="~other")) == (400, "invalid_argument")


def test_stat_of_links(envd, tmp_path):
    (tmp_path / "dir").mkdir()
    (tmp_path / "file").write_text("x")
    (tmp_path / "file").chmod(0o600)
    (tmp_path / "to-dir").symlink_to("dir")
    (tmp_path / "to-file").symlink_to("to-it")
    (tmp_path / "to-it").symlink_to("file")
    (tmp_path / "dangling").symlink_to("nowhere")
    e = entry(envd, tmp_path / "to-dir")
    assert (e["type"], e["symlinkTarget"]) == ("FILE_TYPE_DIRECTORY", f"{tmp_path}/dir")
    e = entry(envd, tmp_path / "to-file")
    assert (e["type"], e["mode"], e["symlinkTarget"]) == ("FILE_TYPE_FILE", 0o600, f"{tmp_path}/file")
    assert e["permissions"] == "Lrwxrwxrwx"
    e = entry(envd, tmp_path / "dangling")
    assert (e.get("type", "FILE_TYPE_UNSPECIFIED"), e.get("mode", 0)) == ("FILE_TYPE_UNSPECIFIED", 0)
    assert "type" not in e and "mode" not in e, "E2B's envd leaves default values out"
    assert e["symlinkTarget"] == f"{tmp_path}/dangling"


@pytest.mark.skipif(not IS_ROOT, reason="only root can give files away")
def test_owner_without_a_name(envd, tmp_path):
    (tmp_path / "f").touch()
    os.chown(tmp_path / "f", 54321, 54322)
    e = entry(envd, tmp_path / "f")
    assert (e["owner"], e["group"]) == ("54321", "54322")


OLDEST = {"User-Agent": "connect-python"}


def test_the_oldest_client_gets_few_members(envd, tmp_path):
    (tmp_path / "f").write_text("x")
    brief = {"name": "f", "type": "FILE_TYPE_FILE", "path": f"{tmp_path}/f"}
    for agent, want in [("connect-python", True), ("connect-python/1", False), ("Connect-Python", False)]:
        status, headers, body = envd.request(
            "POST", "/filesystem.Filesystem/Stat", json.dumps({"path": f"{tmp_path}/f"}),
            {"Content-Type": "application/json", "User-Agent": agent})
        entry_ = json.loads(body)["entry"]
        assert (entry_ == brief) == want and (headers.get("x-e2b-legacy-sdk") == "true") == want
        assert status == 200 and entry_["name"] == "f"

    def call(method, **fields):
        return envd.rpc("filesystem.Filesystem/" + method, fields, OLDEST)[1]
    assert call("ListDir", path=str(tmp_path)) == {"entries": [brief]}
    assert call("Move", source=f"{tmp_path}/f", destination=f"{tmp_path}/g")["entry"] == {
        "name": "g", "type": "FILE_TYPE_FILE", "path": f"{tmp_path}/g"}
    assert call("MakeDir", path=f"{tmp_path}/d")["entry"] == {
        "name": "d", "type": "FILE_TYPE_DIRECTORY", "path": f"{tmp_path}/d"}


def test_make_dir(envd, tmp_path):
    path = tmp_path / "x/y"
    status, answer = envd.fs("MakeDir", path=str(path))
    assert status == 200 and answer["entry"]["type"] == "FILE_TYPE_DIRECTORY"
    assert path.stat().st_mode & 0o7777 == 0o755
    assert failure(envd.fs("MakeDir", path=str(path))) == (409, "already_exists")
    (tmp_path / "f").touch()
    assert failure(envd.fs("MakeDir", path=str(tmp_path / "f"))) == (400, "invalid_argument")
    assert failure(envd.fs("MakeDir", path=str(tmp_path / "f/below"))) == (400, "invalid_argument")
    assert failure(envd.fs("MakeDir", path=str(tmp_path / ("n" * 300))))[0] >= 400


@pytest.mark.skipif(not IS_ROOT, reason="only root can give directories to another user")
def test_made_directories_belong_to_the_user(envd, tmp_path):
    assert envd.rpc("filesystem.Filesystem/MakeDir", {"path": f"{tmp_path}/a/b"},
                    basic("daemon"))[1]["entry"]["owner"] == "daemon"
    assert entry(envd, tmp_path / "a")["owner"] == "daemon"
    assert entry(envd, tmp_path)["owner"] == "root"


def test_move(envd, tmp_path):
    (tmp_path / "a").write_text("a")
    (tmp_path / "b").write_text("b")
    status, answer = envd.fs("Move", source=f"{tmp_path}/a", destination=f"{tmp_path}/n/e/w")
    assert status == 200 and answer["entry"]["path"] == f"{tmp_path}/n/e/w"
    assert (tmp_path / "n/e/w").read_text() == "a" and not (tmp_path / "a").exists()
    assert envd.fs("Move", source=f"{tmp_path}/n/e/w", destination=f"{tmp_path}/b")[0] == 200
    assert (tmp_path / "b").read_text() == "a", "a file is overwritten"
    assert envd.fs("Move", source=f"{tmp_path}/n", destination=f"{tmp_path}/m")[0] == 200
    assert (tmp_path / "m/e").is_dir()
    assert failure(envd.fs("Move", source=f"{tmp_path}/no", destination=f"{tmp_path}/x")) == (
        404, "not_found")
    assert not (tmp_path / "x").exists()
    (tmp_path / "dangling").symlink_to("nowhere")
    assert envd.fs("Move", source=f"{tmp_path}/dangling", destination=f"{tmp_path}/d2")[0] == 200


def test_move_to_another_file_system(envd, tmp_path):
    other = next((p for p in ["/dev/shm", "/run"] if os.access(p, os.W_OK)
                  and os.stat(p).st_dev != tmp_path.stat().st_dev), None)
    if not other:
        pytest.skip("no second file system that may be written")
    (tmp_path / "a").write_text("a")
    status, answer = envd.fs("Move", source=f"{tmp_path}/a", destination=f"{other}/envd-test-move")
    assert (status, answer["code"]) == (400, "failed_precondition")
    assert (tmp_path / "a").exists()


def names(answer):
    status, body = answer
    assert status == 200, body
    return [e["path"] for e in body["entries"]]


def test_list_dir(envd, tmp_path):
    for d in ["b/c/d", "a"]:
        (tmp_path / d).mkdir(parents=True)
    for f in ["b/2", "b/1", "b/c/3", "Z", ".hidden"]:
        (tmp_path / f).touch()
    (tmp_path / "link").symlink_to("b")

    def listed(**fields):
        return [os.path.relpath(p, tmp_path) for p in names(envd.fs("ListDir", path=str(tmp_path),
                                                                    **fields))]
    top = [".hidden", "Z", "a", "b", "link"]
    assert listed() == listed(depth=0) == listed(depth=1) == listed(depth="1") == top
    assert listed(depth=2) == [".hidden", "Z", "a", "b", "b/1", "b/2", "b/c", "link"]
    assert listed(depth=9) == [".hidden", "Z", "a", "b", "b/1", "b/2", "b/c", "b/c/3", "b/c/d",
                               "link"]
    assert names(envd.fs("ListDir", path=str(tmp_path / "a"))) == []
    assert names(envd.fs("ListDir", path=str(tmp_path / "link"))) == [
        f"{tmp_path}/link/1", f"{tmp_path}/link/2", f"{tmp_path}/link/c"]
    assert "/etc" in names(envd.fs("ListDir", path="/"))


def test_list_dir_refuses(envd, tmp_path):
    (tmp_path / "f").touch()
    (tmp_path / "loop").symlink_to("loop")
    assert failure(envd.fs("ListDir", path=str(tmp_path / "f"))) == (400, "invalid_argument")
    status, answer = envd.fs("ListDir", path=str(tmp_path / "no"))
    assert (status, answer["code"]) == (404, "not_found")
    assert answer["message"].startswith("path not found")
    assert failure(envd.fs("ListDir", path=str(tmp_path / "loop"))) == (400, "failed_precondition")
    assert failure(envd.fs("ListDir", path="/", depth=-1)) == (400, "invalid_argument")


def test_times_that_nanoseconds_do_not_reach(envd, tmp_path):
    file = tmp_path / "f"
    file.touch()
    os.utime(file, (10413792000, 10413792000))
    if file.stat().st_mtime != 10413792000:
        pytest.skip("the file system does not keep such a time")
    assert entry(envd, file)["modifiedTime"] == "2300-01-01T00:00:00Z"


def test_huge_directory_is_sent_as_it_goes(envd, tmp_path):
    for i in range(20000):
        (tmp_path / f"{i:05}").touch()
    assert names(envd.fs("ListDir", path=str(tmp_path))) == [f"{tmp_path}/{i:05}"
                                                            for i in range(20000)]
    if not os.environ.get("SAN"):
        assert envd.peak_kb() < 12 << 10
    slow = envd.connect()
    body = b'{"path":"%s"}' % os.fsencode(tmp_path)
    slow.sendall(b"POST /filesystem.Filesystem/ListDir HTTP/1.1\r\nHost: x\r\nContent-Type: "
                 b"application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    assert receive(slow, 12) == b"HTTP/1.1 200"
    assert entry(envd, "/")["name"] == "/", "others are served meanwhile"
    slow.close()
    assert envd.fs("Remove", path=str(tmp_path)) == (200, {})
    assert not tmp_path.exists()


def test_remove(envd, tmp_path):
    assert envd.fs("Remove", path=str(tmp_path / "no")) == (200, {})
    (tmp_path / "d/e/f").mkdir(parents=True)
    (tmp_path / "d/e/g").touch()
    (tmp_path / "keep").mkdir()
    (tmp_path / "keep/x").touch()
    (tmp_path / "d/link").symlink_to(tmp_path / "keep")
    (tmp_path / "top").symlink_to(tmp_path / "keep")
    for name in ["d", "top"]:
        assert envd.fs("Remove", path=str(tmp_path / name)) == (200, {})
    assert sorted(os.listdir(tmp_path)) == ["keep"] and (tmp_path / "keep/x").exists()
    assert failure(envd.fs("Remove", path="/")) == (400, "invalid_argument")
    assert failure(envd.fs("Remove", path="/..")) == (400, "invalid_argument")


def test_remove_of_a_deep_tree_is_bounded(envd, tmp_path):
    fd = os.open(tmp_path, os.O_RDONLY)
    for _ in range(300):
        os.mkdir("d", dir_fd=fd)
        deeper = os.open("d", os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = deeper
    os.close(fd)
    status, answer = envd.fs("Remove", path=str(tmp_path / "d"))
    assert (status, answer["code"]) == (429, "resource_exhausted"), answer
    assert re.search(r"deep", answer["message"])
    subprocess.run(["rm", "-rf", tmp_path / "d"], check=True)


@pytest.mark.skipif(not IS_ROOT, reason="only root can make a file immutable or mount")
def test_remove_goes_on_after_a_failure(envd, tmp_path):
    for name in ["a", "m", "z"]:
        (tmp_path / "d" / name).mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", tmp_path / "d/m"], check=True)
    try:
        status, answer = envd.fs("Remove", path=str(tmp_path / "d"))
        assert status >= 400 and "busy" in answer["message"]
        assert os.listdir(tmp_path / "d") == ["m"]
    finally:
        subprocess.run(["umount", tmp_path / "d/m"], check=True)
