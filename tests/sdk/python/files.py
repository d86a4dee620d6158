# SPDX-License-Identifier: Apache-2.0
"""Files: every way to read and write them, their metadata, watching for changes, and the user of
each operation.
"""

import hashlib
import io
import os
import urllib.error
import urllib.parse
import urllib.request
from datetime import datetime, timezone

from e2b import (AuthenticationException, FileType, InvalidArgumentException, NotEnoughSpaceException,
                 NotFoundException)
from world import OLD, fails, until

if OLD:
    MISSING = NotFoundException
else:
    from e2b import FileNotFoundException as MISSING

NAMES = ["größe.txt", "日本語", "🚀 rocket", "sp ace", "plus+and&=%41", "quote's", "semi;colon", "#hash?"]


def sha(data):
    return hashlib.sha256(data).hexdigest()


def text(world):
    sandbox, path = world.place()
    made = sandbox.files.write(f"{path}/deep/er/a.txt", 'grüße\r\n"quoted"\n')
    assert (made.name, made.path) == ("a.txt", f"{path}/deep/er/a.txt")
    assert sandbox.files.read(f"{path}/deep/er/a.txt") == 'grüße\r\n"quoted"\n'
    sandbox.files.write(f"{path}/deep/er/a.txt", "shorter")
    assert sandbox.files.read(f"{path}/deep/er/a.txt") == "shorter"


def in_bytes(world):
    sandbox, path = world.place()
    data = bytes(range(256))
    sandbox.files.write(f"{path}/b", data)
    assert sandbox.files.read(f"{path}/b", format="bytes") == data
    sandbox.files.write(f"{path}/c", io.BytesIO(data * 2))
    assert sandbox.files.get_info(f"{path}/c").size == 512


def stream(world):
    sandbox, path = world.place()
    data = os.urandom(1_000_000)
    sandbox.files.write(f"{path}/s", io.BytesIO(data))
    got = hashlib.sha256()
    for chunk in sandbox.files.read(f"{path}/s", format="stream"):
        got.update(chunk)
    assert got.hexdigest() == sha(data)


def empty(world):
    sandbox, path = world.place()
    sandbox.files.write(f"{path}/empty", "")
    assert sandbox.files.read(f"{path}/empty") == ""
    assert sandbox.files.read(f"{path}/empty", format="bytes") == b""
    assert sandbox.files.get_info(f"{path}/empty").size == 0
    assert sandbox.files.read("/proc/version").startswith("Linux version")  # its size is said to be 0


def large(world):
    sandbox, path = world.place()
    data = os.urandom(20_000_000)
    sandbox.files.write(f"{path}/large", data)
    assert sandbox.commands.run("sha256sum < large", cwd=path).stdout.split()[0] == sha(data)
    assert sha(sandbox.files.read(f"{path}/large", format="bytes")) == sha(data)


def names(world):
    sandbox, path = world.place()
    for name in NAMES:
        sandbox.files.write(f"{path}/{name}", name)
        assert sandbox.files.read(f"{path}/{name}") == name
    assert sorted(e.name for e in sandbox.files.list(path)) == sorted(NAMES)
    for name in NAMES:
        sandbox.files.remove(f"{path}/{name}")
    assert sandbox.files.list(path) == []


def many(world):
    sandbox, path = world.place()
    entries = [{"path": f"{path}/d{i % 3}/f{i}", "data": f"content {i}"} for i in range(20)]
    made = sandbox.files.write(entries) if OLD else sandbox.files.write_files(entries)
    assert [e.path for e in made] == [e["path"] for e in entries]
    for entry in entries:
        assert sandbox.files.read(entry["path"]) == entry["data"]


