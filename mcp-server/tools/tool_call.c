// SPDX-License-Identifier: Apache-2.0
// One call of a tool, from its arguments to its outcome.
//
// Theory of operation. A call checks its arguments against the tool's inputSchema, the sandbox's id
// and whether the sandbox is its caller's, and starts the tool, which takes one step after another,
// each a client_op (or a fetch) that completes from the loop. Cancelling a call cancels the step
// that runs; its completion finds `cancelled` set, starts nothing more, and ends the call, whose
// outcome nobody reads. What fails is a result with isError, never a protocol error: a model can
// read and act on it.
//
// Nothing is done twice. A step that may have reached the sandbox is never repeated.
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "mcp-server/protocol/exchange.h"
#include "mcp-server/resources/resource_uri.h"
#include "mcp-server/tools/owner.h"
#include "mcp-server/tools/schema.h"
#include "mcp-server/tools/tools.h"
#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/home.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/base/visible.h"
#include "sandbox-backend/log/log.h"

// ---- 1. its beginning

struct tool_call *tool_call_new(struct toolbox *t, const struct offer *offer, json_t *arguments,
                                struct exchange *x,
                                void (*on_done)(struct tool_call *c, struct outcome *o, void *ctx),
                                void *ctx)
{
    struct tool_call *c = xmalloc(sizeof *c);
    *c = (struct tool_call){
        .toolbox = t,
        .tool = offer->tool,
        .schema = offer->schema,
        .exchange = x,
        .caller = x->session->caller,
        .args = json_is_object(arguments) ? json_incref(arguments) : NULL,
        .takes_progress = x->progress_token != NULL,
        .started_ms = clock_mono_ms(),
        .on_done = on_done,
        .ctx = ctx,
    };
    return c;
}

bool toolbox_id_is_plausible(const struct toolbox *t, const char *id)
{
    static const char ID[] = "abcdefghijklmnopqrstuvwxyz0123456789";
    static const char REMOTE_ID[] = "abcdefghijklmnopqrstuvwxyz0123456789-"
                                    "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
    size_t len = strlen(id);
    if (config_is_remote(t->config)) // longer than the longest that models make up
        return len >= 16 && len <= 128 && strspn(id, REMOTE_ID) == len;
    return len == SANDBOX_ID_LEN && strspn(id, ID) == len;
}

const char *tool_call_hint(const struct tool_call *c, const char *tool, const char *words)
{
    return tools_find(c->toolbox, tool) ? words : "";
}

static void fail_unknown(struct tool_call *c)
{
    tool_call_fail(c, "sandbox_not_found", "there is no sandbox %s%s", c->id,
                   tool_call_hint(c, "create_sandbox",
                                  ". Call create_sandbox and pass the id that it returns"));
}

static void on_checked(const struct err *e, void *ctx)
{
    struct tool_call *c = ctx;
    c->op = NULL;
    if (e && e->code == ERR_NOT_FOUND)
        fail_unknown(c);
    else if (e)
        tool_call_fail_err(c, "reach the sandbox", e);
    else if (c->cancelled)
        tool_call_fail(c, "cancelled", "the call was cancelled");
    else
        c->tool->start(c);
}

// Somebody else's sandbox is like one that does not exist, before anything is done for it.
static void start_owned(struct tool_call *c)
{
    struct err e = ERR_INIT;
    if (!c->id || owner_is_known(c->toolbox, c->caller, c->id)) {
        c->tool->start(c);
        return;
    }
    c->op = owner_check(c->toolbox, c->caller, c->id, on_checked, c, &e);
    if (!c->op)
        tool_call_fail_err(c, "reach the sandboxes", &e);
}

// Arguments that are paths in a sandbox. Each of the ways to use one would make something else of
// somebody's home, so none gets it.
static const char *foreign_home(const struct tool_call *c)
{
    static const char *const PATHS[] = {"path", "sandbox_file_path", "cwd"};
    for (size_t i = 0; i < ARRAY_LEN(PATHS); i++) {
        const char *path = tool_call_string(c, PATHS[i]);
        if (path && path[0] == '~' && path[1] != '/' && path[1] != '\0')
            return path;
    }
    return NULL;
}

