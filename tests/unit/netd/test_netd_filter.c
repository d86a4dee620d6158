// SPDX-License-Identifier: Apache-2.0
// The filter's decision about a guest's frame, by its form and by its address.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/netd/policy/filter.h"
#include "tests/lib/harness/tap.h"

static struct policy policy;
static struct filter_result result;

static uint32_t ip(const char *text)
{
    unsigned a, b, c, d;
    if (sscanf(text, "%u.%u.%u.%u", &a, &b, &c, &d) != 4)
        abort();
    return a << 24 | b << 16 | c << 8 | d;
}

#define PUBLIC "{}"
#define NONE   "{\"internet\": false}"

static void set_rules(const char *text)
{
    struct net_policy rules;
    struct err e = ERR_INIT;
    json_t *json = json_parse(text, strlen(text), &e);
    if (!json || net_policy_from_json(&rules, json, &e) < 0)
        abort();
    policy_fini(&policy);
    policy_init(&policy, &rules);
    net_policy_fini(&rules);
    json_decref(json);
}

static void reset_policy(const char *text)
{
    struct cidr *host = calloc(2, sizeof(*host));
    host[0] = (struct cidr){ip("8.8.4.1"), 32};
    host[1] = (struct cidr){ip("9.9.0.0"), 16};
    set_rules(text);
    policy_set_host(&policy, host, 2);
}

static enum filter_verdict judge(uint8_t *frame, size_t len)
{
    filter_from_guest(&policy, frame, len, &result);
    return result.verdict;
}

static enum filter_verdict judge_tcp(const char *dst, uint16_t dport, uint8_t flags)
{
    static uint8_t f[WIRE_TCP_FRAME_BYTES];
    struct tcp_head h = {.src = WIRE_GUEST_IP,
                         .dst = ip(dst),
                         .sport = 40000,
                         .dport = dport,
                         .seq = 1,
                         .flags = flags};
    wire_make_tcp(f, &h, false);
    return judge(f, sizeof(f));
}

// Any protocol: `l4` is put behind headers from the guest.
static enum filter_verdict judge_ip(uint8_t proto, const char *dst, const uint8_t *l4, size_t len)
{
    static uint8_t f[WIRE_HEAD_BYTES + 64];
    wire_make_head(f, WIRE_GUEST_IP, proto, len);
    memcpy(f, wire_gateway_mac, 6);
    memcpy(f + 6, wire_guest_mac, 6);
    wire_put32(f + WIRE_ETH_BYTES + 16, ip(dst));
    wire_put16(f + WIRE_ETH_BYTES + 10, 0);
    wire_put16(f + WIRE_ETH_BYTES + 10, wire_sum(f + WIRE_ETH_BYTES, WIRE_IPV4_BYTES, 0));
    memcpy(f + WIRE_HEAD_BYTES, l4, len);
    return judge(f, WIRE_HEAD_BYTES + len);
}

static enum filter_verdict judge_udp(const char *dst, uint16_t dport)
{
    uint8_t udp[WIRE_UDP_BYTES + 4] = {0};
    wire_put16(udp, 5000);
    wire_put16(udp + 2, dport);
    wire_put16(udp + 4, sizeof(udp));
    return judge_ip(WIRE_PROTO_UDP, dst, udp, sizeof(udp));
}

static const char *const denied[] = {
    "0.0.0.0",         "0.255.1.1",     "10.0.0.1",    "10.0.2.4",        "10.255.255.254",
    "100.64.0.1",      "100.127.255.9", "127.0.0.1",   "127.255.255.254", "168.63.129.16",
    "169.254.169.254", "169.254.0.1",   "172.16.0.1",  "172.31.255.255",  "192.0.0.1",
    "192.0.2.1",       "192.88.99.1",   "192.168.0.1", "192.168.255.255", "198.18.0.1",
    "198.19.255.255",  "198.51.100.1",  "203.0.113.1", "240.0.0.1",       "255.255.255.254",
    "8.8.4.1",         "9.9.0.0",       "9.9.255.255", "10.0.2.15",
};
static const char *const allowed[] = {
    "1.1.1.1",     "8.8.4.4",     "9.8.255.255", "9.10.0.0",      "11.0.0.1",      "100.63.255.255",
    "100.128.0.1", "126.255.0.1", "128.0.0.1",   "168.63.129.17", "169.253.0.1",   "169.255.0.1",
    "172.15.0.1",  "172.32.0.1",  "191.255.0.1", "192.0.1.1",     "192.167.0.1",   "192.169.0.1",
    "198.17.0.1",  "198.20.0.1",  "203.0.112.1", "203.0.114.1",   "223.255.255.1",
};

