# SPDX-License-Identifier: Apache-2.0
"""What a run takes from the sandbox: its environment, and which machine it is."""
import json
import logging
import os

from .limits import ENVIRONMENT_BYTES_MAX

log = logging.getLogger("kernel")

FILE = "environment.json"  # in the run directory; written by envd, whole at any time
_MACHINE_FILES = ("/etc/machine-id", "/proc/sys/kernel/hostname")


class Environment:
    def __init__(self, run_dir):
        self._path = os.path.join(run_dir, FILE)
        self._stamp = None
        self._variables = {}

    def variables(self):
        """The sandbox's global environment now."""
        try:
            stat = os.stat(self._path)
        except OSError:
            self._stamp, self._variables = None, {}
            return self._variables
        stamp = (stat.st_ino, stat.st_mtime_ns, stat.st_size)
        if stamp != self._stamp:
            self._variables = self._read()
            self._stamp = stamp
        return self._variables

    def _read(self):
        try:
            with open(self._path, encoding="utf-8") as f:
                value = json.loads(f.read(ENVIRONMENT_BYTES_MAX))
            return {k: v for k, v in value.items() if isinstance(v, str) and is_variable(k, v)}
        except (OSError, ValueError, AttributeError) as e:
            log.error("%s cannot be used: %s", self._path, e)
            return {}


def is_variable(name, value):
    """Whether a process can have it."""
    return bool(name) and "=" not in name and "\0" not in name + value


def identity():
    """Another text in each sandbox: what one snapshot's sandboxes have in common ends here."""
    parts = []
    for path in _MACHINE_FILES:
        try:
            with open(path, encoding="ascii", errors="replace") as f:
                parts.append(f.read(256).strip())
        except OSError:
            parts.append("")
    return "/".join(parts)
