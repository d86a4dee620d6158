// SPDX-License-Identifier: Apache-2.0
// A machine whose guest consists of processes of the host.
//
// Create, in order: cubby-nest starts and prepares the guest's surroundings; netd starts; a worker
// makes the control groups, and moves both into them; the guest's name then lets cubby-nest start
// it; the machine is ready when envd can be connected to.
#include "sandbox-backend/drivers/nest/nested.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/home.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/drivers/host/childlog.h"
#include "sandbox-backend/drivers/host/host_jail.h"
#include "sandbox-backend/nest/nest.h"

#define FD_NETWORK "3" // cubby-nest's descriptors, by number
#define FD_GO      "4"
#define FD_DIR     "5"
#define FD_DAEMON  "6"

#define ARGS_MAX       128
#define SOCKET_BYTES   (4 << 20) // some frames of 64 KiB each way
#define TEMPLATE_BYTES 65536
#define SIZE_MB_MAX    (1 << 24)
#define CHILDREN_MAX   256 // of one process
#define PROCESSES_MAX  512 // that are measured; a few milliseconds
#define STATUS_BYTES   8192

struct nested *nested_new(const struct core_kind *kind, uv_loop_t *loop,
                          const struct machine_spec *spec, machine_ready_cb on_ready,
                          machine_exit_cb on_exit, void *ctx)
{
    struct nested *n = xcalloc(1, sizeof *n);
    core_init(&n->core, kind, loop, spec, on_ready, on_exit, ctx);
    n->go = -1;
    return n;
}

static struct nested *nested_of(struct machine_core *core)
{
    return (struct nested *)core;
}

// ---- the start

// network: the descriptor that cubby-nest gets as FD_NETWORK.
static int start_nest(struct nested *n, const struct nested_start *start, int network, int go,
                      struct err *e)
{
    char *file auto_free = self_program(NEST_PROGRAM, e);
    if (!file)
        return -1;
    char *argv[ARGS_MAX];
    size_t count = 0;
    const char *const first[] = {NEST_PROGRAM, start->has_card ? "--frames-fd" : "--vmnet-fd",
                                 FD_NETWORK,   "--go-fd",
                                 FD_GO,        "--dir-fd",
                                 FD_DIR};
    for (size_t i = 0; i < ARRAY_LEN(first); i++)
        argv[count++] =
            (char *)(uintptr_t)first[i]; // execve(2) takes no const, but changes nothing
    if (host_jail_ends_with_daemon()) {
        argv[count++] = (char *)(uintptr_t) "--daemon-fd";
        argv[count++] = (char *)(uintptr_t)FD_DAEMON;
    }
    for (const char *const *arg = start->args; *arg && count < ARGS_MAX - 2; arg++)
        argv[count++] = (char *)(uintptr_t)*arg;
    argv[count++] = (char *)(uintptr_t) "--";
    for (const char *const *arg = start->operands; *arg && count < ARGS_MAX - 1; arg++)
        argv[count++] = (char *)(uintptr_t)*arg;
    argv[count] = NULL;
    bool ends = host_jail_ends_with_daemon();
    int dir auto_close = open(n->core.dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int daemon auto_close = ends ? (int)syscall(SYS_pidfd_open, getpid(), 0) : -1;
    if (dir < 0 || (ends && daemon < 0))
        return err_sys(e, errno, "open %s", dir < 0 ? n->core.dir : "the daemon's process");
    const int fds[] = {-1, n->core.guest_log, n->core.guest_log, network, go, dir, daemon};
    const struct spawn_opts opts = {
        .file = file, .argv = argv, .fds = fds, .fd_count = (int)ARRAY_LEN(fds) - !ends};
    n->core.guest = subproc_start(n->core.loop, &opts, core_on_guest_exit, &n->core, e);
    return n->core.guest ? 0 : -1;
}

static int start_with_card(struct nested *n, const struct nested_start *start, int go,
                           struct err *e)
{
    int card[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, card) != 0)
        return err_sys(e, errno, "make a socket pair");
    int own auto_close = card[0], netd_end auto_close = card[1];
    for (int i = 0; i < 2; i++)
        setsockopt(card[i], SOL_SOCKET, SO_SNDBUF, &(int){SOCKET_BYTES}, sizeof(int));
    if (start_nest(n, start, own, go, e) < 0)
        return -1;
    return core_network_start(&n->core, netd_end, e);
}

static int start_without_card(struct nested *n, const struct nested_start *start, int go,
                              struct err *e)
{
    int listener auto_close = fd_listen_unix(n->core.vmnet, e);
    return listener < 0 ? -1 : start_nest(n, start, listener, go, e);
}

