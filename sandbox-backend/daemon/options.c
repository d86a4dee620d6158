// SPDX-License-Identifier: Apache-2.0
// The options of cubbyd.
#include "sandbox-backend/daemon/options.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/home.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/opts.h"
#include "sandbox-backend/base/sandbox_id.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/base/version.h"
#include "sandbox-backend/daemon/secrets/secret_file.h"
#include "sandbox-backend/drivers/tier.h"
#include "sandbox-backend/host/meminfo.h"
#include "sandbox-backend/log/log.h"

#define CONFIG_FILE      "cubbyd.json" // in the home
#define CONFIG_BYTES_MAX 65536
#define DOMAIN_CHARS     200 // of a host name's 253, which has a port and an id, too

static struct options options = {
    .tier = TIER_AUTO,
    .builds = {.running_max = 2, .upload_bytes = 1LL << 30, .space_bytes = 8LL << 30},
};

// Options whose text is parsed into `options` after all are read.
static struct {
    const char *log_level, *pool, *jail, *spares;
    struct opt_list webhooks_to;
    int64_t freeze_s, hibernate_s, ready_fd;
    bool help, version;
} text = {.log_level = "info", .jail = "on", .spares = "on", .ready_fd = -1};

static json_t *config;                     // of CONFIG_FILE; NULL without one
static char *secrets_path, *secrets_trust; // made absolute; NULL where they were
static char *keys_path;                    // the same

// Rows of the table. `env_` is the variable without CUBBY_.
#define FLAG(name_, env_, value_, help_)                                                         \
    {                                                                                            \
        .name = name_, .env = "CUBBY_" env_, .type = OPT_FLAG, .value = &(value_), .help = help_ \
    }
#define TEXT(name_, env_, value_, arg_, choices_, help_)                                          \
    {                                                                                             \
        .name = name_, .env = "CUBBY_" env_, .type = OPT_STRING, .value = &(value_), .arg = arg_, \
        .choices = choices_, .help = help_                                                        \
    }
#define RANGE(type_, name_, env_, value_, arg_, min_, max_, help_)                           \
    {                                                                                        \
        .name = name_, .env = "CUBBY_" env_, .type = type_, .value = &(value_), .arg = arg_, \
        .min = min_, .max = max_, .help = help_                                              \
    }

