# SPDX-License-Identifier: Apache-2.0
"""cubby template: options, interrupted and concurrent builds, listing, removing, and the contents
of the shared template's guest.

The builds here run a stand-in for mmdebstrap, so that they stay in the first stage as long as a
test wants; the one whole build of a test session is the shared template itself (CUBBY_TEST_HOME).
"""

import json
import os
import pathlib
import pty
import shutil
import signal
import subprocess
import tempfile

import pytest

from harness import BIN, TEST_HOME, process_exists, wait_for

# With runsc, two more stages make the part for gVisor.
STAGES = 10 if (BIN / "runsc").exists() else 8
SLOW = "#!/bin/sh\necho $$ > \"$STATE/pid\"\necho working; sleep 300 & wait\n"
FAILING = "#!/bin/sh\nfor i in $(seq 40); do echo line $i; done\necho the reason >&2\nexit 3\n"


class Builder:
    """A state directory and a stand-in for mmdebstrap."""

    def __init__(self, script):
        self.home = pathlib.Path(tempfile.mkdtemp(prefix="cubby-test-"))
        self.tools = pathlib.Path(tempfile.mkdtemp(prefix="cubby-tools-"))
        tool = self.tools / "mmdebstrap"
        tool.write_text(script.replace("$STATE", str(self.tools)))
        tool.chmod(0o755)
        self.env = dict(os.environ, CUBBY_HOME=str(self.home),
                        PATH=f"{self.tools}:{os.environ['PATH']}")
        self.started = []

    def run(self, *words, env=None):
        return subprocess.run([BIN / "cubby", "template", *words], env=env or self.env, timeout=60,
                              capture_output=True, text=True)

    def start(self, name):
        (self.tools / "pid").unlink(missing_ok=True)
        process = subprocess.Popen([BIN / "cubby", "template", "build", name], env=self.env,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.started.append(process)
        return process

    def tool_pid(self):
        path = self.tools / "pid"
        wait_for(lambda: path.exists() and path.read_text().strip(), what="mmdebstrap runs")
        return int(path.read_text())

    def builds(self):
        folder = self.home / "templates"
        return sorted(os.listdir(folder)) if folder.exists() else []

    def close(self):
        for process in self.started:
            if process.poll() is None:
                process.terminate()
            process.communicate(timeout=30)
        shutil.rmtree(self.home)
        shutil.rmtree(self.tools)


@pytest.fixture
def slow():
    builder = Builder(SLOW)
    yield builder
    builder.close()


@pytest.fixture
def failing():
    builder = Builder(FAILING)
    yield builder
    builder.close()


@pytest.mark.parametrize("words, said", [
    (["build", "a", "b"], "one NAME"),
    (["build", "../x"], "is not a valid template name"),
    (["build", "Upper"], "is not a valid template name"),
    (["build", "x" * 65], "is not a valid template name"),
    (["build", "--memory", "64M"], "--memory must be"),
    (["build", "--memory", "much"], "--memory takes a size"),
    (["build", "--cpus", "0"], "--cpus must be"),
    (["build", "--disk", "1M"], "--disk must be"),
    (["build", "--accel", "hvf"], "auto|kvm|tcg"),
    (["build", "--modules", "/tmp"], "--kernel"),
    (["build", "--fast"], "unknown option"),
    (["ls", "x"], "takes no"),
    (["rm"], "needs the NAME"),
    (["list"], "--help"),
    ([], "Usage"),
])
def test_wrong_command_lines(slow, words, said):
    result = slow.run(*words)
    assert (result.returncode, result.stdout) == (2, "")
    assert said in result.stderr
    assert slow.builds() == []


@pytest.mark.parametrize("words", [["--help"], ["build", "--help"], ["ls", "--help"],
                                   ["rm", "--help"]])
def test_help(slow, words):
    result = slow.run(*words)
    assert (result.returncode, result.stderr) == (0, "")
    assert "Usage: cubby template" in result.stdout


def test_a_missing_tool_is_named_with_its_package(slow):
    result = slow.run("build", env=dict(slow.env, PATH="/nonexistent"))
    assert result.returncode == 1
    assert "apt-get install mmdebstrap" in result.stderr


def test_without_mkfs_erofs_the_template_has_no_part_for_gvisor(failing):
    """The build fails in its first stage, so it has begun, with two stages less."""
    for name in ("mke2fs", "qemu-img", "dpkg-deb", "fakeroot", "newuidmap", "sh", "seq", "qemu-system-x86_64"):
        path = shutil.which(name)
        if path:
            (failing.tools / name).symlink_to(path)
    result = failing.run("build", "x", env=dict(failing.env, PATH=str(failing.tools)))
    assert result.returncode == 1 and "Debian packages: mmdebstrap failed with status 3" in result.stderr, result.stderr
    assert "1/8 Debian packages" in result.stderr


def test_a_missing_kernel_is_said_before_anything_is_built(failing):
    result = failing.run("build", "--kernel", "/nonexistent/vmlinuz")
    assert result.returncode == 1 and "/nonexistent/vmlinuz" in result.stderr
    assert "Debian packages" not in result.stderr


def test_a_failed_stage_shows_the_end_of_its_log(failing):
    result = failing.run("build", "x")
    assert (result.returncode, result.stdout) == (1, "")
    assert "the reason" in result.stderr and "line 40" in result.stderr
    assert "line 20\n" not in result.stderr
    assert "Debian packages: mmdebstrap failed with status 3" in result.stderr
    log = failing.home / "build-x.log"
    assert str(log) in result.stderr and "line 1\n" in log.read_text()
    assert failing.builds() == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupted_build_leaves_nothing(slow, number):
    build = slow.start("x")
    tool = slow.tool_pid()
    assert len(slow.builds()) == 1
    build.send_signal(number)
    assert build.wait(30) == 130
    assert "interrupted" in build.stderr.read()
    assert slow.builds() == []
    assert not process_exists(tool)
    assert not (slow.home / "build-x.log").exists()


def test_a_killed_build_takes_its_tools_along_and_the_next_one_sweeps(slow):
    build = slow.start("x")
    tool = slow.tool_pid()
    build.kill()
    build.wait(10)
    wait_for(lambda: not process_exists(tool), what="mmdebstrap ends with its build")
    left = slow.builds()
    assert len(left) == 1 and left[0].startswith(".build-x-")

    second = slow.start("x")
    slow.tool_pid()
    assert len(slow.builds()) == 1 and slow.builds() != left
    second.send_signal(signal.SIGINT)
    assert second.wait(30) == 130
    assert slow.builds() == []


def test_two_builds_of_one_name_and_of_two(slow):
    first = slow.start("x")
    slow.tool_pid()
    again = slow.run("build", "x")
    assert again.returncode == 1 and "is being built by another process" in again.stderr
    other = slow.start("x-y")
    slow.tool_pid()
    assert [first.poll(), other.poll()] == [None, None]
    assert len(slow.builds()) == 2
    for build in (first, other):
        build.send_signal(signal.SIGINT)
        assert build.wait(30) == 130
    assert slow.builds() == []


def test_a_terminal_gets_a_bar_and_a_pipe_plain_lines(failing):
    plain = failing.run("build").stderr
    assert f"1/{STAGES} Debian packages: failed after" in plain
    assert "\r" not in plain and "\033" not in plain
    ours, theirs = pty.openpty()
    with subprocess.Popen([BIN / "cubby", "template", "build"], env=failing.env, stderr=theirs,
                          stdout=subprocess.DEVNULL):
        os.close(theirs)
        shown = b""
        try:
            while chunk := os.read(ours, 65536):
                shown += chunk
        except OSError:  # the other side has gone
            pass
    os.close(ours)
    assert b"\r\033[K[" in shown and f"1/{STAGES} Debian packages".encode() in shown


def write_template(home, name):
    folder = home / "templates" / name
    folder.mkdir(parents=True)
    facts = {"format": 1, "name": name, "created_at": "2026-01-02T03:04:05Z", "kernel": "6.1.0",
             "qemu": "7.2.22", "machine": "microvm", "cpu_model": "qemu64", "accel": "tcg",
             "envd_version": "0.5.7", "memory_mb": 512, "cpus": 1, "disk_mb": 8192}
    (folder / "template.json").write_text(json.dumps(facts))
    (folder / "memory").write_bytes(b"\1" * 8192)


def test_ls(slow):
    empty = slow.run("ls")
    assert empty.returncode == 0 and "template build" in empty.stderr
    assert json.loads(slow.run("ls", "--json").stdout) == []
    write_template(slow.home, "one")
    write_template(slow.home, "two")
    listed = json.loads(slow.run("ls", "--json").stdout)
    assert [t["name"] for t in listed] == ["one", "two"]
    assert listed[0]["accel"] == "tcg" and listed[0]["memory_mb"] == 512
    assert listed[0]["bytes"] >= 8192
    text = slow.run("ls").stdout.splitlines()
    assert len(text) == 3 and text[0].startswith("NAME") and text[1].startswith("one ")
    (slow.home / "templates/two/template.json").write_text("{}")
    broken = slow.run("ls", "--json")
    assert broken.returncode == 1 and "template build two" in broken.stderr
    assert [t["name"] for t in json.loads(broken.stdout)] == ["one"]


def test_rm(slow):
    for name in ("used", "free", "other"):
        write_template(slow.home, name)
    sandbox = slow.home / "sandboxes" / "s1"
    sandbox.mkdir(parents=True)
    (sandbox / "sandbox.json").write_text('{"template": "used"}')
    result = slow.run("rm", "free", "nobody", "used", "other")
    assert result.returncode == 1
    assert 'no template "nobody"' in result.stderr and "s1" in result.stderr
    assert slow.builds() == ["used"]
    assert slow.run("rm", "--force", "used").returncode == 0
    assert slow.builds() == []


def test_the_shared_template_is_whole():
    folder = TEST_HOME / "templates/default"
    facts = json.loads((folder / "template.json").read_text())
    assert facts["name"] == "default" and facts["accel"] in ("kvm", "tcg")
    assert (folder / "memory").stat().st_size == facts["memory_mb"] << 20
    disk = (folder / "disk.ext4").stat()
    assert disk.st_size == facts["disk_mb"] << 20
    assert disk.st_blocks * 512 < 1 << 30, "the image is sparse"
    for name in ("vmstate", "overlay.qcow2", "vmlinuz", "initramfs.cpio"):
        assert (folder / name).stat().st_size > 0, name
    packages = (folder / "packages.txt").read_text()
    assert "\npython3-pytest " in packages and "\nbuild-essential " not in packages
    assert sorted(p.name for p in folder.iterdir() if p.is_dir() or p.is_socket()) == ["gvisor"] * ("gvisor" in facts)


@pytest.mark.skipif(not (BIN / "runsc").exists(), reason="runsc is not built: make runsc")
def test_the_shared_template_has_a_part_for_gvisor():
    folder = TEST_HOME / "templates/default"
    rootfs = json.loads((folder / "template.json").read_text())["gvisor"]["rootfs"]
    image = json.loads((folder / "gvisor/image.json").read_text())
    assert image["rootfs"] == rootfs and len(rootfs) == 64
    assert sorted(os.listdir(folder / "gvisor")) == ["checkpoint.img", "config.json", "image.json", "memory.erofs", "pages.img", "pages_meta.img",
                                                     "rootfs.erofs", "tools.erofs"]


PROMISES = r"""
set -eux
[ "$(id -un):$(id -u):$HOME:$PWD" = user:1000:/home/user:/home/user ]
[ "$(sudo -n id -u)" = 0 ]
for p in pytest python git curl wget jq pip; do $p --version > /dev/null; done; unzip -v > /dev/null
pip config list | grep -q "^global.break-system-packages='true'"
python3 -c 'import venv, ssl, sqlite3'
! command -v gcc
[ "$(locale charmap)" = UTF-8 ]; [ "$LC_CTYPE" = C.UTF-8 ]; [ "$(printf '\303\274\342\202\254' | wc -m)" = 2 ]
echo x > /dev/shm/x; rm /dev/shm/x; mount | grep -q 'cgroup2 on /sys/fs/cgroup'
[ "$(cat /proc/sys/net/ipv6/conf/all/disable_ipv6)" = 1 ]
grep -q '^nameserver 10.0.2.3$' /etc/resolv.conf
[ -z "$(ls -A /var/lib/apt/lists/partial /var/cache/apt/archives/partial)" ]
! grep -r -i proxy /etc/apt/apt.conf.d
[ "$(cat /proc/1/comm)" = init ]
case "$(cat /sys/devices/system/clocksource/clocksource0/current_clocksource)" in
    tsc|kvm-clock) ;; *) exit 9 ;;
esac
"""


def test_what_the_guest_has(home):
    ident = home.cubby("create").stdout.decode().strip()
    try:
        home.cubby("exec", ident, "--", "bash", "-l", "-c", PROMISES, timeout=150)
        # An idle guest rests: with periodic ticks it would be woken 250 times a second and more.
        count = "awk '/LOC:/ {n = 0; for (i = 2; $i ~ /^[0-9]+$/; i++) n += $i; print n}' /proc/interrupts"
        ticks = home.cubby("exec", ident, "--", "bash", "-c",
                           f"a=$({count}); sleep 4; b=$({count}); echo $((b - a))").stdout
        assert int(ticks) < 600
    except subprocess.CalledProcessError as e:
        pytest.fail(f"{e}\n{e.stdout.decode()}\n{e.stderr.decode()}")
    finally:
        home.cubby("kill", ident)
