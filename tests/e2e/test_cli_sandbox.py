# SPDX-License-Identifier: Apache-2.0
"""cubby with real parts only: the daemon it starts, a microVM, its envd."""

import concurrent.futures
import json
import os
import signal
import subprocess

import pytest

from harness import BIN, process_exists, wait_for
from tiers import tier  # noqa: F401


@pytest.fixture
def sandbox(home):
    made = home.cubby("create", "--timeout", "300", "--metadata", "k=v").stdout.decode().strip()
    yield made
    home.cubby("kill", "--all")


def test_a_sandbox_from_the_command_line(home, sandbox):
    listed = json.loads(home.cubby("ps", "--json").stdout)
    assert [(s["sandboxID"], s["metadata"]) for s in listed] == [(sandbox, {"k": "v"})]
    assert sandbox in home.cubby("ps").stdout.decode()
    answer = home.cubby("exec", sandbox, "--", "sh", "-c", "id -un; pwd; exit 7", check=False)
    assert answer.stdout == b"user\n/home/user\n" and answer.returncode == 7
    assert home.cubby("exec", "--user", "root", sandbox[:8], "--", "id", "-u").stdout == b"0\n"
    data = os.urandom(100000)
    assert home.cubby("exec", sandbox, "--", "cat", input=data).stdout == data
    assert home.cubby("kill", sandbox).stdout.decode().strip() == sandbox
    answer = home.cubby("exec", sandbox, "--", "true", check=False)
    assert answer.returncode == 125 and b"ended" in answer.stderr
    assert json.loads(home.cubby("ps", "--json").stdout) == []


def test_the_size_of_a_sandbox(home):
    try:
        made = json.loads(home.cubby("create", "--json", "--cpus", "2", "--memory", "768M", "--disk", "10G", timeout=180).stdout)
        seen = home.cubby("exec", made["sandboxID"], "--", "sh", "-c", "nproc; sed -n 's/MemTotal: *//p' /proc/meminfo").stdout
        cpus, kilobytes = seen.split()[:2]
        assert int(cpus) == 2 and 640 << 10 < int(kilobytes) <= 768 << 10, seen
        listed = json.loads(home.cubby("ps", "--json").stdout)[0]
        assert (listed["cpuCount"], listed["memoryMB"], listed["diskSizeMB"]) == (2, 768, 10240)
        for words, said in [(("--cpus", "1024"), "--cpus: 1024 is out of range: it may be 1 to"),
                            (("--memory", "1M"), "--memory, in MB: 1 is out of range: it may be"),
                            (("--disk", "16M"), "--disk, in MB: 16 is out of range: it may be")]:
            for verb in (("create",), ("run", "--")):
                done = home.cubby(verb[0], *words, *verb[1:], *(["true"] if verb[1:] else []), check=False)
                assert done.returncode in (1, 125) and said in done.stderr.decode(), done.stderr
    finally:
        home.cubby("kill", "--all")


def test_interrupt_kills_in_the_guest(home, sandbox):
    process = subprocess.Popen([BIN / "cubby", "exec", sandbox, "--", "sh", "-c", "echo up; sleep 987"],
                               env=home.env, stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"up\n"
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 130
    process.stdout.close()
    wait_for(lambda: home.cubby("exec", sandbox, "--", "pgrep", "-f", "[s]leep 987",
                                check=False).returncode == 1, 60, "the command is gone")


def test_a_directory_goes_in_and_comes_out(home, sandbox, tmp_path):
    top = tmp_path / "proj"
    (top / "sub").mkdir(parents=True)
    (top / "sub/run").write_text("#!/bin/sh\nwc -c < ../large\n")
    (top / "sub/run").chmod(0o755)
    (top / "link").symlink_to("sub/run")
    (top / "large").write_bytes(os.urandom(5 << 20))
    home.cubby("cp", top, f"{sandbox}:.")
    answer = home.cubby("exec", "--cwd", "proj/sub", sandbox, "--", "sh", "-c", "./run; id -un > made; stat -c %U ../link")
    assert answer.stdout == b"5242880\nuser\n"
    home.cubby("cp", f"{sandbox}:proj", tmp_path / "back")
    assert (tmp_path / "back/sub/made").read_text() == "user\n"
    assert os.access(tmp_path / "back/sub/run", os.X_OK) and os.readlink(tmp_path / "back/link") == "sub/run"
    assert (tmp_path / "back/large").read_bytes() == (top / "large").read_bytes()


def test_git_and_sync(home, sandbox, tmp_path):
    top = tmp_path / "repo"
    env = {**home.env, "HOME": str(tmp_path)}

    def run(*words):
        done = subprocess.run(words, cwd=top, env=env, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        return done.stdout

    top.mkdir()
    for name, value in {"user.name": "Host", "user.email": "host@example.org"}.items():
        run("git", "config", "--global", name, value)
    run("git", "init", "-q")
    (top / "a.py").write_text("print(1)\n")
    run("git", "add", "a.py")
    run("git", "commit", "-qm", "first")
    said = run(BIN / "cubby", "work", sandbox, "--", "sh", "-c", "python3 a.py > out; git add out; git commit -qm agent")
    assert "agent" in said and run("git", "show", f"cubby/{sandbox[:8]}:out") == "1\n"
    run(BIN / "cubby", "sync", ".", f"{sandbox}:same")
    home.cubby("exec", "--cwd", "same", sandbox, "--", "sh", "-c", "echo 'print(2)' > a.py; rm -f none")
    answer = json.loads(run(BIN / "cubby", "sync", "--json", ".", f"{sandbox}:same"))
    assert answer["files"] == 1 and (top / "a.py").read_text() == "print(2)\n"


def test_run_with_a_mount(home, tmp_path):
    (tmp_path / "a.txt").write_text("from the host\n")
    assert home.cubby("run", "--mount", f"{tmp_path}:/p:ro", "--", "cat", "/p/a.txt", timeout=180).stdout == b"from the host\n"
    done = home.cubby("run", "--mount", f"{tmp_path}/none:/p", "--", "true", check=False, timeout=180)
    assert done.returncode == 125 and b"none" in done.stderr, done.stderr
    assert json.loads(home.cubby("ps", "--json").stdout) == []


def test_the_daemon_is_started_once(home):
    unknown = ["exec", "z" * 20, "--", "true"]
    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(lambda _: home.cubby(*unknown, check=False), range(6)))
    assert [a.returncode for a in answers] == [125] * 6
    assert all(b"z" * 20 in a.stderr or b"no sandbox" in a.stderr for a in answers), answers
    assert len(home.daemons()) == 1


def test_daemon_in_the_foreground(home):
    process = subprocess.Popen([BIN / "cubby", "daemon"], env=home.env, stderr=subprocess.DEVNULL)
    wait_for((home.path / "cubbyd.sock").exists, 30, "the daemon's socket")
    assert home.daemon() == process.pid
    process.terminate()
    assert process.wait(60) == 0
    assert not process_exists(process.pid)


def test_doctor_is_content(home):
    answer = home.cubby("doctor", "--json", check=False)
    found = {f["name"]: f for f in json.loads(answer.stdout)}
    assert found["template"]["level"] == "ok", found["template"]
    assert "boot" in found["kvm"]["text"] or "/dev/kvm" in found["kvm"]["text"]
    missing = [f for f in found.values() if f["level"] == "missing"]
    assert answer.returncode == (1 if missing else 0)
