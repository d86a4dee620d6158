// SPDX-License-Identifier: Apache-2.0
// cubby-egress of a machine, for a sandbox with secrets or header rules. netd hands connections to
// it.
//
// The settings of egress contain secrets. They go from the daemon's memory into an unnamed file
// that only that process has, and that it closes after reading. This file keeps no copy of them.
//
// Egress ends when netd does. If egress ends first, it is not replaced: netd resets the connections
// that it would have handed over, and the rest of the machine goes on.
//
// New settings while the machine lives (core_set_egress) get a new egress:
//
// 1. Start it, with a socket pair of its own.
// 2. Send netd the policy and netd's end of the pair. netd then cuts the guest's connections to the
//    outside, so that none goes on under the old settings, and hands new ones to the new egress.
// 3. End the old egress, and answer when it is gone. If netd refuses, end the new one instead.
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

#define EGRESS_PROGRAM        "cubby-egress"
#define EGRESS_FD_CONNECTIONS "3" // egress's descriptors, by number
#define EGRESS_FD_CONFIG      "4"
#define EGRESS_FD_STATS       "5"
// Where egress looks for certificate authorities (egress/tls_context.c). Only existing paths are
// passed.
#define EGRESS_BUNDLES                                                        \
    "/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", \
        "/etc/ssl/ca-bundle.pem", "/etc/ssl/cert.pem"

static void wipe(char **text)
{
    if (*text)
        explicit_bzero(*text, strlen(*text));
    free(steal(text));
}

void core__egress_forget(struct machine_core *c)
{
    wipe(&c->egress_config);
}

static void on_egress_exit(struct subproc *p, int status, void *ctx)
{
    struct machine_core *c = ctx;
    char how[64];
    bool is_replaced = c->egress_changes && p == c->egress; // netd has closed its end
    if (core_is_alive(c) && !is_replaced) {
        subproc_describe(status, how, sizeof how);
        char *said auto_free = childlog_last_line(c->egress_log);
        log_error("machine.egress",
                  "id=%s egress %s (%s): the guest's outward connections are refused from now on",
                  c->id, how, said);
    }
    core_check_gone(c);
}

// Start an egress with c->egress_config, which is wiped. *netd_end and *log are the caller's.
static struct subproc *start(struct machine_core *c, int *netd_end, int *log, struct err *e)
{
    char *file auto_free = self_program(EGRESS_PROGRAM, e);
    int config auto_close =
        file ? fd_open_memory("egress", c->egress_config, strlen(c->egress_config), e) : -1;
    core__egress_forget(c);
    int pair[2];
    if (config < 0 || (*log = childlog_open("egress.log", e)) < 0)
        return NULL;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) {
        err_sys(e, errno, "make a socket pair");
        return NULL;
    }
    int its auto_close = pair[1];
    char *path auto_free = str_printf("%s/" CORE_EGRESS_STATS, c->dir);
    int stats auto_close = net_stats_create(path, e);
    const char *const args[] = {
        EGRESS_PROGRAM,   "--connections-fd", EGRESS_FD_CONNECTIONS, "--config-fd",
        EGRESS_FD_CONFIG, "--stats-fd",       EGRESS_FD_STATS,       NULL};
    char *argv[ARRAY_LEN(args)]; // execve(2) takes no const, but changes nothing
    for (size_t i = 0; i < ARRAY_LEN(args); i++)
        argv[i] = (char *)(uintptr_t)args[i];
    const int fds[] = {-1, *log, *log, its, config, stats};
    struct spawn_opts opts = {.file = file, .argv = argv, .fds = fds, .fd_count = ARRAY_LEN(fds)};
    const char *const files[] = {EGRESS_BUNDLES, c->egress_trust, NULL};
    const struct jailed_program program = {
        .kind = JAIL_NETWORK, .files = files, .resolves = !str_eq(c->egress_use, "hand")};
    struct subproc *p = stats < 0 ? NULL : core_start_jailed(c, &program, &opts, on_egress_exit, e);
    *netd_end = pair[0];
    return p;
}

int core__egress_start(struct machine_core *c, int *netd_end, struct err *e)
{
    if (!c->egress_config)
        return 0;
    c->egress = start(c, netd_end, &c->egress_log, e);
    return c->egress ? 0 : -1;
}

