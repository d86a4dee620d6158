// SPDX-License-Identifier: Apache-2.0
// Fuzz network policies, as the creator of a sandbox gives them. A policy that is accepted stays
// the same when it is written and read again. netd's decisions equal those of a second, plain
// implementation of the rules that net_policy.h numbers.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/net_rule.h"
#include "sandbox-backend/netd/policy/policy.h"

#define IP(a, b, c, d) \
    ((uint32_t)(a) << 24 | (uint32_t)(b) << 16 | (uint32_t)(c) << 8 | (uint32_t)(d))
#define LOOKED_AT 8 // entries of each list that are tried

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const uint32_t PLACES[] = {
    IP(127, 0, 0, 1),       IP(10, 1, 2, 3),      IP(192, 168, 0, 1), IP(169, 254, 169, 254),
    IP(172, 31, 255, 1),    IP(100, 64, 0, 1),    IP(0, 0, 0, 0),     IP(224, 0, 0, 1),
    IP(255, 255, 255, 255), IP(168, 63, 129, 16), IP(8, 8, 8, 8),     IP(1, 1, 1, 1)};
static const uint32_t HOST = IP(8, 8, 4, 1);
static const uint32_t NAMED = IP(9, 9, 9, 9); // what every name stands for here

static void require(bool promise)
{
    if (!promise)
        abort();
}

// ---- written and read

static void check_same_lists(const struct net_rule *a, const struct net_rule *b, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        require(!a[i].name == !b[i].name);
        require(!a[i].name || strcmp(a[i].name, b[i].name) == 0);
        require(a[i].address == b[i].address && a[i].bits == b[i].bits);
        require(a[i].proto == b[i].proto && a[i].first_port == b[i].first_port &&
                a[i].last_port == b[i].last_port);
    }
}

static void check_same(const struct net_policy *a, const struct net_policy *b)
{
    require(a->internet == b->internet && a->special == b->special && a->deny_wins == b->deny_wins);
    require(a->allow_count == b->allow_count && a->deny_count == b->deny_count);
    check_same_lists(a->allow_out, b->allow_out, a->allow_count);
    check_same_lists(a->deny_out, b->deny_out, a->deny_count);
    require(memcmp(&a->limits, &b->limits, sizeof a->limits) == 0);
}

static void check_written(const struct net_policy *p)
{
    struct err e = ERR_INIT;
    struct net_policy again, copy;
    json_t *json = net_policy_to_json(p);
    require(net_policy_from_json(&again, json, &e) == 0);
    net_policy_copy(&copy, p);
    check_same(p, &again);
    check_same(p, &copy);
    net_policy_fini(&again);
    net_policy_fini(&copy);
    json_decref(json);
}

// ---- the rules once more

static bool has_address(const struct net_rule *r, uint32_t address)
{
    return !r->name && (r->bits == 0 || (address ^ r->address) >> (32 - r->bits) == 0);
}

static bool carries(const struct net_rule *r, const struct endpoint *to)
{
    bool is_proto = r->proto == NET_PROTO_ANY || r->proto == to->proto;
    return is_proto && (!r->last_port || (to->port >= r->first_port && to->port <= r->last_port));
}

static bool lists(const struct net_rule *rules, size_t count, const struct endpoint *to)
{
    for (size_t i = 0; i < count; i++)
        if (has_address(&rules[i], to->address) && carries(&rules[i], to))
            return true;
    return false;
}

// 1: what is special, and the host, by an entry for that very place.
static bool is_out_of_reach(const struct net_policy *p, const struct endpoint *to)
{
    bool is_host = to->address == HOST, opens_special = false, opens_host = false;
    for (size_t i = 0; p->special && i < p->allow_count; i++) {
        const struct net_rule *r = &p->allow_out[i];
        if (!has_address(r, to->address) || !carries(r, to))
            continue;
        opens_special |= special_network(r->address, r->bits) != NULL;
        opens_host |= r->bits == 32;
    }
    return (special_address(to->address) && !opens_special) || (is_host && !opens_host);
}

static bool has_name(const struct net_rule *r, const char *name)
{
    if (!r->name || r->name[0] != '*')
        return r->name && strcmp(r->name, name) == 0;
    size_t tail = strlen(r->name) - 1;
    return strlen(name) > tail && strcmp(name + strlen(name) - tail, r->name + 1) == 0;
}

static bool opens_by_name(const struct net_policy *p, const struct endpoint *to, const char *name)
{
    bool is_open = false;
    for (size_t i = 0; i < p->allow_count; i++) {
        const struct net_rule *r = &p->allow_out[i];
        bool has_proto = to->proto == NET_PROTO_TCP || r->proto != NET_PROTO_ANY;
        is_open |= has_name(r, name) && has_proto && carries(r, to);
    }
    for (size_t i = 0; i < p->deny_count; i++)
        is_open &= !has_name(&p->deny_out[i], name) || !carries(&p->deny_out[i], to);
    return is_open;
}

// `name` is what was resolved to NAMED; NULL for nothing.
static bool is_open(const struct net_policy *p, const struct endpoint *to, const char *name)
{
    bool is_denied = lists(p->deny_out, p->deny_count, to);
    if (is_out_of_reach(p, to) || (p->deny_wins && is_denied)) // 1, 2
        return false;
    if (lists(p->allow_out, p->allow_count, to)) // 3
        return true;
    if (name && to->address == NAMED && opens_by_name(p, to, name))
        return true;
    return !is_denied && p->internet; // 4, 5
}

