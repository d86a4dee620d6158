# SPDX-License-Identifier: Apache-2.0
"""cubby template import and gc, as far as they need no machine: archives that are refused, what is
downloaded, and what is collected. tests/e2e/test_template_move.py imports a whole template."""

import functools
import hashlib
import http.server
import itertools
import json
import os
import pathlib
import shutil
import struct
import subprocess
import threading
import time

import pytest

from harness import BIN

FACTS = {"name": "moved", "kernel": "6.1.0-test", "memory_mb": 512, "cpus": 1, "disk_mb": 8192}
NAMES = ["vmlinuz", "initramfs.cpio", "packages.txt", "disk.ext4"]


@pytest.fixture
def home(tmp_path):
    home = tmp_path / "h"
    home.mkdir(mode=0o700)
    return home


def cubby(home, *words):
    return subprocess.run([BIN / "cubby", "template", *words], env=dict(os.environ, CUBBY_HOME=str(home)),
                          capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)


def manifest(**changes):
    files = [{"name": name, "size": 4096, "extents": [[0, 4]]} for name in NAMES]
    return {"format": 1, "template": FACTS, "files": files, **changes}


def archive(head, data=b"abcd" * 4, magic=b"CUBBYTP1", digest=None):
    """The bytes of an archive, compressed."""
    text = head if isinstance(head, bytes) else json.dumps(head).encode()
    plain = magic + struct.pack("<Q", len(text)) + text + data
    plain += digest if digest is not None else hashlib.sha256(plain).digest()
    return subprocess.run(["zstd", "-q", "-c"], input=plain, capture_output=True, check=True).stdout


def left(home):
    """Everything in the home, apart from empty directories."""
    return sorted(str(p.relative_to(home)) for p in home.rglob("*") if p.is_file())


SAVED = {"qemu": "7.2.22", "machine": "microvm", "cpu_model": "qemu64", "accel": "tcg", "envd_version": "1.0"}
MACHINE = [{"name": "memory", "size": 512 << 20, "extents": [[0, 4]]}, {"name": "vmstate", "size": 4096, "extents": [[0, 4]]}]


def with_machine(files=MACHINE, **changes):
    """A manifest with a saved machine."""
    return manifest(template={**FACTS, "saved": {**SAVED, **changes}}, files=[*manifest()["files"], *files])


def files_with(index, **changes):
    files = manifest()["files"]
    files[index] = {**files[index], **changes}
    return manifest(files=files)


@pytest.mark.parametrize("content, text", [
    (b"", "ends too early"),
    (b"PK\x03\x04 a zip file", "not an archive of Cubby"),
    (archive(manifest(), magic=b"CUBBYTP9"), "begins with other bytes"),
    (archive(b"[1]"), "not a JSON object"),
    (archive(b"{"), "not a"),
    (archive(manifest(format=2)), "has format 2"),
    (archive(manifest(files=[])), "other files than a template"),
    (archive(manifest(files=manifest()["files"] * 2)), "other files than a template"),
    (archive(files_with(0, name="../../evil")), "other files than a template"),
    (archive(files_with(0, name="/etc/passwd")), "other files than a template"),
    (archive(files_with(3, size=2**50)), "too large"),
    (archive(files_with(3, size=-1)), "too large"),
    (archive(files_with(3, extents=[[0, 2**45]])), "pieces of a file do not fit"),
    (archive(files_with(3, extents=[[100, 4], [0, 4]])), "pieces of a file do not fit"),
    (archive(files_with(3, extents=[[-4, 4]])), "pieces of a file do not fit"),
    (archive(files_with(3, extents=[["0", 4]])), "pieces of a file do not fit"),
    (archive(files_with(3, size=2**40, extents=[[0, 2**40]])), "MB are free"),
    (archive(manifest(template={**FACTS, "name": "../evil"})), "invalid name"),
    (archive(manifest(template={**FACTS, "name": 3})), "invalid name"),
    (archive(manifest(template={**FACTS, "memory_mb": 2**40})), "memory_mb is out of range"),
    (archive(manifest(template={**FACTS, "cpus": 0})), "cpus is out of range"),
    (archive(with_machine(qemu=7)), "saved machine is not described"),
    (archive(manifest(template={**FACTS, "saved": "x"})), "saved machine is not described"),
    (archive(with_machine([])), "saved machine is not complete"),
    (archive(with_machine(MACHINE[:1])), "saved machine is not complete"),
    (archive(with_machine([{**MACHINE[0], "size": 4096}, MACHINE[1]])), "saved machine is not complete"),
    (archive(manifest(files=[*manifest()["files"], *MACHINE])), "saved machine is not described"),
    (archive(with_machine(), data=b"abcd" * 7), "digest"),
    (archive(manifest(), data=b"abcd" * 3), "ends too early"),
    (archive(manifest(), data=b"abcd" * 5), "digest"),
    (archive(manifest(), digest=b"\0" * 32), "digest"),
    (archive(manifest()) + b"x", "bytes follow its end"),
    (archive(manifest())[:-1], "ends too early"),
], ids=itertools.count())
def test_a_bad_archive_is_refused_and_leaves_nothing(home, tmp_path, content, text):
    path = tmp_path / "bad"
    path.write_bytes(content)
    answer = cubby(home, "import", str(path))
    assert answer.returncode == 1 and text in answer.stderr, answer
    assert left(home) == []


