// SPDX-License-Identifier: Apache-2.0
// Those who wait until the host has room for their sandbox.
#include "sandbox-backend/daemon/waiting.h"

#include <stdlib.h>

#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/daemon/admission.h"
#include "sandbox-backend/daemon/sandbox.h"
#include "sandbox-backend/daemon/store.h"
#include "sandbox-backend/log/log.h"

struct ticket {
    TAILQ_ENTRY(ticket) link;
    struct sandbox *sb; // borrowed; has it
    waiting_cb cb;
    void *ctx;
    int64_t since_ms;
};

static void on_look(struct deadline *d);

void waiting_init(struct waiting *w, struct store *store)
{
    *w = (struct waiting){.store = store};
    TAILQ_INIT(&w->tickets);
    deadline_init(&w->look, store->loop, on_look);
}

void waiting_close(struct waiting *w)
{
    deadline_close(&w->look, NULL);
}

bool waiting_join(struct waiting *w, struct sandbox *sb, waiting_cb cb, void *ctx)
{
    if (w->count >= WAITING_MAX)
        return false;
    struct ticket *t = xmalloc(sizeof *t);
    *t = (struct ticket){.sb = sb, .cb = cb, .ctx = ctx, .since_ms = clock_mono_ms()};
    TAILQ_INSERT_TAIL(&w->tickets, t, link);
    sb->ticket = t;
    if (w->count++ == 0)
        deadline_arm(&w->look, WAITING_LOOK_MS);
    return true;
}

void waiting_leave(struct sandbox *sb)
{
    struct waiting *w = &sb->store->waiting;
    struct ticket *t = steal(&sb->ticket);
    if (!t)
        return;
    TAILQ_REMOVE(&w->tickets, t, link);
    free(t);
    if (--w->count == 0)
        deadline_disarm(&w->look);
}

static void tell(struct ticket *t, const struct err *e)
{
    struct ticket told = *t;
    struct sandbox *sb = told.sb;
    long long ms = clock_mono_ms() - told.since_ms;
    waiting_leave(sb);
    if (e)
        log_warn("admission.refused", "id=%s waited_ms=%lld error=\"%s\"", sb->id, ms, e->msg);
    else
        log_info("admission.admitted", "id=%s waited_ms=%lld", sb->id, ms);
    told.cb(sb, e, told.ctx);
}

// The first who waits, if he is let in now; else, with `e`, if he has waited long enough.
static struct ticket *first_decided(struct waiting *w, struct err *e)
{
    struct ticket *t = TAILQ_FIRST(&w->tickets);
    if (!t || admission_has_room(t->sb, e))
        return t;
    admission_make_room(t->sb);
    int64_t end_ms = t->since_ms + w->store->limits.wait_s * 1000;
    return clock_mono_ms() >= end_ms ? t : NULL;
}

static void on_look(struct deadline *d)
{
    struct waiting *w = container_of(d, struct waiting, look);
    struct err e = ERR_INIT;
    // Who is told may do anything, also to others that wait.
    for (struct ticket *t; (t = first_decided(w, &e)); e = ERR_INIT) {
        w->refused += err_is(&e);
        tell(t, err_is(&e) ? &e : NULL);
    }
    if (w->count)
        deadline_arm(&w->look, WAITING_LOOK_MS);
}
