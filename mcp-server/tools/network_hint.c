// SPDX-License-Identifier: Apache-2.0
// What was refused to a sandbox on the network while a command failed.
#include "mcp-server/tools/network_hint.h"

#include <stdlib.h>

#include "mcp-server/tools/text.h"
#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/base/visible.h"
#include "sandbox-backend/client/network.h"

// A command is killed after 50 s, as clients give a request up after 60: its result cannot wait for
// long, and is worth more than this.
#define ANSWER_MS      5000
#define SHOWN_REFUSALS 3 // the newest
#define SHOWN_ALLOWED  6
#define NS_PER_MS      1000000LL
#define NS_PER_S       1000000000LL

struct asking {
    struct tool_call *call; // borrowed
    int64_t since_ns;
    network_hint_cb cb;
    void *ctx;
};

// ---- the line
static bool is_since(const json_t *refusal, int64_t since_ns)
{
    int64_t at_ns;
    if (!clock_parse_rfc3339(text_string(refusal, "timestamp"), &at_ns))
        return false;
    // Of a time in whole seconds the rest is not known. netd tells nanoseconds: with the same room
    // a command would be told what the one just before it was refused.
    return at_ns % NS_PER_S ? at_ns >= since_ns : at_ns + NS_PER_S > since_ns;
}

// "tcp example.com:443 (not allowed)". A name is what the guest asked for; a frame that is no IPv4
// has neither name nor address.
static void add_refusal(struct buf *out, const json_t *refusal)
{
    const char *name = text_string(refusal, "name");
    long long port = text_int(refusal, "port");
    char *target auto_free = visible_text(*name ? name : text_string(refusal, "address"));
    buf_printf(out, "%s%s%s%s", out->len ? ", " : "", text_string(refusal, "protocol"),
               *target ? " " : "", target);
    if (port > 0)
        buf_printf(out, ":%lld", port);
    buf_printf(out, " (%s)", text_string(refusal, "reason"));
}

// Then it is not the policy that refused it.
static bool is_of_secret(const json_t *refusal)
{
    return str_starts(text_string(refusal, "reason"), "secret ");
}

// Whether the policy may have to do with some of them.
static bool add_refusals(struct buf *out, const json_t *answer, int64_t since_ns)
{
    size_t i;
    json_t *refusal;
    int shown = 0;
    bool is_of_policy = false;
    json_array_foreach(json_object_get(answer, "refusals"), i, refusal)
    {
        if (!is_since(refusal, since_ns))
            continue;
        is_of_policy = is_of_policy || !is_of_secret(refusal);
        if (shown++ < SHOWN_REFUSALS)
            add_refusal(out, refusal);
    }
    if (shown > SHOWN_REFUSALS)
        buf_printf(out, ", and %d more", shown - SHOWN_REFUSALS);
    return is_of_policy;
}

static void add_allowed(struct buf *out, const json_t *policy)
{
    const json_t *allow = json_object_get(policy, "allow");
    const char *mode = text_string(policy, "mode");
    size_t i;
    json_t *entry;
    if (str_eq(mode, "public")) {
        buf_adds(out, "the public internet, no private addresses");
        return;
    }
    json_array_foreach(allow, i, entry)
    {
        const char *rule = json_string_value(entry);
        char *shown auto_free = rule && i < SHOWN_ALLOWED ? visible_text(rule) : NULL;
        if (shown)
            buf_printf(out, "%s%s", i ? ", " : "", shown);
    }
    if (json_array_size(allow) > SHOWN_ALLOWED)
        buf_printf(out, ", and %zu more", json_array_size(allow) - SHOWN_ALLOWED);
    else if (json_array_size(allow) == 0)
        buf_adds(out, "nothing");
}

char *network_hint_text(const json_t *answer, int64_t since_ns)
{
    struct buf text auto_buf = BUF_INIT;
    struct buf refused auto_buf = BUF_INIT;
    bool is_of_policy = add_refusals(&refused, answer, since_ns);
    if (refused.len == 0)
        return NULL;
    buf_printf(&text, "Refused by the network of this sandbox: %s", buf_str(&refused));
    if (is_of_policy) {
        buf_adds(&text, ". Its policy allows: ");
        add_allowed(&text, json_object_get(answer, "policy"));
    }
    return buf_take(&text);
}

// ---- asking
static void on_answer(const json_t *info, const struct err *e, void *ctx)
{
    struct asking *a = ctx;
    const struct asking done = *a;
    free(a);
    done.call->op = NULL;
    done.cb(done.call, e ? NULL : network_hint_text(info, done.since_ns), done.ctx);
}

bool network_hint_ask(struct tool_call *c, int64_t before_s, network_hint_cb cb, void *ctx)
{
    if (!c->toolbox->client || c->cancelled || !c->id || config_is_miroflow(c->toolbox->config))
        return false;
    struct asking *a = xmalloc(sizeof *a);
    *a = (struct asking){.call = c,
                         .since_ns =
                             clock_wall_ns() - tool_call_ms(c) * NS_PER_MS - before_s * NS_PER_S,
                         .cb = cb,
                         .ctx = ctx};
    c->op = client_network(c->toolbox->client, c->id, 0, ANSWER_MS, on_answer, a);
    return true;
}