static const struct opt TABLE[] = {
    RANGE(OPT_INT, "max-sandboxes", "MAX_SANDBOXES", options.limits.admission.sandboxes, "N", 1,
          100000, "maximum number of sandboxes, including paused ones (default 1000)"),
    RANGE(OPT_SIZE, "max-memory", "MAX_MEMORY", options.limits.admission.memory_bytes, "SIZE",
          1 << 20, INT64_MAX,
          "maximum memory of all guests together (default 16 times this host's)"),
    RANGE(OPT_INT, "memory-reserve", "MEMORY_RESERVE", options.limits.admission.reserve_percent,
          "PERCENT", 0, 90,
          "part of this host's memory that sandboxes must leave free (default 10)"),
    RANGE(OPT_INT, "max-sandbox-cpus", "MAX_SANDBOX_CPUS", options.limits.one_cpus, "N", 1, 255,
          "maximum number of processors for one sandbox (default this host's)"),
    RANGE(OPT_SIZE, "max-sandbox-memory", "MAX_SANDBOX_MEMORY", options.limits.one_memory_bytes,
          "SIZE", 1 << 28, 1LL << 40,
          "maximum memory for one sandbox (default half of this host's)"),
    RANGE(OPT_SIZE, "max-sandbox-disk", "MAX_SANDBOX_DISK", options.limits.one_disk_bytes, "SIZE",
          1 << 30, 1LL << 43, "maximum disk for one sandbox (default 64G)"),
    RANGE(OPT_INT, "create-wait", "CREATE_WAIT", options.limits.admission.wait_s, "SECONDS", 0, 300,
          "how long a sandbox waits for room on a full host (default 5)"),
    TEXT("pool", "POOL", text.pool, "PLAN", NULL,
         "sandboxes kept ready: off, N, LOW:HIGH, TEMPLATE=N,... (default auto)"),
    TEXT("spares", "SPARES", text.spares, "MODE", "on|off",
         "on (default): start the next machine of a used template ahead, without a guest"),
    RANGE(OPT_INT, "max-timeout", "MAX_TIMEOUT", options.limits.timeout_s, "SECONDS", 1,
          365LL * 24 * 3600, "longest time to live of a sandbox (default 86400)"),
    RANGE(OPT_INT, "max-snapshots", "MAX_SNAPSHOTS", options.limits.snapshots, "N", 0, 10000,
          "maximum number of snapshots (default 1000)"),
    RANGE(OPT_SIZE, "max-snapshot-space", "MAX_SNAPSHOT_SPACE", options.limits.snapshot_bytes,
          "SIZE", 0, INT64_MAX, "maximum disk space of all snapshots together (default 64G)"),
    RANGE(OPT_INT, "max-volumes", "MAX_VOLUMES", options.limits.volumes, "N", 0, 10000,
          "maximum number of volumes of one API key (default 100)"),
    RANGE(OPT_SIZE, "max-volume-size", "MAX_VOLUME_SIZE", options.limits.volume_bytes, "SIZE", 0,
          INT64_MAX, "maximum size of one volume (default 10G)"),
    RANGE(OPT_INT, "freeze-after", "FREEZE_AFTER", text.freeze_s, "SECONDS", 0, IDLE_MAX_S,
          "freeze an unused sandbox; any request wakes it (default 60; 0: never)"),
    RANGE(OPT_INT, "hibernate-after", "HIBERNATE_AFTER", text.hibernate_s, "SECONDS", 0, IDLE_MAX_S,
          "write an unused or paused sandbox to the disk (default 600; 0: never)"),
    FLAG("allow-builds", "ALLOW_BUILDS", options.builds.allow_keys,
         "let every API key build templates (default: only keys with max_builds)"),
    RANGE(OPT_INT, "max-builds", "MAX_BUILDS", options.builds.running_max, "N", 1, 100,
          "maximum number of builds that run at once; others wait (default 2)"),
    RANGE(OPT_SIZE, "max-build-upload", "MAX_BUILD_UPLOAD", options.builds.upload_bytes, "SIZE",
          1 << 20, 1LL << 40, "largest archive that a build may upload (default 1G)"),
    RANGE(OPT_SIZE, "max-upload-space", "MAX_UPLOAD_SPACE", options.builds.space_bytes, "SIZE",
          1 << 20, INT64_MAX, "maximum disk space of all uploads for builds (default 8G)"),
    TEXT("build-registry", "BUILD_REGISTRY", options.builds.registries, "HOST[:PORT],...", NULL,
         "registries that builds through the API may use, such as docker.io (default: none)"),
    FLAG("keep", "KEEP", options.keep,
         "leave sandboxes running when cubbyd stops; the next cubbyd takes them over"),
    TEXT("tier", "TIER", options.tier, "TIER", NULL,
         "tier of new sandboxes: microvm, gvisor, bubblewrap, none, or auto for the best (default "
         "auto)"),
    TEXT("tiers-allowed", "TIERS_ALLOWED", options.tiers_allowed, "TIER,...", NULL,
         "tiers that a new sandbox may name (default: --tier; with auto: microvm,gvisor)"),
    TEXT("jail", "JAIL", text.jail, "MODE", "on|off",
         "on (default): sandbox processes run in jails; off: no jail, for debugging"),
    FLAG("require-jail", "REQUIRE_JAIL", options.jail.required,
         "do not start if a wall of the jail cannot be built (see cubby doctor)"),
    FLAG("end-with-daemon", "END_WITH_DAEMON", options.jail.ends_with_daemon,
         "kill all sandboxes when cubbyd ends for any reason"),
    TEXT("secrets", "SECRETS", options.secrets.path, "FILE", NULL,
         "secrets that sandboxes may use in their requests (JSON: cubbyd(1), SECRETS)"),
    TEXT("egress-trust", "EGRESS_TRUST", options.secrets.trust, "FILE", NULL,
         "certificate authorities (PEM) to trust for hosts that get secrets (default: the "
         "system's)"),
    TEXT("listen", "LISTEN", options.listeners.listen, "HOST:PORT", NULL,
         "also serve on TCP, to clients with API keys (cubby key); port 0: a free port"),
    TEXT("keys", "KEYS", options.keys, "FILE", NULL,
         "API keys, which the nodes of a fleet share (default $CUBBY_HOME/keys.json)"),
    TEXT("tls-cert", "TLS_CERT", options.listeners.tls_cert, "FILE", NULL,
         "certificate chain (PEM): serve HTTPS on TCP"),
    TEXT("tls-key", "TLS_KEY", options.listeners.tls_key, "FILE", NULL,
         "private key of the certificate (PEM, not encrypted)"),
    FLAG("allow-plaintext-network", "ALLOW_PLAINTEXT_NETWORK", options.listeners.allow_plaintext,
         "listen beyond loopback without TLS"),
    TEXT("ports-address", "PORTS_ADDRESS", options.ports.address, "IP", NULL,
         "address on which exposed ports listen (default 127.0.0.1)"),
    TEXT("ports-host", "PORTS_HOST", options.ports.host, "NAME", NULL,
         "host name in the URLs of exposed ports (default --ports-address)"),
    TEXT("domain", "DOMAIN", options.domain, "NAME", NULL,
         "domain whose names <port>-<id>.NAME resolve to this daemon"),
    TEXT("node", "NODE", options.node, "NAME", NULL,
         "name of this node in a fleet: new ids begin with it, so that a proxy finds the node"),
    TEXT("peers", "PEERS", options.peers.path, "FILE", NULL,
         "nodes of the fleet: lists have what all nodes have (docs/fleet.md)"),
    TEXT("peers-ca", "PEERS_CA", options.peers.ca, "FILE", NULL,
         "certificate authorities (PEM) of the nodes, beside the system's"),
    TEXT("agent", "AGENT", options.agent, "HOST:PORT", NULL,
         "tell HAProxy's agent-check there how much room this node has"),
    FLAG("allow-private-network", "ALLOW_PRIVATE_NETWORK", options.limits.private_network,
         "let network.allowOut name private and other special addresses"),
    {.name = "webhooks-to",
     .env = "CUBBY_WEBHOOKS_TO",
     .type = OPT_LIST,
     .value = &text.webhooks_to,
     .arg = "ADDRESS[/BITS]",
     .help = "let webhooks of API keys reach this address, beside public ones; repeatable"},
    FLAG("no-record", "NO_RECORD", options.limits.calls.off,
         "keep no record of what is done in sandboxes (cubby record)"),
    RANGE(OPT_SIZE, "record-size", "RECORD_SIZE", options.limits.calls.file_bytes, "SIZE",
          CALL_LOG_BYTES_MIN, CALL_LOG_BYTES_MAX,
          "maximum record of one sandbox, up to 1G (default 8M)"),
    RANGE(OPT_SIZE, "record-output", "RECORD_OUTPUT", options.limits.calls.output_bytes, "SIZE", 0,
          CALL_LOG_OUTPUT_MAX, "first part of each output that is recorded (default 4K)"),
    RANGE(OPT_INT, "record-keep", "RECORD_KEEP", options.limits.calls.keep_s, "SECONDS", 0,
          3650LL * 24 * 3600, "how long a record is kept after its sandbox ended (default 604800)"),
    RANGE(OPT_SIZE, "record-space", "RECORD_SPACE", options.limits.calls.space_bytes, "SIZE", 0,
          INT64_MAX, "maximum disk space of records of ended sandboxes (default 1G)"),
    TEXT("log-level", "LOG_LEVEL", text.log_level, "LEVEL", "error|warn|info|debug",
         "error, warn, info or debug (default info)"),
    {.name = "ready-fd",
     .type = OPT_INT,
     .value = &text.ready_fd,
     .arg = "FD",
     .help = "write \"ready\" to this descriptor when the socket listens",
     .min = 3,
     .max = 1 << 20},
    {.name = "help", .type = OPT_FLAG, .value = &text.help, .help = "show this"},
    {.name = "version", .type = OPT_FLAG, .value = &text.version, .help = "show the version"},
};

