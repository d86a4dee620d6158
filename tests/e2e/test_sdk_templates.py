# SPDX-License-Identifier: Apache-2.0
"""E2B's template builder against real builds: its Python and JavaScript SDKs and its command line, unmodified."""

import json
import os
import re
import shutil
import subprocess

import pytest
from harness import TEST_HOME
from sdk import CLIENTS, NODE, OURS, TESTS, RealGuests

PYTHON = CLIENTS / "e2b/bin/python"
PAGE = "<p>a page</p>\n"
SECONDS = 1500


class Builders(RealGuests):
    """Its key may build, and its templates are its own."""

    def __init__(self):
        # The part for gVisor takes half a minute of each build; test_build.py has it.
        super().__init__("--pool", "off", tier="microvm", env={"CUBBY_RUNSC": "/nowhere/runsc"})
        keys = json.loads((self.home / "keys.json").read_text())
        keys["tokens"][0]["max_builds"] = 4
        (self.home / "keys.json").write_text(json.dumps(keys))

    def templates(self):
        (self.home / "templates").mkdir()
        shutil.copytree(TEST_HOME / "templates/default", self.home / "templates/default", symlinks=True,
                        copy_function=os.link)


pytestmark = pytest.mark.timeout(900)  # whole builds


@pytest.fixture(scope="module")
def daemon():
    with Builders() as running:
        yield running


@pytest.fixture(scope="module")
def context(tmp_path_factory):
    where = tmp_path_factory.mktemp("context")
    (where / "site").mkdir()
    (where / "site/page.html").write_text(PAGE)
    (where / "page.html").write_text(PAGE)
    return where


def run(daemon, *words, cwd=None):
    environment = {k: v for k, v in os.environ.items() if k not in OURS}
    environment |= {"CLIENTS": str(CLIENTS), "PYTHONDONTWRITEBYTECODE": "1", "NO_COLOR": "1", **daemon.variables()}
    return subprocess.run([str(w) for w in words], env=environment, capture_output=True, text=True, timeout=SECONDS,
                          cwd=cwd, check=False)


def seen_by(daemon, *words):
    done = run(daemon, *words)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return json.loads(done.stdout.splitlines()[-1])


def check_probe(probe):
    assert probe == {"page": PAGE, "made by": ["user", "green", "root"], "at": ["/home/user/work", "green", "user"],
                     "mode": "root 644"}


def test_python(daemon, context):
    seen = seen_by(daemon, PYTHON, TESTS / "sdk/python/templates.py", "sync", context)
    print(f"first {seen['seconds']:.1f} s, unchanged {seen['again seconds']:.1f} s")
    assert seen["info"] == ["shop", ["v1"]] and seen["template"] == "shop"
    check_probe(seen["probe"])
    assert any(re.match(r"\[builder \d+/\d+\] RUN id -un", line) for line in seen["logs"]), seen["logs"]
    assert sum(line.startswith("CACHED [builder") for line in seen["again"]) >= 4
    assert seen["exists"] == [True, False]
    assert seen["tags"] == ["default", "stable", "v1"] and seen["left"] == ["default", "stable"]
    assert re.search(r"\b3\b", seen["failure"]) and seen["failed at"] == "run_sync"
    assert seen["tool"] == ["hello from a tool", PAGE.strip(), "/srv", ""]
    assert seen["python"] == "['app', '/srv']"


def test_python_async(daemon, context):
    seen = seen_by(daemon, PYTHON, TESTS / "sdk/python/templates.py", "async", context)
    assert (seen["at first"], seen["at last"], seen["page"]) == ("building", "ready", PAGE)
    assert "page.html" in seen["logs"]


def test_javascript(daemon, context):
    seen = seen_by(daemon, NODE, TESTS / "sdk/js/templates.mjs", context)
    check_probe(seen["probe"])
    assert seen["status"] == "ready" and seen["exists"] == [True, False]
    assert seen["tags"] == ["default", "stable"]
    assert re.match(r"BuildError: .*\b3\b", seen["failure"])


def test_command_line(daemon, context):
    (context / "Dockerfile").write_text("FROM e2bdev/base\nRUN rm /usr/bin/python3\nCOPY page.html /srv/page.html\nRUN test -s /srv/page.html\n")
    cli = [NODE, CLIENTS / "node_modules/@e2b/cli/dist/index.js", "template"]
    made = run(daemon, *cli, "create", "by-cli", cwd=context)
    assert made.returncode == 0 and "finished" in made.stdout, made.stdout[-3000:] + made.stderr[-2000:]
    listed = run(daemon, *cli, "list", "--format", "json")
    assert "by-cli" in {t["templateID"] for t in json.loads(listed.stdout)}
    sandbox = daemon.create(templateID="by-cli")
    assert daemon.command(sandbox, "cat /srv/page.html") == (0, PAGE.encode())
    daemon.kill(sandbox["sandboxID"])
    assert run(daemon, *cli, "publish", "--yes", "by-cli").returncode == 0
    assert next(t for t in daemon.request("GET", "/templates").json if t["templateID"] == "by-cli")["public"]
    deleted = run(daemon, *cli, "delete", "--yes", "by-cli")
    assert deleted.returncode == 0, deleted.stdout + deleted.stderr
    assert daemon.request("GET", "/templates/by-cli").status == 404
    old = run(daemon, *cli, "build")  # E2B's own answer: it was replaced by create
    assert old.returncode == 1 and "deprecated" in old.stdout