def expanded(content):
    done = subprocess.run(["zstd", "-q", "-d", "-c"], input=content, capture_output=True, check=False)
    return done.stdout if done.returncode == 0 else None


def test_a_changed_byte_or_a_missing_end_is_refused_wherever_it_is(home, tmp_path):
    """An archive of random bytes, which the compression keeps as they are. Each part of the file is hit."""
    whole = archive(with_machine(), data=os.urandom(24))
    path = tmp_path / "bad"
    plain = expanded(whole)
    for at in range(0, len(whole), 7):
        for content in whole[:at], whole[:at] + bytes([whole[at] ^ 1 << at % 8]) + whole[at + 1:]:
            if expanded(content) == plain:  # zstd has bits that mean nothing
                continue
            path.write_bytes(content)
            answer = cubby(home, "import", "--microvm-only", str(path))
            damaged = "is not an archive of Cubby, or is damaged" in answer.stderr
            other = "the archive has format" in answer.stderr  # the digit was hit
            assert answer.returncode == 1 and (damaged or other or "the archive cannot be imported" in answer.stderr), (
                at, answer)
            assert left(home) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a file system")
def test_a_disk_that_is_too_small_is_said_before_anything_is_written(tmp_path):
    home = tmp_path / "h"
    home.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=290m,mode=700", "home", home], check=True)
    try:
        files = manifest()["files"]
        files[3] = {**files[3], "size": 64 << 20, "extents": [[0, 64 << 20]]}
        path = tmp_path / "large"
        path.write_bytes(archive(manifest(files=files), data=b"abcd" * 3 + b"\0" * (64 << 20)))
        answer = cubby(home, "import", str(path))
        assert answer.returncode == 1 and "make room there, and try again" in answer.stderr, answer
        assert left(home) == []
    finally:
        subprocess.run(["umount", home], check=True)


def test_a_manifest_without_end_is_refused(home, tmp_path):
    """A small file that would expand to gigabytes."""
    plain = b"CUBBYTP1" + struct.pack("<Q", 2**40) + b" " * 2**26
    path = tmp_path / "bomb"
    path.write_bytes(subprocess.run(["zstd", "-q", "-c"], input=plain, capture_output=True, check=True).stdout)
    answer = cubby(home, "import", str(path))
    assert answer.returncode == 1 and "manifest is too long" in answer.stderr, answer


def test_a_window_that_needs_much_memory_is_refused(home, tmp_path):
    path = tmp_path / "window"
    path.write_bytes(subprocess.run(["zstd", "-q", "-c", "--ultra", "--long=31"], input=b"CUBBYTP1" + b"\0" * 2**20,
                                    capture_output=True, check=True).stdout)
    answer = cubby(home, "import", str(path))
    assert answer.returncode == 1 and "memory" in answer.stderr, answer


