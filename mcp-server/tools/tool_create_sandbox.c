// SPDX-License-Identifier: Apache-2.0
// create_sandbox: a new sandbox that lives as long as it is used.
#include "mcp-server/protocol/exchange.h"
#include "mcp-server/tools/owner.h"
#include "mcp-server/tools/quota.h"
#include "mcp-server/tools/snapshot_owner.h"
#include "mcp-server/tools/text.h"
#include "mcp-server/tools/tools.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/str.h"

static const char *template_of(const struct tool_call *c)
{
    const char *asked = tool_call_string(c, "template");
    return asked ? asked : c->toolbox->config->template;
}

static void fail_template(struct tool_call *c, const struct err *e)
{
    const char *asked = tool_call_string(c, "template");
    if (asked && str_starts(asked, "snap-"))
        snapshot_owner_fail(c, asked);
    else if (asked)
        tool_call_fail(c, "template_not_found", "%s%s%s", e->msg,
                       tool_call_hint(c, "list_sandboxes", ". list_sandboxes shows the snapshots"),
                       ". Without template the usual one is taken");
    else
        tool_call_fail(c, "template_not_found",
                       "%s. Build it with \"cubby template build NAME\", or name another in "
                       "--template",
                       e->msg);
}

// A create that is cancelled half-way is undone by the client: nobody would know the id.
static void on_created(const json_t *info, const struct err *e, void *ctx)
{
    struct tool_call *c = ctx;
    const char *template = template_of(c);
    c->op = NULL;
    quota_release(c);
    if (e && e->code == ERR_NOT_FOUND) {
        fail_template(c, e);
        return;
    }
    if (e) {
        tool_call_fail_err(c, "create a sandbox", e);
        return;
    }
    owner_note(c->toolbox, c->caller, text_string(info, "sandboxID"));
    json_t *structured = json_object();
    json_object_set(structured, "sandbox_id", json_object_get(info, "sandboxID"));
    json_object_set_new(structured, "template", json_string(template ? template : "default"));
    json_object_set_new(structured, "timeout_s",
                        json_integer(c->toolbox->config->sandbox_timeout_s));
    tool_call_finish(c, structured);
}

static json_t *secrets_of(const struct config *config)
{
    json_t *names = json_array();
    for (int i = 0; i < config->secrets.count; i++)
        json_array_append_new(names, json_string(config->secrets.items[i]));
    return names;
}

static void create(struct tool_call *c)
{
    const struct config *config = c->toolbox->config;
    json_t *mine = owner_metadata(c->caller);
    json_t *secrets = secrets_of(config);
    struct sandbox_opts opts = {
        .template = template_of(c),
        .timeout_s = config->sandbox_timeout_s,
        .metadata = mine,
        .secrets = secrets,
        .sliding = true,
    };
    c->op = client_create(c->toolbox->client, &opts, on_created, c);
    json_decref(mine);
    json_decref(secrets);
}

static void take_quota(struct tool_call *c)
{
    quota_take(c, 1, create);
}

static void start(struct tool_call *c)
{
    const char *asked = tool_call_string(c, "template");
    const struct client *client = tool_call_client(c, 0);
    if (!client)
        return;
    if (!client_is_there(client))
        exchange_log(c->exchange, "info", "cubby",
                     json_string("The sandbox daemon does not run yet. It is being started, which "
                                 "takes a moment"));
    if (asked && !str_eq(asked, c->toolbox->config->template))
        snapshot_owner_check(c, asked, true, take_quota);
    else
        take_quota(c);
}

// One line with one ": ", the id last: it is taken apart in the wild.
static char *text_of(const json_t *o)
{
    return str_printf("Sandbox created with sandbox_id: %s", text_string(o, "sandbox_id"));
}

const struct tool TOOL_CREATE_SANDBOX = {"create_sandbox", start, text_of};
