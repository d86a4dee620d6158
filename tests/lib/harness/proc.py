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


def cpu_seconds(pid):
    """The processor time of a process, of those below it, and of those of them that have ended."""
    ticks = 0
    for entry in os.listdir("/proc"):
        above = int(entry) if entry.isdecimal() else 0
        while above not in (0, pid):
            above = parent(above)
        if above:
            try:
                fields = pathlib.Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()
            except (FileNotFoundError, ProcessLookupError):
                continue
            ticks += sum(int(field) for field in fields[11:15])
    return ticks / os.sysconf("SC_CLK_TCK")
