// SPDX-License-Identifier: Apache-2.0
// Fuzz frames: a hostile guest's through the filter, under policies of every kind, and through an
// inward connection; and the same bytes as libslirp's frame for the guest. The frames that pass
// must keep the filter's promises, because only the filter stands between the guest and libslirp.
//
// Each input is tried twice: as it is, and with the lengths, addresses and checksums of an IPv4
// frame put right, for a fuzzer does not find those.
#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/netd/inward/flow.h"
#include "sandbox-backend/netd/policy/dns.h"
#include "sandbox-backend/netd/policy/filter.h"
#include "sandbox-backend/netd/stack/outward.h"

#define IP(a, b, c, d) \
    ((uint32_t)(a) << 24 | (uint32_t)(b) << 16 | (uint32_t)(c) << 8 | (uint32_t)(d))
#define HOST     IP(8, 8, 4, 1)
#define A_NAME   IP(7, 7, 7, 7) // a.example, TCP
#define B_NAME   IP(7, 7, 7, 8) // b.example:22, TCP
#define C_NAME   IP(7, 7, 7, 9) // udp://c.example:5000
#define DNS_PORT 53

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool promise)
{
    if (!promise)
        abort();
}

// ---- what is promised of a verdict

// What the lists below say, by hand; true for what they do not speak of.
static bool is_by_the_lists(const struct policy *policy, const struct packet *p)
{
    if (policy->names.count == 0)
        return true;
    bool is_tcp = p->proto == WIRE_PROTO_TCP;
    switch (p->dst) {
    case A_NAME:
        return is_tcp;
    case B_NAME:
        return is_tcp && p->dport == 22;
    case C_NAME:
        return !is_tcp && p->dport == 5000;
    case IP(8, 8, 8, 8):
        return false;
    default:
        return is_tcp ? p->dst >> 16 == (8 << 8 | 8) && p->dport == 443
                      : p->dst >> 8 == IP(0, 9, 9, 9) && p->dport >= 53 && p->dport <= 5000;
    }
}

static void check_stack(struct policy *policy, const struct filter_result *r, size_t size)
{
    struct packet again;
    const struct packet *p = &r->packet;
    require(p->len <= size && p->l4 + p->l4_len == p->frame + p->len);
    require(wire_parse(&again, p->frame, p->len) == NULL);
    require(again.src == WIRE_GUEST_IP && again.dst == p->dst);
    require(p->proto != WIRE_PROTO_TCP || !(p->l4[13] & WIRE_URG));
    bool is_dns = p->dst == WIRE_DNS_IP && p->dport == DNS_PORT;
    bool is_echo =
        p->proto == WIRE_PROTO_ICMP && (p->dst == WIRE_GATEWAY_IP || p->dst == WIRE_DNS_IP);
    if (is_dns)
        require(policy->dns == POLICY_DNS_FREE);
    if (is_dns || is_echo)
        return;
    const struct endpoint to = {p->dst, p->dport, p->proto};
    require(p->proto == WIRE_PROTO_TCP || p->proto == WIRE_PROTO_UDP);
    require((p->dst & WIRE_NETMASK) != WIRE_NETWORK && !policy_denies(policy, &to));
    require(is_by_the_lists(policy, p));
}

static void check_answer(struct filter_result *r)
{
    struct packet p;
    require(r->answer_len > 0 && r->answer_len <= sizeof(r->answer));
    require(wire_parse(&p, r->answer, r->answer_len) == NULL);
    require(memcmp(r->answer, wire_guest_mac, 6) == 0);
    if (p.type == WIRE_TYPE_IPV4)
        require(p.dst == WIRE_GUEST_IP && wire_l4_sum(&p) == 0);
}

static void check_question(const struct policy *policy, const struct packet *p)
{
    struct dns_question q;
    require(policy->dns != POLICY_DNS_FREE && p->dst == WIRE_DNS_IP && p->dport == DNS_PORT);
    require(p->proto == WIRE_PROTO_UDP && p->l4_len == WIRE_UDP_BYTES + p->payload_len);
    if (dns_parse_question(&q, p->l4 + WIRE_UDP_BYTES, p->payload_len))
        require(strlen(q.name) <= NET_NAME_MAX && q.bytes_len <= p->payload_len);
}

