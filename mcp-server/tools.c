// SPDX-License-Identifier: Apache-2.0
// The tools: what is offered, and one call from its arguments to its outcome.
//
// Theory of operation. schemas/tools.json is the one source of names, descriptions, schemas and
// order; TOOLS joins a name to its function. A call checks its arguments against the tool's
// inputSchema, checks the sandbox's id, and starts the tool, which takes one step after another,
// each a client_op (or a fetch) that completes from the loop. Cancelling a call cancels the step
// that runs; its completion finds `cancelled` set, starts nothing more, and ends the call, whose
// outcome nobody reads. What fails is a result with isError, never a protocol error: a model can
// read and act on it.
//
// Nothing is done twice. A step that may have reached the sandbox is never repeated.
#include "mcp-server/tools.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "mcp-server/local_dirs.h"
#include "mcp-server/schema.h"
#include "mcp-server/text.h"
#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/home.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/self.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/log/log.h"
#include "sandbox-backend/net/http_client.h"
#include "schemas.h"

static const struct tool TOOLS[] = {
    {TOOL_RUN_COMMAND, "run_command", tool_run_command},
    {TOOL_RUN_PYTHON_CODE, "run_python_code", tool_run_python_code},
    {TOOL_CREATE_SANDBOX, "create_sandbox", tool_create_sandbox},
    {TOOL_UPLOAD, "upload_file_from_local_to_sandbox", tool_upload},
    {TOOL_DOWNLOAD_INTERNET, "download_file_from_internet_to_sandbox", tool_download_internet},
    {TOOL_DOWNLOAD_LOCAL, "download_file_from_sandbox_to_local", tool_download_local},
};

// ---- 1. the toolbox

void toolbox_init(struct toolbox *t, uv_loop_t *loop, const struct config *config)
{
    *t = (struct toolbox){
        .loop = loop,
        .config = config,
        .text = config_is_miroflow(config) ? &TEXT_MIROFLOW : &TEXT_DEFAULT,
    };
}

void toolbox_close(struct toolbox *t)
{
    if (t->client)
        client_close(t->client, NULL, NULL);
    if (t->http)
        http_client_close(t->http, NULL, NULL);
    t->client = NULL;
    t->http = NULL;
}

void toolbox_fini(struct toolbox *t)
{
    json_decref(t->schemas);
    t->schemas = NULL;
    local_dirs_free(t->dirs);
    t->dirs = NULL;
}

struct client *toolbox_client(struct toolbox *t, struct err *e)
{
    if (t->client)
        return t->client;
    const struct config *config = t->config;
    char *home auto_free = NULL;
    char *daemon auto_free = NULL;
    struct client_opts opts = {.api_url = config->api_url, .api_key = config->api_key};
    if (!config_is_remote(config)) {
        home = home_open(e);
        daemon = home ? self_program("cubbyd", NULL) : NULL; // one that runs already will do
        if (!home)
            return NULL;
        opts.home = home;
        opts.daemon_path = daemon;
    }
    t->client = client_new(t->loop, &opts);
    return t->client;
}

struct http_client *toolbox_http(struct toolbox *t)
{
    if (!t->http)
        t->http = http_client_new(t->loop);
    return t->http;
}

struct local_dirs *toolbox_dirs(struct toolbox *t, struct err *e)
{
    if (!t->dirs)
        t->dirs = local_dirs_new(t->config, e);
    return t->dirs;
}

static const json_t *schema_of(struct toolbox *t, const char *name)
{
    if (!t->schemas) {
        struct err e = ERR_INIT;
        t->schemas = json_parse(SCHEMA_tools, sizeof SCHEMA_tools - 1, &e);
        if (!t->schemas)
            log_error("tools.schema", "error=%s", e.msg);
    }
    size_t i;
    json_t *one;
    json_array_foreach(t->schemas, i, one)
    {
        if (str_eq(json_string_value(json_object_get(one, "name")), name))
            return one;
    }
    return NULL;
}

static bool is_disabled(const struct toolbox *t, const char *name)
{
    for (int i = 0; i < t->config->disabled.count; i++)
        if (str_eq(t->config->disabled.items[i], name))
            return true;
    return false;
}

const struct tool *tools_find(struct toolbox *t, const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(TOOLS); i++)
        if (str_eq(TOOLS[i].name, name) && !is_disabled(t, name))
            return &TOOLS[i];
    return NULL;
}

