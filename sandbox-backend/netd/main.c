// SPDX-License-Identifier: Apache-2.0
// cubby-netd: the options and limits of one process, which serves one sandbox.
#include <errno.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/err.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/opts.h"
#include "sandbox-backend/base/version.h"
#include "sandbox-backend/log/log.h"
#include "sandbox-backend/netd/netd.h"
#include "sandbox-backend/netd/wire/pollset.h"

// ---- limits of the process: a guest can only harm its own network

// Memory that libslirp may fill with data of the guest: buffers of its connections, and segments
// that wait for a missing one (outward.h), together less than this. Above it the process aborts,
// and with it this sandbox's network.
#define CONFINE_DATA_BYTES (512L * 1024 * 1024)

// Allocations of this size and above are mapped, not taken from the heap. libslirp has two buffers
// of 128 KiB for each connection, enlarges them at once, and leaves them mostly empty. In the heap
// they would be copied when they move, and would stay resident after they are freed. Its packets
// have 64 KiB as well: freed in the heap, they would leave room for such buffers.
#define CONFINE_MAPPED_BYTES (64 * 1024)
#define CONFINE_HEAP_STEP    (16 * 1024) // the heap grows by this, which leaves no such room

static int limit_descriptors(struct err *e)
{
    struct rlimit r;
    if (getrlimit(RLIMIT_NOFILE, &r) < 0)
        return err_sys(e, errno, "read the limit of open files");
    if (r.rlim_max < POLLSET_MAX)
        return err_set(e, ERR_LIMIT,
                       "netd needs %d open files, but the limit is %lu: raise it (ulimit -Hn)",
                       POLLSET_MAX, (unsigned long)r.rlim_max);
    r.rlim_cur = POLLSET_MAX;
    if (setrlimit(RLIMIT_NOFILE, &r) < 0)
        return err_sys(e, errno, "set the limit of open files");
    return 0;
}

// A sanitizer's own tables are larger than any useful limit.
static int limit_memory(struct err *e)
{
#ifndef __SANITIZE_ADDRESS__
    struct rlimit r = {CONFINE_DATA_BYTES, CONFINE_DATA_BYTES};
    if (setrlimit(RLIMIT_DATA, &r) < 0)
        return err_sys(e, errno, "set the limit of memory");
#else
    (void)e;
#endif
    return 0;
}

// Set the limits of descriptors and memory, keep the heap small, and give up new privileges. Return
// -1 when the host's hard limit of descriptors is below POLLSET_MAX.
static int confine_self(struct err *e)
{
    mallopt(M_MMAP_THRESHOLD, CONFINE_MAPPED_BYTES);
    mallopt(M_TOP_PAD, CONFINE_HEAP_STEP);
    signal(SIGPIPE, SIG_IGN); // libslirp writes to sockets whose reader may be gone
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return err_sys(e, errno, "set no_new_privs");
    if (limit_descriptors(e) < 0)
        return -1;
    return limit_memory(e);
}

static struct {
    int64_t frames_fd, listen_fd, control_fd, stats_fd, policy_fd, egress_fd, log_fd;
    const char *mode, *policy, *egress_use, *log_level;
    bool help, version;
} options = {.frames_fd = -1,
             .listen_fd = -1,
             .control_fd = -1,
             .stats_fd = -1,
             .policy_fd = -1,
             .egress_fd = -1,
             .egress_use = "hand",
             .log_fd = 2,
             .mode = "public",
             .log_level = "info"};

