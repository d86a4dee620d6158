# SPDX-License-Identifier: Apache-2.0
"""What a run takes from the sandbox: the environment, and the identity of the machine."""
import json
import logging
import os

from .limits import ENVIRONMENT_BYTES_MAX

log = logging.getLogger("kernel")

FILE = "environment.json"  # in the run directory; envd replaces it as a whole
_MACHINE_ID = "/etc/machine-id"


class Environment:
    def __init__(self, run_dir):
        self._path = os.path.join(run_dir, FILE)
        self._stamp = None
        self._variables = {}

    def variables(self):
        """Return the sandbox's global environment; if it is unreadable, the last one that was readable."""
        try:
            self._look()
        except FileNotFoundError:
            self._stamp, self._variables = None, {}
        except (OSError, ValueError, AttributeError) as e:
            log.error("%s cannot be used, what was read before stays: %s", self._path, e)
        return self._variables

    def _look(self):
        stat = os.stat(self._path)
        if _stamp(stat) == self._stamp:
            return
        with open(self._path, encoding="utf-8") as f:
            stat = os.fstat(f.fileno())  # the file may have been replaced
            if stat.st_size > ENVIRONMENT_BYTES_MAX:
                raise ValueError(f"its {stat.st_size} bytes are more than {ENVIRONMENT_BYTES_MAX}")
            value = json.load(f)
        self._variables = {k: v for k, v in value.items() if isinstance(v, str) and is_variable(k, v)}
        self._stamp = _stamp(stat)


def _stamp(stat):
    return stat.st_ino, stat.st_mtime_ns, stat.st_size


def is_variable(name, value):
    """Return True if a process can have this variable."""
    return bool(name) and "=" not in name and "\0" not in name + value


def identity():
    """Return a text that differs in each sandbox, also in sandboxes of one template or snapshot."""
    try:
        fd = os.open(_MACHINE_ID, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        machine = b""
    else:
        machine = os.read(fd, 256).strip()
        os.close(fd)
    return f"{machine.decode(errors='replace')}/{os.uname().nodename}"