static void test_addresses(void)
{
    reset_policy(PUBLIC);
    for (size_t i = 0; i < sizeof(denied) / sizeof(*denied); i++) {
        is_int(judge_tcp(denied[i], 80, WIRE_SYN), FILTER_ANSWER, "TCP to %s is reset", denied[i]);
        is_int(judge_udp(denied[i], 80), FILTER_ANSWER, "UDP to %s is prohibited", denied[i]);
        is_int(judge_tcp(denied[i], 80, WIRE_ACK), FILTER_ANSWER, "nor mid-stream");
    }
    for (size_t i = 0; i < sizeof(allowed) / sizeof(*allowed); i++) {
        is_int(judge_tcp(allowed[i], 80, WIRE_SYN), FILTER_STACK, "TCP to %s may go", allowed[i]);
        is_int(judge_udp(allowed[i], 80), FILTER_STACK, "UDP to %s may go", allowed[i]);
    }
}

static void test_none(void)
{
    reset_policy(NONE);
    is_int(judge_tcp("8.8.4.4", 80, WIRE_SYN), FILTER_ANSWER, "none: TCP");
    is_str(result.why, "the network is off", "and the log says why");
    is_int(judge_udp("8.8.4.4", 80), FILTER_ANSWER, "none: UDP");
    is_int(judge_udp("10.0.2.3", 53), FILTER_NAME,
           "none: DNS, which is told that there is no name");
    is_int(judge_tcp("10.0.2.3", 53, WIRE_SYN), FILTER_ANSWER, "none: DNS over TCP");
    is_int(judge_tcp("10.0.2.2", 999, WIRE_ACK), FILTER_INWARD, "none: inward connections work");
}

static void test_gateway(void)
{
    reset_policy(PUBLIC);
    is_int(judge_udp("10.0.2.3", 53), FILTER_STACK, "DNS");
    is_int(judge_tcp("10.0.2.3", 53, WIRE_SYN), FILTER_STACK, "DNS over TCP");
    is_int(judge_udp("10.0.2.3", 5353), FILTER_ANSWER, "no other port of the name server");
    is_int(judge_tcp("10.0.2.3", 80, WIRE_SYN), FILTER_ANSWER, "nor with TCP");
    is_int(judge_tcp("10.0.2.2", 22, WIRE_SYN), FILTER_INWARD, "TCP to the gateway is inward.c's");
    is_int(judge_udp("10.0.2.2", 53), FILTER_ANSWER, "no UDP of the gateway");
    is_int(judge_udp("10.0.2.2", 69), FILTER_ANSWER, "no TFTP");
    is_int(judge_udp("10.0.2.2", 67), FILTER_ANSWER, "no DHCP");
    is_int(judge_udp("255.255.255.255", 67), FILTER_DROP, "no broadcast");
    is_int(judge_udp("10.0.2.255", 80), FILTER_DROP, "nor the network's");
    is_int(judge_udp("224.0.0.251", 5353), FILTER_DROP, "no multicast");
    set_rules(PUBLIC);
    is_int(judge_tcp("8.8.4.4", 80, WIRE_SYN), FILTER_ANSWER, "nothing before the host is known");
}

