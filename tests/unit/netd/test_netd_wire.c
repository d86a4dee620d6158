// SPDX-License-Identifier: Apache-2.0
// Frames: parsed, changed and made.
#include <string.h>

#include "sandbox-backend/netd/wire/wire.h"
#include "tests/lib/harness/tap.h"

static const struct tcp_head syn = {
    .src = WIRE_GUEST_IP,
    .dst = 0x08080404,
    .sport = 40000,
    .dport = 443,
    .seq = 1000,
    .flags = WIRE_SYN,
    .window = 512,
};

static void test_made_is_parsed(void)
{
    uint8_t f[WIRE_TCP_FRAME_BYTES + 6] = {0};
    struct packet p;
    wire_make_tcp(f, &syn, false);
    is_str(wire_parse(&p, f, sizeof(f)), NULL, "a frame with padding is well formed");
    is_int(p.len, WIRE_TCP_FRAME_BYTES, "padding does not count");
    is_int(p.src, WIRE_GUEST_IP, "source");
    is_int(p.dst, 0x08080404, "destination");
    is_int(p.sport, 40000, "source port");
    is_int(p.dport, 443, "destination port");
    is_int(p.seq, 1000, "sequence number");
    is_int(p.seq_len, 1, "a SYN takes one number");
    is_int(p.window, 512, "window");
    is_int(wire_l4_sum(&p), 0, "the checksum is right");
}

static void test_every_truncation(void)
{
    uint8_t f[WIRE_TCP_FRAME_BYTES];
    struct packet p;
    wire_make_tcp(f, &syn, false);
    int accepted = 0;
    for (size_t len = 0; len < sizeof(f); len++)
        accepted += wire_parse(&p, f, len) == NULL;
    is_int(accepted, 0, "no truncated frame is accepted");
}

// Change one byte of the IPv4 header, and correct its checksum.
static const char *fault_with(size_t at, uint8_t value)
{
    uint8_t f[WIRE_TCP_FRAME_BYTES];
    struct packet p;
    wire_make_tcp(f, &syn, false);
    f[WIRE_ETH_BYTES + at] = value;
    wire_put16(f + WIRE_ETH_BYTES + 10, 0);
    wire_put16(f + WIRE_ETH_BYTES + 10, wire_sum(f + WIRE_ETH_BYTES, WIRE_IPV4_BYTES, 0));
    return wire_parse(&p, f, sizeof(f));
}

static void test_bad_headers(void)
{
    is_str(fault_with(0, 0x65), "not version 4", "version");
    is_str(fault_with(0, 0x46), "IPv4 options", "options");
    is_str(fault_with(0, 0x44), "IPv4 options", "a header that is too short");
    is_str(fault_with(2, 0xff), "bad IPv4 length", "a length past the frame");
    is_str(fault_with(3, 10), "bad IPv4 length", "a length below the header");
    is_str(fault_with(3, 39), "short TCP header", "a length below the TCP header");
    is_str(fault_with(6, 0x20), "fragment", "more fragments");
    is_str(fault_with(7, 0x01), "fragment", "a later fragment");
    is_str(fault_with(6, 0x80), "fragment", "the reserved bit");
    is_str(fault_with(8, 64), NULL, "and nothing wrong");
    uint8_t f[WIRE_TCP_FRAME_BYTES];
    struct packet p;
    wire_make_tcp(f, &syn, false);
    f[WIRE_ETH_BYTES + 10] ^= 1;
    is_str(wire_parse(&p, f, sizeof(f)), "bad IPv4 checksum", "checksum");
    wire_make_tcp(f, &syn, false);
    f[WIRE_HEAD_BYTES + 12] = 0x40;
    is_str(wire_parse(&p, f, sizeof(f)), "bad TCP header length", "a TCP header that is too short");
    f[WIRE_HEAD_BYTES + 12] = 0xf0;
    is_str(wire_parse(&p, f, sizeof(f)), "bad TCP header length", "a TCP header past the packet");
}

static void test_changes_keep_the_checksum(void)
{
    uint8_t f[WIRE_TCP_FRAME_BYTES];
    struct packet p;
    struct tcp_head h = syn;
    h.flags = WIRE_ACK | WIRE_URG | WIRE_FIN;
    wire_make_tcp(f, &h, false);
    wire_parse(&p, f, sizeof(f));
    is_int(p.seq_len, 1, "a FIN takes one number");
    int wrong = 0;
    for (uint32_t port = 0; port <= 0xffff; port += 251) {
        wire_set_ports(&p, (uint16_t)port, (uint16_t)(0xffff - port));
        wrong += wire_l4_sum(&p) != 0;
    }
    is_int(wrong, 0, "after changed ports");
    wire_put16(p.l4 + 18, 7);
    wire_put16(p.l4 + 16, 0);
    wire_put16(p.l4 + 16, wire_l4_sum(&p));
    wire_clear_urgent(&p);
    wire_clear_flag(&p, WIRE_FIN);
    is_int(wire_l4_sum(&p), 0, "after cleared flags");
    is_int(p.l4[13], WIRE_ACK, "urgent and FIN are gone");
    is_int(wire_get16(p.l4 + 18), 0, "and the urgent pointer");
    is_int(p.seq_len, 0, "nothing is left of the FIN");
}

static void check_reset(uint8_t flags, uint32_t seq, uint32_t ack, uint8_t want_flags,
                        uint32_t want_seq, uint32_t want_ack, const char *name)
{
    uint8_t f[WIRE_TCP_FRAME_BYTES], out[WIRE_REFUSAL_MAX_BYTES];
    struct packet p, r;
    struct tcp_head h = syn;
    h.flags = flags;
    h.seq = seq;
    h.ack = ack;
    wire_make_tcp(f, &h, false);
    wire_parse(&p, f, sizeof(f));
    size_t len = wire_make_refusal(out, &p);
    is_str(wire_parse(&r, out, len), NULL, "%s: well formed", name);
    is_int(wire_l4_sum(&r), 0, "%s: checksum", name);
    is_int(r.flags, want_flags, "%s: flags", name);
    is_int(r.seq, want_seq, "%s: sequence number", name);
    is_int(r.ack, want_ack, "%s: acknowledgment", name);
    ok(r.src == h.dst && r.dst == h.src && r.sport == h.dport && r.dport == h.sport,
       "%s: from where the packet went", name);
    ok(memcmp(out, wire_guest_mac, 6) == 0, "%s: for the guest", name);
}

static void test_reject(void)
{
    check_reset(WIRE_SYN, 1000, 0, WIRE_RST | WIRE_ACK, 0, 1001, "SYN");
    check_reset(WIRE_ACK, 1000, 77, WIRE_RST, 77, 0, "ACK");
    check_reset(WIRE_FIN, 0xffffffff, 0, WIRE_RST | WIRE_ACK, 0, 0, "FIN at the end of numbers");
    uint8_t f[WIRE_TCP_FRAME_BYTES], out[WIRE_REFUSAL_MAX_BYTES];
    struct packet p;
    struct tcp_head h = syn;
    h.flags = WIRE_RST;
    wire_make_tcp(f, &h, false);
    wire_parse(&p, f, sizeof(f));
    is_int(wire_make_refusal(out, &p), 0, "a reset is not answered");
}

int main(void)
{
    test_made_is_parsed();
    test_every_truncation();
    test_bad_headers();
    test_changes_keep_the_checksum();
    test_reject();
    return tap_done();
}
