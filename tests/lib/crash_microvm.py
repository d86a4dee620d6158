# SPDX-License-Identifier: Apache-2.0
"""Worlds of crash.py whose machines are QEMUs."""

import os
import pathlib

from crash import MicroVMGuest
from crash_scenarios import maker
from cubbyd import MicroVMs


class FaultyMicroVMs(MicroVMs):
    """The shipped daemon, built so that it ends itself."""

    def __init__(self, *args, env=None):
        super().__init__(*args, env=env)
        self.program = pathlib.Path(os.environ["TEST"]) / "faults" / "cubbyd"


NEW_WORLD = maker(FaultyMicroVMs, MicroVMGuest())