static void test_lists(void)
{
    reset_policy("{\"denyOut\": [\"1.0.0.0/8\", \"8.8.8.8\"], \"allowOut\": [\"1.1.1.0/24\"]}");
    is_int(judge_tcp("1.2.3.4", 80, WIRE_SYN), FILTER_ANSWER, "denied by its network");
    is_str(result.why, "in the deny list", "and the log says so");
    is_int(judge_udp("8.8.8.8", 53), FILTER_ANSWER, "denied by its address");
    is_int(judge_tcp("1.1.1.9", 80, WIRE_SYN), FILTER_STACK, "allowed wins over denied");
    is_int(judge_tcp("8.8.4.4", 80, WIRE_SYN), FILTER_STACK, "others are as public as ever");
    is_int(judge_udp("10.0.2.3", 53), FILTER_STACK, "and names are resolved");
    reset_policy("{\"denyOut\": [\"0.0.0.0/0\"], \"allowOut\": [\"8.8.4.4\"]}");
    is_int(judge_tcp("8.8.4.4", 80, WIRE_SYN), FILTER_STACK, "the only one that is allowed");
    is_int(judge_tcp("8.8.4.5", 80, WIRE_SYN), FILTER_ANSWER, "all else is denied");
    is_int(judge_udp("10.0.2.3", 53), FILTER_NAME, "names are netd's to refuse");
    is_int(judge_tcp("10.0.2.3", 53, WIRE_SYN), FILTER_ANSWER, "over UDP only");
    is_int(judge_tcp("10.0.2.2", 9, WIRE_ACK), FILTER_INWARD, "inward connections work");
    reset_policy("{\"internet\": false, \"allowOut\": [\"0.0.0.0/0\"]}");
    is_int(judge_tcp("8.8.4.4", 80, WIRE_SYN), FILTER_STACK, "everything public may be allowed");
    is_int(judge_tcp("8.8.4.1", 80, WIRE_SYN), FILTER_ANSWER, "but not the host");
    is_int(judge_tcp("10.1.1.1", 80, WIRE_SYN), FILTER_ANSWER, "and nothing special");
}

static void test_special_in_allow_out(void)
{
    reset_policy("{\"special\": true, \"allowOut\": [\"10.0.0.0/8\", \"9.9.9.9\", \"0.0.0.0/0\"]}");
    is_int(judge_tcp("10.200.0.1", 80, WIRE_SYN), FILTER_STACK, "a private network by its name");
    is_int(judge_tcp("192.168.1.1", 80, WIRE_SYN), FILTER_ANSWER, "not another by a wide entry");
    is_int(judge_tcp("9.9.9.9", 80, WIRE_SYN), FILTER_STACK, "this host by its very address");
    is_int(judge_tcp("9.9.9.8", 80, WIRE_SYN), FILTER_ANSWER, "not by another");
    is_int(judge_udp("10.0.2.2", 80), FILTER_ANSWER, "never the sandbox's own network");
    is_int(judge_tcp("10.0.2.3", 80, WIRE_SYN), FILTER_ANSWER, "nor its name server");
    is_int(judge_tcp("10.0.2.99", 80, WIRE_SYN), FILTER_ANSWER, "nor any place of it");
}

static void test_names(void)
{
    int64_t now = clock_mono_ms();
    reset_policy("{\"denyOut\": [\"0.0.0.0/0\"], \"allowOut\": [\"a.example\", \"*.b.example\"]}");
    is_int(judge_udp("10.0.2.3", 53), FILTER_NAME, "questions are netd's own");
    is_int(judge_tcp("10.0.2.3", 53, WIRE_SYN), FILTER_ANSWER, "and none goes over TCP");
    is_int(judge_tcp("8.8.4.4", 80, WIRE_SYN), FILTER_ANSWER, "an address is closed");
    names_add(&policy.names, "a.example", ip("8.8.4.4"), 5, now);
    names_add(&policy.names, "x.b.example", ip("8.8.4.5"), 5, now);
    names_add(&policy.names, "a.example", ip("169.254.169.254"), 5, now);
    names_add(&policy.names, "a.example", ip("8.8.4.1"), 5, now);
    is_int(judge_tcp("8.8.4.4", 80, WIRE_SYN), FILTER_STACK, "until it is a name's");
    is_int(judge_tcp("8.8.4.5", 80, WIRE_SYN), FILTER_STACK, "of any that is allowed");
    is_int(judge_udp("8.8.4.5", 443), FILTER_ANSWER, "over TCP: QUIC shows no name");
    is_int(judge_tcp("169.254.169.254", 80, WIRE_SYN), FILTER_ANSWER, "no name opens metadata");
    is_int(judge_tcp("8.8.4.1", 80, WIRE_SYN), FILTER_ANSWER, "or this host");
    struct net_policy rules;
    json_t *json = json_pack("{s:b, s:[s]}", "internet", 0, "allowOut", "a.example");
    net_policy_from_json(&rules, json, NULL);
    json_decref(json);
    policy_set_rules(&policy, &rules);
    net_policy_fini(&rules);
    is_int(judge_tcp("8.8.4.4", 80, WIRE_SYN), FILTER_STACK, "a name that stays keeps its address");
    is_int(judge_tcp("8.8.4.5", 80, WIRE_SYN), FILTER_ANSWER, "one that went does not");
}

