# SPDX-License-Identifier: Apache-2.0
"""filesystem.Filesystem: watching directories, as a stream and by polling."""

import os
import pathlib
import shutil
import socket
import threading
import time

import pytest

import tiny_fuse
from envd_fixtures import envd  # noqa: F401
from envd_peer import IS_ROOT, Envd, Stream, envelope, wait_for
from proc import descriptors

CREATE, WRITE, REMOVE, RENAME, CHMOD = "CREATE", "WRITE", "REMOVE", "RENAME", "CHMOD"


@pytest.fixture
def here(tmp_path):
    path = tmp_path / "watched"
    path.mkdir()
    return path


class Watch:
    """A WatchDir stream that has started to watch."""

    def __init__(self, envd, path, recursive=False, headers=None, **fields):
        self.stream = envd.stream("WatchDir", {"path": str(path), "recursive": recursive, **fields},
                                  headers, service="filesystem.Filesystem")
        assert self.stream.status == 200
        assert next(self.stream) == {"start": {}}, "armed before anything else"

    def event(self):
        """The next event that is not a keepalive, as it came."""
        while "keepalive" in (message := next(self.stream)):
            pass
        event = message["filesystem"]
        assert set(event) <= {"name", "type", "entry"}
        return event

    def next(self):
        event = self.event()
        return event["type"].removeprefix("EVENT_TYPE_"), event["name"]

    def until(self, kind, name):
        """All events up to and with this one."""
        seen = []
        while not seen or seen[-1] != (kind, name):
            seen.append(self.next())
        return seen

    def close(self):
        self.stream.close()


@pytest.fixture
def watch(envd, here):
    opened = []

    def open_watch(path=here, **options):
        opened.append(Watch(envd, path, **options))
        return opened[-1]

    yield open_watch
    for w in opened:
        w.close()


def refused(envd, **fields):
    """The error at the end of a stream that was refused."""
    stream = envd.stream("WatchDir", fields, service="filesystem.Filesystem")
    assert stream.status == 200
    assert list(stream) == []
    stream.close()
    return stream.end["error"]


def inotify_count(envd):
    return sum("inotify" in link for link in descriptors(envd.process.pid).values())


def memory_bound(envd, before):
    if not os.environ.get("SAN"):
        assert envd.peak_kb() - before < 8192, "memory does not grow with what nobody reads"


def append(path):
    """One write without truncation: one event."""
    with open(path, "a") as f:
        f.write("x")


# ---- what is told
def test_events_of_files(watch, here):
    w = watch()
    (here / "a").write_text("1")
    assert w.until(WRITE, "a")[0] == (CREATE, "a")
    (here / "a").chmod(0o600)
    assert w.next() == (CHMOD, "a")
    (here / "a").rename(here / "b")
    assert w.next() == (RENAME, "a")
    assert w.next() == (CREATE, "b")
    (here / "b").unlink()
    assert w.next() == (REMOVE, "b")
    (here / "d").mkdir()
    assert w.next() == (CREATE, "d")
    (here / "d" / "below").touch()
    (here / "d").chmod(0o700)
    assert w.next() == (CHMOD, "d"), "what is below is not told"


def test_the_directory_itself(watch, here, tmp_path):
    w = watch()
    here.chmod(0o700)
    assert w.next() == (CHMOD, ".")
    here.rename(tmp_path / "elsewhere")
    assert w.next() == (RENAME, ".")
    (tmp_path / "elsewhere" / "x").touch()
    assert w.next() == (CREATE, "x")
    shutil.rmtree(tmp_path / "elsewhere")
    assert w.until(REMOVE, ".")[0] == (REMOVE, "x")


def test_entries(watch, here):
    w = watch(includeEntry=True)
    (here / "a").write_text("12345")
    (here / "a").chmod(0o640)
    event = w.event()
    assert event["entry"]["path"] == str(here / "a") and event["type"] == "EVENT_TYPE_CREATE"
    while event["type"] != "EVENT_TYPE_CHMOD":
        event = w.event()
    assert (event["entry"]["size"], event["entry"]["mode"]) == ("5", 0o640)
    (here / "a").unlink()
    while event["type"] != "EVENT_TYPE_REMOVE":
        event = w.event()
    assert "entry" not in event


