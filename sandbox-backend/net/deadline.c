// SPDX-License-Identifier: Apache-2.0
// A deadline: a timer embedded in the object that waits.
#include "sandbox-backend/net/deadline.h"

#include "sandbox-backend/base/mem.h"

static void on_timer(uv_timer_t *timer)
{
    struct deadline *d = container_of(timer, struct deadline, timer);
    if (!d->closing)
        d->on_expired(d);
}

static void on_timer_closed(uv_handle_t *handle)
{
    struct deadline *d = container_of((uv_timer_t *)handle, struct deadline, timer);
    if (d->on_closed)
        d->on_closed(d);
}

void deadline_init(struct deadline *d, uv_loop_t *loop, void (*on_expired)(struct deadline *d))
{
    *d = (struct deadline){.on_expired = on_expired};
    uv_timer_init(loop, &d->timer);
}

void deadline_arm(struct deadline *d, uint64_t ms)
{
    if (d->closing)
        return;
    // libuv's clock is as old as the loop's wake-up; a long callback must not shorten the wait.
    uv_update_time(d->timer.loop);
    uv_timer_start(&d->timer, on_timer, ms, 0);
}

void deadline_disarm(struct deadline *d)
{
    uv_timer_stop(&d->timer);
}

bool deadline_is_armed(const struct deadline *d)
{
    return uv_is_active((const uv_handle_t *)&d->timer) != 0;
}

void deadline_close(struct deadline *d, void (*on_closed)(struct deadline *d))
{
    if (d->closing)
        return;
    d->closing = true;
    d->on_closed = on_closed;
    uv_close((uv_handle_t *)&d->timer, on_timer_closed);
}
