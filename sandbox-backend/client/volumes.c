// SPDX-License-Identifier: Apache-2.0
// Volumes: directories of files that the server keeps, and that outlive sandboxes. files.c moves
// the contents of a file.
#include <string.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/client/call.h"
#include "sandbox-backend/client/client.h"
#include "sandbox-backend/client/client_internal.h"

#define CHANGE_MS 120000 // a change waits for its turn

static bool is_volume(const json_t *one)
{
    return json_is_string(json_object_get(one, "volumeID")) &&
           json_is_string(json_object_get(one, "name"));
}

static bool has_token(const json_t *one)
{
    return is_volume(one) && json_is_string(json_object_get(one, "token"));
}

static bool are_volumes(const json_t *list)
{
    return json_all(list, is_volume);
}

static bool is_file(const json_t *one)
{
    return json_is_string(json_object_get(one, "path"));
}

static bool are_files(const json_t *list)
{
    return json_all(list, is_file);
}

// ---- volumes

static struct client_op *ask(struct client *c, const char *id, struct call_opts *opts,
                             const struct ask *want)
{
    struct buf target auto_buf = BUF_INIT;
    buf_adds(&target, id ? "/volumes/" : "/volumes");
    if (id)
        percent_encode(&target, id, false);
    opts->target = buf_str(&target);
    opts->needs = FEATURE_VOLUMES;
    return ask_start(c, opts, want);
}

struct client_op *client_volumes(struct client *c, client_json_cb cb, void *ctx)
{
    struct call_opts opts = {.method = "GET", .timeout_ms = ASK_MS};
    return ask(c, NULL, &opts,
               &(struct ask){.json_cb = cb,
                             .ctx = ctx,
                             .is_sound = are_volumes,
                             .unsound = "a list of volumes was expected"});
}

struct client_op *client_volume(struct client *c, const char *id, client_json_cb cb, void *ctx)
{
    struct call_opts opts = {.method = "GET", .timeout_ms = ASK_MS};
    return ask(c, id, &opts,
               &(struct ask){.json_cb = cb,
                             .ctx = ctx,
                             .is_sound = has_token,
                             .unsound = "a volume with its token was expected"});
}

struct client_op *client_volume_make(struct client *c, const char *name, client_json_cb cb,
                                     void *ctx)
{
    static const struct http_header JSON = {"Content-Type", "application/json"};
    json_t *want = json_pack("{s:o}", "name", json_lossy_string(name, strlen(name)));
    char *text auto_free = json_to_string(want);
    json_decref(want);
    struct call_opts opts = {.method = "POST",
                             .headers = &JSON,
                             .header_count = 1,
                             .body = text,
                             .body_len = strlen(text),
                             .timeout_ms = ASK_MS};
    return ask(c, NULL, &opts,
               &(struct ask){.json_cb = cb,
                             .ctx = ctx,
                             .is_sound = has_token,
                             .unsound = "a volume with its token was expected"});
}

struct client_op *client_volume_remove(struct client *c, const char *id, client_done_cb cb,
                                       void *ctx)
{
    struct call_opts opts = {.method = "DELETE", .timeout_ms = CHANGE_MS};
    return ask(c, id, &opts, &(struct ask){.done_cb = cb, .ctx = ctx});
}

// ---- what is in a volume

void volume_target(struct buf *out, const struct volume_ref *v, const char *what, const char *path)
{
    buf_adds(out, "/volumecontent/");
    percent_encode(out, v->id, false);
    buf_printf(out, "/%s?path=", what);
    percent_encode(out, path, true);
}

static struct client_op *ask_content(struct client *c, const struct volume_ref *v,
                                     const char *method, const char *what, const char *path,
                                     const struct ask *want)
{
    struct buf target auto_buf = BUF_INIT;
    char *bearer auto_free = str_printf("Bearer %s", v->token);
    const struct http_header header = {"Authorization", bearer};
    volume_target(&target, v, what, path);
    if (str_eq(method, "POST"))
        buf_adds(&target, "&force=true");
    const struct call_opts opts = {.method = method,
                                   .target = buf_str(&target),
                                   .headers = &header,
                                   .header_count = 1,
                                   .timeout_ms = CHANGE_MS,
                                   .needs = FEATURE_VOLUMES};
    return ask_start(c, &opts, want);
}

struct client_op *client_volume_files(struct client *c, const struct volume_ref *v,
                                      const char *path, client_json_cb cb, void *ctx)
{
    return ask_content(c, v, "GET", "dir", path,
                       &(struct ask){.json_cb = cb,
                                     .ctx = ctx,
                                     .is_sound = are_files,
                                     .unsound = "a list of files was expected"});
}

struct client_op *client_volume_make_dir(struct client *c, const struct volume_ref *v,
                                         const char *path, client_done_cb cb, void *ctx)
{
    return ask_content(c, v, "POST", "dir", path, &(struct ask){.done_cb = cb, .ctx = ctx});
}

struct client_op *client_volume_unlink(struct client *c, const struct volume_ref *v,
                                       const char *path, client_done_cb cb, void *ctx)
{
    return ask_content(c, v, "DELETE", "path", path, &(struct ask){.done_cb = cb, .ctx = ctx});
}