def entries(world):
    sandbox, path = world.place()
    assert sandbox.files.make_dir(f"{path}/a/b") is True
    assert sandbox.files.make_dir(f"{path}/a/b") is False
    sandbox.files.write(f"{path}/a/b/f", "12345")
    sandbox.commands.run("ln -s a/b/f link; chmod 640 a/b/f", cwd=path)
    info = sandbox.files.get_info(f"{path}/a/b/f")
    assert (info.name, info.type, info.size, info.mode) == ("f", FileType.FILE, 5, 0o640)
    assert (info.permissions, info.owner, info.group) == ("-rw-r-----", "user", "user")
    modified = info.modified_time if info.modified_time.tzinfo else info.modified_time.replace(tzinfo=timezone.utc)
    assert abs((modified - datetime.now(timezone.utc)).total_seconds()) < 600
    assert sandbox.files.get_info(f"{path}/link").symlink_target == f"{path}/a/b/f"
    shallow = sandbox.files.list(path)
    assert sorted((e.name, e.type) for e in shallow) == [("a", FileType.DIR), ("link", FileType.FILE)]
    deep = sandbox.files.list(path, depth=3)
    assert sorted(e.path for e in deep) == [path + p for p in ("/a", "/a/b", "/a/b/f", "/link")]
    assert sandbox.files.rename(f"{path}/a/b/f", f"{path}/new/g").path == f"{path}/new/g"
    assert not sandbox.files.exists(f"{path}/a/b/f") and sandbox.files.exists(f"{path}/new/g")
    sandbox.files.remove(f"{path}/a")
    assert not sandbox.files.exists(f"{path}/a")


def relative(world):
    sandbox, path = world.place()
    name = path.rpartition("/")[2]
    sandbox.files.write(f"{name}/r", "of the home")
    assert sandbox.files.read(f"/home/user/{name}/r") == "of the home"
    sandbox.files.write("of-root", "r", "root")
    assert sandbox.files.get_info("/root/of-root", user="root").owner == "root"


def watch(world):
    sandbox, path = world.place()
    handle = sandbox.files.watch_dir(path)
    sandbox.files.write(f"{path}/f", "x")
    sandbox.files.rename(f"{path}/f", f"{path}/g")
    sandbox.commands.run(f"chmod 600 {path}/g")
    sandbox.files.remove(f"{path}/g")
    wanted = {"create f", "write f", "rename f", "create g", "chmod g", "remove g"}
    seen = set()

    def all_seen():
        seen.update(f"{e.type.value} {e.name}" for e in handle.get_new_events())
        return wanted <= seen

    until(all_seen, f"the events {wanted}")
    handle.stop()


def watch_recursive(world):
    sandbox, path = world.place()
    options = {} if OLD else {"include_entry": True}
    handle = sandbox.files.watch_dir(path, recursive=True, **options)
    seen = []

    def event(kind):
        seen.extend(handle.get_new_events())
        return [e for e in seen if e.name == "sub/deep/f" and e.type.value == kind
                and (OLD or kind != "write" or e.entry.size == 5)]

    sandbox.files.write(f"{path}/sub/deep/f", "")
    until(lambda: event("create"), "what a new directory has already")
    sandbox.files.write(f"{path}/sub/deep/f", "12345")
    written = until(lambda: event("write"), "a write there")[-1]
    assert OLD or (written.entry.path, written.entry.type) == (f"{path}/sub/deep/f", FileType.FILE)
    handle.stop()


def watch_errors(world):
    sandbox, path = world.place()
    sandbox.files.write(f"{path}/f", "")
    with fails(MISSING):
        sandbox.files.watch_dir(f"{path}/none")
    with fails(InvalidArgumentException):
        sandbox.files.watch_dir(f"{path}/f")


def metadata(world):
    sandbox, path = world.place()
    known = {"author": "Ada L.", "kind": "draft"}
    assert sandbox.files.write(f"{path}/m", "x", metadata=known).metadata == known
    assert sandbox.files.get_info(f"{path}/m").metadata == known
    assert sandbox.files.list(path)[0].metadata == known
    sandbox.files.write(f"{path}/m", "y")
    assert not sandbox.files.get_info(f"{path}/m").metadata


