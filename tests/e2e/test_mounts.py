# SPDX-License-Identifier: Apache-2.0
"""A directory of the host in a real sandbox: what both sides see, and what the mount survives."""

import json
import os
import signal
import subprocess

import pytest

from cubbyd import Shipped, wait_for
from harness import BIN
from tiers import tier  # noqa: F401


@pytest.fixture(scope="module")
def daemon(tier):  # noqa: F811
    with Shipped(tier=tier) as d:
        yield d


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    path = tmp_path_factory.mktemp("project")
    (path / "a.txt").write_text("from the host\n")
    (path / ".env").write_text("SECRET=1\n")
    (path / ".git").mkdir()
    (path / ".git" / "config").write_text("[core]\n")
    return path


@pytest.fixture(scope="module")
def made(daemon, project):
    sandbox = daemon.create(timeout=900)
    mount(daemon, sandbox, project, "/project")
    return sandbox


def url(sandbox, what):
    return f"/sandboxes/{sandbox['sandboxID']}/{what}"


def mount(daemon, sandbox, source, target, status=201, **more):
    body = {"source": str(source), "target": target, **more}
    answer = daemon.request("POST", url(sandbox, "mounts"), body, timeout=90)
    assert answer.status == status, answer.body
    return answer.json


def run(daemon, sandbox, command, status=0, user="user"):
    code, text = daemon.command(sandbox, f"exec 2>&1; {command}", user=user)
    assert code == status, (command, code, text)
    return text.decode(errors="surrogateescape")


def reads(daemon, sandbox, path):
    """The file's text once the guest has it: what it remembers of the host lasts less than a second."""
    return wait_for(lambda: daemon.command(sandbox, f"cat {path} 2>/dev/null")[1], 60, path).decode()


def test_git_trusts_an_index_of_the_host(daemon, made, tier, tmp_path):  # noqa: F811
    """Otherwise it would read every file, and write the index so that the host's git reads every file again."""
    if tier == "gvisor":
        pytest.skip("its kernel cannot map files of a mount, so git does not work there")
    (tmp_path / "old.txt").write_text("committed\n")
    os.utime(tmp_path / "old.txt", (1_700_000_000, 1_700_000_000))  # git reads a file again that is as new as its index
    for words in (["init", "-q"], ["add", "."], ["-c", "user.name=t", "-c", "user.email=t@localhost", "commit", "-qm", "one"]):
        subprocess.run(["git", "-C", tmp_path, *words], check=True)
    index = (tmp_path / ".git" / "index").read_bytes()
    mount(daemon, made, tmp_path, "/repository")
    assert run(daemon, made, "git -C /repository status --porcelain") == ""
    assert (tmp_path / ".git" / "index").read_bytes() == index
    assert daemon.request("DELETE", url(made, "mounts?target=/repository")).status == 204
    wait_for(lambda: "/repository" not in run(daemon, made, "cat /proc/mounts"), 60, "unmounted")


def test_both_sides_see_the_same(daemon, made, project):
    assert run(daemon, made, "cat /project/a.txt") == "from the host\n"
    assert run(daemon, made, "stat -c '%U %a' /project/a.txt") == "user 644\n"
    run(daemon, made, "mkdir -p /project/d/e && echo guest >/project/d/e/f && mv /project/d/e /project/g "
                      "&& ln /project/g/f /project/h && ln -s h /project/l && chmod 700 /project/h")
    assert (project / "g" / "f").read_text() == "guest\n" and os.readlink(project / "l") == "h"
    assert (project / "h").stat().st_mode & 0o7777 == 0o700
    assert (project / "h").stat().st_uid == project.stat().st_uid
    (project / "new").write_text("later\n")
    assert reads(daemon, made, "/project/new") == "later\n"
    (project / "new").write_text("changed")
    wait_for(lambda: run(daemon, made, "cat /project/new") == "changed", 60, "the change")
    run(daemon, made, "rm -r /project/d /project/g /project/h /project/l /project/new")
    assert sorted(os.listdir(project)) == [".env", ".git", "a.txt"]


