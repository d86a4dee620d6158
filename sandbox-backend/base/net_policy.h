// SPDX-License-Identifier: Apache-2.0
// What a guest may open to the outside, as the owner of a sandbox says it: lists of addresses,
// networks and names (net_rule.h), and how much. The daemon checks it, the driver hands it on, netd
// obeys it.
//
// The rules, in this order:
//   1. What is special (special_address.h) is denied, unless `special` and an entry of allow_out
//      lies inside that special network. This host's own addresses need an entry of their own
//      (/32).
//   2. With `deny_wins`, what deny_out holds is denied: an address, or a name.
//   3. What allow_out holds is allowed: by address, or because netd resolved a name of it.
//   4. What deny_out holds is denied.
//   5. The rest is allowed when `internet`.
// Without `deny_wins` these are E2B's rules.
//
// Where 4 and 5 deny everything, names are resolved only when allow_out has them.
//
// Its owner says it in one of two ways. By mode, where denying always wins:
//   {"mode": "none"}    nothing
//   {"mode": "public", "deny": [...]}    everything public but that; "allow" may add special
//       addresses, where the server permits that
//   {"mode": "allow", "allow": ["example.com", "*.example.org", "tcp://10.0.0.0/8:5432"],
//    "deny": ["bad.example.org"]}    only that
// or by E2B's lists, which are also how it is stored:
//   {"internet": true, "allowOut": ["1.1.1.1", "*.example.org", "*"], "denyOut": ["0.0.0.0/0"],
//    "denyWins": false}
// Either with "special": false and "limits": {"connections": 100} (net_limits.h). Each member may
// be missing; `internet` is then true.
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sandbox-backend/base/err.h"
#include "sandbox-backend/base/net_limits.h"
#include "sandbox-backend/base/net_rule.h"

#define NET_POLICY_RULES_MAX 256          // entries of each list
#define NET_POLICY_TEXT_MAX  (256 * 1024) // of a policy as JSON text

struct net_policy {
    bool internet;
    bool special;   // the daemon was started so that allow_out may name special addresses
    bool deny_wins; // over allow_out
    struct net_rule *allow_out; // owned
    struct net_rule *deny_out;  // owned; names only with deny_wins
    size_t allow_count, deny_count;
    struct net_limits limits;
};

// Everything public: `internet`, no lists. A zeroed one is no network at all.
#define NET_POLICY_PUBLIC ((struct net_policy){.internet = true})

void net_policy_fini(struct net_policy *p); // leaves it zeroed
void net_policy_copy(struct net_policy *to, const struct net_policy *from);

// Checks and takes the JSON form. ERR_INVALID names the entry and says what to do: an entry that
// cannot be read; a name in deny_out where it does not win or the rest is open; a name in allow_out
// while not everything else is denied (E2B's rule); IPv6 in allow_out (there is none; in deny_out
// it is taken and means nothing more); a special address in allow_out without `special`; a limit
// that is no number or out of its range. Then `p` is zeroed.
int net_policy_from_json(struct net_policy *p, const json_t *json, struct err *e);

// ERR_INVALID for a name that stands for too many: "*.com", and "*" unless `takes_all`. Stored
// policies may have such, as they could once be said.
int net_policy_check_names(const struct net_policy *p, bool takes_all, struct err *e);

// What net_policy_from_json takes, as lists. New reference.
json_t *net_policy_to_json(const struct net_policy *p);
json_t *net_rules_to_json(const struct net_rule *rules, size_t count); // one list of it

// No packet of the guest's leaves under this policy: the network may as well be off.
bool net_policy_is_closed(const struct net_policy *p);
// All that allow_out does not hold is denied.
bool net_policy_denies_rest(const struct net_policy *p);
bool net_policy_has_names(const struct net_policy *p); // to be allowed
bool net_policy_denies_names(const struct net_policy *p);
// Whether the lists let `name` (lower case) be reached over this protocol and port (the address is
// not looked at); with NULL, over any.
bool net_policy_names(const struct net_policy *p, const char *name, const struct endpoint *to);
// The same, by an entry that gives the port.
bool net_policy_names_port(const struct net_policy *p, const char *name, const struct endpoint *to);
// Whether every name may be reached there.
bool net_policy_names_all(const struct net_policy *p, const struct endpoint *to);
