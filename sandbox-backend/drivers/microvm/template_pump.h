// SPDX-License-Identifier: Apache-2.0
// A libuv loop driven by straight-line code: a template build does one thing after the other, and
// waits here for each to be done.
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "sandbox-backend/base/err.h"

struct pump {
    uv_loop_t loop;
    uv_timer_t timer;
    struct err dead;         // set by whoever sees that waiting is of no use: ends every wait
    void (*tick)(void *ctx); // called a few times a second; or NULL
    void *ctx;
};

void pump_init(struct pump *p, void (*tick)(void *ctx), void *ctx);
// Runs the loop until everything on it has closed. All handles but the pump's own must be closing.
void pump_fini(struct pump *p);

// Runs the loop until *done. -1 with `e`: p->dead was set, `timeout_ms` passed (ERR_TIMEOUT,
// "<what> took longer than ..."), or tool_interrupted (ERR_CANCELED). Whatever *done belongs to
// must then live until pump_fini.
int pump_until(struct pump *p, const bool *done, uint64_t timeout_ms, const char *what,
               struct err *e);
// Runs the loop for a while.
int pump_pause(struct pump *p, uint64_t ms, struct err *e);
