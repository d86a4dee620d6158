// SPDX-License-Identifier: Apache-2.0
// A verb's connection to a backend.
#include "sandbox-backend/cli/connection.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/home.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/sandbox_id.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/cli/cli.h"
#include "sandbox-backend/client/client.h"

// ---- which backend
void backend_opts_table(struct opt out[BACKEND_OPTS_COUNT], struct backend_opts *o)
{
    const struct {
        const char *name, *env;
        const char **value;
        const char *arg, *help;
    } ROWS[BACKEND_OPTS_COUNT] = {
        {"backend", "CUBBY_BACKEND", &o->backend, "URL",
         "a remote cubbyd, E2B or CubeSandbox; \"local\" is the default"},
        {"dialect", "CUBBY_DIALECT", &o->client.dialect, "NAME",
         "the kind of backend: cubbyd, e2b or cube (default: ask the backend)"},
        {"api-url", "E2B_API_URL", &o->client.api_url, "URL", "the same as --backend"},
        {"api-key", "E2B_API_KEY", &o->client.api_key, "KEY", "API key of the backend"},
        {"sandbox-url", "E2B_SANDBOX_URL", &o->client.sandbox_url, "URL",
         "one URL through which all sandboxes of the backend are reached"},
        {"backend-proxy", "CUBBY_BACKEND_PROXY", &o->client.proxy_url, "URL",
         "URL of the server to use for all host names of sandboxes, instead of DNS"},
        {"backend-ca", "SSL_CERT_FILE", &o->client.ca_file, "FILE",
         "PEM file of certificate authorities to trust as well"},
        {"cube-master", "CUBBY_CUBE_MASTER", &o->client.cube_master, "URL",
         "URL of CubeMaster, which gives the IP addresses of CubeSandbox's sandboxes"},
    };
    for (size_t i = 0; i < BACKEND_OPTS_COUNT; i++)
        out[i] = (struct opt){.name = ROWS[i].name,
                              .env = ROWS[i].env,
                              .type = OPT_STRING,
                              .value = ROWS[i].value,
                              .arg = ROWS[i].arg,
                              .help = ROWS[i].help};
}

// ---- opening and closing
// Return whether an earlier daemon left something for the next one.
static bool is_used(const char *home)
{
    char *sandboxes auto_free = home_path(home, "sandboxes");
    char *snapshots auto_free = home_path(home, "snapshots");
    char *volumes auto_free = home_path(home, "volumes");
    return dir_has_entries(sandboxes) || dir_has_entries(snapshots) || dir_has_entries(volumes);
}

// Without a daemon, what it left tells whether there are sandboxes, if this user may look.
static int check_readable(const char *home, struct err *e)
{
    char *socket auto_free = home_path(home, "cubbyd.sock");
    char *sandboxes auto_free = home_path(home, "sandboxes");
    if (file_exists(socket) || access(sandboxes, R_OK) == 0 || errno != EACCES)
        return 0;
    return err_set(e, ERR_DENIED,
                   "permission denied on %s: run as the user that started cubbyd, or set "
                   "CUBBY_HOME to a directory of your own",
                   sandboxes);
}

int connection_open(struct connection *c, const struct backend_opts *opts, enum connect_mode mode,
                    struct err *e)
{
    struct client_opts client = opts->client;
    memset(c, 0, sizeof *c);
    if (opts->backend)
        client.api_url = str_eq(opts->backend, "local") ? NULL : opts->backend;
    c->local = !client.api_url;
    if (c->local)
        client.ca_file = NULL;
    if (client_opts_check(&client, e) < 0)
        return -1;
    c->home = c->local ? home_open(e) : NULL;
    if (c->local && !c->home)
        return -1;
    if (c->local && mode == CONNECT_STARTS_IF_USED && check_readable(c->home, e) < 0) {
        free(c->home);
        return -1;
    }
    char *program auto_free = NULL;
    bool may = mode == CONNECT_STARTS || (mode == CONNECT_STARTS_IF_USED && is_used(c->home));
    if (c->local && may && !(program = self_program("cubbyd", e))) {
        free(c->home);
        return -1;
    }
    client.home = c->home;
    client.daemon_path = program;
    uv_loop_init(&c->loop);
    c->client = client_new(&c->loop, &client);
    return 0;
}

static void on_closed(void *ctx)
{
    struct connection *c = ctx;
    c->closed = true;
    uv_stop(&c->loop);
}

void connection_close(struct connection *c)
{
    client_close(c->client, on_closed, c);
    while (!c->closed)
        uv_run(&c->loop, UV_RUN_DEFAULT);
    while (uv_run(&c->loop, UV_RUN_DEFAULT))
        ;
    uv_loop_close(&c->loop);
    free(c->home);
}

