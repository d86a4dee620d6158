// SPDX-License-Identifier: Apache-2.0
// The network policy of a sandbox: what its guest may connect to, as lists of addresses, networks
// and names (net_rule.h), and how much. The daemon checks a policy, the driver passes it on, netd
// applies it.
//
// The rules, in this order:
//   1. Special addresses (net_rule.h) are denied, unless `special` is set and an entry of
//      allow_out lies inside that special network. This host's own addresses need an entry of their
//      own (/32).
//   2. With `deny_wins`, an address or name in deny_out is denied.
//   3. What allow_out holds is allowed: by address, or because netd resolved a name of it.
//   4. What deny_out holds is denied.
//   5. The rest is allowed if `internet` is set.
// Without `deny_wins` these are E2B's rules. Where 4 and 5 deny everything, netd resolves only
// names in allow_out.
//
// A sandbox's owner gives the policy in one of two forms. By mode, where denying always wins:
//   {"mode": "none"}    nothing
//   {"mode": "public", "deny": [...]}    everything public except "deny"; "allow" may add special
//       addresses, where the server permits that
//   {"mode": "allow", "allow": ["example.com", "*.example.org", "tcp://10.0.0.0/8:5432"],
//    "deny": ["bad.example.org"]}    only "allow"
// or by E2B's lists, which are also the stored form:
//   {"internet": true, "allowOut": ["1.1.1.1", "*.example.org", "*"], "denyOut": ["0.0.0.0/0"],
//    "denyWins": false}
// Either form may have "special": false and "limits": {"connections": 100}. Each member may be
// missing; `internet` is then true.
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sandbox-backend/base/err.h"
#include "sandbox-backend/base/net_rule.h"

#define NET_POLICY_RULES_MAX 256          // entries of each list
#define NET_POLICY_TEXT_MAX  (256 * 1024) // of a policy as JSON text

// ---- limits

#define NET_CONNECTIONS_MAX   512 // open TCP connections to the outside; also UDP source ports
#define NET_NEW_PER_S_MAX     5000
#define NET_NEW_PER_S         256 // the default
#define NET_BYTES_PER_S_LEAST 1000
#define NET_BYTES_PER_S_MAX   (INT64_C(1) << 40)

// 0 means the default: NET_CONNECTIONS_MAX, NET_NEW_PER_S, no limit of bytes.
struct net_limits {
    int64_t connections;         // "connections": open TCP connections
    int64_t connections_per_s;   // "connectionsPerSecond": new ones; a burst may have twice as many
    int64_t udp_ports;           // "udpPorts": source ports in use
    int64_t udp_ports_per_s;     // "udpPortsPerSecond": new ones; a burst may have twice as many
    int64_t receive_bytes_per_s; // "receiveBytesPerSecond": to the guest
    int64_t send_bytes_per_s;    // "sendBytesPerSecond": from the guest
};

// Parse {"connections": 100, ...}; NULL and null give the defaults. ERR_INVALID for an unknown
// member and for a number out of its range.
int net_limits_from_json(struct net_limits *limits, const json_t *json, struct err *e);
json_t *net_limits_to_json(const struct net_limits *limits); // members that are set. New reference

// ---- policy

struct net_policy {
    bool internet;
    bool special;               // the daemon permits special addresses in allow_out
    bool deny_wins;             // over allow_out
    struct net_rule *allow_out; // owned
    struct net_rule *deny_out;  // owned; names only with deny_wins
    size_t allow_count, deny_count;
    struct net_limits limits;
};

// Everything public is allowed: `internet`, no lists. A zeroed policy allows nothing.
#define NET_POLICY_PUBLIC ((struct net_policy){.internet = true})

void net_policy_fini(struct net_policy *p); // leaves it zeroed
void net_policy_copy(struct net_policy *to, const struct net_policy *from);

// Check and take the JSON form. On ERR_INVALID, `p` is zeroed and the message names the entry and
// says what to do. Refused are:
//   an entry that cannot be parsed;
//   a name in deny_out if deny does not win or the rest is allowed;
//   a name in allow_out while not everything else is denied (E2B's rule);
//   IPv6 in allow_out, since guests have none (in deny_out it is accepted and has no effect);
//   a special address in allow_out without `special`;
//   a limit that is not a number or is out of its range.
int net_policy_from_json(struct net_policy *p, const json_t *json, struct err *e);

// ERR_INVALID for a name pattern that covers too much: "*.com", and "*" unless `takes_all`. Stored
// policies may hold such names, since earlier versions accepted them.
int net_policy_check_names(const struct net_policy *p, bool takes_all, struct err *e);

// Return the stored form, which net_policy_from_json takes. New reference.
json_t *net_policy_to_json(const struct net_policy *p);
json_t *net_rules_to_json(const struct net_rule *rules, size_t count); // one list of it

// Return true if the policy denies every packet of the guest.
bool net_policy_is_closed(const struct net_policy *p);
// Return true if everything outside allow_out is denied.
bool net_policy_denies_rest(const struct net_policy *p);
bool net_policy_has_names(const struct net_policy *p); // in allow_out
// Return true if `p` certainly allows nothing that `of` does not allow. Lists are compared entry by
// entry, so the answer can be false for a policy that is in fact narrower.
bool net_policy_is_within(const struct net_policy *p, const struct net_policy *of);
bool net_policy_denies_names(const struct net_policy *p);
// Return true if the lists allow `name` (lower case) for the protocol and port of `to`, whose
// address is not considered; with NULL, for any protocol and port.
bool net_policy_names(const struct net_policy *p, const char *name, const struct endpoint *to);
// The same, but only by an entry that has a port.
bool net_policy_names_port(const struct net_policy *p, const char *name, const struct endpoint *to);
// Return true if every name is allowed for the protocol and port of `to`.
bool net_policy_names_all(const struct net_policy *p, const struct endpoint *to);