// ---- 1. reading
static void print_help(void)
{
    printf("Usage: cubbyd [options]\n\n"
           "Runs sandboxes and serves them on $CUBBY_HOME/cubbyd.sock, and with --listen on TCP:\n"
           "E2B's control plane, and each sandbox's ports by the headers E2b-Sandbox-Id and\n"
           "E2b-Sandbox-Port or by a host name <port>-<id>.<domain>.\n\n");
    opts_help(stdout, TABLE, ARRAY_LEN(TABLE));
    printf(
        "\nSIGTERM, SIGINT and SIGHUP end every sandbox and stop the daemon. SIGUSR1 stops it\n"
        "and leaves the sandboxes running for the next cubbyd.\n\n"
        "The file $CUBBY_HOME/cubbyd.json may hold options too, as {\"listen\":\n"
        "\"127.0.0.1:3000\"}: the names have _ for -. Flags and the environment win.\n\n"
        "Exit status: 0 stopped by a signal, 1 failed, 2 wrong options, 3 another cubbyd serves\n"
        "this home.\n");
}

// The file also configures a daemon that a client starts. What is wrong with the home is reported
// later.
static int read_config(struct err *e)
{
    struct buf json auto_buf = BUF_INIT;
    char *home auto_free = home_open(NULL);
    char *path auto_free = home ? home_path(home, CONFIG_FILE) : NULL;
    if (!path || !file_exists(path))
        return 0;
    if (file_read(path, CONFIG_BYTES_MAX, &json, e) < 0)
        return -1;
    config = json_parse(buf_str(&json), json.len, e);
    if (!config)
        return err_wrap(e, "%s", path);
    return opts_load(TABLE, ARRAY_LEN(TABLE), config, path, e);
}

