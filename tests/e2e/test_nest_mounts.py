# SPDX-License-Identifier: Apache-2.0
"""Directories and volumes in the tiers that share the host's kernel. bubblewrap mounts from outside of the guest; none
refuses.
"""

import errno
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile

import pytest

from cubbyd import wait_for
from harness import BIN, process_exists
from jail_peer import USER
from nest_world import Nested, below, namespaces, users_of
from proc import descriptors
from test_nest import NEWUIDMAP, of_another_user
from tiers import BWRAP


@pytest.fixture(name="daemon", scope="module")
def fixture_daemon():
    with Nested("bubblewrap", "--max-volume-size", "16M") as running:
        yield running


@pytest.fixture(name="project")
def fixture_project(tmp_path):
    path = tmp_path / "project"
    (path / ".git").mkdir(parents=True)
    (path / "a.txt").write_text("from the host\n")
    (path / ".env").write_text("SECRET=1\n")
    (path / ".git" / "config").write_text("[core]\n")
    return path


@pytest.fixture(name="made")
def fixture_made(daemon):
    sandbox = daemon.create(timeout=900)
    yield sandbox
    daemon.kill(sandbox["sandboxID"])


def url(sandbox, what):
    return f"/sandboxes/{sandbox['sandboxID']}/{what}"


def mount(daemon, sandbox, source, target, status=201, **more):
    answer = daemon.request("POST", url(sandbox, "mounts"), {"source": str(source), "target": target, **more}, timeout=90)
    assert answer.status == status, answer.body
    return answer.json


def run(daemon, sandbox, command, status=0, user="user"):
    code, text = daemon.command(sandbox, f"exec 2>&1; {command}", user)
    assert code == status, (command, code, text)
    return text.decode()


def servers(daemon, sandbox):
    """The processes that serve mounts of the sandbox: those in its network that are not below its cubby-nest."""
    nest = daemon.nest(sandbox)
    return sorted(set(users_of([namespaces(below(nest)[-1])["net"]])) - set(below(nest)))


def serving(daemon, sandbox):
    """mountfs, of one mount."""
    (found,) = [p for p in servers(daemon, sandbox) if pathlib.Path(f"/proc/{p}/cmdline").read_bytes().startswith(b"mountfs\0")]
    return found


@BWRAP
def test_both_sides_see_the_same(daemon, made, project):
    shown = mount(daemon, made, project, "/project")
    assert [(m["target"], m["state"]) for m in shown] == [("/project", "ready")]
    assert run(daemon, made, "cat /project/a.txt; stat -c '%U %a' /project/a.txt") == "from the host\nuser 644\n"
    run(daemon, made, "mkdir -p /project/d && echo guest >/project/d/f && mv /project/d/f /project/g && rmdir /project/d")
    assert (project / "g").read_text() == "guest\n" and (project / "g").stat().st_uid == project.stat().st_uid
    (project / "new").write_text("later\n")
    wait_for(lambda: daemon.command(made, "cat /project/new")[1] == b"later\n", 60, "the host's file")
    assert run(daemon, made, "python3 -c \"import mmap; f = open('/project/new'); print(len(mmap.mmap(f.fileno(), 0, "
                             "access=mmap.ACCESS_READ)))\"") == "6\n"
    assert run(daemon, made, "ls -A /project /project/.git") == "/project:\n.git\na.txt\ng\nnew\n\n/project/.git:\n"
    for command in ("cat /project/.env", "echo x >/project/.env", "cat /project/.git/config", "mkdir /project/.git/hooks",
                    "mkfifo /project/p", "mknod /project/n c 1 3"):
        assert daemon.command(made, command, "root")[0] != 0, command
    (project / "out").symlink_to(project / ".env")
    wait_for(lambda: "No such file" in daemon.command(made, "cat /project/out 2>&1")[1].decode(), 60, "a path of the guest")


