// SPDX-License-Identifier: Apache-2.0
// cubby network: what a sandbox may open, and what it was refused; and another policy.
#include "sandbox-backend/client/network.h"

#include <stdio.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/cli/cli.h"
#include "sandbox-backend/cli/network_opts.h"
#include "sandbox-backend/cli/session.h"

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
    json_array_foreach(list, i, entry)
    {
        putchar(' ');
        cli_print_safe(stdout, json_string_value(entry) ? json_string_value(entry) : "?");
    }
    putchar('\n');
}

static void print_limits(const json_t *limits)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)limits, key, value)
    {
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
    printf("refused: %lld\n", count_of(counters, "refused"));
}

static void print_refusal(const json_t *r)
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
    fputs(": ", stdout);
    cli_print_safe(stdout, string_of(r, "reason"));
    if (count_of(r, "count") > 1)
        printf(" (%lld times)", count_of(r, "count"));
    putchar('\n');
}

static void print_network(const json_t *network)
{
    const json_t *policy = json_object_get(network, "policy");
    const json_t *refusals = json_object_get(network, "refusals");
    size_t i;
    const json_t *refusal;
    fputs("mode: ", stdout);
    cli_print_safe(stdout, string_of(policy, "mode"));
    putchar('\n');
    print_list("allow", json_object_get(policy, "allow"));
    print_list("deny", json_object_get(policy, "deny"));
    print_limits(json_object_get(policy, "limits"));
    print_counters(json_object_get(network, "counters"));
    json_array_foreach(refusals, i, refusal)
    {
        print_refusal(refusal);
    }
}

static int show(struct session *s, const char *id, bool as_json, struct err *e)
{
    json_t *network = session_network(s, id, e);
    if (!network)
        return cli_fail(e);
    if (as_json)
        cli_print_json(network);
    else
        print_network(network);
    json_decref(network);
    return 0;
}

static int act(struct session *s, const char *given, const json_t *policy, bool as_json)
{
    struct err e = ERR_INIT;
    char *id auto_free = session_resolve(s, given, &e);
    if (!id)
        return cli_fail(&e);
    if (!policy)
        return show(s, id, as_json, &e);
    return session_network_set(s, id, policy, &e) < 0 ? cli_fail(&e) : 0;
}

int verb_network(int argc, char **argv)
{
    bool as_json = false;
    struct network_opts want = {0};
    struct session_opts server = {0};
    const struct opt opts[] = {
        NETWORK_OPTS(&want),
        {"json", NULL, OPT_FLAG, &as_json, NULL, "print JSON, as the API gives it", 0, 0, NULL},
        SESSION_OPTS(&server),
    };
    const struct cli_usage usage = {
        "network [--network WHAT] [--allow ENTRY]... [--deny ENTRY]... ID",
        "Shows what a sandbox may open to the outside, what it sent and received, and the last\n"
        "things that it was refused. With options it gets that policy instead, at once:\n"
        "connections that are not allowed any more are cut. An ENTRY is an address, a network\n"
        "or a name, with a protocol and ports where wanted: example.com, *.example.org:443,\n"
        "tcp://10.0.0.0/8:5432, 1.1.1.1:80-90.",
        opts, ARRAY_LEN(opts), false};
    int done = cli_begin(&usage, &argc, argv);
    if (done >= 0)
        return done;
    if (argc != 2)
        return cli_usage_error("network takes the id of one sandbox; see cubby network --help");
    struct err e = ERR_INIT;
    struct session s;
    json_t *policy = NULL;
    int status = 1;
    if (network_opts_policy(&want, &policy, &e) == 0 &&
        session_open(&s, &server, SESSION_IF_USED, &e) == 0) {
        status = act(&s, argv[1], policy, as_json);
        session_close(&s);
    } else {
        cli_fail(&e);
    }
    json_decref(policy);
    return status;
}
