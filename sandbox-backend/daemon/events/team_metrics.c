// SPDX-License-Identifier: Apache-2.0
// The metrics of a team.
//
// Events say when a sandbox began and ceased to run. The log may lack the first ones, so the counts
// are made backwards from the present: the number that runs now, less each change after a time.
#include "sandbox-backend/daemon/events/team_metrics.h"

#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/mem.h"

#define NS_PER_S 1000000000LL

struct change {
    int64_t at_s;
    int delta;    // of the sandboxes that run
    bool created; // a sandbox was started
};

struct history {
    struct change *items; // owned
    size_t count, room;
    json_t *runs; // owned; {sandbox: whether it runs}, as far as events tell
    int64_t base; // sandboxes that ran before the first change
};

static void note(struct history *h, int64_t at_s, int delta, bool created)
{
    if (h->count == h->room)
        h->items = xrealloc(h->items, (h->room = h->room ? h->room * 2 : 256) * sizeof *h->items);
    h->items[h->count++] = (struct change){at_s, delta, created};
    h->base -= delta;
}

static bool on_event(json_t *event, void *ctx)
{
    struct history *h = ctx;
    const char *sandbox = json_string_value(json_object_get(event, "sandboxId"));
    const char *at = json_string_value(json_object_get(event, "timestamp"));
    enum event_type type = event_type_of(json_string_value(json_object_get(event, "type")));
    const json_t *before = json_object_get(h->runs, sandbox);
    bool runs = type == EVENT_CREATED || type == EVENT_RESUMED;
    // Before its first event in the log, a sandbox was in the other state.
    bool did = before ? json_is_true(before) : !runs;
    int64_t at_ns;
    if (!clock_parse_rfc3339(at, &at_ns))
        return true;
    if (type == EVENT_KILLED)
        json_object_del(h->runs, sandbox);
    else
        json_object_set_new(h->runs, sandbox, json_boolean(runs));
    if (runs != did || type == EVENT_CREATED)
        note(h, at_ns / NS_PER_S, runs - did, type == EVENT_CREATED);
    return true;
}

static void history_read(struct history *h, const struct team_query *q)
{
    const struct events_query events = {.home = q->home,
                                        .owner = q->owner,
                                        .types = 1u << EVENT_CREATED | 1u << EVENT_PAUSED |
                                                 1u << EVENT_RESUMED | 1u << EVENT_KILLED,
                                        .ascending = true};
    *h = (struct history){.runs = json_object(), .base = q->running};
    events_each(&events, on_event, h);
}

static void history_fini(struct history *h)
{
    json_decref(h->runs);
    free(h->items);
}

struct step {
    int64_t at_s, concurrent; // the most at one time
    double start_rate;
};

static json_t *entry(int64_t at_s)
{
    char at[CLOCK_RFC3339_BYTES];
    clock_rfc3339(at, at_s * NS_PER_S);
    return json_pack("{s:s, s:I}", "timestamp", at, "timestampUnix", (json_int_t)at_s);
}

// Call `each` for the steps from from_s to to_s, the oldest first.
static void each_step(const struct team_query *q, void (*each)(const struct step *s, void *ctx),
                      void *ctx)
{
    struct history h;
    history_read(&h, q);
    int64_t last_s = MIN(q->to_s, q->now_s);
    int64_t length = MAX(TEAM_METRICS_STEP_S, (last_s - q->from_s) / TEAM_METRICS_STEPS_MAX + 1);
    int64_t running = h.base;
    size_t next = 0;
    for (; next < h.count && h.items[next].at_s < q->from_s; next++)
        running += h.items[next].delta;
    for (int64_t at = q->from_s; at <= last_s; at += length) {
        struct step step = {.at_s = at, .concurrent = running};
        int64_t started = 0;
        for (; next < h.count && h.items[next].at_s < at + length; next++) {
            running += h.items[next].delta;
            step.concurrent = MAX(step.concurrent, running);
            started += h.items[next].created;
        }
        step.concurrent = MAX(step.concurrent, 0);
        step.start_rate = (double)started / (double)length;
        each(&step, ctx);
    }
    history_fini(&h);
}

static void add_step(const struct step *s, void *ctx)
{
    json_t *one = entry(s->at_s);
    json_object_set_new(one, "concurrentSandboxes", json_integer((json_int_t)s->concurrent));
    json_object_set_new(one, "sandboxStartRate", json_real(s->start_rate));
    json_array_append_new(ctx, one);
}

json_t *team_metrics_read(const struct team_query *q)
{
    json_t *list = json_array();
    each_step(q, add_step, list);
    return list;
}

struct highest {
    enum team_metric metric;
    double value;
    int64_t at_s;
};

static void compare(const struct step *s, void *ctx)
{
    struct highest *h = ctx;
    double value = h->metric == TEAM_CONCURRENT ? (double)s->concurrent : s->start_rate;
    if (value <= h->value)
        return;
    h->value = value;
    h->at_s = s->at_s;
}

json_t *team_metrics_max(const struct team_query *q, enum team_metric metric)
{
    struct highest h = {.metric = metric, .at_s = q->from_s};
    each_step(q, compare, &h);
    json_t *one = entry(h.at_s);
    json_object_set_new(one, "value", json_real(h.value));
    return one;
}
