// SPDX-License-Identifier: Apache-2.0
// Host usage: what each sandbox uses of the host.
#include "sandbox-backend/daemon/limits/host_usage.h"

#include <stdlib.h>

#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/log/log.h"

#define SLICE_MS 2 // of one turn of the loop; at least one machine is measured
#define REST_MS  1 // between two slices

struct usage_waiter {
    struct usage_waiter *next;
    host_usage_cb cb;
    void *ctx;
};

static void on_turn(struct deadline *d);

void host_usage_init(struct host_usage_sampler *u, uv_loop_t *loop, host_usage_next measure_next,
                     void *ctx)
{
    *u = (struct host_usage_sampler){.measure_next = measure_next, .ctx = ctx};
    deadline_init(&u->turn, loop, on_turn);
}

void host_usage_follow(struct host_usage *u, const struct machine *m, bool is_waiting)
{
    if (is_waiting)
        u->since_ms = clock_mono_ms();
    if (u->of != m || !u->since_ms)
        *u = (struct host_usage){.of = m, .since_ms = clock_mono_ms(), .cpu_percent = -1};
}

void host_usage_measure(struct host_usage *u, const struct machine *m, const char *id)
{
    struct machine_usage seen = {0};
    struct err e = ERR_INIT;
    int64_t now = clock_mono_ms();
    if (machine_usage(m, &seen, &e) < 0) {
        log_debug("sandbox.usage", "id=%s error=\"%s\"", id, e.msg);
        seen = u->last;
    }
    int64_t window_ms = u->at_ms ? now - u->at_ms : 0;
    int64_t used_ns = seen.cpu_ns - u->last.cpu_ns;
    u->cpu_percent = window_ms > 0 && window_ms <= HOST_USAGE_CPU_MS && used_ns >= 0
                         ? (double)used_ns / (double)window_ms / 1e4
                         : -1;
    u->last = seen;
    u->at_ms = now;
}

static void call_waiters(struct usage_waiter *all)
{
    for (struct usage_waiter *next; all; all = next) {
        next = all->next;
        if (all->cb)
            all->cb(all->ctx);
        free(all);
    }
}

static void on_turn(struct deadline *d)
{
    struct host_usage_sampler *u = container_of(d, struct host_usage_sampler, turn);
    int64_t end = clock_mono_ms() + SLICE_MS;
    while (u->measure_next(u->ctx, u->older_ms)) {
        if (clock_mono_ms() >= end) {
            deadline_arm(d, REST_MS);
            return;
        }
    }
    call_waiters(steal(&u->first));
}

void host_usage_refresh(struct host_usage_sampler *u, int64_t fresh_ms, host_usage_cb cb, void *ctx)
{
    struct usage_waiter *w = xmalloc(sizeof *w);
    *w = (struct usage_waiter){u->first, cb, ctx};
    u->first = w;
    if (deadline_is_armed(&u->turn))
        return;
    u->older_ms = clock_mono_ms() - fresh_ms;
    deadline_arm(&u->turn, 0);
}

void host_usage_close(struct host_usage_sampler *u)
{
    deadline_close(&u->turn, NULL);
    call_waiters(steal(&u->first));
}
