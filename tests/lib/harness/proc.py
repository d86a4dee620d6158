# SPDX-License-Identifier: Apache-2.0
"""What processes have open, as /proc shows it. A process opens and closes while it is looked at."""
import os
import pathlib


def descriptors(pid):
    """{descriptor: what it refers to} of a process, without those that are closed meanwhile.
    FileNotFoundError or ProcessLookupError if there is no such process."""
    found = {}
    for name in os.listdir(f"/proc/{pid}/fd"):
        try:
            found[int(name)] = os.readlink(f"/proc/{pid}/fd/{name}")
        except FileNotFoundError:
            continue
    return found


def parent(pid):
    """The pid of a process's parent; 0 if the process has ended."""
    try:
        stat = pathlib.Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return int(stat.rpartition(")")[2].split()[1])
