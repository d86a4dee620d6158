// SPDX-License-Identifier: Apache-2.0
// expose_port: a URL with which a person opens a server in the sandbox.
#include "mcp-server/text/text.h"
#include "mcp-server/tools/call/tools.h"
#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/client/client.h"

#define WAIT_S_MAX 50 // clients that hear no progress give a request up after 60 s

static int64_t wait_s(const struct tool_call *c)
{
    int64_t s = json_integer_value(json_object_get(c->args, "wait_seconds"));
    return s > WAIT_S_MAX && !c->takes_progress ? WAIT_S_MAX : s;
}

static bool is_loopback(const char *url)
{
    return str_starts(url, "http://127.") || str_starts(url, "http://[::1]") ||
           str_starts(url, "http://localhost");
}

// Return the hint: who can open the URL, and for how long.
static json_t *hint(const struct tool_call *c, const char *url, bool has_token)
{
    const struct config *config = c->context->config;
    struct buf text = BUF_INIT;
    if (!is_loopback(url))
        buf_adds(&text, "Give this URL to the user, to open in a browser.");
    else if (config_is_remote(config) || config->http)
        buf_adds(&text, "This URL opens only on the computer that runs the sandboxes. Its operator "
                        "can change that with --ports-address and --ports-host of cubbyd.");
    else
        buf_adds(&text, "Give this URL to the user, to open in a browser on this "
                        "computer.");
    if (has_token && is_loopback(url))
        buf_adds(&text, " Anyone who has this URL can open it.");
    buf_adds(&text, " The URL stops working when the sandbox ends.");
    json_t *json = json_string(buf_str(&text));
    buf_fini(&text);
    return json;
}

static void on_exposed(const json_t *info, const struct err *e, void *ctx)
{
    struct tool_call *c = ctx;
    c->op = NULL;
    if (e && e->code == ERR_TIMEOUT) {
        tool_call_fail(c, "port_closed", "%s%s", e->msg,
                       tool_call_hint(c, "start_command",
                                      ". Start the server first with "
                                      "start_command, read its output, then try again"));
        return;
    }
    if (e) {
        tool_call_fail_err(c, "expose the port", e);
        return;
    }
    const char *plain = text_string(info, "url");
    const char *shown = text_string(info, "browserUrl");
    const char *token = text_string(info, "token");
    json_t *o =
        json_pack("{s:I, s:s, s:s, s:o}", "port", (json_int_t)text_int(info, "port"), "url",
                  *shown ? shown : plain, "program_url", plain, "hint", hint(c, plain, *token));
    if (*token)
        json_object_set_new(o, "token", json_string(token));
    tool_call_finish(c, o);
}

static void start(struct tool_call *c)
{
    const struct expose_opts opts = {
        .port = (int)json_integer_value(json_object_get(c->args, "port")),
        .token = json_is_true(json_object_get(c->args, "token")),
        .wait_s = wait_s(c),
    };
    struct client *client = tool_call_client(c, opts.wait_s);
    if (client)
        c->op = client_expose(client, c->id, &opts, on_exposed, c);
}

static char *text_of(const json_t *o)
{
    struct buf out = BUF_INIT;
    buf_printf(&out, "Port %lld of sandbox %s: %s\n%s", text_int(o, "port"),
               text_string(o, "sandbox_id"), text_string(o, "url"), text_string(o, "hint"));
    if (str_starts(text_string(o, "url"), text_string(o, "program_url")))
        return buf_take(&out);
    buf_printf(&out, " For programs such as curl, use %s", text_string(o, "program_url"));
    if (*text_string(o, "token"))
        buf_printf(&out, " with the header X-Access-Token: %s", text_string(o, "token"));
    return buf_take(&out);
}

const struct tool tool_expose_port = {.name = "expose_port", .start = start, .text = text_of};
