// SPDX-License-Identifier: Apache-2.0
// cubby-egress: the options of one process, which serves one sandbox.
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/opts.h"
#include "sandbox-backend/base/version.h"
#include "sandbox-backend/egress/egress.h"
#include "sandbox-backend/log/log.h"

static struct {
    int64_t connections_fd, config_fd, stats_fd, log_fd;
    const char *log_level;
    bool help, version;
} options = {
    .connections_fd = -1, .config_fd = -1, .stats_fd = -1, .log_fd = 2, .log_level = "info"};

static const struct opt table[] = {
    {.name = "connections-fd",
     .type = OPT_INT,
     .value = &options.connections_fd,
     .arg = "FD",
     .help = "SOCK_SEQPACKET socket on which cubby-netd hands connections over",
     .max = INT16_MAX},
    {.name = "config-fd",
     .type = OPT_INT,
     .value = &options.config_fd,
     .arg = "FD",
     .help = "descriptor of the configuration (JSON), which is read to its end",
     .max = INT16_MAX},
    {.name = "stats-fd",
     .type = OPT_INT,
     .value = &options.stats_fd,
     .arg = "FD",
     .help = "file in which the refusals are counted, for cubbyd",
     .max = INT16_MAX},
    {.name = "log-fd",
     .type = OPT_INT,
     .value = &options.log_fd,
     .arg = "FD",
     .help = "descriptor for the log (default 2, stderr)",
     .max = INT16_MAX},
    {.name = "log-level",
     .type = OPT_STRING,
     .value = &options.log_level,
     .arg = "LEVEL",
     .help = "error, warn, info (default) or debug",
     .choices = "error|warn|info|debug"},
    {.name = "help", .type = OPT_FLAG, .value = &options.help, .help = "print this and exit"},
    {.name = "version", .type = OPT_FLAG, .value = &options.version, .help = "print the version"},
};

static void print_help(void)
{
    puts("Usage: cubby-egress --connections-fd FD --config-fd FD [options]\n"
         "Puts the secrets of one sandbox into its requests. cubbyd starts it; it ends when\n"
         "cubby-netd does.\n");
    opts_help(stdout, table, ARRAY_LEN(table));
}

static int check_options(int argc, struct err *e)
{
    if (argc > 1)
        return err_set(e, ERR_INVALID, "cubby-egress takes no operands");
    if (options.connections_fd < 0 || options.config_fd < 0)
        return err_set(e, ERR_INVALID, "--connections-fd and --config-fd are required");
    log_set_fd((int)options.log_fd);
    log_set_level((enum log_level)log_parse_level(options.log_level));
    return 0;
}

// The memory holds secret values: allow no core file, and no access for processes of the same user.
static int shield_self(struct err *e)
{
    struct rlimit none = {0, 0};
    signal(SIGPIPE, SIG_IGN);
    if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
        setrlimit(RLIMIT_CORE, &none) < 0)
        return err_sys(e, errno, "protect the memory from other processes");
    return 0;
}

static int run(struct err *e)
{
    const struct egress_options o = {.connections_fd = (int)options.connections_fd,
                                     .config_fd = (int)options.config_fd,
                                     .stats_fd = (int)options.stats_fd};
    if (shield_self(e) < 0)
        return -1;
    struct egress *g = egress_new(&o, e);
    if (!g)
        return -1;
    int rc = egress_run(g, e);
    egress_free(g);
    return rc;
}

int main(int argc, char **argv)
{
    struct err e = ERR_INIT;
    int rc = opts_parse(table, ARRAY_LEN(table), &argc, argv, false, &e);
    if (rc == 0 && options.help) {
        print_help();
        return 0;
    }
    if (rc == 0 && options.version) {
        puts("cubby-egress " CUBBY_VERSION);
        return 0;
    }
    if (rc < 0 || check_options(argc, &e) < 0) {
        fprintf(stderr, "cubby-egress: %s\nTry --help.\n", e.msg);
        return 2;
    }
    if (run(&e) < 0) {
        log_error("egress.failed", "error=\"%s\"", e.msg);
        return 1;
    }
    return 0;
}
