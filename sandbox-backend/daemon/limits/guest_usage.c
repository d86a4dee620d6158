// SPDX-License-Identifier: Apache-2.0
// Guest usage: what a guest uses of its machine.
#include "sandbox-backend/daemon/limits/guest_usage.h"

#include <stdlib.h>

#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/net/deadline.h"

#define CPUS_MAX  4096
#define PERCENT   100
#define BYTES_MAX ((int64_t)1 << 50)

// Each callback runs in a turn of the loop of its own.
struct guest_usage_waiter {
    struct guest_usage_waiter *next;
    struct deadline turn;
    guest_usage_cb cb;
    void *ctx;
};

static void on_waiter_closed(struct deadline *d)
{
    free(container_of(d, struct guest_usage_waiter, turn));
}

static void on_waiter_turn(struct deadline *d)
{
    struct guest_usage_waiter *w = container_of(d, struct guest_usage_waiter, turn);
    guest_usage_cb cb = w->cb;
    void *ctx = w->ctx;
    deadline_close(&w->turn, on_waiter_closed);
    cb(ctx);
}

void guest_usage_tell(struct guest_usage *u)
{
    for (struct guest_usage_waiter *w; (w = u->waiters);) {
        u->waiters = w->next;
        deadline_arm(&w->turn, 0);
    }
}

int guest_usage_parse(const char *text, size_t len, struct guest_usage_sample *s, struct err *e)
{
    const struct {
        const char *key;
        int64_t max, *value;
    } MEMBERS[] = {
        {"cpu_count", CPUS_MAX, &s->cpus},       {"mem_used", BYTES_MAX, &s->mem_used},
        {"mem_total", BYTES_MAX, &s->mem_total}, {"mem_cache", BYTES_MAX, &s->mem_cache},
        {"disk_used", BYTES_MAX, &s->disk_used}, {"disk_total", BYTES_MAX, &s->disk_total},
    };
    json_t *json = json_parse(text, len, e);
    if (json && !json_is_object(json))
        err_set(e, ERR_INVALID, "the figures are not a JSON object");
    for (size_t i = 0; i < ARRAY_LEN(MEMBERS) && !err_is(e); i++)
        json_get_int(json, MEMBERS[i].key, 0, MEMBERS[i].max, MEMBERS[i].value, 0, e);
    const json_t *pct = json_object_get(json, "cpu_used_pct");
    s->cpu_pct = json_is_number(pct) ? json_number_value(pct) : 0;
    if (s->cpu_pct < 0 || s->cpu_pct > PERCENT)
        err_set(e, ERR_INVALID, "cpu_used_pct is not a percentage");
    json_decref(json);
    return err_is(e) ? -1 : 0;
}

void guest_usage_add(struct guest_usage *u, const struct guest_usage_sample *s)
{
    if (!u->samples)
        u->samples = xcalloc(GUEST_USAGE_MAX, sizeof *u->samples);
    u->samples[u->next] = *s;
    u->next = (u->next + 1) % GUEST_USAGE_MAX;
    u->count += u->count < GUEST_USAGE_MAX;
}

bool guest_usage_is_fresh(const struct guest_usage *u)
{
    return u->count && clock_mono_ms() - u->asked_ms < GUEST_USAGE_SPACING_MS;
}

void guest_usage_wait(struct guest_usage *u, uv_loop_t *loop, guest_usage_cb cb, void *ctx)
{
    struct guest_usage_waiter *w = xcalloc(1, sizeof *w);
    w->cb = cb;
    w->ctx = ctx;
    deadline_init(&w->turn, loop, on_waiter_turn);
    w->next = u->waiters;
    u->waiters = w;
}

void guest_usage_fini(struct guest_usage *u)
{
    free(u->samples);
    u->samples = NULL;
}

const struct guest_usage_sample *guest_usage_at(const struct guest_usage *u, size_t i)
{
    size_t first = u->count < GUEST_USAGE_MAX ? 0 : u->next;
    return &u->samples[(first + i) % GUEST_USAGE_MAX];
}

json_t *guest_usage_json(const struct guest_usage_sample *s)
{
    char at[CLOCK_RFC3339_BYTES];
    clock_rfc3339(at, s->at_ns);
    return json_pack("{s:s, s:I, s:I, s:f, s:I, s:I, s:I, s:I, s:I}", "timestamp", at,
                     "timestampUnix", (json_int_t)(s->at_ns / 1000000000), "cpuCount",
                     (json_int_t)s->cpus, "cpuUsedPct", s->cpu_pct, "memUsed",
                     (json_int_t)s->mem_used, "memTotal", (json_int_t)s->mem_total, "memCache",
                     (json_int_t)s->mem_cache, "diskUsed", (json_int_t)s->disk_used, "diskTotal",
                     (json_int_t)s->disk_total);
}