def gzip(world):
    sandbox, path = world.place()
    data = "compressible " * 50_000
    sandbox.files.write(f"{path}/z", data, gzip=True)
    assert sandbox.files.get_info(f"{path}/z").size == len(data)
    assert sandbox.files.read(f"{path}/z", gzip=True) == data
    sandbox.files.write(f"{path}/o", data, use_octet_stream=True)
    assert sandbox.files.read(f"{path}/o") == data


def fetch(url, data=None, headers=None):
    """(status, body), by a client that is not the SDK."""
    try:
        with urllib.request.urlopen(urllib.request.Request(url, data, headers or {}), timeout=30) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as e:
        return e.code, e.read().decode()


def signed_urls(world):
    sandbox, path = (world.create(secure=True), "/home/user") if OLD else world.place()
    signed = {"use_signature": True} if OLD else {}
    sandbox.files.write(f"{path}/s", "signed content")
    assert fetch(sandbox.download_url(f"{path}/s", **signed)) == (200, "signed content")
    lasting = sandbox.download_url(f"{path}/s", user="user", use_signature_expiration=600, **signed)
    assert fetch(lasting) == (200, "signed content")
    body = (b'--frontier\r\nContent-Disposition: form-data; name="file"; filename="up"\r\n\r\n'
            b"uploaded\r\n--frontier--\r\n")
    status, answer = fetch(sandbox.upload_url(f"{path}/up", use_signature_expiration=600, **signed), body,
                           {"Content-Type": "multipart/form-data; boundary=frontier"})
    assert status == 200, answer
    assert sandbox.files.read(f"{path}/up") == "uploaded"
    late = sandbox.download_url(f"{path}/s", use_signature_expiration=-10, **signed)
    assert fetch(late)[0] == 401
    url = urllib.parse.urlsplit(sandbox.download_url(f"{path}/s", **signed))
    forged = dict(urllib.parse.parse_qsl(url.query), path="/etc/hostname")
    assert fetch(url._replace(query=urllib.parse.urlencode(forged)).geturl())[0] in (400, 401)


def errors(world):
    sandbox, path = world.place()
    sandbox.files.write(f"{path}/f", "x")
    with fails(MISSING, "none"):
        sandbox.files.read(f"{path}/none")
    with fails(InvalidArgumentException, "directory"):
        sandbox.files.read(path)
    with fails(MISSING):
        sandbox.files.get_info(f"{path}/none")
    with fails(MISSING):
        sandbox.files.list(f"{path}/none")
    with fails(InvalidArgumentException):
        sandbox.files.list(f"{path}/f")
    with fails(MISSING):
        sandbox.files.rename(f"{path}/none", f"{path}/x")
    with fails(InvalidArgumentException):
        sandbox.files.make_dir(f"{path}/f")
    with fails(InvalidArgumentException):
        sandbox.files.write(path, "x")
    with fails(AuthenticationException):
        sandbox.files.read(f"{path}/f", user="nobody-here")
    with fails(AuthenticationException):
        sandbox.files.list(path, user="nobody-here")
    sandbox.files.remove(f"{path}/none")  # is no error


def space(world):
    sandbox, path = world.place()
    sandbox.commands.run(f"mount -t tmpfs -o size=64k,mode=777 tmpfs {path}", user="root")
    with fails(NotEnoughSpaceException):
        sandbox.files.write(f"{path}/big", "x" * 200_000)
    sandbox.commands.run(f"umount {path}", user="root")


ALL = {"files_" + name: scenario for name, scenario in {
    "text": text, "bytes": in_bytes, "stream": stream, "empty": empty, "large": large, "names": names,
    "many": many, "entries": entries, "relative": relative, "watch": watch,
    "watch_recursive": watch_recursive, "watch_errors": watch_errors, "metadata": metadata, "gzip": gzip,
    "signed_urls": signed_urls, "errors": errors, "space": space}.items()}