static void add_name(const char *name, const char *address)
{
    names_add(&policy.names, name, ip(address), 5, clock_mono_ms());
}

static void test_ports(void)
{
    reset_policy("{\"internet\": false, \"allowOut\": [\"8.8.4.4:80-90\", \"udp://8.8.8.8:53\", "
                 "\"tcp://a.example:443\", \"udp://a.example:443\"]}");
    is_int(judge_tcp("8.8.4.4", 79, WIRE_SYN), FILTER_ANSWER, "a port below");
    is_int(judge_tcp("8.8.4.4", 80, WIRE_SYN), FILTER_STACK, "the first");
    is_int(judge_udp("8.8.4.4", 90), FILTER_STACK, "the last, over UDP too");
    is_int(judge_tcp("8.8.4.4", 91, WIRE_SYN), FILTER_ANSWER, "a port above");
    is_str(result.why, "not in the allow list", "which is said");
    is_int(judge_udp("8.8.8.8", 53), FILTER_STACK, "a protocol that is named");
    is_int(judge_tcp("8.8.8.8", 53, WIRE_SYN), FILTER_ANSWER, "is not the other");
    add_name("a.example", "8.8.4.5");
    is_int(judge_tcp("8.8.4.5", 443, WIRE_SYN), FILTER_STACK, "a name at its port");
    is_int(judge_tcp("8.8.4.5", 853, WIRE_SYN), FILTER_ANSWER, "and at no other");
    is_int(judge_udp("8.8.4.5", 443), FILTER_STACK, "over UDP when that is said");
    reset_policy("{\"special\": true, \"allowOut\": [\"10.1.1.1:5432\"]}");
    is_int(judge_tcp("10.1.1.1", 5432, WIRE_SYN), FILTER_STACK, "one port of a private address");
    is_int(judge_tcp("10.1.1.1", 22, WIRE_SYN), FILTER_ANSWER, "opens no other of it");
}

static void test_deny_wins(void)
{
    reset_policy("{\"internet\": false, \"denyWins\": true, \"allowOut\": [\"8.8.0.0/16\", "
                 "\"*.example\"], \"denyOut\": [\"8.8.8.8\", \"8.8.4.5:25\", \"bad.example\"]}");
    is_int(judge_tcp("8.8.4.4", 80, WIRE_SYN), FILTER_STACK, "allowed");
    is_int(judge_tcp("8.8.8.8", 80, WIRE_SYN), FILTER_ANSWER, "but not what is denied");
    is_str(result.why, "in the deny list", "which is said");
    is_int(judge_tcp("8.8.4.5", 25, WIRE_SYN), FILTER_ANSWER, "nor its port");
    is_int(judge_tcp("8.8.4.5", 26, WIRE_SYN), FILTER_STACK, "only its port");
    ok(net_policy_names(&policy.rules, "good.example", NULL) &&
           !net_policy_names(&policy.rules, "bad.example", NULL),
       "a denied name is not resolved");
    add_name("good.example", "8.8.8.8");
    add_name("bad.example", "7.7.7.7");
    is_int(judge_tcp("8.8.8.8", 80, WIRE_SYN), FILTER_ANSWER, "no name opens a denied address");
    is_int(judge_tcp("7.7.7.7", 80, WIRE_SYN), FILTER_ANSWER, "nor a denied name its own");
}

