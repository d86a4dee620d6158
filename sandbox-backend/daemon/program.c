// SPDX-License-Identifier: Apache-2.0
// The program cubbyd, but for the choice of its driver (main.c).
#include "sandbox-backend/daemon/program.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/home.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/meminfo.h"
#include "sandbox-backend/base/opts.h"
#include "sandbox-backend/base/version.h"
#include "sandbox-backend/daemon/admission.h"
#include "sandbox-backend/daemon/daemon.h"
#include "sandbox-backend/daemon/home_lock.h"
#include "sandbox-backend/daemon/new_size.h"
#include "sandbox-backend/daemon/secret_file.h"
#include "sandbox-backend/log/log.h"

#define MAX_CONNECTIONS  8192
#define CONFIG_FILE      "cubbyd.json" // in the home
#define CONFIG_BYTES_MAX 65536

struct config {
    struct store_limits limits;
    struct front_opts front;
    struct ports_opts ports;
    json_t *file; // owned; what cubbyd.json holds, NULL without one
    const char *domain;
    const char *log_level;
    const char *pool;
    const char *jail;
    int64_t ready_fd;
    int64_t freeze_s, hibernate_s;
    struct secrets_opts secrets;
    char *secrets_path, *trust_path; // owned; of `secrets`, where they were made absolute
    bool keep, require_jail, end_with_daemon, help, version;
};

static int usage(const struct opt *table, int count)
{
    printf("Usage: cubbyd [options]\n\n"
           "Runs sandboxes and serves them on $CUBBY_HOME/cubbyd.sock, and with --listen on TCP:\n"
           "E2B's control plane, and each sandbox's ports by the headers E2b-Sandbox-Id and\n"
           "E2b-Sandbox-Port or by a host name <port>-<id>.<domain>.\n\n");
    opts_help(stdout, table, count);
    printf(
        "\nSIGTERM, SIGINT and SIGHUP end every sandbox and stop. SIGUSR1 stops and leaves them\n"
        "running for the next cubbyd.\n\n"
        "$CUBBY_HOME/cubbyd.json, when it is there, holds options too, as {\"listen\":\n"
        "\"127.0.0.1:3000\"}: names with _ for -. Flags and the environment win.\n\n"
        "Exit status: 0 stopped by a signal, 1 failed, 2 wrong options, 3 another cubbyd serves\n"
        "this home.\n");
    return 0;
}

// Options of $CUBBY_HOME/cubbyd.json: also those that a daemon has which a client starts. *values
// keeps their strings.
static int load_file(const struct opt *table, int count, json_t **values, struct err *e)
{
    struct buf text auto_buf = BUF_INIT;
    char *home auto_free = home_open(NULL);
    char *path auto_free = home ? home_path(home, CONFIG_FILE) : NULL;
    if (!path || !file_exists(path)) // what is wrong with the home is said later
        return 0;
    if (file_read(path, CONFIG_BYTES_MAX, &text, e) < 0)
        return -1;
    *values = json_parse(buf_str(&text), text.len, e);
    if (!*values)
        return err_wrap(e, "%s", path);
    return opts_load(table, count, *values, path, e);
}

static bool has_word(int argc, char **argv, const char *word)
{
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], word) == 0)
            return true;
    return false;
}

static int check_network(struct config *c, struct err *e)
{
    c->ports.domain = c->domain;
    c->ports.tls_cert = c->front.tls_cert;
    c->ports.tls_key = c->front.tls_key;
    c->ports.allow_plaintext = c->front.allow_plaintext;
    if (front_check(&c->front, e) < 0)
        return -1;
    return ports_place_check(&c->ports, e);
}

