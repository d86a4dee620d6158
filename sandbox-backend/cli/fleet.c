// SPDX-License-Identifier: Apache-2.0
// cubby fleet: the configuration of the proxy in front of a fleet (docs/fleet.md).
#include <stdio.h>
#include <string.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/nodes_file.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/cli/cli.h"
#include "sandbox-backend/cli/fleet.h"

#define TEXT                                                                                       \
    "config writes a configuration for HAProxy to standard output. The proxy sends each request\n" \
    "to the node that the sandbox's id names, and creates to the node with most room.\n"           \
    "A line of NODES-FILE is: NAME URL [agent=HOST:PORT] [moved=NAME]"

// A path goes into the configuration between quotes.
static int check_path(const char *option, const char *path, struct err *e)
{
    if (!path || !strpbrk(path, "'\"\\\n\r"))
        return 0;
    return err_set(e, ERR_INVALID, "%s: the path has a quote, a backslash or a newline", option);
}

static int check_listen(const struct fleet_config *c, struct err *e)
{
    bool loopback = str_starts(c->listen, "127.") || str_starts(c->listen, "[::1]") ||
                    str_starts(c->listen, "localhost:");
    if (!strchr(c->listen, ':') || strpbrk(c->listen, " \t\n'\"\\"))
        return err_set(e, ERR_INVALID, "--listen %.80s is not of the form HOST:PORT", c->listen);
    if (loopback || c->cert || c->allow_plaintext)
        return 0;
    return err_set(e, ERR_INVALID,
                   "--listen %.80s is not a loopback address, so keys and tokens would travel "
                   "unencrypted: give --cert, or --allow-plaintext-network",
                   c->listen);
}

static int fleet_config(struct fleet_config *c, const char *path)
{
    struct err e = ERR_INIT;
    struct buf text auto_buf = BUF_INIT;
    int rc = check_path("--cert", c->cert, &e) < 0 || check_path("--ca", c->ca, &e) < 0 ||
                     check_listen(c, &e) < 0 || nodes_read(path, &c->nodes, &e) < 0
                 ? -1
                 : 0;
    if (rc == 0) {
        fleet_config_write(c, &text);
        fputs(buf_str(&text), stdout);
    }
    nodes_fini(&c->nodes);
    return rc < 0 ? cli_fail(&e) : 0;
}

int verb_fleet(int argc, char **argv)
{
    static struct fleet_config config; // too large for the stack
    config = (struct fleet_config){.listen = "127.0.0.1:8080"};
    const struct opt opts[] = {
        CLI_STRING("listen", &config.listen, "HOST:PORT",
                   "config: where the proxy listens (default 127.0.0.1:8080)"),
        CLI_STRING("cert", &config.cert, "FILE",
                   "config: the proxy's certificate and key (PEM, one file)"),
        CLI_STRING("ca", &config.ca, "FILE",
                   "config: authorities (PEM) of the nodes' certificates (default: the system's)"),
        CLI_FLAG("allow-plaintext-network", &config.allow_plaintext,
                 "config: listen beyond loopback without TLS"),
    };
    const struct cli_usage usage = {.synopsis = "fleet config [OPTIONS] NODES-FILE",
                                    .text = TEXT,
                                    .opts = opts,
                                    .opt_count = ARRAY_LEN(opts)};
    int done = cli_begin(&usage, &argc, argv);
    if (done >= 0)
        return done;
    if (argc == 3 && strcmp(argv[1], "config") == 0)
        return fleet_config(&config, argv[2]);
    return cli_usage_error("fleet takes config NODES-FILE; see cubby fleet --help");
}
