# SPDX-License-Identifier: Apache-2.0
"""envd's POST /init: what it publishes is there before the answer, and a repeated request does the
parts that failed.
"""

import json

import pytest

from envd_peer import Envd

LARGE = {"LARGE": "x" * 5000}  # envd.json then has a file of its own renamed over it
TIME = "2026-01-02T00:00:00Z"


@pytest.fixture
def envd():
    e = Envd()
    yield e
    e.close()


def published(envd):
    return json.loads((envd.state / "environment.json").read_text())


def block(path):
    """Puts a directory in the way: nothing can be renamed over it."""
    path.unlink(missing_ok=True)
    path.mkdir()


def test_published_before_the_answer(envd):
    for i in range(200):
        assert envd.init(envVars={"A": str(i), "E2B_SANDBOX_ID": f"i{i}"})[0] == 204
        assert published(envd) == {"A": str(i), "E2B_SANDBOX_ID": f"i{i}"}
        assert (envd.state / ".E2B_SANDBOX_ID").read_text() == f"i{i}"


def test_environment_of_another_is_inherited(envd):
    assert envd.init(envVars={"A": "old", "B": "kept", "E2B_SANDBOX_ID": "i"})[0] == 204
    assert envd.init(envVars={"A": "new", "E2B_SANDBOX_ID": "j"}, inheritEnvVars=True)[0] == 204
    assert published(envd) == {"A": "new", "B": "kept", "E2B_SANDBOX_ID": "j"}
    assert envd.init(envVars={"C": "1"}, inheritEnvVars=False)[0] == 204
    assert published(envd) == {"C": "1", "E2B_SANDBOX_ID": "j"}, "as a whole again"
    assert envd.init(inheritEnvVars="yes")[0] == 400


def test_variables_are_replaced_as_a_whole(envd):
    """A reader that has the old file open reads the old text, never parts of both."""
    assert envd.init(envVars={"E2B_SANDBOX_ID": "before"})[0] == 204
    with (envd.state / ".E2B_SANDBOX_ID").open() as old:
        assert envd.init(envVars={"E2B_SANDBOX_ID": "after"})[0] == 204
        assert old.read() == "before"
    assert (envd.state / ".E2B_SANDBOX_ID").read_text() == "after"


def test_only_what_changed_is_written(envd):
    assert envd.init()[0] == 204
    assert not (envd.state / "environment.json").exists(), "no environment, no file"
    assert envd.init(envVars={"E2B_SANDBOX_ID": "i", "E2B_TEMPLATE_ID": "t"})[0] == 204
    files = {p: p.stat().st_ino for p in envd.state.iterdir()}
    assert envd.init(envVars={"E2B_SANDBOX_ID": "i", "E2B_TEMPLATE_ID": "t"})[0] == 204
    assert {p: p.stat().st_ino for p in envd.state.iterdir()} == files
    assert envd.init(envVars={"E2B_SANDBOX_ID": "j", "E2B_TEMPLATE_ID": "t"})[0] == 204
    changed = {p.name for p in envd.state.iterdir() if p.stat().st_ino != files.get(p)}
    assert changed == {".E2B_SANDBOX_ID", "environment.json"}


@pytest.mark.parametrize("name", ["environment.json", ".E2B_SANDBOX_ID", ".E2B_TEMPLATE_ID"])
def test_failed_publication_is_told_and_done_when_asked_again(envd, name):
    envs = {"E2B_SANDBOX_ID": "i", "E2B_TEMPLATE_ID": "t"}
    assert envd.init(envVars={"OLD": "1"}, timestamp="2026-01-01T00:00:00Z")[0] == 204
    block(envd.state / name)
    status, answer = envd.json("POST", "/init", json.dumps({"envVars": envs, "timestamp": TIME}))
    assert status == 500 and name in answer["message"]
    assert envd.json("GET", "/envs")[1] == {"OLD": "1"}, "not applied"
    (envd.state / name).rmdir()
    assert envd.init(envVars=envs, timestamp=TIME)[0] == 204
    assert published(envd) == envs
    assert (envd.state / ".E2B_SANDBOX_ID").read_text() == "i"
    assert (envd.state / ".E2B_TEMPLATE_ID").read_text() == "t"


def test_what_a_failed_publication_wrote_is_undone_by_the_next(envd):
    assert envd.init(envVars={"E2B_SANDBOX_ID": "i", "E2B_TEMPLATE_ID": "t"})[0] == 204
    block(envd.state / ".E2B_TEMPLATE_ID")
    assert envd.init(envVars={"E2B_SANDBOX_ID": "j", "E2B_TEMPLATE_ID": "u"})[0] == 500
    (envd.state / ".E2B_TEMPLATE_ID").rmdir()
    assert envd.init(envVars={"E2B_SANDBOX_ID": "i", "E2B_TEMPLATE_ID": "t"})[0] == 204
    assert published(envd) == {"E2B_SANDBOX_ID": "i", "E2B_TEMPLATE_ID": "t"}
    assert (envd.state / ".E2B_SANDBOX_ID").read_text() == "i"
    assert (envd.state / ".E2B_TEMPLATE_ID").read_text() == "t"


def test_settings_that_were_not_kept_are_kept_when_asked_again(envd):
    block(envd.state / "envd.json")
    assert envd.init(envVars=LARGE, timestamp=TIME)[0] == 500
    (envd.state / "envd.json").rmdir()
    assert envd.init(envVars=LARGE, timestamp=TIME)[0] == 204
    kept = json.loads((envd.state / "envd.json").read_text())
    assert kept["envVars"] == LARGE and kept["applied"] > 0
