# SPDX-License-Identifier: Apache-2.0
"""What the scripted model does with Cubby's tools: the work of a small but whole task.

A module has a bug. The tests fail, an edit mends it, the tests pass; then a figure, an id that the
model has made up, and the end of the sandbox. After each call the script checks what the model saw.
"""

import re

from model_stub import Call, expect

TASK = "Fix the bug in the module calc with Cubby's sandbox, and draw a figure of the result."
CALC = "def mean(values):\n    return sum(values) / (len(values) + 1)\n"
TESTS = "from calc import mean\n\n\ndef test_mean():\n    assert mean([2, 4]) == 3\n"
FIGURE = "import matplotlib.pyplot as plt\nplt.plot([3, 1, 2])\nprint('drawn')"
PYTEST = "cd work && python3 -m pytest -q -p no:cacheprovider"
SANDBOX_ID = re.compile(r"sandbox_id\W+([a-z0-9]{20})\b")
DONE = "The bug is fixed."


def sandbox_of(result):
    found = SANDBOX_ID.search(result.text)
    expect(result, "sandbox_id")
    return found[1]


def fix_bug(figure="image", most_text=20_000):
    """The script. `figure`: what the model gets of one: "image", or "path" alone."""
    sandbox = {"sandbox_id": sandbox_of((yield Call("create_sandbox", {})))}
    expect(
        (yield Call("write_file", {**sandbox, "path": "work/calc.py", "content": CALC})), "calc.py"
    )
    expect(
        (yield Call("write_file", {**sandbox, "path": "work/test_calc.py", "content": TESTS})),
        "test_calc.py",
    )
    red = yield Call("run_command", {**sandbox, "command": PYTEST, "timeout": 120})
    expect(red, "1 failed", "assert 2.0 == 3", "exit code 1")
    edit = {"old_text": "(len(values) + 1)", "new_text": "len(values)"}
    expect((yield Call("edit_file", {**sandbox, "path": "work/calc.py", **edit})), "calc.py")
    green = yield Call("run_command", {**sandbox, "command": PYTEST, "timeout": 120})
    expect(green, "1 passed")
    seen = yield Call("run_python_code", {**sandbox, "code_block": FIGURE, "timeout": 120})
    expect(seen, "drawn", "figures/figure-1.png")
    assert len(seen.text) < most_text, f"a figure as {len(seen.text)} characters of text"
    wrong = yield Call("run_command", {"sandbox_id": "my-sandbox", "command": "ls"})
    expect(wrong, "invalid_sandbox_id", "call create_sandbox")
    assert wrong.is_error is not False or "error" in wrong.text.lower()
    assert bool(wrong.images_so_far) == (figure == "image"), f"{wrong.images_so_far} images"
    expect((yield Call("kill_sandbox", sandbox)), "killed")
    return DONE
