# SPDX-License-Identifier: Apache-2.0
"""fold: a process goes on with its memory in a file, and does not notice."""

import hashlib
import os
import pathlib
import subprocess
import sys

import pytest

FOLD = pathlib.Path(os.environ["GUEST"]) / "fold"
MB = 1 << 20
# It waits for a line in the kernel (read), while another thread sleeps there (futex).
CHILD = """
import hashlib, os, sys, threading
data = bytearray(os.urandom(8 << 20))
threading.Thread(target=threading.Event().wait, daemon=True).start()
for line in iter(sys.stdin.readline, ""):
    if line.strip():
        data[int(line)] ^= 255
    print(hashlib.sha256(data).hexdigest(), flush=True)
"""


@pytest.fixture(name="child")
def fixture_child():
    with subprocess.Popen([sys.executable, "-c", CHILD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process
        process.stdin.close()


def ask(child, line=""):
    child.stdin.write(f"{line}\n")
    child.stdin.flush()
    return child.stdout.readline().strip()


def fold(*words):
    return subprocess.run([FOLD, *map(str, words)], capture_output=True, text=True, timeout=60, check=False)


def folded(child, file):
    """How many bytes of it are mappings of the file."""
    ranges = [line.split()[0].split("-") for line in pathlib.Path(f"/proc/{child.pid}/maps").read_text().splitlines() if str(file) in line]
    return sum(int(end, 16) - int(start, 16) for start, end in ranges)


def test_a_process_that_has_ended_is_left_out(child, tmp_path):
    """Its parent has not asked for its end yet, so it is still listed, and cannot be traced."""
    ask(child)
    with subprocess.Popen(["true"]) as ended:
        os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
        done = fold("dump", tmp_path / "pages", 256 * MB, ended.pid, child.pid)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "pages").stat().st_size > 8 * MB


def test_a_process_goes_on_in_the_file(child, tmp_path):
    first = ask(child)
    file = tmp_path / "pages"
    assert fold("dump", file, 256 * MB, child.pid).returncode == 0
    assert ask(child) == first
    contents = hashlib.sha256(file.read_bytes()).hexdigest()
    done = fold("map", file)
    assert done.returncode == 0, done.stderr
    assert folded(child, file) > 8 * MB
    assert ask(child) == first
    assert ask(child, 5 * MB) != first and ask(child, 5 * MB) == first
    assert hashlib.sha256(file.read_bytes()).hexdigest() == contents, "what it writes is its own"


def test_threads_that_come_and_go(tmp_path):
    """Each is stopped, or has ended."""
    code = CHILD.replace("for line", """
def chain():
    threading.Thread(target=chain, daemon=True).start()
for _ in range(4):
    chain()
for line""", 1)
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        first, file = ask(process), tmp_path / "pages"
        for number in range(5):
            file = tmp_path / str(number)
            done = fold("dump", file, 256 * MB, process.pid)
            assert done.returncode == 0 and "has ended" not in done.stdout + done.stderr, done
        done = fold("map", file)
        assert done.returncode == 0, done
        assert folded(process, file) > 7 * MB
        assert ask(process) == first
        process.kill()


def test_a_page_that_has_changed_since_is_left(child, tmp_path):
    first = ask(child)
    file = tmp_path / "pages"
    assert fold("dump", file, 256 * MB, child.pid).returncode == 0
    changed = ask(child, 3 * MB)
    assert fold("map", file).returncode == 0
    assert ask(child) == changed != first and folded(child, file) > 7 * MB


def test_what_has_no_room_stays(child, tmp_path):
    first = ask(child)
    file = tmp_path / "pages"
    done = fold("dump", file, 2 * MB, child.pid)
    assert done.returncode == 0 and "the rest is not folded" in done.stdout
    assert fold("map", file).returncode == 0
    assert folded(child, file) <= 2 * MB and ask(child) == first


def test_what_it_refuses(child, tmp_path):
    file = tmp_path / "pages"
    file.write_bytes(bytes(2 * MB))
    assert "no plan" in fold("map", file).stderr
    assert "usage" in fold("dump", file).stderr
    assert "is not a process id" in fold("dump", file, MB, "x").stderr
    child.kill()
    child.wait()
    assert fold("dump", file, MB, child.pid).returncode == 0, "a process that has ended is no failure"
