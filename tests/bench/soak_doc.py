# SPDX-License-Identifier: Apache-2.0
"""docs/soak.md: the results of long runs, a section for each kind of run."""

import json
import os
import pathlib
import platform
import re
import subprocess
import textwrap
import time

DOC = pathlib.Path(__file__).resolve().parents[2] / "docs" / "soak.md"
HEAD = """# Long runs

Runs that take too long for `make test` are started by hand. The command that a section names writes
that section.
"""


def machine(tier="microvm"):
    """Return a line with the date, the machine, its load and what the sandboxes run in."""
    memory = int(re.search(r"MemTotal: +(\d+)", pathlib.Path("/proc/meminfo").read_text())[1]) // 2**20
    qemu = subprocess.run(["qemu-system-x86_64", "--version"], capture_output=True, text=True, check=False)
    version = re.search(r"version ([\d.]+)", qemu.stdout)
    template = pathlib.Path(os.environ["CUBBY_TEST_HOME"]) / "templates/default/template.json"
    accel = json.loads(template.read_text())["accel"].upper()
    when = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())
    inside = {"microvm": f"QEMU {version[1] if version else '?'}, {accel}", "gvisor": "gVisor"}.get(tier, f"tier {tier}")
    said = (f"{when}, Linux {platform.release()}, {os.cpu_count()} processors, {memory} GiB, {inside}. "
            f"Load at the end: {os.getloadavg()[0]:.0f}.")
    return textwrap.fill(said, 100)


def put_section(key, title, command, lines):
    """Replace the section, or add it."""
    text = DOC.read_text() if DOC.exists() else HEAD
    begin, end = f"<!-- {key} -->", f"<!-- end of {key} -->"
    body = "\n".join([begin, f"## {title}", "", f"`{command}`", "", *lines, end])
    old = re.compile(re.escape(begin) + ".*?" + re.escape(end), re.S)
    text = old.sub(lambda _: body, text) if old.search(text) else text.rstrip() + "\n\n" + body + "\n"
    DOC.write_text(text)