def test_the_digest_that_is_asked_for_must_be_that_of_the_archive(home, tmp_path):
    path = tmp_path / "one"
    path.write_bytes(archive(manifest()))
    answer = cubby(home, "import", "--sha256", "0" * 64, str(path))
    assert answer.returncode == 1 and "do not have the digest" in answer.stderr and left(home) == []
    assert "hexadecimal" in cubby(home, "import", "--sha256", "zz", str(path)).stderr


def test_a_name_that_is_taken_is_not_replaced(home, tmp_path):
    (home / "templates" / "moved").mkdir(parents=True)
    path = tmp_path / "one"
    path.write_bytes(archive(manifest()))
    for words in ["import", str(path)], ["import", "--name", "moved", str(path)]:
        answer = cubby(home, *words)
        assert answer.returncode == 1 and "--name NAME, or --force" in answer.stderr, answer
    assert left(home) == []


class Handler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def do_GET(self):
        if self.path == "/away":
            self.send_response(302)
            self.send_header("Location", "file:///etc/passwd")
            self.end_headers()
        else:
            super().do_GET()


@pytest.fixture
def web(tmp_path):
    folder = tmp_path / "web"
    folder.mkdir()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, directory=folder))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield folder, f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


def test_a_url_is_downloaded_and_checked(home, web):
    folder, url = web
    (folder / "bad").write_bytes(archive(manifest(format=2)))
    answer = cubby(home, "import", f"{url}/bad")
    assert answer.returncode == 1 and "has format 2" in answer.stderr and left(home) == []
    answer = cubby(home, "import", f"{url}/missing")
    assert answer.returncode == 1 and "404" in answer.stderr and left(home) == []
    answer = cubby(home, "import", f"{url}/away")
    assert answer.returncode == 1 and left(home) == [], answer


def test_export_says_what_is_wrong(home, tmp_path):
    answer = cubby(home, "export", "none", str(tmp_path / "x"))
    assert answer.returncode == 1 and "there is no template" in answer.stderr
    (tmp_path / "there").touch()
    answer = cubby(home, "export", "none", str(tmp_path / "there"))
    assert answer.returncode == 1 and "exists already" in answer.stderr
    assert cubby(home, "export", "one").returncode == 2


def test_finish_says_what_is_wrong(home):
    answer = cubby(home, "finish", "none")
    assert answer.returncode == 1 and "there is no template" in answer.stderr, answer
    assert "not a valid template name" in cubby(home, "finish", "../x").stderr
    assert cubby(home, "finish", "a", "b").returncode == 2
    facts = {**FACTS, "format": 1, "driver": "microvm", "created_at": "2026-01-01T00:00:00Z", "qemu": "7.2", "machine": "m",
             "cpu_model": "c", "accel": "tcg", "envd_version": "1"}
    for name, changes, text in [("modules", {"modules": "docker"}, "kernel has no modules"),
                                ("start", {"start": {"command": "true"}}, "build it again"),
                                ("newer", {"format": 2}, "reads only format 1")]:
        entry(home, f"templates/{name}", "template.json", **{**facts, "name": name, **changes})
        answer = cubby(home, "finish", name)
        assert answer.returncode == 1 and text in answer.stderr, answer
    entry(home, "templates/whole", "template.json", **{**facts, "name": "whole", "gvisor": {"rootfs": "x"}})
    answer = cubby(home, "finish", "whole")
    assert answer.returncode == 0 and "already" in answer.stdout, answer


def test_finish_waits_for_no_other_build(home):
    """Two users at once, or a build of the same name: the second one is told."""
    facts = {**FACTS, "name": "a", "format": 1, "driver": "microvm", "created_at": "2026-01-01T00:00:00Z", "qemu": "7.2",
             "machine": "m", "cpu_model": "c", "accel": "tcg", "envd_version": "1"}
    template = entry(home, "templates/a", "template.json", **facts)
    for name in "vmlinuz", "disk.ext4":
        (template / name).touch()
    running = entry(home, "templates/.build-a-00000000", "build.log")
    lock = subprocess.Popen(["flock", str(running), "sh", "-c", "echo ready; read x"], stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE)
    try:
        assert lock.stdout.readline() == b"ready\n"
        answer = cubby(home, "finish", "a")
        assert answer.returncode == 1 and "is being built by another process" in answer.stderr, answer
    finally:
        lock.communicate(b"\n")
    assert "gvisor" not in json.loads((template / "template.json").read_text())


