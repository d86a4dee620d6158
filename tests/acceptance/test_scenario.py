# SPDX-License-Identifier: Apache-2.0
"""The five bugs, as an agent fixes them, in both of the modes clients use."""

import json
import pathlib
import subprocess
import sys

import pytest

SCENARIO = pathlib.Path(__file__).parent / "scenario.py"


@pytest.mark.parametrize("mode", ["per-call", "one-process"])
def test_five_bugs(home, tmp_path, mode):
    transcript = tmp_path / "transcript.jsonl"
    run = subprocess.run([sys.executable, SCENARIO, "--mode", mode, "--transcript", transcript],
                         env=home.env, capture_output=True, text=True, timeout=170)
    print(run.stdout)
    assert run.returncode == 0, run.stderr
    calls = [json.loads(line) for line in transcript.read_text().splitlines()]
    assert len(calls) == 5 * (1 + 3 + 1 + 1 + 1 + 1)
    assert home.sandboxes() == []


def test_candidates_side_by_side(home, tmp_path):
    """One bug, as the machine is slow: `scenario.py --mode fork` does all five."""
    transcript = tmp_path / "transcript.jsonl"
    run = subprocess.run([sys.executable, SCENARIO, "--mode", "fork", "--bugs", "pager", "--transcript", transcript],
                         env=home.env, capture_output=True, text=True, timeout=170)
    print(run.stdout)
    assert run.returncode == 0, run.stderr
    calls = [json.loads(line) for line in transcript.read_text().splitlines()]
    assert [c["tool"] for c in calls].count("fork_sandbox") == 1
    assert len({c["arguments"]["sandbox_id"] for c in calls if c["tool"] == "write_file"}) == 3
    assert home.sandboxes() == []


def test_a_wrong_count_is_a_failure(home, tmp_path):
    """The scenario itself can fail: with an expectation that does not hold it says so."""
    bugs = tmp_path / "acceptance"
    subprocess.run(["cp", "-r", SCENARIO.parent, bugs], check=True)
    expected = json.loads((bugs / "bugs/expected.json").read_text())
    (bugs / "bugs/expected.json").write_text(json.dumps({"slug": dict(expected["slug"], red=4)}))
    run = subprocess.run([sys.executable, bugs / "scenario.py", "--mode", "one-process"],
                         env=home.env, capture_output=True, text=True, timeout=170)
    assert run.returncode == 1
    assert "RED is" in run.stderr
