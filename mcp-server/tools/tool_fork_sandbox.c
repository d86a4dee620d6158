// SPDX-License-Identifier: Apache-2.0
// fork_sandbox: independent copies of a running sandbox.
#include "mcp-server/context/owner.h"
#include "mcp-server/text/text.h"
#include "mcp-server/tools/call/tools.h"
#include "mcp-server/tools/owner/quota.h"
#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

// Return {"sandbox_id"} or {"error"} for one element of the server's answer.
static json_t *shown(struct tool_call *c, const json_t *one)
{
    const char *id = text_string(json_object_get(one, "sandbox"), "sandboxID");
    const char *why = text_string(json_object_get(one, "error"), "message");
    if (!*id)
        return json_pack("{s:s}", "error", *why ? why : "the server gave no reason");
    owner_note(c->context, c->caller, id);
    return json_pack("{s:s}", "sandbox_id", id);
}

static json_t *shown_all(struct tool_call *c, const json_t *list, size_t *failed)
{
    json_t *forks = json_array();
    size_t i;
    json_t *one;
    json_array_foreach (list, i, one) {
        json_t *fork = shown(c, one);
        *failed += json_object_get(fork, "error") != NULL;
        json_array_append_new(forks, fork);
    }
    return forks;
}

static void on_forked(const json_t *list, const struct err *e, void *ctx)
{
    struct tool_call *c = ctx;
    size_t failed = 0;
    c->op = NULL;
    quota_release(c);
    if (e) {
        tool_call_fail_err(c, "fork the sandbox", e);
        return;
    }
    json_t *forks = shown_all(c, list, &failed);
    if (failed == json_array_size(forks)) {
        tool_call_fail(c, "failed", "no copy was made: %s",
                       text_string(json_array_get(forks, 0), "error"));
        json_decref(forks);
        return;
    }
    tool_call_finish(
        c, json_pack("{s:o, s:s}", "forks", forks, "hint",
                     tool_call_hint(c, "kill_sandbox",
                                    "Call kill_sandbox for copies that are no longer needed")));
}

static int64_t count_of(const struct tool_call *c)
{
    return json_integer_value(json_object_get(c->args, "count"));
}

static void fork_it(struct tool_call *c)
{
    const struct fork_opts opts = {
        .timeout_s = tool_call_timeout(c),
        .count = count_of(c),
    };
    c->op = client_fork(c->context->client, c->id, &opts, on_forked, c);
}

static void start(struct tool_call *c)
{
    if (tool_call_client(c, 0))
        quota_take(c, count_of(c), fork_it);
}

static char *text_of(const json_t *o)
{
    struct buf out = BUF_INIT;
    const char *hint = text_string(o, "hint");
    size_t i;
    json_t *fork;
    buf_printf(
        &out,
        "Forked %s, which keeps running. Each copy has its files, memory and processes and is "
        "independent; pass its id as sandbox_id to other tools:\n",
        text_string(o, "sandbox_id"));
    json_array_foreach (json_object_get(o, "forks"), i, fork) {
        const char *why = text_string(fork, "error");
        buf_printf(&out, "%zu. %s%s\n", i + 1, *why ? "failed: " : "",
                   *why ? why : text_string(fork, "sandbox_id"));
    }
    buf_adds(&out, hint);
    if (!*hint)
        out.data[--out.len] = '\0';
    return buf_take(&out);
}

const struct tool tool_fork_sandbox = {.name = "fork_sandbox", .start = start, .text = text_of};
