# SPDX-License-Identifier: Apache-2.0
"""The servers that can be given, and how each is started.

servers.json has a row for each name of E2B's type McpServer that is a package of npm or PyPI:

    "npm" or "pip"  the package, with its version; pip's may have further requirements
    "run"           its command
    "arguments"     words that the command always gets
    "environment"   variables that the command always gets
    "installed"     true: the template mcp-gateway has it, so that it starts without a network
    "members"       each member of E2B's type: {"variable": NAME}, {"option": "--name"}, where ""
                    stands for the bare value, or {"mounted": true}: E2B mounts these directories,
                    here the server reaches all; "required": the server does not start without it

`github/OWNER/REPO` is a repository, with commands of the caller's.
"""

import json
import pathlib
import re

TABLE = json.loads(pathlib.Path(__file__).with_name("servers.json").read_text())
GITHUB = re.compile(r"github/([A-Za-z0-9][A-Za-z0-9-]*)/([A-Za-z0-9._-]+)")
# JavaScript's SDK sends the first name of each, Python's the second.
COMMANDS = {"runCmd": "run", "run_cmd": "run", "installCmd": "install", "install_cmd": "install"}


class Refused(Exception):
    """The configuration cannot be served as it is."""


class Server:
    """`package`: its row, for a package; `setup`: a repository's command that installs what it needs."""

    def __init__(self, name, command, env, cwd=None, package=None, setup=None):
        self.name, self.command, self.env, self.cwd = name, command, env, cwd
        self.package, self.setup = package, setup


def installed():
    return sorted(name for name, row in TABLE.items() if row.get("installed"))


def unknown(name):
    have, more = ", ".join(installed()), ", ".join(sorted(TABLE.keys() - set(installed())))
    return Refused(f"there is no server {name!r} here. Installed in the template are {have}. With a network, also {more}. "
                   'Any other is given as "github/OWNER/REPO": {"installCmd": ..., "runCmd": ...}')


def repository(name):
    """The owner and the repository of `github/OWNER/REPO`."""
    match = GITHUB.fullmatch(name)
    if not match or match[2] in (".", ".."):
        raise unknown(name)
    return match[1], match[2]


def text(value):
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return ",".join(map(text, value))
    return value if isinstance(value, str) else json.dumps(value)


def apply(how, value, words, env):
    """Gives the command one member of the configuration."""
    if "variable" in how:
        env[how["variable"]] = text(value)
    if "option" not in how:
        return
    for one in value if isinstance(value, list) else [value]:
        words += [how["option"], text(one)] if how["option"] else [text(one)]


def packaged(name, settings, places):
    row = TABLE[name]
    members = row.get("members", {})
    words, env = list(row.get("arguments", [])), dict(row.get("environment", {}))
    for key in settings.keys() - members.keys():
        known = ", ".join(members) or "no member"
        raise Refused(f"the server {name!r} takes no {key!r}; it takes {known}")
    for key, how in members.items():
        if settings.get(key) not in (None, "", []):
            apply(how, settings[key], words, env)
        elif how.get("required"):
            raise Refused(f"the server {name!r} needs {key!r}")
    return Server(name, [str(places.installed / name / row["run"]), *words], env, package=row)


def from_github(name, settings, places):
    owner, project = repository(name)
    given = {COMMANDS[key]: value for key, value in settings.items() if key in COMMANDS}
    for key in settings.keys() - COMMANDS.keys() - {"envs"}:
        raise Refused(f"the server {name!r} takes no {key!r}; it takes runCmd, installCmd and envs")
    if not given.get("run"):
        raise Refused(f"the server {name!r} needs 'runCmd', the command that starts it")
    envs = settings.get("envs") or {}
    if not isinstance(envs, dict) or any(not isinstance(command, str) for command in given.values() if command is not None):
        raise Refused(f"the server {name!r}: runCmd and installCmd must be strings, and envs an object")
    cwd = places.repositories / owner / project
    return Server(name, ["/bin/bash", "-c", given["run"]], {k: text(v) for k, v in envs.items()},
                  cwd=str(cwd), setup=given.get("install"))


def server(name, settings, places):
    """How the server `name` is started with its settings."""
    settings = {} if settings is None else settings
    if not isinstance(settings, dict):
        raise Refused(f"the settings of the server {name!r} must be an object")
    if name in TABLE:
        return packaged(name, settings, places)
    return from_github(name, settings, places)