# ---- gc
def entry(home, path, file, age_days=0, size=1000000, **members):
    folder = home / path
    folder.mkdir(parents=True)
    (folder / "data").write_bytes(os.urandom(size))
    marker = folder / file
    marker.write_text(json.dumps(members))
    os.utime(marker, (time.time() - age_days * 86400,) * 2)
    return folder


def test_gc_removes_by_age_then_by_size(home):
    old = entry(home, "snapshots/snap-old", "snapshot.json", 40, layer="a")
    middle = entry(home, "snapshots/snap-mid", "snapshot.json", 10, layer="b")
    new = entry(home, "snapshots/snap-new", "snapshot.json", 1, layer="c")
    kept = entry(home, "snapshots/snap-user", "snapshot.json", 400, template="default")
    plain = entry(home, "templates/default", "template.json", 400, name="default")
    hidden = entry(home, "templates/base-1", "template.json", 40, name="base-1", hidden=True)
    would = cubby(home, "gc", "--dry-run", "--json")
    assert {i["name"] for i in json.loads(would.stdout)} == {"snap-old", "base-1"} and old.exists()
    answer = cubby(home, "gc")
    assert answer.returncode == 0 and "removed layer snap-old" in answer.stdout, answer
    assert not old.exists() and not hidden.exists() and middle.exists() and plain.exists() and kept.exists()
    cubby(home, "gc", "--size", "1500K")
    assert not middle.exists() and new.exists() and kept.exists()
    cubby(home, "gc", "--unused", "0")
    assert not new.exists() and kept.exists() and plain.exists()


def test_gc_removes_the_least_recently_used_layers_above_a_number(home):
    """A user's snapshot is no layer, however old it is; a hidden template counts as one."""
    layers = [entry(home, f"snapshots/snap-{n}", "snapshot.json", n, 1000, layer=str(n)) for n in range(1, 6)]
    hidden = entry(home, "templates/base-1", "template.json", 6, 1000, name="base-1", hidden=True)
    kept = entry(home, "snapshots/snap-user", "snapshot.json", 20, 1000, template="default")
    answer = cubby(home, "gc", "--layers", "3")
    assert answer.returncode == 0, answer
    assert [layer.exists() for layer in layers] == [True, True, True, False, False]
    assert not hidden.exists() and kept.exists()
    cubby(home, "gc", "--layers", "0")
    assert not any(layer.exists() for layer in layers) and kept.exists()


def test_gc_keeps_a_hidden_template_that_a_sandbox_uses(home):
    hidden = entry(home, "templates/base-1", "template.json", 40, name="base-1", hidden=True)
    entry(home, "sandboxes/abc", "sandbox.json", template="base-1")
    cubby(home, "gc")
    assert hidden.exists()


def test_gc_removes_what_was_interrupted_but_not_what_runs(home):
    gone = entry(home, "templates/.build-x-00000000", "build.log")
    entry(home, "cache/import-00000000", "disk.ext4")
    running = entry(home, "templates/.build-y-00000000", "build.log")
    lock = subprocess.Popen(["flock", str(running), "sh", "-c", "echo ready; read x"], stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE)
    try:
        assert lock.stdout.readline() == b"ready\n"
        answer = cubby(home, "gc")
        assert answer.returncode == 0 and not gone.exists() and running.exists(), answer
        assert not (home / "cache/import-00000000").exists()
    finally:
        lock.communicate(b"\n")