// A connection to the port and alias that the packet itself names, so that it always belongs.
static void check_flow(struct packet *p, bool is_accepted)
{
    struct flow f;
    uint8_t frame[WIRE_TCP_FRAME_BYTES];
    uint16_t sum = wire_l4_sum(p);
    int behind = 0;
    flow_init(&f, p->dport, p->sport, &behind);
    f.stack_port = 5;
    f.first_seq = f.stack_next = p->ack - 1;
    f.behind.acked = p->seq;
    f.guest = is_accepted ? FLOW_GUEST_OPEN : FLOW_GUEST_ASKED;
    f.has_stack_fin = is_accepted;
    if (flow_from_guest(&f, p) != FLOW_DROP && sum == 0)
        require(wire_l4_sum(p) == 0);
    if (flow_fin_is_due(&f))
        flow_release_fin(&f, frame);
    flow_is_over(&f);
    flow_reset_stack(&f, frame);
    flow_reset_guest(&f, frame);
}

static void run_from_guest(struct policy *policy, uint8_t *frame, size_t size)
{
    struct filter_result r;
    filter_from_guest(policy, frame, size, &r);
    require((r.why != NULL) == (r.verdict == FILTER_DROP ||
                                (r.verdict == FILTER_ANSWER && r.packet.type == WIRE_TYPE_IPV4)));
    if (r.verdict == FILTER_STACK)
        check_stack(policy, &r, size);
    else if (r.verdict == FILTER_ANSWER)
        check_answer(&r);
    else if (r.verdict == FILTER_NAME)
        check_question(policy, &r.packet);
    else if (r.verdict == FILTER_INWARD)
        check_flow(&r.packet, size % 2);
}

// ---- the other way

static void check_numbers(const struct packet *p)
{
    const struct outward o = {{p->src, p->sport, p->proto}, .guest_port = p->dport};
    struct outward_numbers n = {0};
    outward_note(&o, p->frame, p->len, &n);
    if (n.are_known)
        require(p->proto == WIRE_PROTO_TCP && n.ack == p->ack && n.next == p->seq + p->seq_len);
}

static void run_to_guest(struct policy *policy, uint8_t *frame, size_t size)
{
    struct packet p;
    struct flow f;
    if (wire_parse(&p, frame, size))
        return;
    check_numbers(&p);
    if (filter_to_guest(policy, &p))
        return;
    const struct endpoint from = {p.src, p.sport, p.proto};
    bool is_reset = p.proto == WIRE_PROTO_TCP && p.flags & WIRE_RST;
    bool is_ours = p.src == WIRE_GATEWAY_IP || p.src == WIRE_DNS_IP;
    require(p.type == WIRE_TYPE_IPV4 && p.dst == WIRE_GUEST_IP);
    require(is_reset || is_ours || !policy_denies(policy, &from));
    if (p.proto != WIRE_PROTO_TCP || p.src != WIRE_GATEWAY_IP)
        return;
    uint16_t sum = wire_l4_sum(&p);
    int behind = 0;
    flow_init(&f, p.dport, 8080, &behind);
    if (flow_to_guest(&f, &p) && sum == 0)
        require(wire_l4_sum(&p) == 0 && p.sport == f.alias && p.dport == 8080);
}

// ---- frames

static uint32_t pick_address(uint8_t choice)
{
    static const uint32_t addresses[] = {A_NAME,
                                         B_NAME,
                                         C_NAME,
                                         IP(8, 8, 8, 8),
                                         IP(8, 8, 1, 1),
                                         IP(9, 9, 9, 1),
                                         IP(10, 1, 2, 3),
                                         WIRE_GATEWAY_IP,
                                         WIRE_DNS_IP,
                                         IP(10, 0, 2, 77),
                                         HOST,
                                         IP(169, 254, 169, 254),
                                         IP(1, 2, 3, 4),
                                         IP(127, 0, 0, 1),
                                         IP(224, 0, 0, 9)};
    return addresses[choice % ARRAY_LEN(addresses)];
}

static void put_sum(uint8_t *at, const uint8_t *from, size_t len, uint32_t start)
{
    wire_put16(at, 0);
    wire_put16(at, wire_sum(from, len, start));
}

