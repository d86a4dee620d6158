// SPDX-License-Identifier: Apache-2.0
// A rule: one entry of a network policy's lists. The special addresses.
#include "sandbox-backend/base/net_rule.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

#define LABEL_MAX 63 // RFC 1035

void net_rule_fini(struct net_rule *r)
{
    free(steal(&r->name));
}

// ---- parts

static uint32_t mask_of(uint8_t bits)
{
    return bits == 0 ? 0 : ~(uint32_t)0 << (32 - bits);
}

// Parse "address/bits" of either family into `out`. Return the bits, or -1.
static int parse_network(int family, void *out, int most, const char *text)
{
    char address[INET6_ADDRSTRLEN];
    int64_t bits = most;
    const char *slash = strchr(text, '/');
    size_t len = slash ? (size_t)(slash - text) : strlen(text);
    if (len >= sizeof address || (slash && !str_to_int(slash + 1, 0, most, &bits)))
        return -1;
    memcpy(address, text, len);
    address[len] = '\0';
    return inet_pton(family, address, out) == 1 ? (int)bits : -1;
}

static bool is_ipv6(const char *text)
{
    struct in6_addr in;
    return parse_network(AF_INET6, &in, 128, text) >= 0;
}

// Clear bits after the prefix, as routers do.
static bool parse_ipv4(struct net_rule *r, const char *text)
{
    struct in_addr in;
    int bits = parse_network(AF_INET, &in, 32, text);
    if (bits < 0)
        return false;
    r->bits = (uint8_t)bits;
    r->address = ntohl(in.s_addr) & mask_of(r->bits);
    return true;
}

// Check a name: letters, digits, hyphens and underscores between dots. A last label of digits only
// is refused, since it was meant as an address.
static bool is_name(const char *text)
{
    size_t label = 0;
    bool has_letter = false;
    for (const char *c = text; *c; c++) {
        if (*c == '.' && (label == 0 || !c[1]))
            return false;
        label = *c == '.' ? 0 : label + 1;
        has_letter = *c == '.' ? false : has_letter || !isdigit((unsigned char)*c);
        if (label > LABEL_MAX || !(isalnum((unsigned char)*c) || strchr("-_.", *c)))
            return false;
    }
    return label > 0 && has_letter;
}

// With its star it is no longer than the shortest name that it covers.
static bool parse_name(struct net_rule *r, const char *text)
{
    bool is_any = str_eq(text, "*");
    if (strlen(text) > NET_NAME_MAX)
        return false;
    if (!is_any && !is_name(str_starts(text, "*.") ? text + 2 : text))
        return false;
    r->name = xstrdup(text);
    for (char *c = r->name; *c; c++)
        *c = (char)tolower((unsigned char)*c);
    return true;
}

static bool parse_port(const char *text, uint16_t *out)
{
    int64_t port;
    if (!str_to_int(text, 1, UINT16_MAX, &port))
        return false;
    *out = (uint16_t)port;
    return true;
}

// Parse "80" or "8000-8080". Changes the text.
static bool parse_ports(struct net_rule *r, char *text)
{
    char *dash = strchr(text, '-');
    if (dash)
        *dash = '\0';
    return parse_port(text, &r->first_port) && parse_port(dash ? dash + 1 : text, &r->last_port) &&
           r->first_port <= r->last_port;
}

static const char *take_proto(struct net_rule *r, const char *text)
{
    r->proto = str_starts(text, "tcp://")   ? NET_PROTO_TCP
               : str_starts(text, "udp://") ? NET_PROTO_UDP
                                            : NET_PROTO_ANY;
    return r->proto == NET_PROTO_ANY ? text : text + strlen("tcp://");
}

// ---- whole rules

enum net_rule_kind net_rule_parse(struct net_rule *r, const char *text)
{
    char host[NET_RULE_TEXT_MAX];
    *r = (struct net_rule){0};
    text = take_proto(r, text);
    if (is_ipv6(text) || text[0] == '[')
        return NET_RULE_IPV6;
    if (strlen(text) >= sizeof host)
        return NET_RULE_BAD;
    memcpy(host, text, strlen(text) + 1);
    char *colon = strchr(host, ':');
    if (colon)
        *colon = '\0';
    if (colon && !parse_ports(r, colon + 1))
        return NET_RULE_BAD;
    if (parse_ipv4(r, host))
        return NET_RULE_ADDRESS;
    return parse_name(r, host) ? NET_RULE_NAME : NET_RULE_BAD;
}

