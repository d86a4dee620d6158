// SPDX-License-Identifier: Apache-2.0
// The end of a sandbox: kill_sandbox ends it and deletes its files, extend_sandbox moves its end.
#include "mcp-server/text/text.h"
#include "mcp-server/tools/call/tools.h"
#include "sandbox-backend/base/str.h"

static void on_killed(const struct err *e, void *ctx)
{
    struct tool_call *c = ctx;
    c->op = NULL;
    if (e && e->code != ERR_GONE) { // what has ended already is what was wanted
        tool_call_fail_err(c, "kill the sandbox", e);
        return;
    }
    json_t *structured = json_object();
    json_object_set_new(structured, "already_ended", json_boolean(e != NULL));
    tool_call_finish(c, structured);
}

static void start_killing(struct tool_call *c)
{
    struct err e = ERR_INIT;
    // tool_call_client would first move the sandbox's end time on.
    struct client *client = context_client(c->context, &e);
    if (client)
        c->op = client_kill(client, c->id, on_killed, c);
    else
        tool_call_fail_err(c, "reach the sandboxes", &e);
}

static char *text_of_kill(const json_t *o)
{
    bool already = json_is_true(json_object_get(o, "already_ended"));
    return str_printf("Sandbox %s %s", text_string(o, "sandbox_id"),
                      already ? "had already ended" : "killed");
}

const struct tool tool_kill_sandbox = {
    .name = "kill_sandbox", .start = start_killing, .text = text_of_kill};

// ---- extend_sandbox

static int64_t seconds_of(const struct tool_call *c)
{
    return json_integer_value(json_object_get(c->args, "timeout_s"));
}

static void on_extended(const struct err *e, void *ctx)
{
    struct tool_call *c = ctx;
    c->op = NULL;
    if (e) {
        tool_call_fail_err(c, "extend the sandbox", e);
        return;
    }
    tool_call_note_timeout(c, c->id, seconds_of(c));
    tool_call_finish(c, json_pack("{s:I}", "timeout_s", (json_int_t)seconds_of(c)));
}

static void start_extending(struct tool_call *c)
{
    struct err e = ERR_INIT;
    int64_t most = caller_max_timeout(c->caller, c->context->config);
    if (most > 0 && seconds_of(c) > most) {
        tool_call_fail(c, "invalid_argument",
                       "argument 'timeout_s' must be at most %lld here, not %lld", (long long)most,
                       (long long)seconds_of(c));
        return;
    }
    struct client *client = context_client(c->context, &e);
    if (client)
        c->op = client_set_timeout(client, c->id, seconds_of(c), on_extended, c);
    else
        tool_call_fail_err(c, "reach the sandboxes", &e);
}

static char *text_of_extension(const json_t *o)
{
    return str_printf("Sandbox %s now ends %lld s after its last use", text_string(o, "sandbox_id"),
                      text_int(o, "timeout_s"));
}

const struct tool tool_extend_sandbox = {
    .name = "extend_sandbox", .start = start_extending, .text = text_of_extension};