@BWRAP
def test_reading_only_and_unmounting(daemon, made, project):
    mount(daemon, made, project, "/deep/er/look", readOnly=True)
    assert run(daemon, made, "cat /deep/er/look/a.txt") == "from the host\n"
    assert "Read-only" in run(daemon, made, "touch /deep/er/look/a.txt", status=1, user="root")
    gone = servers(daemon, made)
    assert len(gone) == 2
    assert daemon.request("DELETE", url(made, "mounts?target=/deep/er/look")).status == 204
    wait_for(lambda: "/deep" not in run(daemon, made, "cat /proc/mounts"), 60, "unmounted")
    wait_for(lambda: not [p for p in gone if process_exists(p)], 60, "nothing of it is left")
    mount(daemon, made, project, "/deep/er/look")
    run(daemon, made, "echo w >/deep/er/look/w")
    assert (project / "w").read_text() == "w\n"


@BWRAP
def test_paths_lie_apart(daemon, made, project):
    """One that is below the place of a mount that ends waits for that end."""
    mount(daemon, made, project, "/a/b")
    for target in "/a/b", "/a", "/a/b/c":
        refused = mount(daemon, made, project, target, 409)["message"]
        assert ("already used" if target == "/a/b" else "lies below") in refused
    mount(daemon, made, project, "/a/bc")
    for target in "/a/b/c", "/a/b":
        gone = {"/a/b/c": "/a/b", "/a/b": "/a/b/c"}[target]
        assert daemon.request("DELETE", url(made, f"mounts?target={gone}")).status == 204
        mount(daemon, made, project, target)
        assert run(daemon, made, f"cat {target}/a.txt; grep -c ' /a/b' /proc/mounts") == "from the host\n2\n"
    assert not (project / "c").exists()


@BWRAP
def test_what_the_guest_can_do_to_it(daemon, made, project):
    """Its root sees neither mountfs nor /dev/fuse, and can neither mount nor unmount."""
    mount(daemon, made, project, "/project")
    assert b"mountfs" not in daemon.command(made, "cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' '", "root")[1]
    assert run(daemon, made, "test -e /dev/fuse || echo none; mknod /tmp/fuse c 10 229 2>/dev/null || echo refused", user="root") == (
        "none\nrefused\n")
    assert daemon.command(made, "umount /project; umount -l /project", "root")[0] != 0
    status = pathlib.Path(f"/proc/{serving(daemon, made)}/status").read_text()
    for line in ("NoNewPrivs:\t1", "Seccomp:\t2", "CapEff:\t0000000000000000", "CapPrm:\t0000000000000000", "CapBnd:\t0000000000000000"):
        assert line in status, (line, status)
    held = sorted(set(descriptors(serving(daemon, made)).values()) - {"/dev/null"})
    assert [re.sub(r"\d+", "N", one) for one in held] in (["/dev/fuse", "socket:[N]", "socket:[N]"], ["/dev/fuse", "socket:[N]"]), held
    assert os.readlink(f"/proc/{serving(daemon, made)}/ns/pid") not in (
        os.readlink("/proc/self/ns/pid"), os.readlink(f"/proc/{below(daemon.nest(made))[-1]}/ns/pid"))
    for pid in servers(daemon, made):
        assert made["sandboxID"].encode() not in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()


@BWRAP
def test_a_target_that_is_a_link_of_the_guest(daemon, made, project):
    """It leads to a directory of the guest, wherever it points."""
    run(daemon, made, f"mkdir -p /tmp/there {project.parent} && ln -s /tmp/there /there && ln -s {project.parent} /out", user="root")
    mount(daemon, made, project, "/there")
    assert run(daemon, made, "cat /tmp/there/a.txt") == "from the host\n"
    run(daemon, made, "ln -s /there /again", user="root")
    assert "leads into another mount" in mount(daemon, made, project, "/again", 400)["message"]
    assert run(daemon, made, "cat /there/a.txt") == "from the host\n"
    before = sorted(os.listdir(project.parent))
    mount(daemon, made, project, "/out/x")
    assert sorted(os.listdir(project.parent)) == before, "the directory was made in the guest"
    run(daemon, made, "mv /tmp/there /tmp/moved || rm /there; mkdir -p /there", user="root")
    assert daemon.request("DELETE", url(made, "mounts?target=/there")).status == 204
    wait_for(lambda: "/tmp/there" not in run(daemon, made, "cat /proc/mounts"), 60, "unmounted where it is")
    assert run(daemon, made, "cat /out/x/a.txt") == "from the host\n"


