// SPDX-License-Identifier: Apache-2.0
// Directories of the server's host in a sandbox.
#include "sandbox-backend/client/client.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/client/call.h"
#include "sandbox-backend/client/client_internal.h"

#define MOUNT_MS 120000 // the guest has to start a program

static bool is_mount(const json_t *one)
{
    return json_is_string(json_object_get(one, "target")) &&
           (json_is_string(json_object_get(one, "source")) ||
            json_is_string(json_object_get(one, "volume")));
}

static bool are_mounts(const json_t *list)
{
    return json_all(list, is_mount);
}

static struct client_op *ask(struct client *c, const char *id, const char *query,
                             struct call_opts *opts, const struct ask *want)
{
    char *suffix auto_free = str_printf("/mounts%s", query);
    char *target auto_free = client__about(id, suffix);
    opts->target = target;
    opts->needs = FEATURE_MOUNTS;
    return ask_start(c, opts, want);
}

char *client_mount_root(const char *spec, bool *read_only)
{
    bool reads = str_ends(spec, ":ro");
    char *path auto_free = xstrndup(spec, strlen(spec) - (reads ? 3 : 0));
    if (read_only)
        *read_only = reads;
    return realpath(path, NULL);
}

int client_mount_parse(const char *spec, char **source, char **target, bool *read_only,
                       struct err *e)
{
    char *copy auto_free = xstrdup(spec);
    *read_only = str_ends(copy, ":ro");
    if (*read_only)
        copy[strlen(copy) - 3] = '\0';
    char *colon = strrchr(copy, ':');
    if (!colon || colon == copy || colon[1] != '/')
        return err_set(e, ERR_INVALID, "\"%.200s\" is not DIR:/path or DIR:/path:ro", spec);
    *colon = '\0';
    *source = realpath(copy, NULL);
    if (!*source)
        return err_set(e, ERR_NOT_FOUND, "the directory %.200s cannot be mounted: %s", copy,
                       strerror(errno));
    *target = xstrdup(colon + 1);
    return 0;
}

struct client_op *client_mount(struct client *c, const char *id, const struct mount_opts *o,
                               client_json_cb cb, void *ctx)
{
    json_t *want = json_pack("{s:s, s:s, s:b, s:b}", "source", o->source, "target", o->target,
                             "readOnly", o->read_only, "resolved", 1);
    char *text auto_free = want ? json_to_string(want) : xstrdup("{}"); // a path is not UTF-8
    json_decref(want);
    struct call_opts opts = {
        .method = "POST", .body = text, .body_len = strlen(text), .timeout_ms = MOUNT_MS};
    return ask(c, id, "", &opts,
               &(struct ask){.json_cb = cb,
                             .ctx = ctx,
                             .is_sound = are_mounts,
                             .unsound = "a list of mounts was expected"});
}

struct client_op *client_mounts(struct client *c, const char *id, client_json_cb cb, void *ctx)
{
    struct call_opts opts = {.method = "GET", .timeout_ms = ASK_MS};
    return ask(c, id, "", &opts,
               &(struct ask){.json_cb = cb,
                             .ctx = ctx,
                             .is_sound = are_mounts,
                             .unsound = "a list of mounts was expected"});
}

struct client_op *client_unmount(struct client *c, const char *id, const char *target,
                                 client_done_cb cb, void *ctx)
{
    struct buf query auto_buf = BUF_INIT;
    struct call_opts opts = {.method = "DELETE", .timeout_ms = ASK_MS};
    buf_adds(&query, "?target=");
    percent_encode(&query, target, true);
    return ask(c, id, buf_str(&query), &opts, &(struct ask){.done_cb = cb, .ctx = ctx});
}
