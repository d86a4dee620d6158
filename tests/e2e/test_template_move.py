# SPDX-License-Identifier: Apache-2.0
"""A template is exported, imported into another home, and runs there. tests/protocol/cli/test_cli_template_move.py
has the archives that are refused."""

import hashlib
import json
import os
import pathlib
import shutil
import struct
import subprocess
import tempfile

import pytest

from harness import BIN, TEST_HOME

pytestmark = pytest.mark.timeout(2400)  # a build takes minutes, on a busy host many


@pytest.fixture(scope="module")
def home():
    folder = pathlib.Path(tempfile.mkdtemp(prefix="cubby-move-"))
    yield folder
    cubby(folder, "kill", "--all")
    cubby(folder, "daemon", "stop")
    shutil.rmtree(folder, ignore_errors=True)


def cubby(home, *words, timeout=120):
    return subprocess.run([BIN / "cubby", *words], env=dict(os.environ, CUBBY_HOME=str(home)), capture_output=True,
                          text=True, timeout=timeout, stdin=subprocess.DEVNULL)


def test_an_exported_template_runs_in_another_home(home, tmp_path):
    path = tmp_path / "default.cubby"
    digest = cubby(TEST_HOME, "template", "export", "default", str(path), timeout=600)
    assert digest.returncode == 0 and len(digest.stdout) == 65, digest
    assert not path.with_name(path.name + ".part").exists()
    answer = cubby(home, "template", "import", "--name", "moved", "--sha256", digest.stdout.strip(), "--json", str(path),
                   timeout=1200)
    assert answer.returncode == 0, answer.stderr
    made = json.loads(answer.stdout)
    before = json.loads(cubby(TEST_HOME, "template", "ls", "--json").stdout)[0]
    for key in "kernel", "memory_mb", "cpus", "disk_mb":
        assert made[key] == before[key]
    assert made["name"] == "moved" and not list((home / "cache").glob("import-*"))
    sandbox = cubby(home, "create", "--template", "moved").stdout.strip()
    assert cubby(home, "exec", sandbox, "--", "python3", "-c", "import numpy; print(numpy.arange(3).sum())").stdout == "3\n"
    used = json.loads(cubby(home, "template", "ls", "--json").stdout)[0]["last_used"]
    assert used >= made["last_used"]
    again = cubby(home, "template", "import", "--name", "moved", str(path))
    assert again.returncode == 1 and "--force" in again.stderr


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """An archive of the tests' template with its saved machine."""
    path = tmp_path_factory.mktemp("w") / "default.cubby"
    done = cubby(TEST_HOME, "template", "export", "--with-machine", "default", str(path), timeout=600)
    assert done.returncode == 0, done.stderr
    yield path
    path.unlink()


def test_a_saved_machine_is_taken_over_and_gets_its_part_for_gvisor(home, whole):
    """Its sandboxes and snapshots outlive the change of the template, and new sandboxes take the better tier."""
    answer = cubby(home, "template", "import", "--name", "whole", "--microvm-only", "--json", str(whole), timeout=1200)
    assert answer.returncode == 0 and "that of the archive fits this host" in answer.stderr, answer.stderr
    made = json.loads(answer.stdout)
    assert made["python_kernel"] == "warm"
    assert (home / "templates/whole/packages.txt").read_text() == (TEST_HOME / "templates/default/packages.txt").read_text()
    if not (BIN / "runsc").exists() or not shutil.which("mkfs.erofs"):
        pytest.skip("this host has no runsc or no mkfs.erofs")
    sandbox = cubby(home, "create", "--template", "whole").stdout.strip()
    assert cubby(home, "exec", sandbox, "--", "sh", "-c", "echo kept >mark; cat mark").stdout == "kept\n"
    snapshot = cubby(home, "snapshot", sandbox).stdout.strip()
    done = cubby(home, "template", "finish", "whole", timeout=1200)
    assert done.returncode == 0, done.stderr
    facts = json.loads((home / "templates/whole/template.json").read_text())
    assert facts["gvisor"]["rootfs"] and facts["created_at"] == made["created_at"]
    assert sorted(entry.name for entry in (home / "templates").iterdir() if entry.name.startswith(".")) == []
    better = cubby(home, "create", "--template", "whole").stdout.strip()
    shown = {one["sandboxID"]: one["tier"] for one in json.loads(cubby(home, "ps", "--json").stdout)}
    assert shown[sandbox] == "microvm" and shown[better] == "gvisor"
    assert cubby(home, "exec", better, "--", "python3", "-c", "print(6 * 7)").stdout == "42\n"
    again = cubby(home, "create", "--template", snapshot).stdout.strip()
    assert cubby(home, "exec", again, "--", "cat", "mark").stdout == "kept\n"
    assert "already" in cubby(home, "template", "finish", "whole").stdout


def damage(source, target, name):
    """Copy an archive. Its file of that name has zeros in place of its first bytes; the digest is right."""
    plain = subprocess.Popen(["zstd", "-q", "-d", "-c", source], stdout=subprocess.PIPE)
    packed = subprocess.Popen(["zstd", "-q", "-1", "-o", target], stdin=subprocess.PIPE)
    digest = hashlib.sha256()

    def put(data):
        digest.update(data)
        packed.stdin.write(data)

    head = plain.stdout.read(16)
    text = plain.stdout.read(struct.unpack("<Q", head[8:])[0])
    put(head + text)
    for file in json.loads(text)["files"]:
        zeros = 4096 if file["name"] == name else 0
        for _, left in file["extents"]:
            while left:
                data = plain.stdout.read(min(left, 1 << 20))
                put(b"\0" * zeros + data[zeros:] if zeros else data)
                zeros = 0
                left -= len(data)
    plain.stdout.close()
    plain.wait()
    packed.stdin.write(digest.digest())
    packed.stdin.close()
    assert packed.wait() == 0


def test_a_saved_machine_that_does_not_run_is_made_again(home, whole, tmp_path):
    path = tmp_path / "damaged"
    damage(whole, path, "vmstate")
    answer = cubby(home, "template", "import", "--name", "own", "--microvm-only", str(path), timeout=1200)
    assert answer.returncode == 0 and "that of the archive does not run here" in answer.stderr, answer.stderr
    sandbox = cubby(home, "create", "--template", "own").stdout.strip()
    assert cubby(home, "exec", sandbox, "--", "python3", "-c", "print(6 * 7)").stdout == "42\n"
