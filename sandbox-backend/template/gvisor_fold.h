// SPDX-License-Identifier: Apache-2.0
// The memory of a warm guest goes into a file that all sandboxes of the template share
// (guest/fold/main.c says why and how).
#pragma once
#include "sandbox-backend/base/err.h"
#include "sandbox-backend/template/pump.h"

// Fold the memory of the guest behind `vmnet`, which has GVISOR_MEMORY of the directory `parts`
// mounted, into that file. Output of the guest's commands goes to `log`.
int gvisor_fold(struct pump *p, const char *vmnet, const char *parts, int log, struct err *e);