bool connection_is_idle(const struct connection *c)
{
    char *socket auto_free = c->local ? home_path(c->home, "cubbyd.sock") : NULL;
    return c->local && !file_exists(socket) && !is_used(c->home);
}

// ---- requests that block
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

static json_t *wait_for(struct connection *c, struct wait *w)
{
    while (!w->done)
        uv_run(&c->loop, UV_RUN_DEFAULT);
    return w->info;
}

static int outcome(struct connection *c, struct wait *w)
{
    json_decref(wait_for(c, w));
    return err_is(w->e) ? -1 : 0;
}

json_t *connection_create(struct connection *c, const struct sandbox_opts *opts, struct err *e)
{
    struct wait w = {.loop = &c->loop, .e = e};
    client_create(c->client, opts, on_json, &w);
    return wait_for(c, &w);
}

json_t *connection_list(struct connection *c, struct err *e)
{
    struct wait w = {.loop = &c->loop, .e = e};
    client_list(c->client, NULL, on_json, &w);
    json_t *list = wait_for(c, &w);
    if (list && !json_is_array(list)) {
        err_set(e, ERR_INTERNAL, "the server sent no list of sandboxes");
        json_decref(list);
        return NULL;
    }
    return list;
}

json_t *connection_get(struct connection *c, const char *id, struct err *e)
{
    struct wait w = {.loop = &c->loop, .e = e};
    client_get(c->client, id, on_json, &w);
    return wait_for(c, &w);
}

json_t *connection_stats(struct connection *c, const char *id, struct err *e)
{
    struct wait w = {.loop = &c->loop, .e = e};
    client_stats(c->client, id, on_json, &w);
    return wait_for(c, &w);
}

int connection_kill(struct connection *c, const char *id, struct err *e)
{
    struct wait w = {.loop = &c->loop, .e = e};
    client_kill(c->client, id, on_done, &w);
    return outcome(c, &w);
}

int connection_pause(struct connection *c, const char *id, enum pause_depth depth, struct err *e)
{
    struct wait w = {.loop = &c->loop, .e = e};
    client_pause(c->client, id, depth, on_done, &w);
    return outcome(c, &w);
}

json_t *connection_network(struct connection *c, const char *id, struct err *e)
{
    struct wait w = {.loop = &c->loop, .e = e};
    client_network(c->client, id, 0, 0, on_json, &w);
    return wait_for(c, &w);
}

int connection_network_set(struct connection *c, const char *id, const json_t *policy,
                           struct err *e)
{
    struct wait w = {.loop = &c->loop, .e = e};
    client_network_set(c->client, id, policy, on_done, &w);
    return outcome(c, &w);
}

int connection_resume(struct connection *c, const char *id, int64_t seconds, struct err *e)
{
    struct wait w = {.loop = &c->loop, .e = e};
    client_resume(c->client, id, seconds, on_json, &w);
    return outcome(c, &w);
}

json_t *connection_snapshot(struct connection *c, const char *id, const char *name, struct err *e)
{
    struct wait w = {.loop = &c->loop, .e = e};
    client_snapshot(c->client, id, name, on_json, &w);
    return wait_for(c, &w);
}

json_t *connection_snapshots(struct connection *c, const char *id, struct err *e)
{
    struct wait w = {.loop = &c->loop, .e = e};
    client_snapshots(c->client, id, on_json, &w);
    return wait_for(c, &w);
}

int connection_snapshot_delete(struct connection *c, const char *snapshot, struct err *e)
{
    struct wait w = {.loop = &c->loop, .e = e};
    client_snapshot_delete(c->client, snapshot, on_done, &w);
    return outcome(c, &w);
}

int connection_key_removed(struct connection *c, const char *name, struct err *e)
{
    struct wait w = {.loop = &c->loop, .e = e};
    client_key_removed(c->client, name, on_done, &w);
    return outcome(c, &w);
}

json_t *connection_templates(struct connection *c, struct err *e)
{
    struct wait w = {.loop = &c->loop, .e = e};
    client_templates(c->client, on_json, &w);
    return wait_for(c, &w);
}

json_t *connection_health(struct connection *c, struct err *e)
{
    struct wait w = {.loop = &c->loop, .e = e};
    client_health(c->client, on_json, &w);
    return wait_for(c, &w);
}

int connection_drain(struct connection *c, bool wakes, struct err *e)
{
    struct wait w = {.loop = &c->loop, .e = e};
    client_drain(c->client, wakes, on_done, &w);
    return outcome(c, &w);
}

