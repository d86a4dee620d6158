# SPDX-License-Identifier: Apache-2.0
"""Volumes and their content API, also through E2B's own SDKs."""

import fcntl
import http.client
import json
import os
import signal
import struct
from concurrent.futures import ThreadPoolExecutor
import urllib.parse

import pytest

from cubbyd import Daemon, wait_for
from cubbyd_fixtures import *  # noqa: F401,F403
from sdk import OnTcp, both_sdks, runs_to_its_end

HOSTILE = ["../x", "/a/../../x", "..", "a/.."]
REMOVED = ".cubby-removed"


class Volumes(OnTcp, Daemon):
    """A daemon that also listens on TCP."""


def make(daemon, name="data"):
    answer = daemon.request("POST", "/volumes", {"name": name})
    assert answer.status == 201, answer.body
    return answer.json


def ask(daemon, volume, method, what, path, body=None, token=None, **query):
    query = urllib.parse.urlencode({"path": path, **query})
    return daemon.request(method, f"/volumecontent/{volume['volumeID']}/{what}?{query}", body,
                          {"Authorization": "Bearer " + (token or volume["token"])})


def put(daemon, volume, path, data, **query):
    return ask(daemon, volume, "PUT", "file", path, data, **query)


def data_of(daemon, volume):
    return daemon.home / "volumes" / volume["volumeID"] / "data"


@pytest.fixture
def volume(daemon):
    made = make(daemon)
    yield made
    daemon.request("DELETE", f"/volumes/{made['volumeID']}")


# ---- the volumes
def test_make_list_get_destroy(daemon):
    made = make(daemon, "first")
    assert set(made) == {"volumeID", "name", "token"} and str(daemon.home) not in json.dumps(made)
    assert daemon.request("GET", "/volumes").json == [{"volumeID": made["volumeID"], "name": "first"}]
    assert daemon.request("GET", f"/volumes/{made['volumeID']}").json == made
    assert daemon.request("POST", "/volumes", {"name": "first"}).status == 409
    assert daemon.request("DELETE", f"/volumes/{made['volumeID']}").status == 204
    for method in ("GET", "DELETE"):
        assert daemon.request(method, f"/volumes/{made['volumeID']}").status == 404
    assert daemon.request("GET", "/volumes").json == []
    wait_for(lambda: os.listdir(daemon.home / "volumes") == [], 30, "its files are removed")


@pytest.mark.parametrize("paths, message", [
    (["/a", "/a/b"], "below the other"), (["/a/b/c", "/x", "/a"], "below the other"), (["/a", "/a"], "already used"),
    (["/a", "/ab", "relative"], "plain form")])
def test_paths_of_mounts_lie_apart(daemon, volume, paths, message):
    mounts = [{"name": volume["name"], "path": path} for path in paths]
    refused = daemon.request("POST", "/sandboxes", {"templateID": "default", "volumeMounts": mounts})
    assert refused.status == 400 and message in refused.json["message"], refused.body


@pytest.mark.parametrize("name", ["", "a b", "a/b", "..", "x" * 129, 7, None])
def test_bad_names(daemon, name):
    assert daemon.request("POST", "/volumes", {"name": name}).status == 400
    assert daemon.request("GET", "/volumes").json == []


def test_they_outlive_the_daemon():
    with Daemon() as daemon:
        volume = make(daemon)
        assert put(daemon, volume, "/kept", b"text").status == 201
        (daemon.home / "volumes" / volume["volumeID"] / ".put-left").write_text("half")
        (daemon.home / "volumes" / ".gone-left").mkdir()
        daemon.stop(signal.SIGKILL)
        daemon.start()
        assert daemon.request("GET", f"/volumes/{volume['volumeID']}").json == volume
        assert ask(daemon, volume, "GET", "file", "/kept").body == b"text"
        assert sorted(os.listdir(daemon.home / "volumes" / volume["volumeID"])) == ["data", "volume.json"]
        assert os.listdir(daemon.home / "volumes") == [volume["volumeID"]]