// ---- netd's answers

static void check_endpoint(struct policy *p, uint32_t address, uint16_t port, const char *name)
{
    static const uint8_t PROTOS[] = {NET_PROTO_TCP, NET_PROTO_UDP, 1};
    for (size_t i = 0; i < sizeof PROTOS; i++) {
        const struct endpoint to = {address, port, PROTOS[i]};
        bool is_allowed = !policy_denies(p, &to);
        require(is_allowed == is_open(&p->rules, &to, name));
        require(!is_allowed || !net_policy_is_closed(&p->rules));
        if (!policy_asks_name(p, &to))
            continue;
        // Open by a name at most, so only to who shows it.
        require(to.proto == NET_PROTO_TCP && !lists(p->rules.allow_out, p->rules.allow_count, &to));
        require(policy_denies_name(p, &to, "nobody.invalid"));
        require(!name || !is_allowed || !policy_denies_name(p, &to, name));
        require(is_allowed || policy_denies_nameless(p, &to));
        bool is_web = port == 80 || port == 443;
        require(!is_web || policy_denies_nameless(p, &to));
    }
}

static void check_around(struct policy *p, const struct net_rule *r, const char *name)
{
    uint32_t last = r->address | (r->bits == 32 ? 0 : UINT32_MAX >> r->bits);
    const uint32_t addresses[] = {r->address, last, r->address - 1, last + 1, NAMED, HOST};
    const uint16_t ports[] = {r->first_port, r->last_port, (uint16_t)(r->first_port - 1),
                              (uint16_t)(r->last_port + 1), 80};
    for (size_t a = 0; a < sizeof addresses / sizeof *addresses; a++)
        for (size_t i = 0; i < sizeof ports / sizeof *ports; i++)
            check_endpoint(p, addresses[a], ports[i], name);
}

static void check_all(struct policy *p, const char *name)
{
    for (size_t i = 0; i < sizeof PLACES / sizeof *PLACES; i++)
        check_endpoint(p, PLACES[i], i % 2 ? 53 : 80, name);
    check_around(p, &(struct net_rule){.address = HOST, .bits = 32}, name);
    for (size_t i = 0; i < p->rules.allow_count && i < LOOKED_AT; i++)
        check_around(p, &p->rules.allow_out[i], name);
    for (size_t i = 0; i < p->rules.deny_count && i < LOOKED_AT; i++)
        check_around(p, &p->rules.deny_out[i], name);
}

// A name that the entry is about, resolved as netd would have it: only if the rules let it be
// asked.
static void check_name(const struct net_policy *rules, const struct net_rule *r)
{
    char name[NET_NAME_MAX + 16];
    struct policy p;
    struct cidr *host = malloc(sizeof *host);
    require(host && strlen(r->name) <= NET_NAME_MAX);
    snprintf(name, sizeof name, "%s%s", r->name[0] == '*' ? "x" : r->name,
             r->name[0] != '*' ? ""
             : r->name[1]      ? r->name + 1
                               : ".example");
    policy_init(&p, rules);
    *host = (struct cidr){HOST, 32};
    policy_set_host(&p, host, 1);
    bool is_asked = net_policy_names(rules, name, NULL);
    if (is_asked)
        names_add(&p.names, name, NAMED, 60, clock_mono_ms());
    check_all(&p, is_asked ? name : NULL);
    policy_set_rules(&p, rules);
    require(p.names.count == is_asked);
    policy_set_rules(&p, &(struct net_policy){0});
    require(p.names.count == 0 && policy_denies(&p, &(struct endpoint){NAMED, 443, NET_PROTO_TCP}));
    policy_fini(&p);
}

static bool takes_everybody(const struct net_policy *rules)
{
    for (size_t i = 0; i < rules->allow_count; i++)
        if (net_rule_has_name(&rules->allow_out[i], "nobody.invalid"))
            return true;
    return false;
}

static void check_answers(const struct net_policy *rules)
{
    struct policy p;
    struct cidr *host = malloc(sizeof *host);
    require(host != NULL);
    policy_init(&p, rules);
    require(policy_denies(&p, &(struct endpoint){NAMED, 443, NET_PROTO_TCP}) !=
            NULL); // host unknown
    *host = (struct cidr){HOST, 32};
    policy_set_host(&p, host, 1);
    check_all(&p, NULL);
    policy_fini(&p);
    for (size_t i = 0; i < rules->allow_count && i < LOOKED_AT && !takes_everybody(rules); i++)
        if (rules->allow_out[i].name)
            check_name(rules, &rules->allow_out[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    json_error_t at;
    struct err e = ERR_INIT;
    struct net_policy p;
    json_t *json = json_loadb((const char *)data, size, JSON_REJECT_DUPLICATES, &at);
    if (!json)
        return 0;
    if (net_policy_from_json(&p, json, &e) == 0) {
        check_written(&p);
        check_answers(&p);
        net_policy_fini(&p);
    } else {
        require(err_is(&e) && strlen(e.msg) > 0);
        require(!p.allow_out && !p.deny_out);
    }
    json_decref(json);
    return 0;
}
