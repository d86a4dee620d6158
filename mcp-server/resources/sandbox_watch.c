// SPDX-License-Identifier: Apache-2.0
// Subscriptions to files and directories of sandboxes.
//
// Theory of operation. A subscription is first checked: the caller must own the sandbox, and the
// path must exist. It then becomes a member of a watch of a directory: the path itself, or the
// directory of the file. A file is watched through its directory, so that a file that an editor
// replaces by a rename stays watched. Members of one directory share the watch, also across
// sessions. The last member to leave ends it.
//
// A watch that ends by itself, because the sandbox ended or the directory was removed, ends its
// members.
#include <string.h>

#include "mcp-server/context/owner.h"
#include "mcp-server/protocol/exchange.h"
#include "mcp-server/resources/sandbox_files.h"
#include "mcp-server/tools/files/guest_file.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

struct member {
    struct member *next;             // of its watch
    struct subscription *subscribed; // NULL: gone while it was let in
    struct context *context;         // borrowed
    struct resource_uri at;
    char *name;              // owned; in the watched directory. NULL: that itself
    struct client_op *op;    // borrowed; while it is let in
    struct dir_watch *watch; // afterwards
};

struct dir_watch {
    struct dir_watch *next; // of the context
    struct context *context;
    char *id, *path; // owned
    struct member *members;
    bool is_started;
    bool is_listed; // by the context, for others to join
    struct client_op *op;
};

static void on_allowed(const struct err *e, void *ctx);
static void on_stat(const json_t *answer, const struct err *e, void *ctx);
static void join(struct member *m);
static void on_watch_end(const struct err *e, void *ctx);

// ---- 1. members
static void member_free(struct member *m)
{
    resource_uri_fini(&m->at);
    free(m->name);
    free(m);
}

static void member_end(struct member *m, const struct err *e)
{
    struct subscription *s = m->subscribed;
    member_free(m);
    if (s)
        subscription_ended(s, e);
}

void sandbox_watch(struct subscription *s)
{
    struct context *cx = subscription_context(s);
    struct err e = ERR_INIT;
    struct resource_uri at;
    if (sandbox_files_parse(cx, subscription_uri(s), &at, &e) < 0) {
        subscription_ended(s, &e);
        return;
    }
    struct member *m = xmalloc(sizeof *m);
    *m = (struct member){.subscribed = s, .context = cx, .at = at};
    subscription_set_state(s, m);
    if (owner_is_known(cx, subscription_caller(s), at.id)) {
        on_allowed(NULL, m);
        return;
    }
    m->op = owner_check(cx, subscription_caller(s), at.id, on_allowed, m, &e);
    if (!m->op)
        member_end(m, &e);
}

static void on_allowed(const struct err *refused, void *ctx)
{
    struct member *m = ctx;
    struct err e = ERR_INIT;
    m->op = NULL;
    struct client *client = refused || !m->subscribed ? NULL : context_client(m->context, &e);
    if (!client) {
        member_end(m, refused ? refused : &e);
        return;
    }
    json_t *request = json_pack("{s:s}", "path", m->at.path);
    m->op = client_rpc(client, m->at.id, "filesystem.Filesystem/Stat", request, NULL, on_stat, m);
    json_decref(request);
}

static void on_stat(const json_t *answer, const struct err *e, void *ctx)
{
    struct member *m = ctx;
    m->op = NULL;
    if (e || !m->subscribed) {
        member_end(m, e);
        return;
    }
    if (!guest_entry_is_dir(json_object_get(answer, "entry")))
        m->name = xstrdup(str_base(m->at.path));
    join(m);
}

// ---- 2. watches
static void unlist(struct dir_watch *w)
{
    struct dir_watch **at = &w->context->dir_watches;
    while (w->is_listed && *at != w)
        at = &(*at)->next;
    if (w->is_listed)
        *at = w->next;
    w->is_listed = false;
}

static void on_watch_start(void *ctx)
{
    struct dir_watch *w = ctx;
    w->is_started = true;
    struct member *next;
    for (struct member *m = w->members; m; m = next) {
        next = m->next;
        subscription_started(m->subscribed); // which may leave
    }
}

// A change of the directory itself may concern each of its files.
static void on_event(enum watch_kind kind, const char *name, void *ctx)
{
    const struct dir_watch *w = ctx;
    if (kind == WATCH_CHMOD)
        return; // what is read is the same
    for (struct member *m = w->members; m; m = m->next)
        if (!m->name || str_eq(m->name, name) || str_eq(name, "."))
            subscription_changed(m->subscribed);
}

static struct dir_watch *watch_find(const struct context *cx, const char *id, const char *path)
{
    for (struct dir_watch *w = cx->dir_watches; w; w = w->next)
        if (str_eq(w->id, id) && str_eq(w->path, path))
            return w;
    return NULL;
}

static struct dir_watch *watch_new(struct context *cx, const char *id, const char *path)
{
    static const struct watch_events EVENTS = {
        .on_start = on_watch_start, .on_event = on_event, .on_end = on_watch_end};
    struct dir_watch *w = xmalloc(sizeof *w);
    *w = (struct dir_watch){.next = cx->dir_watches,
                            .context = cx,
                            .id = xstrdup(id),
                            .path = xstrdup(path),
                            .is_listed = true};
    cx->dir_watches = w;
    w->op = client_watch(cx->client, id, path, false, NULL, &EVENTS, w);
    return w;
}

static char *directory_of(const struct member *m)
{
    size_t len = strlen(m->at.path);
    if (m->name)
        len -= strlen(m->name) + 1;
    return len ? xstrndup(m->at.path, len) : xstrdup("/");
}

static void join(struct member *m)
{
    char *dir auto_free = directory_of(m);
    struct dir_watch *w = watch_find(m->context, m->at.id, dir);
    if (!w)
        w = watch_new(m->context, m->at.id, dir);
    m->watch = w;
    m->next = w->members;
    w->members = m;
    if (w->is_started)
        subscription_started(m->subscribed);
}

static void on_watch_end(const struct err *e, void *ctx)
{
    struct dir_watch *w = ctx;
    unlist(w);
    w->op = NULL;
    while (w->members) {
        struct member *m = w->members;
        w->members = m->next;
        member_end(m, e);
    }
    free(w->id);
    free(w->path);
    free(w);
}

// ---- 3. leaving
static void leave(struct member *m)
{
    struct dir_watch *w = m->watch;
    struct member **at = &w->members;
    while (*at != m)
        at = &(*at)->next;
    *at = m->next;
    if (!w->members && w->op) {
        unlist(w); // a later subscriber gets a watch of its own
        client_cancel(w->op);
    }
    member_free(m);
}

void sandbox_unwatch(struct subscription *s)
{
    struct member *m = subscription_state(s);
    if (m->watch) {
        leave(m);
        return;
    }
    m->subscribed = NULL;
    if (m->op)
        client_cancel(m->op); // which ends and frees it
}