def test_what_is_hidden_stays_on_the_host(daemon, made, project):
    assert run(daemon, made, "ls -A /project; ls -A /project/.git") == ".git\na.txt\n"
    for command in ("cat /project/.env", "echo x >/project/.env", "mv /project/.git /project/x",
                    "cat /project/.git/config", "mv /project/a.txt /project/.env.local",
                    "mkdir -p /project/.git/hooks", "echo '!.env' >/project/.cubbyignore"):
        assert daemon.command(made, command)[0] != 0, command
    assert (project / ".env").read_text() == "SECRET=1\n"
    assert sorted(os.listdir(project)) == [".env", ".git", "a.txt"]


def test_a_link_leads_nowhere_on_the_host(daemon, made, project):
    (project / "out").symlink_to("/etc/hostname")
    guest = run(daemon, made, "cat /etc/hostname")
    wait_for(lambda: daemon.command(made, "cat /project/out")[1].decode() == guest, 60, "the guest's own")
    assert run(daemon, made, "mkfifo /project/p || echo refused").endswith("refused\n")
    os.unlink(project / "out")


def test_names_and_sizes(daemon, made, project):
    name = os.fsencode(project) + b"/caf\xe9"
    with open(name, "wb") as file:
        file.write(b"latin")
    assert reads(daemon, made, "$(printf '/project/caf\\351')") == "latin"
    os.unlink(name)
    size = (1 if daemon.tier == "gvisor" else 3) << 30  # gVisor's kernel opens no larger file than 2 GiB
    run(daemon, made, f"truncate -s {size} /project/sparse && printf end | "
                      f"dd of=/project/sparse bs=1 seek={size - 3} conv=notrunc")
    state = (project / "sparse").stat()
    assert state.st_size == size and state.st_blocks < 2048
    with open(project / "sparse", "rb") as file:
        file.seek(size - 3)
        assert file.read() == b"end"
    os.unlink(project / "sparse")
    (project / "many").mkdir()
    for i in range(1500):
        (project / "many" / f"{i}").touch()
    wait_for(lambda: run(daemon, made, "ls /project/many | wc -l") == "1500\n", 60, "all names")
    run(daemon, made, "rm -r /project/many")


# A file has one number, however and whenever it is asked for: cp takes another one for another file. The guest's
# kernel forgets what it knows of a file several times meanwhile.
SAME_FILE = """import os, time
numbers, end = set(), time.monotonic() + 3
while time.monotonic() < end:
    with open("/project/a.txt") as file:
        numbers |= {os.lstat("/project/a.txt").st_ino, os.fstat(file.fileno()).st_ino}
print(len(numbers))
"""


def test_a_file_is_the_same_one(daemon, made):
    assert run(daemon, made, f"python3 -c '{SAME_FILE}'") == "1\n"


def test_read_only(daemon, made, project):
    mount(daemon, made, project, "/look", readOnly=True)
    assert run(daemon, made, "cat /look/a.txt") == "from the host\n"
    assert "Read-only" in run(daemon, made, "echo x >/look/b", status=2)
    run(daemon, made, "echo two >/project/two")  # the same directory, mounted twice
    assert reads(daemon, made, "/look/two") == "two\n"
    shown = daemon.request("GET", url(made, "mounts")).json
    assert [(m["target"], m["readOnly"]) for m in shown] == [("/project", False), ("/look", True)]
    assert daemon.request("DELETE", url(made, "mounts?target=/look")).status == 204
    wait_for(lambda: "/look" not in run(daemon, made, "cat /proc/mounts"), 60, "unmounted")
    assert daemon.request("DELETE", url(made, "mounts?target=/look")).status == 404
    run(daemon, made, "rm /project/two")


