# SPDX-License-Identifier: Apache-2.0
"""Prints the public methods of E2B's Python SDKs, one on a line, with JavaScript's names: "Sandbox.createSnapshot"."""

import re

import e2b
from e2b.sandbox_sync.commands.command import Commands
from e2b.sandbox_sync.commands.pty import Pty
from e2b.sandbox_sync.filesystem.filesystem import Filesystem
from e2b.sandbox_sync.git import Git
from e2b.template.main import TemplateBuilder
from e2b_code_interpreter import Sandbox

CLASSES = {"Sandbox": Sandbox, "Volume": e2b.Volume, "Secret": e2b.Secret, "Template": e2b.Template,
           "sandbox.commands": Commands, "sandbox.pty": Pty, "sandbox.files": Filesystem, "sandbox.git": Git,
           "template": TemplateBuilder}

for prefix, kind in CLASSES.items():
    for name in dir(kind):
        if not name.startswith("_") and callable(getattr(kind, name)):
            print(prefix + "." + re.sub("_([a-z])", lambda m: m[1].upper(), name))
