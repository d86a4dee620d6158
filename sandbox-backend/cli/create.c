// SPDX-License-Identifier: Apache-2.0
// cubby create: create a sandbox and print its id.
#include <stdio.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/cli/cli.h"
#include "sandbox-backend/cli/connection.h"

static int create(struct connection *c, const struct sandbox_opts *opts)
{
    struct err e = ERR_INIT;
    json_t *sandbox = connection_create(c, opts, &e);
    if (!sandbox)
        return cli_fail(&e);
    cli_print_line(cli_text(sandbox, "sandboxID"));
    const char *warning = json_string_value(json_object_get(sandbox, "tierWarning"));
    if (warning) {
        cli_print_safe(stderr, warning);
        fputc('\n', stderr);
    }
    json_decref(sandbox);
    return 0;
}

// Options as the command line has them.
struct lists {
    struct opt_list envs, metadata, secrets;
    struct network_opts network;
};

static int parse_lists(const struct lists *given, struct sandbox_opts *want, struct err *e)
{
    want->secrets = names_parse(&given->secrets, "--secret", e);
    if (!want->secrets || network_opts_policy(&given->network, &want->network, e) < 0 ||
        pairs_parse(&given->envs, "--env", &want->envs, e) < 0)
        return -1;
    return pairs_parse(&given->metadata, "--metadata", &want->metadata, e);
}

int verb_create(int argc, char **argv)
{
    struct backend_opts server = {0};
    struct lists given = {0};
    struct sandbox_opts want = {.timeout_s = TTL_DEFAULT_S};
    const struct opt opts[] = {
        CLI_STRING("template", &want.template, "NAME",
                   "template or snapshot to start from (default: \"default\")"),
        CLI_STRING("tier", &want.tier, "TIER",
                   "its tier: microvm, gvisor, bubblewrap, none, or auto for the best (default: "
                   "cubbyd --tier)"),
        CLI_INT("timeout", &want.timeout_s, "SECONDS", 1, INT64_MAX,
                "time to live (default 3600); " TTL_LIMIT),
        CLI_LIST("env", &given.envs, "NAME=VALUE",
                 "environment variable for its commands; may be repeated"),
        CLI_LIST("metadata", &given.metadata, "NAME=VALUE",
                 "metadata, which cubby ps shows; may be repeated"),
        CLI_LIST("secret", &given.secrets, "NAME",
                 "secret (cubbyd --secrets) that it may use; may be repeated"),
        CLI_FLAG("no-internet", &want.no_internet, "no network"),
        NETWORK_OPTS(&given.network),
    };
    const struct cli_usage usage = {
        .synopsis = "create [OPTIONS]",
        .text = "Creates a sandbox and prints its id.",
        .opts = opts,
        .opt_count = ARRAY_LEN(opts),
        .server = &server,
    };
    int done = cli_begin(&usage, &argc, argv);
    if (done >= 0)
        return done;
    if (argc > 1)
        return cli_usage_error("create takes no operand; see cubby create --help");
    struct err e = ERR_INIT;
    struct connection c;
    int status = 1;
    if (want.no_internet &&
        (given.network.what || given.network.allow.count || given.network.deny.count))
        return cli_usage_error(
            "--no-internet cannot be combined with --network, --allow or --deny");
    if (parse_lists(&given, &want, &e) < 0) {
        status = cli_usage_error("%s", e.msg);
    } else if (connection_open(&c, &server, CONNECT_STARTS, &e) == 0) {
        status = create(&c, &want);
        connection_close(&c);
    } else {
        cli_fail(&e);
    }
    json_decref(want.network);
    json_decref(want.envs);
    json_decref(want.metadata);
    json_decref(want.secrets);
    return status;
}
