// SPDX-License-Identifier: Apache-2.0
// cubby fleet: the configuration of the proxy in front of a fleet (docs/fleet.md).
#include <stdio.h>
#include <string.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/nodes_file.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/cli/cli.h"
#include "sandbox-backend/cli/fleet/fleet.h"

#define TEXT                                                                                       \
    "config writes a configuration for HAProxy to standard output. The proxy sends each request\n" \
    "to the node that the sandbox's id names, and creates to the node with most room.\n\n"         \
    "drain moves the sandboxes of NODE, on whose host it runs, to another node, with their\n"      \
    "memory: to the one that NODE's line in the list names by then=. If it names none, drain\n"    \
    "writes the node with the least load into the list, which the proxy has to get then.\n"        \
    "--reload COMMAND does that. drain prints each sandbox, snapshot, volume, and template or\n"   \
    "build of the API that stays, and why. Interrupted, it can be run again. receive is its\n"     \
    "other side, which it runs by ssh. --abandon moves nothing: see docs/fleet.md first.\n\n"      \
    "A line of NODES-FILE is: NAME URL [agent=HOST:PORT] [then=NAME] [moved=NAME]"

static struct fleet_config config; // too large for the stack

// A path goes into the configuration between quotes.
static int check_path(const char *option, const char *path, struct err *e)
{
    if (!path || !strpbrk(path, "'\"\\\n\r"))
        return 0;
    return err_set(e, ERR_INVALID, "%s: the path has a quote, a backslash or a newline", option);
}

static int check_listen(const struct fleet_config *c, struct err *e)
{
    const char *colon = strrchr(c->listen, ':');
    int64_t port = 0;
    bool loopback = str_starts(c->listen, "127.") || str_starts(c->listen, "[::1]") ||
                    str_starts(c->listen, "localhost:");
    if (!colon || !str_to_int(colon + 1, 1, 65535, &port) || strpbrk(c->listen, " \t\n'\"\\"))
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
        fleet_config_warn(c);
    }
    nodes_fini(&c->nodes);
    return rc < 0 ? cli_fail(&e) : 0;
}

struct fleet_words {
    bool check, abandon;
};

// The second word says what to do.
static int run(int argc, char **argv, struct fleet_drain *drain, struct fleet_parcel *parcel,
               const struct fleet_words *words)
{
    const char *what = argc > 1 ? argv[1] : "";
    if (argc == 3 && strcmp(what, "config") == 0)
        return fleet_config(&config, argv[2]);
    if (argc == 3 && strcmp(what, "receive") == 0 && words->check)
        return fleet_receive_check(argv[2]);
    if (argc == 3 && strcmp(what, "receive") == 0) {
        parcel->id = argv[2];
        return fleet_receive(parcel);
    }
    if (argc == 4 && strcmp(what, "drain") == 0) {
        drain->node = argv[2];
        drain->nodes = argv[3];
        drain->ca = config.ca;
        return words->abandon ? fleet_abandon(drain) : fleet_drain(drain);
    }
    return cli_usage_error("fleet takes config NODES-FILE, drain NODE NODES-FILE, or receive ID; "
                           "see cubby fleet --help");
}

int verb_fleet(int argc, char **argv)
{
    struct fleet_drain drain = {0};
    struct fleet_words words = {0};
    struct fleet_parcel parcel = {0};
    config = (struct fleet_config){.listen = "127.0.0.1:8080"};
    const struct opt opts[] = {
        CLI_STRING("listen", &config.listen, "HOST:PORT",
                   "config: where the proxy listens (default 127.0.0.1:8080)"),
        CLI_STRING("cert", &config.cert, "FILE",
                   "config: the proxy's certificate and key (PEM, one file)"),
        CLI_STRING("ca", &config.ca, "FILE",
                   "authorities (PEM) of the nodes' certificates (default: the system's)"),
        CLI_FLAG("allow-plaintext-network", &config.allow_plaintext,
                 "config: listen beyond loopback without TLS"),
        CLI_STRING("to", &drain.to, "NODE,...", "drain: only one of these nodes may get them"),
        CLI_STRING("via", &drain.via, "COMMAND",
                   "drain: how to run cubby on the other host (default: \"ssh HOST cubby\")"),
        CLI_STRING("reload", &drain.reload, "COMMAND",
                   "drain: brings the changed list to the proxy and to the nodes"),
        CLI_FLAG("abandon", &words.abandon,
                 "drain: the other node is gone for good; its unsure sandboxes run here again"),
        CLI_STRING("node", &parcel.node, "NODE", "receive: the node that this must be"),
        CLI_STRING("move", &parcel.move, "MOVE", "receive: the name of the sandbox's move"),
        CLI_FLAG("wake", &parcel.wake, "receive: let the sandbox run at once"),
        CLI_FLAG("check", &words.check, "receive: only say whether this host can receive as NODE"),
    };
    const struct cli_usage usage = {
        .synopsis = "fleet config [OPTIONS] NODES-FILE\n"
                    "       cubby fleet drain [OPTIONS] NODE NODES-FILE\n"
                    "       cubby fleet drain --abandon NODE NODES-FILE\n"
                    "       cubby fleet receive --node NODE --move MOVE [--wake] "
                    "ID\n"
                    "       cubby fleet receive --check NODE",
        .text = TEXT,
        .opts = opts,
        .opt_count = ARRAY_LEN(opts)};
    int done = cli_begin(&usage, &argc, argv);
    return done >= 0 ? done : run(argc, argv, &drain, &parcel, &words);
}
