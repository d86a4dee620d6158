// SPDX-License-Identifier: Apache-2.0
// cubby network: show what a sandbox may connect to, what it was refused and which hosts it
// reached; set its policy.
#include <stdio.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/cli/cli.h"
#include "sandbox-backend/cli/connection.h"

static const char *string_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

static void print_list(const char *name, const json_t *list)
{
    size_t i;
    const json_t *entry;
    if (json_array_size(list) == 0)
        return;
    printf("%s:", name);
    json_array_foreach (list, i, entry) {
        putchar(' ');
        cli_print_safe(stdout, json_string_value(entry) ? json_string_value(entry) : "?");
    }
    putchar('\n');
}

static void print_limits(const json_t *limits)
{
    const char *key;
    json_t *value;
    json_object_foreach ((json_t *)(uintptr_t)limits, key, value) {
        fputs("limit: ", stdout);
        cli_print_safe(stdout, key);
        printf(" %lld\n", (long long)json_integer_value(value));
    }
}

static long long count_of(const json_t *counters, const char *key)
{
    return json_integer_value(json_object_get(counters, key));
}

static void print_counters(const json_t *counters)
{
    if (!json_is_object(counters))
        return;
    printf("received: %lld bytes, %lld packets\n", count_of(counters, "receivedBytes"),
           count_of(counters, "receivedPackets"));
    printf("sent: %lld bytes, %lld packets\n", count_of(counters, "sentBytes"),
           count_of(counters, "sentPackets"));
}

// Print a refusal, or a connection that was allowed.
static void print_contact(const json_t *r)
{
    const char *const parts[] = {string_of(r, "timestamp"), string_of(r, "protocol"),
                                 string_of(r, "address"), string_of(r, "name")};
    for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
        if (!parts[i][0])
            continue;
        fputs(i ? " " : "  ", stdout);
        cli_print_safe(stdout, parts[i]);
    }
    if (count_of(r, "port") > 0)
        printf(" port %lld", count_of(r, "port"));
    if (*string_of(r, "reason"))
        fputs(": ", stdout);
    cli_print_safe(stdout, string_of(r, "reason"));
    if (count_of(r, "count") > 1)
        printf(" (%lld times)", count_of(r, "count"));
    putchar('\n');
}

// Print how many there are, and the latest of them.
static void print_contacts(const json_t *network, const char *counter, const char *list)
{
    const json_t *counters = json_object_get(network, "counters");
    size_t i;
    const json_t *one;
    if (json_object_get(counters, counter))
        printf("%s: %lld\n", counter, count_of(counters, counter));
    json_array_foreach (json_object_get(network, list), i, one) {
        print_contact(one);
    }
}

static void print_network(const json_t *network)
{
    const json_t *policy = json_object_get(network, "policy");
    fputs("mode: ", stdout);
    cli_print_safe(stdout, string_of(policy, "mode"));
    putchar('\n');
    print_list("allow", json_object_get(policy, "allow"));
    print_list("deny", json_object_get(policy, "deny"));
    print_limits(json_object_get(policy, "limits"));
    print_counters(json_object_get(network, "counters"));
    print_contacts(network, "refused", "refusals");
    print_contacts(network, "allowed", "allowed");
}

struct network {
    json_t *policy; // owned; NULL: show the network
    bool as_json;
};

static int act(struct connection *c, const char *id, const void *ctx)
{
    const struct network *want = ctx;
    struct err e = ERR_INIT;
    if (want->policy && connection_network_set(c, id, want->policy, &e) < 0)
        return cli_fail(&e);
    if (want->policy && !want->as_json)
        return 0;
    json_t *network = connection_network(c, id, &e);
    if (!network)
        return cli_fail(&e);
    if (want->as_json)
        cli_print_json(network);
    else
        print_network(network);
    json_decref(network);
    return 0;
}

int verb_network(int argc, char **argv)
{
    struct network want = {0};
    struct network_opts policy = {0};
    struct backend_opts server = {0};
    const struct opt opts[] = {
        NETWORK_OPTS(&policy),
        CLI_FLAG("json", &want.as_json, "print the API's JSON, also after a change"),
    };
    const struct cli_usage usage = {
        .synopsis = "network [--network POLICY] [--allow ENTRY]... [--deny ENTRY]... ID",
        .text =
            "Shows what a sandbox may connect to, what it sent and received, its last refusals, "
            "and\nthe hosts that it reached last.\n"
            "With --network, --allow or --deny, replaces its policy at once, and cuts connections "
            "that\n"
            "are no longer allowed. An ENTRY is an address, a network or a name, with an optional\n"
            "protocol and ports: example.com, *.example.org:443, tcp://10.0.0.0/8:5432,\n"
            "1.1.1.1:80-90.",
        .opts = opts,
        .opt_count = ARRAY_LEN(opts),
        .server = &server,
    };
    int done = cli_begin(&usage, &argc, argv);
    if (done >= 0)
        return done;
    if (argc != 2)
        return cli_usage_error("network takes the id of one sandbox; see cubby network --help");
    struct err e = ERR_INIT;
    if (network_opts_policy(&policy, &want.policy, &e) < 0)
        return cli_usage_error("%s", e.msg);
    int status = connection_on_one(&server, argv[1], act, &want);
    json_decref(want.policy);
    return status;
}
