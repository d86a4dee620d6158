# SPDX-License-Identifier: Apache-2.0
"""A JavaScript or TypeScript context: Node.js with the program in the folder `javascript`.

Node.js starts with the context. A template need not have it, and its memory is not in a saved template.
"""
import os
import shutil

CHANNEL = 3  # in Node.js
LANGUAGES = ("javascript", "typescript")
# --expose-internals: the parser that Node.js carries for its own console.
FLAGS = ("--expose-internals", "--no-warnings", "--no-deprecation")


def is_here():
    """Return True if the sandbox has Node.js."""
    return shutil.which("node") is not None


def become(channel, language):
    """Replace this process by Node.js."""
    os.dup2(channel, CHANNEL)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "javascript", "worker.js")
    os.execvp("node", ["node", *FLAGS, program, str(CHANNEL), language])
