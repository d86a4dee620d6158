# SPDX-License-Identifier: Apache-2.0
"""The files of mcp-gateway, and the user of the servers that it starts."""

import os
import pathlib
import pwd

USER = "user"


class Places:
    def __init__(self, root):
        self.root = root = pathlib.Path(root)
        self.token = root / "etc/mcp-gateway/.token"  # where E2B's SDKs read it
        self.installed = root / "opt/mcp-gateway"
        self.repositories = root / "opt/mcp-gateway-github"
        self.state = root / "var/lib/mcp-gateway"
        self.logs = self.state / "log"
        self.starting = self.state / "starting"  # locked by a start
        self.running = self.state / "running"  # locked by the gateway that serves
        self.waiting = self.state / "waiting.sock"

    def log(self, name):
        return self.logs / f"{name.replace('/', '-')}.log"

    def make(self):
        """Makes what the serving process writes, which is the user's."""
        account = user()
        for directory in (self.state, self.logs):
            directory.mkdir(parents=True, exist_ok=True)
        for file in (self.running, self.log("gateway")):
            file.touch()
        if account:
            for path in (self.state, self.logs, self.running, self.log("gateway")):
                os.chown(path, account.pw_uid, account.pw_gid)


def user():
    """The account that servers run as: that of commands if root asks, else the caller's own (None)."""
    if os.geteuid() != 0:
        return None
    try:
        return pwd.getpwnam(USER)
    except KeyError:
        return None


def as_user():
    """What subprocess needs to become that user, with the environment of its own."""
    account = user()
    if not account:
        return {"env": dict(os.environ), "cwd": os.environ.get("HOME", "/")}
    env = os.environ | {"HOME": account.pw_dir, "USER": account.pw_name, "LOGNAME": account.pw_name}
    return {"env": env, "cwd": account.pw_dir, "user": account.pw_uid, "group": account.pw_gid,
            "extra_groups": os.getgrouplist(account.pw_name, account.pw_gid)}
