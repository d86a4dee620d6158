// SPDX-License-Identifier: Apache-2.0
// A tool call, from its arguments to its outcome.
//
// Theory of operation. A call checks its arguments against the tool's inputSchema, then the
// sandbox's id, and whether the sandbox belongs to the caller. Then it starts the tool. A tool
// takes one step after another; each is a client_op or a fetch that completes from the loop.
// Cancelling a call cancels the current step. Its completion finds `cancelled` set, starts nothing
// more and ends the call, whose outcome is discarded. A failure is a result with isError, never a
// protocol error, so that a model can read it and act on it.
//
// A step that may have reached the sandbox is never repeated.
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "mcp-server/context/owner.h"
#include "mcp-server/context/prepare.h"
#include "mcp-server/protocol/exchange.h"
#include "mcp-server/text/resource_uri.h"
#include "mcp-server/tools/call/prepared.h"
#include "mcp-server/tools/call/schema.h"
#include "mcp-server/tools/call/tools.h"
#include "mcp-server/tools/call/turn.h"
#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/home.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/base/visible.h"
#include "sandbox-backend/log/log.h"

#define TURN_MS 30000 // that a call without a timeout waits for earlier ones

// ---- 1. its beginning

struct tool_call *tool_call_new(struct context *cx, struct offer *offer, json_t *arguments,
                                struct exchange *x,
                                void (*on_done)(struct tool_call *c, struct outcome *o, void *ctx),
                                void *ctx)
{
    struct tool_call *c = xmalloc(sizeof *c);
    *c = (struct tool_call){
        .context = cx,
        .tool = offer->tool,
        .schema = tools_definition(offer),
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

const char *tool_call_hint(const struct tool_call *c, const char *tool, const char *words)
{
    return tools_find(c->context, tool) ? words : "";
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

// A sandbox of another caller is treated as unknown before anything else happens.
static void start_owned(struct tool_call *c)
{
    struct err e = ERR_INIT;
    if (c->cancelled) {
        tool_call_fail(c, "cancelled", "the call was cancelled");
        return;
    }
    if (!c->id || owner_is_known(c->context, c->caller, c->id)) {
        c->tool->start(c);
        return;
    }
    c->op = owner_check(c->context, c->caller, c->id, on_checked, c, &e);
    if (!c->op)
        tool_call_fail_err(c, "reach the sandboxes", &e);
}

static int64_t turn_ms(const struct tool_call *c)
{
    const json_t *timeout = json_object_get(c->args, "timeout");
    return timeout ? (int64_t)(json_number_value(timeout) * 1000) : TURN_MS;
}

// Order it after the earlier calls that use the same thing in this sandbox.
static void take_turn(struct tool_call *c)
{
    char *used auto_free = c->id && c->tool->uses ? c->tool->uses(c) : NULL;
    char *key auto_free = used ? str_printf("%s %s", c->id, used) : NULL;
    if (key)
        turn_take(c, key, (uint64_t)turn_ms(c), start_owned);
    else
        start_owned(c);
}

// Return an argument that is a path in another user's home (~name), or NULL. The ways to use a path
// would each expand it differently, so none is allowed.
static const char *foreign_home(const struct tool_call *c)
{
    static const char *const PATHS[] = {"path", "new_path", "sandbox_file_path",
                                        "sandbox_directory", "cwd"};
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
    if (c->id && !context_id_is_plausible(c->context, c->id)) {
        int shown = (int)utf8_valid_prefix(c->id, strnlen(c->id, 60));
        tool_call_fail(c, "invalid_sandbox_id", "'%.*s' is not a sandbox id. Do not invent ids%s",
                       shown, c->id,
                       tool_call_hint(c, "create_sandbox",
                                      ": call create_sandbox and pass the id that it returns"));
        return;
    }
    if (foreign) {
        tool_call_fail(
            c, "invalid_argument",
            "cannot expand '%s': only ~ is supported. For a file of that name write ./%s", foreign,
            foreign);
        return;
    }
    prepared_take(c, take_turn);
}

void tool_call_start(struct tool_call *c)
{
    struct err e = ERR_INIT;
    json_t *args =
        schema_apply(json_object_get(c->schema, "inputSchema"),
                     json_object_get(json_object_get(c->schema, "cubby"), "aliases"), c->args, &e);
    json_decref(c->args);
    c->args = args;
    log_debug("tool.call", "name=%s", c->tool->name);
    if (args)
        start_valid(c);
    else
        tool_call_fail(c, "invalid_argument", "%s", e.msg);
}

// Each use moves the end time of a sandbox on. cubbyd does that itself for sandboxes created as
// sliding. Other servers get a request beside the main step; if it fails, the main step reports the
// error.
static void on_slid(const struct err *e, void *ctx)
{
    (void)ctx;
    if (e)
        log_debug("sandbox.slide", "error=%s", e->msg);
}

static bool backend_keeps_life(const struct context *cx)
{
    return !config_is_remote(cx->config) || (cx->client && client_slides(cx->client));
}

int64_t tool_call_timeout(const struct tool_call *c)
{
    const json_t *own = json_object_get(c->context->timeouts, c->id);
    if (backend_keeps_life(c->context))
        return 0;
    return own ? json_integer_value(own) : caller_timeout(c->caller, c->context->config);
}

static void slide(struct tool_call *c, struct client *client, int64_t seconds)
{
    if (!c->id || backend_keeps_life(c->context))
        return;
    int64_t own_s = tool_call_timeout(c);
    client_set_timeout(client, c->id, own_s > seconds ? own_s : seconds, on_slid, NULL);
}

void tool_call_note_timeout(struct tool_call *c, const char *id, int64_t seconds)
{
    struct context *cx = c->context;
    if (backend_keeps_life(cx))
        return;
    if (json_object_size(cx->timeouts) >= OWNER_KNOWN_MAX)
        json_object_clear(cx->timeouts);
    if (!cx->timeouts)
        cx->timeouts = json_object();
    json_object_set_new(cx->timeouts, id, json_integer(seconds));
}

struct client *tool_call_client(struct tool_call *c, int64_t seconds)
{
    struct err e = ERR_INIT;
    struct client *client = context_client(c->context, &e);
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
    char *text auto_free = c->prepared ? prepare_text(c->context) : NULL;
    if (text)
        return str_printf("preparing this computer: %s", text);
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
    turn_end(c);
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
    const char *hint = structured && c->tool->hint ? c->tool->hint(structured) : NULL;
    if (hint)
        json_object_set_new(structured, "hint", json_string(hint));
    end(c, &o);
}

enum caller_images tool_call_images(const struct tool_call *c)
{
    return caller_images(c->caller, c->context->config);
}

void tool_call_add_block(struct tool_call *c, json_t *block)
{
    bool is_image = str_eq(json_string_value(json_object_get(block, "type")), "image");
    if (is_image && tool_call_images(c) != IMAGES_INLINE) {
        json_decref(block);
        return;
    }
    if (!c->blocks)
        c->blocks = json_array();
    json_array_append_new(c->blocks, block);
}

void tool_call_add_link(struct tool_call *c, const char *path, const char *mime_type, int64_t bytes)
{
    const struct config *config = c->context->config;
    if (!config->links || config_is_miroflow(config) || path[0] != '/')
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

static bool has_sandbox(const struct tool_call *c)
{
    return c->id != NULL;
}

// envd also answers unauthenticated for an unknown user.
static bool is_about_key(const struct tool_call *c)
{
    return config_is_remote(c->context->config) && !tool_call_string(c, "user");
}

static const struct {
    enum err_code error;
    const char *code;
    const char *infix;                          // between what was tried and the error
    const char *advice;                         // after it
    const char *tool;                           // only if this tool is offered; NULL: always
    bool (*applies)(const struct tool_call *c); // NULL: always
} FAILURES[] = {
    {ERR_LIMIT, "limit_reached", "", "", NULL, NULL},
    // The request has already waited for room.
    {ERR_BUSY, "limit_reached", "",
     ". Call kill_sandbox for one that is not needed, or try again in a moment", "kill_sandbox",
     NULL},
    // The sandbox is paused, or on its way to or from a pause.
    {ERR_CONFLICT, "sandbox_paused", "", ". Call resume_sandbox, then try again", "resume_sandbox",
     has_sandbox},
    {ERR_TOO_LARGE, "too_large", "", "", NULL, NULL},
    {ERR_TIMEOUT, "timeout", " in time", "", NULL, NULL},
    {ERR_DENIED, "denied", "", "", NULL, NULL},
    {ERR_UNAVAILABLE, "unavailable", "", ". Try again in a moment", NULL, NULL},
    {ERR_UNAUTHENTICATED, "unauthenticated", "", ". Tell the user to check E2B_API_KEY", NULL,
     is_about_key},
};

static void fail_by_code(struct tool_call *c, const char *what, const struct err *e)
{
    for (size_t i = 0; i < ARRAY_LEN(FAILURES); i++) {
        if (FAILURES[i].error != e->code || (FAILURES[i].applies && !FAILURES[i].applies(c)))
            continue;
        const char *tool = FAILURES[i].tool;
        tool_call_fail(c, FAILURES[i].code, "could not %s%s: %s%s", what, FAILURES[i].infix, e->msg,
                       tool ? tool_call_hint(c, tool, FAILURES[i].advice) : FAILURES[i].advice);
        return;
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

// Not found may mean the sandbox or a file in it. Look up the sandbox to tell them apart.
static void find_out(struct tool_call *c, const char *what, const struct err *e)
{
    struct doubt *d = xmalloc(sizeof *d);
    *d = (struct doubt){.call = c, .what = what, .e = *e};
    c->on_cancel = NULL;
    c->op = client_get(c->context->client, c->id, on_looked, d);
}

void tool_call_fail_err(struct tool_call *c, const char *what, const struct err *e)
{
    if (e->code == ERR_NOT_FOUND && c->id && c->context->client && !c->cancelled)
        find_out(c, what, e);
    else if (e->code == ERR_GONE)
        tool_call_fail(c, "sandbox_ended", "%s. Its files and processes are gone%s", e->msg,
                       tool_call_hint(c, "create_sandbox", ": call create_sandbox for another"));
    else if (e->code == ERR_CANCELED)
        tool_call_fail(c, "cancelled", "the call was cancelled");
    else
        fail_by_code(c, what, e);
}

// Only tell the step to stop; its completion ends the call.
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
