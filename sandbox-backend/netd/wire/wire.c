// SPDX-License-Identifier: Apache-2.0
// Ethernet, ARP, IPv4, TCP and UDP as bytes.
#include "sandbox-backend/netd/wire/wire.h"

#include <string.h>

#define ICMP_UNREACHABLE      3
#define ICMP_PORT_UNREACHABLE 3
#define ICMP_ADMIN_PROHIBITED 13

const uint8_t wire_guest_mac[6] = {0x52, 0x54, 0x00, 0xc0, 0xbb, 0x01};
const uint8_t wire_gateway_mac[6] = {0x52, 0x55, 0x0a, 0x00, 0x02, 0x02};
const uint8_t wire_dns_mac[6] = {0x52, 0x55, 0x0a, 0x00, 0x02, 0x03};

uint16_t wire_get16(const uint8_t *p)
{
    return (uint16_t)(p[0] << 8 | p[1]);
}

uint32_t wire_get32(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

void wire_put16(uint8_t *p, uint16_t v)
{
    p[0] = (uint8_t)(v >> 8);
    p[1] = (uint8_t)v;
}

void wire_put32(uint8_t *p, uint32_t v)
{
    wire_put16(p, (uint16_t)(v >> 16));
    wire_put16(p + 2, (uint16_t)v);
}

// ---- checksums

static uint16_t fold(uint64_t sum)
{
    while (sum >> 16)
        sum = (sum & 0xffff) + (sum >> 16);
    return (uint16_t)sum;
}

uint16_t wire_sum(const uint8_t *data, size_t len, uint32_t start)
{
    uint64_t sum = start;
    for (size_t i = 0; i + 1 < len; i += 2)
        sum += wire_get16(data + i);
    if (len & 1)
        sum += (uint64_t)data[len - 1] << 8;
    return (uint16_t)~fold(sum);
}

static uint32_t pseudo_header_sum(uint32_t src, uint32_t dst, uint8_t proto, size_t len)
{
    return (src >> 16) + (src & 0xffff) + (dst >> 16) + (dst & 0xffff) + proto + (uint32_t)len;
}

uint16_t wire_l4_sum(const struct packet *p)
{
    bool has_pseudo = p->proto != WIRE_PROTO_ICMP;
    return wire_sum(p->l4, p->l4_len,
                    has_pseudo ? pseudo_header_sum(p->src, p->dst, p->proto, p->l4_len) : 0);
}

// RFC 1624, equation 3: the checksum after a change of one 16-bit field.
static void replace16(uint8_t *field, uint16_t value, uint8_t *sum)
{
    uint64_t s = (uint16_t)~wire_get16(sum);
    s += (uint16_t)~wire_get16(field);
    s += value;
    wire_put16(sum, (uint16_t)~fold(s));
    wire_put16(field, value);
}

// ---- parsing

static const char *parse_tcp(struct packet *p)
{
    if (p->l4_len < WIRE_TCP_BYTES)
        return "short TCP header";
    size_t head = (size_t)(p->l4[12] >> 4) * 4;
    if (head < WIRE_TCP_BYTES || head > p->l4_len)
        return "bad TCP header length";
    p->sport = wire_get16(p->l4);
    p->dport = wire_get16(p->l4 + 2);
    p->seq = wire_get32(p->l4 + 4);
    p->ack = wire_get32(p->l4 + 8);
    p->flags = p->l4[13];
    p->window = wire_get16(p->l4 + 14);
    p->payload_len = p->l4_len - head;
    p->seq_len =
        (uint32_t)p->payload_len + (p->flags & WIRE_SYN ? 1 : 0) + (p->flags & WIRE_FIN ? 1 : 0);
    return NULL;
}

static const char *parse_udp(struct packet *p)
{
    if (p->l4_len < WIRE_UDP_BYTES)
        return "short UDP header";
    if (wire_get16(p->l4 + 4) != p->l4_len)
        return "bad UDP length";
    p->sport = wire_get16(p->l4);
    p->dport = wire_get16(p->l4 + 2);
    p->payload_len = p->l4_len - WIRE_UDP_BYTES;
    return NULL;
}

static const char *parse_icmp(struct packet *p)
{
    if (p->l4_len < WIRE_ICMP_BYTES)
        return "short ICMP header";
    p->icmp_type = p->l4[0];
    return NULL;
}

static const char *parse_ipv4(struct packet *p, size_t len)
{
    const uint8_t *ip = p->frame + WIRE_ETH_BYTES;
    if (len < WIRE_HEAD_BYTES)
        return "short IPv4 header";
    if (ip[0] >> 4 != 4)
        return "not version 4";
    p->proto = ip[9];
    p->src = wire_get32(ip + 12);
    p->dst = wire_get32(ip + 16);
    if ((ip[0] & 0xf) * 4 != WIRE_IPV4_BYTES)
        return "IPv4 options";
    size_t total = wire_get16(ip + 2);
    if (total < WIRE_IPV4_BYTES || total > len - WIRE_ETH_BYTES)
        return "bad IPv4 length";
    if (wire_get16(ip + 6) & 0xbfff) // all but "don't fragment"
        return "fragment";
    if (wire_sum(ip, WIRE_IPV4_BYTES, 0) != 0)
        return "bad IPv4 checksum";
    p->len = WIRE_ETH_BYTES + total;
    p->l4 = p->frame + WIRE_HEAD_BYTES;
    p->l4_len = total - WIRE_IPV4_BYTES;
    switch (p->proto) {
    case WIRE_PROTO_TCP:
        return parse_tcp(p);
    case WIRE_PROTO_UDP:
        return parse_udp(p);
    case WIRE_PROTO_ICMP:
        return parse_icmp(p);
    default:
        return NULL;
    }
}

const char *wire_parse(struct packet *p, uint8_t *frame, size_t len)
{
    *p = (struct packet){.frame = frame, .len = len};
    if (len < WIRE_ETH_BYTES)
        return "short frame";
    p->type = wire_get16(frame + 12);
    return p->type == WIRE_TYPE_IPV4 ? parse_ipv4(p, len) : NULL;
}

// ---- changing

void wire_set_ports(struct packet *p, uint16_t sport, uint16_t dport)
{
    replace16(p->l4, sport, p->l4 + 16);
    replace16(p->l4 + 2, dport, p->l4 + 16);
    p->sport = sport;
    p->dport = dport;
}

void wire_clear_flag(struct packet *p, uint8_t flag)
{
    uint16_t offset_and_flags = wire_get16(p->l4 + 12);
    if (p->flags & flag & (WIRE_SYN | WIRE_FIN))
        p->seq_len--;
    replace16(p->l4 + 12, (uint16_t)(offset_and_flags & ~flag), p->l4 + 16);
    p->flags &= (uint8_t)~flag;
}

void wire_clear_urgent(struct packet *p)
{
    wire_clear_flag(p, WIRE_URG);
    replace16(p->l4 + 18, 0, p->l4 + 16);
}

// ---- making

static void make_eth(uint8_t *out, bool to_guest, uint16_t type)
{
    memcpy(out, to_guest ? wire_guest_mac : wire_gateway_mac, 6);
    memcpy(out + 6, to_guest ? wire_gateway_mac : wire_guest_mac, 6);
    wire_put16(out + 12, type);
}

static void make_ipv4(uint8_t *ip, uint32_t src, uint32_t dst, uint8_t proto, size_t l4_len)
{
    memset(ip, 0, WIRE_IPV4_BYTES);
    ip[0] = 0x45;
    wire_put16(ip + 2, (uint16_t)(WIRE_IPV4_BYTES + l4_len));
    wire_put16(ip + 6, 0x4000);
    ip[8] = 64;
    ip[9] = proto;
    wire_put32(ip + 12, src);
    wire_put32(ip + 16, dst);
    wire_put16(ip + 10, wire_sum(ip, WIRE_IPV4_BYTES, 0));
}

void wire_make_head(uint8_t out[WIRE_HEAD_BYTES], uint32_t src, uint8_t proto, size_t l4_len)
{
    make_eth(out, true, WIRE_TYPE_IPV4);
    make_ipv4(out + WIRE_ETH_BYTES, src, WIRE_GUEST_IP, proto, l4_len);
}

void wire_make_tcp(uint8_t out[WIRE_TCP_FRAME_BYTES], const struct tcp_head *h, bool to_guest)
{
    uint8_t *tcp = out + WIRE_HEAD_BYTES;
    make_eth(out, to_guest, WIRE_TYPE_IPV4);
    make_ipv4(out + WIRE_ETH_BYTES, h->src, h->dst, WIRE_PROTO_TCP, WIRE_TCP_BYTES);
    memset(tcp, 0, WIRE_TCP_BYTES);
    wire_put16(tcp, h->sport);
    wire_put16(tcp + 2, h->dport);
    wire_put32(tcp + 4, h->seq);
    wire_put32(tcp + 8, h->ack);
    tcp[12] = WIRE_TCP_BYTES / 4 << 4;
    tcp[13] = h->flags;
    wire_put16(tcp + 14, h->window);
    uint32_t pseudo = pseudo_header_sum(h->src, h->dst, WIRE_PROTO_TCP, WIRE_TCP_BYTES);
    wire_put16(tcp + 16, wire_sum(tcp, WIRE_TCP_BYTES, pseudo));
}

void wire_make_arp(uint8_t out[WIRE_ARP_FRAME_BYTES], enum wire_arp_op op,
                   const uint8_t sender_mac[6], uint32_t sender_ip, const uint8_t target_mac[6],
                   uint32_t target_ip)
{
    static const uint8_t ethernet_and_ipv4[6] = {0, 1, 8, 0, 6, 4};
    uint8_t *arp = out + WIRE_ETH_BYTES;
    memcpy(out, target_mac, 6);
    memcpy(out + 6, sender_mac, 6);
    wire_put16(out + 12, WIRE_TYPE_ARP);
    memcpy(arp, ethernet_and_ipv4, 6);
    wire_put16(arp + 6, op);
    memcpy(arp + 8, sender_mac, 6);
    wire_put32(arp + 14, sender_ip);
    memcpy(arp + 18, target_mac, 6);
    wire_put32(arp + 24, target_ip);
}

// ---- refusing

// RFC 9293, 3.10.7.1: the reset for a segment of a connection that does not exist.
static size_t refuse_tcp(uint8_t *out, const struct packet *p)
{
    if (p->flags & WIRE_RST)
        return 0;
    bool has_ack = p->flags & WIRE_ACK;
    struct tcp_head h = {
        .src = p->dst,
        .dst = p->src,
        .sport = p->dport,
        .dport = p->sport,
        .seq = has_ack ? p->ack : 0,
        .ack = has_ack ? 0 : p->seq + p->seq_len,
        .flags = has_ack ? WIRE_RST : WIRE_RST | WIRE_ACK,
    };
    wire_make_tcp(out, &h, true);
    return WIRE_TCP_FRAME_BYTES;
}

static size_t refuse_icmp(uint8_t *out, const struct packet *p)
{
    if (p->proto == WIRE_PROTO_ICMP && p->icmp_type != WIRE_ICMP_ECHO)
        return 0;
    size_t quote = p->len - WIRE_ETH_BYTES;
    if (quote > WIRE_REFUSAL_QUOTE_BYTES)
        quote = WIRE_REFUSAL_QUOTE_BYTES;
    uint8_t *icmp = out + WIRE_HEAD_BYTES;
    wire_make_head(out, WIRE_GATEWAY_IP, WIRE_PROTO_ICMP, WIRE_ICMP_BYTES + quote);
    memset(icmp, 0, WIRE_ICMP_BYTES);
    icmp[0] = ICMP_UNREACHABLE;
    // Only the code for a closed port makes every guest kernel report an error to the program that
    // sent the datagram: gVisor's network stack reports none for the other code.
    icmp[1] = p->proto == WIRE_PROTO_UDP ? ICMP_PORT_UNREACHABLE : ICMP_ADMIN_PROHIBITED;
    memcpy(icmp + WIRE_ICMP_BYTES, p->frame + WIRE_ETH_BYTES, quote);
    wire_put16(icmp + 2, wire_sum(icmp, WIRE_ICMP_BYTES + quote, 0));
    return WIRE_HEAD_BYTES + WIRE_ICMP_BYTES + quote;
}

size_t wire_make_refusal(uint8_t out[WIRE_REFUSAL_MAX_BYTES], const struct packet *p)
{
    return p->proto == WIRE_PROTO_TCP ? refuse_tcp(out, p) : refuse_icmp(out, p);
}
