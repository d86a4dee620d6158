// SPDX-License-Identifier: Apache-2.0
// The start of cubby-netd, the other end of the guest's network card. cubby-egress (core_egress.c)
// is started before it.
#include <string.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/home.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/net_stats.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/drivers/host/childlog.h"
#include "sandbox-backend/drivers/host/core.h"
#include "sandbox-backend/drivers/host/jailed.h"

#define NETD_PROGRAM    "cubby-netd"
#define NETD_FD_FRAMES  "3" // netd's descriptors, by number
#define NETD_FD_LISTEN  "4"
#define NETD_FD_CONTROL "5"
#define NETD_FD_STATS   "6"
#define NETD_FD_POLICY  "7"
#define NETD_FD_EGRESS  "8"

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
    int egress auto_close = -1;
    if (core__egress_start(c, &egress, e) < 0)
        return -1;
    // Not an argument: every user of the host can read arguments.
    int policy auto_close = fd_open_memory("policy", c->policy, strlen(c->policy), e);
    if (policy < 0)
        return -1;
    const char *const args[] = {NETD_PROGRAM,   "--frames-fd",  NETD_FD_FRAMES,  "--listen-fd",
                                NETD_FD_LISTEN, "--control-fd", NETD_FD_CONTROL, "--stats-fd",
                                NETD_FD_STATS,  "--policy-fd",  NETD_FD_POLICY,  "--egress-fd",
                                NETD_FD_EGRESS, "--egress-use", c->egress_use,   NULL};
    char *argv[ARRAY_LEN(args)]; // execve(2) takes no const, but changes nothing
    for (size_t i = 0; i < ARRAY_LEN(args); i++)
        argv[i] = (char *)(uintptr_t)args[i];
    if (egress < 0)
        argv[ARRAY_LEN(args) - 5] = NULL;
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
    core__egress_adopt(c, record);
}

int core_network(const struct machine *machine, enum machine_net which, struct net_stats *out,
                 struct err *e)
{
    const struct machine_core *c = core_of_const(machine);
    const char *file = which == MACHINE_NET_SECRETS ? CORE_EGRESS_STATS : CORE_NET_STATS;
    char *path auto_free = str_printf("%s/%s", c->dir, file);
    return net_stats_read(path, out, e);
}
