# SPDX-License-Identifier: Apache-2.0
"""What the scripted model does with a coding agent's own tools, for the tests of the plugins."""

from model_scripts import DONE
from model_stub import Call, expect


def fix_bug_by_bash(tools, project):
    """Fix the bug of model_scripts in a project of this machine, with the agent's own tools.

    `tools` has the agent's names: {bash, command, edit: the call that mends `project`/calc.py}.
    """
    pytest = "python3 -m pytest -q -p no:cacheprovider"
    red = yield Call(tools["bash"], {tools["command"]: pytest})
    expect(red, "1 failed", "assert 2.0 == 3")
    for call in tools["edit"]:
        yield call
    green = yield Call(tools["bash"], {tools["command"]: pytest})
    expect(green, "1 passed")
    inside = yield Call(tools["bash"], {tools["command"]: "id -un; pwd; touch made-by-bash; ls"})
    expect(inside, "user\n", str(project), "made-by-bash")
    return DONE
