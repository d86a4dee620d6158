// SPDX-License-Identifier: Apache-2.0
// PUT /sandboxes/{id}/network replaces the whole network policy; members that are left out are
// cleared. GET shows the policy, what was counted and refused under it, and the hosts that were
// reached.
#include <stdlib.h>

#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/net_stats.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/daemon/api/api.h"
#include "sandbox-backend/daemon/api/body.h"
#include "sandbox-backend/daemon/http/reply.h"
#include "sandbox-backend/daemon/sandbox/network_change.h"
#include "sandbox-backend/daemon/sandbox/sandbox.h"
#include "sandbox-backend/daemon/sandbox/store.h"
#include "sandbox-backend/daemon/secrets/secrets.h"

// ---- PUT
struct pending_network {
    struct http_request *req; // NULL once the client has gone
};

static void on_changed(const struct err *e, void *ctx)
{
    struct pending_network *p = ctx;
    struct http_request *req = p->req;
    free(p);
    bool tells = e && (e->code == ERR_CONFLICT || e->code == ERR_UNIMPLEMENTED ||
                       e->code == ERR_PRECONDITION || e->code == ERR_GONE);
    if (req && e)
        reply_error(req, tells ? err_http_status(e->code) : 500, NULL,
                    "the network's rules could not be replaced: %s", e->msg);
    else if (req)
        reply_empty(req);
}

static bool is_same(const json_t *asked, const json_t *own)
{
    return own ? json_equal(asked, own) : !asked || json_is_null(asked);
}

// Return a member of the body. A body in Cubby's own form ("mode") keeps what it leaves out,
// because `cubby network` knows neither rules nor a proxy. E2B's form clears it.
static const json_t *member_or(const struct api_call *c, const char *name, const json_t *own)
{
    const json_t *asked = json_object_get(c->body, name);
    return !asked && json_object_get(c->body, "mode") ? own : asked;
}

// Set *out to the sandbox's secrets with the body's header rules and upstream proxy.
static int new_secrets(const struct api_call *c, json_t **out, struct err *e)
{
    const struct sandbox *sb = c->sb;
    json_t *now = network_change_secrets(sb);
    const json_t *rules = secrets_rules(now), *proxy = secrets_proxy(now);
    const struct secrets_wish wish = {.rules = member_or(c, "rules", rules),
                                      .proxy = member_or(c, "egressProxy", proxy),
                                      .owner = sb->owner};
    *out = NULL;
    bool same_rules = is_same(wish.rules, rules) || (!rules && body_is_empty(wish.rules));
    if (same_rules && is_same(wish.proxy, proxy) && !sb->network_unknown) {
        *out = json_incref(now);
        return 0;
    }
    if (driver_need(sb->facts.driver, DRIVER_SECRETS, e) < 0)
        return -1;
    return secrets_with_network(&c->store->secrets, now, &wish, out, e);
}

// Read the body into a policy and secrets, which are the caller's.
static int read_body(struct api_call *c, struct net_policy *policy, json_t **secrets, struct err *e)
{
    bool internet;
    if (json_get_bool(c->body, "allow_internet_access", &internet, true, e) < 0 ||
        body_network(c->body, "", internet, c->store->limits.private_network, policy, e) < 0)
        return -1;
    if (api_need_running(c, e) == 0 && new_secrets(c, secrets, e) == 0)
        return 0;
    net_policy_fini(policy);
    return -1;
}

int api_network(struct api_call *c, struct err *e)
{
    struct net_policy policy;
    json_t *secrets;
    if (!c->body)
        return err_set(e, ERR_INVALID,
                       "the body is missing: send the policy, such as {\"mode\": \"none\"}; "
                       "{} opens the whole public internet");
    if (driver_need(c->sb->facts.driver, DRIVER_POLICY, e) < 0 ||
        read_body(c, &policy, &secrets, e) < 0)
        return -1;
    struct pending_network *p = xcalloc(1, sizeof *p);
    if (network_change_start(c->sb, &policy, secrets, on_changed, p, e) < 0) {
        free(p);
        return -1;
    }
    reply_later(c->req, &p->req);
    return 0;
}

