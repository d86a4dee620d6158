// SPDX-License-Identifier: Apache-2.0
// cubby create: makes a sandbox and prints its id.
#include <stdio.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/cli/cli.h"
#include "sandbox-backend/cli/network_opts.h"
#include "sandbox-backend/cli/pairs.h"
#include "sandbox-backend/cli/session.h"

static int create(struct session *s, const struct sandbox_opts *opts)
{
    struct err e = ERR_INIT;
    json_t *sandbox = session_create(s, opts, &e);
    if (!sandbox)
        return cli_fail(&e);
    cli_print_line(cli_text(sandbox, "sandboxID"));
    json_decref(sandbox);
    return 0;
}

int verb_create(int argc, char **argv)
{
    struct session_opts server = {0};
    struct network_opts network = {0};
    struct opt_list envs = {0};
    struct opt_list metadata = {0};
    struct opt_list secrets = {0};
    struct sandbox_opts want = {.timeout_s = SESSION_TTL_DEFAULT_S};
    const struct opt opts[] = {
        {"template", NULL, OPT_STRING, &want.template, "NAME", "what it is restored from (default)",
         0, 0, NULL},
        {"timeout", NULL, OPT_INT, &want.timeout_s, "SECONDS",
         "time to live (3600); " SESSION_TTL_LIMIT, 1, SESSION_TTL_MAX_S, NULL},
        {"env", NULL, OPT_LIST, &envs, "NAME=VALUE", "environment of its commands; may be repeated",
         0, 0, NULL},
        {"metadata", NULL, OPT_LIST, &metadata, "NAME=VALUE", "shown by cubby ps; may be repeated",
         0, 0, NULL},
        {"secret", NULL, OPT_LIST, &secrets, "NAME",
         "secret of cubbyd (--secrets) whose placeholder it gets; may be repeated", 0, 0, NULL},
        {"no-internet", NULL, OPT_FLAG, &want.no_internet, NULL, "no network", 0, 0, NULL},
        NETWORK_OPTS(&network),
        SESSION_OPTS(&server),
    };
    const struct cli_usage usage = {"create [OPTIONS]", "Makes a sandbox and prints its id.", opts,
                                    ARRAY_LEN(opts), false};
    int done = cli_begin(&usage, &argc, argv);
    if (done >= 0)
        return done;
    if (argc > 1)
        return cli_usage_error("create takes no operand; see cubby create --help");
    struct err e = ERR_INIT;
    struct session s;
    int status = 1;
    if (want.no_internet && (network.what || network.allow.count || network.deny.count))
        return cli_usage_error("--no-internet is no network at all, and --network, --allow and "
                               "--deny say what there is of it: leave one out");
    want.secrets = names_parse(&secrets, "--secret", &e);
    if (want.secrets && network_opts_policy(&network, &want.network, &e) == 0 &&
        pairs_parse(&envs, "--env", &want.envs, &e) == 0 &&
        pairs_parse(&metadata, "--metadata", &want.metadata, &e) == 0 &&
        session_open(&s, &server, SESSION_MAY_START, &e) == 0) {
        status = create(&s, &want);
        session_close(&s);
    } else {
        cli_fail(&e);
    }
    json_decref(want.network);
    json_decref(want.envs);
    json_decref(want.metadata);
    json_decref(want.secrets);
    return status;
}
