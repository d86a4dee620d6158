# SPDX-License-Identifier: Apache-2.0
"""cubby ssh-config with the real OpenSSH client, scp, sftp and rsync, and the sandbox's sshd."""

import concurrent.futures
import fcntl
import hashlib
import os
import pty
import select
import signal
import socket
import struct
import subprocess
import termios
import threading

import pytest

from harness import Home, wait_for
from tiers import tier  # noqa: F401

SECONDS = 120
TRICKY = 'a "b" \\c $HOME #d \'e\' %f ü'


class World:
    """A sandbox, and ssh with the configuration for it. ssh itself has no other."""

    def __init__(self, tier, tmp):
        self.home = Home(tier)
        self.tmp = tmp
        self.id = self.cubby("create", "--timeout", "1200", "--env", f"TRICKY={TRICKY}", "--env", "LINES=a\nb").strip()
        self.host = f"{self.id}.cubby"
        self.config = tmp / "config"
        self.config.write_text(self.cubby("ssh-config"))
        self.env = {k: v for k, v in self.home.env.items() if k not in ("CUBBY_HOME", "SSH_AUTH_SOCK")}

    def cubby(self, *words):
        return self.home.cubby(*words, timeout=SECONDS).stdout.decode()

    def run(self, program, *words, status=0, **more):
        done = subprocess.run([program, "-F", self.config, *words], env=self.env, capture_output=True, timeout=SECONDS,
                              **more)
        assert status is None or done.returncode == status, (words, done.returncode, done.stdout, done.stderr)
        return done

    def ssh(self, *words, host=None, options=(), **more):
        return self.run("ssh", *options, host or self.host, *words, **more)

    def start(self, *words, **more):
        return subprocess.Popen(["ssh", "-F", self.config, *words], env=self.env, **more)

    def in_sandbox(self, script):
        return self.cubby("exec", "--user", "root", self.id, "--", "sh", "-c", script)

    def is_clean(self):
        return not self.in_sandbox("ls -A /tmp | grep cubby-ssh; pgrep -x sshd; true").strip()


@pytest.fixture(scope="module")
def world(tier, tmp_path_factory):  # noqa: F811
    made = World(tier, tmp_path_factory.mktemp("ssh"))
    yield made
    made.cubby("kill", "--all")
    made.home.close()


@pytest.fixture(autouse=True)
def leaves_nothing(world):
    """Each connection's server and keys are gone when its client is."""
    yield
    wait_for(world.is_clean, SECONDS, "no sshd and no keys in the sandbox")
    assert not [p for p in (world.home.path / "ssh").iterdir() if p.name.startswith(".")]


def test_commands(world):
    done = world.ssh("id -un; pwd; umask; echo to stderr >&2; exit 7", status=7)
    assert done.stdout == b"user\n/home/user\n0022\n" and done.stderr == b"to stderr\n"
    assert world.ssh("id -u", host=f"root@{world.host}").stdout == b"0\n"
    assert world.ssh("id -un", host=f"{world.id[:8]}.cubby").stdout == b"user\n"
    data = os.urandom(3 << 20)
    assert world.ssh("cat", input=data).stdout == data
    assert world.ssh("kill -TERM $$", status=255).stdout == b""
    assert world.ssh("cat; echo end", stdin=subprocess.DEVNULL).stdout == b"end\n"


def test_keys_of_a_killed_session_go_with_the_next_one(world):
    """As after each test, none may be left."""
    world.cubby("exec", world.id, "--", "sh", "-c", "mkdir /tmp/.cubby-ssh-4194304-abcdef; touch /tmp/.cubby-ssh-4194304-abcdef/host")
    assert not world.is_clean()
    assert world.ssh("echo hi").stdout == b"hi\n"


def test_one_sandbox_by_a_name(world):
    config = world.tmp / "named"
    config.write_text(world.cubby("ssh-config", "--name", "box", world.id[:8]))
    assert "Host box\n    User user\n" in config.read_text()
    done = subprocess.run(["ssh", "-F", config, "box", "id -un"], env=world.env, capture_output=True, timeout=SECONDS)
    assert (done.returncode, done.stdout) == (0, b"user\n"), done.stderr


def test_the_environment(world):
    told = dict(v.split("=", 1) for v in world.ssh("cat /proc/self/environ").stdout.decode().split("\0") if "=" in v)
    assert told["TRICKY"] == TRICKY and told["E2B_SANDBOX"] == "true" and "LINES" not in told
    assert told["PATH"] == world.cubby("exec", world.id, "--", "sh", "-c", "echo $PATH").strip()
    assert (told["HOME"], told["USER"], told["SHELL"]) == ("/home/user", "user", "/bin/bash")
    assert not [name for name in told if name.startswith("CUBBY") or name == "SSH_AUTH_SOCK"], told
    seen = world.ssh("cat /proc/[0-9]*/cmdline; true", host=f"root@{world.host}").stdout  # any user can read these
    assert b"sshd" in seen and b"PRIVATE KEY-" not in seen and TRICKY.encode() not in seen


