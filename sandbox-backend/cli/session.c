// SPDX-License-Identifier: Apache-2.0
// A client for a verb that asks one thing after the other.
#include "sandbox-backend/cli/session.h"

#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/self.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/client/network.h"

// ---- opening and closing
// What a daemon that does not run has left, for the next one.
static bool is_used(const char *home)
{
    char *sandboxes auto_free = home_path(home, "sandboxes");
    char *snapshots auto_free = home_path(home, "snapshots");
    return dir_has_entries(sandboxes) || dir_has_entries(snapshots);
}

int session_open(struct session *s, const struct session_opts *opts, enum session_start start,
                 struct err *e)
{
    struct client_opts client = opts->client;
    memset(s, 0, sizeof *s);
    if (opts->backend)
        client.api_url = str_eq(opts->backend, "local") ? NULL : opts->backend;
    s->local = !client.api_url;
    if (s->local)
        client.ca_file = NULL;
    if (client_opts_check(&client, e) < 0)
        return -1;
    s->home = s->local ? home_open(e) : NULL;
    if (s->local && !s->home)
        return -1;
    char *program auto_free = NULL;
    bool may = start == SESSION_MAY_START || (start == SESSION_IF_USED && is_used(s->home));
    if (s->local && may && !(program = self_program("cubbyd", e))) {
        free(s->home);
        return -1;
    }
    client.home = s->home;
    client.daemon_path = program;
    uv_loop_init(&s->loop);
    s->client = client_new(&s->loop, &client);
    return 0;
}

static void on_closed(void *ctx)
{
    struct session *s = ctx;
    s->closed = true;
    uv_stop(&s->loop);
}

void session_close(struct session *s)
{
    client_close(s->client, on_closed, s);
    while (!s->closed)
        uv_run(&s->loop, UV_RUN_DEFAULT);
    while (uv_run(&s->loop, UV_RUN_DEFAULT))
        ;
    uv_loop_close(&s->loop);
    free(s->home);
}

bool session_is_idle(const struct session *s)
{
    char *socket auto_free = s->local ? home_path(s->home, "cubbyd.sock") : NULL;
    return s->local && !file_exists(socket) && !is_used(s->home);
}

// ---- calls that wait
struct wait {
    uv_loop_t *loop; // borrowed
    bool done;
    json_t *info; // owned
    struct err *e;
};

static void on_done(const struct err *e, void *ctx)
{
    struct wait *w = ctx;
    w->done = true;
    uv_stop(w->loop); // else it would wait for I/O once more before it returns
    if (e)
        *w->e = *e;
}

static void on_json(const json_t *info, const struct err *e, void *ctx)
{
    struct wait *w = ctx;
    w->info = info ? json_deep_copy(info) : NULL;
    on_done(e, ctx);
}

static json_t *wait_for(struct session *s, struct wait *w)
{
    while (!w->done)
        uv_run(&s->loop, UV_RUN_DEFAULT);
    return w->info;
}

json_t *session_create(struct session *s, const struct sandbox_opts *opts, struct err *e)
{
    struct wait w = {.loop = &s->loop, .e = e};
    client_create(s->client, opts, on_json, &w);
    return wait_for(s, &w);
}

json_t *session_list(struct session *s, struct err *e)
{
    struct wait w = {.loop = &s->loop, .e = e};
    client_list(s->client, NULL, on_json, &w);
    json_t *list = wait_for(s, &w);
    if (list && !json_is_array(list)) {
        err_set(e, ERR_INTERNAL, "the server's list of sandboxes is not a list");
        json_decref(list);
        return NULL;
    }
    return list;
}

json_t *session_stats(struct session *s, const char *id, struct err *e)
{
    struct wait w = {.loop = &s->loop, .e = e};
    client_stats(s->client, id, on_json, &w);
    return wait_for(s, &w);
}

int session_kill(struct session *s, const char *id, struct err *e)
{
    struct wait w = {.loop = &s->loop, .e = e};
    client_kill(s->client, id, on_done, &w);
    wait_for(s, &w);
    return err_is(e) ? -1 : 0;
}

int session_pause(struct session *s, const char *id, enum pause_depth depth, struct err *e)
{
    struct wait w = {.loop = &s->loop, .e = e};
    client_pause(s->client, id, depth, on_done, &w);
    wait_for(s, &w);
    return err_is(e) ? -1 : 0;
}

