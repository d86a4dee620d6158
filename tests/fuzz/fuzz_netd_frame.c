// SPDX-License-Identifier: Apache-2.0
// A hostile guest's frame through the filter and through an inward connection. What comes out must
// keep the filter's promises: this is the only thing between the guest and libslirp.
#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/netd/filter.h"
#include "sandbox-backend/netd/flow.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool promise)
{
    if (!promise)
        abort();
}

static void check_stack(struct policy *policy, const struct filter_result *r, size_t size)
{
    struct packet again;
    const struct packet *p = &r->packet;
    require(p->len <= size && p->l4 + p->l4_len == p->frame + p->len);
    require(wire_parse(&again, p->frame, p->len) == NULL);
    require(again.src == WIRE_GUEST_IP && again.dst == p->dst);
    bool is_dns = p->dst == WIRE_DNS_IP && p->dport == 53;
    bool is_echo =
        p->proto == WIRE_PROTO_ICMP && (p->dst == WIRE_GATEWAY_IP || p->dst == WIRE_DNS_IP);
    const struct endpoint to = {p->dst, p->dport, p->proto};
    require(is_dns || is_echo || !policy_denies(policy, &to));
    require(p->proto != WIRE_PROTO_TCP || !(p->l4[13] & WIRE_URG));
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

// A connection to the port and alias that the packet itself names, so that it always belongs.
static void check_flow(struct packet *p, bool is_accepted)
{
    struct flow f;
    uint8_t frame[WIRE_TCP_FRAME_BYTES];
    uint16_t sum = wire_l4_sum(p);
    flow_init(&f, p->dport, p->sport);
    f.stack_port = 5;
    f.first_seq = f.stack_next = p->ack - 1;
    f.stack_ack = p->seq;
    f.is_accepted = is_accepted;
    f.has_stack_fin = is_accepted;
    if (flow_from_guest(&f, p) != FLOW_DROP && sum == 0)
        require(wire_l4_sum(p) == 0);
    if (flow_fin_is_due(&f))
        flow_release_fin(&f, frame);
    flow_is_over(&f);
    flow_reset_stack(&f, frame);
    flow_reset_guest(&f, frame);
}

static void run(const struct net_policy *rules, const uint8_t *data, size_t size)
{
    struct policy policy;
    struct filter_result r;
    uint8_t *frame = malloc(size + 1); // its own block, so that a sanitizer sees its end
    if (!frame)
        return;
    memcpy(frame, data, size);
    policy_init(&policy, rules);
    policy_set_host(&policy, NULL, 0);
    filter_from_guest(&policy, frame, size, &r);
    require((r.why != NULL) == (r.verdict == FILTER_DROP ||
                                (r.verdict == FILTER_ANSWER && r.packet.type == WIRE_TYPE_IPV4)));
    if (r.verdict == FILTER_STACK)
        check_stack(&policy, &r, size);
    else if (r.verdict == FILTER_ANSWER)
        check_answer(&r);
    else if (r.verdict == FILTER_INWARD)
        check_flow(&r.packet, size % 2);
    policy_fini(&policy);
    free(frame);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char named[] = "*";
    struct net_rule rules[] = {{.address = 0x08080000, .bits = 16}, {.name = named}, {.bits = 0}};
    run(&NET_POLICY_PUBLIC, data, size);
    run(&(struct net_policy){0}, data, size);
    run(
        &(struct net_policy){
            .allow_out = rules, .allow_count = 2, .deny_out = rules + 2, .deny_count = 1},
        data, size);
    return 0;
}
