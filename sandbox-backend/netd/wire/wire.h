// SPDX-License-Identifier: Apache-2.0
// Ethernet, ARP, IPv4, TCP and UDP as bytes: a strict parser, checksums, and newly made frames.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// The addresses of one sandbox's network. The guest configures its side statically (guest/init).
#define WIRE_GUEST_IP   0x0a00020fu // 10.0.2.15
#define WIRE_GATEWAY_IP 0x0a000202u // 10.0.2.2
#define WIRE_DNS_IP     0x0a000203u // 10.0.2.3
#define WIRE_NETWORK    0x0a000200u // 10.0.2.0
#define WIRE_NETMASK    0xffffff00u

// The largest packet in one frame, for both sides. It is large on purpose: a guest with this MTU
// moves a megabyte in 20 frames instead of 700. A guest that uses an MTU of 1500 says so in its TCP
// handshake.
#define WIRE_MTU 65520

#define WIRE_ETH_BYTES  14
#define WIRE_IPV4_BYTES 20
#define WIRE_TCP_BYTES  20
#define WIRE_UDP_BYTES  8
#define WIRE_ICMP_BYTES 8
#define WIRE_ARP_BYTES  28
#define WIRE_HEAD_BYTES (WIRE_ETH_BYTES + WIRE_IPV4_BYTES)

#define WIRE_TYPE_IPV4 0x0800
#define WIRE_TYPE_ARP  0x0806
#define WIRE_TYPE_IPV6 0x86dd

#define WIRE_PROTO_ICMP 1
#define WIRE_PROTO_IGMP 2
#define WIRE_PROTO_TCP  6
#define WIRE_PROTO_UDP  17

#define WIRE_FIN 0x01
#define WIRE_SYN 0x02
#define WIRE_RST 0x04
#define WIRE_ACK 0x10
#define WIRE_URG 0x20

#define WIRE_ICMP_ECHO 8

extern const uint8_t wire_guest_mac[6];   // 52:54:00:c0:bb:01
extern const uint8_t wire_gateway_mac[6]; // 52:55 and the address, as libslirp has it
extern const uint8_t wire_dns_mac[6];

// A parsed frame. Addresses, ports and numbers are in host order. The pointers lead into the frame,
// which belongs to the caller.
struct packet {
    uint8_t *frame; // the Ethernet header
    size_t len;     // to the end of the IP packet; padding after it does not count
    uint16_t type;  // ethertype; the fields below are set for IPv4 only
    uint8_t *l4;
    size_t l4_len;
    uint32_t src, dst;
    uint8_t proto;
    uint16_t sport, dport; // TCP and UDP
    uint32_t seq, ack;     // TCP
    uint32_t seq_len;      // TCP: length of the payload, plus one each for SYN and FIN
    uint8_t flags;         // TCP
    uint16_t window;       // TCP
    size_t payload_len;    // TCP and UDP
    uint8_t icmp_type;     // ICMP
};

// Parse a frame of the guest, which is not trusted. Return NULL when it is well formed, else a text
// for the log that names the fault. Well-formed IPv4 has no options, is no fragment, fits in the
// frame, and has a TCP, UDP or ICMP header that fits in it. Only the checksum of the IPv4 header is
// verified.
const char *wire_parse(struct packet *p, uint8_t *frame, size_t len);

uint16_t wire_get16(const uint8_t *p);
uint32_t wire_get32(const uint8_t *p);
void wire_put16(uint8_t *p, uint16_t v);
void wire_put32(uint8_t *p, uint32_t v);

// Return the Internet checksum (RFC 1071) of the packet's TCP, UDP or ICMP part; 0 when the stored
// one is right.
uint16_t wire_l4_sum(const struct packet *p);

// Change a TCP packet in place and update its checksum (RFC 1624).
void wire_set_ports(struct packet *p, uint16_t sport, uint16_t dport);
void wire_clear_urgent(struct packet *p);
void wire_clear_flag(struct packet *p, uint8_t flag); // SYN and FIN give up their sequence number

struct tcp_head {
    uint32_t src, dst;
    uint16_t sport, dport;
    uint32_t seq, ack;
    uint8_t flags;
    uint16_t window;
};
#define WIRE_TCP_FRAME_BYTES (WIRE_HEAD_BYTES + WIRE_TCP_BYTES)
// Make a TCP frame without data, between the gateway's and the guest's Ethernet addresses.
void wire_make_tcp(uint8_t out[WIRE_TCP_FRAME_BYTES], const struct tcp_head *h, bool to_guest);

// Make the Ethernet and IPv4 headers of a packet of `l4_len` bytes from `src` to the guest.
void wire_make_head(uint8_t out[WIRE_HEAD_BYTES], uint32_t src, uint8_t proto, size_t l4_len);
uint16_t wire_sum(const uint8_t *data, size_t len, uint32_t start);

#define WIRE_ARP_FRAME_BYTES (WIRE_ETH_BYTES + WIRE_ARP_BYTES)
enum wire_arp_op { WIRE_ARP_REQUEST = 1, WIRE_ARP_REPLY = 2 };
// Make one ARP frame: "sender_ip is at sender_mac", to the guest or in its name.
void wire_make_arp(uint8_t out[WIRE_ARP_FRAME_BYTES], enum wire_arp_op op,
                   const uint8_t sender_mac[6], uint32_t sender_ip, const uint8_t target_mac[6],
                   uint32_t target_ip);

// An ICMP error quotes the IP header and at least 8 bytes (RFC 792); more is not needed.
#define WIRE_REFUSAL_QUOTE_BYTES (WIRE_IPV4_BYTES + 8)
#define WIRE_REFUSAL_MAX_BYTES   (WIRE_HEAD_BYTES + WIRE_ICMP_BYTES + WIRE_REFUSAL_QUOTE_BYTES)

// Make the answer to a refused packet that wire_parse() accepted, so that the guest's program fails
// at once: a TCP reset, or ICMP "unreachable". Return its length; 0 when the packet
// must not be answered (a reset, an ICMP error: RFC 1122, 3.2.2).
size_t wire_make_refusal(uint8_t out[WIRE_REFUSAL_MAX_BYTES], const struct packet *p);