def test_no_entries_unless_asked_for(watch, here):
    w = watch()
    (here / "a").write_text("1")
    assert "entry" not in w.event()


def test_entries_of_kinds_of_events(watch, here):
    """Events for create, write and chmod describe the file; those for rename and remove cannot."""
    w = watch(includeEntry=True)
    (here / "a").touch()
    append(here / "a")
    (here / "a").chmod(0o600)
    (here / "a").rename(here / "b")
    (here / "b").unlink()
    seen = {}
    while "REMOVE" not in seen:
        event = w.event()
        seen.setdefault(event["type"].removeprefix("EVENT_TYPE_"), []).append("entry" in event)
    assert set(seen) == {"CREATE", "WRITE", "CHMOD", "RENAME", "REMOVE"}
    assert seen["RENAME"] == [False] and seen["REMOVE"] == [False]


def test_entries_for_the_oldest_client(watch, here):
    w = watch(includeEntry=True, headers={"User-Agent": "connect-python"})
    assert w.stream.headers["x-e2b-legacy-sdk"] == "true"
    (here / "a").mkdir()
    assert w.event()["entry"] == {"name": "a", "type": "FILE_TYPE_DIRECTORY", "path": f"{here}/a"}


def test_entries_when_polled(envd, here):
    watcher = envd.fs("CreateWatcher", path=str(here), includeEntry=True)[1]["watcherId"]
    (here / "a").mkdir()
    seen = []
    wait_for(lambda: seen.extend(envd.fs("GetWatcherEvents", watcherId=watcher)[1]["events"]) or seen,
             what="the event")
    assert seen[0]["type"] == "EVENT_TYPE_CREATE" and seen[0]["entry"]["path"] == f"{here}/a"


def test_names_are_bytes(watch, here):
    w = watch()
    with open(os.fsencode(here) + b"/\xff\"\n", "w"):
        pass
    assert w.next() == (CREATE, "\ufffd\"\n")


def test_paths(watch, envd):
    home = pathlib.Path.home()
    name = f".envd-watch-test-{os.getpid()}"
    (home / name).mkdir()
    try:
        for path in (name, "~/" + name):
            w = watch(path)
            (home / name / "x").touch()
            assert w.next() == (CREATE, "x")
            w.close()
            (home / name / "x").unlink()
    finally:
        shutil.rmtree(home / name)


def test_uploads_are_one_file(watch, envd, here):
    """envd writes a temporary file beside the target; only the target is reported, as E2B's does."""
    w = watch(recursive=True)
    assert envd.write(here / "f", b"data")[0] == 200
    assert [w.next() for _ in range(3)] == [(CREATE, "f"), (CHMOD, "f"), (WRITE, "f")]
    assert envd.write(here / "f", b"other")[0] == 200
    assert [w.next() for _ in range(2)] == [(CHMOD, "f"), (WRITE, "f")], "the file was there"
    (here / "f").unlink()
    assert w.next() == (REMOVE, "f")
    assert envd.write(here / "new" / "g", b"data")[0] == 200
    assert w.next() == (CREATE, "new")
    assert set(w.until(CREATE, "new/g")) <= {(CHMOD, "new"), (CREATE, "new/g")}


def test_a_target_that_comes_or_goes_during_its_upload(watch, envd, here):
    """What is told is true at the end of the upload."""
    w = watch()
    for made_before in (False, True):
        if made_before:
            (here / "f").touch()
            assert w.next() == (CREATE, "f")
        with envd.connect() as s:
            s.sendall(f"POST {envd.files(str(here / 'f'))} HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n"
                      "Content-Type: application/octet-stream\r\n\r\nda".encode())
            wait_for(lambda: [n for n in os.listdir(here) if n.startswith(".envd-")], what="the upload")
            if made_before:
                (here / "f").unlink()
                assert w.next() == (REMOVE, "f")
            else:
                (here / "f").touch()
                assert w.next() == (CREATE, "f")
            s.sendall(b"ta")
            assert s.recv(99).startswith(b"HTTP/1.1 200")
        assert w.until(WRITE, "f") == [(CREATE, "f")] * made_before + [(CHMOD, "f"), (WRITE, "f")]
        (here / "f").unlink()
        assert w.next() == (REMOVE, "f")


