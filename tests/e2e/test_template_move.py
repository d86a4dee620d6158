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

from harness import BIN, TEST_HOME, link_kernel_package, tmpfs, wait_for
from oci_image import Layout, busybox_layer

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


def pack(home, path):
    """Export the home's default template with its saved machine."""
    done = cubby(home, "template", "export", "--with-machine", "default", str(path), timeout=600)
    assert done.returncode == 0, done.stderr
    return path


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """An archive of the tests' template with its saved machine."""
    path = pack(TEST_HOME, tmp_path_factory.mktemp("w") / "default.cubby")
    yield path
    path.unlink()


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """An archive of a template of busybox, which takes seconds where the tests' template takes a minute."""
    place = tmp_path_factory.mktemp("s")
    home = place / "h"
    home.mkdir(mode=0o700)
    link_kernel_package(home)
    image = Layout(place / "image").write([busybox_layer(shutil.which("busybox"))])
    done = cubby(home, "template", "build", "default", "--from", image, timeout=600)
    assert done.returncode == 0, done.stderr
    return pack(home, place / "default.cubby")


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


def test_a_saved_machine_that_does_not_run_is_made_again(home, small, tmp_path):
    path = tmp_path / "damaged"
    damage(small, path, "vmstate")
    answer = cubby(home, "template", "import", "--name", "own", "--microvm-only", str(path), timeout=1200)
    assert answer.returncode == 0 and "that of the archive does not run here" in answer.stderr, answer.stderr
    sandbox = cubby(home, "create", "--template", "own").stdout.strip()
    assert cubby(home, "exec", sandbox, "--", "echo", "works").stdout == "works\n"


