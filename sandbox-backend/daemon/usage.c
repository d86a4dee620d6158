// SPDX-License-Identifier: Apache-2.0
// What sandboxes use of the host.
#include "sandbox-backend/daemon/usage.h"

#include <stdlib.h>

#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/daemon/network_view.h"
#include "sandbox-backend/daemon/sandbox.h"
#include "sandbox-backend/daemon/store.h"
#include "sandbox-backend/log/log.h"

#define SLICE_MS 2 // of the loop's time in one turn; one sandbox at least
#define REST_MS  1 // between two, for everybody else

struct usage_waiter {
    struct usage_waiter *next;
    usage_cb cb;
    void *ctx;
};

static void on_turn(struct deadline *d);

void usage_init(struct usage_sampler *u, struct store *store)
{
    *u = (struct usage_sampler){.store = store};
    deadline_init(&u->turn, store->loop, on_turn);
}

const struct usage *usage_of(struct sandbox *sb)
{
    struct usage *u = &sb->usage;
    if (sb->state == SANDBOX_POOLED) // it begins to grow when it is handed out
        u->since_ms = clock_mono_ms();
    if (u->of != sb->machine || !u->since_ms)
        *u = (struct usage){.of = sb->machine, .since_ms = clock_mono_ms(), .cpu_percent = -1};
    return u;
}

static void look_at(struct sandbox *sb)
{
    struct usage *u = &sb->usage;
    struct machine_usage seen = {0};
    struct err e = ERR_INIT;
    int64_t now = clock_mono_ms();
    if (machine_usage(sb->machine, &seen, &e) < 0) {
        log_debug("sandbox.usage", "id=%s error=\"%s\"", sb->id, e.msg);
        seen = u->last; // it is about to be found dead; what it used goes on standing there
    }
    int64_t window_ms = u->at_ms ? now - u->at_ms : 0;
    int64_t used_ns = seen.cpu_ns - u->last.cpu_ns;
    u->cpu_percent = window_ms > 0 && window_ms <= USAGE_CPU_MS && used_ns >= 0
                         ? (double)used_ns / (double)window_ms / 1e4
                         : -1;
    u->last = seen;
    u->at_ms = now;
    network_view_note(sb);
}

static struct sandbox *next_stale(const struct usage_sampler *u)
{
    for (struct sandbox *sb = store_first(u->store); sb; sb = store_next(sb))
        if (usage_of(sb)->at_ms < u->older_ms && sb->machine && sb->state < SANDBOX_KILLING)
            return sb;
    return NULL;
}

static void tell(struct usage_waiter *all)
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
    struct usage_sampler *u = container_of(d, struct usage_sampler, turn);
    int64_t end = clock_mono_ms() + SLICE_MS;
    struct sandbox *sb = next_stale(u);
    while (sb) {
        look_at(sb);
        sb = next_stale(u);
        if (sb && clock_mono_ms() >= end) {
            deadline_arm(d, REST_MS);
            return;
        }
    }
    tell(steal(&u->first));
}

void usage_refresh(struct usage_sampler *u, int64_t fresh_ms, usage_cb cb, void *ctx)
{
    struct usage_waiter *w = xmalloc(sizeof *w);
    *w = (struct usage_waiter){u->first, cb, ctx};
    u->first = w;
    if (deadline_is_armed(&u->turn))
        return;
    u->older_ms = clock_mono_ms() - fresh_ms;
    deadline_arm(&u->turn, 0);
}

void usage_close(struct usage_sampler *u)
{
    deadline_close(&u->turn, NULL);
    tell(steal(&u->first));
}
