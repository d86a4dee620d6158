// SPDX-License-Identifier: Apache-2.0
// Finds out whether a sandbox still lives, after a stream of it broke.
//
//   1. ask envd's /health, on the way that the stream took: an answer means that the sandbox lives
//   2. without one, ask the control plane, which says that the sandbox ended, and why
//   3. a stream breaks sooner than the control plane learns of an end: while it still lists the
//      sandbox, ask both again, for a few seconds. Then only envd may have ended: unknown
#include <stdio.h>
#include <stdlib.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/client/call.h"
#include "sandbox-backend/client/client_internal.h"
#include "sandbox-backend/net/deadline.h"

#define ANSWER_MS  10000
#define PAUSE_MS   25 // before both are asked again, doubled each time:
#define PAUSES_MAX 7  // about 3 s in all

struct fate {
    struct client *client; // borrowed
    char *id;              // owned
    struct call *call;     // borrowed; NULL during a pause
    struct deadline pause;
    int pauses;
    struct err err;
    const char *lost; // literal
    char broke[ERR_MSG_BYTES];
    fate_cb cb;
    void *ctx;
};

static void ask_envd(struct fate *f);
static void on_envd(int status, const char *body, size_t len, const struct err *e, void *ctx);
static void ask_api(struct fate *f);
static void on_api(int status, const char *body, size_t len, const struct err *e, void *ctx);
static void on_paused(struct deadline *deadline);
static void finish(struct fate *f);
static void on_pause_closed(struct deadline *deadline);

struct fate *fate_ask(struct client *c, const char *id, const char *lost, const struct err *broke,
                      fate_cb cb, void *ctx)
{
    struct fate *f = xcalloc(1, sizeof *f);
    f->client = c;
    f->id = xstrdup(id);
    f->lost = lost;
    f->cb = cb;
    f->ctx = ctx;
    snprintf(f->broke, sizeof f->broke, "%s",
             err_is(broke) ? broke->msg : "the stream ended early");
    deadline_init(&f->pause, c->loop, on_paused);
    ask_envd(f);
    return f;
}

void fate_cancel(struct fate *f)
{
    if (err_is(&f->err)) // known already, and about to be reported
        return;
    err_set(&f->err, ERR_CANCELED, "canceled");
    if (f->call)
        call_cancel(f->call);
    else
        finish(f);
}

static void unknown(struct fate *f, const char *else_known)
{
    err_set(&f->err, ERR_UNAVAILABLE, "%s (%s; %s)", f->lost, f->broke, else_known);
    finish(f);
}

// ---- 1. envd
static void ask_envd(struct fate *f)
{
    static const struct call_events EVENTS = {.on_end = on_envd};
    const struct call_opts opts = {
        .sandbox = f->id, .method = "GET", .target = "/health", .timeout_ms = ANSWER_MS};
    f->call = call_start(f->client, &opts, &EVENTS, f);
}

static void on_envd(int status, const char *body, size_t len, const struct err *e, void *ctx)
{
    (void)status;
    (void)body;
    (void)len;
    struct fate *f = ctx;
    f->call = NULL;
    if (err_is(&f->err)) {
        finish(f);
    } else if (!e) {
        unknown(f, "the sandbox still runs");
    } else if (e->code == ERR_GONE) {
        f->err = *e;
        finish(f);
    } else if (e->code == ERR_CONFLICT) { // paused, or changes its state
        unknown(f, e->msg);
    } else {
        ask_api(f);
    }
}

// ---- 2. the control plane
static void ask_api(struct fate *f)
{
    static const struct call_events EVENTS = {.on_end = on_api};
    char *target auto_free = str_printf("/sandboxes/%s", f->id);
    const struct call_opts opts = {.method = "GET", .target = target, .timeout_ms = ANSWER_MS};
    f->call = call_start(f->client, &opts, &EVENTS, f);
}

static void on_api(int status, const char *body, size_t len, const struct err *e, void *ctx)
{
    (void)status;
    (void)body;
    (void)len;
    struct fate *f = ctx;
    f->call = NULL;
    if (err_is(&f->err)) {
        finish(f);
    } else if (e && (e->code == ERR_GONE || e->code == ERR_NOT_FOUND)) {
        f->err = *e;
        f->err.code = ERR_GONE; // it existed when the stream began
        finish(f);
    } else if (e) {
        unknown(f, "neither envd nor the backend answers for the sandbox");
    } else if (f->pauses == PAUSES_MAX) {
        unknown(f, "the sandbox runs, but its envd does not answer");
    } else {
        deadline_arm(&f->pause, (uint64_t)PAUSE_MS << f->pauses++);
    }
}

static void on_paused(struct deadline *deadline)
{
    ask_envd(container_of(deadline, struct fate, pause));
}

// ---- 3. the answer
static void finish(struct fate *f)
{
    deadline_close(&f->pause, on_pause_closed);
}

static void on_pause_closed(struct deadline *deadline)
{
    struct fate *f = container_of(deadline, struct fate, pause);
    f->cb(&f->err, f->ctx);
    free(f->id);
    free(f);
}
