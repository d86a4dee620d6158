// SPDX-License-Identifier: Apache-2.0
// Polled watches: CreateWatcher, GetWatcherEvents, RemoveWatcher. envd keeps the events until a
// client polls them. Past KEPT_BYTES_MAX the watcher is blocked, and the guest kernel queues
// events. A client may leave without RemoveWatcher. When room is needed, envd ends the watch that
// no client has polled for the longest time, if that time is at least EVICT_MS.
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/envd/fs/watch_rpc.h"

#define KEPT_BYTES_MAX (1024 * 1024)
#define EVICT_MS       300000

struct polled_watch {
    LIST_ENTRY(polled_watch) link; // of envd->polled
    struct envd *envd;
    struct rpc *creating; // the call that created it, until it is armed
    struct watcher *watcher;
    char *id; // owned
    enum entry_form form;
    struct buf kept; // FilesystemEvents with commas between them
    struct err failed;
    int64_t asked_ms; // time of the last poll
};

static void end(struct polled_watch *p)
{
    LIST_REMOVE(p, link);
    watch_end(p->envd, p->watcher);
    buf_fini(&p->kept);
    free(p->id);
    free(p);
}

static struct polled_watch *find(struct rpc *call, const char *id)
{
    struct polled_watch *p;
    LIST_FOREACH (p, &call->envd->polled, link)
        if (strcmp(p->id, id) == 0)
            return p;
    struct err e = ERR_INIT;
    err_set(&e, ERR_NOT_FOUND, "watcher with id %s not found", id);
    rpc_fail(call, &e);
    return NULL;
}

bool watch_poll_evict(struct envd *envd)
{
    struct polled_watch *oldest = LIST_FIRST(&envd->polled);
    struct polled_watch *p;
    LIST_FOREACH (p, &envd->polled, link)
        if (p->asked_ms < oldest->asked_ms)
            oldest = p;
    if (!oldest || oldest->creating || clock_mono_ms() - oldest->asked_ms < EVICT_MS)
        return false;
    end(oldest);
    return true;
}

void watch_poll_close(struct envd *envd)
{
    while (!LIST_EMPTY(&envd->polled))
        end(LIST_FIRST(&envd->polled)); // NOLINT(clang-analyzer-unix.Malloc): end takes it out
}

// ---- the watcher's events

static void on_armed(void *ctx)
{
    struct polled_watch *p = ctx;
    struct rpc *call = steal(&p->creating);
    char *answer auto_free = str_printf("{\"watcherId\":\"%s\"}", p->id);
    call->on_closed = NULL;
    rpc_reply_text(call, answer);
}

static void on_event(const char *type, const char *name, const char *path, void *ctx)
{
    struct polled_watch *p = ctx;
    if (p->kept.len)
        buf_addc(&p->kept, ',');
    watch_put_event(&p->kept, p->envd->users, p->form, type, name, path);
    if (p->kept.len > KEPT_BYTES_MAX)
        watcher_set_blocked(p->watcher, true);
}

static void on_failed(const struct err *e, void *ctx)
{
    struct polled_watch *p = ctx;
    p->failed = *e;
    if (!p->creating)
        return; // the next poll gets the error
    p->creating->on_closed = NULL;
    rpc_fail(p->creating, e);
    end(p);
}

// ---- calls

static void on_creator_gone(struct rpc *call)
{
    end(call->ctx);
}

void watch_poll_create(struct rpc *call, const struct watch_target *target)
{
    static const struct watcher_events EVENTS = {on_armed, on_event, on_failed};
    struct envd *envd = call->envd;
    struct polled_watch *p = xcalloc(1, sizeof *p);
    struct err e = ERR_INIT;
    p->watcher = watch_begin(call, target, &EVENTS, p, &e);
    if (!p->watcher) {
        rpc_fail(call, &e);
        free(p);
        return;
    }
    char *unique auto_free = random_hex(8);
    p->id = str_printf("w%s", unique);
    p->envd = envd;
    p->form = target->form;
    p->asked_ms = clock_mono_ms();
    LIST_INSERT_HEAD(&envd->polled, p, link);
    p->creating = call;
    call->ctx = p;
    call->on_closed = on_creator_gone;
}

// Kept events come before the failure.
void watch_poll_events(struct rpc *call, const char *id)
{
    struct polled_watch *p = find(call, id);
    if (!p)
        return;
    p->asked_ms = clock_mono_ms();
    watcher_drain(p->watcher); // what the client did before this call is in the answer
    if (err_is(&p->failed) && !p->kept.len) {
        rpc_fail(call, &p->failed);
        return;
    }
    struct buf answer auto_buf = BUF_INIT;
    buf_adds(&answer, "{\"events\":[");
    buf_add(&answer, p->kept.data, p->kept.len);
    buf_adds(&answer, "]}");
    rpc_reply_text(call, buf_str(&answer));
    buf_clear(&p->kept);
    watcher_set_blocked(p->watcher, false);
}

void watch_poll_remove(struct rpc *call, const char *id)
{
    struct polled_watch *p = find(call, id);
    if (!p)
        return;
    end(p);
    rpc_reply_text(call, "{}");
}