static void start_valid(struct tool_call *c)
{
    const char *foreign = foreign_home(c);
    c->id = tool_call_string(c, "sandbox_id");
    if (c->id && !toolbox_id_is_plausible(c->toolbox, c->id)) {
        int shown = (int)utf8_valid_prefix(c->id, strnlen(c->id, 60));
        tool_call_fail(c, "invalid_sandbox_id",
                       "'%.*s' is not a sandbox id. Ids are issued, never chosen%s", shown, c->id,
                       tool_call_hint(c, "create_sandbox",
                                      ": call create_sandbox and pass the id that it returns"));
        return;
    }
    if (foreign) {
        tool_call_fail(c, "invalid_argument",
                       "cannot expand '%s': only your own home (~) is known. ./%s is a name in it",
                       foreign, foreign);
        return;
    }
    start_owned(c);
}

void tool_call_start(struct tool_call *c)
{
    struct err e = ERR_INIT;
    json_t *args = schema_apply(json_object_get(c->schema, "inputSchema"), c->args, &e);
    json_decref(c->args);
    c->args = args;
    log_debug("tool.call", "name=%s", c->tool->name);
    if (args)
        start_valid(c);
    else
        tool_call_fail(c, "invalid_argument", "%s", e.msg);
}

// The end moves with each use: cubbyd does that itself for what was created as sliding. Another
// server is told, side by side with the step that matters; if that fails, the step says why.
static void on_slid(const struct err *e, void *ctx)
{
    (void)ctx;
    if (e)
        log_debug("sandbox.slide", "error=%s", e->msg);
}

static void slide(struct tool_call *c, struct client *client, int64_t seconds)
{
    if (!config_is_remote(c->toolbox->config) || client_slides(client) || !c->id)
        return;
    int64_t life = c->toolbox->config->sandbox_timeout_s;
    client_set_timeout(client, c->id, life > seconds ? life : seconds, on_slid, NULL);
}

struct client *tool_call_client(struct tool_call *c, int64_t seconds)
{
    struct err e = ERR_INIT;
    struct client *client = toolbox_client(c->toolbox, &e);
    if (client)
        slide(c, client, seconds);
    else
        tool_call_fail_err(c, "reach the sandboxes", &e);
    return client;
}

const char *tool_call_string(const struct tool_call *c, const char *name)
{
    return json_string_value(json_object_get(c->args, name));
}

int64_t tool_call_ms(const struct tool_call *c)
{
    return clock_mono_ms() - c->started_ms;
}

char *tool_call_progress(const struct tool_call *c, int64_t seconds)
{
    if (c->bytes == 0)
        return str_printf("%lld s", (long long)seconds);
    return str_printf("%lld s, %lld bytes", (long long)seconds, (long long)c->bytes);
}

void tool_call_output(struct tool_call *c, enum progress_stream stream, const char *data,
                      size_t len)
{
    if (c->progress)
        progress_output(c->progress, stream, data, len);
}

// ---- 2. its end

static void end(struct tool_call *c, struct outcome *o)
{
    log_debug("tool.end", "name=%s ms=%lld code=%s", c->tool->name, (long long)tool_call_ms(c),
              o->code ? o->code : "ok");
    o->blocks = c->blocks;
    c->on_done(c, o, c->ctx);
    json_decref(o->structured);
    json_decref(o->blocks);
    json_decref(o->inputs);
    json_decref(o->rpc_data);
    free(o->message);
    json_decref(c->args);
    free(c->note);
    free(c);
}

void tool_call_finish(struct tool_call *c, json_t *structured)
{
    struct outcome o = {.structured = structured};
    if (c->id && structured)
        json_object_set_new(structured, "sandbox_id", json_string(c->id));
    if (structured)
        json_object_set_new(structured, "duration_ms", json_integer(tool_call_ms(c)));
    end(c, &o);
}

void tool_call_add_block(struct tool_call *c, json_t *block)
{
    if (!c->blocks)
        c->blocks = json_array();
    json_array_append_new(c->blocks, block);
}

void tool_call_add_link(struct tool_call *c, const char *path, const char *mime_type, int64_t bytes)
{
    if (config_is_miroflow(c->toolbox->config) || path[0] != '/')
        return;
    const char *name = str_base(path);
    char *uri auto_free = resource_uri_of(c->id, path);
    json_t *link = json_object();
    json_object_set_new(link, "type", json_string("resource_link"));
    json_object_set_new(link, "uri", json_string(uri));
    json_object_set_new(link, "name", json_lossy_string(name, strlen(name)));
    if (mime_type)
        json_object_set_new(link, "mimeType", json_string(mime_type));
    json_object_set_new(link, "size", json_integer(bytes));
    tool_call_add_block(c, link);
}