static const char *deny_name(const char *address, uint16_t port, const char *name)
{
    const struct endpoint to = {ip(address), port, WIRE_PROTO_TCP};
    return policy_denies_name(&policy, &to, name);
}

static bool asks_name(const char *address, uint16_t port, uint8_t proto)
{
    return policy_asks_name(&policy, &(struct endpoint){ip(address), port, proto});
}

static void test_names_that_are_seen(void)
{
    reset_policy("{\"internet\": false, \"allowOut\": [\"a.example:443\", \"*.b.example\", "
                 "\"8.8.0.0/16:22\"]}");
    add_name("a.example", "8.8.4.4");
    add_name("x.b.example", "8.8.4.4");
    add_name("y.b.example", "8.8.4.5");
    ok(asks_name("8.8.4.4", 443, WIRE_PROTO_TCP), "open by a name: it has to be seen");
    ok(!asks_name("8.8.4.4", 22, WIRE_PROTO_TCP), "open by address: it has not");
    ok(!asks_name("8.8.4.4", 443, WIRE_PROTO_UDP), "nor in what has none");
    is_str(deny_name("8.8.4.4", 443, "a.example"), NULL, "the name it was resolved for");
    is_str(deny_name("8.8.4.4", 443, "x.b.example"), NULL, "and the other");
    is_str(deny_name("8.8.4.4", 80, "a.example"), "not an allowed name", "not at another port");
    is_str(deny_name("8.8.4.4", 443, "c.example"), "not an allowed name", "a foreign name");
    is_str(deny_name("8.8.4.4", 443, "y.b.example"), "not an address of that name",
           "an allowed name of another address");
    is_str(deny_name("8.8.4.6", 443, "a.example"), "not in the allow list",
           "an address of no name");
    is_str(deny_name("8.8.4.4", 22, "c.example"), NULL, "where none is asked any will do");
    const struct endpoint ssh = {ip("8.8.4.5"), 22, WIRE_PROTO_TCP};
    const struct endpoint https = {ip("8.8.4.4"), 443, WIRE_PROTO_TCP};
    is_str(policy_denies_nameless(&policy, &ssh), NULL, "open by address, it needs none");
    is_str(policy_denies_nameless(&policy, &https), "no server name was shown", "HTTPS has one");
    reset_policy("{\"internet\": false, \"allowOut\": [\"a.example:22\", \"b.example\"]}");
    add_name("a.example", "8.8.4.5");
    is_str(policy_denies_nameless(&policy, &ssh), NULL,
           "what has no name, at a port that is given");
    policy.names.items[0].name[0] = 'b';
    is_str(policy_denies_nameless(&policy, &ssh), "no server name was shown", "and at no other");
    reset_policy("{\"internet\": false, \"allowOut\": [\"*\"]}");
    add_name("a.example", "8.8.4.4");
    ok(!asks_name("8.8.4.4", 443, WIRE_PROTO_TCP), "with every name allowed none is asked for");
    reset_policy(PUBLIC);
    ok(!asks_name("8.8.4.4", 443, WIRE_PROTO_TCP), "nor where everything is");
}

static bool hold(struct names *n, uint32_t address, int64_t now)
{
    const struct endpoint to = {address, 443, WIRE_PROTO_TCP};
    return names_hold(n, &policy.rules, &to, now);
}

static void test_life_of_names(void)
{
    struct names n = {0};
    uint32_t a = ip("8.8.4.4");
    reset_policy("{\"internet\": false, \"allowOut\": [\"*\"]}");
    names_add(&n, "a", a, 1, 0);
    ok(hold(&n, a, NAMES_LEAST_MS), "a short life is made longer");
    ok(hold(&n, a, NAMES_LEAST_MS + NAMES_USED_MS), "use makes it longer");
    ok(names_know(&n, "a", a, NAMES_LEAST_MS) && !names_know(&n, "b", a, NAMES_LEAST_MS),
       "and it is known whose it is");
    ok(!hold(&n, a, NAMES_LEAST_MS + 2 * NAMES_USED_MS + 1), "but not for ever");
    names_add(&n, "a", a, UINT32_MAX, 0);
    ok(!hold(&n, a, NAMES_MOST_MS + 1), "nor does a long record");
    for (uint32_t i = 0; i < 2 * NAMES_MAX; i++)
        names_add(&n, "b", 1 + i, 600 + i, 0);
    is_int((long)n.count, NAMES_MAX, "the table is bounded");
    ok(hold(&n, 2 * NAMES_MAX, 0) && !hold(&n, 1, 0), "what would close first made room");
    names_fini(&n);
}

