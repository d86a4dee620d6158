#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Stands for `cubby template build NAME --plan FILE --json` in the tests of the daemon's own part of a build.

The process driver's machines run no guest, so nothing could be installed in them. This program reads the plan, keeps
the format of the progress, and makes a template of the process driver. A RUN step says what happens:

    echo TEXT      a line of output
    wait FILE      goes on once the file exists
    fail TEXT      the step fails
    die TEXT       the program ends with status 7, TEXT on standard error, and no error event
    flood N        N lines of output
"""

import json
import os
import pathlib
import signal
import sys
import tarfile
import time


def tell(**event):
    print(json.dumps(event), flush=True)


class Failed(Exception):
    pass


def run(index, step):
    word, _, rest = step["args"][0].partition(" ")
    if word == "echo":
        tell(event="log", index=index, stream="stdout", text=rest + "\n")
    elif word == "wait":
        while not os.path.exists(rest):
            time.sleep(0.01)
    elif word == "flood":
        for number in range(int(rest)):
            tell(event="log", index=index, stream="stdout", text=f"line {number}\n")
    elif word == "fail":
        raise Failed(rest)
    elif word == "die":
        print(rest, file=sys.stderr)
        sys.exit(7)


def copy(index, step):
    with tarfile.open(step["archive"]) as tar:
        names = ", ".join(sorted(tar.getnames()))
    tell(event="log", index=index, stream="stdout", text=f"{names} sha256 {step['hash']}")


def make_template(name, plan, home):
    facts = {"driver": "process", "cpus": plan["cpus"], "memory_mb": plan["memory_mb"], "disk_mb": plan["disk_mb"],
             "created_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "bytes": 1 << 20}
    where = home / "templates" / name
    where.mkdir()
    (where / "template.json").write_text(json.dumps(facts))
    tell(event="done", template=facts)


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(130))
    name, plan = sys.argv[3], json.loads(pathlib.Path(sys.argv[5]).read_text())
    steps = plan["stages"][0]["steps"]
    base = plan["stages"][0]["from"]
    tell(event="start", steps=len(steps) + 1)
    tell(event="step", index=1, count=len(steps) + 1, name=f"FROM {base.get('image') or base['template']}", cached=True)
    index, step = 1, {}
    try:
        for index, step in enumerate(steps, 2):
            tell(event="step", index=index, count=len(steps) + 1, name=f"{step['type']} {' '.join(step['args'])}",
                 cached=False, line=step.get("line", 0))
            {"RUN": run, "COPY": copy}.get(step["type"], lambda *_: None)(index, step)
    except Failed as e:
        tell(event="error", message=str(e), step=step["type"], index=index, line=step.get("line", 0))
        return 1
    tell(event="step", index=index + 1, count=index + 1, name=f"template {name}", cached=False, line=0)
    if plan.get("ready") == "false":
        tell(event="error", message="the ready command did not succeed")
        return 1
    make_template(name, plan, pathlib.Path(os.environ["CUBBY_HOME"]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
