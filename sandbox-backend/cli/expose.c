// SPDX-License-Identifier: Apache-2.0
// cubby expose: give ports of a sandbox URLs on this host.
#include <stdio.h>
#include <stdlib.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/cli/cli.h"
#include "sandbox-backend/cli/connection.h"

struct expose {
    struct expose_opts opts;
    int64_t host_port;
    bool close, as_json;
};

// Return what a person opens, or for raw TCP what a program connects to.
static const char *url_of(const json_t *port)
{
    const char *url = cli_text(port, "browserUrl");
    return str_eq(url, "-") ? cli_text(port, "url") : url;
}

static int open_one(struct connection *c, const char *id, const struct expose *want)
{
    struct err e = ERR_INIT;
    json_t *port = connection_expose(c, id, &want->opts, &e);
    if (!port)
        return cli_fail(&e);
    if (want->as_json) {
        cli_print_json(port);
    } else {
        cli_print_line(url_of(port));
    }
    json_decref(port);
    return 0;
}

static void print_table(const json_t *list)
{
    static const char *const HEADINGS[] = {"PORT", "PROTOCOL", "URL"};
    struct table t;
    table_init_headed(&t, HEADINGS, ARRAY_LEN(HEADINGS));
    size_t i = 0;
    const json_t *one = NULL;
    json_array_foreach (list, i, one) {
        char number[24];
        snprintf(number, sizeof number, "%lld",
                 (long long)json_integer_value(json_object_get(one, "port")));
        table_cell(&t, number);
        table_cell(&t, cli_text(one, "protocol"));
        table_cell(&t, url_of(one));
    }
    table_print(&t, stdout);
    table_fini(&t);
}

static int show_all(struct connection *c, const char *id, bool as_json)
{
    struct err e = ERR_INIT;
    json_t *list = connection_ports(c, id, &e);
    if (!list)
        return cli_fail(&e);
    if (as_json)
        cli_print_json(list);
    else
        print_table(list);
    json_decref(list);
    return 0;
}

static int act(struct connection *c, const char *id, const void *ctx)
{
    const struct expose *want = ctx;
    struct err e = ERR_INIT;
    if (want->close)
        return connection_unexpose(c, id, want->opts.port, &e) < 0 ? cli_fail(&e) : 0;
    return want->opts.port ? open_one(c, id, want) : show_all(c, id, want->as_json);
}

int verb_expose(int argc, char **argv)
{
    struct expose want = {0};
    struct backend_opts server = {0};
    const struct opt opts[] = {
        CLI_INT("wait", &want.opts.wait_s, "SECONDS", 0, EXPOSE_WAIT_MAX_S,
                "wait at most this long until something listens on the port"),
        CLI_FLAG("token", &want.opts.token, "require a token, which is part of the printed URL"),
        CLI_FLAG("tcp", &want.opts.tcp, "forward raw TCP, for other protocols than HTTP"),
        CLI_INT("host-port", &want.host_port, "N", 1024, 65535,
                "port on this host (default: a free one)"),
        CLI_FLAG("close", &want.close, "close this port, or all exposed ports"),
        CLI_FLAG("json", &want.as_json, "print JSON"),
    };
    const struct cli_usage usage = {
        .synopsis = "expose [--wait SECONDS] [--token] [--tcp] [--host-port N] [--json] ID PORT\n"
                    "       cubby expose [--json] ID\n"
                    "       cubby expose --close ID [PORT]",
        .text =
            "Gives a port of a sandbox a URL on this host, and prints the URL, for example for a\n"
            "browser. The URL works until the port is closed or the sandbox ends. Without PORT, "
            "lists "
            "the\n"
            "exposed ports. --token guards this URL only: with cubbyd --listen, anybody who "
            "reaches\n"
            "that address and knows the id reaches the port without a token, unless the sandbox "
            "was\n"
            "created with network.allowPublicTraffic false.",
        .opts = opts,
        .opt_count = ARRAY_LEN(opts),
        .server = &server,
    };
    int64_t port = 0;
    int done = cli_begin(&usage, &argc, argv);
    if (done >= 0)
        return done;
    if (argc < 2 || argc > 3 || (argc == 3 && !str_to_int(argv[2], 1, 65535, &port)))
        return cli_usage_error("expose takes the id of a sandbox and a port from 1 to 65535; see "
                               "cubby expose --help");
    if (!port && (want.opts.wait_s || want.opts.token || want.opts.tcp || want.host_port))
        return cli_usage_error("--wait, --token, --tcp and --host-port need a PORT");
    want.opts.port = (int)port;
    want.opts.host_port = (int)want.host_port;
    return connection_on_one(&server, argv[1], act, &want);
}
