# SPDX-License-Identifier: Apache-2.0
"""cubby ssh-config: what it prints and writes, as OpenSSH itself reads it. tests/e2e/test_ssh.py connects."""

import concurrent.futures
import os
import pathlib
import pwd
import stat
import subprocess
import tempfile

import pytest

from fake_cubbyd import ID, FakeDaemon, listed

CUBBY = pathlib.Path(os.environ["BIN"]) / "cubby"
ME = pwd.getpwuid(os.getuid()).pw_name
MINE = "# mine\nHost old\n    Port 2222\nHost *\n    User somebody\n    StrictHostKeyChecking no\n"


@pytest.fixture
def home():
    with tempfile.TemporaryDirectory(prefix="cubby-test-") as place:  # a short name: sockets are below it
        yield pathlib.Path(place) / "a home's 100%"


def run(home, *words, status=0, **env):
    env = {k: v for k, v in {**os.environ, "CUBBY_HOME": str(home), **env}.items() if not k.startswith("E2B_")}
    done = subprocess.run([CUBBY, *words], env=env, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)
    assert done.returncode == status, (words, done.stdout, done.stderr)
    return done.stdout if status == 0 else done.stdout + done.stderr


def read_by_ssh(config, host):
    """What ssh does for a host, as {option: value}."""
    done = subprocess.run(["ssh", "-G", "-F", config, host], capture_output=True, text=True, check=True)
    return dict(line.split(" ", 1) for line in done.stdout.splitlines() if " " in line)


def test_the_entry_as_ssh_reads_it(home, tmp_path):
    (tmp_path / "config").write_text(run(home, "ssh-config"))
    told = read_by_ssh(tmp_path / "config", "root@x.cubby")
    assert told["user"] == "root" and read_by_ssh(tmp_path / "config", "x.cubby")["user"] == "user"
    assert told["stricthostkeychecking"] == "true" and told["identitiesonly"] == "yes"
    assert told["forwardagent"] == told["forwardx11"] == told["updatehostkeys"].replace("false", "no") == "no"
    assert told["identityagent"] == "none" and told["preferredauthentications"] == "publickey"
    assert told["globalknownhostsfile"] == "/dev/null"
    # -G shows the words as they are in the file: ssh replaces %% later.
    assert told["identityfile"].replace("%%", "%") == f"{home}/ssh/id"
    assert told["pubkeyacceptedalgorithms"] == "ssh-ed25519-cert-v01@openssh.com"
    assert told["userknownhostsfile"].replace("%%", "%") == f"{home}/ssh/known_hosts"
    command = told["proxycommand"].replace("%%", "%").replace("%r", "root").replace("%h", "x.cubby")
    words = subprocess.run(["sh", "-c", f"printf '%s\\n' {command}"], capture_output=True, text=True).stdout.splitlines()
    assert words == ["env", f"CUBBY_HOME={home}", str(CUBBY), "ssh-proxy", "--backend", "local", "--user", "root",
                     "x.cubby"]
    assert "cubby" not in read_by_ssh(tmp_path / "config", "example.org").get("proxycommand", "")


def test_a_remote_backend_is_named_without_its_key(home):
    entry = run(home, "ssh-config", "--backend", "https://example.org", "--api-key", "e2b_secret", "--dialect", "cubbyd")
    assert "--backend 'https://example.org'" in entry and "--dialect 'cubbyd'" in entry
    assert "secret" not in entry and "--backend local" not in entry


def test_keys_are_private_and_made_once(home):
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(lambda _: run(home, "ssh-config"), range(8)))) == 1
    keys = home / "ssh"
    assert sorted(p.name for p in keys.iterdir()) == ["ca", "ca.pub", "id", "id-cert.pub", "id.pub", "known_hosts"]
    assert [p.name for p in home.iterdir()] == ["ssh"]
    assert stat.S_IMODE(keys.stat().st_mode) == 0o700
    assert {stat.S_IMODE((keys / name).stat().st_mode) for name in ("ca", "id", "known_hosts")} == {0o600}
    before = (keys / "id").read_bytes()
    run(home, "ssh-config")
    assert (keys / "id").read_bytes() == before
    assert (keys / "known_hosts").read_text() == "@cert-authority * " + (keys / "ca.pub").read_text()