def test_polled_events_are_there_at_once(envd, here):
    """A client that writes a file and polls gets its events, however busy envd is."""
    watcher = envd.fs("CreateWatcher", path=str(here))[1]["watcherId"]
    for i in range(50):
        append(here / str(i))
        events = envd.fs("GetWatcherEvents", watcherId=watcher)[1]["events"]
        assert [(e["name"], e["type"]) for e in events] == [
            (str(i), "EVENT_TYPE_CREATE"), (str(i), "EVENT_TYPE_WRITE")]


# ---- directories below
def test_recursive(watch, here):
    (here / "old" / "deep").mkdir(parents=True)
    (here / "old" / "deep" / "file").touch()
    w = watch(recursive=True)
    append(here / "old" / "deep" / "file")
    assert w.next() == (WRITE, "old/deep/file")
    (here / "new").mkdir()
    assert w.next() == (CREATE, "new")
    (here / "new" / "f").touch()
    assert w.next() == (CREATE, "new/f")
    (here / "old" / "deep").chmod(0o700)
    w.until(CHMOD, "old/deep")
    (here / "end").touch()
    assert (CHMOD, "old/deep") not in w.until(CREATE, "end"), "told once, by its parent's watch"


def test_what_came_before_the_watch_is_told_once(watch, here):
    """Directories are filled while they are found: before, between and after watch and reading."""
    w = watch(recursive=True)
    wanted = set()
    for i in range(30):
        (here / f"d{i}" / "e").mkdir(parents=True)
        for j in range(200):
            os.close(os.open(here / f"d{i}" / "e" / str(j), os.O_CREAT))
        wanted |= {f"d{i}", f"d{i}/e", *(f"d{i}/e/{j}" for j in range(200))}
    created = []
    missing = set(wanted)
    while missing:
        kind, name = w.next()
        assert kind == CREATE
        created.append(name)
        missing.discard(name)
    (here / "end").touch()
    created += [name for kind, name in w.until(CREATE, "end") if kind == CREATE]
    assert sorted(created) == sorted(wanted | {"end"})


def test_last_word_is_right(watch, here):
    """Files come and go while their directory is found: the last event has the final state."""
    w = watch(recursive=True)
    for i in range(100):
        (here / f"d{i}").mkdir()
        for _ in range(2):
            (here / f"d{i}" / "x").touch()
            (here / f"d{i}" / "x").unlink()
        if i % 2:
            (here / f"d{i}" / "x").touch()
        (here / f"d{i}" / "last").touch()
    last = {}
    while len([n for n in last if n.endswith("/last")]) < 100:
        kind, name = w.next()
        if kind in (CREATE, REMOVE):
            last[name] = kind
    (here / "end").touch()
    for kind, name in w.until(CREATE, "end"):
        if kind in (CREATE, REMOVE):
            last[name] = kind
    for i in range(100):
        assert last.get(f"d{i}/x", REMOVE) == (CREATE if i % 2 else REMOVE), i


def test_moved_directories(watch, here, tmp_path):
    (here / "a" / "sub").mkdir(parents=True)
    (here / "a" / "sub" / "f").touch()
    (tmp_path / "outside" / "sub").mkdir(parents=True)
    (tmp_path / "outside" / "f").touch()
    w = watch(recursive=True)
    (here / "a").rename(here / "b")
    assert [w.next() for _ in range(4)] == [(RENAME, "a"), (CREATE, "b"), (CREATE, "b/sub"),
                                            (CREATE, "b/sub/f")]
    append(here / "b" / "sub" / "f")
    assert w.next() == (WRITE, "b/sub/f"), "under its new name"
    (tmp_path / "outside").rename(here / "in")
    assert {w.next() for _ in range(3)} == {(CREATE, "in"), (CREATE, "in/sub"), (CREATE, "in/f")}
    (here / "in" / "sub").rename(tmp_path / "out")
    assert w.next() == (RENAME, "in/sub")
    (tmp_path / "out" / "x").touch()
    (here / "in" / "y").touch()
    assert w.next() == (CREATE, "in/y"), "what was moved out is not told"
    shutil.rmtree(here / "b")
    (here / "b").mkdir()
    (here / "b" / "again").touch()
    assert (REMOVE, "b/sub/f") in w.until(CREATE, "b/again")


