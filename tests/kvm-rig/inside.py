#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The parts of the rig, in the outer machine: rig.service runs it, as root. What it prints is the report.

A part is a function of PARTS; words behind a colon are its arguments, as in e2e:fork,pause. Each of its steps is
told as "ok" or "not ok"; a step that fails does not end the part. All parts use one state directory, in memory. Its
template "default" is imported with KVM from the archive of the tests' template; /kept keeps the result for later runs.
"""

import json
import os
import pathlib
import pwd
import shutil
import subprocess
import sys
import threading
import time
import traceback

RIG = pathlib.Path("/rig")
TREE = RIG / "cubby"
BIN = TREE / "build/bin"
KEPT = pathlib.Path("/kept")
FAST = pathlib.Path("/fast")  # in memory
STATE = FAST / "state"
ARCHIVE = RIG / "template.cubby"
TEMPLATE = "templates/default"
FACTS = f"{TEMPLATE}/template.json"
ENV = {"PATH": f"/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root",
       "LANG": "C.UTF-8", "BIN": str(BIN), "GUEST": str(TREE / "build/guest"), "TEST": str(TREE / "build/test"),
       "ENVD": str(TREE / "build/test/envd"),
       "PYTHONPATH": ":".join(map(str, [RIG / "python", *sorted((TREE / "tests/lib").iterdir())]))}
counts = {"ok": 0, "not ok": 0}


def say(text):
    print(text, flush=True)


def told(verdict, text):
    counts[verdict] += 1
    say(f"{verdict} {counts['ok'] + counts['not ok']} - {text} ({time.monotonic():.0f} s)")


def step(text, function, *args):
    """Runs it; what it returns, or None if it failed."""
    try:
        value = function(*args)
    except Exception:  # the next steps are tried as well
        told("not ok", text)
        say(traceback.format_exc())
        return None
    told("ok", text)
    return value


def streamed(*words, **env):
    """Runs it. Its output goes into the report at once, as to a file, not a terminal. Returns its status."""
    with subprocess.Popen(words, env={**ENV, **env}, cwd=TREE, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, errors="replace") as process:
        for line in process.stdout:
            say(line.rstrip())
    return process.returncode


def tell_time():
    """How far the outer machine's clock is, so that the report shows that it goes on."""
    while True:
        time.sleep(60)
        say(f"# {time.monotonic():.0f} s")


class Cubby:
    """The command cubby with a state directory, as a user."""

    def __init__(self, home, user="root"):
        self.home, self.user = home, user

    def __call__(self, *words, status=0, **env):
        entry = pwd.getpwnam(self.user)
        done = subprocess.run([BIN / "cubby", *words], env={**ENV, "CUBBY_HOME": str(self.home), **env}, text=True,
                              user=entry.pw_uid, group=entry.pw_gid, capture_output=True, check=False,
                              extra_groups=os.getgrouplist(self.user, entry.pw_gid), stdin=subprocess.DEVNULL)
        assert done.returncode == status, f"{words}: status {done.returncode}\n{done.stdout}{done.stderr}"
        return (done.stdout + done.stderr).strip()

    def sh(self, sandbox, script):
        return self("exec", sandbox, "--", "sh", "-c", script)


def users():
    """alice may use KVM, bob may not."""
    for name, groups in ("alice", ["-G", "kvm"]), ("bob", []):
        subprocess.run(["useradd", "--create-home", *groups, name], check=True)


def copy(template, home):
    """Copies a template with its holes and times."""
    (home / "templates").mkdir(parents=True, exist_ok=True)
    subprocess.run(["cp", "-a", "--sparse=always", template, home / "templates"], check=True)


def check_kvm(home):
    facts = json.loads((home / FACTS).read_text())
    assert facts["accel"] == "kvm" and facts["processor"] and facts["python"], facts


def template():
    """STATE has the template: a former run's if it is of the same archive, else an import."""
    archive = str(ARCHIVE.stat().st_mtime_ns)
    mark = KEPT / "archive"
    if mark.exists() and mark.read_text() == archive:
        copy(KEPT / TEMPLATE, STATE)
    else:
        mark.unlink(missing_ok=True)
        assert streamed(BIN / "cubby", "template", "import", "--accel", "kvm", ARCHIVE, CUBBY_HOME=str(STATE)) == 0
        shutil.rmtree(KEPT / "templates", ignore_errors=True)
        copy(STATE / TEMPLATE, KEPT)
        os.sync()  # the machine may be stopped at any time
        mark.write_text(archive)
        os.sync()
    check_kvm(STATE)
    return True


def doctor(cubby):
    """The findings, by name, of the drivers that have one."""
    done = subprocess.run([BIN / "cubby", "doctor", "--json"], env={**ENV, "CUBBY_HOME": str(cubby.home)},
                          user=pwd.getpwnam(cubby.user).pw_uid, extra_groups=os.getgrouplist(
                              cubby.user, pwd.getpwnam(cubby.user).pw_gid), capture_output=True, check=False)
    return {finding["name"]: finding for finding in json.loads(done.stdout)}


