// SPDX-License-Identifier: Apache-2.0
// The policy, which decides what a guest may connect to. It consists of the owner's rules
// (base/net_policy.h), the addresses of allowed names, and this host's own addresses.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sandbox-backend/base/net_policy.h"

// ---- addresses that netd resolved for allowed names
//
// An address is open for its record's time to live, and at least NAMES_LEAST_MS, because programs
// keep an answer a little longer than that. Each packet to or from it keeps it open for
// NAMES_USED_MS, so that a download longer than the record's life is not cut. In a full table the
// address that would close first makes room.

#define NAMES_MAX      512
#define NAMES_LEAST_MS (60 * 1000)
#define NAMES_MOST_MS  (24 * 3600 * 1000)
#define NAMES_USED_MS  (5 * 60 * 1000)

struct named_address {
    uint32_t address; // host order
    int64_t until_ms; // monotonic
    char *name;       // owned, lower case: the name that was resolved
};

struct names {
    struct named_address items[NAMES_MAX];
    size_t count;
};

void names_fini(struct names *n);
void names_add(struct names *n, const char *name, uint32_t address, uint32_t ttl_s, int64_t now_ms);
// Return whether `to` was resolved for a name that the rules allow there, and keep it open.
bool names_hold(struct names *n, const struct net_policy *rules, const struct endpoint *to,
                int64_t now_ms);
// Return the name whose entry for this address closes last, or NULL. Borrowed.
const char *names_find(const struct names *n, uint32_t address);
// Return whether this address was resolved for this name.
bool names_know(const struct names *n, const char *name, uint32_t address, int64_t now_ms);

// ---- how a name is written

struct server_name {
    char text[NET_NAME_MAX + 1]; // lower case, without the root's dot; "" for none
};

// Set a name of letters, digits, hyphens and underscores between dots; a final dot is removed. An
// IPv4 address has that form too, but no rule for names matches one. False for anything else.
bool server_name_set(struct server_name *n, const void *bytes, size_t len);

struct cidr {
    uint32_t address; // host order
    uint8_t bits;
};

// On a host with more local prefixes than this, guests get no outward network at all, because netd
// could not refuse a prefix that is not on its list.
#define POLICY_HOST_MAX 4096

// How DNS questions of the guest are answered.
enum policy_dns {
    POLICY_DNS_OFF,   // by netd (resolver.h): no name exists
    POLICY_DNS_NAMED, // by netd, for the names that the rules allow
    POLICY_DNS_FREE,  // by the host's resolver, for any name
};

struct policy {
    struct net_policy rules; // owned
    enum policy_dns dns;     // derived from the rules
    struct names names;      // addresses that netd resolved for allowed names
    struct cidr *host;       // owned; addresses that the kernel would deliver to this host
    size_t host_count;
    bool host_known; // false until the list was read; until then nothing is allowed
};

void policy_init(struct policy *p, const struct net_policy *rules); // copied
void policy_fini(struct policy *p);

// Replace the rules (copied). Addresses of names that are still allowed stay open.
void policy_set_rules(struct policy *p, const struct net_policy *rules);

// Replace the host's own addresses. Takes over `list` (malloc'd, may be NULL when count is 0).
void policy_set_host(struct policy *p, struct cidr *list, size_t count);

// Return NULL when a guest may send to `to` and receive from it; else the reason, in a few words
// for the log. If the address was resolved for a name, this call keeps it open.
const char *policy_denies(struct policy *p, const struct endpoint *to);

// Return whether a connection to `to` must show a name: the address is open only because one of its
// names is allowed, and the rules do not allow every name there. TCP only.
bool policy_asks_name(struct policy *p, const struct endpoint *to);

// If policy_asks_name is true for `to`: return NULL when `name` (lower case, without the root's
// dot) is allowed there, which means that a rule allows it at this port and netd resolved this
// address for it. Else return the reason.
const char *policy_denies_name(struct policy *p, const struct endpoint *to, const char *name);

// If policy_asks_name is true for `to`: return NULL when a connection that shows no name may go
// there, else the reason. A rule must give this port with a name that was resolved to it
// ("github.com:22"), and the port must not be 80 or 443.
const char *policy_denies_nameless(struct policy *p, const struct endpoint *to);

// Return NULL when the guest may resolve `name`; else the reason.
const char *policy_denies_question(const struct policy *p, const char *name);

// Return NULL when an allowed name may open this address; else the reason.
const char *policy_denies_answer(const struct policy *p, uint32_t address);
