// SPDX-License-Identifier: Apache-2.0
// A script in a sandbox that writes given bytes into a file.
#include "mcp-server/tools/files/guest_put.h"

#include <string.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/log/log.h"

#define TIMEOUT_MS 50000
#define OUT_BYTES  ((size_t)8192) // a line of facts with a path

struct putting {
    struct tool_call *call;
    const char *script;
    char *path, *more, *user; // owned; user may be NULL
    char *value;              // owned: the bytes, or the temporary file's path
    const char *how;
    guest_script_cb cb;
    void *ctx;
};

static void putting_free(struct putting *p)
{
    free(p->path);
    free(p->more);
    free(p->user);
    free(p->value);
    free(p);
}

static void on_removed(const json_t *answer, const struct err *e, void *ctx)
{
    (void)answer, (void)ctx;
    if (e)
        log_debug("put.left", "error=%s", e->msg);
}

// The script removes the temporary file at its end, unless it did not start or was killed. A script
// that may still run needs the file.
static void tidy(const struct putting *p, const struct guest_result *r, const struct err *e)
{
    struct tool_call *c = p->call;
    bool is_left = e ? !r->may_be_run : r->exit_code < 0;
    if (!is_left || !str_eq(p->how, "file"))
        return;
    json_t *request = json_pack("{s:s}", "path", p->value);
    client_rpc(c->context->client, c->id, "filesystem.Filesystem/Remove", request, p->user,
               on_removed, NULL);
    json_decref(request);
}

static void on_end(struct tool_call *c, struct guest_result *r, const struct err *e, void *ctx)
{
    struct putting *p = ctx;
    tidy(p, r, e);
    guest_script_cb cb = p->cb;
    void *cb_ctx = p->ctx;
    putting_free(p);
    cb(c, r, e, cb_ctx);
}

static void run(struct putting *p)
{
    const char *const args[] = {p->path, p->how, p->value, p->more, NULL};
    guest_script_run(p->call,
                     &(struct guest_script){
                         .text = p->script,
                         .args = args,
                         .user = p->user,
                         .timeout_ms = TIMEOUT_MS,
                         .out_max = OUT_BYTES,
                     },
                     on_end, p);
}

static void on_uploaded(const char *path, int64_t bytes, const struct err *e, void *ctx)
{
    (void)path, (void)bytes;
    struct putting *p = ctx;
    struct tool_call *c = p->call;
    struct guest_result none = {.exit_code = -1};
    struct err cancelled = {.code = ERR_CANCELED};
    c->op = NULL;
    if (!e && !c->cancelled)
        run(p);
    else
        on_end(c, &none, e ? e : &cancelled, p);
}

void guest_put_fail(struct tool_call *c, const struct guest_result *r, const struct err *e)
{
    int len;
    const char *said = guest_script_complaint(&r->err, &len);
    if (!e && r->exit_code == GUEST_PUT_PARTIAL)
        tool_call_fail(c, "failed",
                       "could not write the whole content: %.*s. The file may have a part of it: "
                       "read the file before you go on",
                       len, said);
    else
        guest_script_fail(c, "write the file", r, e);
}

// envd takes an argument as a string of JSON.
static bool is_argument(const char *data, size_t len)
{
    return !memchr(data, '\0', len) && utf8_is_valid(data, len);
}

void guest_put_run(struct tool_call *c, const struct guest_put *put, guest_script_cb cb, void *ctx)
{
    bool is_short = put->len <= GUEST_SCRIPT_ARG_BYTES && is_argument(put->data, put->len);
    char *name auto_free = random_hex(8);
    struct putting *p = xmalloc(sizeof *p);
    *p = (struct putting){
        .call = c,
        .script = put->script,
        .path = xstrdup(put->path),
        .more = xstrdup(put->more),
        .user = put->user ? xstrdup(put->user) : NULL,
        .value = is_short ? xstrndup(put->data, put->len) : str_printf("/tmp/cubby-%s", name),
        .how = is_short ? "arg" : "file",
        .cb = cb,
        .ctx = ctx,
    };
    if (is_short)
        run(p);
    else
        c->op = client_upload_bytes(c->context->client, c->id, put->data, put->len, p->value,
                                    put->user, on_uploaded, p);
}

char *guest_put_uses(const struct tool_call *c)
{
    return str_printf("file %s", tool_call_string(c, "path"));
}
