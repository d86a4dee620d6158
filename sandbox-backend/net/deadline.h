// SPDX-License-Identifier: Apache-2.0
// A deadline: a timer that is embedded in the object that waits.
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

struct deadline {
    uv_timer_t timer;
    void (*on_expired)(struct deadline *d);
    void (*on_closed)(struct deadline *d);
    bool closing;
};

void deadline_init(struct deadline *d, uv_loop_t *loop, void (*on_expired)(struct deadline *d));
void deadline_arm(struct deadline *d, uint64_t ms); // if it is armed, it starts again
void deadline_disarm(struct deadline *d);
bool deadline_is_armed(const struct deadline *d);
// Asynchronous. The memory may be freed after `on_closed`, which may be NULL.
void deadline_close(struct deadline *d, void (*on_closed)(struct deadline *d));
