// SPDX-License-Identifier: Apache-2.0
// The network hint: what the network of a sandbox refused while a command ran.
#include "mcp-server/tools/run/network_hint.h"

#include <stdlib.h>
#include <string.h>

#include "mcp-server/text/text.h"
#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/base/visible.h"
#include "sandbox-backend/client/client.h"

// Commands are killed after 50 s because clients give up a request after 60 s. The result must not
// wait long for the hint, which is worth less.
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
    // A timestamp in whole seconds may be any time within that second. netd gives nanoseconds: with
    // the same tolerance a command would get the refusals of the command before it.
    return at_ns % NS_PER_S ? at_ns >= since_ns : at_ns + NS_PER_S > since_ns;
}

// Append a refusal: "tcp example.com:443 (not allowed)". The name is the one that the guest asked
// for. A frame other than IPv4 has neither name nor address.
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

// Return whether a secret caused the refusal, not the policy.
static bool is_of_secret(const json_t *refusal)
{
    return str_starts(text_string(refusal, "reason"), "secret ");
}

// Append the refusals; return whether the policy may have caused some of them.
static bool add_refusals(struct buf *out, const json_t *answer, int64_t since_ns)
{
    size_t i;
    json_t *refusal;
    int shown = 0;
    bool is_of_policy = false;
    json_array_foreach (json_object_get(answer, "refusals"), i, refusal) {
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
    json_array_foreach (allow, i, entry) {
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
    buf_printf(&text, "The sandbox's network policy refused: %s", buf_str(&refused));
    if (is_of_policy) {
        buf_adds(&text, ". The policy allows: ");
        add_allowed(&text, json_object_get(answer, "policy"));
    }
    return buf_take(&text);
}

// ---- when it is worth asking

bool network_hint_is_likely(const char *text, size_t len)
{
    // The first letter is left out where it may be a capital.
    static const char *const WORDS[] = {
        "ould not resolve", "nable to resolve",  "failure resolving",
        "name resolution",  "service not known", "no such host",
        "onnection refus",  "onnection reset",   "timed out",
        "ould not connect", "ailed to connect",  "nable to connect",
        "ailed to fetch",   "fetch failed",      "ailed to establish a new connection",
        "o route to host",  "etwork is unreach", "host is unreach",
        "ECONNREFUSED",     "ECONNRESET",        "ENOTFOUND",
        "EAI_AGAIN",        "EHOSTUNREACH",      "ENETUNREACH",
        "i/o timeout",      "onnection timeout", "dministratively prohibited",
    };
    for (size_t i = 0; i < ARRAY_LEN(WORDS); i++)
        if (memmem(text, len, WORDS[i], strlen(WORDS[i])))
            return true;
    return false;
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
    if (!c->context->client || c->cancelled || !c->id || config_is_miroflow(c->context->config))
        return false;
    struct asking *a = xmalloc(sizeof *a);
    *a = (struct asking){.call = c,
                         .since_ns =
                             clock_wall_ns() - tool_call_ms(c) * NS_PER_MS - before_s * NS_PER_S,
                         .cb = cb,
                         .ctx = ctx};
    c->op = client_network(c->context->client, c->id, 0, ANSWER_MS, on_answer, a);
    return true;
}
