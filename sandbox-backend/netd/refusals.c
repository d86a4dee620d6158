// SPDX-License-Identifier: Apache-2.0
// What is told of the network.
#include "sandbox-backend/netd/refusals.h"

#include <arpa/inet.h>
#include <stdio.h>

#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/log/log.h"

int refusals_init(struct refusals *r, int fd, struct err *e)
{
    *r = (struct refusals){.tokens = REFUSALS_BURST, .refilled_at = clock_mono_ms()};
    r->stats = net_stats_map(fd, e);
    return r->stats ? 0 : -1;
}

void refusals_fini(struct refusals *r)
{
    if (r->stats)
        net_stats_unmap(r->stats);
    r->stats = NULL;
}

// ---- the log

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

static void write_line(struct refusals *r, const struct net_stats_refusal *one)
{
    if (!take_token(r)) {
        r->suppressed++;
        return;
    }
    char dst[INET_ADDRSTRLEN] = "-";
    struct in_addr address = {htonl(one->address)};
    if (one->address)
        inet_ntop(AF_INET, &address, dst, sizeof dst);
    log_info("outward.refused", "why=\"%s\" proto=%s dst=%s port=%u name=\"%s\" suppressed=%lu",
             one->why, net_stats_proto(one->proto), dst, one->port, one->name, r->suppressed);
    r->suppressed = 0;
}

// ---- for the others

void refusals_add(struct refusals *r, const char *why, const struct endpoint *to, const char *name)
{
    struct net_stats_refusal one = {.seq = 0};
    snprintf(one.why, sizeof one.why, "%s", why);
    snprintf(one.name, sizeof one.name, "%s", name ? name : "");
    if (to) {
        one.address = to->address;
        one.port = to->port;
        one.proto = to->proto;
    }
    net_stats_refused(r->stats, &one);
    write_line(r, &one);
}

void refusals_note(struct refusals *r, const struct filter_result *f)
{
    const struct packet *p = &f->packet;
    const struct endpoint to = {p->dst, p->dport, p->proto};
    if (!f->is_noise)
        refusals_add(r, f->why, p->type == WIRE_TYPE_IPV4 ? &to : NULL, NULL);
}
