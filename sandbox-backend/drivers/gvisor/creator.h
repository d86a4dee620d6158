// SPDX-License-Identifier: Apache-2.0
// `runsc create`, which starts a sentry and ends.
#pragma once
#include <stdint.h>
#include <uv.h>

#include "sandbox-backend/drivers/gvisor/container_dir.h"
#include "sandbox-backend/drivers/host/subproc.h"

struct creator {
    const char *runsc;               // borrowed, as all here
    const struct container_dir *dir; // with the bundle
    int template_fd;                 // of bundle_open
    int log;                         // childlog: the guest's console, and what runsc says
    int64_t memory_mb;               // that the guest sees
};

struct subproc *creator_start(uv_loop_t *loop, const struct creator *how, subproc_exit_cb on_exit,
                              void *ctx, struct err *e);
