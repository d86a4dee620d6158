# SPDX-License-Identifier: Apache-2.0
"""cubby volume, with the real daemon: volumes, and files into them and out of them."""

import json
import os
import pathlib
import stat
import subprocess

import pytest

from cubbyd import Daemon, wait_for
from harness import BIN


@pytest.fixture(name="daemon", scope="module")
def fixture_daemon():
    with Daemon("--max-volume-size", "1M") as running:
        yield running


@pytest.fixture(autouse=True)
def clean(daemon):
    yield
    for volume in daemon.request("GET", "/volumes").json:
        assert daemon.request("DELETE", f"/volumes/{volume['volumeID']}").status == 204


def cubby(daemon, *words, status=0):
    env = dict(os.environ, CUBBY_HOME=str(daemon.home))
    done = subprocess.run([BIN / "cubby", *map(str, words)], env=env, capture_output=True, text=True, timeout=60)
    assert done.returncode == status, (words, done.stdout, done.stderr)
    return done.stderr if status else done.stdout


def data_of(daemon, name):
    (found,) = [v for v in daemon.request("GET", "/volumes").json if v["name"] == name]
    return pathlib.Path(daemon.home) / "volumes" / found["volumeID"] / "data"


def test_their_life(daemon):
    assert cubby(daemon, "volume", "create", "data") == "data\n"
    made = json.loads(cubby(daemon, "volume", "create", "--json", "other"))
    assert made["name"] == "other" and set(made) == {"name", "volumeID"}, "the token is not printed"
    rows = [line.split() for line in cubby(daemon, "volume", "ls").splitlines()]
    assert rows[0] == ["NAME", "VOLUME", "OWNER"] and [r[0] for r in rows[1:]] == ["data", "other"]
    assert [v["name"] for v in json.loads(cubby(daemon, "volume", "ls", "--json"))] == ["data", "other"]
    assert "already" in cubby(daemon, "volume", "create", "data", status=1)
    assert cubby(daemon, "volume", "rm", "data", made["volumeID"]) == f"data\n{made['volumeID']}\n"
    assert 'no volume "data"' in cubby(daemon, "volume", "rm", "data", status=1)
    assert json.loads(cubby(daemon, "volume", "ls", "--json")) == []


def test_files_into_it_and_out(daemon, tmp_path):
    cubby(daemon, "volume", "create", "data")
    source, copy = tmp_path / "source", tmp_path / "copy"
    source.write_bytes(bytes(range(256)) * 1000)
    assert cubby(daemon, "volume", "cp", source, "data:/a/b c/ä") == ""
    assert (data_of(daemon, "data") / "a/b c/ä").read_bytes() == source.read_bytes()
    cubby(daemon, "volume", "cp", source, "data:/a/")
    assert [(f["path"], f["type"]) for f in json.loads(cubby(daemon, "volume", "ls", "--json", "data:/a"))] == [
        ("/a/b c", "directory"), ("/a/source", "file")]
    assert cubby(daemon, "volume", "ls", "data").splitlines()[1].split() == ["/a", "directory"]
    source.write_text("changed")
    assert json.loads(cubby(daemon, "volume", "cp", "--json", source, "data:/a/source")) == {"copied": "data:/a/source"}
    cubby(daemon, "volume", "cp", "data:/a/source", copy)
    assert copy.read_text() == "changed" and stat.S_IMODE(copy.stat().st_mode) == 0o644
    cubby(daemon, "volume", "cp", "data:/a/b c/ä", tmp_path)
    assert (tmp_path / "ä").stat().st_size == 256000
    assert json.loads(cubby(daemon, "volume", "rm", "--json", "data:/a")) == {"removed": "data:/a"}
    assert json.loads(cubby(daemon, "volume", "ls", "--json", "data:/")) == []


def test_failures_leave_nothing(daemon, tmp_path):
    cubby(daemon, "volume", "create", "data")
    big = tmp_path / "big"
    big.write_bytes(bytes(2 << 20))
    assert "--max-volume-size" in cubby(daemon, "volume", "cp", big, "data:/big", status=1)
    assert os.listdir(data_of(daemon, "data")) == []
    kept = tmp_path / "kept"
    kept.write_text("mine")
    assert "nothing" in cubby(daemon, "volume", "cp", "data:/nothing", kept, status=1)
    assert kept.read_text() == "mine" and sorted(os.listdir(tmp_path)) == ["big", "kept"]
    (data_of(daemon, "data") / "out").symlink_to("/etc")
    for words in (("cp", "data:/out/hostname", tmp_path / "x"), ("cp", kept, "data:/out/x"), ("rm", "data:/nothing")):
        cubby(daemon, "volume", *words, status=1)
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize("words, says", [
    ([], "volume takes"), (["create"], "volume takes"), (["cp", "a"], "volume takes"), (["mk", "x"], "volume takes")])
def test_bad_command_lines(daemon, words, says):
    assert says in cubby(daemon, "volume", *words, status=2)


def test_two_files_of_this_host(daemon):
    assert "NAME:/path" in cubby(daemon, "volume", "cp", "a", "b", status=1)


def test_create_with_a_volume(daemon):
    """The tests' driver cannot mount, so the daemon's refusal shows what was asked."""
    assert "NAME:/path" in cubby(daemon, "create", "--volume", "data", status=2)
    assert "volume 'data' not found" in cubby(daemon, "create", "--volume", "data:/data", status=1)
    cubby(daemon, "volume", "create", "data")
    assert "cannot mount a directory" in cubby(daemon, "create", "--volume", "data:/data", status=1)


def test_a_volume_of_another_owner(tmp_path):
    """On the unix socket all volumes are seen. A name means the caller's own; another owner's is named by its id."""
    with Daemon("--listen", "127.0.0.1:0") as daemon:
        key = cubby(daemon, "key", "new", "--plain", "tenant").strip()
        url = (daemon.home / "cubbyd.url").read_text().strip()
        theirs = ["--backend", url, "--api-key", key]
        wait_for(lambda: subprocess.run([BIN / "cubby", "volume", "create", *theirs, "data"], capture_output=True, check=False,
                                        timeout=60).returncode == 0, 30, "the key is known")
        assert 'no volume "data"' in cubby(daemon, "volume", "rm", "data", status=1)
        ((theirs_id, owner),) = [(v["volumeID"], v["owner"]) for v in json.loads(cubby(daemon, "volume", "ls", "--json"))]
        assert owner == "tenant"
        (tmp_path / "f").write_text("mine")
        cubby(daemon, "volume", "create", "data")
        cubby(daemon, "volume", "cp", tmp_path / "f", "data:/f")
        assert json.loads(cubby(daemon, "volume", "ls", "--json", f"{theirs_id}:/")) == []
        assert json.loads(cubby(daemon, "volume", "ls", "--json", *theirs)) == [{"volumeID": theirs_id, "name": "data"}]
        cubby(daemon, "volume", "rm", "data")
        assert [v["volumeID"] for v in daemon.request("GET", "/volumes").json] == [theirs_id]
        cubby(daemon, "volume", "rm", theirs_id)