def test_limits():
    with Daemon("--max-volumes", "1", "--max-volume-size", "1M") as daemon:
        volume = make(daemon)
        refused = daemon.request("POST", "/volumes", {"name": "second"})
        assert refused.status == 429 and "--max-volumes" in refused.json["message"]
        assert put(daemon, volume, "/a", b"x" * 600_000).status == 201
        for body in (b"x" * 600_000, iter([b"x" * 300_000] * 3)):  # with a length, and without
            refused = put(daemon, volume, "/b", body)
            assert refused.status == 507 and "--max-volume-size" in refused.json["message"]
        assert [e["name"] for e in ask(daemon, volume, "GET", "dir", "/").json] == ["a"]
        assert ask(daemon, volume, "DELETE", "path", "/a").status == 204
        assert put(daemon, volume, "/b", b"x" * 600_000).status == 201
        assert sorted(os.listdir(daemon.home / "volumes" / volume["volumeID"])) == ["data", "volume.json"]


class Upload:
    """An upload that is under way: its body is sent in parts."""

    def __init__(self, daemon, volume, path, length=None):
        self.connection = daemon.connection()
        self.chunked = length is None
        self.connection.putrequest("PUT", f"/volumecontent/{volume['volumeID']}/file?path={path}")
        self.connection.putheader("Authorization", "Bearer " + volume["token"])
        self.connection.putheader(*(("Transfer-Encoding", "chunked") if self.chunked else ("Content-Length", length)))
        self.connection.endheaders()

    def send(self, data):
        self.connection.send(b"%x\r\n%s\r\n" % (len(data), data) if self.chunked else data)

    def end(self):
        if self.chunked:
            self.connection.send(b"0\r\n\r\n")
        answer = self.connection.getresponse()
        answer.read()
        self.connection.close()
        return answer.status


@pytest.mark.parametrize("length", [600_000, None], ids=["length", "chunked"])
def test_uploads_at_once_share_the_limit(length):
    """Each alone would fit. The room of one that breaks off is free again."""
    with Daemon("--max-volume-size", "1M") as daemon:
        volume = make(daemon)
        place = daemon.home / "volumes" / volume["volumeID"]
        first = Upload(daemon, volume, "/a", length)
        first.send(b"x" * 590_000)
        wait_for(lambda: any(p.name.startswith(".put-") and p.stat().st_size == 590_000 for p in place.iterdir()),
                 30, "it holds its room")
        assert put(daemon, volume, "/b", b"x" * 600_000).status == 507
        assert put(daemon, volume, "/b", iter([b"x" * 300_000] * 2)).status == 507
        first.send(b"x" * 10_000)
        assert first.end() == 201
        assert put(daemon, volume, "/b", b"x" * 600_000).status == 507
        assert put(daemon, volume, "/b", b"x" * 300_000).status == 201
        assert ask(daemon, volume, "DELETE", "path", "/a").status == 204
        broken = Upload(daemon, volume, "/c", length)
        broken.send(b"x" * 500_000)
        wait_for(lambda: any(p.name.startswith(".put-") and p.stat().st_size == 500_000 for p in place.iterdir()),
                 30, "it holds its room")
        broken.connection.close()
        wait_for(lambda: put(daemon, volume, "/d", b"x" * 600_000).status == 201, 30, "its room is free")
        assert sorted(os.listdir(place)) == ["data", "volume.json"]


def test_directories_count():
    with Daemon("--max-volume-size", "1M") as daemon:
        volume = make(daemon)
        made = [ask(daemon, volume, "POST", "dir", f"/{i}").status for i in range(300)]
        # The directory above has grown, and counts, too.
        assert (1 << 20) // 4096 - 8 <= made.count(201) <= (1 << 20) // 4096 and set(made) == {201, 507}
        assert ask(daemon, volume, "POST", "dir", "/x/y/z", force="true").status == 507
        for i in range(8):
            assert ask(daemon, volume, "DELETE", "path", f"/{i}").status == 204
        assert ask(daemon, volume, "POST", "dir", "/x").status == 201


def counts_of(daemon):
    """The counts of the daemon's one volume in use, opened anew: with a lock of its own."""
    fds = f"/proc/{daemon.process.pid}/fd"
    for fd in os.listdir(fds):
        if os.readlink(f"{fds}/{fd}").startswith("/memfd:volume"):
            return os.open(f"{fds}/{fd}", os.O_RDWR)
    raise AssertionError("no volume is in use")


