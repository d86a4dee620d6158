// SPDX-License-Identifier: Apache-2.0
// What a guest may open to the outside, as the owner of a sandbox says it: lists of addresses,
// networks and names. The daemon checks it, the driver hands it on, netd obeys it.
//
// The rules, in this order:
//   1. What is special (special_address.h) is denied, unless `special` and an entry of allow_out
//      lies inside that special network. This host's own addresses need an entry of their own
//      (/32).
//   2. What allow_out holds is allowed: by address, or because netd resolved a name of it.
//   3. What deny_out holds is denied.
//   4. The rest is allowed when `internet`.
//
// Where 3 and 4 deny everything, names are resolved only when allow_out has them.
//
// As JSON: {"internet": true, "allowOut": ["1.1.1.1", "10.0.0.0/8", "example.com",
// "*.example.org", "*"], "denyOut": ["0.0.0.0/0"], "special": false}; each member may be missing,
// `internet` is then true.
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sandbox-backend/base/err.h"

#define NET_POLICY_RULES_MAX 256          // entries of each list
#define NET_POLICY_TEXT_MAX  (256 * 1024) // of a policy as JSON text
#define NET_NAME_MAX         253          // RFC 1035, without the root's dot

struct net_rule {
    char *name; // owned, lower case, "example.com", "*.example.com" or "*"; NULL for addresses
    uint32_t address; // host order, no bits set beyond `bits`
    uint8_t bits;     // 0 to 32
};

struct net_policy {
    bool internet;
    bool special; // the daemon was started so that allow_out may name special addresses
    struct net_rule *allow_out; // owned
    struct net_rule *deny_out;  // owned; addresses only
    size_t allow_count, deny_count;
};

// Everything public: `internet`, no lists. A zeroed one is no network at all.
#define NET_POLICY_PUBLIC ((struct net_policy){.internet = true})

void net_policy_fini(struct net_policy *p); // leaves it zeroed
void net_policy_copy(struct net_policy *to, const struct net_policy *from);

// Checks and takes the JSON form. ERR_INVALID names the entry and says what to do: an entry that is
// no address, network or name; a name in deny_out; a name in allow_out while not everything else is
// denied (E2B's rule); IPv6 in allow_out (there is none; in deny_out it is taken and means
// nothing more); a special address in allow_out without `special`. Then `p` is zeroed.
int net_policy_from_json(struct net_policy *p, const json_t *json, struct err *e);

// What net_policy_from_json takes. New reference.
json_t *net_policy_to_json(const struct net_policy *p);

// No packet of the guest's leaves under this policy: the network may as well be off.
bool net_policy_is_closed(const struct net_policy *p);
// All that allow_out does not hold is denied.
bool net_policy_denies_rest(const struct net_policy *p);
bool net_policy_has_names(const struct net_policy *p);
// Whether allow_out has a name for `name` (lower case): itself, or a "*." before its end.
bool net_policy_names(const struct net_policy *p, const char *name);

bool net_rule_holds(const struct net_rule *r, uint32_t address);