def start(home, *words):
    return subprocess.Popen([BIN / "cubby", "template", *words], env=dict(os.environ, CUBBY_HOME=str(home)), stdin=subprocess.DEVNULL,
                            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def kill_at(process, mark):
    """Kill the program when it prints a line with the mark, as a power failure would end it."""
    for line in process.stderr:
        if mark in line:
            break
    else:
        raise AssertionError(f"it never printed {mark}")
    process.kill()
    process.wait()
    process.stderr.close()


def unfinished(home):
    """What an interrupted import or build left."""
    return [*(home / "templates").glob(".build-*"), *(home / "cache").glob("import-*")]


def test_an_import_killed_at_any_step_leaves_no_template(small, tmp_path):
    """The template is there as a whole, or not at all; and what is left goes with the next import."""
    home = tmp_path / "h"
    home.mkdir(mode=0o700)
    try:
        for mark in "1/8 disk file", "4/8 accelerator", "8/8 trial restore":
            kill_at(start(home, "import", "--microvm-only", str(small)), mark)
            assert not (home / "templates/default").exists()
            assert cubby(home, "template", "ls").stdout == ""
        done = cubby(home, "template", "import", "--microvm-only", str(small), timeout=1200)
        assert done.returncode == 0, done.stderr
        wait_for(lambda: cubby(home, "template", "gc").returncode == 0 and not unfinished(home), what="the remains are gone")
        sandbox = cubby(home, "create").stdout.strip()
        assert cubby(home, "exec", sandbox, "--", "echo", "works").stdout == "works\n"
        if (BIN / "runsc").exists() and shutil.which("mkfs.erofs"):
            before = (home / "templates/default/template.json").read_text()
            kill_at(start(home, "finish"), "1/2 gVisor save")
            assert json.loads((home / "templates/default/template.json").read_text()) == json.loads(before)
            assert cubby(home, "exec", sandbox, "--", "echo", "works").stdout == "works\n"
            wait_for(lambda: cubby(home, "template", "gc").returncode == 0 and not unfinished(home), what="the remains are gone")
    finally:
        cubby(home, "kill", "--all")
        cubby(home, "daemon", "stop")


def test_two_imports_of_one_name_at_once(small, tmp_path):
    """Two users, or a user and a client that prepares: one imports, and the other is told so, or finds the name taken. (The
    second one may also come just after the first, and replace it.)"""
    home = tmp_path / "h"
    home.mkdir(mode=0o700)
    both = [start(home, "import", "--microvm-only", str(small)) for _ in range(2)]
    said = [process.communicate(timeout=1200)[1] for process in both]
    codes = [process.returncode for process in both]
    assert 0 in codes, said
    for code, text in zip(codes, said):
        assert code == 0 or "is being built by another process" in text or 'there is a template "default" already' in text, said
    assert [path.name for path in (home / "templates").iterdir()] == ["default"]
    assert not list((home / "cache").glob("import-*"))


@pytest.mark.skipif(not (BIN / "runsc").exists() or not shutil.which("mkfs.erofs"), reason="this host has no runsc or no mkfs.erofs")
def test_setup_lets_sandboxes_start_and_goes_on_in_the_background(small, tmp_path):
    """The first sandbox does not wait for the part for gVisor, which a process of its own makes."""
    home = tmp_path / "h"
    home.mkdir(mode=0o700)
    facts = home / "templates/default/template.json"
    env = dict(os.environ, CUBBY_HOME=str(home), CUBBY_SYSTEM_TEMPLATES="", CUBBY_TEMPLATE_ARCHIVE=str(small))
    try:
        done = subprocess.run([BIN / "cubby", "setup"], env=env, capture_output=True, text=True, timeout=1200, stdin=subprocess.DEVNULL)
        assert "Sandboxes can start now." in done.stdout and "made in the background" in done.stdout, done.stdout + done.stderr
        sandbox = cubby(home, "create").stdout.strip()
        assert cubby(home, "exec", sandbox, "--", "echo", "works").stdout == "works\n"
        log = home / "finish.log"
        wait_for(lambda: "has its part for gVisor" in log.read_text(), 1200, "the part for gVisor")
        assert json.loads(facts.read_text())["gvisor"]["rootfs"]
        again = subprocess.run([BIN / "cubby", "setup"], env=env, capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL)
        assert '"default" is there' in again.stdout and "background" not in again.stdout, again.stdout
    finally:
        cubby(home, "kill", "--all")
        cubby(home, "daemon", "stop")


@pytest.fixture
def little_home(tmp_path):
    """A state directory with less room than the largest disk of a template."""
    with tmpfs(tmp_path / "h", "3g") as home:
        home.chmod(0o700)
        yield home


@pytest.mark.skipif(not (BIN / "runsc").exists(), reason="this host has no runsc")
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a file system")
def test_setup_does_not_repeat_a_failed_part_for_gvisor(small, little_home, tmp_path):
    """A host on which it cannot be made: an mkfs.erofs that fails, and counts its runs. Another one is tried again.
    Without the room that the part takes, nobody knows why it failed, and nothing is recorded."""
    home, tools = little_home, tmp_path / "tools"
    tools.mkdir()
    runs, mkfs = tools / "runs", tools / "mkfs.erofs"

    def put_tool(status):
        mkfs.write_text(f"#!/bin/sh\necho run >>{runs}\nexit {status}\n")
        mkfs.chmod(0o755)

    env = dict(os.environ, CUBBY_HOME=str(home), CUBBY_SYSTEM_TEMPLATES="", CUBBY_TEMPLATE_ARCHIVE=str(small),
               PATH=f"{tools}:{os.environ['PATH']}")

    def run(*words):
        done = subprocess.run([BIN / "cubby", *words], env=env, capture_output=True, text=True, timeout=1200, stdin=subprocess.DEVNULL)
        return done.stdout + done.stderr

    def count():
        return len(runs.read_text().splitlines()) if runs.exists() else 0

    put_tool(1)
    assert "made in the background" in run("setup")
    log = home / "finish.log"
    wait_for(lambda: "gets no part for gVisor" in log.read_text(), 1200, "the end of the first attempt")
    record = home / "templates/default/gvisor-attempt.json"
    assert count() == 1 and json.loads(record.read_text())["format"] == 1, log.read_text()
    said = run("setup")
    assert "background" not in said and "no part for gVisor, because" in said and "cubby template finish" in said, said
    found = {finding["name"]: finding for finding in json.loads(run("doctor", "--json"))}
    assert "the last attempt failed" in found["gvisor"]["text"], found
    assert count() == 1
    assert "gets no part for gVisor" in run("template", "finish") and count() == 2  # when somebody asks
    put_tool(10)
    assert "made in the background" in run("setup")
    wait_for(lambda: count() == 3 and "gets no part for gVisor" in log.read_text(), 1200, "another mkfs.erofs is tried")
    record.unlink()
    fs = os.statvfs(home)
    size = (fs.f_blocks - fs.f_bfree) * fs.f_frsize + (600 << 20)
    subprocess.run(["mount", "-o", f"remount,size={size}", home], check=True)
    assert "gets no part for gVisor" in run("template", "finish") and count() == 4 and not record.exists()