def test_links_are_not_followed(watch, here, tmp_path):
    (tmp_path / "other").mkdir()
    (here / "to-other").symlink_to(tmp_path / "other")
    (here / "loop").symlink_to(here)
    w = watch(recursive=True)
    (tmp_path / "other" / "x").touch()
    (here / "y").touch()
    assert w.next() == (CREATE, "y")
    (tmp_path / "to-here").symlink_to(here)
    linked = watch(tmp_path / "to-here")
    (here / "z").touch()
    assert linked.next() == (CREATE, "z"), "the watched path itself may be a link"


def test_large_tree(watch, here):
    for i in range(40):
        for j in range(20):
            (here / str(i) / str(j)).mkdir(parents=True)
    w = watch(recursive=True)
    (here / "39" / "19" / "x").touch()
    assert w.next() == (CREATE, "39/19/x")
    shutil.rmtree(here / "20")
    assert len(w.until(REMOVE, "20")) == 21


# ---- refusals and limits
def test_errors(envd, here):
    (here / "file").touch()
    assert refused(envd, path=str(here / "no"))["code"] == "not_found"
    assert refused(envd, path=str(here / "file"))["code"] == "invalid_argument"
    assert refused(envd, path="~other")["code"] == "invalid_argument"
    assert refused(envd, path=str(here), recursive="yes")["code"] == "invalid_argument"
    assert inotify_count(envd) == 0


@pytest.mark.skipif(not IS_ROOT or not os.path.exists("/dev/fuse"), reason="only root can mount")
def test_network_mounts_need_consent(envd, here):
    """FUSE is a file system on which changes by other hosts go unnoticed."""
    try:
        mount = tiny_fuse.mounted(here)
        mount.__enter__()
    except OSError as e:
        pytest.skip(f"this machine mounts no FUSE: {e}")
    try:
        error = refused(envd, path=str(here))
        assert error["code"] == "invalid_argument" and "network mount" in error["message"]
        status, answer = envd.fs("CreateWatcher", path=str(here))
        assert (status, answer["code"]) == (400, "invalid_argument")
        Watch(envd, here, allowNetworkMounts=True).close()
        status, answer = envd.fs("CreateWatcher", path=str(here), allowNetworkMounts=True)
        assert status == 200, answer
        assert envd.fs("RemoveWatcher", watcherId=answer["watcherId"])[0] == 200
    finally:
        wait_for(lambda: inotify_count(envd) == 0, what="the watches are gone")
        mount.__exit__(None, None, None)


def test_limit_and_release(envd, here):
    """64 watches at most; all are released when their clients disconnect."""
    watches = [Watch(envd, here, recursive=True) for _ in range(64)]
    assert inotify_count(envd) == 64
    assert refused(envd, path=str(here))["code"] == "resource_exhausted"
    assert envd.fs("CreateWatcher", path=str(here))[1]["code"] == "resource_exhausted"
    for w in watches:
        w.close()
    wait_for(lambda: inotify_count(envd) == 0, what="the watches are gone")
    Watch(envd, here).close()


def test_keepalive_and_deadline(envd, here):
    w = Watch(envd, here, headers={"Keepalive-Ping-Interval": "1"})
    assert next(w.stream) == {"keepalive": {}}
    w.close()
    began = time.monotonic()
    w = Watch(envd, here, headers={"Connect-Timeout-Ms": "300"})
    assert list(w.stream) == []
    assert w.stream.end["error"]["code"] == "deadline_exceeded"
    assert time.monotonic() - began > 0.2
    w.close()


