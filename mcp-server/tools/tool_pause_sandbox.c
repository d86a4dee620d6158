// SPDX-License-Identifier: Apache-2.0
// pause_sandbox: a sandbox stands still, and loses nothing.
#include "mcp-server/tools/text.h"
#include "mcp-server/tools/tools.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

static void finish(struct tool_call *c, bool already)
{
    json_t *structured = json_object();
    const char *hint = tool_call_hint(c, "resume_sandbox", "resume_sandbox lets it go on");
    json_object_set_new(structured, "already_paused", json_boolean(already));
    json_object_set_new(structured, "hint", json_string(hint));
    tool_call_finish(c, structured);
}

// It may have been paused before, which is what was wanted, or be on its way.
static void on_looked(const json_t *info, const struct err *e, void *ctx)
{
    struct tool_call *c = ctx;
    c->op = NULL;
    if (e)
        tool_call_fail_err(c, "pause the sandbox", e);
    else if (str_eq(text_string(info, "state"), "paused"))
        finish(c, true);
    else
        tool_call_fail(c, "failed",
                       "could not pause the sandbox: it changes its state just now. Try again in a "
                       "moment");
}

static void on_paused(const struct err *e, void *ctx)
{
    struct tool_call *c = ctx;
    c->op = NULL;
    if (e && e->code == ERR_CONFLICT && !c->cancelled)
        c->op = client_get(c->toolbox->client, c->id, on_looked, c);
    else if (e)
        tool_call_fail_err(c, "pause the sandbox", e);
    else
        finish(c, false);
}

static void start(struct tool_call *c)
{
    struct err e = ERR_INIT;
    // Its life is not extended first, as by tool_call_client: a paused one has no end.
    struct client *client = toolbox_client(c->toolbox, &e);
    if (client)
        c->op = client_pause(client, c->id, PAUSE_FREEZE, on_paused, c);
    else
        tool_call_fail_err(c, "reach the sandboxes", &e);
}

static char *text_of(const json_t *o)
{
    const char *hint = text_string(o, "hint");
    bool already = json_is_true(json_object_get(o, "already_paused"));
    return str_printf("Sandbox %s %s%s%s", text_string(o, "sandbox_id"),
                      already ? "was paused already" : "is paused", *hint ? ". " : "", hint);
}

const struct tool TOOL_PAUSE_SANDBOX = {"pause_sandbox", start, text_of};
