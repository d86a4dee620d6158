// SPDX-License-Identifier: Apache-2.0
// pause_sandbox and resume_sandbox: a sandbox is suspended without loss, and continues.
#include "mcp-server/text/text.h"
#include "mcp-server/tools/call/tools.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

static void finish_pause(struct tool_call *c, bool already)
{
    json_t *structured = json_object();
    const char *hint =
        tool_call_hint(c, "resume_sandbox", "Call resume_sandbox to let it run again");
    json_object_set_new(structured, "already_paused", json_boolean(already));
    json_object_set_new(structured, "hint", json_string(hint));
    tool_call_finish(c, structured);
}

// The sandbox may already be paused, as wanted, or be changing its state.
static void on_looked(const json_t *info, const struct err *e, void *ctx)
{
    struct tool_call *c = ctx;
    c->op = NULL;
    if (e)
        tool_call_fail_err(c, "pause the sandbox", e);
    else if (str_eq(text_string(info, "state"), "paused"))
        finish_pause(c, true);
    else
        tool_call_fail(c, "failed",
                       "could not pause the sandbox: it is changing its state. Try again in a "
                       "moment");
}

static void on_paused(const struct err *e, void *ctx)
{
    struct tool_call *c = ctx;
    c->op = NULL;
    if (e && e->code == ERR_CONFLICT && !c->cancelled)
        c->op = client_get(c->context->client, c->id, on_looked, c);
    else if (e)
        tool_call_fail_err(c, "pause the sandbox", e);
    else
        finish_pause(c, false);
}

static void start_pause(struct tool_call *c)
{
    struct err e = ERR_INIT;
    // tool_call_client would first move the sandbox's end time on, but a paused sandbox has no end.
    struct client *client = context_client(c->context, &e);
    if (client)
        c->op = client_pause(client, c->id, PAUSE_FREEZE, on_paused, c);
    else
        tool_call_fail_err(c, "reach the sandboxes", &e);
}

static char *text_of_pause(const json_t *o)
{
    const char *hint = text_string(o, "hint");
    bool already = json_is_true(json_object_get(o, "already_paused"));
    return str_printf("Sandbox %s %s%s%s", text_string(o, "sandbox_id"),
                      already ? "was already paused" : "is paused", *hint ? ". " : "", hint);
}

const struct tool tool_pause_sandbox = {
    .name = "pause_sandbox", .start = start_pause, .text = text_of_pause};

// ---- resume_sandbox: a running sandbox just continues to run

static void on_resumed(const json_t *info, const struct err *e, void *ctx)
{
    (void)info;
    struct tool_call *c = ctx;
    c->op = NULL;
    if (e && e->code == ERR_CONFLICT) {
        tool_call_fail(c, "failed", "could not resume the sandbox: %s. Try again in a moment",
                       e->msg);
        return;
    }
    if (e) {
        tool_call_fail_err(c, "resume the sandbox", e);
        return;
    }
    tool_call_finish(c, json_object());
}

static void start_resume(struct tool_call *c)
{
    struct err e = ERR_INIT;
    // tool_call_client would move the end time by a request of its own; the resume itself does it.
    struct client *client = context_client(c->context, &e);
    if (client)
        c->op = client_resume(client, c->id, tool_call_timeout(c), on_resumed, c);
    else
        tool_call_fail_err(c, "reach the sandboxes", &e);
}

static char *text_of_resume(const json_t *o)
{
    return str_printf(
        "Sandbox %s is running again, with its files, memory and processes as they were",
        text_string(o, "sandbox_id"));
}

const struct tool tool_resume_sandbox = {
    .name = "resume_sandbox", .start = start_resume, .text = text_of_resume};
