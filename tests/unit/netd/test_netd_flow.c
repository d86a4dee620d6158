// SPDX-License-Identifier: Apache-2.0
// An inward connection, segment by segment.
#include "sandbox-backend/netd/inward/flow.h"
#include "tests/lib/harness/tap.h"

#define ALIAS      2000
#define GUEST_PORT 8080
#define STACK_PORT 51000

static struct flow flow;
static int all_behind;
static uint8_t frame[WIRE_TCP_FRAME_BYTES];
static struct packet packet;

static bool to_guest(uint32_t seq, uint32_t ack, uint8_t flags)
{
    struct tcp_head h = {WIRE_GATEWAY_IP, WIRE_GUEST_IP, STACK_PORT, ALIAS, seq, ack, flags, 100};
    wire_make_tcp(frame, &h, true);
    wire_parse(&packet, frame, sizeof(frame));
    return flow_to_guest(&flow, &packet);
}

static enum flow_event from_guest(uint32_t seq, uint32_t ack, uint8_t flags)
{
    struct tcp_head h = {WIRE_GUEST_IP, WIRE_GATEWAY_IP, GUEST_PORT, ALIAS, seq, ack, flags, 100};
    wire_make_tcp(frame, &h, false);
    wire_parse(&packet, frame, sizeof(frame));
    return flow_from_guest(&flow, &packet);
}

static void start(void)
{
    flow_init(&flow, ALIAS, GUEST_PORT, &all_behind);
    to_guest(1000, 0, WIRE_SYN);
}

static void establish(void)
{
    start();
    from_guest(7000, 1001, WIRE_SYN | WIRE_ACK);
    to_guest(1001, 7001, WIRE_ACK);
}

static void test_names(void)
{
    flow_init(&flow, ALIAS, GUEST_PORT, &all_behind);
    is_int(from_guest(1, 1, WIRE_SYN | WIRE_ACK), FLOW_DROP, "nothing before our SYN");
    ok(!to_guest(1, 1, WIRE_ACK), "not from libslirp either");
    ok(to_guest(1000, 0, WIRE_SYN), "the SYN");
    is_int(packet.sport, ALIAS, "comes from the alias");
    is_int(packet.dport, GUEST_PORT, "to the guest's port");
    is_int(wire_l4_sum(&packet), 0, "with the right checksum");
    is_int(from_guest(7000, 1001, WIRE_SYN | WIRE_ACK), FLOW_ACCEPTED, "the answer");
    is_int(packet.sport, ALIAS, "comes from the alias for libslirp");
    is_int(packet.dport, STACK_PORT, "to the port it chose");
    is_int(wire_l4_sum(&packet), 0, "with the right checksum");
}

static void test_answers(void)
{
    start();
    is_int(from_guest(0, 1001, WIRE_RST | WIRE_ACK), FLOW_REFUSED, "a reset refuses");
    start();
    is_int(from_guest(0, 0, WIRE_RST), FLOW_DROP, "a reset without acknowledgment says nothing");
    is_int(from_guest(0, 1002, WIRE_RST | WIRE_ACK), FLOW_DROP, "nor one for something else");
    is_int(from_guest(5, 999, WIRE_ACK), FLOW_STALE, "an old connection shows");
    is_int(from_guest(7000, 1002, WIRE_SYN | WIRE_ACK), FLOW_STALE, "as does a wrong answer");
    is_int(from_guest(7000, 1001, WIRE_ACK), FLOW_DROP, "an answer without SYN");
    struct tcp_head h = {WIRE_GUEST_IP, WIRE_GATEWAY_IP,     GUEST_PORT, ALIAS, 7000,
                         1001,          WIRE_SYN | WIRE_ACK, 100};
    wire_make_tcp(frame, &h, false);
    frame[WIRE_HEAD_BYTES + 16] ^= 1;
    wire_parse(&packet, frame, sizeof(frame));
    is_int(flow_from_guest(&flow, &packet), FLOW_DROP, "a bad checksum decides nothing");
    is_int(from_guest(7000, 1001, WIRE_SYN | WIRE_ACK), FLOW_ACCEPTED, "then it is accepted");
    is_int(from_guest(7000, 1001, WIRE_SYN | WIRE_ACK), FLOW_PASS, "once");
    is_int(packet.l4[13], WIRE_ACK, "a repeated one is an old acknowledgment for libslirp");
    is_int(wire_l4_sum(&packet), 0, "with the right checksum");
    is_int(from_guest(0, 1001, WIRE_RST | WIRE_ACK), FLOW_PASS, "a later reset is libslirp's");
}

