// SPDX-License-Identifier: Apache-2.0
// The network processes of a machine: cubby-netd, which is the other end of the guest's network
// card, and cubby-egress, for a sandbox with secrets. Egress is started before netd, which hands
// connections to it.
//
// The settings of egress contain secrets. They go from the daemon's memory into an unnamed file
// that only that process has, and that it closes after reading. This file keeps no copy of them.
//
// Egress ends when netd does. If egress ends first, it is not replaced: netd resets the connections
// that it would have handed over, and the rest of the machine goes on.
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/home.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/net_stats.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/drivers/host/childlog.h"
#include "sandbox-backend/drivers/host/core.h"
#include "sandbox-backend/drivers/host/jailed.h"
#include "sandbox-backend/log/log.h"

#define NETD_PROGRAM    "cubby-netd"
#define NETD_FD_FRAMES  "3" // netd's descriptors, by number
#define NETD_FD_LISTEN  "4"
#define NETD_FD_CONTROL "5"
#define NETD_FD_STATS   "6"
#define NETD_FD_POLICY  "7"
#define NETD_FD_EGRESS  "8"

#define EGRESS_PROGRAM        "cubby-egress"
#define EGRESS_FD_CONNECTIONS "3" // egress's descriptors, by number
#define EGRESS_FD_CONFIG      "4"
#define EGRESS_FD_STATS       "5"
// Where egress looks for certificate authorities (egress/tls_context.c). Only existing paths are
// passed.
#define EGRESS_BUNDLES                                                        \
    "/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", \
        "/etc/ssl/ca-bundle.pem", "/etc/ssl/cert.pem"

void core__egress_forget(struct machine_core *c)
{
    if (c->egress_config)
        explicit_bzero(c->egress_config, strlen(c->egress_config));
    free(steal(&c->egress_config));
}

static void on_egress_exit(struct subproc *p, int status, void *ctx)
{
    (void)p;
    struct machine_core *c = ctx;
    char how[64];
    if (core_is_alive(c)) {
        subproc_describe(status, how, sizeof how);
        char *said auto_free = childlog_last_line(c->egress_log);
        log_error("machine.egress",
                  "id=%s egress %s (%s): the guest's outward connections are refused from now on",
                  c->id, how, said);
    }
    core_check_gone(c);
}

static int start_egress(struct machine_core *c, int *netd_end, struct err *e)
{
    *netd_end = -1;
    if (!c->egress_config)
        return 0;
    char *file auto_free = self_program(EGRESS_PROGRAM, e);
    int config auto_close =
        file ? fd_open_memory("egress", c->egress_config, strlen(c->egress_config), e) : -1;
    core__egress_forget(c);
    int pair[2];
    if (config < 0 || (c->egress_log = childlog_open("egress.log", e)) < 0)
        return -1;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
        return err_sys(e, errno, "make a socket pair");
    int its auto_close = pair[1];
    char *path auto_free = str_printf("%s/" CORE_EGRESS_STATS, c->dir);
    int stats auto_close = net_stats_create(path, e);
    const char *const args[] = {
        EGRESS_PROGRAM,   "--connections-fd", EGRESS_FD_CONNECTIONS, "--config-fd",
        EGRESS_FD_CONFIG, "--stats-fd",       EGRESS_FD_STATS,       NULL};
    char *argv[ARRAY_LEN(args)]; // execve(2) takes no const, but changes nothing
    for (size_t i = 0; i < ARRAY_LEN(args); i++)
        argv[i] = (char *)(uintptr_t)args[i];
    const int fds[] = {-1, c->egress_log, c->egress_log, its, config, stats};
    struct spawn_opts opts = {.file = file, .argv = argv, .fds = fds, .fd_count = ARRAY_LEN(fds)};
    const char *const files[] = {EGRESS_BUNDLES, c->egress_trust, NULL};
    const struct jailed_program program = {.kind = JAIL_NETWORK, .files = files};
    if (stats >= 0)
        c->egress = core_start_jailed(c, &program, &opts, on_egress_exit, e);
    if (c->egress)
        *netd_end = pair[0];
    else
        close(pair[0]);
    return c->egress ? 0 : -1;
}

