# SPDX-License-Identifier: Apache-2.0
"""What `make demo` does before the scenario: a template in the best tier, with programs that only note their calls."""

import os
import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).parents[2]

# A template is built for KVM if the file kvm is there, and for gVisor if runsc is.
CUBBY = """#!/bin/sh
echo "cubby $*" >>calls
case "$2" in
build)
    accel=tcg; tiers='"microvm"'
    [ -e kvm ] && accel=kvm
    [ -e runsc ] && tiers='"microvm","gvisor"'
    echo "[{\\"name\\":\\"default\\",\\"tiers\\":[$tiers],\\"accel\\":\\"$accel\\"}]" >template ;;
ls) cat template 2>/dev/null || echo "[]" ;;
esac
"""
MAKE = """#!/bin/sh
echo "make $*" >>calls
[ -e offline ] && exit 1
touch runsc
"""
BUILD, RUNSC = "cubby template build default", "make runsc"


@pytest.mark.parametrize("there, done", [
    (["kvm"], [BUILD]),
    ([], [BUILD, RUNSC, BUILD]),
    (["runsc"], [BUILD]),
    (["offline"], [BUILD, RUNSC]),
    (["template"], []),
])
@pytest.mark.parametrize("tier", ["", "microvm"])
def test_a_template_in_the_best_tier(tmp_path, there, done, tier):
    for name, text in (("cubby", CUBBY), ("make", MAKE), ("python", '#!/bin/sh\necho "python $*" >>calls\n')):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    for name in there:
        (tmp_path / name).write_text('[{"name":"default","tiers":["microvm"],"accel":"tcg"}]' if name == "template" else "")
    env = dict(os.environ, BIN=str(tmp_path), PYTHON=str(tmp_path / "python"), MAKE=str(tmp_path / "make"), TIER=tier)
    run = subprocess.run([ROOT / "tests/acceptance/demo.sh", "out"], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert run.returncode == 0, run.stderr
    *calls, last = [line for line in (tmp_path / "calls").read_text().splitlines() if not line.startswith("cubby template ls")]
    assert calls == done
    wanted = "--tier microvm " if tier else ""
    assert last == f"python tests/acceptance/scenario.py --mode per-call {wanted}--transcript out"
    assert ("gVisor could not be built" in run.stdout) == ("offline" in there)