static void test_holes(void)
{
    establish();
    is_int(from_guest(7009, 1001, WIRE_ACK), FLOW_PASS, "and what takes no number");
    uint32_t seq = 7003; // behind a hole of two
    int passed = 0;
    while (from_guest(seq, 1001, WIRE_FIN | WIRE_ACK) == FLOW_PASS) {
        seq += 2;
        passed++;
    }
    is_int(passed, FLOW_BEHIND_MAX, "so many may wait for what is missing");
    to_guest(1001, 7005, WIRE_ACK);
    is_int(from_guest(seq, 1001, WIRE_ACK | WIRE_FIN), FLOW_DROP, "some progress gives no room");
    is_int(from_guest(7005, 1001, WIRE_ACK | WIRE_FIN), FLOW_PASS, "what is next may go");
    to_guest(1001, seq - 1, WIRE_ACK);
    is_int(from_guest(seq, 1001, WIRE_ACK | WIRE_FIN), FLOW_PASS, "when all is there, all may go");
    is_int(from_guest(6990, 1001, WIRE_FIN | WIRE_ACK), FLOW_PASS, "and what was there before");
}

static void test_guest_ends_first(void)
{
    establish();
    from_guest(7001, 1001, WIRE_FIN | WIRE_ACK);
    ok(packet.flags & WIRE_FIN, "its FIN goes on");
    to_guest(1001, 7002, WIRE_ACK);
    ok(!flow_is_over(&flow), "half closed is not over");
    to_guest(1001, 7002, WIRE_FIN | WIRE_ACK);
    ok(!flow_is_over(&flow), "nor is an unacknowledged FIN");
    from_guest(7002, 1002, WIRE_ACK);
    ok(flow_is_over(&flow), "now it is");
}

static void test_client_ends_first(void)
{
    establish();
    to_guest(1001, 7001, WIRE_FIN | WIRE_ACK);
    from_guest(7001, 1002, WIRE_ACK);
    from_guest(7001, 1002, WIRE_FIN | WIRE_ACK);
    ok(!(packet.flags & WIRE_FIN), "the guest's FIN is held");
    is_int(wire_l4_sum(&packet), 0, "what goes on has a right checksum");
    ok(flow_fin_is_due(&flow), "it is due");
    uint8_t fin[WIRE_TCP_FRAME_BYTES];
    struct packet p;
    flow_release_fin(&flow, fin);
    wire_parse(&p, fin, sizeof(fin));
    is_int(p.seq, 7001, "at its place");
    is_int(p.ack, 1002, "acknowledging all");
    is_int(p.dport, STACK_PORT, "for libslirp");
    is_int(wire_l4_sum(&p), 0, "well made");
    ok(!flow_fin_is_due(&flow), "once");
    to_guest(1002, 7002, WIRE_ACK);
    ok(flow_is_over(&flow), "and it is over");
}

static void test_held_fin_waits_for_data(void)
{
    establish();
    to_guest(1001, 7001, WIRE_FIN | WIRE_ACK);
    from_guest(7001, 1002, WIRE_ACK);
    to_guest(1002, 7000, WIRE_ACK); // libslirp has not got all of it
    from_guest(7000, 1002, WIRE_FIN | WIRE_ACK);
    to_guest(1002, 6999, WIRE_ACK);
    ok(!flow_fin_is_due(&flow), "not while data before it is missing");
    to_guest(1002, 7000, WIRE_ACK);
    ok(flow_fin_is_due(&flow), "but then");
}

static void test_resets(void)
{
    struct packet p;
    start();
    flow_reset_stack(&flow, frame);
    wire_parse(&p, frame, sizeof(frame));
    is_int(p.ack, 1001, "libslirp is refused as a SYN is");
    establish();
    flow_reset_guest(&flow, frame);
    wire_parse(&p, frame, sizeof(frame));
    is_int(p.seq, 1001, "the guest takes only the exact number");
    is_int(p.dport, GUEST_PORT, "at its port");
}

int main(void)
{
    test_names();
    test_answers();
    test_holes();
    test_guest_ends_first();
    test_client_ends_first();
    test_held_fin_waits_for_data();
    test_resets();
    return tap_done();
}