// A machine without egress, or whose egress has ended, is adopted all the same.
static void adopt_egress(struct machine_core *c, const json_t *record)
{
    const json_t *entry = json_object_get(record, "egress");
    pid_t pid = (pid_t)json_integer_value(json_object_get(entry, "pid"));
    uint64_t start = (uint64_t)json_integer_value(json_object_get(entry, "start_time"));
    c->egress = pid > 0 ? subproc_adopt(c->loop, pid, start, on_egress_exit, c, NULL) : NULL;
    if (c->egress)
        c->egress_log = childlog_reopen(pid);
    else if (json_is_object(entry))
        log_warn("machine.egress",
                 "id=%s egress no longer runs: the guest's outward connections are refused", c->id);
}

// ---- netd

// The descriptors that netd inherits and that the daemon then closes.
struct netd_fds {
    int frames;  // borrowed
    int vmnet;   // listening, as the next
    int control; //
};

static int start_netd(struct machine_core *c, const struct netd_fds *own, struct err *e)
{
    char *file auto_free = self_program(NETD_PROGRAM, e);
    if (!file)
        return -1;
    int egress auto_close = -1; // started before netd, which hands connections to it
    if (start_egress(c, &egress, e) < 0)
        return -1;
    // Not an argument: every user of the host can read arguments.
    int policy auto_close = fd_open_memory("policy", c->policy, strlen(c->policy), e);
    if (policy < 0)
        return -1;
    const char *const args[] = {
        NETD_PROGRAM,   "--frames-fd",   NETD_FD_FRAMES, "--listen-fd", NETD_FD_LISTEN,
        "--control-fd", NETD_FD_CONTROL, "--stats-fd",   NETD_FD_STATS, "--policy-fd",
        NETD_FD_POLICY, "--egress-fd",   NETD_FD_EGRESS, NULL};
    char *argv[ARRAY_LEN(args)]; // execve(2) takes no const, but changes nothing
    for (size_t i = 0; i < ARRAY_LEN(args); i++)
        argv[i] = (char *)(uintptr_t)args[i];
    if (egress < 0)
        argv[ARRAY_LEN(args) - 3] = NULL;
    char *path auto_free = str_printf("%s/" CORE_NET_STATS, c->dir);
    int stats auto_close = net_stats_create(path, e);
    if (stats < 0)
        return -1;
    const int fds[] = {-1,           c->netd_log, c->netd_log, own->frames, own->vmnet,
                       own->control, stats,       policy,      egress};
    struct spawn_opts opts = {
        .file = file, .argv = argv, .fds = fds, .fd_count = (int)ARRAY_LEN(fds) - (egress < 0)};
    const struct jailed_program program = {.kind = JAIL_NETWORK, .resolves = true};
    c->netd = core_start_jailed(c, &program, &opts, core__on_netd_exit, e);
    return c->netd ? 0 : -1;
}

int core_network_start(struct machine_core *c, int frames, struct err *e)
{
    struct netd_fds own = {.frames = frames, .vmnet = fd_listen_unix(c->vmnet, e), .control = -1};
    own.control = own.vmnet < 0 ? -1 : fd_listen_unix(c->control, e);
    c->netd_log = own.control < 0 ? -1 : childlog_open("netd.log", e);
    int result = c->netd_log < 0 ? -1 : start_netd(c, &own, e);
    mem_close_fd(&own.vmnet);
    mem_close_fd(&own.control);
    return result;
}

void core__network_adopt(struct machine_core *c, const json_t *record)
{
    c->netd_log = childlog_reopen(subproc_pid(c->netd));
    adopt_egress(c, record);
}

int core_network(const struct machine *machine, enum machine_net which, struct net_stats *out,
                 struct err *e)
{
    const struct machine_core *c = core_of_const(machine);
    const char *file = which == MACHINE_NET_SECRETS ? CORE_EGRESS_STATS : CORE_NET_STATS;
    char *path auto_free = str_printf("%s/%s", c->dir, file);
    return net_stats_read(path, out, e);
}