static const char *proto_text(uint8_t proto)
{
    return proto == NET_PROTO_TCP ? "tcp://" : proto == NET_PROTO_UDP ? "udp://" : "";
}

void net_rule_text(const struct net_rule *r, char out[NET_RULE_TEXT_MAX])
{
    char address[INET_ADDRSTRLEN], ports[16] = "", host[NET_NAME_MAX + 1];
    struct in_addr in = {.s_addr = htonl(r->address)};
    inet_ntop(AF_INET, &in, address, sizeof address);
    snprintf(host, sizeof host, r->name ? "%s" : "%s/%d", r->name ? r->name : address, r->bits);
    if (r->first_port != r->last_port)
        snprintf(ports, sizeof ports, ":%d-%d", r->first_port, r->last_port);
    else if (r->first_port > 0)
        snprintf(ports, sizeof ports, ":%d", r->first_port);
    snprintf(out, NET_RULE_TEXT_MAX, "%s%s%s", proto_text(r->proto), host, ports);
}

// ---- queries

bool net_rule_carries(const struct net_rule *r, const struct endpoint *to)
{
    if (r->proto != NET_PROTO_ANY && r->proto != to->proto)
        return false;
    return r->last_port == 0 || (to->port >= r->first_port && to->port <= r->last_port);
}

bool net_rule_has_address(const struct net_rule *r, uint32_t address)
{
    return !r->name && (address & mask_of(r->bits)) == r->address;
}

bool net_rule_has_name(const struct net_rule *r, const char *name)
{
    if (!r->name || r->name[0] != '*')
        return r->name && strcmp(name, r->name) == 0;
    const char *tail = r->name + 1; // ".example.com", or ""
    size_t len = strlen(name), tail_len = strlen(tail);
    return len > tail_len && strcmp(name + len - tail_len, tail) == 0;
}

bool net_rule_is_everything(const struct net_rule *r)
{
    return !r->name && r->bits == 0 && r->proto == NET_PROTO_ANY && r->last_port == 0;
}

bool net_rule_holds(const struct net_rule *r, const struct endpoint *to)
{
    return net_rule_has_address(r, to->address) && net_rule_carries(r, to);
}

// ---- special addresses

#define IP(a, b, c, d) \
    ((uint32_t)(a) << 24 | (uint32_t)(b) << 16 | (uint32_t)(c) << 8 | (uint32_t)(d))

// The IANA special-purpose registry (RFC 6890 and its successors), and one address that only looks
// public: Azure's 168.63.129.16 is the platform's metadata and key service for the machine.
static const struct {
    uint32_t network;
    int bits; // 1 to 32
    const char *why;
} SPECIAL[] = {
    {IP(0, 0, 0, 0), 8, "this network"},
    {IP(10, 0, 0, 0), 8, "private"},
    {IP(100, 64, 0, 0), 10, "shared (carrier) space"},
    {IP(127, 0, 0, 0), 8, "loopback"},
    {IP(168, 63, 129, 16), 32, "cloud metadata"},
    {IP(169, 254, 0, 0), 16, "link-local or metadata"},
    {IP(172, 16, 0, 0), 12, "private"},
    {IP(192, 0, 0, 0), 24, "protocol assignments"},
    {IP(192, 0, 2, 0), 24, "an address for documentation"},
    {IP(192, 88, 99, 0), 24, "6to4 relay"},
    {IP(192, 168, 0, 0), 16, "private"},
    {IP(198, 18, 0, 0), 15, "benchmarking"},
    {IP(198, 51, 100, 0), 24, "an address for documentation"},
    {IP(203, 0, 113, 0), 24, "an address for documentation"},
    {IP(224, 0, 0, 0), 4, "multicast"},
    {IP(240, 0, 0, 0), 4, "reserved or broadcast"},
};

const char *special_address(uint32_t address)
{
    return special_network(address, 32);
}

const char *special_network(uint32_t address, int bits)
{
    for (size_t i = 0; i < ARRAY_LEN(SPECIAL); i++)
        if (bits >= SPECIAL[i].bits &&
            (address ^ SPECIAL[i].network) >> (32 - SPECIAL[i].bits) == 0)
            return SPECIAL[i].why;
    return NULL;
}