# ---- smoke: each thing once
def life(cubby):
    sandbox = cubby("create")
    mark = "head -c 8000000 /dev/urandom >/dev/shm/x; md5sum </dev/shm/x"
    sum_ = step("a command", cubby.sh, sandbox, mark)
    step("its status", lambda: cubby("exec", sandbox, "--", "sh", "-c", "exit 7", status=7))
    now = "md5sum </dev/shm/x"

    def same(of=sandbox):
        got = cubby.sh(of, now)
        assert got == sum_, (got, sum_)

    def hibernate():
        cubby("pause", "--hibernate", sandbox)
        cubby("resume", sandbox)
        same()

    def pause():
        cubby("pause", sandbox)
        cubby("resume", sandbox)
        same()

    def roll_back():
        snapshot = cubby("snapshot", sandbox)
        cubby.sh(sandbox, "echo other >/dev/shm/x")
        cubby("rollback", sandbox, snapshot)
        same()
        other = cubby("create", "--template", snapshot)
        same(other)
        cubby("kill", other)

    def fork():
        child = cubby("fork", sandbox).split()[-1]
        same(child)
        assert cubby.sh(child, "cat /etc/machine-id") != cubby.sh(sandbox, "cat /etc/machine-id")
        cubby("kill", child)
    step("pause and resume", pause)
    step("hibernate and wake: the memory is the same", hibernate)
    step("snapshot, rollback, a create from it", roll_back)
    step("fork: the memory is the same, the identity is not", fork)
    step("kill", cubby, "kill", sandbox)


def adopted(cubby):
    """A daemon is killed; the next one has its sandbox, which went on."""
    sandbox = cubby("create")
    cubby.sh(sandbox, "echo kept >/tmp/kept")
    subprocess.run(["pkill", "-KILL", "-x", "cubbyd"], check=True)
    assert cubby.sh(sandbox, "cat /tmp/kept") == "kept"
    cubby("kill", sandbox)


def home_of(user):
    """A state directory of this user with the template."""
    home = FAST / f"of-{user}"
    shutil.rmtree(home, ignore_errors=True)
    copy(STATE / TEMPLATE, home)
    subprocess.run(["chown", "-R", f"{user}:{user}", home], check=True)
    return Cubby(home, user)


def of_alice():
    alice = home_of("alice")
    assert doctor(alice)["kvm"]["level"] == "ok", doctor(alice)["kvm"]
    sandbox = alice("create")
    assert alice.sh(sandbox, "echo in it") == "in it"
    alice("kill", sandbox)
    alice("daemon", "stop")


def of_bob():
    """No group kvm: doctor and create say what to do (K1)."""
    bob = home_of("bob")
    found = doctor(bob)["kvm"]
    assert found["level"] == "missing" and "and the template needs KVM" in found["text"], found
    said = bob("create", status=1)
    assert "needs KVM" in said and "group kvm" in said, said
    say(said)
    bob("daemon", "stop")


def of_another_processor():
    """A template of a processor with a feature more is refused (K2), by doctor too."""
    home = home_of("root").home
    path = home / FACTS
    facts = json.loads(path.read_text())
    words = facts["processor"].split()
    lost = words[2].split("=")
    words[2] = f"{lost[0]}={int(lost[1], 16) | 1 << 28:08x}"  # AVX, which the outer machine lacks
    path.write_text(json.dumps({**facts, "processor": " ".join(words)}))
    cubby = Cubby(home)
    found = doctor(cubby)["template"]
    assert found["level"] == "missing" and "lacks features" in found["text"], found
    said = cubby("create", status=1)
    assert "lacks features that the saved machine uses, in CPUID 1.ecx=10000000" in said, said
    say(said)
    cubby("daemon", "stop")


def auto_takes_kvm(cubby):
    found = doctor(cubby)["tier"]
    assert (found["level"], found["text"]) == (
        "ok", 'auto chooses microvm (kvm) for template "default": the guest kernel boots under KVM'), found


def smoke():
    cubby = Cubby(STATE)
    step("doctor: KVM works", lambda: say(doctor(cubby)["kvm"]["text"]))
    step("doctor: auto chooses a microVM under KVM", auto_takes_kvm, cubby)
    step("a sandbox's life", life, cubby)
    step("adoption", adopted, cubby)
    cubby("daemon", "stop")
    step("a user in the group kvm", of_alice)
    step("a user who is not", of_bob)
    step("another processor", of_another_processor)


