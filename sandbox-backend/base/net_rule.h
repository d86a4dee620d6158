// SPDX-License-Identifier: Apache-2.0
// A rule: one entry of a network policy's lists. It has an address, a network or a name, and
// optionally a protocol and ports. The special addresses, which only a rule opens, are at the end.
//
//     [tcp:// | udp://] HOST [:PORT | :FIRST-LAST]
//
// HOST is an IPv4 address (1.1.1.1), a network (10.0.0.0/8), a name (example.com), the subdomains
// of a name (*.example.com, at any depth, without example.com itself) or "*", every name. Without
// ports a rule covers all ports. Without a protocol an address covers TCP and UDP, and a name TCP
// only: UDP traffic (QUIC) to a name's address does not show which name was meant.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NET_NAME_MAX      253 // RFC 1035, without the root's dot
#define NET_RULE_TEXT_MAX 300 // "udp://", a name, ":60000-65535"

#define NET_PROTO_ANY 0
#define NET_PROTO_TCP 6 // as in an IPv4 header
#define NET_PROTO_UDP 17

// The destination or source of a packet.
struct endpoint {
    uint32_t address; // host order
    uint16_t port;    // 0: no port
    uint8_t proto;    // as in an IPv4 header
};

struct net_rule {
    char *name; // owned, lower case, "example.com", "*.example.com" or "*"; NULL for addresses
    uint32_t address;               // host order, no bits set beyond `bits`
    uint8_t bits;                   // 0 to 32
    uint8_t proto;                  // NET_PROTO_*
    uint16_t first_port, last_port; // both 0: every port
};

enum net_rule_kind {
    NET_RULE_ADDRESS,
    NET_RULE_NAME,
    NET_RULE_IPV6, // not parsed further: guests have no IPv6
    NET_RULE_BAD,
};

// Parse a rule. `r` is set for the first two kinds; net_rule_fini then frees its name.
enum net_rule_kind net_rule_parse(struct net_rule *r, const char *text);
void net_rule_fini(struct net_rule *r);

// Write the text of a rule, which net_rule_parse takes. An address has its "/32".
void net_rule_text(const struct net_rule *r, char out[NET_RULE_TEXT_MAX]);

// Return true if the rule covers the protocol and port of `to`.
bool net_rule_carries(const struct net_rule *r, const struct endpoint *to);
// Return true if a rule for addresses covers `address`, or a rule for names covers `name` (lower
// case), for any protocol and port. A rule for the other kind covers nothing.
bool net_rule_has_address(const struct net_rule *r, uint32_t address);
bool net_rule_has_name(const struct net_rule *r, const char *name);
bool net_rule_is_everything(const struct net_rule *r); // 0.0.0.0/0, every protocol and port
// Return true if a rule for addresses covers the address, protocol and port of `to`.
bool net_rule_holds(const struct net_rule *r, const struct endpoint *to);

// ---- special addresses
// IPv4 addresses that are not part of the public internet. One list serves network policies and
// downloads.

// Return why an address (host byte order) is not public, in two or three words such as "private";
// NULL if it is public.
const char *special_address(uint32_t address);
// The same for a network: return why all of address/bits lies inside one special network. NULL if a
// part of it is public or in another special network.
const char *special_network(uint32_t address, int bits);