static int configure(struct config *c, int *argc, char **argv, struct err *e, int *done)
{
    const struct opt table[] = {
        {.name = "max-sandboxes",
         .env = "CUBBY_MAX_SANDBOXES",
         .type = OPT_INT,
         .value = &c->limits.sandboxes,
         .arg = "N",
         .help = "sandboxes at once, paused ones too (default 1000)",
         .min = 1,
         .max = 100000},
        {.name = "max-memory",
         .env = "CUBBY_MAX_MEMORY",
         .type = OPT_SIZE,
         .value = &c->limits.memory_bytes,
         .arg = "SIZE",
         .help = "promised to all guests together (default 16 times this machine's memory)",
         .min = 1 << 20,
         .max = INT64_MAX},
        {.name = "memory-reserve",
         .env = "CUBBY_MEMORY_RESERVE",
         .type = OPT_INT,
         .value = &c->limits.reserve_percent,
         .arg = "PERCENT",
         .help = "of this machine's memory, that sandboxes leave available (default 10)",
         .min = 0,
         .max = 90},
        {.name = "max-sandbox-cpus",
         .env = "CUBBY_MAX_SANDBOX_CPUS",
         .type = OPT_INT,
         .value = &c->limits.one_cpus,
         .arg = "N",
         .help = "processors that a sandbox may ask for (default this machine's)",
         .min = 1,
         .max = 255},
        {.name = "max-sandbox-memory",
         .env = "CUBBY_MAX_SANDBOX_MEMORY",
         .type = OPT_SIZE,
         .value = &c->limits.one_memory_bytes,
         .arg = "SIZE",
         .help = "memory that a sandbox may ask for (default half of this machine's)",
         .min = 1 << 28,
         .max = 1LL << 40},
        {.name = "max-sandbox-disk",
         .env = "CUBBY_MAX_SANDBOX_DISK",
         .type = OPT_SIZE,
         .value = &c->limits.one_disk_bytes,
         .arg = "SIZE",
         .help = "disk that a sandbox may ask for (default 64G)",
         .min = 1 << 30,
         .max = 1LL << 43},
        {.name = "create-wait",
         .env = "CUBBY_CREATE_WAIT",
         .type = OPT_INT,
         .value = &c->limits.wait_s,
         .arg = "SECONDS",
         .help = "how long a sandbox waits for room on a full machine (default 5)",
         .min = 0,
         .max = 300},
        {.name = "pool",
         .env = "CUBBY_POOL",
         .type = OPT_STRING,
         .value = &c->pool,
         .arg = "PLAN",
         .help = "sandboxes kept ready: off, N, LOW:HIGH, TEMPLATE=N,... (default auto)"},
        {.name = "max-timeout",
         .env = "CUBBY_MAX_TIMEOUT",
         .type = OPT_INT,
         .value = &c->limits.timeout_s,
         .arg = "SECONDS",
         .help = "longest time to live of a sandbox (default 86400)",
         .min = 1,
         .max = 365LL * 24 * 3600},
        {.name = "max-snapshots",
         .env = "CUBBY_MAX_SNAPSHOTS",
         .type = OPT_INT,
         .value = &c->limits.snapshots,
         .arg = "N",
         .help = "snapshots at once (default 1000)",
         .min = 0,
         .max = 10000},
        {.name = "max-snapshot-space",
         .env = "CUBBY_MAX_SNAPSHOT_SPACE",
         .type = OPT_SIZE,
         .value = &c->limits.snapshot_bytes,
         .arg = "SIZE",
         .help = "that they may take up together (default 64G)",
         .min = 0,
         .max = INT64_MAX},
        {.name = "freeze-after",
         .env = "CUBBY_FREEZE_AFTER",
         .type = OPT_INT,
         .value = &c->freeze_s,
         .arg = "SECONDS",
         .help = "freeze a sandbox without use; any request wakes it (default 60; 0: never)",
         .min = 0,
         .max = IDLE_MAX_S},
        {.name = "hibernate-after",
         .env = "CUBBY_HIBERNATE_AFTER",
         .type = OPT_INT,
         .value = &c->hibernate_s,
         .arg = "SECONDS",
         .help = "write one without use, or paused, to the disk (default 600; 0: never)",
         .min = 0,
         .max = IDLE_MAX_S},
        {.name = "keep",
         .env = "CUBBY_KEEP",
         .type = OPT_FLAG,
         .value = &c->keep,
         .help = "leave sandboxes running when stopped; the next cubbyd finds them"},
        {.name = "jail",
         .env = "CUBBY_JAIL",
         .type = OPT_STRING,
         .value = &c->jail,
         .arg = "MODE",
         .help = "on: processes of sandboxes in jails (default); off: for debugging, without",
         .choices = "on|off"},
        {.name = "require-jail",
         .env = "CUBBY_REQUIRE_JAIL",
         .type = OPT_FLAG,
         .value = &c->require_jail,
         .help = "do not start where a wall of the jail cannot be built (cubby doctor)"},
        {.name = "end-with-daemon",
         .env = "CUBBY_END_WITH_DAEMON",
         .type = OPT_FLAG,
         .value = &c->end_with_daemon,
         .help = "sandboxes are killed when this program ends, however it does"},
        {.name = "secrets",
         .env = "CUBBY_SECRETS",
         .type = OPT_STRING,
         .value = &c->secrets.path,
         .arg = "FILE",
         .help = "what may be put into sandboxes' requests (JSON: cubbyd(1), SECRETS)"},
        {.name = "egress-trust",
         .env = "CUBBY_EGRESS_TRUST",
         .type = OPT_STRING,
         .value = &c->secrets.trust,
         .arg = "FILE",
         .help = "certificate authorities (PEM) that verify where secrets go (default: the "
                 "system's)"},
        {.name = "listen",
         .env = "CUBBY_LISTEN",
         .type = OPT_STRING,
         .value = &c->front.listen,
         .arg = "HOST:PORT",
         .help = "serve on TCP too, for holders of API keys (cubby key); port 0: any"},
        {.name = "tls-cert",
         .env = "CUBBY_TLS_CERT",
         .type = OPT_STRING,
         .value = &c->front.tls_cert,
         .arg = "FILE",
         .help = "certificate chain (PEM): TCP is https"},
        {.name = "tls-key",
         .env = "CUBBY_TLS_KEY",
         .type = OPT_STRING,
         .value = &c->front.tls_key,
         .arg = "FILE",
         .help = "its key (PEM, not encrypted)"},
        {.name = "allow-plaintext-network",
         .env = "CUBBY_ALLOW_PLAINTEXT_NETWORK",
         .type = OPT_FLAG,
         .value = &c->front.allow_plaintext,
         .help = "listen beyond loopback without TLS"},
        {.name = "ports-address",
         .env = "CUBBY_PORTS_ADDRESS",
         .type = OPT_STRING,
         .value = &c->ports.address,
         .arg = "IP",
         .help = "where ports that sandboxes expose are reached (default 127.0.0.1)"},
        {.name = "ports-host",
         .env = "CUBBY_PORTS_HOST",
         .type = OPT_STRING,
         .value = &c->ports.host,
         .arg = "NAME",
         .help = "host name in their URLs (default that address)"},
        {.name = "domain",
         .env = "CUBBY_DOMAIN",
         .type = OPT_STRING,
         .value = &c->domain,
         .arg = "NAME",
         .help = "where <port>-<id>.NAME leads here; told to clients as a sandbox's domain"},
        {.name = "allow-private-network",
         .env = "CUBBY_ALLOW_PRIVATE_NETWORK",
         .type = OPT_FLAG,
         .value = &c->limits.private_network,
         .help = "network.allowOut may name private and other special addresses"},
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
    // Not for --help and --version, which need no home.
    if ((!has_word(*argc, argv, "--help") && !has_word(*argc, argv, "--version") &&
         load_file(table, count, &c->file, e) < 0) ||
        opts_parse(table, count, argc, argv, false, e) < 0 || check_network(c, e) < 0)
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

// A relative path is meant from where the daemon was started; the jail of who opens it later has
// another directory, and takes no "..". One that is absolute keeps its links, which may be changed.
static void make_absolute(const char **path, char **owned)
{
    if (*path && (**path != '/' || strstr(*path, "/../")) && (*owned = realpath(*path, NULL)))
        *path = *owned; // else it is not there, which is said below
}

// What is wrong with the file is said now, and to who starts the daemon.
static int check_secrets(struct config *c, struct err *e)
{
    struct secrets_opts *o = &c->secrets;
    make_absolute(&o->path, &c->secrets_path);
    make_absolute(&o->trust, &c->trust_path);
    json_t *secrets = o->path ? secret_file_read(o->path, e) : NULL;
    json_decref(secrets);
    if (o->path && !secrets)
        return err_wrap(e, "--secrets");
    if (o->trust && !file_exists(o->trust))
        return err_set(e, ERR_INVALID, "--egress-trust: there is no file %s", o->trust);
    return 0;
}

static int check_jail(const struct config *c, struct err *e)
{
    if (c->require_jail && strcmp(c->jail, "off") == 0)
        return err_set(e, ERR_INVALID, "--require-jail and --jail off exclude each other");
    if (c->end_with_daemon && c->keep)
        return err_set(e, ERR_INVALID, "--end-with-daemon and --keep exclude each other");
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

static int read_plan(const struct config *c, struct pool_plan *out, struct err *e)
{
    struct meminfo info;
    meminfo_read(&info, NULL); // unknown: nothing is kept ready unasked
    return pool_plan_parse(c->pool, info.total, (int)sysconf(_SC_NPROCESSORS_ONLN), out, e);
}

static int serve(const struct config *c, struct pool_plan *plan, const struct driver *driver,
                 struct err *e)
{
    char *home auto_free = home_open(e);
    if (!home)
        return PROGRAM_EXIT_FAILED;
    int lock auto_close = home_lock(home, e);
    if (lock < 0)
        return e->code == ERR_EXISTS ? PROGRAM_EXIT_RUNNING : PROGRAM_EXIT_FAILED;
    struct daemon_opts opts = {.home = home,
                               .lock = lock,
                               .driver = driver,
                               .jail = {.off = strcmp(c->jail, "off") == 0,
                                        .required = c->require_jail,
                                        .ends_with_daemon = c->end_with_daemon},
                               .limits = c->limits,
                               .front = c->front,
                               .ports = c->ports,
                               .secrets = c->secrets,
                               .pool = plan,
                               .domain = c->domain,
                               .ready_fd = (int)c->ready_fd,
                               .keep = c->keep};
    opts.front.home = home;
    opts.front.max_connections = MAX_CONNECTIONS;
    return daemon_run(&opts, e) < 0 ? PROGRAM_EXIT_FAILED : 0;
}

static int run(struct config *c, int argc, char **argv, const struct driver *driver, struct err *e)
{
    int done = 0;
    if (configure(c, &argc, argv, e, &done) < 0)
        return PROGRAM_EXIT_USAGE;
    if (done)
        return 0;
    if (check_jail(c, e) < 0 || check_secrets(c, e) < 0)
        return PROGRAM_EXIT_USAGE;
    c->limits.idle = (struct idle_policy){c->freeze_s * 1000, c->hibernate_s * 1000};
    log_set_level((enum log_level)log_parse_level(c->log_level));
    signal(SIGPIPE, SIG_IGN);
    umask(077);
    raise_nofile();
    struct pool_plan plan;
    int status = read_plan(c, &plan, e) < 0 ? PROGRAM_EXIT_USAGE : serve(c, &plan, driver, e);
    pool_plan_fini(&plan);
    return status;
}

int program_run(int argc, char **argv, const struct driver *driver)
{
    struct config c = {.log_level = "info", .jail = "on", .ready_fd = -1};
    struct err e = ERR_INIT;
    admission_defaults(&c.limits);
    new_size_defaults(&c.limits);
    c.freeze_s = IDLE_FREEZE_S;
    c.hibernate_s = IDLE_HIBERNATE_S;
    int status = run(&c, argc, argv, driver, &e);
    if (err_is(&e))
        fprintf(stderr, "cubbyd: %s\n", e.msg);
    json_decref(c.file);
    free(c.secrets_path);
    free(c.trust_path);
    return status;
}