# ---- tests
def pytest(*words):
    """One run: a line a test."""
    status = streamed(sys.executable, "-m", "pytest", "-p", "pytest_timeout", "-v", "-rfEs", "--tb=short",
                      "--timeout", "600", "--rootdir=.", "-p", "no:cacheprovider", "--color=no", *words,
                      CUBBY_TEST_HOME=str(STATE))
    told("ok" if status == 0 else "not ok", "pytest " + " ".join(words))


def adoption():
    pytest("tests/e2e/test_machine.py", "-k", "adopt")


def giving():
    """Memory that a guest has freed goes back to the host."""
    pytest("tests/e2e/test_memory.py", "-k", "goes_back")


def jail():
    """The walls, of a daemon of root and of a user in the group kvm."""
    pytest("tests/e2e/test_jail.py")


def spares():
    """Machines that are started ahead."""
    pytest("tests/e2e/test_microvm_spares.py")


def memory():
    pytest("tests/e2e/test_memory.py")


def sizes():
    """Most of its guests have two processors, which the emulation does not bring up (docs/hosts.md)."""
    pytest("tests/e2e/test_sizes.py")


def more_memory():
    """A guest that boots because it has more memory than its template."""
    cubby = Cubby(STATE)
    sandbox = cubby("create", "--memory", "1024M")

    def has_size():
        kilobytes = int(cubby.sh(sandbox, "awk '/MemTotal/ {print $2}' /proc/meminfo"))
        assert 900 << 10 < kilobytes <= 1024 << 10, kilobytes
    step("it has its size", has_size)
    sum_ = cubby.sh(sandbox, "head -c 8000000 /dev/urandom >/dev/shm/x; md5sum </dev/shm/x")
    step("hibernate", cubby, "pause", "--hibernate", sandbox)
    step("wake", cubby, "resume", sandbox)
    step("its memory is the same", lambda: sum_ == cubby.sh(sandbox, "md5sum </dev/shm/x") or 1 / 0)
    step("it has its size still", has_size)
    step("Python", lambda: cubby("exec", sandbox, "--", "python3", "-c", "print(6 * 7)") == "42" or 1 / 0)
    cubby("kill", sandbox)
    cubby("daemon", "stop")


def machine():
    pytest("tests/e2e/test_machine.py")


def attack(*names):
    """test_the_vms_devices uses I/O ports in a program of the guest, which ends then: QEMU's SVM seems to refuse them."""
    pytest(*([f"tests/attack/test_{name}.py" for name in names] or ["tests/attack"]),
           "--deselect", "tests/attack/test_abuse.py",
           "--deselect", "tests/attack/test_guest_network.py::test_the_vms_devices")


E2E = ("daemon_sandboxes", "disk_full", "faults", "fork", "hibernate", "image", "kernel", "pause", "pool")


def e2e(*names):
    """Tests that need neither mmdebstrap nor clients of others nor a network. In the test that is left out, four guests
    use all of their processor for as long as they can."""
    pytest("--deselect", "tests/e2e/test_fork.py::test_no_two_draw_the_same",
           *(f"tests/e2e/test_{name}.py" for name in names or E2E))


def selftest():
    """The command that a user of this host would run."""
    status = streamed(BIN / "cubby", "selftest", "--tier", "microvm", CUBBY_HOME=str(STATE))
    told("ok" if status == 0 else "not ok", "cubby selftest")


def pagemap():
    """The pages of a machine are found by PAGEMAP_SCAN (Linux 6.7), not by reading pagemap."""
    cubby = Cubby(STATE)
    sandbox = cubby("create")
    trace = FAST / "pagemap.strace"
    pid = subprocess.run(["pgrep", "-x", "cubbyd"], check=True, capture_output=True, text=True).stdout.split()[0]
    with subprocess.Popen(["strace", "-f", "-e", "trace=ioctl", "-X", "raw", "-o", trace, "-p", pid]) as tracer:
        sum_ = cubby.sh(sandbox, "head -c 4000000 /dev/urandom >/dev/shm/x; md5sum </dev/shm/x")
        cubby("pause", "--hibernate", sandbox)
        cubby("resume", sandbox)
        tracer.terminate()
    calls = [line for line in trace.read_text().splitlines() if "0xc0606610" in line]
    step("PAGEMAP_SCAN is used", lambda: (say("\n".join(calls[:3])), calls[0].endswith("= 0") or calls[0])[1])
    step("and the memory is the same", lambda: sum_ == cubby.sh(sandbox, "md5sum </dev/shm/x") or 1 / 0)
    cubby("kill", sandbox)
    cubby("daemon", "stop")


# ---- the systemd unit, as its own first lines say
def systemctl(*words):
    return subprocess.run(["systemctl", *words], check=True, capture_output=True, text=True).stdout.strip()