static const struct opt table[] = {
    {.name = "frames-fd",
     .type = OPT_INT,
     .value = &options.frames_fd,
     .arg = "FD",
     .help = "socket for Ethernet frames: a stream, as QEMU's -netdev stream, or packets, as "
             "gVisor's fdbased link",
     .max = INT16_MAX},
    {.name = "listen-fd",
     .type = OPT_INT,
     .value = &options.listen_fd,
     .arg = "FD",
     .help = "listening unix socket for vm.net, where clients send \"CONNECT <port>\"",
     .max = INT16_MAX},
    {.name = "control-fd",
     .type = OPT_INT,
     .value = &options.control_fd,
     .arg = "FD",
     .help = "listening unix socket that takes a new policy while the sandbox runs",
     .max = INT16_MAX},
    {.name = "stats-fd",
     .type = OPT_INT,
     .value = &options.stats_fd,
     .arg = "FD",
     .help = "file in which the counters are kept (it is mapped)",
     .max = INT16_MAX},
    {.name = "egress-fd",
     .type = OPT_INT,
     .value = &options.egress_fd,
     .arg = "FD",
     .help = "packet socket to cubby-egress",
     .max = INT16_MAX},
    {.name = "egress-use",
     .type = OPT_STRING,
     .value = &options.egress_use,
     .arg = "USE",
     .help =
         "hand: cubby-egress gets every TLS and HTTP connection (default); dial: it makes every "
         "TCP connection to the outside; both",
     .choices = "hand|dial|both"},
    {.name = "mode",
     .type = OPT_STRING,
     .value = &options.mode,
     .arg = "MODE",
     .help = "what the guest may reach: none, or public: all public addresses but this host's "
             "(default)",
     .choices = "none|public"},
    {.name = "policy",
     .type = OPT_STRING,
     .value = &options.policy,
     .arg = "JSON",
     .help = "the whole policy, instead of --mode: {\"internet\": true, \"allowOut\": [...], "
             "\"denyOut\": [...]}"},
    {.name = "policy-fd",
     .type = OPT_INT,
     .value = &options.policy_fd,
     .arg = "FD",
     .help = "descriptor to read --policy from, so that ps does not show it",
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
    puts(
        "Usage: cubby-netd --frames-fd FD --listen-fd FD [options]\n"
        "Serves the network of one sandbox. cubbyd starts it. It ends when the machine closes the\n"
        "socket of --frames-fd.\n");
    opts_help(stdout, table, ARRAY_LEN(table));
}

static int check_options(int argc, struct err *e)
{
    if (argc > 1)
        return err_set(e, ERR_INVALID, "cubby-netd takes no operands");
    if (options.frames_fd < 0 || options.listen_fd < 0)
        return err_set(e, ERR_INVALID, "--frames-fd and --listen-fd are required");
    if (options.policy && options.policy_fd >= 0)
        return err_set(e, ERR_INVALID, "--policy and --policy-fd cannot be used together");
    log_set_fd((int)options.log_fd);
    log_set_level((enum log_level)log_parse_level(options.log_level));
    return 0;
}

static int parse_policy(struct net_policy *policy, const char *text, size_t len, struct err *e)
{
    json_t *json = json_parse(text, len, e);
    int rc = json ? net_policy_from_json(policy, json, e) : -1;
    json_decref(json);
    return rc;
}

static int read_policy_fd(struct net_policy *policy, struct err *e)
{
    struct buf text auto_buf = BUF_INIT;
    int rc = fd_read_all((int)options.policy_fd, NET_POLICY_TEXT_MAX, &text, e);
    close((int)options.policy_fd);
    return rc < 0 ? rc : parse_policy(policy, buf_str(&text), text.len, e);
}

static int read_policy(struct net_policy *policy, struct err *e)
{
    *policy = (struct net_policy){.internet = strcmp(options.mode, "public") == 0};
    if (options.policy_fd >= 0)
        return read_policy_fd(policy, e) < 0 ? err_wrap(e, "--policy-fd") : 0;
    if (!options.policy)
        return 0;
    if (parse_policy(policy, options.policy, strlen(options.policy), e) < 0)
        return err_wrap(e, "--policy");
    return 0;
}

static int run(struct err *e)
{
    struct net_policy policy;
    struct netd_options o = {
        .frames_fd = (int)options.frames_fd,
        .listen_fd = (int)options.listen_fd,
        .control_fd = (int)options.control_fd,
        .stats_fd = (int)options.stats_fd,
        .egress = {.fd = (int)options.egress_fd},
        .policy = &policy,
    };
    if ((options.egress_fd >= 0 && gate_parse_use(options.egress_use, &o.egress, e) < 0) ||
        confine_self(e) < 0 || read_policy(&policy, e) < 0)
        return -1;
    struct netd *n = netd_new(&o, e);
    net_policy_fini(&policy);
    if (!n)
        return -1;
    int rc = netd_run(n, e);
    netd_free(n);
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
        puts("cubby-netd " CUBBY_VERSION);
        return 0;
    }
    if (rc < 0 || check_options(argc, &e) < 0) {
        fprintf(stderr, "cubby-netd: %s\nTry --help.\n", e.msg);
        return 2;
    }
    if (run(&e) < 0) {
        log_error("netd.failed", "error=\"%s\"", e.msg);
        return 1;
    }
    return 0;
}
