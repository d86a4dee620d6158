# SPDX-License-Identifier: Apache-2.0
"""cubby, the program: its verbs against a daemon that the test scripts and a real envd."""

import fcntl
import json
import os
import pathlib
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile

import pytest

from cubbyd import Daemon
from fake_cubbyd import ID, OTHER, listed, wait_for
from fake_fixtures import *  # noqa: F401,F403

CUBBY = pathlib.Path(os.environ["BIN"]) / "cubby"
ME = pwd.getpwuid(os.getuid()).pw_name


def cubby(fake, *words, **options):
    options.setdefault("stdin", subprocess.DEVNULL)
    if "input" in options:
        del options["stdin"]
    return subprocess.run([CUBBY, *words], env=fake.env, capture_output=True, timeout=60, **options)


def run(fake, *words, **options):
    return cubby(fake, "exec", "--user", ME, ID, "--", *words, **options)


def start(fake, *words, **options):
    return subprocess.Popen([CUBBY, "exec", "--user", ME, ID, "--", *words], env=fake.env,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)


# ---- help and mistakes
@pytest.mark.parametrize("verb", ["create", "exec", "ps", "kill", "doctor", "daemon", "template"])
def test_help(fake, verb):
    answer = cubby(fake, verb, "--help")
    assert answer.returncode == 0 and answer.stdout.startswith(b"Usage: cubby")
    assert answer.stderr == b""
    assert cubby(fake, "help", verb).stdout == answer.stdout
    assert verb in cubby(fake, "--help").stdout.decode()


@pytest.mark.parametrize("words", [["nonsense"], ["ps", "--bad"], ["ps", "x"], ["kill"],
                                   ["kill", "--all", "x"], ["create", "--timeout", "0"],
                                   ["create", "--env", "FOO"], ["create", "--metadata", "x"], ["help", "nosuch"],
                                   ["create", "--allow", "exa mple"]])
def test_mistakes(fake, words):
    answer = cubby(fake, *words)
    assert answer.returncode == 2 and answer.stdout == b"" and answer.stderr
    assert fake.seen == []


@pytest.mark.parametrize("words, said", [
    (["craete"], 'did you mean "cubby create"?'), (["create", "--templat", "x"], "did you mean --template?"),
    (["help", "snapshots"], 'did you mean "cubby snapshot"?'), (["logs"], "logs takes"),
    (["logs", "--level", "loud", ID], "--level must be debug"), (["pause"], "pause takes"), (["resume"], "resume takes"), (["expose", "--token", ID], "PORT"),
    (["template", "build", "--memory", "10"], "must be from 128M to 64G, not 10 bytes; give a unit, as in 512M or 4G"),
    (["create", "--memory", "1024"], "--memory must be at least 1M, not 1024 bytes; give a unit, as in 512M or 4G"),
    (["template", "build", "--memory", "100000000000"], "must be from 128M to 64G, not 100000000000 bytes\n"),
    (["create", "--secret", b"\xff"], "the value of --secret must be UTF-8"), (["create", "--allow", b"\xff"], "the value of --allow must be UTF-8")])
def test_mistakes_that_are_named(fake, words, said):
    answer = cubby(fake, *words)
    assert answer.returncode in (1, 2) and said.encode() in answer.stderr and fake.seen == []


@pytest.mark.parametrize("words", [["ps"], ["ps", "--json"], ["--help"], ["ps", "--help"]])
def test_output_that_is_lost(fake, words):
    with open("/dev/full", "w", encoding="ascii") as full:
        answer = subprocess.run([CUBBY, *words], env=fake.env, stdout=full, stderr=subprocess.PIPE, timeout=60)
    assert answer.returncode == 1 and answer.stderr == b"cubby: standard output: No space left on device\n"
    out, into = os.pipe()
    os.close(out)
    answer = subprocess.run([CUBBY, *words], env=fake.env, stdout=into, stderr=subprocess.PIPE, timeout=60)
    os.close(into)
    assert answer.returncode == 141 and answer.stderr == b"", "nobody reads"


