#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs tests, repeats those that fail, and judges the ones that pass only when they are repeated.

    run.py pytest LIST REPORT PATH... [-- OPTION...]     OPTION: for the first run only
    run.py judge LIST REPORT NAME...                     NAME: tests that passed when they were repeated

`pytest` runs the tests, then repeats at most MAX_REPEATED failed ones, alone. A test that fails
twice fails the run. Any problem other than a few failed tests also fails the run: a collection
error, an interrupt, an end of pytest itself. `judge` takes the names from another runner, such as
prove.

A test that passes only when it is repeated is flaky. LIST (tests/flaky.txt) names the tests that
are known to be flaky, one per line; "#" starts a comment. A flaky test on the list is reported and
counts as passed. One that is not on the list fails the run. Both are written to the file REPORT.
"""

import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

MAX_REPEATED = 5  # a greater number of failures is no accident
PASSED, FAILED = 0, 1


class Run:
    """One run of pytest, with a temporary directory and a cache of its own."""

    def __init__(self):
        # The names are short because sockets of tests are below, whose paths have at most 107 bytes.
        self.temporary = tempfile.mkdtemp(prefix="c")
        self.kept = pathlib.Path(tempfile.mkdtemp(prefix="ck"))

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        shutil.rmtree(self.temporary, ignore_errors=True)
        shutil.rmtree(self.kept, ignore_errors=True)

    def pytest(self, *words):
        """Run pytest and return its exit status. The files of a test that passed go at once: together they fill a disk."""
        return subprocess.run([
            sys.executable, "-m", "pytest", "-q", "--timeout", "180", "--rootdir=.", f"--basetemp={self.temporary}",
            "-o", "tmp_path_retention_policy=failed", "-o", f"cache_dir={self.kept}",
            "-o", "junit_family=xunit1", f"--junit-xml={self.kept}/report.xml",
            *words], check=False).returncode

    def failed(self):
        """Return the names of the failed tests. For a failed fixture, return the whole file: pytest
        reports a fixture that a file's tests share at the last of them, which would pass alone."""
        failed = json.loads((self.kept / "v/cache/lastfailed").read_text(encoding="utf-8"))
        cases = xml.etree.ElementTree.parse(self.kept / "report.xml").getroot().iter("testcase")
        files = {case.get("file") for case in cases if case.find("error") is not None}
        return sorted({name if name.split("::")[0] not in files else name.split("::")[0] for name in failed})


def run_twice(paths, options):
    """Return the exit status and the names that passed only when they were repeated."""
    with Run() as first:
        status = first.pytest(*options, *paths)
        if status != FAILED:
            return status, []
        failed = first.failed()
    if not 0 < len(failed) <= MAX_REPEATED:
        print(f"{len(failed)} failed: more than {MAX_REPEATED} are not repeated", flush=True)
        return FAILED, []
    print("repeated, alone:", *failed, flush=True)
    with Run() as second:
        status = second.pytest(*failed)
    return status, failed if status == PASSED else []


def known_flaky(list_file):
    lines = pathlib.Path(list_file).read_text(encoding="utf-8").splitlines()
    return {line.partition("#")[0].strip() for line in lines} - {""}


def judge(list_file, report, flaky):
    """Report tests that passed only when they were repeated; FAILED if one is not on the list."""
    known = known_flaky(list_file)
    lines = [f"flaky: {name} passed only when it was repeated; it is listed in {list_file}" if name in known else
             f"FAILED: {name} passed only when it was repeated, and {list_file} does not list it" for name in flaky]
    if lines:
        report.write_text("\n".join(lines) + "\n", encoding="utf-8")
        print(*lines, sep="\n", flush=True)
    return PASSED if known.issuperset(flaky) else FAILED


def main():
    at = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    verb, list_file, report, *names = sys.argv[1:at]
    report = pathlib.Path(report)
    report.parent.mkdir(parents=True, exist_ok=True)
    report.unlink(missing_ok=True)
    if verb == "judge":
        return judge(list_file, report, names)
    status, flaky = run_twice(names, sys.argv[at + 1:])
    return judge(list_file, report, flaky) if status == PASSED else status


if __name__ == "__main__":
    sys.exit(main())