def test_changes_at_once_lose_no_bytes():
    with Daemon() as daemon:
        volume = make(daemon)
        assert put(daemon, volume, "/first", b"").status == 201
        counts = counts_of(daemon)

        def change(i):
            results = [put(daemon, volume, f"/{i}-{n}", b"x" * 50_000).status for n in range(15)]
            return results + [ask(daemon, volume, "DELETE", "path", f"/{i}-{n}").status for n in range(10)]

        with ThreadPoolExecutor(8) as pool:
            results = list(pool.map(change, range(8)))
        assert results == [[201] * 15 + [204] * 10] * 8
        kept = [path.stat().st_blocks * 512 for path in data_of(daemon, volume).iterdir()]
        assert len(kept) == 1 + 8 * 5
        assert struct.unpack("<q", os.pread(counts, 8, 0))[0] >= sum(max(size, 4096) for size in kept)
        os.close(counts)


def test_a_volume_in_use_delays_no_other():
    """A process that keeps the lock of a volume keeps no thread of the daemon."""
    with Daemon() as daemon:
        volume, other = make(daemon), make(daemon, "other")
        for i in range(6):
            assert put(daemon, volume, f"/{i}", b"").status == 201
        counts = counts_of(daemon)
        fcntl.flock(counts, fcntl.LOCK_EX)
        with ThreadPoolExecutor(6) as pool:
            waiting = [pool.submit(ask, daemon, volume, "DELETE", "path", f"/{i}") for i in range(6)]
            assert ask(daemon, volume, "GET", "dir", "/").status == 200
            assert ask(daemon, other, "GET", "dir", "/").status == 200
            os.close(counts)
            statuses = [one.result().status for one in waiting]
        # Only the first in the queue gives up after some seconds, on a machine that is very slow.
        assert statuses.count(204) >= 5, statuses


# ---- their files
def test_files(daemon, volume):
    made = put(daemon, volume, "/a.txt", b"hello", uid=7, gid=8, mode=0o640)
    assert made.status == 201, made.body
    entry = made.json
    assert {k: entry[k] for k in ("name", "path", "type", "size", "mode", "uid", "gid")} == {
        "name": "a.txt", "path": "/a.txt", "type": "file", "size": 5, "mode": 0o640, "uid": 7, "gid": 8}
    assert ask(daemon, volume, "GET", "path", "a.txt").json == entry
    got = ask(daemon, volume, "GET", "file", "/a.txt")
    assert (got.status, got.body) == (200, b"hello") and got.headers["Content-Type"] == "application/octet-stream"
    again = put(daemon, volume, "/a.txt", b"other")
    assert again.status == 409 and ask(daemon, volume, "GET", "file", "/a.txt").body == b"hello"
    assert put(daemon, volume, "/a.txt", b"other", force="true").status == 201
    assert ask(daemon, volume, "GET", "file", "/a.txt").body == b"other"
    changed = ask(daemon, volume, "PATCH", "path", "/a.txt", {"mode": 0o4755})
    assert changed.status == 200 and changed.json["mode"] == 0o4755
    kept = (data_of(daemon, volume) / "a.txt").stat()
    assert kept.st_mode & 0o7777 == 0o755 and kept.st_uid == os.getuid()  # no other bit counts on the host
    (data_of(daemon, volume) / "a.txt").chmod(0o640)  # as a sandbox does it
    assert ask(daemon, volume, "GET", "path", "/a.txt").json["mode"] == 0o640
    assert ask(daemon, volume, "PATCH", "path", "/a.txt", {"mode": 0o044}).json["mode"] == 0o044
    assert ask(daemon, volume, "GET", "file", "/a.txt").body == b"other"
    assert ask(daemon, volume, "DELETE", "path", "/a.txt").status == 204
    for method, what in (("GET", "path"), ("GET", "file"), ("DELETE", "path"), ("GET", "dir")):
        missing = ask(daemon, volume, method, what, "/a.txt")
        assert missing.status == 404 and missing.json["code"] == 404, what