# ---- files
def test_scp_and_sftp(world, tmp_path):
    top = tmp_path / "top"
    (top / "sub").mkdir(parents=True)
    data = os.urandom(30 << 20)
    (top / "large").write_bytes(data)
    (top / "sub/run").write_text("#!/bin/sh\necho ran\n")
    (top / "sub/run").chmod(0o755)
    world.run("scp", "-q", "-r", "-p", top, f"{world.host}:in")
    assert world.ssh("sha256sum < in/large").stdout.split()[0] == hashlib.sha256(data).hexdigest().encode()
    assert world.ssh("in/sub/run").stdout == b"ran\n"
    world.run("scp", "-q", "-r", f"{world.host}:in", tmp_path / "back")
    assert (tmp_path / "back/large").read_bytes() == data
    batch = f"put {top}/large other\nrename other third\nls -1\nget third {tmp_path}/third\nbye\n"
    listed = world.run("sftp", "-q", "-b", "-", world.host, input=batch.encode()).stdout
    assert b"third" in listed and (tmp_path / "third").read_bytes() == data


def test_rsync(world, tmp_path):
    top = tmp_path / "top"
    (top / "sub").mkdir(parents=True)
    for i in range(200):
        (top / f"sub/{i}").write_text(str(i) * i)
    (top / "large").write_bytes(os.urandom(10 << 20))
    (top / "link").symlink_to("sub/1")
    remote = ["-a", "--delete", "-e", f"ssh -F {world.config}"]

    def rsync(*words):
        done = subprocess.run(["rsync", *remote, *words], env=world.env, capture_output=True, timeout=SECONDS)
        assert done.returncode == 0, done.stderr
        return done.stdout

    rsync(f"{top}/", f"{world.host}:synced/")
    world.ssh("cd synced; rm sub/7; echo new > sub/new; test -L link")
    assert b"sub/new" in rsync("-i", f"{world.host}:synced/", f"{top}/")
    assert (top / "sub/new").read_text() == "new\n" and not (top / "sub/7").exists()
    rsync(f"{world.host}:synced/", f"{tmp_path}/again/")
    assert not subprocess.run(["diff", "-r", top, tmp_path / "again"]).returncode


# ---- terminals and signals
class Terminal:
    """A person's terminal with ssh in it."""

    def __init__(self, world, *words):
        self.screen = b""
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execvpe("ssh", ["ssh", "-F", str(world.config), "-tt", world.host, *words], {**world.env, "TERM": "xterm"})

    def resize(self, columns, rows):
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def read(self):
        try:
            data = os.read(self.fd, 65536)
        except OSError:
            return False
        self.screen += data
        return bool(data)

    def wait_for(self, text):
        def is_there():
            while text not in self.screen and select.select([self.fd], [], [], 0)[0] and self.read():
                pass
            return text in self.screen

        wait_for(is_there, SECONDS, f"{text!r} on the screen {self.screen[-500:]!r}")

    def end(self):
        while self.read():
            pass
        os.close(self.fd)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def test_a_terminal(world):
    shown = Terminal(world)
    shown.wait_for(b"$ ")
    shown.resize(91, 33)
    os.write(shown.fd, b"until [ \"$(stty size)\" = '33 91' ]; do :; done; echo si''zed $TERM\n")
    shown.wait_for(b"sized xterm")
    os.write(shown.fd, b"sh -c \"echo wa''its; exec sleep 987\"\n")
    shown.wait_for(b"waits")  # printed by the job itself, so the terminal is its
    shown.screen = b""
    os.write(shown.fd, b"\x03")
    shown.wait_for(b"$ ")  # only some kernels show ^C
    os.write(shown.fd, b"echo co''de $?\n")
    shown.wait_for(b"code 130")
    os.write(shown.fd, b"exit 5\n")
    assert shown.end() == 5


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_client_that_ends(world, number):
    ssh = world.start(world.host, "echo up; exec sleep 986", stdout=subprocess.PIPE)
    assert ssh.stdout.readline() == b"up\n"
    ssh.send_signal(number)
    ssh.wait(SECONDS)
    ssh.stdout.close()
    wait_for(world.is_clean, SECONDS, "no sshd and no keys in the sandbox")
    world.in_sandbox("pkill -x sleep; true")


def test_what_runs_on(world):
    world.ssh("nohup sleep 985 >/dev/null 2>&1 & echo $! > pid")
    wait_for(lambda: world.in_sandbox("ps -o args= -p $(cat /home/user/pid); true").strip() == "sleep 985", SECONDS,
             "a process that outlives the session")
    world.in_sandbox("kill $(cat /home/user/pid)")


# ---- forwarding
def speak(path):
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(str(path))
        s.sendall(b"ping")
        s.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: s.recv(4096), b""))