// ---- GET: the policy

static const char *mode_of(const struct net_policy *p)
{
    if (net_policy_is_closed(p))
        return "none";
    return net_policy_denies_rest(p) ? "allow" : "public";
}

// Return the deny list without the entry that means "all the rest" in E2B's form.
static json_t *deny_of(const struct net_policy *p)
{
    json_t *all = net_rules_to_json(p->deny_out, p->deny_count);
    for (size_t i = p->deny_count; !p->deny_wins && i-- > 0;)
        if (net_rule_is_everything(&p->deny_out[i]))
            json_array_remove(all, i);
    return all;
}

static json_t *policy_of(const struct net_policy *p)
{
    return json_pack("{s:s, s:o, s:o, s:b, s:o}", "mode", mode_of(p), "allow",
                     net_rules_to_json(p->allow_out, p->allow_count), "deny", deny_of(p),
                     "denyWins", p->deny_wins, "limits", net_limits_to_json(&p->limits));
}

// ---- GET: what was counted

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
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:o}", "receivedBytes",
                     (json_int_t)s->received_bytes, "receivedPackets",
                     (json_int_t)s->received_packets, "sentBytes", (json_int_t)s->sent_bytes,
                     "sentPackets", (json_int_t)s->sent_packets, "allowed", (json_int_t)s->allowed,
                     "refused", (json_int_t)s->refused, "refusedByReason", reasons_of(s));
}

// `reason` is NULL for connections that were allowed.
static json_t *contact_of(const struct net_stats_contact *r, const char *reason)
{
    char at[CLOCK_RFC3339_BYTES], address[INET_ADDRSTRLEN];
    clock_rfc3339(at, r->at_ns);
    return json_pack("{s:I, s:I, s:s, s:s, s:s, s:i, s:s, s:s*}", "sequence", (json_int_t)r->seq,
                     "count", (json_int_t)r->count, "timestamp", at, "protocol",
                     net_stats_proto(r->proto), "address", net_stats_address(r, address), "port",
                     r->port, "name", r->name, "reason", reason);
}

static json_t *refusals_of(const struct net_stats *s, int64_t since)
{
    json_t *all = json_array();
    for (size_t i = 0; i < NET_STATS_REFUSALS && s->refusals[i].seq > (uint64_t)since; i++)
        json_array_append_new(all, contact_of(&s->refusals[i], s->refusals[i].why));
    return all;
}

static json_t *reached_of(const struct net_stats *s)
{
    json_t *all = json_array();
    for (size_t i = 0; i < NET_STATS_ALLOWED && s->reached[i].seq > 0; i++)
        json_array_append_new(all, contact_of(&s->reached[i], NULL));
    return all;
}

static json_t *network_of(struct sandbox *sb, int64_t since)
{
    struct net_stats *s auto_free = xcalloc(1, sizeof *s);
    struct net_stats *more auto_free = xcalloc(1, sizeof *more);
    bool is_known = read_stats(sb, MACHINE_NET_POLICY, s);
    if (read_stats(sb, MACHINE_NET_SECRETS, more)) {
        net_stats_merge(s, more);
        is_known = true;
    }
    return json_pack("{s:o, s:o, s:I, s:o, s:o}", "policy", policy_of(&sb->policy), "counters",
                     is_known ? counters_of(s) : json_null(), "sequence", (json_int_t)s->refused,
                     "refusals", refusals_of(s, since), "allowed", reached_of(s));
}

int api_network_get(struct api_call *c, struct err *e)
{
    const char *since = http_request_query(c->req, "since", NULL);
    int64_t number = 0;
    if (since && !str_to_int(since, 0, INT64_MAX, &number))
        return err_set(e, ERR_INVALID, "since must be the number of a refusal (\"sequence\")");
    reply_json(c->req, 200, network_of(c->sb, number));
    return 0;
}
