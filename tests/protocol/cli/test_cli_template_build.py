# SPDX-License-Identifier: Apache-2.0
"""cubby template build, as far as it needs no machine: what is refused before anything runs."""

import json
import os
import subprocess

import pytest

from harness import BIN

FACTS = {"name": "default", "kernel": "6.1.0-test", "memory_mb": 512, "cpus": 1, "disk_mb": 8192}
NOT_BEFORE = "--from names a stage that is not before this one"


@pytest.fixture
def home(tmp_path):
    home = tmp_path / "h"
    (home / "templates" / "default").mkdir(mode=0o700, parents=True)
    home.chmod(0o700)
    (home / "templates" / "default" / "template.json").write_text(json.dumps(FACTS))
    return home


def build(home, *words, stdin=b""):
    """Return the message of a build that must fail."""
    done = subprocess.run([BIN / "cubby", "template", "build", "made", *words], input=stdin, capture_output=True,
                          env=dict(os.environ, CUBBY_HOME=str(home)), timeout=60)
    assert done.returncode in (1, 2), done
    assert not (home / "templates" / "made").exists()
    return done.stderr.decode()


@pytest.mark.parametrize("text, line", [
    ("FROM default AS x\nCOPY --from=x a /z\n", 2),
    ("FROM default\nFROM default AS x\nCOPY --from=X a /z\n", 3),
    ("FROM default AS x\nCOPY --from=y a /z\nFROM default AS y\n", 2),
    ("FROM default AS x\nCOPY --from=0 a /z\n", 2),
])
def test_a_stage_copies_only_from_stages_before_it(home, text, line):
    assert f"line {line}: COPY: {NOT_BEFORE}" in build(home, "-f", "-", str(home), stdin=text.encode())


@pytest.mark.parametrize("stage, source", [(0, 0), (1, 1), (0, 1)])
def test_a_stage_of_a_plan_copies_only_from_stages_before_it(home, stage, source):
    stages = [{"from": {"template": "default"}, "steps": []} for _ in range(2)]
    stages[stage]["steps"].append({"type": "COPY", "args": ["a", "/z"], "from": source})
    plan = home / "plan.json"
    plan.write_text(json.dumps({"format": 1, "stages": stages}))
    assert f"step 1: COPY: {NOT_BEFORE}" in build(home, "--plan", str(plan))


def test_a_build_argument_that_nothing_takes_is_named(home):
    (home / "cubbyd.json").write_text('{"listen": "nonsense"}')  # the build ends at the start of the daemon
    words = ["-f", "-", "--build-arg", "A=1", "--build-arg", "B=2", "--build-arg", "HTTP_PROXY=x"]
    done = subprocess.run([BIN / "cubby", "template", "build", "made", *words, str(home)], capture_output=True,
                          input=b"FROM default\nARG A\nRUN x\n", timeout=60,
                          env=dict(os.environ, CUBBY_HOME=str(home)))
    said = (done.stdout + done.stderr).decode()
    assert "warning: --build-arg B is not used" in said and "build-arg A" not in said and "PROXY is" not in said


def test_an_export_needs_a_file(home):
    for words in (["template", "export", "default", "-"], ["snapshot", "export", "snap-1", "-"]):
        done = subprocess.run([BIN / "cubby", *words], cwd=home, capture_output=True, timeout=60,
                              env=dict(os.environ, CUBBY_HOME=str(home)))
        assert done.returncode == 2 and b"standard output" in done.stderr and not (home / "-").exists()


@pytest.mark.parametrize("data, said", [(b"", "it was empty"), (b"garbage" * 1000, "pipe what docker save writes (")])
def test_standard_input_without_an_image(home, data, said):
    told = build(home, "--from", "-", stdin=data)
    assert "standard input held no image" in told and said in told
