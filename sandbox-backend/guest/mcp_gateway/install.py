# SPDX-License-Identifier: Apache-2.0
"""Installs servers: packages in /opt/mcp-gateway/NAME, repositories in /opt/mcp-gateway-github/OWNER/REPO.

A finished installation has a file that names what was installed, so that it is neither done twice
nor taken for finished when it was interrupted. It needs a network: that of the sandbox, or of the
template's build.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import catalog
from places import as_user, user

STAMP = ".mcp-gateway-installed"
PULL_S = 1800
LINES = 12
LINES_BYTES = 4000
AT_ONCE = 4
NETWORK = ("that needs a network: the sandbox's policy must allow the package registry or GitHub. "
           "Or build a template of mcp-gateway with addMcpServer, which installs it once")


class Failed(Exception):
    """Something could not be installed."""


def last_lines(output):
    output.seek(max(0, output.seek(0, os.SEEK_END) - LINES_BYTES))
    lines = [line for line in output.read().decode(errors="replace").splitlines() if line.strip()]
    return "\n".join(lines[-LINES:])


def run(words, what, deadline, **options):
    """Runs a command of an installation, with its output in the error if it fails."""
    with tempfile.TemporaryFile() as output:  # a pipe would stay open for what the command leaves behind
        process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True,
                                   **options)
        try:
            process.wait(timeout=max(deadline - time.monotonic(), 0.1))
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            raise Failed(f"{what} took too long; {NETWORK}. Its last lines:\n{last_lines(output)}") from None
        if process.returncode != 0:
            raise Failed(f"{what} failed; {NETWORK}. Its last lines:\n{last_lines(output)}")


def of_npm(directory, package, deadline):
    (directory / "package.json").write_text("{}")
    run(["npm", "install", "--prefix", str(directory), "--no-audit", "--no-fund", "--no-update-notifier",
         "--loglevel=error", "--", package], f"npm install {package}", deadline)


def of_pip(directory, package, deadline):
    """Into an environment that also sees the gateway's own packages, such as the MCP library."""
    run([sys.executable, "-m", "venv", "--system-site-packages", str(directory)], "python3 -m venv", deadline)
    run([str(directory / "bin/python"), "-m", "pip", "install", "--quiet", "--no-cache-dir", "--", *package.split()],
        f"pip install {package}", deadline)


def is_installed(name, row, places):
    stamp = places.installed / name / STAMP
    return stamp.exists() and stamp.read_text() == (row.get("npm") or row["pip"])


def package(name, row, places, deadline):
    if is_installed(name, row, places):
        return
    wanted = row.get("npm") or row["pip"]
    directory = places.installed / name
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    (of_npm if "npm" in row else of_pip)(directory, wanted, deadline)
    (directory / STAMP).write_text(wanted)


def clone(name, places, deadline):
    """Clones a repository, unless it is there, as the user of the servers."""
    owner, project = catalog.repository(name)
    directory = places.repositories / owner / project
    if (directory / ".git").exists():
        return
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    account = user()
    if account:
        os.chown(directory, account.pw_uid, account.pw_gid)
    options = as_user() | {"cwd": str(directory)}
    options["env"]["GIT_TERMINAL_PROMPT"] = "0"
    try:
        run(["git", "clone", "--quiet", "--depth", "1", f"https://github.com/{owner}/{project}", "."],
            f"git clone of {name}", deadline, **options)
    except Failed:
        shutil.rmtree(directory, ignore_errors=True)
        raise


def all_of(servers, places, deadline):
    """Installs what the servers of a configuration lack."""
    lacking = [s for s in servers if not s.package or not is_installed(s.name, s.package, places)]
    if lacking:
        from concurrent.futures import ThreadPoolExecutor  # which takes long to load in an emulated guest

        with ThreadPoolExecutor(AT_ONCE) as pool:
            list(pool.map(lambda server: one_of(server, places, deadline), lacking))


def one_of(server, places, deadline):
    if server.package:
        package(server.name, server.package, places, deadline)
        return
    clone(server.name, places, deadline)
    if server.setup:
        options = as_user() | {"cwd": server.cwd}
        run(["/bin/bash", "-c", server.setup], f"installCmd of {server.name}", deadline, **options)


def pull(names, places):
    deadline = time.monotonic() + PULL_S
    for name in names:
        if name in catalog.TABLE:
            package(name, catalog.TABLE[name], places, deadline)
        else:
            clone(name, places, deadline)
