// SPDX-License-Identifier: Apache-2.0
// The memory of a stopped process that can be folded.
#pragma once
#include "sandbox-backend/guest/fold/plan.h"
#include "sandbox-backend/guest/fold/tracee.h"

// Add all private memory that the process may write to the plan, but its first stack, which has to
// be able to grow, and pages of zeros, which take no room. ERR_LIMIT: the plan is full.
int regions_dump(struct tracee *t, struct plan *p, struct err *e);
// Map `path`, the file of the plan, in place of the first `count` runs, which are all of this
// process. Pages that have changed since are left. *mapped: bytes.
int regions_map(struct tracee *t, const char *path, int file, const struct plan_run *runs,
                size_t count, uint64_t *mapped, struct err *e);