# Writes on, through one open file, what it reads from a pipe.
WRITER = ("rm -f /tmp/in; mkfifo /tmp/in; (exec 3<>/tmp/in; exec 4>>/project/log; "
          "while read -r line <&3; do echo $line >&4; done) >/dev/null 2>&1 &")


def test_an_open_file_survives_sleep_and_a_new_daemon(daemon, made, project):
    run(daemon, made, WRITER)
    run(daemon, made, "echo one >/tmp/in")
    log = project / "log"
    wait_for(lambda: log.exists() and log.read_text() == "one\n", 60, "the first line")
    answer = daemon.request("POST", url(made, "pause"), {"depth": "hibernate"}, timeout=120)
    assert answer.status == 204, answer.body
    (project / "a.txt").write_text("changed in its sleep\n")
    answer = daemon.request("POST", url(made, "resume"), {"timeout": 900}, timeout=120)
    assert answer.status == 201, answer.body
    run(daemon, made, "echo two >/tmp/in")
    wait_for(lambda: log.read_text() == "one\ntwo\n", 60, "the second line")
    wait_for(lambda: run(daemon, made, "cat /project/a.txt") == "changed in its sleep\n", 60, "the change")
    daemon.stop(signal.SIGKILL)
    daemon.start()
    run(daemon, made, "echo three >/tmp/in")
    wait_for(lambda: log.read_text() == "one\ntwo\nthree\n", 60, "the third line")
    (project / "a.txt").write_text("from the host\n")
    run(daemon, made, "rm /project/log")


def test_a_fork_has_its_own_or_none(daemon, made, project):
    for mounts in ("same", "none"):
        answer = daemon.request("POST", url(made, "fork"), {"timeout": 600, "mounts": mounts}, timeout=120)
        assert answer.status == 201, answer.body
        child = answer.json[0]["sandbox"]
        if mounts == "same":
            run(daemon, child, "echo child >/project/child")
            assert (project / "child").read_text() == "child\n"
        else:
            wait_for(lambda: "/project" not in run(daemon, child, "cat /proc/mounts"), 60, "unmounted")
            assert daemon.request("GET", url(child, "mounts")).json == []
        daemon.kill(child["sandboxID"])
    # The parent sees within a second what its child made.
    wait_for(lambda: daemon.command(made, "rm /project/child")[0] == 0, 60, "the file is seen, and removed")


def test_rollback_to_before_the_mount(daemon, project):
    sandbox = daemon.create(timeout=900)
    answer = daemon.request("POST", url(sandbox, "snapshots"), {}, timeout=120)
    assert answer.status == 201, answer.body
    mount(daemon, sandbox, project, "/project")
    rolled = daemon.request("POST", url(sandbox, "rollback"), {"snapshotID": answer.json["snapshotID"]},
                            timeout=120)
    assert rolled.status == 200, rolled.body
    assert reads(daemon, sandbox, "/project/a.txt") == "from the host\n"
    daemon.kill(sandbox["sandboxID"])
    assert daemon.request("DELETE", f"/templates/{answer.json['snapshotID']}").status == 204


def test_refusals(daemon, made, project):
    for source, target, status, words in [
            (project / "none", "/x", 404, "No such file"), (project / "a.txt", "/x", 400, "no directory"),
            ("relative", "/x", 400, "absolute"), (project, "/project/../x", 400, "plain"),
            (project, "/etc", 400, "guest itself"), (project, "/project", 409, "already"),
            (project, "/project/sub", 409, "lies below")]:
        assert words in mount(daemon, made, source, target, status)["message"]


def test_a_directory_that_is_removed(daemon, made, tmp_path):
    gone = tmp_path / "gone"
    gone.mkdir()
    mount(daemon, made, gone, "/gone")
    run(daemon, made, "echo x >/gone/x; rm /gone/x")
    gone.rmdir()
    wait_for(lambda: daemon.command(made, "echo x >/gone/y")[0] != 0, 60, "an error")
    assert run(daemon, made, "echo fine >/project/fine; cat /project/fine; rm /project/fine") == "fine\n"
    assert daemon.request("DELETE", url(made, "mounts?target=/gone")).status == 204


