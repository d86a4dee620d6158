# SPDX-License-Identifier: Apache-2.0
"""The Python kernel as a program: `python3 <this folder> [--port N] [--run-dir DIR] ...`."""
import sys

from cubby_kernel.server import main

sys.exit(main())
