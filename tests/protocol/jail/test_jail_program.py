# SPDX-License-Identifier: Apache-2.0
"""cubby-jail by hand: each protection as a program in the jail sees it, with the same program
outside as the control. If a protection cannot be built, cubby-jail says so and ends; `check` finds
out beforehand what a host lacks.
"""

import json
import os
import subprocess
import tempfile

import pytest

from harness import BIN
from jail_peer import AS_LEAST_ROOT, AS_USER, JAIL, UIDS, WALLS, files_of, jail, lacking

ALL = list(WALLS)


def probe(wrap=(), **more):
    out = subprocess.run([*wrap, JAIL, "--probe"], capture_output=True, check=True, timeout=60, **more).stdout
    return json.loads(out)


def test_the_probe_finds_every_wall():
    found = probe()
    assert found["root"] is True and found["landlock"] >= 1
    assert found["walls"] == {wall: True for wall in WALLS}


def test_the_probe_of_a_user():
    found = probe(AS_USER)
    assert found["root"] is False
    # There is no other user for who is not root, and nothing is missing for it.
    assert found["walls"] == {wall: True if wall != "uid" else None for wall in WALLS}


def test_the_probe_of_root_with_few_rights():
    assert probe(AS_LEAST_ROOT)["walls"] == {wall: True for wall in WALLS}
    fewer = [word.replace(",+setuid", "") for word in AS_LEAST_ROOT]
    assert isinstance(probe(fewer)["walls"]["uid"], str)  # control


@pytest.mark.parametrize("wall", ["landlock", "mount", "uts"])
def test_the_probe_says_what_is_missing(wall):
    found = probe(preexec_fn=lacking(wall))
    assert isinstance(found["walls"].pop(wall), str)
    assert found["walls"] == {w: True for w in WALLS if w != wall}


def test_the_probe_where_user_namespaces_are_used_up():
    script = 'echo 0 >/proc/sys/user/max_user_namespaces && exec "$@"'
    found = probe(("unshare", "--user", "--map-root-user", "sh", "-c", script, "sh"))
    assert "user namespace" in found["walls"].pop("user")
    assert isinstance(found["walls"].pop("uid"), str)  # only one user is known there
    assert set(found["walls"].values()) == {True}


def test_doctor_shows_the_walls(tmp_path):
    def doctor(**more):
        done = subprocess.run([BIN / "cubby", "doctor", "--json"], env=dict(os.environ, CUBBY_HOME=str(tmp_path)),
                              capture_output=True, timeout=60, **more)
        return [f for f in json.loads(done.stdout) if f["name"] == "jail"]
    (whole,) = doctor()
    assert whole["level"] == "ok" and all(wall in whole["text"] for wall in WALLS)
    built, missing = doctor(preexec_fn=lacking("landlock"))
    assert "landlock" not in built["text"] and "without Landlock" in missing["text"]
    assert missing["level"] == "note" and "lsm=" in missing["remedy"]


def test_the_root_holds_the_program_and_nothing_else():
    for path in "/etc/passwd", "/proc/self/status", "/sys", str(JAIL):
        assert subprocess.run(["/bin/ls", "-d", path], capture_output=True).returncode == 0  # control
        done = jail(ALL, "/bin/ls", "-d", path)
        assert done.returncode == 2 and "No such file" in done.stderr, done
    assert set(jail(ALL, "/bin/ls", "/").stdout.split()) <= {"bin", "dev", "lib", "lib64", "usr"}
    assert jail(ALL, "/bin/ls", "/dev").stdout.split() == ["null", "urandom", "zero"]


def test_nothing_in_the_root_can_be_written(tmp_path):
    shown = tmp_path / "shown"
    shown.write_text("")
    shown.chmod(0o666)
    files = [*files_of("/bin/touch"), str(shown)]
    for path in "/new", "/dev/new", str(shown), str(tmp_path / "new"):
        done = jail(["mount", "pid"], "/bin/touch", path, files=files)  # by root, with all capabilities
        assert done.returncode == 1 and "Read-only file system" in done.stderr, done
    assert jail(["pid"], "/bin/touch", str(shown), str(tmp_path / "new")).returncode == 0  # control


def test_who_it_is():
    inside = jail(ALL, "/usr/bin/id", "-u")
    assert inside.stdout.split() == ["1000"]
    done = jail([w for w in ALL if w != "user"], "/usr/bin/id", "-u")
    assert int(done.stdout) in UIDS
    assert jail(["pid"], "/usr/bin/id", "-u").stdout.split() == ["0"]  # control


