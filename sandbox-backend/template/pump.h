// SPDX-License-Identifier: Apache-2.0
// A libuv loop driven by straight-line code. A template build does one thing after another, and
// waits here for the end of each.
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "sandbox-backend/base/err.h"

struct pump {
    uv_loop_t loop;
    uv_timer_t timer;
    struct err dead;         // set by a callback when no wait can succeed any more: ends every wait
    void (*tick)(void *ctx); // called a few times a second; may be NULL
    void *ctx;
};

void pump_init(struct pump *p, void (*tick)(void *ctx), void *ctx);
// Run the loop until all handles have closed. All handles but the pump's own must be closing
// already.
void pump_fini(struct pump *p);

// Run the loop until *done is true. Return -1 with `e` when p->dead is set, `timeout_ms` has passed
// (ERR_TIMEOUT, "<what> took longer than ..."), or tool_interrupted is true (ERR_CANCELED). After a
// failure, the object that contains *done must live until pump_fini.
int pump_until(struct pump *p, const bool *done, uint64_t timeout_ms, const char *what,
               struct err *e);
// Run the loop for `ms` milliseconds.
int pump_pause(struct pump *p, uint64_t ms, struct err *e);
