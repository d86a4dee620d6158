#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the protocol tests of the rooms that changed, the nearest first, for less than a minute.

    check.py SPENT [REVISION]     SPENT: seconds that went into other checks before

A file has changed if it differs from REVISION, or is new. Without REVISION, the comparison is with
the commit where the branch left main, or on main with the last commit but one. Each test file runs
in its own process, several at once. After START_S no further file starts; at END_S the files still
running are interrupted. On a busy machine at least LEAST_S remain in which files start. The files
that did not run are listed, with the command that runs them.
"""

import concurrent.futures
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

START_S, END_S, LEAST_S = 35, 55, 20
AT_ONCE = max(3, os.cpu_count() or 1)
LISTED = 8  # of the files that found no time
NO_TESTS = 5  # pytest's exit status when it has found no test
TESTS = pathlib.Path("tests/protocol")
# Where the tests of a folder are, if not in the folder of tests/protocol with the same name.
ROOMS = {"mcp-server": "mcp", "schemas": "mcp", "guest": "kernel", "keys": "daemon", "connect": "envd", "process_driver": "daemon"}


def git(*words):
    return subprocess.run(["git", *words], check=True, capture_output=True, text=True).stdout.split("\n")[:-1]


def base_revision():
    """Return the commit to compare with."""
    head = git("rev-parse", "HEAD")[0]
    for main in ("main", "origin/main"):
        done = subprocess.run(["git", "merge-base", "HEAD", main], capture_output=True, text=True, check=False)
        if done.returncode == 0 and done.stdout.strip() != head:
            return done.stdout.strip()
    return "HEAD" if git("status", "--porcelain") else "HEAD~1"


def changed_files(revision):
    return git("diff", "--name-only", revision) + git("ls-files", "-o", "--exclude-standard")


def words_of(path):
    """Return the words in a path that can tie a source file to a test, without common ones."""
    return set(re.split(r"[/_.]", path)) - {"test", "tests", "protocol", "lib", "sandbox-backend", "c", "h", "py", "daemon", "mcp",
                                            "mcp-server", "tool", "tools", "envd", "netd", "sandbox", "client", "api"}


def tests_of(path):
    """Yield (distance, test file) for the tests that a changed file concerns. The nearest has 0."""
    parts = path.split("/")
    if re.fullmatch(r"tests/protocol/\w+/test_\w+\.py", path):
        if os.path.exists(path):
            yield 0, path
        return
    if parts[0] in ("docs", "README.md", "CONTRIBUTING.md", ".ci", "Makefile") or path in ("tests/run.py", "tests/check.py"):
        parts = ["docs"]
    elif parts[:2] == ["tests", "lib"] or parts[0] == "sandbox-backend":
        parts = parts[1 if parts[0] == "sandbox-backend" else 2:]
    room = TESTS / ROOMS.get(parts[0], parts[0])
    words = words_of(path)
    for test in sorted(room.glob("test_*.py")):
        yield (1 if words & words_of(test.name) else 2), str(test)


def run_file(test, temporary, started):
    """Run one file of tests; return (file, exit status or None when it has not ended, output, seconds)."""
    begin = time.monotonic() - started
    if begin > START_S:
        return test, None, "", 0
    directory = tempfile.mkdtemp(dir=temporary)
    with subprocess.Popen([sys.executable, "-m", "pytest", "-q", "--timeout", "60", "--rootdir=.", "-p", "no:cacheprovider",
                           f"--basetemp={directory}/t", test], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as child:
        try:
            output = child.communicate(timeout=END_S - begin)[0]
        except subprocess.TimeoutExpired:
            child.send_signal(signal.SIGINT)  # fixtures end what they have started
            child.communicate()
            return test, None, "", 0
    return test, child.returncode, output, time.monotonic() - started - begin


def main():
    distances = {}
    spent = min(float(sys.argv[1]), START_S - LEAST_S)
    changed = changed_files(sys.argv[2] if len(sys.argv) > 2 else base_revision())
    for path in changed:
        for distance, test in tests_of(path):
            distances[test] = min(distance, distances.get(test, distance))
    tests = sorted(distances, key=lambda test: (distances[test], test))
    started, temporary = time.monotonic() - spent, tempfile.mkdtemp(prefix="c")
    print(f"check: {len(changed)} files changed, {len(tests)} files of tests concern them", flush=True)
    failed, left = [], []
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        for test, status, output, seconds in pool.map(lambda test: run_file(test, temporary, started), tests):
            if status is None:
                left.append(test)
            elif status in (0, NO_TESTS):
                print(f"passed: {test} ({seconds:.0f} s)", flush=True)
            else:
                failed.append(test)
                print(output, f"FAILED: {test}", sep="\n", flush=True)
    shutil.rmtree(temporary, ignore_errors=True)
    if left:
        more = f" and {len(left) - LISTED} others" if len(left) > LISTED else ""
        print(f"check: no time for: make pytest T='{' '.join(left[:LISTED])}'{more}")
    print(f"check: {len(tests) - len(left) - len(failed)} files of tests passed, {len(failed)} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