@BWRAP
def test_a_new_daemon_and_an_open_file(project):
    with Nested("bubblewrap") as daemon:
        made = daemon.create(timeout=900)
        mount(daemon, made, project, "/project")
        run(daemon, made, "rm -f /tmp/in; mkfifo /tmp/in; (exec 3<>/tmp/in; exec 4>>/project/log; "
                          "while read -r line <&3; do echo $line >&4; done) >/dev/null 2>&1 & echo one >/tmp/in")
        log = project / "log"
        wait_for(lambda: log.exists() and log.read_text() == "one\n", 60, "the first line")
        processes = servers(daemon, made)
        daemon.stop(signal.SIGKILL)
        daemon.start()
        run(daemon, made, "echo two >/tmp/in")
        wait_for(lambda: log.read_text() == "one\ntwo\n", 60, "the second line")
        assert servers(daemon, made) == processes
        daemon.kill(made["sandboxID"])
        wait_for(lambda: not [p for p in processes if process_exists(p)], 30, "nothing is left")


@BWRAP
def test_a_mountfs_that_is_killed(daemon, made, project):
    """Nothing is written beside the directory meanwhile, and it is mounted again."""
    mount(daemon, made, project, "/project")
    code = ("import errno\nfor i in range(10 ** 9):\n  try:\n    open('/project/f%d' % i, 'x').close()\n"
            "  except OSError as e:\n    print(errno.errorcode[e.errno]); break\n")
    writer = daemon.open_command(made, f'python3 -c "{code}"')
    wait_for(lambda: (project / "f10").exists(), 60, "it writes")
    below_it = daemon.open_command(made, "while ! test -e /tmp/stop; do echo x >/project/g 2>/dev/null && : >/tmp/written; done", "root")
    wait_for(lambda: daemon.command(made, "test -e /tmp/written")[0] == 0, 60, "root writes, too")
    os.kill(serving(daemon, made), signal.SIGKILL)
    while writer.recv(65536):
        pass
    writer.close()
    wait_for(lambda: daemon.command(made, "echo again >/project/again 2>/dev/null && cat /project/a.txt")[1] == b"from the host\n",
             60, "it is mounted again")
    assert (project / "again").read_text() == "again\n"
    assert run(daemon, made, "grep -c ' /project ' /proc/mounts") == "1\n"
    run(daemon, made, "touch /tmp/stop", user="root")
    while below_it.recv(65536):
        pass
    below_it.close()
    assert daemon.request("DELETE", url(made, "mounts?target=/project")).status == 204
    wait_for(lambda: "/project" not in run(daemon, made, "cat /proc/mounts"), 60, "unmounted")
    if tuple(map(int, os.uname().release.split(".")[:2])) >= (6, 5):
        assert run(daemon, made, "ls -A /project") == "", "nothing was written below"


@BWRAP
def test_a_guest_that_ends_while_it_uses_it(daemon, project):
    made = daemon.create(timeout=900)
    mount(daemon, made, project, "/project")
    nest, processes = daemon.nest(made), servers(daemon, made)
    busy = daemon.open_command(made, "while :; do cat /project/a.txt; echo x >>/project/log; done >/dev/null")
    wait_for((project / "log").exists, 60, "it is busy")
    processes += below(nest)
    assert daemon.kill(made["sandboxID"]) == 204
    busy.close()
    wait_for(lambda: not [p for p in processes if process_exists(p)], 30, "nothing is left")


