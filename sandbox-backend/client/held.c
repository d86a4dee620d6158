// SPDX-License-Identifier: Apache-2.0
// Finds out that a command runs whose stream a proxy holds back.
//
//   1. wait a moment: most streams bring their first byte at once, and the watch is stopped
//   2. ask envd for its processes, and look for the tag
//   3. found: tell it, and ask again as long as the process is there. Not found: it may not have
//      started yet, so ask again soon; its own limit ends the operation if it never does
#include "sandbox-backend/client/held.h"

#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/client/call.h"
#include "sandbox-backend/net/deadline.h"

#define LIST_MS      10000
#define AGAIN_MS     100 // before the list is asked for again, doubled each time up to:
#define AGAIN_MAX_MS 5000

struct held {
    struct client *client; // borrowed
    char *id, *tag, *user; // owned; user may be NULL
    struct call *call;     // borrowed; NULL during a pause
    struct deadline pause;
    uint64_t again_ms;
    bool is_found, is_over, is_stopping;
    struct held_events events;
    void *ctx;
};

static void on_pause_over(struct deadline *pause);
static void on_list(int status, const char *body, size_t len, const struct err *e, void *ctx);
static void on_pause_closed(struct deadline *pause);

bool held_is_possible(const struct client *c)
{
    bool is_direct = c->cube_master && !c->sandbox_url;
    return c->dialect->may_hold_streams && !is_direct;
}

// ---- 1. a moment
struct held *held_watch(struct client *c, const char *id, const char *tag, const char *user,
                        const struct held_events *events, void *ctx)
{
    struct held *h = xcalloc(1, sizeof *h);
    h->client = c;
    h->id = xstrdup(id);
    h->tag = xstrdup(tag);
    h->user = user ? xstrdup(user) : NULL;
    h->again_ms = AGAIN_MS;
    h->events = *events;
    h->ctx = ctx;
    deadline_init(&h->pause, c->loop, on_pause_over);
    deadline_arm(&h->pause, c->holds_streams ? HELD_KNOWN_MS : c->times.held_first);
    return h;
}

// ---- 2. the list
static void on_pause_over(struct deadline *pause)
{
    static const struct call_events EVENTS = {.on_end = on_list};
    struct held *h = container_of(pause, struct held, pause);
    json_t *request = json_object();
    h->call = envd_call_unary(h->client, h->id, "process.Process/List", request, h->user, LIST_MS,
                              &EVENTS, h);
    json_decref(request);
}

// {"processes":[{"config":{...},"pid":7,"tag":"..."},...]}. Return 0 if the tag is not there.
static int64_t find_pid(const struct held *h, const char *body, size_t len)
{
    struct err e = ERR_INIT;
    int64_t pid = 0;
    size_t i;
    json_t *one;
    json_t *answer = json_parse(body, len, &e);
    json_array_foreach (json_object_get(answer, "processes"), i, one) {
        const char *tag = json_string_value(json_object_get(one, "tag"));
        if (tag && str_eq(tag, h->tag))
            pid = json_integer_value(json_object_get(one, "pid"));
    }
    json_decref(answer);
    return pid;
}

// ---- 3. what it says
static void take_pid(struct held *h, int64_t pid)
{
    if (pid && !h->is_found) {
        h->is_found = true;
        h->client->holds_streams = true;
        h->events.on_found(pid, h->ctx);
    } else if (pid) {
        h->events.on_alive(h->ctx);
    } else if (h->is_found) {
        h->is_over = true;
        h->events.on_ended(h->ctx);
    }
}

bool held_is_lost(const struct err *e)
{
    return e->code == ERR_GONE || e->code == ERR_NOT_FOUND || e->code == ERR_CONFLICT;
}

static void on_list(int status, const char *body, size_t len, const struct err *e, void *ctx)
{
    (void)status;
    struct held *h = ctx;
    h->call = NULL;
    if (!h->is_stopping && e && held_is_lost(e)) {
        h->is_over = true;
        h->events.on_lost(e, h->ctx);
    } else if (!h->is_stopping && !e) {
        take_pid(h, find_pid(h, body, len));
    }
    if (h->is_stopping) {
        deadline_close(&h->pause, on_pause_closed);
    } else if (!h->is_over) {
        deadline_arm(&h->pause, h->is_found ? h->client->times.held_alive : h->again_ms);
        h->again_ms = h->again_ms < AGAIN_MAX_MS / 2 ? h->again_ms * 2 : AGAIN_MAX_MS;
    }
}

// ---- the end
void held_stop(struct held *h)
{
    if (h->is_stopping)
        return;
    h->is_stopping = true;
    if (h->call)
        call_cancel(h->call);
    else
        deadline_close(&h->pause, on_pause_closed);
}

static void on_pause_closed(struct deadline *pause)
{
    struct held *h = container_of(pause, struct held, pause);
    h->events.on_stopped(h->ctx);
    free(h->id);
    free(h->tag);
    free(h->user);
    free(h);
}
