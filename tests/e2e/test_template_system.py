# SPDX-License-Identifier: Apache-2.0
"""Templates of the system: root builds one, and another user's daemon runs it in every tier without writing to it."""

import json
import os
import pathlib
import shutil
import stat
import subprocess
import tempfile

import pytest

from cubbyd import Shipped
from harness import BIN, TEST_HOME
from jail_peer import AS_USER, USER
from nest_world import Nested
from oci_image import Layout, busybox_layer, file
from test_nest import BWRAP, NEWUIDMAP, WORLD

pytestmark = pytest.mark.timeout(900)  # a build takes minutes on a busy host


def cubby(env, *words, wrap=(), timeout=600):
    return subprocess.run([*wrap, BIN / "cubby", *words], env=env, capture_output=True, text=True, timeout=timeout,
                          stdin=subprocess.DEVNULL)


@pytest.fixture(scope="module")
def system(tmp_path_factory):
    """The directory of the system, with a template that root has built there, and root's own environment."""
    place = pathlib.Path(tempfile.mkdtemp(prefix="cubby-system-", dir="/var/tmp"))
    place.chmod(0o755)
    home = place / "root"
    (home / "cache/apt").mkdir(parents=True, mode=0o700)
    for package in (TEST_HOME / "cache/apt").glob("linux-image-*.deb"):
        shutil.copy(package, home / "cache/apt")
    layout = Layout(tmp_path_factory.mktemp("image") / "small")
    image = layout.write([busybox_layer("/usr/bin/busybox"), [file("greeting", "hello\n")]],
                         {"Env": ["PATH=/bin", "GREETING=hello"]})
    env = dict(os.environ, CUBBY_HOME=str(home), CUBBY_SYSTEM_TEMPLATES=str(place / "templates"))
    before = os.umask(0o077)  # as of a careful root: the template is readable all the same
    try:
        built = cubby(env, "template", "build", "small", "--system", "--from", image, "--json")
    finally:
        os.umask(before)
    assert built.returncode == 0, built.stderr
    assert not (home / "templates").exists() and json.loads(built.stdout)["place"] == "system"
    yield place / "templates", env
    shutil.rmtree(place)


def state_of(place):
    """All that a write to the directory would change."""
    found = {}
    for path in (place, *place.rglob("*")):
        st = path.lstat()
        found[str(path)] = (st.st_mode, st.st_uid, st.st_size, st.st_mtime_ns, st.st_ctime_ns, st.st_ino)
    return found


def own(daemon, system):
    """Give the daemon's home to the tests' user. It has no template."""
    (daemon.home / "templates").unlink()
    daemon.env["CUBBY_SYSTEM_TEMPLATES"] = str(system)
    os.chown(daemon.home, USER, USER)
    daemon.wrap = AS_USER
    return daemon


def test_a_dockerfile_makes_one(system, tmp_path):
    """Its base is a template of the system. The layers stay in root's home; another user reads the result."""
    templates, env = system
    (tmp_path / "Dockerfile").write_text("FROM small\nENV GREETING=made\nRUN echo by root >/note\n")
    build = ("template", "build", "made", "--system", "-f", str(tmp_path / "Dockerfile"), "--json")
    try:
        built = cubby(env, *build)
        assert built.returncode == 0, (built.stdout[-2000:], built.stderr)
        done = json.loads(built.stdout.splitlines()[-1])["template"]
        assert done["place"] == "system" and (templates / "made/template.json").exists()
        assert not (pathlib.Path(env["CUBBY_HOME"]) / "templates/made").exists()
        again = [json.loads(line) for line in cubby(env, *build).stdout.splitlines()]
        assert [e["event"] for e in again] == ["start", "done"], "nothing has changed"
        assert again[-1]["template"]["created_at"] == done["created_at"]
        with own(Shipped("--pool", "off", tier="microvm"), templates) as daemon:
            made = daemon.create(templateID="made")
            assert daemon.command(made, "cat /note; echo $GREETING") == (0, b"by root\nmade\n")
    finally:
        cubby(env, "daemon", "stop")
        cubby(env, "template", "rm", "--system", "made")


def test_everybody_may_read_it_and_only_root_write(system):
    for path in (system[0], *system[0].rglob("*")):
        st = path.stat()
        assert st.st_uid == 0 and stat.S_IMODE(st.st_mode) == (0o755 if path.is_dir() else 0o644), path


