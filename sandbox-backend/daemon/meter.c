// SPDX-License-Identifier: Apache-2.0
// How much of its machine a sandbox uses.
#include "sandbox-backend/daemon/meter.h"

#include <stdlib.h>

#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/daemon/guest_call.h"
#include "sandbox-backend/daemon/sandbox.h"
#include "sandbox-backend/log/log.h"
#include "sandbox-backend/net/deadline.h"

#define ANSWER_MS 5000
#define CPUS_MAX  4096
#define PERCENT   100
#define BYTES_MAX ((int64_t)1 << 50)

// Each is told by a turn of the loop of its own.
struct meter_waiter {
    struct meter_waiter *next;
    struct deadline turn;
    meter_cb cb;
    void *ctx;
};

static void on_waiter_closed(struct deadline *d)
{
    free(container_of(d, struct meter_waiter, turn));
}

static void on_waiter_turn(struct deadline *d)
{
    struct meter_waiter *w = container_of(d, struct meter_waiter, turn);
    meter_cb cb = w->cb;
    void *ctx = w->ctx;
    deadline_close(&w->turn, on_waiter_closed);
    cb(ctx);
}

static void tell_all(struct meter *m)
{
    for (struct meter_waiter *w; (w = m->waiters);) {
        m->waiters = w->next;
        deadline_arm(&w->turn, 0);
    }
}

int meter_parse(const char *text, size_t len, struct meter_sample *s, struct err *e)
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
        err_set(e, ERR_INVALID, "it is no object");
    for (size_t i = 0; i < ARRAY_LEN(MEMBERS) && !err_is(e); i++)
        json_get_int(json, MEMBERS[i].key, 0, MEMBERS[i].max, MEMBERS[i].value, 0, e);
    const json_t *pct = json_object_get(json, "cpu_used_pct");
    s->cpu_pct = json_is_number(pct) ? json_number_value(pct) : 0;
    if (s->cpu_pct < 0 || s->cpu_pct > PERCENT)
        err_set(e, ERR_INVALID, "cpu_used_pct is not a percentage");
    json_decref(json);
    return err_is(e) ? -1 : 0;
}

static void on_answer(int status, const char *text, size_t len, const struct err *e, void *ctx)
{
    struct sandbox *sb = ctx;
    struct meter *m = &sb->meter;
    struct meter_sample sample = {.at_ns = clock_wall_ns()};
    struct err why = ERR_INIT;
    m->call = NULL;
    if (!e && status != 200)
        err_set(&why, ERR_INTERNAL, "envd answered /metrics with %d", status);
    if (!e && !err_is(&why) && meter_parse(text, len, &sample, &why) == 0) {
        if (!m->samples)
            m->samples = xcalloc(METER_MAX, sizeof *m->samples);
        m->samples[m->next] = sample;
        m->next = (m->next + 1) % METER_MAX;
        m->count += m->count < METER_MAX;
    } else {
        log_warn("sandbox.metrics", "id=%s error=\"%s\"", sb->id, e ? e->msg : why.msg);
    }
    tell_all(m);
}

void meter_refresh(struct sandbox *sb, meter_cb cb, void *ctx)
{
    struct meter *m = &sb->meter;
    int64_t now = clock_mono_ms();
    struct meter_waiter *w = xcalloc(1, sizeof *w);
    w->cb = cb;
    w->ctx = ctx;
    deadline_init(&w->turn, sb->upstream.loop, on_waiter_turn);
    w->next = m->waiters;
    m->waiters = w;
    if (m->call)
        return;
    bool is_fresh = m->count && now - m->asked_ms < METER_SPACING_MS;
    if (sb->state != SANDBOX_RUNNING || is_fresh) {
        tell_all(m);
        return;
    }
    m->asked_ms = now;
    m->call = guest_call_start(sb, "GET", "/metrics", NULL, ANSWER_MS, on_answer, sb);
}

void meter_cancel(struct sandbox *sb)
{
    if (sb->meter.call)
        guest_call_cancel(steal(&sb->meter.call));
    tell_all(&sb->meter);
}

void meter_fini(struct meter *m)
{
    free(m->samples);
    m->samples = NULL;
}

const struct meter_sample *meter_at(const struct meter *m, size_t i)
{
    size_t first = m->count < METER_MAX ? 0 : m->next;
    return &m->samples[(first + i) % METER_MAX];
}

json_t *meter_json(const struct meter_sample *s)
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