# ---- --write
def test_write_shows_first_and_keeps_what_is_there(home, tmp_path):
    file = tmp_path / "dot ssh/config"
    file.parent.mkdir()
    file.write_text(MINE)
    file.chmod(0o644)
    said = run(home, "ssh-config", "--write", "--file", str(file), status=1)
    assert "Host *.cubby" in said and "+ Include" in said and "Nothing was written" in said
    assert file.read_text() == MINE and not (home / "ssh/config").exists()
    run(home, "ssh-config", "--write", "--yes", "--file", str(file))
    written = file.read_text()
    include = f'Include "{home}/ssh/config"'.replace("%", "%%")
    assert written == f"{include}\n\n{MINE}" and stat.S_IMODE(file.stat().st_mode) == 0o644
    assert stat.S_IMODE((home / "ssh/config").stat().st_mode) == 0o600
    assert "has the entry already" in run(home, "ssh-config", "--write", "--file", str(file))
    assert file.read_text() == written


def test_written_entries_win_over_those_of_the_user(tmp_path):
    home, file = tmp_path / "home", tmp_path / "config"
    file.write_text(MINE)
    run(home, "ssh-config", "--write", "--yes", "--file", str(file))
    assert read_by_ssh(file, "x.cubby")["stricthostkeychecking"] == "true"
    assert read_by_ssh(file, "x.cubby")["user"] == "user"
    assert (read_by_ssh(file, "old")["port"], read_by_ssh(file, "other")["user"]) == ("2222", "somebody")


def test_write_makes_a_missing_file_for_its_owner_only(home, tmp_path):
    file = tmp_path / "none/config"
    run(home, "ssh-config", "--write", "--yes", "--file", str(file))
    assert stat.S_IMODE(file.stat().st_mode) == 0o600 and stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    link = tmp_path / "link"
    link.symlink_to(file)
    assert "already" in run(home, "ssh-config", "--write", "--yes", "--file", str(link)) and link.is_symlink()


# ---- one sandbox
def test_one_sandbox(tmp_path):
    fake = FakeDaemon()
    try:
        fake.init(defaultUser=ME)
        fake.sandboxes[ID] = listed(ID)
        (tmp_path / "config").write_text(run(fake.home, "ssh-config", ID[:6], "--name", "box"))
        told = read_by_ssh(tmp_path / "config", "box")
        assert told["user"] == ME and told["proxycommand"].endswith(f"--user '%r' --name '%h' '{ID}'")
        assert f"Host {ID}\n" in run(fake.home, "ssh-config", ID)
        assert "no sandbox" in run(fake.home, "ssh-config", "zz", status=1)
        for name in ("a b", "-x", "*", "A", ""):
            assert "name for ssh" in run(fake.home, "ssh-config", ID, f"--name={name}", status=2)
    finally:
        fake.close()


@pytest.mark.parametrize("words, said", [
    (["--write", "x"], "takes no id"), (["--yes"], "belong to --write"), (["--name", "x"], "belongs to the id"),
    (["a", "b"], "takes the id of one sandbox")])
def test_wrong_usage(home, words, said):
    assert said in run(home, "ssh-config", *words, status=2)


def test_a_proxy_without_keys(tmp_path):
    """Another home's configuration, or a directory that was removed."""
    fake = FakeDaemon()
    try:
        fake.init(defaultUser=ME)
        fake.sandboxes[ID] = listed(ID)
        fake.init(defaultUser=ME, envVars={"PATH": f"{tmp_path}:/usr/bin:/bin"})
        (tmp_path / "sshd").write_text("#!/bin/sh\n")
        (tmp_path / "sshd").chmod(0o755)
        assert "run cubby ssh-config first" in run(fake.home, "ssh-proxy", f"{ID}.cubby", status=1)
    finally:
        fake.close()


def test_a_path_that_ssh_cannot_hold(tmp_path):
    assert "set CUBBY_HOME" in run(tmp_path / 'a"b', "ssh-config", status=1)
