// SPDX-License-Identifier: Apache-2.0
// Measure the time that netd's filter takes for a packet of the guest, for each policy. Prints
// JSON, in nanoseconds.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/netd/policy/filter.h"

#define PACKETS       1000000
#define ROUNDS        5
#define HOST_PREFIXES 8

static struct policy policy;

static void set_policy(json_t *json)
{
    struct net_policy rules;
    struct err e = ERR_INIT;
    if (net_policy_from_json(&rules, json, &e) < 0) {
        fprintf(stderr, "%s\n", e.msg);
        exit(1);
    }
    policy_fini(&policy);
    policy_init(&policy, &rules);
    struct cidr *host = xcalloc(HOST_PREFIXES, sizeof *host);
    for (uint32_t i = 0; i < HOST_PREFIXES; i++)
        host[i] = (struct cidr){0x0d000000 + i, 32};
    policy_set_host(&policy, host, HOST_PREFIXES);
    net_policy_fini(&rules);
    json_decref(json);
}

// The least of the rounds: what others take of the processor is not the filter's.
static double measure(uint32_t to, int verdict)
{
    uint8_t frame[WIRE_TCP_FRAME_BYTES];
    static struct filter_result result;
    const struct tcp_head head = {
        .src = WIRE_GUEST_IP, .dst = to, .sport = 40000, .dport = 443, .flags = WIRE_ACK};
    int64_t best = INT64_MAX;
    for (int round = 0; round < ROUNDS; round++) {
        int64_t begun = clock_mono_ms();
        for (int i = 0; i < PACKETS; i++) {
            wire_make_tcp(frame, &head, false);
            filter_from_guest(&policy, frame, sizeof frame, &result);
            if ((int)result.verdict != verdict)
                abort();
        }
        int64_t took = clock_mono_ms() - begun;
        best = took < best ? took : best;
    }
    return (double)best * 1e6 / PACKETS;
}

// What measure() does besides.
static double measure_nothing(void)
{
    uint8_t frame[WIRE_TCP_FRAME_BYTES];
    volatile uint8_t seen = 0;
    const struct tcp_head head = {.src = WIRE_GUEST_IP, .dst = 0x08080808, .flags = WIRE_ACK};
    int64_t begun = clock_mono_ms();
    for (int i = 0; i < PACKETS; i++) {
        wire_make_tcp(frame, &head, false);
        seen = (uint8_t)(seen + frame[40]);
    }
    return (double)(clock_mono_ms() - begun) * 1e6 / PACKETS;
}

static json_t *many_networks(void)
{
    json_t *all = json_array();
    for (int i = 0; i < NET_POLICY_RULES_MAX - 1; i++) {
        char *text auto_free = str_printf("11.%d.0.0/16", i);
        json_array_append_new(all, json_string(text));
    }
    return all;
}

int main(void)
{
    const uint32_t there = 0x08080808, nowhere = 0x0a000001;
    double base = measure_nothing();
    set_policy(json_pack("{s:s}", "mode", "public"));
    double open = measure(there, FILTER_STACK) - base;
    double refused = measure(nowhere, FILTER_ANSWER) - base;
    json_t *allow = many_networks();
    json_array_append_new(allow, json_string("8.8.8.8:443"));
    set_policy(
        json_pack("{s:s, s:o, s:o}", "mode", "allow", "allow", allow, "deny", many_networks()));
    double full = measure(there, FILTER_STACK) - base;
    set_policy(json_pack("{s:s, s:[s]}", "mode", "allow", "allow", "*.example.com"));
    for (uint32_t i = 0; i < NAMES_MAX; i++)
        names_add(&policy.names, "a.example.com", i == NAMES_MAX - 1 ? there : 0x0b000000 + i, 3600,
                  clock_mono_ms());
    double named = measure(there, FILTER_STACK) - base;
    printf("{\"public\": %.0f, \"refused\": %.0f, \"256 allowed and 255 denied networks\": %.0f, "
           "\"512 addresses of names\": %.0f}\n",
           open, refused, full, named);
    policy_fini(&policy);
    return 0;
}