@BWRAP
def test_volumes(daemon):
    assert daemon.request("POST", "/volumes", {"name": "shared"}).status == 201
    body = {"templateID": "default", "timeout": 900, "volumeMounts": [{"name": "shared", "path": "/data"}]}
    one, two = (daemon.request("POST", "/sandboxes", body, timeout=90).json for _ in range(2))
    run(daemon, one, "echo one >/data/a")
    assert run(daemon, two, "cat /data/a; stat -c %U /data/a") == "one\nuser\n"
    full = "head -c 20000000 /dev/zero >/data/big"
    assert os.strerror(errno.ENOSPC) in run(daemon, two, full, status=daemon.command(two, full)[0])
    words = [BIN / "cubby", "create", "--tier", "bubblewrap", "--volume", "shared:/v", "--json"]
    done = subprocess.run(words, env={**os.environ, "CUBBY_HOME": str(daemon.home)}, check=True, capture_output=True, timeout=90)
    three = json.loads(done.stdout)
    assert daemon.get(three["sandboxID"]).json["volumeMounts"] == [{"name": "shared", "path": "/v"}]
    assert run(daemon, one, "rm /data/big; echo more >>/data/a; cat /data/a") == "one\nmore\n"
    for sandbox in one, two, three:
        daemon.kill(sandbox["sandboxID"])


@BWRAP
@NEWUIDMAP
def test_a_daemon_of_another_user(tmp_path):
    """It needs a device that its user may open. cubby doctor says so."""
    project = pathlib.Path(tempfile.mkdtemp(prefix="cubby-project-"))
    (project / "a.txt").write_text("from the host\n")
    for path in (project, project / "a.txt"):
        os.chown(path, USER, USER)
    device = 'mknod -m $0 "$1/fuse" c 10 229 && mount --bind "$1/fuse" /dev/fuse && rm "$1/fuse" && shift && exec "$@"'
    daemon = of_another_user(tmp_path)
    world = daemon.wrap

    def doctor():
        said = subprocess.run([*daemon.wrap, BIN / "cubby", "doctor", "--json"], env=daemon.env, capture_output=True, text=True, timeout=60)
        return next(f for f in json.loads(said.stdout) if f["name"] == "bubblewrap")

    daemon.wrap = ["unshare", "--mount", "sh", "-c", device, "600", str(tmp_path), *world]
    with daemon:
        made = daemon.create()
        said = mount(daemon, made, project, "/project", 400)["message"]
        assert "the host's /dev/fuse cannot be opened, which a mount under bubblewrap needs: Permission denied" in said
        assert doctor()["level"] == "note" and "/dev/fuse" in doctor()["text"] and "chmod" in doctor()["remedy"]
        daemon.stop()
        daemon.wrap[daemon.wrap.index("600")] = "666"
        daemon.start()
        made = daemon.create()
        assert doctor()["level"] == "ok"
        mount(daemon, made, project, "/project")
        run(daemon, made, "cat /project/a.txt && echo mine >/project/b && echo roots >/project/c", user="user")
        run(daemon, made, "echo more >>/project/c", user="root")
        assert {p.name: p.stat().st_uid for p in project.iterdir()} == dict.fromkeys(("a.txt", "b", "c"), USER)
        assert run(daemon, made, "stat -c %U /project/a.txt") == "user\n"
        mount(daemon, made, project, "/look", readOnly=True)
        run(daemon, made, "echo x >/look/a.txt", status=2, user="root")
    shutil.rmtree(project)


def test_none_says_why_not(project):
    with Nested("none") as daemon:
        made = daemon.create()
        refused = mount(daemon, made, project, "/project", 501)["message"]
        assert "the host's own file systems" in refused and "another tier" in refused
        assert daemon.request("POST", "/volumes", {"name": "mine"}).status == 201
        answer = daemon.request("POST", "/sandboxes", {"templateID": "default", "volumeMounts": [{"name": "mine", "path": "/d"}]})
        assert answer.status == 501 and "another tier" in answer.json["message"], answer.body
        assert not os.path.exists("/project")
        daemon.kill(made["sandboxID"])
