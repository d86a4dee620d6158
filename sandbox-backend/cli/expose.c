// SPDX-License-Identifier: Apache-2.0
// cubby expose: a sandbox's ports as URLs of this machine.
#include <stdio.h>
#include <stdlib.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/cli/cli.h"
#include "sandbox-backend/cli/session.h"
#include "sandbox-backend/cli/table.h"

struct expose {
    struct expose_opts opts;
    int64_t host_port;
    bool close, as_json;
};

// What a person opens; of raw TCP what a program connects to.
static const char *url_of(const json_t *port)
{
    const char *url = cli_text(port, "browserUrl");
    return str_eq(url, "-") ? cli_text(port, "url") : url;
}

static int open_one(struct session *s, const char *id, const struct expose *want)
{
    struct err e = ERR_INIT;
    json_t *port = session_expose(s, id, &want->opts, &e);
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
    json_array_foreach(list, i, one)
    {
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

static int show_all(struct session *s, const char *id, bool as_json)
{
    struct err e = ERR_INIT;
    json_t *list = session_ports(s, id, &e);
    if (!list)
        return cli_fail(&e);
    if (as_json)
        cli_print_json(list);
    else
        print_table(list);
    json_decref(list);
    return 0;
}

static int act(struct session *s, const char *given, const struct expose *want)
{
    struct err e = ERR_INIT;
    char *id auto_free = session_resolve(s, given, &e);
    if (!id || (want->close && session_unexpose(s, id, want->opts.port, &e) < 0))
        return cli_fail(&e);
    if (want->close)
        return 0;
    return want->opts.port ? open_one(s, id, want) : show_all(s, id, want->as_json);
}

static int run(const struct session_opts *server, const char *given, const struct expose *want)
{
    struct err e = ERR_INIT;
    struct session s;
    if (session_open(&s, server, SESSION_IF_USED, &e) < 0)
        return cli_fail(&e);
    int status = act(&s, given, want);
    session_close(&s);
    return status;
}

int verb_expose(int argc, char **argv)
{
    struct expose want = {0};
    struct session_opts server = {0};
    const struct opt opts[] = {
        {"wait", NULL, OPT_INT, &want.opts.wait_s, "SECONDS",
         "wait so long for something to listen on the port", 0, EXPOSE_WAIT_MAX_S, NULL},
        {"token", NULL, OPT_FLAG, &want.opts.token, NULL,
         "only who has the URL, with the token in it, may open it", 0, 0, NULL},
        {"tcp", NULL, OPT_FLAG, &want.opts.tcp, NULL,
         "pass bytes on as they are: for what is no web server", 0, 0, NULL},
        {"host-port", NULL, OPT_INT, &want.host_port, "N", "the port here (any)", 1024, 65535,
         NULL},
        {"close", NULL, OPT_FLAG, &want.close, NULL, "close that port, or all of them", 0, 0, NULL},
        {"json", NULL, OPT_FLAG, &want.as_json, NULL, "print JSON", 0, 0, NULL},
        SESSION_OPTS(&server),
    };
    const struct cli_usage usage = {
        "expose [--wait SECONDS] [--token] [--tcp] [--host-port N] [--json] ID PORT\n"
        "       cubby expose [--json] ID\n"
        "       cubby expose --close ID [PORT]",
        "Makes a port of a sandbox a URL of this machine, and prints it: open it in a browser. It\n"
        "leads there until it is closed or the sandbox ends. Without a port it lists those that\n"
        "there are. A token guards that URL: where cubbyd has --listen, who reaches that address "
        "and\n"
        "knows the id gets to the port without one, unless the sandbox was made with\n"
        "network.allowPublicTraffic false.",
        opts, ARRAY_LEN(opts), false};
    int64_t port = 0;
    int done = cli_begin(&usage, &argc, argv);
    if (done >= 0)
        return done;
    if (argc < 2 || argc > 3 || (argc == 3 && !str_to_int(argv[2], 1, 65535, &port)))
        return cli_usage_error("expose takes a sandbox's id and a port of it, from 1 to 65535; see "
                               "cubby expose --help");
    if (!port && (want.opts.wait_s || want.opts.token || want.opts.tcp || want.host_port))
        return cli_usage_error("--wait, --token, --tcp and --host-port are for a PORT, and none is "
                               "given");
    want.opts.port = (int)port;
    want.opts.host_port = (int)want.host_port;
    return run(&server, argv[1], &want);
}