def test_slow_reader(envd, here):
    """A client does not read: envd's memory stays small, and an event reports the loss."""
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    sock.connect(("127.0.0.1", envd.port))
    body = envelope({"path": str(here)})
    sock.sendall(b"POST /filesystem.Filesystem/WatchDir HTTP/1.1\r\nHost: e\r\n"
                 b"Content-Type: application/connect+json\r\n"
                 + f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
    stream = Stream(sock)
    assert next(stream) == {"start": {}}
    before = envd.peak_kb()
    limit = int(pathlib.Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    long_name = "n" * 200
    for i in range(3 * limit):
        path = here / f"{long_name}{i % 50}"
        path.touch()
        path.unlink()
    assert envd.fs("Stat", path=str(here))[0] == 200, "others are served"
    count = sum(1 for _ in stream)
    assert stream.end["error"]["code"] == "resource_exhausted", stream.end
    assert "lost" in stream.end["error"]["message"]
    assert 0 < count < 6 * limit
    memory_bound(envd, before)
    stream.close()
    wait_for(lambda: inotify_count(envd) == 0, what="the watch is gone")


def test_a_burst_that_is_read(watch, here):
    """Many events, read as they come: all of them, in order."""
    w = watch()
    names = [f"f{i}" for i in range(4000)]
    writer = threading.Thread(target=lambda: [(here / n).mkdir() for n in names])
    writer.start()
    assert [w.next() for _ in names] == [(CREATE, n) for n in names]
    writer.join()


def test_stop_while_watching(here):
    """A clean exit with streams and polled watchers open."""
    envd = Envd()
    w = Watch(envd, here, recursive=True)
    assert envd.fs("CreateWatcher", path=str(here))[0] == 200
    envd.close()
    w.close()


# ---- asking
def events(envd, watcher):
    status, answer = envd.fs("GetWatcherEvents", watcherId=watcher)
    assert status == 200, answer
    return [(e["type"].removeprefix("EVENT_TYPE_"), e["name"]) for e in answer["events"]]


def test_polled(envd, here):
    status, answer = envd.fs("CreateWatcher", path=str(here), recursive=True)
    assert status == 200 and answer["watcherId"].startswith("w")
    watcher = answer["watcherId"]
    assert events(envd, watcher) == []
    (here / "a").touch()
    (here / "a").unlink()
    seen = []
    wait_for(lambda: seen.extend(events(envd, watcher)) or (REMOVE, "a") in seen, what="the events")
    assert [e for e in seen if e[0] != CHMOD] == [(CREATE, "a"), (REMOVE, "a")]
    assert events(envd, watcher) == [], "they are told once"
    assert envd.fs("RemoveWatcher", watcherId=watcher) == (200, {})
    wait_for(lambda: inotify_count(envd) == 0, what="the watch is gone")
    for method in ("GetWatcherEvents", "RemoveWatcher"):
        status, answer = envd.fs(method, watcherId=watcher)
        assert (status, answer["code"]) == (404, "not_found")
    assert envd.fs("CreateWatcher", path=str(here / "no"))[0] == 404
    (here / "file").touch()
    assert envd.fs("CreateWatcher", path=str(here / "file"))[0] == 400


def test_polled_overflow(envd, here):
    """No client polls: envd keeps a bounded number of events, and reports the loss after them."""
    watcher = envd.fs("CreateWatcher", path=str(here))[1]["watcherId"]
    before = envd.peak_kb()
    limit = int(pathlib.Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    for i in range(2 * limit):
        path = here / f"{'n' * 200}{i % 50}"
        path.touch()
        path.unlink()
    answers = []

    def lost():
        status, answer = envd.fs("GetWatcherEvents", watcherId=watcher)
        answers.append(answer)
        return status == 429 and answer["code"] == "resource_exhausted"

    wait_for(lost, what="the loss")
    assert sum(len(a.get("events", [])) for a in answers) > 1000
    memory_bound(envd, before)
    assert envd.fs("RemoveWatcher", watcherId=watcher)[0] == 200
