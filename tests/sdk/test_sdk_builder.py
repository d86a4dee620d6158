# SPDX-License-Identifier: Apache-2.0
"""Every method of the template builders of E2B's newest SDKs, unmodified: what the daemon makes of their requests.

tests/lib/daemon/build_engine.py stands for the program that runs the steps. tests/e2e/test_sdk_templates.py builds
with the real one.
"""

import json
import os
import subprocess

import pytest
from cubbyd import Daemon
from sdk import CLIENTS, NODE, OURS, TESTS, OnTcp

PYTHON = [CLIENTS / "e2b/bin/python", TESTS / "sdk/python/builder.py"]
PROGRAMS = {"python": [*PYTHON, "sync"], "python-async": [*PYTHON, "async"], "js": [NODE, TESTS / "sdk/js/builder.mjs"]}
APT = "DEBIAN_FRONTEND=noninteractive DEBCONF_NOWARNINGS=yes apt-get install -y --no-install-recommends git curl"
STEPS = [
    ("USER", "user"), ("WORKDIR", "/home/user"),
    ("COPY", "page.html", "/srv/", "root", "0644"), ("COPY", "page.html", "a", "", ""), ("COPY", "site", "b", "", ""),
    ("RUN", "rm -r -f /srv/old"), ("RUN", "mv /srv/a /srv/b -f"), ("RUN", "mkdir -p -m 0755 /srv/a /srv/b"),
    ("RUN", "ln -s /srv/a /srv/link"), ("RUN", "id && pwd", "root"), ("WORKDIR", "/srv"), ("USER", "app"),
    ("ENV", "A", "b", "C", "d e"), ("RUN", "pip install flask httpx", "root"), ("RUN", "pip install --user flask"),
    ("RUN", "npm install -g typescript", "root"), ("RUN", "bun install --dev tsx"), ("RUN", f"apt-get update && {APT}", "root"),
    ("RUN", "git clone https://example.org/a.git --branch main --single-branch --depth 1 /srv/a"), ("RUN", "id")]
OF_DOCKERFILE = [("USER", "root"), ("WORKDIR", "/"), ("ENV", "A", "b"), ("RUN", "id"), ("COPY", "page.html", "/srv/", "", ""),
                 ("WORKDIR", "/srv"), ("USER", "app")]
IMAGES = {"from-image": "ghcr.io/own/app:1", "from-image-private": "ghcr.io/own/app:1", "from-debian-image": "debian:bookworm",
          "from-ubuntu-image": "ubuntu:24.04", "from-fedora-image": "fedora:44", "from-alpine-image": "alpine:3.24",
          "from-arch-image": "archlinux:latest", "from-python-image": "python:3.12", "from-node-image": "node:24",
          "from-bun-image": "oven/bun:1.3", "from-gcp-registry": "gcr.io/own/app:1", "from-dockerfile": "python:3.12"}
READY = {"wait-for-port": '[ -n "$(ss -Htuln sport = :80)" ]', "wait-for-process": "pgrep serve > /dev/null",
         "wait-for-url": 'curl -s -o /dev/null -w "%{http_code}" http://localhost/ | grep -q "204"',
         "wait-for-file": "[ -f /run/ready ]"}


class Builders(OnTcp, Daemon):
    """Its key may build."""

    def __init__(self):
        super().__init__("--pool", "off", "--max-builds", "4", "--build-registry", "docker.io,ghcr.io,gcr.io")
        keys = json.loads((self.home / "keys.json").read_text())
        keys["tokens"][0]["max_builds"] = 64
        (self.home / "keys.json").write_text(json.dumps(keys))

    def templates(self):
        super().templates()
        self.template("mcp-gateway")

    def plans(self):
        """{template: its plan}, of all builds."""
        builds = [path.parent for path in (self.home / "builds").glob("*/plan.json")]
        return {json.loads((b / "build.json").read_text())["name"]: json.loads((b / "plan.json").read_text()) for b in builds}


@pytest.fixture(scope="module")
def context(tmp_path_factory):
    where = tmp_path_factory.mktemp("context")
    (where / "site").mkdir()
    for name in "page.html", "site/page.html":
        (where / name).write_text("<p>a page</p>\n")
    return where


@pytest.mark.parametrize("program", PROGRAMS)
def test_every_method(program, context):
    with Builders() as daemon:
        environment = {k: v for k, v in os.environ.items() if k not in OURS}
        environment |= {"CLIENTS": str(CLIENTS), "PYTHONDONTWRITEBYTECODE": "1", **daemon.variables()}
        done = subprocess.run([*map(str, PROGRAMS[program]), context], env=environment, capture_output=True, text=True,
                              timeout=170)
        assert done.returncode == 0, done.stderr[-3000:]
        raised = json.loads(done.stdout.splitlines()[-1])
        refused = {name: error for name, error in raised.items() if error}
        assert list(refused) == ["from-aws-registry"] and "aws ecr get-login-password" in refused["from-aws-registry"], refused
        plans = daemon.plans()
    stages = {name: plan["stages"][0] for name, plan in plans.items()}
    steps = {name: [(s["type"], *s["args"]) for s in stage["steps"]] for name, stage in stages.items()}
    assert steps["steps"] == STEPS
    assert [s["force"] for s in stages["steps"]["steps"][2:]] == [False] * 17 + [True], "skip_cache"
    assert steps["from-dockerfile"] == STEPS[:2] + OF_DOCKERFILE
    assert {name: stages[name]["from"]["image"] for name in IMAGES} == {n: f"docker://{i}" for n, i in IMAGES.items()}
    assert stages["mcp-servers"]["from"] == {"template": "mcp-gateway"}
    assert steps["mcp-servers"][-1] == ("RUN", "mcp-gateway pull exa brave", "root")
    assert stages["from-base-image"]["from"] == stages["from-template"]["from"] == {"template": "default"}
    assert {name: (plans[name]["start"], plans[name]["ready"]) for name in READY} == {n: ("serve", c) for n, c in READY.items()}
    assert plans["steps"]["ready"] == "sleep 2" and plans["from-dockerfile"]["start"] == "sleep 5"