// Makes the bytes a frame that has the right lengths, addresses and checksums. Its address outside
// is chosen by the first byte, which is overwritten.
static void repair(uint8_t *frame, size_t size, bool is_from_guest)
{
    uint8_t *ip = frame + WIRE_ETH_BYTES, *l4 = frame + WIRE_HEAD_BYTES;
    size_t l4_len = size - WIRE_HEAD_BYTES;
    uint32_t outside = pick_address(frame[0]);
    uint32_t src = is_from_guest ? WIRE_GUEST_IP : outside;
    uint32_t dst = is_from_guest ? outside : WIRE_GUEST_IP;
    memcpy(frame, is_from_guest ? wire_gateway_mac : wire_guest_mac, 6);
    memcpy(frame + 6, is_from_guest ? wire_guest_mac : wire_gateway_mac, 6);
    wire_put16(frame + 12, WIRE_TYPE_IPV4);
    ip[0] = 0x45;
    ip[9] = ip[9] % 4 == 0 ? WIRE_PROTO_ICMP : ip[9] % 4 == 1 ? WIRE_PROTO_UDP : WIRE_PROTO_TCP;
    wire_put16(ip + 2, (uint16_t)(size - WIRE_ETH_BYTES));
    wire_put16(ip + 6, 0);
    wire_put32(ip + 12, src);
    wire_put32(ip + 16, dst);
    put_sum(ip + 10, ip, WIRE_IPV4_BYTES, 0);
    if (ip[9] == WIRE_PROTO_UDP && l4_len >= WIRE_UDP_BYTES)
        wire_put16(l4 + 4, (uint16_t)l4_len);
    if (ip[9] == WIRE_PROTO_TCP && l4_len >= WIRE_TCP_BYTES)
        put_sum(l4 + 16, l4, l4_len,
                (src >> 16) + (src & 0xffff) + (dst >> 16) + (dst & 0xffff) + WIRE_PROTO_TCP +
                    (uint32_t)l4_len);
}

static void run(struct policy *policy, const uint8_t *data, size_t size)
{
    for (int turn = 0; turn < 4; turn++) {
        uint8_t *frame = xmalloc(size + 1); // its own block, so that a sanitizer sees its end
        bool is_from_guest = turn % 2 == 0;
        memcpy(frame, data, size);
        if (turn >= 2 && size >= WIRE_HEAD_BYTES && size - WIRE_ETH_BYTES <= UINT16_MAX)
            repair(frame, size, is_from_guest);
        if (is_from_guest)
            run_from_guest(policy, frame, size);
        else
            run_to_guest(policy, frame, size);
        free(frame);
    }
}

// ---- policies

static void open_policy(struct policy *p, const struct net_policy *rules)
{
    struct cidr *host = xmalloc(sizeof *host);
    *host = (struct cidr){HOST, 32};
    policy_init(p, rules);
    policy_set_host(p, host, 1);
}

static void run_simple(const uint8_t *data, size_t size)
{
    char named[] = "*";
    struct net_rule rules[] = {
        {.address = IP(8, 8, 0, 0), .bits = 16}, {.name = named}, {.bits = 0}};
    struct net_rule special[] = {{.address = IP(10, 0, 0, 0), .bits = 8},
                                 {.address = IP(10, 0, 2, 0), .bits = 24},
                                 {.address = HOST, .bits = 32}};
    const struct net_policy policies[] = {
        NET_POLICY_PUBLIC,
        {0},
        {.allow_out = rules, .allow_count = 2, .deny_out = rules + 2, .deny_count = 1},
        {.internet = true, .special = true, .allow_out = special, .allow_count = 3},
        {.internet = true, .deny_out = special, .deny_count = 3, .deny_wins = true},
    };
    for (size_t i = 0; i < ARRAY_LEN(policies); i++) {
        struct policy p;
        open_policy(&p, &policies[i]);
        run(&p, data, size);
        policy_fini(&p);
    }
}

// Names and addresses, with ports and without, and some that are denied whatever else is said.
static void run_by_name(const uint8_t *data, size_t size)
{
    char a[] = "a.example", b[] = "b.example", c[] = "c.example", d[] = "denied.example",
         wild[] = "*.example";
    struct net_rule allow[] = {
        {.address = IP(8, 8, 0, 0), .bits = 16, .proto = 6, .first_port = 443, .last_port = 443},
        {.address = IP(9, 9, 9, 0), .bits = 24, .proto = 17, .first_port = 53, .last_port = 5000},
        {.name = a},
        {.name = b, .first_port = 22, .last_port = 22},
        {.name = c, .proto = 17, .first_port = 5000, .last_port = 5000},
        {.name = wild, .proto = 6, .first_port = 1, .last_port = 1}};
    struct net_rule deny[] = {{.address = IP(8, 8, 8, 8), .bits = 32},
                              {.name = d},
                              {.name = b, .proto = 6, .first_port = 1, .last_port = 1},
                              {.name = c, .proto = 6}};
    struct policy p;
    int64_t now = clock_mono_ms();
    open_policy(&p, &(struct net_policy){.deny_wins = true,
                                         .allow_out = allow,
                                         .allow_count = ARRAY_LEN(allow),
                                         .deny_out = deny,
                                         .deny_count = ARRAY_LEN(deny)});
    names_add(&p.names, a, A_NAME, 60, now);
    names_add(&p.names, b, B_NAME, 60, now);
    names_add(&p.names, c, C_NAME, 60, now);
    names_add(&p.names, a, IP(8, 8, 8, 8), 60, now);
    run(&p, data, size);
    policy_fini(&p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    run_simple(data, size);
    run_by_name(data, size);
    return 0;
}
