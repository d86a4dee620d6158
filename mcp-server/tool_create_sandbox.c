// SPDX-License-Identifier: Apache-2.0
// create_sandbox: a new sandbox that lives as long as it is used.
#include "mcp-server/tools.h"
#include "sandbox-backend/base/json.h"

// A create that is cancelled half-way is undone by the client: nobody would know the id.
static void on_created(const json_t *info, const struct err *e, void *ctx)
{
    struct tool_call *c = ctx;
    const struct config *config = c->toolbox->config;
    c->op = NULL;
    if (e && e->code == ERR_NOT_FOUND) {
        tool_call_fail(c, "template_not_found",
                       "%s. Build it with \"cubby template build NAME\", or name another in "
                       "--template",
                       e->msg);
        return;
    }
    if (e) {
        tool_call_fail_err(c, "create a sandbox", e);
        return;
    }
    json_t *structured = json_object();
    json_object_set(structured, "sandbox_id", json_object_get(info, "sandboxID"));
    json_object_set_new(structured, "template",
                        json_string(config->template ? config->template : "default"));
    json_object_set_new(structured, "timeout_s", json_integer(config->sandbox_timeout_s));
    tool_call_finish(c, structured);
}

void tool_create_sandbox(struct tool_call *c)
{
    const struct config *config = c->toolbox->config;
    struct client *client = tool_call_client(c, 0);
    if (!client)
        return;
    struct sandbox_opts opts = {
        .template = config->template,
        .timeout_s = config->sandbox_timeout_s,
        .sliding = !config_is_remote(config),
    };
    c->op = client_create(client, &opts, on_created, c);
}