def test_directories(daemon, volume):
    assert ask(daemon, volume, "POST", "dir", "/a/b").status == 404
    assert ask(daemon, volume, "POST", "dir", "/a/b", force="true").json["type"] == "directory"
    assert ask(daemon, volume, "POST", "dir", "/a/b").status == 409
    assert ask(daemon, volume, "POST", "dir", "/a/b", force="true").status == 201
    put(daemon, volume, "/a/b/c", b"")
    assert [e["path"] for e in ask(daemon, volume, "GET", "dir", "/").json] == ["/a"]
    assert sorted(e["path"] for e in ask(daemon, volume, "GET", "dir", "/", depth=3).json) == [
        "/a", "/a/b", "/a/b/c"]
    assert ask(daemon, volume, "GET", "dir", "/a/b/c").status == 400
    assert ask(daemon, volume, "DELETE", "path", "/a").status == 204
    assert ask(daemon, volume, "GET", "dir", "/").json == []
    assert ask(daemon, volume, "DELETE", "path", "/").status == 400


def test_large_files_come_and_go_in_parts(daemon, volume):
    parts = [os.urandom(1 << 20) for _ in range(24)]
    assert put(daemon, volume, "/large", iter(parts)).status == 201
    assert ask(daemon, volume, "GET", "file", "/large").body == b"".join(parts)


def test_an_upload_that_breaks_changes_nothing(daemon, volume):
    put(daemon, volume, "/a", b"whole")
    connection = daemon.connection()
    connection.putrequest("PUT", f"/volumecontent/{volume['volumeID']}/file?path=/a&force=true")
    connection.putheader("Authorization", "Bearer " + volume["token"])
    connection.putheader("Content-Length", "100000")
    connection.endheaders(b"x" * 1000)
    place = daemon.home / "volumes" / volume["volumeID"]
    wait_for(lambda: len(os.listdir(place)) == 3, 30, "the upload has begun")
    connection.close()
    wait_for(lambda: len(os.listdir(place)) == 2, 30, "the upload is forgotten")
    assert ask(daemon, volume, "GET", "file", "/a").body == b"whole"


# ---- access
@pytest.mark.parametrize("path", HOSTILE)
def test_no_path_leads_out(daemon, volume, path):
    for method, what in (("GET", "path"), ("GET", "file"), ("GET", "dir"), ("DELETE", "path"), ("POST", "dir"),
                         ("PUT", "file")):
        answer = ask(daemon, volume, method, what, path, b"x" if method == "PUT" else None)
        assert answer.status == 400 and "path must have no" in answer.json["message"], (method, what)


def test_no_link_leads_out(daemon, volume):
    """A guest may make any link. Links that stay inside are followed."""
    data = data_of(daemon, volume)
    (data / "secret").symlink_to("../volume.json")
    (data / "root").symlink_to("/")
    (data / "up").symlink_to("..")
    (data / "in").symlink_to("file")
    (data / "file").write_text("inside")
    (data / "proc").symlink_to("/proc/self/root")
    os.mkfifo(data / "fifo")
    assert ask(daemon, volume, "GET", "file", "/in").body == b"inside"
    assert ask(daemon, volume, "GET", "path", "/secret").json["target"] == "../volume.json"
    for path in ("/secret", "/root/etc/passwd", "/up/volume.json", "/proc/etc/passwd", "/fifo"):
        assert ask(daemon, volume, "GET", "file", path).status == 400, path
    for path in ("/root/tmp/new", "/up/new", "/up/data/new"):
        assert put(daemon, volume, path, b"x").status == 400, path
        assert ask(daemon, volume, "POST", "dir", path).status == 400, path
        assert ask(daemon, volume, "POST", "dir", path + "/deeper", force="true").status == 400, path
    assert ask(daemon, volume, "DELETE", "path", "/up/volume.json").status == 400
    assert ask(daemon, volume, "DELETE", "path", "/root").status == 204 and os.path.isdir("/etc")
    assert sorted(os.listdir(daemon.home / "volumes" / volume["volumeID"])) == ["data", "volume.json"]