@pytest.mark.parametrize("tier", ["microvm", "gvisor"])
def test_another_user_runs_it(system, tier):
    """Also from a snapshot, asleep, and with another size. The template's directory stays as it is."""
    before = state_of(system[0])
    with own(Shipped("--pool", "off", tier=tier), system[0]) as daemon:
        (listed,) = daemon.request("GET", "/templates").json
        made = daemon.create(templateID="small")
        assert daemon.command(made, "cat /greeting; echo $GREETING; id -un") == (0, b"hello\nhello\nuser\n")
        assert daemon.command(made, "echo mine >/greeting", "root")[0] == 0
        snapshot = daemon.request("POST", f"/sandboxes/{made['sandboxID']}/snapshots", {}).json["snapshotID"]
        assert daemon.request("POST", f"/sandboxes/{made['sandboxID']}/pause", {}).status == 204
        assert daemon.request("POST", f"/sandboxes/{made['sandboxID']}/connect", {"timeout": 300}).status in (200, 201)
        assert daemon.command(made, "cat /greeting") == (0, b"mine\n")
        other = daemon.create(templateID=snapshot)
        assert daemon.command(other, "cat /greeting") == (0, b"mine\n")
        larger = daemon.create(templateID="small", memoryMB=768)
        assert daemon.command(larger, "cat /greeting") == (0, b"hello\n")
        used = json.loads(cubby(daemon.env, "template", "ls", "--json", wrap=AS_USER).stdout)[0]
        assert (used["name"], used["place"], used["dir"]) == ("small", "system", str(system[0] / "small"))
        assert used["last_used"] > listed["createdAt"][:19] and listed["templateID"] == "small"
        for one in made, other, larger:
            daemon.kill(one["sandboxID"])
    assert state_of(system[0]) == before


def test_none_runs_beside_it(system):
    with own(Nested("none"), system[0]) as daemon:
        made = daemon.create(templateID="small")
        assert daemon.command(made, "id -u") == (0, b"%d\n" % USER)


@BWRAP
@NEWUIDMAP
def test_bubblewrap_unpacks_it_into_the_home(system, tmp_path):
    before = state_of(system[0])
    daemon = own(Nested("bubblewrap"), system[0])
    daemon.wrap = ["unshare", "--mount", "sh", "-c", WORLD, "sh", str(tmp_path), str(USER), *AS_USER]
    unpacked = cubby(daemon.env, "template", "unpack", "small", wrap=daemon.wrap)
    assert unpacked.returncode == 0, unpacked.stderr
    try:
        with daemon:
            made = daemon.create(templateID="small")
            assert daemon.command(made, "cat /greeting") == (0, b"hello\n")
            daemon.kill(made["sandboxID"])
        assert state_of(system[0]) == before
    finally:
        shutil.rmtree(daemon.home, ignore_errors=True)


def test_a_template_of_the_home_goes_before_it_and_its_snapshots_stay(system, tmp_path):
    """A user's own template of the same name is another build. What was made from the system's goes on with that."""
    with own(Shipped("--pool", "off", tier="microvm"), system[0]) as daemon:
        made = daemon.create(templateID="small")
        daemon.command(made, "echo kept >/tmp/note")
        snapshot = daemon.request("POST", f"/sandboxes/{made['sandboxID']}/snapshots", {}).json["snapshotID"]
        where = daemon.home / "templates/small"
        subprocess.run(["cp", "-r", "--sparse=always", system[0] / "small", tmp_path / "copy"], check=True)
        facts = json.loads((tmp_path / "copy/template.json").read_text())
        (tmp_path / "copy/template.json").write_text(json.dumps({**facts, "created_at": "2026-01-01T00:00:00Z",
                                                                 "environment": {"variables": {"GREETING": "own"}}}))
        where.parent.mkdir()
        shutil.move(tmp_path / "copy", where)
        for path in (where.parent, where, *where.rglob("*")):
            os.chown(path, USER, USER)
        mine = daemon.create(templateID="small")
        assert daemon.command(mine, "echo $GREETING") == (0, b"own\n")
        again = daemon.create(templateID=snapshot)
        assert daemon.command(again, "cat /tmp/note") == (0, b"kept\n")
        places = json.loads(cubby(daemon.env, "template", "ls", "--json", wrap=AS_USER).stdout)
        assert [(one["name"], one["place"]) for one in places] == [("small", "home")]
        for one in made, mine, again:
            daemon.kill(one["sandboxID"])


def test_only_root_removes_it(system):
    """The last test: a user cannot, and root says that it is meant."""
    place, env = system
    home = pathlib.Path(tempfile.mkdtemp(prefix="cubby-test-"))
    os.chown(home, USER, USER)
    theirs = dict(env, CUBBY_HOME=str(home))
    refused = cubby(theirs, "template", "rm", "small", wrap=AS_USER)
    assert refused.returncode == 1 and "belongs to the system" in refused.stderr, refused
    refused = cubby(theirs, "template", "rm", "--system", "small", wrap=AS_USER)
    assert refused.returncode == 1 and "as root" in refused.stderr, refused
    refused = cubby(theirs, "template", "build", "mine", "--system", wrap=AS_USER)
    assert refused.returncode == 1 and "as root" in refused.stderr, refused
    assert cubby(env, "template", "rm", "small").returncode == 1 and (place / "small").exists()
    assert cubby(env, "template", "rm", "--system", "small").returncode == 0 and not (place / "small").exists()
    shutil.rmtree(home)
