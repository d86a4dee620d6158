// SPDX-License-Identifier: Apache-2.0
// The addresses to which a request for somebody else may connect.
//
// The list for IPv4 is in base/net_rule.c. For IPv6 (IANA's registry) only global unicast is
// public, except for addresses that wrap a private IPv4 address. The check sees the address of each
// connection, so neither a redirect nor a name that resolves to a private address gets past it.
#include "sandbox-backend/net/fetch_guard.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <string.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/net_rule.h"
#include "sandbox-backend/base/str.h"

static const struct {
    unsigned char bytes[16];
    int bits;
} REFUSED_V6[] = {
    {{0x20, 0x01}, 23},             // protocol assignments, Teredo among them
    {{0x20, 0x01, 0x0d, 0xb8}, 32}, // documentation
    {{0x3f, 0xff}, 20},             // documentation
};

static bool same_bits(const unsigned char *a, const unsigned char *b, int bits)
{
    int whole = bits / 8;
    if (memcmp(a, b, (size_t)whole) != 0)
        return false;
    int rest = bits % 8;
    return rest == 0 || ((a[whole] ^ b[whole]) >> (8 - rest)) == 0;
}

static bool v4_is_public(const unsigned char a[4])
{
    return !special_address((uint32_t)a[0] << 24 | (uint32_t)a[1] << 16 | (uint32_t)a[2] << 8 |
                            a[3]);
}

static bool v6_is_public(const unsigned char a[16])
{
    static const unsigned char MAPPED[16] = {[10] = 0xff, [11] = 0xff};
    static const unsigned char NAT64[16] = {0x00, 0x64, 0xff, 0x9b};
    static const unsigned char SIX_TO_FOUR[16] = {0x20, 0x02};
    static const unsigned char GLOBAL[16] = {0x20};
    if (same_bits(a, MAPPED, 96) || same_bits(a, NAT64, 96))
        return v4_is_public(a + 12);
    if (same_bits(a, SIX_TO_FOUR, 16))
        return v4_is_public(a + 2);
    if (!same_bits(a, GLOBAL, 3))
        return false;
    for (size_t i = 0; i < ARRAY_LEN(REFUSED_V6); i++)
        if (same_bits(a, REFUSED_V6[i].bytes, REFUSED_V6[i].bits))
            return false;
    return true;
}

static int parse_net(const char *text, struct net *net)
{
    char *address auto_free = xstrdup(text);
    char *slash = strchr(address, '/');
    if (slash)
        *slash = '\0';
    *net = (struct net){.family = AF_INET};
    if (inet_pton(AF_INET, address, net->bytes) != 1) {
        net->family = AF_INET6;
        if (inet_pton(AF_INET6, address, net->bytes) != 1)
            return -1;
    }
    int64_t bits = net->family == AF_INET ? 32 : 128;
    if (slash && !str_to_int(slash + 1, 0, bits, &bits))
        return -1;
    net->bits = (int)bits;
    return 0;
}

int fetch_guard_init(struct fetch_guard *g, const struct opt_list *allow, const char *option,
                     struct err *e)
{
    g->count = 0;
    for (int i = 0; i < allow->count; i++)
        if (parse_net(allow->items[i], &g->allowed[g->count++]) < 0)
            return err_set(e, ERR_INVALID,
                           "--%s takes an address such as 10.1.2.3 or 10.0.0.0/8, not \"%s\"",
                           option, allow->items[i]);
    return 0;
}

static bool is_allowed(const struct fetch_guard *g, int family, const unsigned char *bytes)
{
    for (int i = 0; i < g->count; i++)
        if (g->allowed[i].family == family &&
            same_bits(bytes, g->allowed[i].bytes, g->allowed[i].bits))
            return true;
    return false;
}

bool fetch_guard_allows(const struct fetch_guard *g, const struct sockaddr *address)
{
    if (address->sa_family == AF_INET) {
        struct sockaddr_in in;
        memcpy(&in, address, sizeof in);
        const unsigned char *bytes = (const unsigned char *)&in.sin_addr;
        return v4_is_public(bytes) || is_allowed(g, AF_INET, bytes);
    }
    if (address->sa_family == AF_INET6) {
        struct sockaddr_in6 in;
        memcpy(&in, address, sizeof in);
        const unsigned char *bytes = (const unsigned char *)&in.sin6_addr;
        return v6_is_public(bytes) || is_allowed(g, AF_INET6, bytes);
    }
    return false;
}

bool fetch_guard_is_own(const struct sockaddr *address)
{
    struct ifaddrs *all = NULL;
    bool found = getifaddrs(&all) < 0; // who cannot know refuses
    for (const struct ifaddrs *one = all; one && !found; one = one->ifa_next) {
        const struct sockaddr *own = one->ifa_addr;
        if (!own || own->sa_family != address->sa_family)
            continue;
        if (own->sa_family == AF_INET)
            found = ((const struct sockaddr_in *)own)->sin_addr.s_addr ==
                    ((const struct sockaddr_in *)address)->sin_addr.s_addr;
        else if (own->sa_family == AF_INET6)
            found = memcmp(&((const struct sockaddr_in6 *)own)->sin6_addr,
                           &((const struct sockaddr_in6 *)address)->sin6_addr, 16) == 0;
    }
    freeifaddrs(all);
    return found;
}