def test_version(fake):
    assert cubby(fake, "--version").stdout.startswith(b"cubby ")


@pytest.mark.parametrize("words", [["create", "--network", "/no/such/file"], ["network", "--network", "/no/such/file", ID],
                                   ["network", "--allow", "exa mple", ID]])
def test_a_policy_that_is_none_is_a_mistake_of_the_command_line(fake, words):
    answer = cubby(fake, *words)
    assert answer.returncode == 2 and fake.seen == []


@pytest.mark.parametrize("verb", [["create"], ["resume", ID], ["fork", ID]])
def test_no_maximum_is_named_that_only_the_server_knows(fake, verb):
    answer = cubby(fake, *verb, "--timeout", "0")
    assert (answer.returncode, answer.stderr) == (2, b"cubby: --timeout must be at least 1, not 0\n")


@pytest.mark.parametrize("size", [["--cpus", "2"], ["--memory", "1G"], ["--disk", "20G"]])
def test_a_size_for_a_backend_that_has_none(size):
    """Nothing is asked of the backend, which would ignore it."""
    done = subprocess.run([CUBBY, "create", "--backend", "http://127.0.0.1:1", "--dialect", "e2b", "--api-key", "k", *size],
                          capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and "each sandbox gets the" in done.stderr and "of its template" in done.stderr


def test_a_daemon_that_is_killed_during_a_create():
    """What happened, and what to do next."""
    with Daemon() as daemon:
        daemon.template("default", create="held")
        asked = subprocess.Popen([CUBBY, "create"], env=daemon.env, stderr=subprocess.PIPE, text=True)
        wait_for(daemon.directories, what="it is being created")
        daemon.stop(signal.SIGKILL)
        said = asked.communicate(timeout=60)[1]
        daemon.template("default")
        daemon.start()
    assert asked.returncode == 1 and said == (
        "cubby: it is not known whether the sandbox was created; list the sandboxes before you create it again: cubbyd: the "
        "daemon ended before it answered; its last lines are in cubbyd.log in the state directory. The next request "
        "starts a daemon again\n")


# ---- exec
@pytest.mark.parametrize("script, status", [("exit 0", 0), ("exit 3", 3), ("exit 255", 255),
                                            ("kill -9 $$", 137), ("kill -15 $$", 143),
                                            ("kill -11 $$", 139)])
def test_exit_status(fake, script, status):
    assert run(fake, "sh", "-c", script).returncode == status


def test_streams_are_exact(fake):
    answer = run(fake, "sh", "-c", "head -c 100000 /dev/urandom | tee /dev/stderr")
    assert answer.returncode == 0
    assert len(answer.stdout) == 100000 and answer.stdout == answer.stderr


def test_much_output(fake):
    answer = run(fake, "sh", "-c", "yes 0123456789 | head -c 10000000")
    assert answer.stdout == (b"0123456789\n" * 909091)[:10000000]


def test_a_slow_reader_loses_nothing(fake):
    process = start(fake, "sh", "-c", "seq 200000", stdin=subprocess.DEVNULL)
    first = process.stdout.read(10)
    wait_for(lambda: pathlib.Path(f"/proc/{process.pid}/wchan").exists(), 30)
    rest = process.stdout.read()
    assert first + rest == "".join(f"{i}\n" for i in range(1, 200001)).encode()
    assert process.wait(60) == 0


def test_environment_and_directory(fake):
    answer = cubby(fake, "exec", "--user", ME, "--cwd", "/usr", "--env", "A=b=c", "--env", "E=",
                   ID, "--", "sh", "-c", 'echo "$A|$E|$PWD"')
    assert answer.stdout == b"b=c||/usr\n"
    answer = cubby(fake, "exec", "--user", ME, "--cwd", "/nonexistent", ID, "--", "true")
    assert answer.returncode == 125 and b"/nonexistent" in answer.stderr


def test_what_cannot_be_executed(fake, tmp_path):
    """As under a shell, env(1) and docker exec: cubby itself reports a command that cannot be executed."""
    for words in (["no-such-program"], [str(tmp_path / "none")]):
        answer = run(fake, *words)
        assert answer.returncode == 127 and words[0].encode() in answer.stderr, answer
    (tmp_path / "text").write_text("no program")
    answer = run(fake, str(tmp_path / "text"))
    assert answer.returncode == 126 and str(tmp_path / "text").encode() in answer.stderr
    assert run(fake, str(tmp_path)).returncode == 126
    assert cubby(fake, "exec", "--user", ME, ID, "no-such-program").returncode == 127


@pytest.mark.parametrize("words", [[], [ID], [ID, "--"], ["--env", "FOO", ID, "--", "true"], ["--bad", ID, "--", "true"],
                                   ["--timeout", "x", ID, "--", "true"], ["--dialect", "x", ID, "--", "true"]])
def test_execs_own_mistakes(fake, words):
    """Not 2, which is a possible status of a command: grep's, for one."""
    answer = cubby(fake, "exec", *words)
    assert answer.returncode == 125 and answer.stderr.startswith(b"cubby: ") and answer.stdout == b""
    assert fake.seen == []
    assert run(fake, "sh", "-c", "exit 2").returncode == 2


def test_stdin_pipe_and_file_and_socket(fake, tmp_path):
    data = os.urandom(300000)
    assert run(fake, "cat", input=data).stdout == data
    path = tmp_path / "in"
    path.write_bytes(data)
    with open(path, "rb") as file:
        assert run(fake, "cat", stdin=file).stdout == data
    ours, theirs = socket.socketpair()
    with ours, theirs:
        process = start(fake, "cat", stdin=theirs)
        ours.sendall(b"over a socket")
        ours.shutdown(socket.SHUT_WR)
        assert process.communicate(timeout=30)[0] == b"over a socket"
        assert os.get_blocking(theirs.fileno())
    assert run(fake, "cat").stdout == b""
    assert run(fake, "true", input=data).returncode == 0


def test_a_pipe_holds_a_whole_piece(fake):
    """Each piece costs a request: the next one gathers in the pipe meanwhile."""
    ours, theirs = os.pipe()
    process = start(fake, "cat", stdin=ours)
    wait_for(lambda: fcntl.fcntl(theirs, fcntl.F_GETPIPE_SZ) >= 262144)
    os.close(ours)
    os.write(theirs, b"x" * 262144)
    os.close(theirs)
    assert process.communicate(timeout=60)[0] == b"x" * 262144
    pieces = [body for where, _, path, _, body in fake.seen if path.endswith("/SendInput")]
    assert len(pieces) <= 2


def test_stdin_that_stays_open(fake):
    ours, theirs = os.pipe()
    answer = run(fake, "echo", "done", stdin=ours)
    assert answer.stdout == b"done\n" and answer.returncode == 0
    os.close(ours)
    os.close(theirs)


def test_stdin_that_is_no_pipe_and_says_nothing(fake):
    ours = os.eventfd(0)
    answer = run(fake, "echo", "done", stdin=ours)
    assert answer.stdout == b"done\n" and answer.returncode == 0 and os.get_blocking(ours)
    os.close(ours)


def test_no_stdin(fake):
    answer = cubby(fake, "exec", "--no-stdin", "--user", ME, ID, "--", "cat", input=b"x")
    assert answer.stdout == b"" and answer.returncode == 0


def test_timeout(fake):
    answer = cubby(fake, "exec", "--user", ME, "--timeout", "1", ID, "--", "sleep", "60")
    assert answer.returncode == 124 and b"1 s" in answer.stderr
    wait_for(lambda: not fake.processes(), 30, "the command is gone")


@pytest.mark.parametrize("number, status", [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_interrupt_kills_the_command(fake, number, status):
    process = start(fake, "sh", "-c", "trap '' INT TERM; echo up; sleep 60")
    assert process.stdout.readline() == b"up\n"
    process.send_signal(number)
    assert process.wait(60) == status
    wait_for(lambda: not fake.processes(), 30, "the command is gone")


def test_reader_that_leaves(fake):
    process = start(fake, "yes", stdin=subprocess.DEVNULL)
    process.stdout.read(10)
    process.stdout.close()
    assert process.wait(60) == 141
    process.stderr.close()
    wait_for(lambda: not fake.processes(), 30, "the command is gone")


def test_exec_by_prefix(fake):
    assert cubby(fake, "exec", "--user", ME, "abc", "--", "true").returncode == 0
    fake.sandboxes[OTHER] = listed(OTHER)
    answer = cubby(fake, "exec", "abcdef", "--", "true")
    assert answer.returncode == 125 and b"both begin" in answer.stderr
    answer = cubby(fake, "exec", "xyz", "--", "true")
    assert answer.returncode == 125 and b"cubby ps" in answer.stderr


def test_exec_errors(fake):
    answer = cubby(fake, "exec", "z" * 20, "--", "true")
    assert answer.returncode == 125 and b"does not exist" in answer.stderr
    fake.ended["y" * 20] = "it expired at noon"
    answer = cubby(fake, "exec", "y" * 20, "--", "true")
    assert answer.returncode == 125 and b"it expired at noon" in answer.stderr
    answer = cubby(fake, "exec", "NOT-AN-ID-BUT-LONG-ENOUGH", "--", "true")
    assert answer.returncode == 125 and b"not a sandbox id" in answer.stderr
    answer = cubby(fake, "exec", "--user", "nobody-there", ID, "--", "true")
    assert answer.returncode == 125 and b"nobody-there" in answer.stderr


def test_sandbox_dies_under_the_command(fake):
    process = start(fake, "sh", "-c", "echo up; sleep 60")
    assert process.stdout.readline() == b"up\n"
    fake.ended[ID] = "QEMU was killed"
    fake.refusal = {"sandboxId": ID, "message": "The sandbox has ended: QEMU was killed",
                    "reason": "died", "code": 502}
    fake.kill_envd()
    _, said = process.communicate(timeout=60)
    assert process.returncode == 125 and b"QEMU was killed" in said


def test_connection_breaks_but_the_sandbox_lives(fake):
    process = start(fake, "sh", "-c", "echo up; sleep 60")
    assert process.stdout.readline() == b"up\n"
    fake.kill_envd()
    _, said = process.communicate(timeout=60)
    assert process.returncode == 125 and b"is not known" in said
    assert sum(1 for s in fake.seen if s[2] == "/process.Process/Start") == 1


# ---- ps, create, kill
def test_ps(fake):
    fake.sandboxes[OTHER] = listed(OTHER, metadata={"who": "\x1b[31mred\x07", "ü": "ß", "b": "\u202egpj\u009b2J"})
    answer = cubby(fake, "ps")
    text = answer.stdout.decode()
    assert answer.returncode == 0
    head, *rows = text.splitlines()
    assert head.split() == ["ID", "TEMPLATE", "STATE", "TIER", "ISOLATION", "AGE", "EXPIRES", "IN", "METADATA"]
    assert len(rows) == 2 and rows[0].split()[2:5] == ["running", "microvm", "microvm"]
    assert not any(c in text for c in "\x1b\x07\x9b\u202e")
    assert "who=\\x1b[31mred\\x07 ü=ß b=\\xe2\\x80\\xaegpj\\xc2\\x9b2J" in rows[1]
    text = cubby(fake, "ps", "--json").stdout.decode()
    assert not any(c in text for c in "\x1b\x07\x9b\u202e")
    assert [s["sandboxID"] for s in json.loads(text)] == [ID, OTHER]
    assert json.loads(text)[1]["metadata"]["b"] == "\u202egpj\u009b2J"


def test_create(fake):
    answer = cubby(fake, "create", "--timeout", "60", "--env", "A=b", "--metadata", "k=v",
                   "--no-internet", "--template", "t", "--tier", "gvisor")
    assert answer.stdout.decode() == ID + "\n"
    sent = json.loads(fake.seen[0][4])
    assert sent["templateID"] == "t" and sent["timeout"] == 60 and sent["envVars"] == {"A": "b"}
    assert sent["tier"] == "gvisor" and sent["metadata"] == {"k": "v"} and sent["allow_internet_access"] is False


def test_kill(fake):
    fake.sandboxes[OTHER] = listed(OTHER)
    answer = cubby(fake, "kill", "abcdefg", "q" * 20)
    assert answer.returncode == 1 and answer.stdout.decode() == ID + "\n"
    assert b"does not exist" in answer.stderr
    answer = cubby(fake, "kill", "--all")
    assert answer.returncode == 0 and answer.stdout.decode() == OTHER + "\n"
    assert fake.sandboxes == {}
    assert cubby(fake, "kill", "--all").returncode == 0


def test_a_call_makes_one_connection(fake):
    """The CLI finds out whether the daemon listens by its request, not by an extra connection."""
    assert cubby(fake, "ps").returncode == 0
    assert fake.connections == 1
    assert cubby(fake, "exec", "--no-stdin", "--user", ME, ID, "--", "true").returncode == 0
    assert fake.connections == 2, "the look-up and the command share one"


# ---- without a daemon
def test_nothing_is_started_to_list_nothing(tmp_path):
    env = dict(os.environ, CUBBY_HOME=str(tmp_path))
    answer = subprocess.run([CUBBY, "ps", "--json"], env=env, capture_output=True, timeout=60)
    assert answer.returncode == 0 and json.loads(answer.stdout) == []
    assert not (tmp_path / "cubbyd.sock").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs another user")
def test_the_daemon_of_another_user():
    """cubby ps says that permission is denied; the control: a user who may open the socket."""
    with tempfile.TemporaryDirectory(dir="/tmp") as home:
        env = dict(os.environ, CUBBY_HOME=home)
        program = shutil.copy(CUBBY, home)
        os.chmod(home, 0o755)
        with socket.socket(socket.AF_UNIX) as s:
            s.bind(home + "/cubbyd.sock")
        for mode, foreign in ((0o600, True), (0o666, False)):
            os.chmod(home + "/cubbyd.sock", mode)
            answer = subprocess.run([program, "ps"], env=env, user=65534, group=65534, extra_groups=[], cwd="/",
                                    stdin=subprocess.DEVNULL, capture_output=True, timeout=60)
            assert (b"permission denied on" in answer.stderr) == foreign, answer
            assert not foreign or answer.returncode


@pytest.mark.skipif(os.geteuid() != 0, reason="needs another user")
def test_sandboxes_of_another_user_are_not_none():
    with tempfile.TemporaryDirectory(dir="/tmp") as home:
        env = dict(os.environ, CUBBY_HOME=home)
        program = shutil.copy(CUBBY, home)
        os.chmod(home, 0o755)
        os.mkdir(home + "/sandboxes", 0o700)
        answer = subprocess.run([program, "ps"], env=env, user=65534, group=65534, extra_groups=[], cwd="/",
                                stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
        assert answer.returncode == 1 and answer.stdout == "", answer
        assert f"permission denied on {home}/sandboxes" in answer.stderr


def test_a_long_home_is_refused(tmp_path):
    env = dict(os.environ, CUBBY_HOME=str(tmp_path / ("x" * 100)))
    answer = subprocess.run([CUBBY, "ps"], env=env, capture_output=True, timeout=60)
    assert answer.returncode == 1 and b"CUBBY_HOME is too long" in answer.stderr


def test_a_home_that_is_a_file_is_refused(tmp_path):
    (tmp_path / "file").touch()
    env = dict(os.environ, CUBBY_HOME=str(tmp_path / "file"))
    for verb in (["ps"], ["daemon", "stop"]):
        answer = subprocess.run([CUBBY, *verb], env=env, capture_output=True, timeout=60)
        assert answer.returncode == 1 and answer.stdout == b"" and b"CUBBY_HOME is not a directory" in answer.stderr, answer


# ---- doctor
def test_doctor_names_what_is_missing(tmp_path):
    env = dict(os.environ, CUBBY_HOME=str(tmp_path))
    answer = subprocess.run([CUBBY, "doctor", "--json"], env=env, capture_output=True, timeout=60)
    found = {f["name"]: f for f in json.loads(answer.stdout)}
    assert answer.returncode == 1
    assert found["template"]["level"] == "missing"
    assert found["template"]["remedy"] == "cubby setup"
    others = {name: f for name, f in found.items() if name != "template"}
    assert "cubby template" not in json.dumps([found["template"]["text"], others])  # nothing else can help here
    assert "Bad file descriptor" not in str(found) and "template.json" not in str(others)
    assert found["daemon"]["level"] == "ok"
    assert {"state", "qemu", "kvm", "disk", "memory", "user namespaces"} <= set(found)
    for finding in found.values():
        assert finding["text"] and (finding["level"] != "missing" or finding["remedy"])
    table = subprocess.run([CUBBY, "doctor"], env=env, capture_output=True, timeout=60)
    assert table.returncode == 1 and b" cubby setup\n" in table.stdout


def test_doctor_without_qemu(tmp_path):
    env = dict(os.environ, CUBBY_HOME=str(tmp_path), CUBBY_QEMU="/nonexistent/qemu")
    answer = subprocess.run([CUBBY, "doctor", "--json"], env=env, capture_output=True, timeout=60)
    found = {f["name"]: f for f in json.loads(answer.stdout)}
    assert answer.returncode == 1
    assert found["qemu"]["level"] == "missing" and "apt-get install" in found["qemu"]["remedy"]


WITHOUT_KVM = """
if [ -e /dev/kvm ]; then mount --bind /dev/kvm /dev/kvm; mount -o remount,bind,nodev /dev/kvm; fi
exec "$@"
"""  # in a mount namespace: no device can be opened there, also by root, or there is none


@pytest.mark.parametrize("accel", ["kvm", "tcg"])
def test_doctor_where_kvm_cannot_be_opened(tmp_path, accel):
    """KVM is missing where the template needs it; elsewhere its absence is only mentioned."""
    where = tmp_path / "templates/default"
    where.mkdir(parents=True)
    facts = {"format": 1, "name": "default", "created_at": "2026-01-02T03:04:05Z", "kernel": "k", "qemu": "7",
             "machine": "m", "cpu_model": "host", "accel": accel, "envd_version": "0", "memory_mb": 512, "cpus": 1,
             "disk_mb": 8192}
    (where / "template.json").write_text(json.dumps(facts))
    root = [] if os.geteuid() == 0 else ["--map-root-user"]
    env = dict(os.environ, CUBBY_HOME=str(tmp_path), CUBBY_QEMU="/nonexistent/qemu")  # its version is not asked
    answer = subprocess.run(["unshare", *root, "--mount", "sh", "-euc", WITHOUT_KVM, "sh", CUBBY, "doctor", "--json"],
                            env=env, capture_output=True, timeout=60)
    found = {f["name"]: f for f in json.loads(answer.stdout)}
    assert found["template"]["level"] == "ok", found["template"]
    assert "/dev/kvm" in found["kvm"]["text"]
    if accel == "kvm":
        assert found["kvm"]["level"] == "missing"
        assert "and the template needs KVM" in found["kvm"]["text"] and "TCG" not in found["kvm"]["text"]
        assert "cubby template build default --accel tcg" in found["kvm"]["remedy"]
    else:
        assert found["kvm"]["level"] == "note" and "sandboxes run without KVM" in found["kvm"]["text"]


# ---- text of others
HOSTILE = "a\x1b]0;owned\x07b\u202egpj\u009b2Jc\x7f"
OBEYED = "\x1b\x07\u202e\u009b\x7f"


def shown(home, *words):
    """(status, output on a terminal)"""
    env = dict(os.environ, CUBBY_HOME=str(home), CUBBY_QEMU="/nonexistent/qemu")
    done = subprocess.run([CUBBY, *words], env=env, capture_output=True, timeout=60)
    text = done.stdout.decode() + done.stderr.decode()
    assert not any(c in text for c in OBEYED), repr(text)
    return done.returncode, done.stdout.decode()


@pytest.fixture(name="short")
def fixture_short():
    """A short directory for sockets, because pytest's path is too long for them."""
    with tempfile.TemporaryDirectory(prefix="cubby-cli-") as where:
        yield pathlib.Path(where)


def test_what_files_say_is_shown_and_not_obeyed(short):
    home = short / HOSTILE
    facts = {"format": 1, "name": "one", "created_at": HOSTILE, "kernel": HOSTILE, "qemu": HOSTILE, "machine": "m",
             "cpu_model": "c", "accel": "tcg", "envd_version": HOSTILE, "memory_mb": 512, "cpus": 1, "disk_mb": 8192}
    where = home / "templates/one"
    where.mkdir(parents=True)
    (where / "template.json").write_text(json.dumps(facts))
    status, text = shown(home, "template", "ls", "--json")
    (found,) = json.loads(text)
    assert status == 0 and found.items() >= {k: v for k, v in facts.items() if k != "format"}.items()
    assert found["dir"] == str(where)
    status, text = shown(home, "template", "ls")
    rows = text.splitlines()
    assert status == 0 and len(rows) == 2 and rows[1].split()[0] == "one" and "\\x1b]0;owned\\x07b" in rows[1]
    status, text = shown(home, "doctor", "--json")
    assert {f["name"]: f["text"] for f in json.loads(text)}["state"] == str(home)
    assert "\\x1b]0;owned" in shown(home, "doctor")[1]
    (home / "keys.json").write_text(json.dumps({"tokens": [{"name": HOSTILE, "sha256": "0" * 64}]}))
    assert shown(home, "key", "ls") == shown(home, "key", "ls", "--json") == (1, "")
    assert shown(home, "key", "new", "me")[0] == 1
    (where / "template.json").write_text(json.dumps({**facts, "accel": 3, "name": HOSTILE}))
    assert shown(home, "template", "ls")[0] == 1 and shown(home, "template", "rm", HOSTILE)[0] == 1


def test_a_path_that_is_no_text(short):
    """JSON is text: bytes that are not text are marked, and no entry is left out because of them."""
    home = os.fsencode(short) + b"/a\xff"
    os.makedirs(home + b"/templates/one")
    facts = {"format": 1, "name": "one", "created_at": "x", "kernel": "x", "qemu": "x", "machine": "m", "cpu_model": "c",
             "accel": "tcg", "envd_version": "x", "memory_mb": 512, "cpus": 1, "disk_mb": 8192}
    with open(home + b"/templates/one/template.json", "w", encoding="utf-8") as file:
        json.dump(facts, file)
    env = {**os.environb, b"CUBBY_HOME": home}
    done = subprocess.run([CUBBY, "template", "ls", "--json"], env=env, capture_output=True, timeout=60, check=True)
    (found,) = json.loads(done.stdout)
    assert found["name"] == "one" and found["dir"].endswith("/a\ufffd/templates/one")