static void test_icmp_and_others(void)
{
    static const uint8_t echo[8] = {8}, unreachable[8] = {3}, any[8] = {0};
    reset_policy(PUBLIC);
    is_int(judge_ip(WIRE_PROTO_ICMP, "10.0.2.2", echo, 8), FILTER_STACK, "echo to the gateway");
    is_int(judge_ip(WIRE_PROTO_ICMP, "8.8.4.4", echo, 8), FILTER_ANSWER, "no echo to others");
    is_int(judge_ip(WIRE_PROTO_ICMP, "8.8.4.4", unreachable, 8), FILTER_DROP, "errors end here");
    is_int(judge_ip(WIRE_PROTO_ICMP, "10.0.2.2", echo, 7), FILTER_DROP, "short ICMP");
    is_int(judge_ip(47, "8.8.4.4", any, 8), FILTER_ANSWER, "GRE is prohibited");
    is_int(judge_ip(41, "8.8.4.4", any, 8), FILTER_ANSWER, "and IPv6 in IPv4");
    is_int(judge_ip(47, "8.8.4.4", any, 0), FILTER_ANSWER, "with nothing in it");
    is_int(judge_ip(WIRE_PROTO_IGMP, "224.0.0.22", any, 8), FILTER_DROP, "IGMP");
    is_int(judge_ip(WIRE_PROTO_UDP, "8.8.4.4", any, 7), FILTER_DROP, "short UDP");
    is_int(judge_ip(WIRE_PROTO_UDP, "8.8.4.4", any, 8), FILTER_DROP, "UDP with a wrong length");
}

static void test_refusal_quotes_the_packet(void)
{
    struct packet p;
    reset_policy(PUBLIC);
    judge_udp("192.168.0.1", 80);
    is_str(wire_parse(&p, result.answer, result.answer_len), NULL, "ICMP is well formed");
    is_int(wire_l4_sum(&p), 0, "its checksum is right");
    is_int(p.l4[0], 3, "unreachable");
    is_int(p.l4[1], 3, "a closed port, because every guest kernel tells that to its program");
    is_int(wire_get32(p.l4 + 8 + 16), ip("192.168.0.1"), "quoted: the destination");
    is_int(wire_get16(p.l4 + 8 + 20), 5000, "quoted: the source port");
}

static void test_spoofing(void)
{
    uint8_t f[WIRE_TCP_FRAME_BYTES];
    struct tcp_head h = {.src = ip("10.0.2.16"), .dst = ip("8.8.4.4"), .flags = WIRE_SYN};
    reset_policy(PUBLIC);
    wire_make_tcp(f, &h, false);
    is_int(judge(f, sizeof(f)), FILTER_DROP, "a foreign IPv4 source");
    is_str(result.why, "spoofed source address", "is named");
    h.src = WIRE_GUEST_IP;
    wire_make_tcp(f, &h, false);
    f[11] ^= 1;
    is_int(judge(f, sizeof(f)), FILTER_DROP, "a foreign Ethernet source");
    wire_make_tcp(f, &h, false);
    f[0] ^= 2;
    is_int(judge(f, sizeof(f)), FILTER_DROP, "a foreign Ethernet destination");
    wire_make_tcp(f, &h, false);
    wire_put16(f + 12, WIRE_TYPE_IPV6);
    is_int(judge(f, sizeof(f)), FILTER_DROP, "IPv6");
    wire_put16(f + 12, 0x8100);
    is_int(judge(f, sizeof(f)), FILTER_DROP, "VLAN");
    wire_put16(f + 12, 0x88f8);
    is_int(judge(f, sizeof(f)), FILTER_DROP, "NC-SI, which libslirp would answer");
    is_int(judge(f, 0), FILTER_DROP, "an empty frame");
}