def test_privileges():
    script = ("import re; t = open('/proc/self/status').read(); "
              "print(*re.findall(r'(?:NoNewPrivs|CapPrm|CapBnd|CapAmb|CapInh|Seccomp):\\s*(\\w+)', t))")
    walls = [w for w in ALL if w not in ("mount", "landlock")]  # Python needs its files
    none = "0" * 16
    done = jail(walls, "/usr/bin/python3", "-c", script, files=["/usr/bin/python3"])
    assert done.stdout.split() == [none] * 4 + ["1", "2"], done
    done = jail(["pid"], "/usr/bin/python3", "-c", script, files=["/usr/bin/python3"])
    assert done.stdout.split()[1] != none and done.stdout.split()[-2:] == ["0", "0"]  # control


TRIES = """
import ctypes, errno, os, socket, sys, threading
libc = ctypes.CDLL(None, use_errno=True)
def call(number, *args):
    return "done" if libc.syscall(number, *args) >= 0 else errno.errorcode[ctypes.get_errno()]
def sock(*args):
    try:
        return socket.socket(*args) and "done"
    except OSError as e:
        return errno.errorcode[e.errno]
child = libc.fork()  # before it is traced
forked = "done" if child >= 0 else errno.errorcode[ctypes.get_errno()]
if child == 0:
    os._exit(0)
if child > 0:
    os.waitpid(child, 0)
def of_a_file(number, *args):  # of one that is its own
    fd = os.memfd_create("own")
    return call(number, fd, *args)
files = [of_a_file(91, 0o600), of_a_file(93, os.getuid(), -1), of_a_file(280, None, None, 0),
         of_a_file(452, b"", 0o600, 0x1000), of_a_file(190, b"user.x", b"x", 1, 0)]
wide = ctypes.c_long  # of a command the kernel looks at the lower half
def command(number, command, *args):  # of fcntl, ioctl: of a file that is open for reading only
    fd = os.open("/etc/os-release", os.O_RDONLY)
    return call(number, fd, wide(command), *args), call(number, fd, wide(command + (1 << 32)), *args)
flags = ctypes.create_string_buffer(64)  # as they are
command(16, 0x80086601, flags)
commands = [*command(72, 1024, 0), *command(72, 1040, flags), *command(16, 0x40086602, flags),
            *command(16, 0x401c5820, None), *command(16, 0x40806685, None), *command(16, 0x40087602, None)]
print(call(272, 0x10000000), call(101, 0, 0, 0, 0), call(321, 0, 0, 0), call(425, 1, 0), call(250, 0, 0, 0, 0),
      sock(socket.AF_INET), sock(socket.AF_VSOCK), sock(socket.AF_INET, socket.SOCK_RAW, 1), sock(socket.AF_UNIX))
print(*files)
print(*commands, call(206, 1, ctypes.byref(ctypes.c_ulong())))
def pair(family):
    return call(53, family, 1, 0, ctypes.create_string_buffer(8))
thread = threading.Thread(target=int)
thread.start(), thread.join()
print(pair(socket.AF_UNIX), pair(socket.AF_INET), "thread", forked)
"""


def tries(*options, walls=("seccomp", "pid", "privileges")):
    done = jail(walls, "/usr/bin/python3", "-c", TRIES, options=options, files=["/usr/bin/python3"])
    assert done.returncode == 0, done
    return [line.split() for line in done.stdout.splitlines()]


def test_system_calls_of_a_vmm():
    # a new user namespace, ptrace, bpf, io_uring, keyctl; sockets of the internet, of the host's host, raw, local
    calls, of_files, commands, more = tries()
    assert calls == ["EPERM"] * 3 + ["ENOSYS", "EPERM"] + ["EACCES"] * 3 + ["done"]
    # what a file is beside its contents: mode, owner, times, mode again, attributes
    assert of_files == ["EPERM"] * 5
    # a lease and a delegation; flags, attributes, verity, version, each twice; and what aio-max-nr counts
    assert commands == ["EPERM"] * 12 + ["ENOSYS"]
    # sockets in pairs; threads, but no processes
    assert more == ["done", "EACCES", "thread", "EPERM"]
    without, of_files, commands, more = tries(walls=("pid",))
    assert without[0] == without[1] == without[5] == "done"  # control
    assert of_files[:3] == ["done"] * 3 and of_files[3] in ("done", "ENOSYS") and of_files[4] != "EPERM"
    assert commands[:2] == ["done"] * 2 and commands[-1] == "done" and "EPERM" not in commands
    assert more == ["done", "ENOTSUP", "thread", "done"]


