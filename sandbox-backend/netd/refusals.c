// SPDX-License-Identifier: Apache-2.0
// The log of what the guest was refused.
#include "sandbox-backend/netd/refusals.h"

#include <arpa/inet.h>

#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/log/log.h"

void refusals_init(struct refusals *r)
{
    *r = (struct refusals){.tokens = REFUSALS_BURST, .refilled_at = clock_mono_ms()};
}

static bool take_token(struct refusals *r)
{
    int64_t now = clock_mono_ms();
    int64_t gained = (now - r->refilled_at) / REFUSALS_GAP_MS;
    if (gained > 0) {
        r->refilled_at += gained * REFUSALS_GAP_MS;
        r->tokens = gained >= REFUSALS_BURST - r->tokens ? REFUSALS_BURST : r->tokens + (int)gained;
    }
    if (r->tokens == 0)
        return false;
    r->tokens--;
    return true;
}

static const char *proto_name(uint8_t proto)
{
    switch (proto) {
    case WIRE_PROTO_TCP:
        return "tcp";
    case WIRE_PROTO_UDP:
        return "udp";
    case WIRE_PROTO_ICMP:
        return "icmp";
    default:
        return "other";
    }
}

void refusals_note(struct refusals *r, const struct filter_result *f)
{
    if (f->is_noise)
        return;
    if (!take_token(r)) {
        r->suppressed++;
        return;
    }
    char dst[INET_ADDRSTRLEN] = "-";
    struct in_addr address = {htonl(f->packet.dst)};
    inet_ntop(AF_INET, &address, dst, sizeof(dst));
    log_info("outward.refused", "why=\"%s\" proto=%s dst=%s port=%u suppressed=%lu", f->why,
             proto_name(f->packet.proto), dst, f->packet.dport, r->suppressed);
    r->suppressed = 0;
}
