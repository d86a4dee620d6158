// SPDX-License-Identifier: Apache-2.0
// Python's caches in the guest of an image or a disk (docs/guest.md).
#pragma once
#include "sandbox-backend/base/err.h"
#include "sandbox-backend/template/pump.h"

// Append the host's file, which is Cubby's sitecustomize.py, to that of the guest's python3, or
// make it there. Nothing changes if it has the text already, as a Cubby template's has.
int guest_site_add(struct pump *p, const char *vmnet, const char *file, struct err *e);
