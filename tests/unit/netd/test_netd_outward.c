// SPDX-License-Identifier: Apache-2.0
// Outward connections that netd ends: the frames that end them, and which handshakes are late.
#include <string.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/netd/stack/outward.h"
#include "tests/lib/harness/tap.h"

#define SERVER 0x08080404u
#define WINDOW (128 * 1024)

static const struct outward outward = {
    .to = {SERVER, 443, WIRE_PROTO_TCP}, .guest_port = 40000, .first_seq = 0xfffffff0u};
static uint8_t frame[WIRE_TCP_FRAME_BYTES];
static struct packet packet;

static const struct packet *parsed(void)
{
    ok(!wire_parse(&packet, frame, sizeof frame) && wire_l4_sum(&packet) == 0, "a frame");
    return &packet;
}

// libslirp answers what begins behind its window, and takes no notice of what lies before.
static int questions_answered(uint32_t sent)
{
    int count = 0;
    for (int i = 0; i < OUTWARD_QUESTIONS; i++) {
        outward_ask(&outward, i, frame);
        wire_parse(&packet, frame, sizeof frame);
        count += (int32_t)(packet.seq - (outward.first_seq + 1 + sent)) > WINDOW;
    }
    return count;
}

static void test_questions(void)
{
    outward_ask(&outward, 0, frame);
    const struct packet *p = parsed();
    ok(p->src == WIRE_GUEST_IP && p->dst == SERVER && p->sport == 40000 && p->dport == 443,
       "in the guest's name");
    is_int(p->flags, 0, "that changes nothing");
    int least = OUTWARD_QUESTIONS;
    for (uint64_t sent = 0; sent <= UINT32_MAX; sent += 1 << 20) {
        int count = questions_answered((uint32_t)sent);
        least = count < least ? count : least;
    }
    ok(least >= 1, "one is answered, whatever was sent before");
}

static struct outward_numbers note(uint32_t src, uint16_t sport, uint16_t dport, uint8_t flags)
{
    struct outward_numbers n = {0};
    struct tcp_head h = {src, WIRE_GUEST_IP, sport, dport, 500, 600, flags, 100};
    wire_make_tcp(frame, &h, true);
    outward_note(&outward, frame, sizeof frame, &n);
    return n;
}

static void test_numbers(void)
{
    struct outward_numbers n = note(SERVER, 443, 40000, WIRE_SYN | WIRE_ACK);
    ok(n.are_known && n.next == 501 && n.ack == 600, "of a handshake");
    n = note(SERVER, 443, 40000, WIRE_ACK);
    ok(n.are_known && n.next == 500 && n.ack == 600, "of what is open");
    ok(!note(SERVER + 1, 443, 40000, WIRE_ACK).are_known, "not another server's");
    ok(!note(SERVER, 444, 40000, WIRE_ACK).are_known, "not another port's");
    ok(!note(SERVER, 443, 40001, WIRE_ACK).are_known, "not another connection's");
    ok(!note(SERVER, 443, 40000, WIRE_RST).are_known, "a reset has none");
    ok(!note(SERVER, 443, 40000, WIRE_RST | WIRE_ACK).are_known, "whatever its flags");
    struct outward_numbers kept = {.are_known = true, .next = 1, .ack = 2};
    outward_note(&outward, frame, 10, &kept);
    ok(kept.next == 1 && kept.ack == 2, "nor a frame that is none");
}

static void test_resets(void)
{
    const struct outward_numbers n = {.are_known = true, .next = 501, .ack = 600};
    outward_reset_stack(&outward, &n, frame);
    const struct packet *p = parsed();
    ok(p->flags & WIRE_RST && p->src == WIRE_GUEST_IP && p->dst == SERVER && p->seq == 600,
       "for libslirp: what it expects next");
    outward_reset_guest(&outward, &n, frame);
    p = parsed();
    ok(p->flags & WIRE_RST && p->src == SERVER && p->dst == WIRE_GUEST_IP && p->dport == 40000 &&
           p->seq == 501 && p->ack == 600,
       "for the guest: what it expects next");
}

static void test_late(void)
{
    struct halfopen *h auto_free = xcalloc(1, sizeof *h);
    is_int(halfopen_late(h, 1 << 30), -1, "none of none");
    halfopen_begin(h, 7, 1000);
    halfopen_begin(h, 9, 2000);
    halfopen_begin(h, 5, 3000);
    is_int(halfopen_late(h, 1000 + HALFOPEN_MS - 1), -1, "not yet");
    is_int(halfopen_late(h, 1000 + HALFOPEN_MS), 7, "the first");
    halfopen_end(h, 7);
    halfopen_end(h, 7);
    is_int(h->count, 2, "ended once");
    is_int(halfopen_late(h, 1000 + HALFOPEN_MS), -1, "only that one");
    halfopen_end(h, 9);
    is_int(halfopen_late(h, 2000 + HALFOPEN_MS), -1, "what was ended is not late");
    is_int(halfopen_late(h, 3000 + HALFOPEN_MS), 5, "the last");
    halfopen_begin(h, 5, 9000);
    is_int(halfopen_late(h, 3000 + HALFOPEN_MS), -1, "begun again");
    halfopen_end(h, 5);
    halfopen_begin(h, 1, 50000);
    is_int(halfopen_late(h, 49999 + HALFOPEN_MS), -1, "and after a pause");
    is_int(halfopen_late(h, 50000 + HALFOPEN_MS), 1, "again");
}

int main(void)
{
    test_questions();
    test_numbers();
    test_resets();
    test_late();
    return tap_done();
}