json_t *connection_move(struct connection *c, const char *id, const char *node, const char *cut,
                        struct err *e)
{
    struct wait w = {.loop = &c->loop, .e = e};
    client_move(c->client, id, node, cut, on_json, &w);
    return wait_for(c, &w);
}

int connection_move_cancel(struct connection *c, const char *id, struct err *e)
{
    struct wait w = {.loop = &c->loop, .e = e};
    client_move_cancel(c->client, id, on_done, &w);
    return outcome(c, &w);
}

int connection_moved(struct connection *c, const char *id, struct err *e)
{
    struct wait w = {.loop = &c->loop, .e = e};
    client_moved(c->client, id, on_done, &w);
    return outcome(c, &w);
}

json_t *connection_arrive(struct connection *c, const struct client_arrival *a, struct err *e)
{
    struct wait w = {.loop = &c->loop, .e = e};
    client_arrive(c->client, a, on_json, &w);
    return wait_for(c, &w);
}

json_t *connection_fork(struct connection *c, const char *id, const struct fork_opts *opts,
                        struct err *e)
{
    struct wait w = {.loop = &c->loop, .e = e};
    client_fork(c->client, id, opts, on_json, &w);
    return wait_for(c, &w);
}

int connection_rollback(struct connection *c, const char *id, const char *snapshot, struct err *e)
{
    struct wait w = {.loop = &c->loop, .e = e};
    client_rollback(c->client, id, snapshot, on_json, &w);
    return outcome(c, &w);
}

json_t *connection_logs(struct connection *c, const char *id, int64_t from_ms, const char *level,
                        struct err *e)
{
    struct wait w = {.loop = &c->loop, .e = e};
    client_logs(c->client, id, from_ms, level, on_json, &w);
    return wait_for(c, &w);
}

json_t *connection_events(struct connection *c, const char *id, int64_t offset, struct err *e)
{
    struct wait w = {.loop = &c->loop, .e = e};
    client_events(c->client, id, offset, on_json, &w);
    return wait_for(c, &w);
}

struct text_wait {
    struct wait base;
    struct buf *out; // borrowed
};

static void on_text(const char *data, size_t len, const struct err *e, void *ctx)
{
    struct text_wait *w = ctx;
    if (data)
        buf_add(w->out, data, len);
    on_done(e, &w->base);
}

int connection_record(struct connection *c, const char *id, int64_t after, struct buf *out,
                      struct err *e)
{
    struct text_wait w = {.base = {.loop = &c->loop, .e = e}, .out = out};
    client_record(c->client, id, after, on_text, &w);
    return outcome(c, &w.base);
}

json_t *connection_expose(struct connection *c, const char *id, const struct expose_opts *opts,
                          struct err *e)
{
    struct wait w = {.loop = &c->loop, .e = e};
    client_expose(c->client, id, opts, on_json, &w);
    return wait_for(c, &w);
}

json_t *connection_ports(struct connection *c, const char *id, struct err *e)
{
    struct wait w = {.loop = &c->loop, .e = e};
    client_ports(c->client, id, on_json, &w);
    return wait_for(c, &w);
}

int connection_unexpose(struct connection *c, const char *id, int port, struct err *e)
{
    struct wait w = {.loop = &c->loop, .e = e};
    client_unexpose(c->client, id, port, on_done, &w);
    return outcome(c, &w);
}

json_t *connection_mount(struct connection *c, const char *id, const struct mount_opts *opts,
                         struct err *e)
{
    struct wait w = {.loop = &c->loop, .e = e};
    client_mount(c->client, id, opts, on_json, &w);
    return wait_for(c, &w);
}

json_t *connection_mounts(struct connection *c, const char *id, struct err *e)
{
    struct wait w = {.loop = &c->loop, .e = e};
    client_mounts(c->client, id, on_json, &w);
    return wait_for(c, &w);
}

int connection_unmount(struct connection *c, const char *id, const char *target, struct err *e)
{
    struct wait w = {.loop = &c->loop, .e = e};
    client_unmount(c->client, id, target, on_done, &w);
    return outcome(c, &w);
}

// ---- volumes
json_t *connection_volumes(struct connection *c, struct err *e)
{
    struct wait w = {.loop = &c->loop, .e = e};
    client_volumes(c->client, on_json, &w);
    return wait_for(c, &w);
}

json_t *connection_volume(struct connection *c, const char *id, struct err *e)
{
    struct wait w = {.loop = &c->loop, .e = e};
    client_volume(c->client, id, on_json, &w);
    return wait_for(c, &w);
}

