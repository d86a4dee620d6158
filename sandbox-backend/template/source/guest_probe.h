// SPDX-License-Identifier: Apache-2.0
// What a guest has whose files are not of Cubby's list of packages.
#pragma once
#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/err.h"
#include "sandbox-backend/template/pump.h"

enum guest_python {
    GUEST_PYTHON_NONE,
    GUEST_PYTHON_FRESH, // a python3
    GUEST_PYTHON_WARM,  // the Python kernel
};

// Ask the guest for its Python, and append its packages ("<package> <version>" in each line) to
// `packages`: as its package manager names them, and python3, if it is not from there.
int guest_probe(struct pump *p, const char *vmnet, enum guest_python *python, struct buf *packages,
                struct err *e);