def test_an_import_removes_what_killed_ones_left(home, tmp_path):
    """Also one that fails. What a living process has locked or just written stays."""
    entry(home, "cache/import-00000000", "disk.ext4")
    running = entry(home, "cache/import-00000001", "disk.ext4")
    downloads = [home / "cache/import-00000002.part", home / "cache/import-00000003.part"]
    for download in downloads:
        download.write_bytes(b"x")
    os.utime(downloads[0], (time.time() - 3600,) * 2)
    with subprocess.Popen(["flock", str(running), "sh", "-c", "echo ready; read x"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as lock:
        assert lock.stdout.readline() == b"ready\n"
        assert cubby(home, "import", str(tmp_path / "missing.cubby")).returncode != 0
        left_over = sorted(path.name for path in (home / "cache").iterdir())
        assert left_over == ["import-00000001", "import-00000003.part"]
        lock.communicate(b"\n")


def test_gc_removes_what_killed_builds_from_dockerfiles_left(home):
    work = home / "build-work"
    for name in ("killed", "bare", "running"):
        (work / name).mkdir(parents=True)
        (work / name / "disk").write_bytes(b"x" * 5000)
    for name in ("killed", "running", "empty"):
        (work / f"{name}.lock").touch()
    lock = subprocess.Popen(["flock", str(work / "running.lock"), "sh", "-c", "echo ready; read x"],
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert lock.stdout.readline() == b"ready\n"
        would = cubby(home, "gc", "--dry-run", "--json")
        assert {(i["kind"], i["name"]) for i in json.loads(would.stdout)} == {
            ("unfinished build", name) for name in ("killed", "bare", "empty")}
        answer = cubby(home, "gc")
        assert answer.returncode == 0 and "removed unfinished build killed" in answer.stdout, answer
        assert sorted(p.name for p in work.iterdir()) == ["running", "running.lock"]
        assert (work / "running" / "disk").exists()
    finally:
        lock.communicate(b"\n")


def test_a_removed_template_takes_its_layers_along(home):
    """Those of a build that is no more are of no use. Other layers, and snapshots, stay."""
    entry(home, "templates/web", "template.json", name="web", created_at="2026-01-02T00:00:00Z")
    entry(home, "templates/other", "template.json", name="other", created_at="2026-01-01T00:00:00Z")
    mine = entry(home, "snapshots/snap-a", "snapshot.json", layer="a", template="web", build="2026-01-02T00:00:00Z")
    older = entry(home, "snapshots/snap-b", "snapshot.json", layer="b", template="web", build="2026-01-01T00:00:00Z")
    others = entry(home, "snapshots/snap-c", "snapshot.json", 400, layer="c", template="other", build="2026-01-01T00:00:00Z")
    would = cubby(home, "gc", "--dry-run", "--unused", "1000", "--json")
    assert [i["name"] for i in json.loads(would.stdout)] == ["snap-b"] and older.exists()
    answer = cubby(home, "rm", "web")
    assert answer.returncode == 0 and answer.stderr == "", answer
    assert not mine.exists() and not older.exists() and others.exists()


def test_pool_members_do_not_use_a_template(home):
    """The daemon makes them, and ends them when their template changes."""
    entry(home, "templates/web", "template.json", name="web")
    member = entry(home, "sandboxes/abc", "sandbox.json", template="web", state="pooled")
    user = entry(home, "sandboxes/def", "sandbox.json", template="web", state="running")
    answer = cubby(home, "rm", "web")
    assert answer.returncode == 1 and "def" in answer.stderr and "abc" not in answer.stderr, answer
    shutil.rmtree(user)
    assert cubby(home, "rm", "web").returncode == 0 and member.exists()


def test_what_a_home_kept_about_a_template_of_the_system_goes_with_it(home, tmp_path, monkeypatch):
    monkeypatch.setenv("CUBBY_SYSTEM_TEMPLATES", str(tmp_path / "system"))
    entry(tmp_path, "system/web", "template.json", name="web", created_at="2026-01-02T00:00:00Z")
    kept = entry(home, "system/web@20260102T000000Z", "used")
    old = entry(home, "system/web@20260101T000000Z", "used")
    lost = entry(home, "system/gone@20260101T000000Z", "used")
    assert cubby(home, "gc").returncode == 0 and kept.exists() and not old.exists() and not lost.exists()


def test_gc_of_an_empty_home(home):
    assert cubby(home, "gc").stdout == "0 MB freed; layers that stay: 0 MB\n"
    assert pathlib.Path(home).exists() and cubby(home, "gc", "x").returncode == 2
