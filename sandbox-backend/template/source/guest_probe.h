// SPDX-License-Identifier: Apache-2.0
// Find out what a guest has that was not built from Cubby's own list of packages, such as one from
// an OCI image.
#pragma once
#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/err.h"
#include "sandbox-backend/template/pump.h"

enum guest_python {
    GUEST_PYTHON_NONE,
    GUEST_PYTHON_FRESH, // a python3
    GUEST_PYTHON_WARM,  // the Python kernel
};

// Check that the template's user can run a command, find out which Python the guest has, and append
// its packages to `packages`, one "<package> <version>" a line. The list is the package manager's;
// python3 is added if the package manager did not install it.
int guest_probe(struct pump *p, const char *vmnet, enum guest_python *python, struct buf *packages,
                struct err *e);
