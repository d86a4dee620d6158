// SPDX-License-Identifier: Apache-2.0
// The guest's network, in the form that the sentry needs. The addresses are those that the
// microVM's init sets (guest/netif.c) and that netd serves (netd/wire).
//
// The names are those of the pinned runsc (runsc/boot/network.go). Its JSON reader takes an absent
// member as zero, so members whose zero is meant are left out.
#include "sandbox-backend/drivers/gvisor/links.h"

#include <string.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/str.h"

#define CARD          "eth0"
#define CARD_MTU      65520
#define GUEST_ADDRESS "10.0.2.15"
#define GATEWAY       "10.0.2.2"

static const unsigned char MAC[] = {0x52, 0x54, 0x00, 0xc0, 0xbb, 0x01};

static json_t *encoded(const void *bytes, size_t len)
{
    struct buf text auto_buf = BUF_INIT;
    base64_encode(&text, bytes, len);
    return json_string(buf_str(&text));
}

// Return a route to the addresses that share the first `prefix` bits, a multiple of 8, with
// `address`. The mask is as long as the address: 4 bytes, or 16 for IPv6.
static json_t *route(const char *address, int prefix, const char *gateway)
{
    unsigned char mask[16] = {0};
    for (int i = 0; i < prefix / 8; i++)
        mask[i] = 0xff;
    return json_pack("{s:{s:s, s:o}, s:s*}", "Destination", "IP", address, "Mask",
                     encoded(mask, strchr(address, ':') ? 16 : 4), "Gateway", gateway);
}

json_t *links_json(bool is_restore)
{
    // Both families, as runsc's default. netd carries IPv4 only, so the card has no IPv6 address.
    json_t *loopback =
        json_pack("{s:s, s:[{s:s, s:i}, {s:s, s:i}], s:[o, o]}", "Name", "lo", "Addresses",
                  "Address", "127.0.0.1", "PrefixLen", 8, "Address", "::1", "PrefixLen", 128,
                  "Routes", route("127.0.0.0", 8, NULL), route("::1", 128, NULL));
    json_t *card =
        json_pack("{s:s, s:i, s:i, s:[{s:s, s:i}], s:[o], s:o, s:i, s:i}", "Name", CARD,
                  "InterfaceIndex", 2, "MTU", CARD_MTU, "Addresses", "Address", GUEST_ADDRESS,
                  "PrefixLen", 24, "Routes", route("10.0.2.0", 24, NULL), "LinkAddress",
                  encoded(MAC, sizeof MAC), "NumChannels", 1, "ProcessorsPerChannel", 1);
    return json_pack("{s:[o], s:[o], s:{s:o, s:s}, s:b}", "LoopbackLinks", loopback, "FDBasedLinks",
                     card, "Defaultv4Gateway", "Route", route("0.0.0.0", 0, GATEWAY), "Name", CARD,
                     "IsRestore", is_restore);
}