// A machine without egress, or whose egress has ended, is adopted all the same.
void core__egress_adopt(struct machine_core *c, const json_t *record)
{
    const json_t *entry = json_object_get(record, "egress");
    pid_t pid = (pid_t)json_integer_value(json_object_get(entry, "pid"));
    uint64_t start_time = (uint64_t)json_integer_value(json_object_get(entry, "start_time"));
    c->egress = pid > 0 ? subproc_adopt(c->loop, pid, start_time, on_egress_exit, c, NULL) : NULL;
    if (c->egress)
        c->egress_log = childlog_reopen(pid);
    else if (json_is_object(entry))
        log_warn("machine.egress",
                 "id=%s egress no longer runs: the guest's outward connections are refused", c->id);
}

// ---- new settings

// Answer the request, once the egress that is not used any more is gone.
static void on_unused_gone(struct machine_core *c)
{
    struct err e = c->egress_error;
    subproc_close(steal(&c->egress_unused), NULL, NULL);
    if (c->request)
        core_answer(c, err_is(&e) ? &e : NULL);
}

static void on_unused_exit(struct subproc *p, int status, void *ctx)
{
    (void)p, (void)status;
    struct machine_core *c = ctx;
    if (core_is_alive(c))
        on_unused_gone(c);
    else
        core_check_gone(c);
}

static void end_unused(struct machine_core *c, struct subproc *unused)
{
    c->egress_unused = unused;
    if (!unused || subproc_has_exited(unused)) {
        if (unused)
            on_unused_gone(c);
        else if (c->request)
            core_answer(c, err_is(&c->egress_error) ? &c->egress_error : NULL);
        return;
    }
    subproc_retarget(unused, on_unused_exit, c);
    subproc_kill(unused);
}

static void on_netd_answer(struct machine_core *c, const struct err *e)
{
    struct subproc *unused = steal(&c->egress_next);
    int log = steal_fd(&c->egress_next_log);
    bool failed = unused && subproc_has_exited(unused); // it does not like its settings
    c->egress_changes = false;
    c->egress_error = e ? *e : (struct err)ERR_INIT;
    if (!e && failed)
        err_set(&c->egress_error, ERR_INTERNAL,
                "cubby-egress ended at its start; see cubbyd's log");
    if (!e) { // exchange them
        struct subproc *next = unused;
        int next_log = log;
        unused = c->egress;
        log = c->egress_log;
        c->egress = next;
        c->egress_log = next_log;
    }
    end_unused(c, unused);
    mem_close_fd(&log);
}

static void serve_egress(struct machine_core *c, struct machine_request *r)
{
    struct err e = ERR_INIT;
    int netd_end = -1;
    c->egress_config = steal(&r->egress);
    c->egress_use = r->egress_use;
    if (!c->netd)
        err_set(&e, ERR_UNIMPLEMENTED, "this sandbox has no network, so it has no network policy");
    else if (c->egress_config)
        c->egress_next = start(c, &netd_end, &c->egress_next_log, &e);
    core__egress_forget(c);
    if (err_is(&e)) {
        int log = steal_fd(&c->egress_next_log);
        mem_close_fd(&log);
        mem_close_fd(&netd_end);
        core_answer(c, &e);
        return;
    }
    c->egress_changes = true;
    if (c->egress_next)
        core_confine(&c->machine, subproc_pid(c->egress_next));
    const struct policy_message message = {r->text, true, netd_end, r->egress_use, on_netd_answer};
    core__policy_send(c, &message);
}

const char *core__egress_use(const struct machine_egress *egress)
{
    return egress->hands && egress->dials ? "both" : egress->dials ? "dial" : "hand";
}

void core_set_egress(struct machine *machine, const struct net_policy *policy,
                     const struct machine_egress *egress, machine_done_cb cb, void *ctx)
{
    struct machine_request *r = core_request_new(core_of(machine), serve_egress, ctx);
    r->on_done = cb;
    r->text = core__policy_text(policy);
    r->egress = egress->config ? xstrdup(egress->config) : NULL;
    r->egress_use = core__egress_use(egress);
    core_request(r);
}