void tool_call_ask(struct tool_call *c, json_t *inputs)
{
    struct outcome o = {.inputs = inputs};
    end(c, &o);
}

void tool_call_refuse(struct tool_call *c, int rpc_code, json_t *data, const char *message)
{
    struct outcome o = {.rpc_code = rpc_code, .rpc_data = data, .message = xstrdup(message)};
    end(c, &o);
}

void tool_call_fail(struct tool_call *c, const char *code, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    struct outcome o = {.code = code};
    char *text auto_free = str_vprintf(fmt, ap);
    va_end(ap);
    char *shown auto_free = visible_text(text);
    o.message = str_printf("%s%s", shown, c->note ? c->note : "");
    end(c, &o);
}

static void fail_by_code(struct tool_call *c, const char *what, const struct err *e)
{
    switch ((int)e->code) {
    case ERR_LIMIT:
        tool_call_fail(c, "limit_reached", "could not %s: %s", what, e->msg);
        return;
    case ERR_BUSY: // it has waited for room already
        tool_call_fail(c, "limit_reached", "could not %s: %s%s", what, e->msg,
                       tool_call_hint(c, "kill_sandbox",
                                      ". Call kill_sandbox for one that is not needed, or try "
                                      "again in a moment"));
        return;
    case ERR_CONFLICT: // of a sandbox that it is paused, or on its way to or from it
        if (!c->id)
            break;
        tool_call_fail(
            c, "sandbox_paused", "could not %s: %s%s", what, e->msg,
            tool_call_hint(c, "resume_sandbox", ". Call resume_sandbox, then try again"));
        return;
    case ERR_TOO_LARGE:
        tool_call_fail(c, "too_large", "could not %s: %s", what, e->msg);
        return;
    case ERR_TIMEOUT:
        tool_call_fail(c, "timeout", "could not %s in time: %s", what, e->msg);
        return;
    case ERR_DENIED:
        tool_call_fail(c, "denied", "could not %s: %s", what, e->msg);
        return;
    case ERR_UNAVAILABLE:
        tool_call_fail(c, "unavailable", "could not %s: %s. Try again in a moment", what, e->msg);
        return;
    case ERR_UNAUTHENTICATED: // envd says so of a user that is not there, too
        if (!config_is_remote(c->toolbox->config) || tool_call_string(c, "user"))
            break;
        tool_call_fail(c, "unauthenticated", "could not %s: %s. Check E2B_API_KEY", what, e->msg);
        return;
    default:
        break;
    }
    tool_call_fail(c, "failed", "could not %s: %s", what, e->msg);
}

struct doubt {
    struct tool_call *call;
    const char *what; // static
    struct err e;
};

static void on_looked(const json_t *info, const struct err *e, void *ctx)
{
    (void)info;
    struct doubt *d = ctx;
    struct tool_call *c = d->call;
    c->op = NULL;
    if (e && e->code == ERR_GONE)
        tool_call_fail_err(c, d->what, e);
    else if (e && e->code == ERR_NOT_FOUND)
        fail_unknown(c);
    else
        tool_call_fail(c, "not_found", "could not %s: %s", d->what, d->e.msg);
    free(d);
}

// Not found: the sandbox, or something in it? The sandbox is looked up to tell.
static void find_out(struct tool_call *c, const char *what, const struct err *e)
{
    struct doubt *d = xmalloc(sizeof *d);
    *d = (struct doubt){.call = c, .what = what, .e = *e};
    c->on_cancel = NULL;
    c->op = client_get(c->toolbox->client, c->id, on_looked, d);
}

void tool_call_fail_err(struct tool_call *c, const char *what, const struct err *e)
{
    if (e->code == ERR_NOT_FOUND && c->id && c->toolbox->client && !c->cancelled)
        find_out(c, what, e);
    else if (e->code == ERR_GONE)
        tool_call_fail(c, "sandbox_ended", "%s. Its files and processes are gone%s", e->msg,
                       tool_call_hint(c, "create_sandbox", ": call create_sandbox for another"));
    else if (e->code == ERR_CANCELED)
        tool_call_fail(c, "cancelled", "the call was cancelled");
    else
        fail_by_code(c, what, e);
}

// What a cancelled step completes with is its own affair; here it is only told to stop.
void tool_call_cancel(struct tool_call *c)
{
    if (c->cancelled)
        return;
    c->cancelled = true;
    if (c->on_cancel)
        c->on_cancel(c);
    else if (c->op)
        client_cancel(c->op);
}
