# SPDX-License-Identifier: Apache-2.0
"""--json: which verbs have it, and what those print that say little else."""

import json
import os
import pathlib
import re
import subprocess

import pytest

from cubbyd import Daemon

CUBBY = pathlib.Path(os.environ["BIN"]) / "cubby"
# Their output is a command's, a page's or a protocol's, or it is a configuration.
WITHOUT = {"exec", "run", "shell", "top", "web", "git-remote", "ssh-proxy", "setup", "ssh-config", "fleet"}
PARTS = {"template": ["build", "ls", "rm", "import", "export", "unpack", "finish", "gc"], "snapshot": ["ls", "rm", "export", "import"],
         "daemon": ["status", "stop"]}


def run(env, *words, status=0):
    done = subprocess.run([CUBBY, *words], env=env, capture_output=True, text=True, timeout=120)
    assert done.returncode == status, (words, done.stdout, done.stderr)
    return done.stdout


def test_every_verb_has_it():
    verbs = re.findall(r"^  ([a-z-]+) ", run(None, "--help"), re.M)
    assert WITHOUT < set(verbs) and len(verbs) > 30
    texts = {verb: run(None, verb, "--help") for verb in verbs if verb not in PARTS}
    texts |= {f"{verb} {part}": run(None, verb, part, "--help") for verb, parts in PARTS.items() for part in parts}
    assert {verb for verb, text in texts.items() if "--json" not in text} == WITHOUT


@pytest.fixture
def daemon():
    with Daemon("--pool", "off") as running:
        yield running


def test_snapshots_and_the_network(daemon):
    made = daemon.create()["sandboxID"]
    snapshot = json.loads(run(daemon.env, "snapshot", "--json", made))["snapshotID"]
    assert json.loads(run(daemon.env, "snapshot", "rm", "--json", snapshot)) == {"snapshotID": snapshot}
    told = json.loads(run(daemon.env, "network", "--json", "--allow", "example.org:443", made))
    assert told["policy"]["mode"] == "allow" and told["policy"]["allow"] == ["example.org:443"]
    assert run(daemon.env, "network", "--network", "none", made) == ""


def test_templates(daemon):
    daemon.template("one")
    daemon.template("two")
    printed = run(daemon.env, "template", "rm", "--json", "one", "two").splitlines()
    assert [json.loads(line) for line in printed] == [{"template": "one"}, {"template": "two"}]


def test_the_daemon(daemon):
    daemon.create()
    told = json.loads(run(daemon.env, "daemon", "status", "--json"))
    assert told == {"state": "running", "home": daemon.env["CUBBY_HOME"], "url": None, "sandboxes": 1}


def test_no_daemon(tmp_path):
    env = {**os.environ, "CUBBY_HOME": str(tmp_path / "home")}
    assert json.loads(run(env, "daemon", "status", "--json", status=1)) == {"state": "none", "home": env["CUBBY_HOME"]}
    assert json.loads(run(env, "daemon", "stop", "--json")) == {"result": "does not run"}