def test_what_was_removed_cannot_be_reached(daemon, volume):
    (data_of(daemon, volume) / REMOVED).mkdir()
    (data_of(daemon, volume) / REMOVED / "x").write_text("removed")
    for method, what, path in (("GET", "file", f"/{REMOVED}/x"), ("GET", "dir", f"/{REMOVED}"),
                               ("GET", "path", f"//./{REMOVED}"), ("POST", "dir", f"/{REMOVED}/y"),
                               ("DELETE", "path", f"/{REMOVED}"), ("PUT", "file", f"/{REMOVED}/x")):
        assert ask(daemon, volume, method, what, path).status == 404, (method, path)
    assert ask(daemon, volume, "GET", "dir", "/").json == []


def test_changes_follow_no_link(daemon, volume):
    """A link would hide how deep a tree is, and lead to what was removed."""
    data = data_of(daemon, volume)
    (data / "d").mkdir()
    (data / "self").symlink_to(".")
    (data / "to").symlink_to("d")
    for path in ("/self/x", f"/self/{REMOVED}", "/to/x", "/self/self/x"):
        for method, what, body in (("PUT", "file", b"x"), ("POST", "dir", None), ("DELETE", "path", None),
                                   ("PATCH", "path", {"mode": 0o600})):
            answer = ask(daemon, volume, method, what, path, body)
            assert answer.status == 400 and "symbolic link" in answer.json["message"], (method, path)
        forced = ask(daemon, volume, "POST", "dir", path + "/deeper", force="true")
        assert forced.status == 400, path
    assert ask(daemon, volume, "DELETE", "path", "/self").status == 204, "the link itself"
    assert sorted(os.listdir(data)) == ["d", "to"] and os.listdir(data / "d") == []


def test_no_link_leads_to_what_was_removed(daemon, volume):
    data = data_of(daemon, volume)
    (data / REMOVED / "tree").mkdir(parents=True)
    (data / REMOVED / "x").write_text("removed")
    (data / REMOVED / "tree" / "y").write_text("removed")
    (data / (REMOVED + "-not")).write_text("a file of the user")
    (data / "in").symlink_to(REMOVED)
    (data / "self").symlink_to(".")
    (data / "file").symlink_to(f"{REMOVED}/x")
    for path in ("/in/x", "/in/tree/y", "/file", f"/self/{REMOVED}/x"):
        assert ask(daemon, volume, "GET", "file", path).status == 404, path
    for path in ("/in", "/in/tree", f"/self/{REMOVED}"):
        assert ask(daemon, volume, "GET", "dir", path).status == 404, path
    assert ask(daemon, volume, "GET", "path", "/in/x").status == 404
    assert ask(daemon, volume, "GET", "file", f"/self/{REMOVED}-not").body == b"a file of the user"
    assert REMOVED not in [e["name"] for e in ask(daemon, volume, "GET", "dir", "/self").json]


def make_deep(top, levels):
    """A tree that is deeper than a path can name."""
    fd = os.open(top, os.O_PATH)
    for _ in range(levels):
        os.mkdir("d", dir_fd=fd)
        below = os.open("d", os.O_PATH, dir_fd=fd)
        os.close(fd)
        fd = below
    os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=fd))
    os.close(fd)


def test_a_tree_of_any_depth_is_removed():
    with Daemon() as daemon:
        volume = make(daemon)
        make_deep(data_of(daemon, volume), 3000)
        assert daemon.request("DELETE", f"/volumes/{volume['volumeID']}").status == 204
        wait_for(lambda: os.listdir(daemon.home / "volumes") == [], 60, "its files are removed")
        left = daemon.home / "volumes" / ".gone-left"
        left.mkdir()
        make_deep(left, 3000)
        daemon.stop(signal.SIGKILL)
        daemon.start()
        assert os.listdir(daemon.home / "volumes") == []