def install_unit():
    unit = (TREE / "sandbox-backend/daemon/cubbyd.service").read_text()
    for program in BIN.iterdir():
        os.symlink(program, pathlib.Path("/usr/local/bin") / program.name)
    pathlib.Path("/usr/local/lib/cubby").mkdir(parents=True)
    os.symlink(TREE / "build/guest", "/usr/local/lib/cubby/guest")
    pathlib.Path("/etc/systemd/system/cubbyd.service").write_text(unit)
    subprocess.run(["adduser", "--system", "--group", "--home", "/var/lib/cubbyd", "--no-create-home", "cubby"],
                   check=True)
    subprocess.run(["adduser", "cubby", "kvm"], check=True)


def service():
    install_unit()
    systemctl("daemon-reload")
    step("the unit starts", systemctl, "enable", "--now", "cubbyd")
    cubby = Cubby(pathlib.Path("/var/lib/cubbyd"), "cubby")
    step("the build uses KVM", lambda: build_as(cubby))
    step("a sandbox's life", life, cubby)
    sandbox = step("create", cubby, "create")
    step("its jail and limits", lambda: say(cubby("ps", "--json")))
    step("stop", systemctl, "stop", "cubbyd")
    left = subprocess.run(["pgrep", "-u", "cubby", "-l"], capture_output=True, text=True, check=False).stdout
    step("no process is left", lambda: left == "" or 1 / 0)
    step("start", systemctl, "start", "cubbyd")
    say(f"{sandbox}: " + cubby("ps"))
    say(subprocess.run(["journalctl", "-u", "cubbyd", "--no-pager"], capture_output=True, text=True,
                       check=False).stdout)


def await_socket(home):
    """systemctl returns before the daemon listens; a command that comes earlier would start a daemon of its own."""
    deadline = time.monotonic() + 60
    while not (home / "cubbyd.sock").exists():
        assert time.monotonic() < deadline, "the unit's daemon does not listen"
        time.sleep(0.1)  # for the unit's process


def drop_in():
    """As docs/hosts.md says: the unit's daemon runs as root, and has sandboxes of bubblewrap beside microVMs."""
    if not pathlib.Path("/etc/systemd/system/cubbyd.service").exists():
        install_unit()
    text = (TREE / "docs/hosts.md").read_text()
    (block,) = [part for part in text.split("```") if part.lstrip().startswith("[Service]")]
    place = pathlib.Path("/etc/systemd/system/cubbyd.service.d/bubblewrap.conf")
    place.parent.mkdir()
    place.write_text(block.lstrip())
    subprocess.run(["systemctl", "stop", "cubbyd"], check=False)
    home = pathlib.Path("/var/lib/cubbyd")
    shutil.rmtree(home, ignore_errors=True)
    copy(STATE / TEMPLATE, home)
    root = Cubby(home)
    step("unpack", root, "template", "unpack", "default")
    systemctl("daemon-reload")
    systemctl("start", "cubbyd")
    await_socket(home)
    step("both tiers", both_tiers, root)
    say(subprocess.run(["journalctl", "-u", "cubbyd", "--no-pager"], capture_output=True, text=True,
                       check=False).stdout)


def both_tiers(root):
    sandbox = root("create", "--tier", "bubblewrap").split()[0]  # a warning follows
    assert root.sh(sandbox, "id -un; cat /proc/1/comm").split()[0] == "user"
    say(root.sh(sandbox, "ls /sys/class/net; head -3 /proc/self/uid_map"))
    root("kill", sandbox)
    machine = root("create", "--tier", "microvm")
    assert root.sh(machine, "echo in it") == "in it"
    root("kill", machine)


def build_as(cubby):
    text = cubby("template", "import", "--accel", "kvm", ARCHIVE)
    say(text)
    assert "accelerator: KVM" in text


PARTS = {part.__name__: part for part in (smoke, selftest, adoption, giving, pagemap, jail, service, drop_in, spares, sizes,
                                          more_memory, memory, machine, attack, e2e)}


def in_memory():
    """A guest's memory is a file, and a part makes many: they are no load for the emulated disk."""
    FAST.mkdir(exist_ok=True)
    FAST.chmod(0o755)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=6G,mode=755", "none", FAST], check=True)
    STATE.mkdir(mode=0o700)


def main():
    names = (RIG / "parts").read_text().split()
    names = [name for name in PARTS if name != "sizes"] if names == ["all"] else names
    say(f"rig: {' '.join(names)} on {os.uname().release}, {os.cpu_count()} processors")
    threading.Thread(target=tell_time, daemon=True).start()
    in_memory()
    users()
    imported = step("the template is imported", template)
    for name in names if imported else []:
        say(f"# {name}")
        part, _, words = name.partition(":")
        step(f"part {name}", PARTS[part], *words.split(",") if words else ())
    say(f"rig: {counts['not ok']} failed, {counts['ok']} passed")
    os.sync()


if __name__ == "__main__":
    sys.exit(main())