int nested_start(struct nested *n, const struct nested_start *start, struct err *e)
{
    int go[2];
    if (pipe2(go, O_CLOEXEC) < 0)
        return err_sys(e, errno, "make a pipe");
    int its_end auto_close = go[0];
    n->go = go[1];
    n->core.guest_log = childlog_open(NESTED_LOG, e);
    if (n->core.guest_log < 0)
        return -1;
    int result = start->has_card ? start_with_card(n, start, its_end, e)
                                 : start_without_card(n, start, its_end, e);
    if (result < 0)
        return -1;
    core_step(&n->core, "started");
    core_limits_start(&n->core, n->core.guest, &start->limits);
    return 0;
}

static void run_confine(void *ctx, struct err *e)
{
    struct nested *n = ctx;
    (void)e;
    core_limits_confine(&n->core, subproc_pid(n->core.guest));
}

static void on_confined(struct machine_core *core, const struct err *e)
{
    struct nested *n = nested_of(core);
    (void)e;
    if (core->state != MACHINE_STARTING)
        return;
    core_step(core, "confined");
    char *name auto_free = str_printf("%s\n", core->id);
    if (fd_write_all(n->go, name, strlen(name), NULL) < 0) {
        core_weak_sign(core, "cubby-nest ended before the guest was started");
        return;
    }
    close(steal_fd(&n->go));
    core_boot_start(core);
}

void nested_on_limited(struct machine_core *core)
{
    if (core->state == MACHINE_STARTING)
        core_work(core, run_confine, on_confined, core);
}

const char *nested_why_late(const struct machine_core *core)
{
    (void)core;
    return "envd did not start in time";
}

// A guest that has not started must not start any more. If cubby-nest has ended, it may have left
// processes: of the tier "none", those that have left their session.
void nested_kill(struct machine_core *core)
{
    struct nested *n = nested_of(core);
    if (!core->guest || subproc_has_exited(core->guest))
        core_limits_kill(core);
    if (n->go >= 0)
        close(steal_fd(&n->go));
}

int nested_close(struct machine_core *core)
{
    (void)core;
    return 0;
}

void nested_fini(struct machine_core *core)
{
    mem_close_fd(&nested_of(core)->go);
}

// ---- adoption

static void on_policy_set(struct machine_core *core, const struct err *e)
{
    if (core->state != MACHINE_STARTING)
        return;
    if (e)
        core_fail(core, e);
    else
        core_ready(core, MACHINE_RUNNING);
}

void nested_adopt(struct nested *n, const json_t *record)
{
    struct err e = ERR_INIT;
    if (core_adopt(&n->core, record, &e) < 0) {
        e.code = ERR_GONE;
        core_fail(&n->core, &e); // ends the process that is left
        return;
    }
    core_step(&n->core, "found");
    if (n->core.netd)
        core_policy_send(&n->core, on_policy_set);
    else
        core_boot_start(&n->core); // envd listens already
}

// ---- usage

static int64_t number_of(const char *text, const char *member)
{
    const char *at = strstr(text, member);
    return at ? strtoll(at + strlen(member), NULL, 10) << 10 : 0;
}

// left: so many processes more are measured.
static int64_t memory_below(pid_t pid, int depth, int *left)
{
    static pid_t children[NESTED_LEVELS][CHILDREN_MAX]; // the loop's thread only
    int most = *left < CHILDREN_MAX ? *left : CHILDREN_MAX;
    int count = depth < NESTED_LEVELS ? subproc_children(pid, children[depth], most) : 0;
    int64_t sum = 0;
    *left -= count;
    for (int i = 0; i < count; i++) {
        struct buf text auto_buf = BUF_INIT;
        char path[48];
        snprintf(path, sizeof path, "/proc/%d/status", (int)children[depth][i]);
        if (file_read(path, STATUS_BYTES, &text, NULL) == 0)
            sum += number_of(buf_str(&text), "\nRssAnon:") +
                   number_of(buf_str(&text), "\nVmSwap:") + number_of(buf_str(&text), "\nVmPTE:");
        sum += memory_below(children[depth][i], depth + 1, left);
    }
    return sum;
}

int64_t nested_memory_bytes(const struct machine_core *core)
{
    int left = PROCESSES_MAX;
    return memory_below(subproc_pid(core->guest), 0, &left);
}

// ---- facts

int nested_facts(const char *template_dir, struct machine_facts *out, struct err *e)
{
    char *path auto_free = str_printf("%s/template.json", template_dir);
    struct buf text auto_buf = BUF_INIT;
    int64_t cpus = 1;
    json_t *json = file_read(path, TEMPLATE_BYTES, &text, e) == 0
                       ? json_parse(buf_str(&text), text.len, e)
                       : NULL;
    int result =
        json && json_get_int(json, "cpus", 1, 1024, &cpus, 1, e) == 0 &&
                json_get_int(json, "memory_mb", 1, SIZE_MB_MAX, &out->memory_mb, 512, e) == 0 &&
                json_get_int(json, "disk_mb", 1, SIZE_MB_MAX, &out->disk_mb, 2048, e) == 0 &&
                json_get_bool(json, "python", &out->python, false, e) == 0
            ? 0
            : -1;
    out->cpus = (int)cpus;
    json_decref(json);
    return result;
}