static bool has_word(int argc, char **argv, const char *word)
{
    for (int i = 1; i < argc; i++)
        if (str_eq(argv[i], word))
            return true;
    return false;
}

// --help and --version need no home.
static int read_all(int *argc, char **argv, struct err *e)
{
    bool asks = has_word(*argc, argv, "--help") || has_word(*argc, argv, "--version");
    if (!asks && read_config(e) < 0)
        return -1;
    return opts_parse(TABLE, ARRAY_LEN(TABLE), argc, argv, false, e);
}

// ---- 2. checking
static int check_network(struct err *e)
{
    options.ports.domain = options.domain;
    options.ports.tls_cert = options.listeners.tls_cert;
    options.ports.tls_key = options.listeners.tls_key;
    options.ports.allow_plaintext = options.listeners.allow_plaintext;
    return listeners_check(&options.listeners, e) < 0 ? -1 : ports_listen_check(&options.ports, e);
}

static int check_node(struct err *e)
{
    options.peers.node = options.node;
    options.peers.allow_plaintext = options.listeners.allow_plaintext;
    if (options.peers.ca && !file_exists(options.peers.ca))
        return err_set(e, ERR_INVALID, "the file of --peers-ca does not exist: %s",
                       options.peers.ca);
    if (!options.node || node_name_is_valid(options.node))
        return peers_check(&options.peers, e);
    return err_set(
        e, ERR_INVALID,
        "--node \"%.40s\" is not valid: a node's name has 1 to %d lower-case letters and "
        "digits",
        options.node, NODE_NAME_MAX);
}

static int check_jail(struct err *e)
{
    options.jail.off = str_eq(text.jail, "off");
    options.jail.spares = str_eq(text.spares, "on");
    if (options.jail.required && options.jail.off)
        return err_set(e, ERR_INVALID, "--require-jail cannot be combined with --jail off");
    if (options.jail.ends_with_daemon && options.keep)
        return err_set(e, ERR_INVALID, "--end-with-daemon cannot be combined with --keep");
    return 0;
}

