#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs pytest, and what failed once more, alone, after the others.

    run.py FLAKY PATH... [-- OPTION...]     OPTION: of the first run only

A busy shared machine must not refuse a change; a test that fails twice does, and so does anything
that is not the failure of a few tests: an error of collection, an interrupt, pytest's own end. What
passed when it was run again is named, and written to the file FLAKY, so that it stays visible.
"""

import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

MAX_AGAIN = 5  # more than a few that fail at once are no accident
PASSED, FAILED = 0, 1


class Run:
    """One run of pytest, with what it needs and leaves, in a directory that goes with it."""

    def __init__(self):
        # Of short names: the tests' sockets are below, whose paths have 107 bytes.
        self.temporary = tempfile.mkdtemp(prefix="c")
        self.kept = pathlib.Path(tempfile.mkdtemp(prefix="ck"))

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        shutil.rmtree(self.temporary, ignore_errors=True)
        shutil.rmtree(self.kept, ignore_errors=True)

    def pytest(self, *words):
        """Its exit status."""
        return subprocess.run([
            sys.executable, "-m", "pytest", "-q", "--timeout", "180", "--rootdir=.", f"--basetemp={self.temporary}",
            "-o", f"cache_dir={self.kept}", "-o", "junit_family=xunit1", f"--junit-xml={self.kept}/report.xml",
            *words], check=False).returncode

    def to_run_again(self):
        """What failed: tests, or their whole file where it was no test's own code that did. What a
        file's tests share is blamed on the last of them when it ends, and that one alone would pass."""
        failed = json.loads((self.kept / "v/cache/lastfailed").read_text(encoding="utf-8"))
        cases = xml.etree.ElementTree.parse(self.kept / "report.xml").getroot().iter("testcase")
        files = {case.get("file") for case in cases if case.find("error") is not None}
        return sorted({name if name.split("::")[0] not in files else name.split("::")[0] for name in failed})


def run_twice(paths, options):
    """(exit status, what passed only when it was run again)"""
    with Run() as first:
        status = first.pytest(*options, *paths)
        if status != FAILED:
            return status, []
        again = first.to_run_again()
    if not 0 < len(again) <= MAX_AGAIN:
        print(f"{len(again)} failed: more than {MAX_AGAIN} are not run again", flush=True)
        return FAILED, []
    print("run again, alone:", *again, flush=True)
    with Run() as second:
        status = second.pytest(*again)
    return status, again if status == PASSED else []


def main():
    at = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    report, *paths = sys.argv[1:at]
    report = pathlib.Path(report)
    report.parent.mkdir(parents=True, exist_ok=True)
    report.unlink(missing_ok=True)
    status, flaky = run_twice(paths, sys.argv[at + 1:])
    if flaky:
        line = "flaky: passed when run again: " + " ".join(flaky)
        report.write_text(line + "\n", encoding="utf-8")
        print(line)
    return status


if __name__ == "__main__":
    sys.exit(main())
