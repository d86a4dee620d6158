# SPDX-License-Identifier: Apache-2.0
"""cubby snapshot export and import, as far as they need no machine: archives that are refused.
tests/e2e/test_snapshot_move.py moves real snapshots."""

import hashlib
import itertools
import json
import os
import subprocess

import pytest

from harness import BIN
from test_cli_template_move import archive, left, manifest

SUM = hashlib.sha256(b"devices").hexdigest()
BUILT = "2026-11-24T00:50:36Z"
NAMES = ["image/image.json", "image/vmstate", "image/pages", "image/disk.qcow2"]
SNAPSHOT = {"name": "state", "sandbox": "abc", "template": "base", "build": BUILT, "metadata": {}, "created_ns": 1,
            "size": {"cpus": 0, "memory_mb": 0, "disk_mb": 0},
            "facts": {"driver": "microvm", "accel": "tcg", "cpus": 1, "memory_mb": 512, "disk_mb": 8192, "python": True}}


@pytest.fixture
def home(tmp_path):
    """A home with the build of the template that the archives name; no machine can start from it."""
    where = tmp_path / "h/templates/base"
    where.mkdir(parents=True, mode=0o700)
    facts = {"format": 1, "driver": "microvm", "name": "base", "created_at": BUILT, "kernel": "6", "qemu": "0.0",
             "machine": "m", "cpu_model": "c", "accel": "tcg", "envd_version": "0", "memory_mb": 512, "cpus": 1,
             "disk_mb": 8192}
    (where / "template.json").write_text(json.dumps(facts))
    (where / "vmstate").write_bytes(b"devices")
    return tmp_path / "h"


def cubby(home, *words):
    return subprocess.run([BIN / "cubby", "snapshot", *words], capture_output=True, text=True, timeout=60,
                          env=dict(os.environ, CUBBY_HOME=str(home), CUBBY_SYSTEM_TEMPLATES=""), stdin=subprocess.DEVNULL)


def head(**changes):
    files = [{"name": name, "size": 4096, "extents": [[0, 4]]} for name in NAMES]
    return {"format": 1, "snapshot": SNAPSHOT, "tier": "microvm", "sum": SUM, "with_template": False, "files": files,
            **changes}


def of(**changes):
    return head(snapshot={**SNAPSHOT, **changes})


def renamed(name, index=0):
    files = head()["files"]
    files[index] = {**files[index], "name": name}
    return head(files=files)


WHOLE = archive(head())


@pytest.mark.parametrize("content, text", [
    (b"", "ends too early"),
    (b"PK\x03\x04 a zip file", "not an archive of Cubby"),
    (archive(manifest()), "cubby template import"),
    (archive(head(format=2)), "reads only archives of format 1"),
    (archive(head(tier="none")), "no tier"),
    (archive(head(tier="gvisor")), "no tier"),
    (archive(head(sum="abc")), "which build"),
    (archive(head(files=[])), "other files than a snapshot"),
    (archive(head(files=head()["files"] + [{"name": "image/more", "size": 1, "extents": []}])), "other files than a snapshot"),
    (archive(renamed("../../evil")), "other files than a snapshot"),
    (archive(renamed("/etc/passwd")), "other files than a snapshot"),
    (archive(renamed("template/template.json", 3)), "other files than a snapshot"),
    (archive(head(files=[{**f, "size": 2**50} for f in head()["files"]])), "too large"),
    (archive(head(files=[*head()["files"][:3], {"name": NAMES[3], "size": 2**40, "extents": [[0, 2**39]]}])), "MB are free"),
    (archive(of(template="../evil")), "invalid name"),
    (archive(of(name="../evil")), "invalid"),
    (archive(of(build=None)), "of which sandbox and template"),
    (archive(of(metadata={"a": 1})), "metadata"),
    (archive(of(policy={"mode": "everything"})), "policy"),
    (archive(of(size={"cpus": -1})), "out of range"),
    (archive(of(facts={**SNAPSHOT["facts"], "driver": "none"})), "no tier"),
    (archive(of(name="base")), "that of a template"),
    (archive(of(build="2026-01-01T00:00:00Z")), "the template here is another build"),
    (archive(head(sum="0" * 64)), "the template here is another build"),
    (archive(of(template="other")), "there is none here; export the snapshot again with --with-template"),
    (archive(head(), data=b"abcd" * 3), "ends too early"),
    (archive(head(), data=b"abcd" * 5), "digest"),
    (archive(head(), digest=b"\0" * 32), "digest"),
    (WHOLE + b"x", "bytes follow its end"),
    (WHOLE[:-1], "ends too early"),
    (WHOLE[:60] + bytes([WHOLE[60] ^ 1]) + WHOLE[61:], "damaged"),
    (WHOLE, "the image is damaged"),  # its disk is no disk
], ids=itertools.count())
def test_a_bad_archive_is_refused_and_leaves_nothing(home, tmp_path, content, text):
    path = tmp_path / "bad"
    path.write_bytes(content)
    before = left(home)
    answer = cubby(home, "import", str(path))
    assert answer.returncode == 1 and text in answer.stderr, answer
    assert left(home) == before


def test_what_is_not_there_is_not_exported(home, tmp_path):
    answer = cubby(home, "export", "snap-01234567890123456789", str(tmp_path / "out"))
    assert answer.returncode == 1 and "there is no snapshot" in answer.stderr
    where = home / "snapshots/snap-01234567890123456789"
    where.mkdir(parents=True)
    (where / "snapshot.json").write_text(json.dumps({**SNAPSHOT, "build": "2025-01-01T00:00:00Z"}))
    answer = cubby(home, "export", "state", str(tmp_path / "out"))
    assert answer.returncode == 1 and "was rebuilt since it was made" in answer.stderr
    assert not list(tmp_path.glob("out*"))


@pytest.mark.parametrize("words, text", [(("export", "a"), "SNAPSHOT and a FILE"), (("import",), "one FILE"),
                                         (("import", "--sha256", "12", "x"), "hexadecimal"),
                                         (("import", "--name", "a/b", "x"), "not a valid name")])
def test_usage(home, words, text):
    answer = cubby(home, *words)
    assert answer.returncode == 2 and text in answer.stderr, answer