json_t *connection_volume_make(struct connection *c, const char *name, struct err *e)
{
    struct wait w = {.loop = &c->loop, .e = e};
    client_volume_make(c->client, name, on_json, &w);
    return wait_for(c, &w);
}

int connection_volume_remove(struct connection *c, const char *id, struct err *e)
{
    struct wait w = {.loop = &c->loop, .e = e};
    client_volume_remove(c->client, id, on_done, &w);
    return outcome(c, &w);
}

json_t *connection_volume_files(struct connection *c, const struct volume_ref *v, const char *path,
                                struct err *e)
{
    struct wait w = {.loop = &c->loop, .e = e};
    client_volume_files(c->client, v, path, on_json, &w);
    return wait_for(c, &w);
}

int connection_volume_make_dir(struct connection *c, const struct volume_ref *v, const char *path,
                               struct err *e)
{
    struct wait w = {.loop = &c->loop, .e = e};
    client_volume_make_dir(c->client, v, path, on_done, &w);
    return outcome(c, &w);
}

int connection_volume_unlink(struct connection *c, const struct volume_ref *v, const char *path,
                             struct err *e)
{
    struct wait w = {.loop = &c->loop, .e = e};
    client_volume_unlink(c->client, v, path, on_done, &w);
    return outcome(c, &w);
}

static void on_file(const char *path, int64_t bytes, const struct err *e, void *ctx)
{
    (void)path;
    (void)bytes;
    on_done(e, ctx);
}

int connection_volume_upload(struct connection *c, const struct volume_ref *v, int fd,
                             const char *path, struct err *e)
{
    struct wait w = {.loop = &c->loop, .e = e};
    client_volume_upload(c->client, v, fd, path, on_file, &w);
    return outcome(c, &w);
}

int connection_volume_download(struct connection *c, const struct volume_ref *v, const char *path,
                               int fd, struct err *e)
{
    struct wait w = {.loop = &c->loop, .e = e};
    client_volume_download(c->client, v, path, fd, INT64_MAX, on_file, &w);
    return outcome(c, &w);
}

// ---- ids
static char *only_match(const json_t *list, const char *prefix, struct err *e)
{
    const char *found = NULL;
    size_t i = 0;
    const json_t *sandbox = NULL;
    json_array_foreach (list, i, sandbox) {
        const char *id = json_string_value(json_object_get(sandbox, "sandboxID"));
        if (!id || !str_starts(id, prefix))
            continue;
        if (found) {
            err_set(e, ERR_INVALID, "the ids %s and %s both begin with \"%s\"; give more of the id",
                    found, id, prefix);
            return NULL;
        }
        found = id;
    }
    if (!found)
        err_set(e, ERR_NOT_FOUND, "no sandbox has an id that begins with \"%.40s\"; see cubby ps",
                prefix);
    return found ? xstrdup(found) : NULL;
}

char *connection_resolve(struct connection *c, const char *given, struct err *e)
{
    if (strlen(given) >= SANDBOX_ID_LEN)
        return xstrdup(given);
    if (!*given) {
        err_set(e, ERR_INVALID, "the id of the sandbox is empty");
        return NULL;
    }
    json_t *list = connection_list(c, e);
    char *id = list ? only_match(list, given, e) : NULL;
    json_decref(list);
    return id;
}

int connection_on_one(const struct backend_opts *server, const char *given,
                      int (*act)(struct connection *c, const char *id, const void *ctx),
                      const void *ctx)
{
    struct err e = ERR_INIT;
    struct connection c;
    if (connection_open(&c, server, CONNECT_STARTS_IF_USED, &e) < 0)
        return cli_fail(&e);
    char *id auto_free = connection_resolve(&c, given, &e);
    int status = id ? act(&c, id, ctx) : cli_fail(&e);
    connection_close(&c);
    return status;
}

void connection_print_id(const char *id, bool as_json)
{
    cli_print_word("sandboxID", id, as_json);
}

int connection_on_each(const struct backend_opts *server, char **ids, int count, connection_act act,
                       int64_t arg, bool as_json)
{
    struct err e = ERR_INIT;
    struct connection c;
    int status = 0;
    if (connection_open(&c, server, CONNECT_STARTS_IF_USED, &e) < 0)
        return cli_fail(&e);
    for (int i = 0; i < count; i++) {
        e = ERR_INIT;
        char *id auto_free = connection_resolve(&c, ids[i], &e);
        if (id && act(&c, id, arg, &e) == 0)
            connection_print_id(id, as_json);
        else
            status = cli_fail(&e);
    }
    connection_close(&c);
    return status;
}
