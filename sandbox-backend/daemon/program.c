// SPDX-License-Identifier: Apache-2.0
// The program cubbyd, but for the choice of its driver (main.c).
#include "sandbox-backend/daemon/program.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "sandbox-backend/base/home.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/opts.h"
#include "sandbox-backend/base/version.h"
#include "sandbox-backend/daemon/admission.h"
#include "sandbox-backend/daemon/daemon.h"
#include "sandbox-backend/daemon/home_lock.h"
#include "sandbox-backend/log/log.h"

#define MAX_CONNECTIONS 8192

struct config {
    struct store_limits limits;
    const char *log_level;
    int64_t ready_fd;
    bool keep, help, version;
};

static int usage(const struct opt *table, int count)
{
    printf("Usage: cubbyd [options]\n\n"
           "Runs sandboxes and serves them on $CUBBY_HOME/cubbyd.sock: E2B's control plane, and\n"
           "each sandbox's ports by the headers E2b-Sandbox-Id and E2b-Sandbox-Port.\n\n");
    opts_help(stdout, table, count);
    printf(
        "\nSIGTERM, SIGINT and SIGHUP end every sandbox and stop. SIGUSR1 stops and leaves them\n"
        "running for the next cubbyd.\n\n"
        "Exit status: 0 stopped by a signal, 1 failed, 2 wrong options, 3 another cubbyd serves\n"
        "this home.\n");
    return 0;
}

static int configure(struct config *c, int *argc, char **argv, struct err *e, int *done)
{
    const struct opt table[] = {
        {.name = "max-sandboxes",
         .env = "CUBBY_MAX_SANDBOXES",
         .type = OPT_INT,
         .value = &c->limits.sandboxes,
         .arg = "N",
         .help = "sandboxes at once (default 100)",
         .min = 1,
         .max = 100000},
        {.name = "max-memory",
         .env = "CUBBY_MAX_MEMORY",
         .type = OPT_SIZE,
         .value = &c->limits.memory_bytes,
         .arg = "SIZE",
         .help = "memory of all guests together (default 80 % of this machine's)",
         .min = 1 << 20,
         .max = INT64_MAX},
        {.name = "max-timeout",
         .env = "CUBBY_MAX_TIMEOUT",
         .type = OPT_INT,
         .value = &c->limits.timeout_s,
         .arg = "SECONDS",
         .help = "longest time to live of a sandbox (default 86400)",
         .min = 1,
         .max = 365LL * 24 * 3600},
        {.name = "keep",
         .env = "CUBBY_KEEP",
         .type = OPT_FLAG,
         .value = &c->keep,
         .help = "leave sandboxes running when stopped; the next cubbyd finds them"},
        {.name = "log-level",
         .env = "CUBBY_LOG_LEVEL",
         .type = OPT_STRING,
         .value = &c->log_level,
         .arg = "LEVEL",
         .help = "error, warn, info or debug (default info)",
         .choices = "error|warn|info|debug"},
        {.name = "ready-fd",
         .type = OPT_INT,
         .value = &c->ready_fd,
         .arg = "FD",
         .help = "write \"ready\" to this descriptor when the socket listens",
         .min = 3,
         .max = 1 << 20},
        {.name = "help", .type = OPT_FLAG, .value = &c->help, .help = "show this"},
        {.name = "version", .type = OPT_FLAG, .value = &c->version, .help = "show the version"},
    };
    int count = ARRAY_LEN(table);
    if (opts_parse(table, count, argc, argv, false, e) < 0)
        return -1;
    *done = c->help || c->version;
    if (c->help)
        return usage(table, count);
    if (c->version)
        printf("cubbyd %s\n", CUBBY_VERSION);
    else if (*argc > 1)
        return err_set(e, ERR_INVALID, "cubbyd takes no operands, and \"%s\" is one", argv[1]);
    return 0;
}

// A sandbox takes a handful of descriptors, each request two more.
static void raise_nofile(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

static int serve(const struct config *c, const struct driver *driver, struct err *e)
{
    char *home auto_free = home_open(e);
    if (!home)
        return PROGRAM_EXIT_FAILED;
    int lock auto_close = home_lock(home, e);
    if (lock < 0)
        return e->code == ERR_EXISTS ? PROGRAM_EXIT_RUNNING : PROGRAM_EXIT_FAILED;
    struct daemon_opts opts = {.home = home,
                               .driver = driver,
                               .limits = c->limits,
                               .max_connections = MAX_CONNECTIONS,
                               .ready_fd = (int)c->ready_fd,
                               .keep = c->keep};
    return daemon_run(&opts, e) < 0 ? PROGRAM_EXIT_FAILED : 0;
}

int program_run(int argc, char **argv, const struct driver *driver)
{
    struct config c = {.log_level = "info", .ready_fd = -1};
    struct err e = ERR_INIT;
    int done = 0;
    admission_defaults(&c.limits);
    if (configure(&c, &argc, argv, &e, &done) < 0) {
        fprintf(stderr, "cubbyd: %s\n", e.msg);
        return PROGRAM_EXIT_USAGE;
    }
    if (done)
        return 0;
    log_set_level((enum log_level)log_parse_level(c.log_level));
    signal(SIGPIPE, SIG_IGN);
    umask(077);
    raise_nofile();
    int status = serve(&c, driver, &e);
    if (status)
        fprintf(stderr, "cubbyd: %s\n", e.msg);
    return status;
}
