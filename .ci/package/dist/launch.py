# SPDX-License-Identifier: Apache-2.0
"""Starts the programs of this package.

cubby-mcp gets --prepare: it answers its client at once, and makes the template of sandboxes in the background on
first use.
"""

import os
import pathlib
import platform
import sys

TREE = pathlib.Path(__file__).parent / "tree"


def end(text):
    sys.exit(f"cubby: {text}")


def numbers(version):
    return tuple(int(part) for part in version.split(".")[:2])


def check():
    system, machine = platform.system(), platform.machine()
    if (system, machine) != ("Linux", "x86_64"):
        end(f"this package is for Linux on x86-64, and this is {system} on {machine}")
    needed = (TREE / "share/cubby/glibc").read_text().strip()
    name, version = platform.libc_ver()
    if name != "glibc":
        end(f"this package needs glibc {needed} or newer, and this computer has another C library")
    if numbers(version) < numbers(needed):
        end(f"this package needs glibc {needed} or newer, and this computer has {version}")


def start(name):
    check()
    os.environ.setdefault("CUBBY_MCP_PREPARE", "1")
    program = str(TREE / "bin" / name)
    try:
        os.execv(program, [program, *sys.argv[1:]])
    except OSError as error:
        end(f"cannot start {program}: {error.strerror}")


def cubby_mcp():
    start("cubby-mcp")


def cubby():
    start("cubby")
