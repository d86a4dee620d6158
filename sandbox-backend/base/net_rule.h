// SPDX-License-Identifier: Apache-2.0
// One entry of a network policy's lists: an address, a network or a name, and perhaps a protocol
// and ports.
//
//     [tcp:// | udp://] HOST [:PORT | :FIRST-LAST]
//
// HOST is an IPv4 address (1.1.1.1), a network (10.0.0.0/8), a name (example.com), a name's
// subdomains (*.example.com, at any depth, without example.com itself) or "*", every name. Without
// ports it means all of them. Without a protocol an address means TCP and UDP, and a name TCP only:
// what is sent to a name's address over UDP (QUIC) shows nobody which name was meant.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NET_NAME_MAX      253 // RFC 1035, without the root's dot
#define NET_RULE_TEXT_MAX 300 // "udp://", a name, ":60000-65535"

#define NET_PROTO_ANY 0
#define NET_PROTO_TCP 6 // as in an IPv4 header
#define NET_PROTO_UDP 17

// Whom a packet is for, or from.
struct endpoint {
    uint32_t address; // host order
    uint16_t port;    // 0 for what has none
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
    NET_RULE_IPV6, // nothing else is known of it: there is no IPv6
    NET_RULE_BAD,
};

// Reads an entry. `r` is set for the first two kinds; its name is then net_rule_fini's.
enum net_rule_kind net_rule_parse(struct net_rule *r, const char *text);
void net_rule_fini(struct net_rule *r);

// What net_rule_parse takes; an address always with its "/32".
void net_rule_text(const struct net_rule *r, char out[NET_RULE_TEXT_MAX]);

// Whether the rule speaks of this protocol and port.
bool net_rule_carries(const struct net_rule *r, const struct endpoint *to);
// Whether a rule for addresses is about `to`, or one for names about `name` (lower case), whatever
// the protocol and port. Neither is ever about the other.
bool net_rule_has_address(const struct net_rule *r, uint32_t address);
bool net_rule_has_name(const struct net_rule *r, const char *name);
bool net_rule_is_everything(const struct net_rule *r); // 0.0.0.0/0, every protocol and port
// A rule for addresses that is about `to`, its protocol and port.
bool net_rule_holds(const struct net_rule *r, const struct endpoint *to);