def test_a_volume_that_became_a_link(daemon, volume):
    """Whoever can write there could lead the daemon elsewhere."""
    data = data_of(daemon, volume)
    data.rmdir()
    data.symlink_to("/etc")
    for method, what, path in (("GET", "file", "/hostname"), ("GET", "dir", "/"), ("PUT", "file", "/x")):
        answer = ask(daemon, volume, method, what, path, b"x" if method == "PUT" else None)
        assert answer.status == 500 and str(daemon.home) not in answer.body.decode(), method
    assert daemon.request("DELETE", f"/volumes/{volume['volumeID']}").status == 204 and os.path.exists("/etc/hostname")


def test_each_volume_has_its_own_token(daemon, volume):
    other = make(daemon, "other")
    for token in (other["token"], "x", ""):
        answer = ask(daemon, volume, "GET", "path", "/", token=token or " ")
        assert answer.status == 401, token
    unknown = {"volumeID": "0" * 20, "token": volume["token"]}
    assert ask(daemon, unknown, "GET", "path", "/").status == 401
    bare = daemon.request("GET", f"/volumecontent/{volume['volumeID']}/path?path=/")
    assert bare.status == 401 and volume["token"] not in bare.body.decode()
    daemon.request("DELETE", f"/volumes/{other['volumeID']}")


# ---- E2B's SDKs
PYTHON_PROGRAM = """
from e2b import Volume
from e2b.exceptions import NotFoundException
volume = Volume.create("sdk")
same = Volume.connect(volume.volume_id)
assert [v.name for v in Volume.list()] == ["sdk"]
assert Volume.get_info(volume.volume_id).token == volume.token
volume.make_dir("/a/b", force=True)
entry = volume.write_file("/a/b/note", "text", mode=0o600)
assert (entry.name, entry.path, entry.size, entry.mode) == ("note", "/a/b/note", 4, 0o600), entry
assert same.read_file("/a/b/note") == "text"
assert bytes(same.read_file("/a/b/note", format="bytes")) == b"text"
assert sorted(e.path for e in volume.list("/", depth=3)) == ["/a", "/a/b", "/a/b/note"]
assert volume.update_metadata("/a/b/note", uid=5).uid == 5
assert volume.exists("/a/b/note") and not volume.exists("/none")
volume.remove("/a")
assert not volume.exists("/a")
assert Volume.destroy(volume.volume_id) and not Volume.destroy(volume.volume_id)
try:
    Volume.get_info(volume.volume_id)
except NotFoundException:
    print("done")
"""

JS_PROGRAM = """
import assert from 'node:assert'
import { createRequire } from 'node:module'
const { Volume } = createRequire(process.env.CLIENTS + '/package.json')('e2b')
const volume = await Volume.create('sdk')
const same = await Volume.connect(volume.volumeId)
assert.deepEqual((await Volume.list()).map((v) => v.name), ['sdk'])
await volume.makeDir('/a/b', { force: true })
assert.equal((await volume.writeFile('/a/b/note', 'text')).size, 4)
assert.equal(await same.readFile('/a/b/note'), 'text')
assert.deepEqual((await volume.list('/', { depth: 3 })).map((e) => e.path).sort(), ['/a', '/a/b', '/a/b/note'])
assert.equal((await volume.updateMetadata('/a/b/note', { mode: 0o600 })).mode, 0o600)
assert.equal(await volume.exists('/none'), false)
await volume.remove('/a')
assert.equal(await volume.exists('/a'), false)
assert.equal(await Volume.destroy(volume.volumeId), true)
assert.equal(await Volume.destroy(volume.volumeId), false)
console.log('done')
"""


@both_sdks(PYTHON_PROGRAM, JS_PROGRAM)
def test_sdks(words):
    with Volumes() as daemon:
        runs_to_its_end(words, daemon, E2B_VOLUME_API_URL=daemon.url)


def test_keys_see_their_own_volumes():
    with Volumes() as daemon:
        made = make(daemon)  # on the unix socket
        connection = http.client.HTTPConnection(*daemon.url.removeprefix("http://").split(":"))
        for path, status in (("/volumes", 200), (f"/volumes/{made['volumeID']}", 404)):
            connection.request("GET", path, headers={"X-API-Key": daemon.variables()["E2B_API_KEY"]})
            answer = connection.getresponse()
            assert answer.status == status and made["token"] not in answer.read().decode()
        connection.close()
