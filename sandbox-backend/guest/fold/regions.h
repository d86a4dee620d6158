// SPDX-License-Identifier: Apache-2.0
// The regions: the memory of a stopped process that can be folded.
#pragma once
#include "sandbox-backend/guest/fold/plan.h"
#include "sandbox-backend/guest/fold/tracee.h"

// Add to the plan all private memory that the process may write. Its first stack is left out,
// because it must be able to grow, and so are pages of zeros, which take no memory. ERR_LIMIT: the
// plan is full.
int regions_dump(struct tracee *t, struct plan *p, struct err *e);
// Map `path`, the file of the plan, in place of the memory of the first `count` runs, which all
// belong to this process. Pages that have changed since then are left as they are. *mapped is the
// number of bytes.
int regions_map(struct tracee *t, const char *path, int file, const struct plan_run *runs,
                size_t count, uint64_t *mapped, struct err *e);
