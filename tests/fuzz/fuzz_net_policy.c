// SPDX-License-Identifier: Apache-2.0
// A policy as whoever creates a sandbox says it, against its promises: what is taken is written and
// read again as the same; without `special` nothing that is special is open, whatever the lists
// say.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/json.h"
#include "sandbox-backend/netd/policy.h"

#define IP(a, b, c, d) \
    ((uint32_t)(a) << 24 | (uint32_t)(b) << 16 | (uint32_t)(c) << 8 | (uint32_t)(d))
#define TCP 6
#define UDP 17

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const uint32_t SPECIAL[] = {
    IP(127, 0, 0, 1),       IP(10, 1, 2, 3),     IP(192, 168, 0, 1),
    IP(169, 254, 169, 254), IP(172, 31, 255, 1), IP(100, 64, 0, 1),
    IP(0, 0, 0, 0),         IP(224, 0, 0, 1),    IP(255, 255, 255, 255)};
static const uint32_t HOST = IP(8, 8, 4, 1);

static void require(bool promise)
{
    if (!promise)
        abort();
}

static void check_written(const struct net_policy *p)
{
    struct err e = ERR_INIT;
    struct net_policy again, copy;
    json_t *json = net_policy_to_json(p);
    require(net_policy_from_json(&again, json, &e) == 0);
    json_t *twice = net_policy_to_json(&again);
    require(json_equal(json, twice));
    net_policy_copy(&copy, p);
    json_t *copied = net_policy_to_json(&copy);
    require(json_equal(json, copied));
    net_policy_fini(&again);
    net_policy_fini(&copy);
    json_decref(json);
    json_decref(twice);
    json_decref(copied);
}

static void check_answers(const struct net_policy *rules)
{
    struct policy p;
    struct cidr *host = malloc(sizeof *host);
    struct endpoint to = {.port = 443};
    policy_init(&p, rules);
    to.address = IP(9, 9, 9, 9);
    to.proto = TCP;
    require(policy_denies(&p, &to)); // before the host's own addresses are known
    *host = (struct cidr){HOST, 32};
    policy_set_host(&p, host, 1);
    for (size_t i = 0; i < sizeof SPECIAL / sizeof *SPECIAL && !rules->special; i++) {
        to.address = SPECIAL[i];
        for (int k = 0; k < 4; k++) {
            to.proto = k & 1 ? TCP : UDP;
            to.port = k & 2 ? 80 : 53;
            require(policy_denies(&p, &to));
        }
    }
    to.address = HOST;
    require(rules->special || policy_denies(&p, &to));
    to.address = IP(9, 9, 9, 9);
    require(!net_policy_is_closed(rules) || policy_denies(&p, &to));
    // What asks for a name is open by one that was resolved, and none was.
    require(policy_denies(&p, &to) || !policy_asks_name(&p, &to));
    policy_set_rules(&p, rules);
    policy_fini(&p);
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
    }
    json_decref(json);
    return 0;
}
