// SPDX-License-Identifier: Apache-2.0
// cubby-egress of a machine whose sandbox has secrets: its start before netd, which hands
// connections to it, and its end.
//
// What it is told holds secrets. It goes from the daemon's memory into a file without a name, which
// only that process has, and which it closes once it has read it. Nothing of it is kept here.
//
// It ends when netd does. When it ends before, nobody takes its place: netd resets what it would
// have handed over, and the rest of the machine goes on.
#include "sandbox-backend/drivers/microvm/machine.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/net_stats.h"
#include "sandbox-backend/base/self.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/drivers/microvm/childlog.h"
#include "sandbox-backend/drivers/microvm/jailed.h"
#include "sandbox-backend/log/log.h"

#define EGRESS_PROGRAM        "cubby-egress"
#define EGRESS_FD_CONNECTIONS "3" // what it finds where
#define EGRESS_FD_CONFIG      "4"
#define EGRESS_FD_STATS       "5"
// Where it looks for certificate authorities (egress/tls_end.c); those that are there.
#define EGRESS_BUNDLES                                                        \
    "/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", \
        "/etc/ssl/ca-bundle.pem", "/etc/ssl/cert.pem"

void machine__egress_forget(struct machine *m)
{
    if (m->egress_config)
        explicit_bzero(m->egress_config, strlen(m->egress_config));
    free(steal(&m->egress_config));
}

static void on_egress_exit(struct subproc *p, int status, void *ctx)
{
    (void)p;
    struct machine *m = ctx;
    char how[64];
    if (m->state <= MACHINE_RESUMING) {
        subproc_describe(status, how, sizeof how);
        char *said auto_free = childlog_last_line(m->egress_log);
        log_error("machine.egress",
                  "id=%s it %s (%s): what the guest opens outwards is refused from now on", m->id,
                  how, said);
    }
    machine__check_gone(m);
}

int machine__egress_start(struct machine *m, int *netd_end, struct err *e)
{
    *netd_end = -1;
    if (!m->egress_config)
        return 0;
    char *file auto_free = self_program(EGRESS_PROGRAM, e);
    int config auto_close =
        file ? fd_open_memory("egress", m->egress_config, strlen(m->egress_config), e) : -1;
    machine__egress_forget(m);
    int pair[2];
    if (config < 0 || (m->egress_log = childlog_open("egress.log", e)) < 0)
        return -1;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
        return err_sys(e, errno, "make a socket pair");
    int its auto_close = pair[1];
    char *path auto_free = str_printf("%s/" MACHINE_EGRESS_STATS, m->dir);
    int stats auto_close = net_stats_create(path, e);
    const char *const args[] = {
        EGRESS_PROGRAM,   "--connections-fd", EGRESS_FD_CONNECTIONS, "--config-fd",
        EGRESS_FD_CONFIG, "--stats-fd",       EGRESS_FD_STATS,       NULL};
    char *argv[ARRAY_LEN(args)]; // execve(2) takes them without const and leaves them as they are
    for (size_t i = 0; i < ARRAY_LEN(args); i++)
        argv[i] = (char *)(uintptr_t)args[i];
    const int fds[] = {-1, m->egress_log, m->egress_log, its, config, stats};
    struct spawn_opts opts = {.file = file, .argv = argv, .fds = fds, .fd_count = ARRAY_LEN(fds)};
    const char *const files[] = {EGRESS_BUNDLES, m->egress_trust, NULL};
    const struct jailed_program program = {.kind = JAIL_NETWORK, .files = files};
    if (stats >= 0)
        m->egress = machine__start_jailed(m, &program, &opts, on_egress_exit, e);
    if (m->egress)
        *netd_end = pair[0];
    else
        close(pair[0]);
    return m->egress ? 0 : -1;
}

// One of a machine that has none, or whose has ended, is no loss.
void machine__egress_adopt(struct machine *m, const json_t *record)
{
    const json_t *entry = json_object_get(record, "egress");
    pid_t pid = (pid_t)json_integer_value(json_object_get(entry, "pid"));
    uint64_t start = (uint64_t)json_integer_value(json_object_get(entry, "start_time"));
    m->egress = pid > 0 ? subproc_adopt(m->loop, pid, start, on_egress_exit, m, NULL) : NULL;
    if (m->egress)
        m->egress_log = childlog_reopen(pid);
    else if (json_is_object(entry))
        log_warn("machine.egress", "id=%s it no longer runs: the guest's connections are refused",
                 m->id);
}
