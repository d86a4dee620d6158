// SPDX-License-Identifier: Apache-2.0
// What is shown of a sandbox's network.
#include "sandbox-backend/daemon/network_view.h"

#include <arpa/inet.h>
#include <string.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/net_stats.h"
#include "sandbox-backend/daemon/sandbox.h"

// ---- the policy

static const char *mode_of(const struct net_policy *p)
{
    if (net_policy_is_closed(p))
        return "none";
    return net_policy_denies_rest(p) ? "allow" : "public";
}

// Without what stands for "all the rest" in E2B's form.
static json_t *deny_of(const struct net_policy *p)
{
    json_t *all = net_rules_to_json(p->deny_out, p->deny_count);
    for (size_t i = p->deny_count; !p->deny_wins && i-- > 0;)
        if (net_rule_is_everything(&p->deny_out[i]))
            json_array_remove(all, i);
    return all;
}

json_t *network_view_policy(const struct net_policy *p)
{
    return json_pack("{s:s, s:o, s:o, s:b, s:o}", "mode", mode_of(p), "allow",
                     net_rules_to_json(p->allow_out, p->allow_count), "deny", deny_of(p),
                     "denyWins", p->deny_wins, "limits", net_limits_to_json(&p->limits));
}

// ---- what was counted

static bool read_stats(const struct sandbox *sb, enum machine_net which, struct net_stats *s)
{
    return sb->machine && machine_network(sb->machine, which, s, NULL) == 0;
}

static json_t *reasons_of(const struct net_stats *s)
{
    json_t *all = json_object();
    for (size_t i = 0; i < NET_STATS_REASONS; i++)
        if (s->reasons[i].count > 0)
            json_object_set_new(all, s->reasons[i].why,
                                json_integer((json_int_t)s->reasons[i].count));
    return all;
}

static json_t *counters_of(const struct net_stats *s)
{
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:o}", "receivedBytes",
                     (json_int_t)s->received_bytes, "receivedPackets",
                     (json_int_t)s->received_packets, "sentBytes", (json_int_t)s->sent_bytes,
                     "sentPackets", (json_int_t)s->sent_packets, "refused", (json_int_t)s->refused,
                     "refusedByReason", reasons_of(s));
}

static const char *address_text(const struct net_stats_refusal *r, char out[INET_ADDRSTRLEN])
{
    const struct in_addr in = {htonl(r->address)};
    return r->address ? inet_ntop(AF_INET, &in, out, INET_ADDRSTRLEN) : "";
}

static json_t *refusal_of(const struct net_stats_refusal *r)
{
    char at[CLOCK_RFC3339_BYTES], address[INET_ADDRSTRLEN];
    clock_rfc3339(at, r->at_ns);
    return json_pack("{s:I, s:I, s:s, s:s, s:s, s:i, s:s, s:s}", "sequence", (json_int_t)r->seq,
                     "count", (json_int_t)r->count, "timestamp", at, "protocol",
                     net_stats_proto(r->proto), "address", address_text(r, address), "port",
                     r->port, "name", r->name, "reason", r->why);
}

static json_t *refusals_of(const struct net_stats *s, int64_t since)
{
    json_t *all = json_array();
    for (size_t i = 0; i < NET_STATS_REFUSALS && s->refusals[i].seq > (uint64_t)since; i++)
        json_array_append_new(all, refusal_of(&s->refusals[i]));
    return all;
}

json_t *network_view(struct sandbox *sb, int64_t since)
{
    struct net_stats *s auto_free = xcalloc(1, sizeof *s);
    struct net_stats *more auto_free = xcalloc(1, sizeof *more);
    bool is_known = read_stats(sb, MACHINE_NET_POLICY, s);
    if (read_stats(sb, MACHINE_NET_SECRETS, more)) {
        net_stats_merge(s, more);
        is_known = true;
    }
    return json_pack("{s:o, s:o, s:I, s:o}", "policy", network_view_policy(&sb->policy), "counters",
                     is_known ? counters_of(s) : json_null(), "sequence", (json_int_t)s->refused,
                     "refusals", refusals_of(s, since));
}

// ---- the journal

// "tcp to 10.0.0.1 api.example.com port 443", or as much of it as there is.
static void add_target(struct buf *out, const struct net_stats_refusal *r)
{
    char address[INET_ADDRSTRLEN];
    bool is_placed = r->address || r->name[0];
    buf_adds(out, r->proto || is_placed ? net_stats_proto(r->proto) : "a frame");
    if (is_placed)
        buf_printf(out, " to %s%s%.80s", address_text(r, address),
                   r->address && r->name[0] ? " " : "", r->name);
    if (r->port)
        buf_printf(out, " port %d", r->port);
}

static void note(struct sandbox *sb, const struct net_stats_refusal *r)
{
    struct buf target auto_buf = BUF_INIT;
    add_target(&target, r);
    journal_add(&sb->journal, JOURNAL_WARN, "network: refused %s: %s (%lld)", buf_str(&target),
                r->why, (long long)r->count);
}

static void note_new(struct sandbox *sb, const struct net_stats *s, uint64_t *noted)
{
    if (s->refused < *noted) // a new machine's
        *noted = 0;
    for (size_t i = NET_STATS_REFUSALS; i-- > 0;)
        if (s->refusals[i].seq > *noted)
            note(sb, &s->refusals[i]);
    *noted = s->refused;
}

void network_view_note(struct sandbox *sb)
{
    struct net_stats *s auto_free = xcalloc(1, sizeof *s);
    for (enum machine_net which = 0; which < MACHINE_NETS; which++)
        if (read_stats(sb, which, s))
            note_new(sb, s, &sb->net_noted[which]);
}