json_t *session_network(struct session *s, const char *id, struct err *e)
{
    struct wait w = {.loop = &s->loop, .e = e};
    client_network(s->client, id, 0, 0, on_json, &w);
    return wait_for(s, &w);
}

int session_network_set(struct session *s, const char *id, const json_t *policy, struct err *e)
{
    struct wait w = {.loop = &s->loop, .e = e};
    client_network_set(s->client, id, policy, on_done, &w);
    wait_for(s, &w);
    return err_is(e) ? -1 : 0;
}

int session_resume(struct session *s, const char *id, int64_t seconds, struct err *e)
{
    struct wait w = {.loop = &s->loop, .e = e};
    client_resume(s->client, id, seconds, on_json, &w);
    json_decref(wait_for(s, &w));
    return err_is(e) ? -1 : 0;
}

json_t *session_snapshot(struct session *s, const char *id, const char *name, struct err *e)
{
    struct wait w = {.loop = &s->loop, .e = e};
    client_snapshot(s->client, id, name, on_json, &w);
    return wait_for(s, &w);
}

json_t *session_snapshots(struct session *s, const char *id, struct err *e)
{
    struct wait w = {.loop = &s->loop, .e = e};
    client_snapshots(s->client, id, on_json, &w);
    return wait_for(s, &w);
}

int session_snapshot_delete(struct session *s, const char *snapshot, struct err *e)
{
    struct wait w = {.loop = &s->loop, .e = e};
    client_snapshot_delete(s->client, snapshot, on_done, &w);
    wait_for(s, &w);
    return err_is(e) ? -1 : 0;
}

json_t *session_fork(struct session *s, const char *id, const struct fork_opts *opts, struct err *e)
{
    struct wait w = {.loop = &s->loop, .e = e};
    client_fork(s->client, id, opts, on_json, &w);
    return wait_for(s, &w);
}

int session_rollback(struct session *s, const char *id, const char *snapshot, struct err *e)
{
    struct wait w = {.loop = &s->loop, .e = e};
    client_rollback(s->client, id, snapshot, on_json, &w);
    json_decref(wait_for(s, &w));
    return err_is(e) ? -1 : 0;
}

json_t *session_expose(struct session *s, const char *id, const struct expose_opts *opts,
                       struct err *e)
{
    struct wait w = {.loop = &s->loop, .e = e};
    client_expose(s->client, id, opts, on_json, &w);
    return wait_for(s, &w);
}

json_t *session_ports(struct session *s, const char *id, struct err *e)
{
    struct wait w = {.loop = &s->loop, .e = e};
    client_ports(s->client, id, on_json, &w);
    return wait_for(s, &w);
}

int session_unexpose(struct session *s, const char *id, int port, struct err *e)
{
    struct wait w = {.loop = &s->loop, .e = e};
    client_unexpose(s->client, id, port, on_done, &w);
    wait_for(s, &w);
    return err_is(e) ? -1 : 0;
}

// ---- ids
static char *only_match(const json_t *list, const char *prefix, struct err *e)
{
    const char *found = NULL;
    size_t i = 0;
    const json_t *sandbox = NULL;
    json_array_foreach(list, i, sandbox)
    {
        const char *id = json_string_value(json_object_get(sandbox, "sandboxID"));
        if (!id || !str_starts(id, prefix))
            continue;
        if (found) {
            err_set(e, ERR_INVALID, "%s and %s both begin with \"%s\"; give more of the id", found,
                    id, prefix);
            return NULL;
        }
        found = id;
    }
    if (!found)
        err_set(e, ERR_NOT_FOUND, "no sandbox's id begins with \"%.40s\"; see cubby ps", prefix);
    return found ? xstrdup(found) : NULL;
}

char *session_resolve(struct session *s, const char *given, struct err *e)
{
    if (strlen(given) >= SANDBOX_ID_LEN)
        return xstrdup(given);
    if (!*given) {
        err_set(e, ERR_INVALID, "a sandbox's id is empty");
        return NULL;
    }
    json_t *list = session_list(s, e);
    char *id = list ? only_match(list, given, e) : NULL;
    json_decref(list);
    return id;
}
