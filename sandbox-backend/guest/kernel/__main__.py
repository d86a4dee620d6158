# SPDX-License-Identifier: Apache-2.0
"""The Python kernel as a program: `python3 <this folder> [--port N] [--run-dir DIR] ...`."""
import os
import sys

# What the kernel needs of its own in the template of an image. The image's own packages go before it.
PACKAGES = "/usr/lib/cubby/packages"
if os.path.isdir(PACKAGES):
    sys.path.append(PACKAGES)

from cubby_kernel.server import main  # noqa: E402

sys.exit(main())
