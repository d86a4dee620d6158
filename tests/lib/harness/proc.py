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
    """The processor time of a process, of those below it, and of those of them that have ended.
    KeyError if there is no such process."""
    seen = {}
    for entry in filter(str.isdecimal, os.listdir("/proc")):
        try:
            fields = pathlib.Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        seen[int(entry)] = int(fields[1]), sum(int(field) for field in fields[11:15])
    ticks = seen[pid][1]
    for below, (above, spent) in seen.items():
        while above in seen and above != pid:
            above = seen[above][0]
        ticks += spent if above == pid and below != pid else 0
    return ticks / os.sysconf("SC_CLK_TCK")