static void test_arp(void)
{
    uint8_t f[WIRE_ARP_FRAME_BYTES];
    reset_policy(NONE);
    wire_make_arp(f, WIRE_ARP_REQUEST, wire_guest_mac, WIRE_GUEST_IP, wire_gateway_mac,
                  WIRE_GATEWAY_IP);
    is_int(judge(f, sizeof(f)), FILTER_ANSWER, "who has the gateway");
    ok(memcmp(result.answer + WIRE_ETH_BYTES + 8, wire_gateway_mac, 6) == 0, "its address");
    wire_put32(f + WIRE_ETH_BYTES + 24, WIRE_DNS_IP);
    judge(f, sizeof(f));
    ok(memcmp(result.answer + WIRE_ETH_BYTES + 8, wire_dns_mac, 6) == 0, "the name server's");
    wire_put32(f + WIRE_ETH_BYTES + 24, WIRE_GUEST_IP);
    is_int(judge(f, sizeof(f)), FILTER_DROP, "nobody has the guest's own");
    is_int(judge(f, sizeof(f) - 1), FILTER_DROP, "short ARP");
    wire_make_arp(f, WIRE_ARP_REPLY, wire_guest_mac, WIRE_GUEST_IP, wire_gateway_mac,
                  WIRE_GATEWAY_IP);
    is_int(judge(f, sizeof(f)), FILTER_DROP, "a reply");
}

static void test_urgent_is_cleared(void)
{
    reset_policy(PUBLIC);
    is_int(judge_tcp("8.8.4.4", 80, WIRE_ACK | WIRE_URG), FILTER_STACK, "urgent data may go");
    is_int(result.packet.l4[13], WIRE_ACK, "as ordinary data");
    is_int(wire_l4_sum(&result.packet), 0, "with the right checksum");
    judge_tcp("10.0.2.2", 80, WIRE_ACK | WIRE_URG);
    is_int(result.packet.l4[13], WIRE_ACK, "inwards too");
}

static const char *to_guest(const char *src)
{
    uint8_t f[WIRE_HEAD_BYTES + 8] = {0};
    struct packet p;
    wire_make_head(f, ip(src), WIRE_PROTO_UDP, 8);
    wire_put16(f + WIRE_HEAD_BYTES + 4, 8);
    wire_parse(&p, f, sizeof(f));
    return filter_to_guest(&policy, &p);
}

static void test_to_guest(void)
{
    reset_policy(PUBLIC);
    is_str(to_guest("10.0.2.2"), NULL, "the gateway may speak");
    is_str(to_guest("10.0.2.3"), NULL, "the name server may");
    is_str(to_guest("8.8.4.4"), NULL, "a public address may");
    is_str(to_guest("192.168.0.1"), "private", "a private one may not");
    is_str(to_guest("127.0.0.53"), "loopback", "nor loopback");
    is_str(to_guest("8.8.4.1"), "this host", "nor the host");
    is_str(to_guest("10.0.2.9"), "the sandbox's own network", "nor a stranger on this network");
    uint8_t reset[WIRE_TCP_FRAME_BYTES];
    struct tcp_head h = {.src = ip("192.168.0.1"), .dst = WIRE_GUEST_IP, .flags = WIRE_RST};
    struct packet p;
    wire_make_tcp(reset, &h, true);
    wire_parse(&p, reset, sizeof(reset));
    is_str(filter_to_guest(&policy, &p), NULL, "a reset may come from anywhere");
}

int main(void)
{
    test_addresses();
    test_none();
    test_gateway();
    test_lists();
    test_special_in_allow_out();
    test_names();
    test_ports();
    test_deny_wins();
    test_names_that_are_seen();
    test_life_of_names();
    test_icmp_and_others();
    test_refusal_quotes_the_packet();
    test_spoofing();
    test_arp();
    test_urgent_is_cleared();
    test_to_guest();
    policy_fini(&policy);
    return tap_done();
}
