// SPDX-License-Identifier: Apache-2.0
// The decision about one Ethernet frame, and the account of refusals.
#include "sandbox-backend/netd/policy/filter.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/log/log.h"

#define DNS_PORT 53

static void drop(struct filter_result *r, const char *why, bool is_noise)
{
    r->verdict = FILTER_DROP;
    r->why = why;
    r->is_noise = is_noise;
}

void filter_refuse(struct filter_result *r, const char *why)
{
    r->why = why;
    r->answer_len = wire_make_refusal(r->answer, &r->packet);
    r->verdict = r->answer_len > 0 ? FILTER_ANSWER : FILTER_DROP;
}

// The gateway and the name server have fixed addresses, and there is no other host on this network.
static void on_arp(const uint8_t *frame, size_t len, struct filter_result *r)
{
    static const uint8_t request[8] = {0, 1, 8, 0, 6, 4, 0, WIRE_ARP_REQUEST};
    const uint8_t *arp = frame + WIRE_ETH_BYTES;
    if (len < WIRE_ARP_FRAME_BYTES || memcmp(arp, request, sizeof(request)) != 0) {
        drop(r, "ARP, not a request", true);
        return;
    }
    uint32_t target = wire_get32(arp + 24);
    if (memcmp(arp + 8, wire_guest_mac, 6) != 0 || wire_get32(arp + 14) != WIRE_GUEST_IP ||
        (target != WIRE_GATEWAY_IP && target != WIRE_DNS_IP)) {
        drop(r, "ARP for others", true);
        return;
    }
    const uint8_t *mac = target == WIRE_DNS_IP ? wire_dns_mac : wire_gateway_mac;
    wire_make_arp(r->answer, WIRE_ARP_REPLY, mac, target, wire_guest_mac, WIRE_GUEST_IP);
    r->answer_len = WIRE_ARP_FRAME_BYTES;
    r->verdict = FILTER_ANSWER;
}

static bool is_own_network(uint32_t address)
{
    return (address & WIRE_NETMASK) == WIRE_NETWORK;
}

// Addresses on the sandbox's own network are refused whatever the policy allows: libslirp would
// take them for services of the host.
static const char *denies_outside(struct policy *policy, const struct endpoint *to)
{
    return is_own_network(to->address) ? "the sandbox's own network" : policy_denies(policy, to);
}

static bool is_dns(const struct endpoint *to)
{
    return to->address == WIRE_DNS_IP && to->port == DNS_PORT;
}

const char *filter_denies(struct policy *policy, const struct endpoint *to)
{
    if (!is_dns(to))
        return denies_outside(policy, to);
    return policy->dns != POLICY_DNS_FREE && to->proto == WIRE_PROTO_TCP
               ? "names are resolved over UDP only"
               : NULL;
}

static void on_tcp_or_udp(struct policy *policy, struct filter_result *r)
{
    const struct packet *p = &r->packet;
    if (p->proto == WIRE_PROTO_TCP && p->dst == WIRE_GATEWAY_IP) {
        r->verdict = FILTER_INWARD;
        return;
    }
    const struct endpoint to = {p->dst, p->dport, p->proto};
    const char *why = filter_denies(policy, &to);
    bool is_netds = is_dns(&to) && policy->dns != POLICY_DNS_FREE;
    r->verdict = is_netds ? FILTER_NAME : FILTER_STACK;
    if (why)
        filter_refuse(r, why);
}

// libslirp itself answers an echo to the gateway or the name server. For other addresses it would
// need a raw or ping socket, and those receive more than they should.
static void on_icmp(struct filter_result *r)
{
    const struct packet *p = &r->packet;
    bool is_ours = p->dst == WIRE_GATEWAY_IP || p->dst == WIRE_DNS_IP;
    if (p->icmp_type != WIRE_ICMP_ECHO)
        drop(r, "ICMP, not an echo", true);
    else if (is_ours)
        r->verdict = FILTER_STACK;
    else
        filter_refuse(r, "ICMP to an address other than the gateway");
}

static bool is_to_many(uint32_t address)
{
    bool is_multicast = address >> 28 == 0xe;
    return is_multicast || address == 0xffffffffu || address == (WIRE_NETWORK | ~WIRE_NETMASK);
}

static void on_ipv4(struct policy *policy, struct filter_result *r)
{
    const struct packet *p = &r->packet;
    if (p->src != WIRE_GUEST_IP) {
        drop(r, "spoofed source address", false);
        return;
    }
    if (is_to_many(p->dst)) { // never answered: RFC 1122, 3.2.2
        drop(r, "broadcast or multicast", true);
        return;
    }
    if (memcmp(p->frame, wire_gateway_mac, 6) != 0 && memcmp(p->frame, wire_dns_mac, 6) != 0) {
        drop(r, "not for the gateway's Ethernet address", false);
        return;
    }
    switch (p->proto) {
    case WIRE_PROTO_TCP:
    case WIRE_PROTO_UDP:
        on_tcp_or_udp(policy, r);
        break;
    case WIRE_PROTO_ICMP:
        on_icmp(r);
        break;
    default:
        filter_refuse(r, "a protocol other than TCP, UDP and ICMP");
    }
}

void filter_from_guest(struct policy *policy, uint8_t *frame, size_t len, struct filter_result *r)
{
    r->verdict = FILTER_DROP;
    r->why = NULL;
    r->is_noise = false;
    r->answer_len = 0;
    const char *fault = wire_parse(&r->packet, frame, len);
    if (fault)
        drop(r, fault, is_to_many(r->packet.dst)); // IGMP packets have options
    else if (memcmp(frame + 6, wire_guest_mac, 6) != 0)
        drop(r, "spoofed Ethernet address", false);
    else if (r->packet.type == WIRE_TYPE_ARP)
        on_arp(frame, len, r);
    else if (r->packet.type == WIRE_TYPE_IPV4)
        on_ipv4(policy, r);
    else
        drop(r, r->packet.type == WIRE_TYPE_IPV6 ? "IPv6" : "unknown ethertype",
             r->packet.type == WIRE_TYPE_IPV6);
    bool goes_on = r->verdict == FILTER_STACK || r->verdict == FILTER_INWARD;
    if (goes_on && r->packet.proto == WIRE_PROTO_TCP && r->packet.flags & WIRE_URG)
        wire_clear_urgent(&r->packet);
}

const char *filter_to_guest(struct policy *policy, const struct packet *p)
{
    if (p->type != WIRE_TYPE_IPV4)
        return "not IPv4";
    if (p->dst != WIRE_GUEST_IP)
        return "not for the guest";
    if (p->src == WIRE_GATEWAY_IP || p->src == WIRE_DNS_IP)
        return NULL;
    if (p->proto == WIRE_PROTO_TCP && p->flags & WIRE_RST)
        return NULL;
    const struct endpoint from = {p->src, p->sport, p->proto};
    return denies_outside(policy, &from);
}

// ---- refusals: counters, the latest ones, and the log

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

static void write_line(struct refusals *r, const struct net_stats_contact *one)
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

void refusals_add(struct refusals *r, const char *why, const struct endpoint *to, const char *name)
{
    struct net_stats_contact one = {.seq = 0};
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