def test_system_calls_of_a_network_process():
    found, of_files, commands, more = tries("--kind", "network")
    assert found == ["EPERM"] * 3 + ["ENOSYS", "EPERM", "done", "EPERM", "EPERM", "done"]
    assert of_files == ["EPERM"] * 5 and more == ["done", "EPERM", "thread", "EPERM"]
    assert commands == ["EPERM"] * 12 + ["ENOSYS"]


def test_a_file_outside_is_refused_by_landlock_alone():
    files = ["/bin/cat", *files_of("/bin/cat")[1:]]
    done = jail(["landlock", "privileges", "pid"], "/bin/cat", "/etc/passwd", files=files)
    assert done.returncode == 1 and "Permission denied" in done.stderr, done
    assert jail(["privileges", "pid"], "/bin/cat", "/etc/passwd").stdout.startswith("root:")  # control


def test_landlock_alone_leaves_three_devices_of_the_hosts():
    """/dev also has shared memory and the same user's terminals."""
    with tempfile.NamedTemporaryFile(dir="/dev/shm") as other:
        write = ["/bin/dd", "if=/dev/zero", "bs=1", "count=1", "conv=notrunc"]
        for walls, wanted in (["landlock", "privileges", "pid"], 1), (["privileges", "pid"], 0):  # control
            done = jail(walls, *write, f"of={other.name}")
            assert done.returncode == wanted and ("Permission denied" in done.stderr) == bool(wanted), done
            assert jail(walls, *write, "of=/dev/null").returncode == 0


def test_landlock_alone_leaves_the_resolver_to_who_needs_it():
    walls = ["landlock", "privileges", "pid"]
    given = jail(walls, "/bin/cat", "/etc/resolv.conf", options=["--kind", "network", "--resolv-conf", "/a/copy"])
    assert given.returncode == 0, given
    without = jail(walls, "/bin/cat", "/etc/resolv.conf", options=["--kind", "network"])
    assert without.returncode == 1 and "Permission denied" in without.stderr, without  # control


def test_kvm_where_it_is_asked_for():
    """In the jail the device belongs to the jail's user, whoever owns it outside."""
    read = ["/bin/dd", "if=/dev/kvm", "of=/dev/null", "count=0"]
    without = jail(ALL, *read)
    assert without.returncode == 1 and "No such file" in without.stderr, without
    given = jail(ALL, *read, options=["--kvm"])
    if os.path.exists("/dev/kvm"):
        assert given.returncode == 0, given
    else:
        assert given.returncode == 126 and "/dev/kvm" in given.stderr, given


def test_what_cannot_be_built_ends_it():
    for done, word in (
            (jail(["pid"], "/bin/true", wrap=()), "is not process 1 of a process namespace"),
            (jail(["pid", "mount"], "/bin/true", files=["/bin/true", "/no/such"]), "bind mount /no/such"),
            (jail(["pid", "moat"], "/bin/true"), '--walls "pid,moat" holds an unknown name'),
            (jail(["pid", "user", "network"], "/bin/true", wrap=(*AS_USER, "unshare", "-Upf")), "network"),
            (jail(["pid", "mount"], "/bin/true", files=[]), "execute /bin/true")):
        assert done.returncode == 126 and done.stderr.startswith("cubby-jail: ") and word in done.stderr, done
        assert done.stdout == ""


def test_a_kernel_without_landlock_ends_it():
    files = files_of("/bin/true")
    command = ["unshare", "-pf", JAIL, "--walls", "pid,privileges,landlock", "--", "/bin/true", "true"]
    done = subprocess.run(command, capture_output=True, text=True, preexec_fn=lacking("landlock"))
    assert done.returncode == 126 and "Landlock" in done.stderr, done
    assert files and subprocess.run(command).returncode == 126  # /bin/true is no file of its list
    command[command.index("--"):] = ["--file-count", str(len(files)), "--", *files, "/bin/true", "true"]
    assert subprocess.run(command).returncode == 0  # control


def test_a_parent_that_has_ended():
    for ended in False, True:
        parent = subprocess.Popen(["sleep", "1000"])
        fd = os.pidfd_open(parent.pid)
        if ended:
            parent.kill()
            parent.wait(30)
        done = subprocess.run(["unshare", "-pf", JAIL, "--walls", "pid", "--dies-with-fd", str(fd), "--",
                               "/bin/echo", "echo", "alive"], capture_output=True, text=True, pass_fds=[fd])
        os.close(fd)
        if not ended:  # control
            parent.kill()
            parent.wait(30)
            assert (done.returncode, done.stdout) == (0, "alive\n")
    assert done.returncode == 126 and "the process that started cubby-jail has ended" in done.stderr, done