static json_t *described(struct toolbox *t, const struct tool *tool, const struct era *era)
{
    json_t *shown = json_copy((json_t *)(uintptr_t)schema_of(t, tool->name));
    if (!era->annotations)
        json_object_del(shown, "annotations");
    if (!era->structured)
        json_object_del(shown, "title");
    if (!era->structured || !t->text->structured)
        json_object_del(shown, "outputSchema");
    return shown;
}

json_t *tools_list(struct toolbox *t, const struct era *era)
{
    json_t *list = json_array();
    for (size_t i = 0; i < ARRAY_LEN(TOOLS); i++)
        if (!is_disabled(t, TOOLS[i].name))
            json_array_append_new(list, described(t, &TOOLS[i], era));
    return list;
}

// ---- 2. one call: its beginning

struct tool_call *tool_call_new(struct toolbox *t, const struct tool *tool, json_t *arguments,
                                bool takes_progress,
                                void (*on_done)(struct tool_call *c, struct outcome *o, void *ctx),
                                void *ctx)
{
    struct tool_call *c = xmalloc(sizeof *c);
    *c = (struct tool_call){
        .toolbox = t,
        .tool = tool,
        .args = json_is_object(arguments) ? json_incref(arguments) : NULL,
        .takes_progress = takes_progress,
        .started_ms = clock_mono_ms(),
        .on_done = on_done,
        .ctx = ctx,
    };
    return c;
}

// Ids are issued, and models invent some: what cannot be one is told apart from what is unknown.
static bool id_is_plausible(const struct toolbox *t, const char *id)
{
    static const char ID[] = "abcdefghijklmnopqrstuvwxyz0123456789";
    static const char REMOTE_ID[] = "abcdefghijklmnopqrstuvwxyz0123456789-"
                                    "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
    size_t len = strlen(id);
    if (config_is_remote(t->config)) // longer than the longest that models make up
        return len >= 16 && len <= 128 && strspn(id, REMOTE_ID) == len;
    return len == SANDBOX_ID_LEN && strspn(id, ID) == len;
}

static void start_valid(struct tool_call *c)
{
    c->id = tool_call_string(c, "sandbox_id");
    if (c->id && !id_is_plausible(c->toolbox, c->id)) {
        int shown = (int)utf8_valid_prefix(c->id, strnlen(c->id, 60));
        tool_call_fail(c, "invalid_sandbox_id",
                       "'%.*s' is not a sandbox id. Ids are issued, never chosen: call "
                       "create_sandbox and pass the id that it returns",
                       shown, c->id);
        return;
    }
    c->tool->start(c);
}

void tool_call_start(struct tool_call *c)
{
    struct err e = ERR_INIT;
    const json_t *schema = json_object_get(schema_of(c->toolbox, c->tool->name), "inputSchema");
    json_t *args = schema_apply(schema, c->args, &e);
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
    if (!config_is_remote(c->toolbox->config) || !c->id)
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

// ---- 3. one call: its end

static void end(struct tool_call *c, struct outcome *o)
{
    log_debug("tool.end", "name=%s ms=%lld code=%s", c->tool->name, (long long)tool_call_ms(c),
              o->code ? o->code : "ok");
    c->on_done(c, o, c->ctx);
    json_decref(o->structured);
    free(o->message);
    json_decref(c->args);
    free(c->note);
    free(c);
}

void tool_call_finish(struct tool_call *c, json_t *structured)
{
    struct outcome o = {.structured = structured};
    if (c->id)
        json_object_set_new(structured, "sandbox_id", json_string(c->id));
    json_object_set_new(structured, "duration_ms", json_integer(tool_call_ms(c)));
    end(c, &o);
}

void tool_call_fail(struct tool_call *c, const char *code, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    struct outcome o = {.code = code};
    char *text auto_free = NULL;
    if (vasprintf(&text, fmt, ap) < 0)
        abort();
    va_end(ap);
    char *shown auto_free = str_show_controls(text);
    o.message = str_printf("%s%s", shown, c->note ? c->note : "");
    end(c, &o);
}

static void fail_by_code(struct tool_call *c, const char *what, const struct err *e)
{
    switch ((int)e->code) {
    case ERR_LIMIT:
        tool_call_fail(c, "limit_reached", "could not %s: %s", what, e->msg);
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
        tool_call_fail(c, "sandbox_not_found",
                       "there is no sandbox %s. Call create_sandbox and pass the id that it "
                       "returns",
                       c->id);
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
        tool_call_fail(c, "sandbox_ended",
                       "%s. Its files and processes are gone: call create_sandbox for another",
                       e->msg);
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
