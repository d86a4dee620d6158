// SPDX-License-Identifier: Apache-2.0
// The limit of segments that libslirp keeps after holes, and the connection of a segment.
#include <string.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/netd/stack/outward.h"
#include "tests/lib/harness/tap.h"

#define SERVER 0x08080404u
#define FIRST  0xfffffff0u

static uint8_t frame[WIRE_TCP_FRAME_BYTES];
static struct packet packet;

static const struct packet *from_guest(uint16_t sport, uint16_t dport, uint32_t seq, uint8_t flags)
{
    const struct tcp_head h = {WIRE_GUEST_IP, SERVER, sport, dport, seq, 0, flags, 100};
    wire_make_tcp(frame, &h, false);
    wire_parse(&packet, frame, sizeof frame);
    return &packet;
}

// Holes of one number each, until no more may wait.
static int leave_holes(struct behind *b, uint32_t seq)
{
    int taken = 0;
    while (taken <= BEHIND_MAX && behind_take(b, from_guest(1, 2, seq, WIRE_FIN | WIRE_ACK))) {
        seq += 2;
        taken++;
    }
    return taken;
}

static void test_holes(void)
{
    struct behind a, b;
    int all = 0;
    behind_begin(&a, &all, FIRST);
    behind_begin(&b, &all, 5000);
    ok(behind_take(&a, from_guest(1, 2, FIRST, WIRE_FIN | WIRE_ACK)) && all == 0, "what is next");
    is_int(leave_holes(&a, FIRST + 3), BEHIND_MAX, "so many wait, past 2^32 too");
    is_int(leave_holes(&b, 5001), 0, "of all connections");
    ok(behind_take(&b, from_guest(1, 2, 5000, WIRE_FIN | WIRE_ACK)), "what is next may always go");
    ok(behind_take(&b, from_guest(1, 2, 9000, WIRE_ACK)), "and what takes no number");
    behind_note_ack(&a, FIRST + 5);
    is_int(all, BEHIND_MAX, "some progress gives no room");
    ok(behind_take(&a, from_guest(1, 2, FIRST + 5, WIRE_FIN | WIRE_ACK)), "and goes on");
    behind_note_ack(&a, FIRST + 3 + 2 * (BEHIND_MAX - 1) + 1);
    is_int(all, 0, "all that was given does");
    is_int(leave_holes(&b, 5002), BEHIND_MAX, "to others too");
    behind_end(&b);
    behind_end(&b);
    is_int(all, 0, "and the end of a connection");
    struct behind none = {.count = 0};
    behind_end(&none);
}

// ---- the list

static const struct outward *found(struct outward_list *l, uint16_t sport, uint16_t dport)
{
    return outward_list_find(l, sport, SERVER, dport);
}

static void test_list(void)
{
    struct outward_list *l auto_free = xcalloc(1, sizeof *l);
    int all = 0;
    for (int fd = 7; fd < 10; fd++)
        outward_list_add(l, fd, from_guest(40000, (uint16_t)(440 + fd), 100, WIRE_SYN), &all);
    outward_list_add(l, POLLSET_MAX - 1, from_guest(0, 65535, 200, WIRE_SYN), &all);
    ok(found(l, 40000, 447) == &l->items[7] && found(l, 40000, 449) == &l->items[9], "by ports");
    ok(found(l, 0, 65535) == &l->items[POLLSET_MAX - 1] && found(l, 0, 65535)->first_seq == 200,
       "the last descriptor");
    ok(!found(l, 40000, 450) && !found(l, 40001, 447) &&
           !outward_list_find(l, 40000, SERVER + 1, 447),
       "no others");
    outward_list_remove(l, 8);
    ok(!found(l, 40000, 448) && found(l, 40000, 447) && found(l, 40000, 449), "one of the middle");
    outward_list_remove(l, 9);
    outward_list_remove(l, 7);
    ok(!found(l, 40000, 447) && !found(l, 40000, 449), "and the rest");
    outward_list_add(l, 8, from_guest(40000, 448, 300, WIRE_SYN), &all);
    is_int(found(l, 40000, 448)->first_seq, 300, "and again");
}

static void test_acknowledgments(void)
{
    struct outward_list *l auto_free = xcalloc(1, sizeof *l);
    int all = 0;
    outward_list_add(l, 7, from_guest(40000, 443, 100, WIRE_SYN), &all);
    struct behind *b = &l->items[7].behind;
    ok(behind_take(b, from_guest(40000, 443, 102, WIRE_FIN | WIRE_ACK)) && all == 1, "one waits");
    const uint8_t flags[] = {WIRE_RST | WIRE_ACK, WIRE_FIN, WIRE_ACK};
    for (size_t i = 0; i < sizeof flags; i++) {
        const struct tcp_head h = {SERVER, WIRE_GUEST_IP, 443, 40000, 500, 103, flags[i], 100};
        wire_make_tcp(frame, &h, true);
        outward_list_note(l, frame, 10);
        is_int(all, 1, "what is no frame says nothing, nor what acknowledges nothing");
        outward_list_note(l, frame, sizeof frame);
    }
    is_int(all, 0, "an acknowledgment does");
    outward_list_remove(l, 7);
}

int main(void)
{
    test_holes();
    test_list();
    test_acknowledgments();
    return tap_done();
}