// A relative path counts from the directory in which the daemon was started. The jail that opens
// the file later has another one, and refuses "..". An absolute path keeps its links, which may
// change.
static void make_absolute(const char **path, char **owned)
{
    if (*path && (**path != '/' || strstr(*path, "/../")) && (*owned = realpath(*path, NULL)))
        *path = *owned; // else there is no such file, which check_secrets reports
}

static int check_secrets(struct err *e)
{
    struct secrets_opts *o = &options.secrets;
    make_absolute(&o->path, &secrets_path);
    make_absolute(&o->trust, &secrets_trust);
    json_t *secrets = o->path ? secret_file_read(o->path, e) : NULL;
    json_decref(secrets);
    if (o->path && !secrets)
        return err_wrap(e, "--secrets");
    if (o->trust && !file_exists(o->trust))
        return err_set(e, ERR_INVALID, "the file of --egress-trust does not exist: %s", o->trust);
    return 0;
}

// The file may be made later. Clients are told its absolute path (GET /health).
static int check_keys(struct err *e)
{
    if (!options.keys)
        return 0;
    keys_path = file_absolute(options.keys);
    if (!keys_path)
        return err_set(e, ERR_INVALID, "the directory of --keys does not exist: %s", options.keys);
    options.keys = keys_path;
    return 0;
}

// Labels of letters, digits, '-' and '_', with dots between; a port may follow. It becomes a part
// of host names.
static bool is_domain(const char *d)
{
    size_t len = strcspn(d, ":");
    int64_t port;
    bool ok = len && len <= DOMAIN_CHARS && isalnum((unsigned char)*d);
    for (const char *c = d; ok && c < d + len; c++)
        ok = isalnum((unsigned char)*c) || *c == '-' || *c == '_' || (*c == '.' && c[1] != '.');
    return ok && (!d[len] || str_to_int(d + len + 1, 1, UINT16_MAX, &port));
}

static int check_domain(struct err *e)
{
    if (!options.domain || is_domain(options.domain))
        return 0;
    return err_set(e, ERR_INVALID,
                   "--domain \"%.80s\" is not a domain: use a name such as cubby.example",
                   options.domain);
}

static int read_pool_plan(struct err *e)
{
    struct meminfo info;
    meminfo_read(&info, NULL); // unreadable: without --pool nothing is kept ready
    return pool_plan_parse(text.pool, info.total, (int)sysconf(_SC_NPROCESSORS_ONLN), &options.pool,
                           e);
}

static int check_all(struct err *e)
{
    options.limits.idle = (struct idle_policy){text.freeze_s * 1000, text.hibernate_s * 1000};
    options.ready_fd = (int)text.ready_fd;
    log_set_level((enum log_level)log_parse_level(text.log_level));
    if (check_node(e) < 0 || check_keys(e) < 0 || check_domain(e) < 0 || check_jail(e) < 0 ||
        fetch_guard_init(&options.limits.webhooks_to, &text.webhooks_to, "webhooks-to", e) < 0 ||
        tiers_set(options.tier, options.tiers_allowed, e) < 0 || check_secrets(e) < 0)
        return -1;
    return read_pool_plan(e);
}

struct options *options_read(int argc, char **argv, bool *done, struct err *e)
{
    store_limits_defaults(&options.limits);
    text.freeze_s = options.limits.idle.freeze_ms / 1000;
    text.hibernate_s = options.limits.idle.hibernate_ms / 1000;
    if (read_all(&argc, argv, e) < 0 || check_network(e) < 0)
        return NULL;
    *done = text.help || text.version;
    if (text.help)
        print_help();
    else if (text.version)
        printf("cubbyd %s\n", CUBBY_VERSION);
    else if (argc > 1)
        err_set(e, ERR_INVALID, "cubbyd takes no operands, but got \"%s\"", argv[1]);
    else
        check_all(e);
    return err_is(e) ? NULL : &options;
}

void options_free(void)
{
    pool_plan_fini(&options.pool);
    json_decref(config);
    free(keys_path);
    free(secrets_path);
    free(secrets_trust);
}
