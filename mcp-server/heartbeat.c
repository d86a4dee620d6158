// SPDX-License-Identifier: Apache-2.0
// Says every two seconds how long something takes, for notifications/progress.
#include "mcp-server/heartbeat.h"

#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/mem.h"

#define FIRST_MS 1000
#define EVERY_MS 2000

struct heartbeat {
    uv_timer_t timer;
    int64_t started_ms;
    int64_t last; // seconds, as last said
    void (*on_beat)(int64_t seconds, void *ctx);
    void (*on_closed)(void *ctx);
    void *ctx;
};

static void on_timer(uv_timer_t *timer)
{
    struct heartbeat *h = timer->data;
    int64_t seconds = (clock_mono_ms() - h->started_ms) / 1000;
    h->last = seconds > h->last ? seconds : h->last + 1;
    h->on_beat(h->last, h->ctx);
}

struct heartbeat *heartbeat_start(uv_loop_t *loop, void (*on_beat)(int64_t seconds, void *ctx),
                                  void *ctx)
{
    struct heartbeat *h = xmalloc(sizeof *h);
    *h = (struct heartbeat){.started_ms = clock_mono_ms(), .on_beat = on_beat, .ctx = ctx};
    uv_timer_init(loop, &h->timer);
    h->timer.data = h;
    uv_timer_start(&h->timer, on_timer, FIRST_MS, EVERY_MS);
    return h;
}

static void on_timer_closed(uv_handle_t *handle)
{
    struct heartbeat *h = handle->data;
    void (*on_closed)(void *ctx) = h->on_closed;
    void *ctx = h->ctx;
    free(h);
    on_closed(ctx);
}

void heartbeat_stop(struct heartbeat *h, void (*on_closed)(void *ctx), void *ctx)
{
    h->on_closed = on_closed;
    h->ctx = ctx;
    uv_close((uv_handle_t *)&h->timer, on_timer_closed);
}