def test_forwarding_to_the_sandbox(world, tmp_path):
    server = ("import socket; s = socket.create_server(('127.0.0.1', 0)); print(s.getsockname()[1], flush=True)\n"
              "c = s.accept()[0]; c.sendall(c.recv(9) + b' pong'); c.close()")
    listener = world.start(world.host, f"python3 -uc \"{server}\"", stdout=subprocess.PIPE)
    port = int(listener.stdout.readline())
    here = tmp_path / "s"
    ssh = world.start("-L", f"{here}:127.0.0.1:{port}", "-o", "ExitOnForwardFailure=yes", world.host, "echo up; cat",
                      stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert ssh.stdout.readline() == b"up\n"
    assert speak(here) == b"ping pong"
    ssh.communicate(timeout=SECONDS)
    assert listener.wait(SECONDS) == 0
    listener.stdout.close()


def test_forwarding_from_the_sandbox(world, tmp_path):
    here = socket.socket(socket.AF_UNIX)
    here.bind(str(tmp_path / "s"))
    here.listen()

    def answer():
        peer = here.accept()[0]
        peer.sendall(peer.recv(9) + b" pong")
        peer.close()

    thread = threading.Thread(target=answer, daemon=True)
    thread.start()
    client = ("import socket; s = socket.socket(socket.AF_UNIX); s.connect('/tmp/r.sock'); s.sendall(b'ping'); "
              "print(s.recv(99).decode())")
    done = world.ssh(f"python3 -c \"{client}\"; rm /tmp/r.sock", options=["-R", f"/tmp/r.sock:{tmp_path}/s"])
    assert done.stdout == b"ping pong\n"
    thread.join(SECONDS)
    here.close()


def test_no_agent(world, tmp_path):
    agent = subprocess.Popen(["ssh-agent", "-D", "-a", tmp_path / "agent"], stdout=subprocess.DEVNULL)
    wait_for((tmp_path / "agent").exists, SECONDS, "the agent's socket")
    world.env["SSH_AUTH_SOCK"] = str(tmp_path / "agent")
    try:
        assert world.ssh("echo \"<$SSH_AUTH_SOCK>\"", options=["-A"]).stdout == b"<>\n"
    finally:
        del world.env["SSH_AUTH_SOCK"]
        agent.terminate()
        agent.wait(SECONDS)


# ---- many, and strangers
def test_twenty_at_once(world):
    def one(i):
        data = os.urandom(200000 + i)
        return world.ssh("cat", input=data).stdout == data

    with concurrent.futures.ThreadPoolExecutor(20) as pool:
        assert all(pool.map(one, range(20)))


def test_keys_of_another_home(world, tmp_path):
    other = subprocess.run([os.environ["BIN"] + "/cubby", "ssh-config"], capture_output=True, text=True, check=True,
                           env={**world.home.env, "CUBBY_HOME": str(tmp_path / "home")}, timeout=SECONDS)
    assert other.stdout.startswith("#")
    keys = tmp_path / "home/ssh"
    unknown = world.ssh("true", options=["-o", f"UserKnownHostsFile={keys}/known_hosts"], status=255,
                        stdin=subprocess.DEVNULL)
    assert b"Host key verification failed" in unknown.stderr
    lone = [f"-oIdentityFile={keys}/id", "-F", "/dev/null", f"-oProxyCommand={proxy_of(world)}", "-oIdentitiesOnly=yes",
            f"-oUserKnownHostsFile={world.home.path}/ssh/known_hosts", "-oBatchMode=yes", "-oIdentityAgent=none"]
    denied = subprocess.run(["ssh", *lone, f"user@{world.host}", "true"], env=world.env, capture_output=True,
                            timeout=SECONDS)
    assert denied.returncode == 255 and b"Permission denied (publickey)" in denied.stderr, denied.stderr


def proxy_of(world):
    return next(line.strip().removeprefix("ProxyCommand ") for line in world.config.read_text().splitlines()
                if "ProxyCommand" in line)


def test_keys_of_the_user_are_not_shown(world, tmp_path):
    """A configuration often names a key for all hosts, which ssh adds to the one of the entry."""
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / "mine"], check=True)
    said = world.ssh("true", options=["-v", "-o", f"IdentityFile={tmp_path}/mine"]).stderr.decode()
    offered = [line for line in said.splitlines() if "Offering public key" in line]
    assert offered and not [line for line in offered if "mine" in line], offered
    assert f"Skipping ssh-ed25519 key {tmp_path}/mine" in said, said
    dates = [line for line in said.splitlines() if "Server host certificate" in line]
    assert "forever" not in " ".join(dates) and "from" in " ".join(dates), dates


def test_who_cannot_log_in(world):
    said = world.ssh("true", host=f"nobody-here@{world.host}", status=255).stderr.decode()
    assert "nobody-here" in said, said
    said = world.ssh("true", host="zz.cubby", status=255).stderr.decode()
    assert "no sandbox" in said, said


def test_a_sandbox_without_a_server(world):
    world.in_sandbox("mv /usr/sbin/sshd /usr/sbin/gone")
    try:
        said = world.ssh("true", status=255).stderr.decode()
        assert "has no ssh server: install the package openssh-server" in said, said
    finally:
        world.in_sandbox("mv /usr/sbin/gone /usr/sbin/sshd")


def test_a_paused_sandbox(world):
    world.cubby("pause", world.id)
    try:
        said = world.ssh("true", status=255).stderr.decode()
        assert "paused" in said and "resume" in said, said
    finally:
        world.cubby("resume", world.id)
    assert world.ssh("echo back").stdout == b"back\n"