def cubby(daemon, *words, status=0):
    env = dict(os.environ, CUBBY_HOME=str(daemon.home), CUBBY_TIER=daemon.tier)
    done = subprocess.run([BIN / "cubby", *map(str, words)], env=env, capture_output=True, text=True, timeout=120)
    assert done.returncode == status, (words, done.stderr)
    return done.stdout if status == 0 else done.stderr


def test_an_end_leaves_no_descriptor(daemon, made, tmp_path):
    def turn():
        mount(daemon, made, tmp_path, "/for-a-while")
        assert daemon.request("DELETE", url(made, "mounts?target=/for-a-while")).status == 204
        wait_for(lambda: "/for-a-while" not in run(daemon, made, "cat /proc/mounts"), 60, "it is unmounted")

    turn()
    before = daemon.fds()
    for _ in range(4):
        turn()
    wait_for(lambda: daemon.fds() <= before, 30, "the daemon holds no more than before")


def test_a_target_that_leads_into_another_mount(daemon, made, project, tmp_path):
    run(daemon, made, "ln -s /project /again", user="root")
    for target in ("/again", "/again/below"):
        assert "leads into another mount" in mount(daemon, made, tmp_path, target, 400)["message"]
    assert run(daemon, made, "cat /project/a.txt") == "from the host\n" and not (project / "below").exists()


@pytest.mark.only_in("microvm", reason="gVisor does not tell the number of a mount")
def test_an_end_takes_no_other_mount_away(daemon, made, tmp_path):
    """Root of the guest put another file system over it."""
    mount(daemon, made, tmp_path, "/covered")
    run(daemon, made, "mount -t tmpfs none /covered && touch /covered/mine", user="root")
    pids = run(daemon, made, "pgrep mountfs").split()
    assert daemon.request("DELETE", url(made, "mounts?target=/covered")).status == 204
    wait_for(lambda: len(daemon.command(made, "pgrep mountfs")[1].split()) < len(pids), 60, "its program ended")
    assert run(daemon, made, "ls /covered") == "mine\n"
    run(daemon, made, "umount /covered && umount /covered", user="root")


def test_the_command_line(daemon, project):
    ident = cubby(daemon, "create", "--mount", f"{project}:/project", "--mount", f"{project}:/look:ro").strip()
    assert cubby(daemon, "exec", ident, "--", "cat", "/look/a.txt") == "from the host\n"
    listed = json.loads(cubby(daemon, "mount", "--json", ident))
    assert [(m["source"], m["target"], m["readOnly"]) for m in listed] == [
        (str(project), "/project", False), (str(project), "/look", True)]
    cubby(daemon, "mount", "--remove", ident, "/look")
    table = cubby(daemon, "mount", ident).splitlines()
    assert table[0].split() == ["TARGET", "DIRECTORY", "ACCESS", "STATE"] and len(table) == 2
    assert "already" in cubby(daemon, "mount", ident, f"{project}:/project", status=1)
    assert "DIR:/path" in cubby(daemon, "mount", ident, "nothing", status=1)
    for which, kept in (("same", 1), ("volumes", 0), ("none", 0)):
        child = cubby(daemon, "fork", "--mounts", which, ident).strip()
        assert len(json.loads(cubby(daemon, "mount", "--json", child))) == kept
        cubby(daemon, "kill", child)
    assert "mounts must be" in cubby(daemon, "fork", "--mounts", "all", ident, status=1)
    cubby(daemon, "kill", ident)
    before = len(daemon.request("GET", "/v2/sandboxes").json)
    assert "cannot be mounted" in cubby(daemon, "create", "--mount", f"{project}/none:/x", status=1)
    assert len(daemon.request("GET", "/v2/sandboxes").json) == before, "no sandbox is left"
