// SPDX-License-Identifier: Apache-2.0
// Starting a container in numbered steps. It is restored from its template's checkpoint or from an
// image. Without either, its guest boots.
#include "sandbox-backend/drivers/gvisor/container.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/limits.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/drivers/gvisor/blank.h"
#include "sandbox-backend/drivers/gvisor/checkpoint.h"
#include "sandbox-backend/drivers/gvisor/creator.h"
#include "sandbox-backend/drivers/gvisor/links.h"
#include "sandbox-backend/drivers/gvisor/runsc.h"
#include "sandbox-backend/drivers/host/childlog.h"
#include "sandbox-backend/drivers/host/host_jail.h"
#include "sandbox-backend/drivers/host/jailed.h"
#include "sandbox-backend/log/log.h"

#define SOCKET_BYTES (4 << 20) // some frames of 64 KiB each way
#define NETWORK_MS   15000     // the sentry may still start
#define RESTORE_MS   60000
#define START_MS     30000
#define CPU_SPARE    1 // for netd, and for what the sentry does beside its guest
#define FILE_BASE    (4LL << 30)
#define FILE_FACTOR  4 // of the machine's memory, for the largest file that its sentry may write
// systrap takes so much of the sentry's memory file for each process. Only some pages of it are
// used, but the sentry ends if the file cannot grow by as much.
#define TASK_BYTES    ((16LL << 20) + (128 << 10))
#define TASKS_MAX     (LIMIT_COMMANDS_TASKS + LIMIT_KERNEL_TASKS + 100) // the others: init, envd
#define FILES_MAX     20480
#define PROCESSES_MAX 16384 // stubs have a thread for each thread of the guest
#define PIDS_FILE     "/proc/sys/kernel/pid_max"
#define PIDS_SHARE    8 // a sandbox gets at most one part in so many of the host's process ids

static void run_prepare(void *ctx, struct err *e);
static void on_prepared(struct machine_core *core, const struct err *e);
static int start_processes(struct container *c, struct err *e);
static int start_runsc(struct container *c, struct err *e);
static void take_over(struct container *c);
static void on_created(struct subproc *p, int status, void *ctx);
static void created(int status, void *ctx);
static int find_sentry(struct container *c, struct err *e);
static void describe_end(struct container *c, int status, const struct err *e);
static void run_kill(void *ctx, struct err *e);
static void on_killed(struct machine_core *core, const struct err *e);
static void limit(struct container *c);
static void confine(struct container *c);
static void on_confined(struct machine_core *core, const struct err *e);
static void on_networked(const struct err *e, void *ctx);
static void restore(struct container *c);
static void on_restored(const struct err *e, void *ctx);
static void on_started(const struct err *e, void *ctx);

struct machine *container__create(uv_loop_t *loop, const struct machine_spec *spec,
                                  machine_ready_cb on_ready, machine_exit_cb on_exit, void *ctx)
{
    struct container *c = container__new(loop, spec, on_ready, on_exit, ctx);
    struct err e = ERR_INIT;
    // Step 1. The pinned runsc. Only after it has changed does this read the whole file.
    c->runsc = runsc_find(gvisor__runsc(), &e);
    c->from = spec->image ? xstrdup(spec->image) : NULL;
    if (spec->spare_taken && !spec->background)
        c->blank = blank_take(c->from, c->core.template, &c->core.size);
    if (c->runsc)
        core_work(&c->core, run_prepare, on_prepared, c);
    else
        core_fail(&c->core, &e); // the loop reports the failure to the daemon
    return &c->core.machine;
}

// Open what the machine starts from: an image, the template's checkpoint, or nothing.
static int open_saved(struct container *c, bool is_sized, struct err *e)
{
    char *saved auto_free = str_printf("%s/" BUNDLE_DIR, c->core.template);
    int from auto_close = openat(c->template_fd, BUNDLE_DIR, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (c->from) {
        c->has_image = true;
        return checkpoint_open(c->from, &c->facts, c->image, e);
    }
    c->has_image = !is_sized && checkpoint_exists_at(from);
    return c->has_image ? checkpoint_open_at(from, saved, &c->facts, c->image, e) : 0;
}

// Read the template. All files that the machine gets belong to the build that is opened here.
static int load(struct container *c, struct err *e)
{
    c->template_fd = bundle_open(c->core.template, &c->facts, e);
    if (c->template_fd < 0)
        return -1;
    bool is_sized = bundle_apply_size(&c->facts, &c->core.size);
    if (open_saved(c, is_sized, e) == 0)
        return 0;
    if (c->from) {
        if (e->code == ERR_PRECONDITION)
            err_wrap(e,
                     "create a new sandbox from template %s; the saved machine cannot be restored",
                     str_base(c->core.template));
        return -1;
    }
    err_wrap(e, "template %s must be rebuilt with `cubby template build`",
             str_base(c->core.template));
    return -1;
}

// Step 2, in a worker, because each file may have to be read from the disk: the template, what the
// machine starts from, and the container's directory.
static void run_prepare(void *ctx, struct err *e)
{
    struct container *c = ctx;
    if (load(c, e) < 0)
        return;
    c->fits = c->blank && blank_fits(c->blank, &c->facts);
    if (!c->fits && container_dir_make(&c->dir, e) == 0)
        bundle_make(c->dir.path, c->template_fd, c->core.template, c->facts.disk_mb, e);
}

static void on_prepared(struct machine_core *core, const struct err *e)
{
    struct container *c = container_of_core(core);
    struct err failed = ERR_INIT;
    if (core->state != MACHINE_STARTING)
        return;
    core_step(core, "prepared");
    if (e || start_processes(c, &failed) < 0)
        core_fail(core, e ? e : &failed);
    blank_drop(steal(&c->blank)); // not taken over
    if (c->untold)
        blank_tell(steal(&c->untold));
}

static int start_processes(struct container *c, struct err *e)
{
    // Step 3. The network card: the sentry's end and netd's end.
    int card[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, card) != 0)
        return err_sys(e, errno, "make a socket pair");
    c->card = card[0];
    int netd_end auto_close = card[1];
    for (int i = 0; i < 2; i++)
        setsockopt(card[i], SOL_SOCKET, SO_SNDBUF, &(int){SOCKET_BYTES}, sizeof(int));
    // Step 4. Both processes. runsc first, because it takes longest.
    if (c->fits)
        take_over(c);
    else
        c->core.guest_log = childlog_open("gvisor.log", e);
    if (c->core.guest_log < 0 || (!c->fits && start_runsc(c, e) < 0) ||
        core_network_start(&c->core, netd_end, e) < 0)
        return -1;
    core_step(&c->core, "started");
    limit(c);
    return 0;
}

static int start_runsc(struct container *c, struct err *e)
{
    const struct creator creator = {.runsc = c->runsc,
                                    .dir = &c->dir,
                                    .template_fd = c->template_fd,
                                    .log = c->core.guest_log,
                                    .memory_mb = c->facts.memory_mb};
    c->creator = creator_start(c->core.loop, &creator, on_created, c, e);
    c->core.working = c->creator != NULL; // the machine is not gone before it has ended
    return c->creator ? 0 : -1;
}

// Take the place of the blank: its directory, its log, and `runsc create` if that still runs.
static void take_over(struct container *c)
{
    struct blank *b = steal(&c->blank);
    *c->core.spare_taken = true;
    c->creator = blank_yield(b, &c->dir, &c->core.guest_log, created, c);
    c->core.working = true; // until `created`
    c->untold = c->creator ? NULL : b;
}

// Step 5. The sentry runs, or runsc has failed. A machine that is ending also gets its sentry, so
// that the sentry is killed. If the sentry's pid is not known, because the creator was killed or
// wrote none, the sentry is searched for among all processes and killed.
static void on_created(struct subproc *p, int status, void *ctx)
{
    subproc_close(p, NULL, NULL);
    created(status, ctx);
}

static void created(int status, void *ctx)
{
    struct container *c = ctx;
    struct machine_core *core = &c->core;
    struct err e = ERR_INIT;
    c->creator = NULL;
    core->working = false;
    mem_close_fd(&c->template_fd);
    c->template_fd = -1;
    if (WIFSIGNALED(status) || core->state == MACHINE_CLOSING || find_sentry(c, &e) < 0) {
        describe_end(c, status, &e);
        core_work(core, run_kill, on_killed, c);
        return;
    }
    if (core->state != MACHINE_STARTING) {
        subproc_kill(core->guest);
        core_check_gone(core);
        return;
    }
    if (WEXITSTATUS(status) != 0) {
        describe_end(c, status, &e);
        core_fail(core, &c->no_sentry);
        return;
    }
    core_step(core, "created");
    c->is_created = true;
    c->panic_log = childlog_reopen(subproc_pid(core->guest));
    if (host_jail_ends_with_daemon() && container__start_guard(c, &e) < 0)
        core_fail(core, &e);
    else
        confine(c);
}

static void describe_end(struct container *c, int status, const struct err *e)
{
    char how[64];
    char *said auto_free = childlog_last_line(c->core.guest_log);
    subproc_describe(status, how, sizeof how);
    err_set(&c->no_sentry, ERR_UNAVAILABLE, "gVisor's sentry did not start: `runsc create` %s: %s",
            how, said[0] ? said : e->msg);
}

// In a worker, because it looks at each process of the host, and waits for those that it kills.
static void run_kill(void *ctx, struct err *e)
{
    struct container *c = ctx;
    (void)e;
    c->may_be_used = container_dir_kill(&c->dir) < 0;
}

static void on_killed(struct machine_core *core, const struct err *e)
{
    struct container *c = container_of_core(core);
    (void)e;
    if (core->state == MACHINE_STARTING)
        core_fail(core, &c->no_sentry);
}

void container__on_limited(struct machine_core *core)
{
    struct container *c = container_of_core(core);
    c->is_limited = true;
    confine(c);
}

// Lower a limit of the sentry, unless it is lower already.
static void lower(const struct container *c, __rlimit_resource_t what, rlim_t most)
{
    pid_t pid = subproc_pid(c->core.guest);
    struct rlimit limit;
    if (prlimit(pid, what, NULL, &limit) == 0 && limit.rlim_max <= most)
        most = limit.rlim_max;
    limit = (struct rlimit){.rlim_cur = most, .rlim_max = most};
    if (prlimit(pid, what, &limit, NULL) != 0)
        log_warn("container.unlimited", "id=%s limit=%d error=\"%s\"", c->core.id, (int)what,
                 strerror(errno));
}

// A saved state has files of about the size of the memory, whose own file has many holes. A stub
// takes a descriptor of the sentry, and the files that its guest opens take none.
static void run_confine(void *ctx, struct err *e)
{
    struct container *c = ctx;
    int64_t bytes = bundle_memory_mb(c->facts.memory_mb, c->facts.disk_mb) << 20;
    (void)e;
    lower(c, RLIMIT_FSIZE, FILE_BASE + FILE_FACTOR * (rlim_t)bytes + TASKS_MAX * TASK_BYTES);
    lower(c, RLIMIT_NOFILE, FILES_MAX);
    core_limits_confine(&c->core, subproc_pid(c->core.guest));
}

// Step 6. Both the groups and the sentry are there. The sentry has its first stub, from which all
// others descend. Both must be in the groups before the guest runs.
static void confine(struct container *c)
{
    if (c->is_created && c->is_limited && c->core.state == MACHINE_STARTING)
        core_work(&c->core, run_confine, on_confined, c);
}

static void on_confined(struct machine_core *core, const struct err *e)
{
    struct container *c = container_of_core(core);
    (void)e;
    if (core->state != MACHINE_STARTING)
        return;
    core_step(core, "confined");
    if (core->background)
        core_set_background(&core->machine, true);
    container__call(c, "containerManager.SetNetworkArgs", links_json(c->has_image), &c->card, 1,
                    NETWORK_MS, on_networked);
}

// Return a share of the host's process ids, so that one sandbox cannot take all of them on a host
// that has only 32768.
static int processes_most(void)
{
    struct buf text auto_buf = BUF_INIT;
    int64_t all =
        file_read(PIDS_FILE, 64, &text, NULL) == 0 ? strtoll(buf_str(&text), NULL, 10) : 0;
    return all > 0 && all / PIDS_SHARE < PROCESSES_MAX ? (int)(all / PIDS_SHARE) : PROCESSES_MAX;
}

static void limit(struct container *c)
{
    const struct cgroup_limits limits = {
        .memory_bytes = bundle_memory_mb(c->facts.memory_mb, c->facts.disk_mb) << 20,
        .no_swap = true,
        .cpus = (int)c->facts.cpus,
        .cpu_spare = CPU_SPARE,
        .processes = processes_most()};
    core_limits_start(&c->core, c->creator, &limits);
}

static int find_sentry(struct container *c, struct err *e)
{
    pid_t pid = container_dir_sentry(&c->dir, e);
    struct subproc *p =
        pid > 0 ? subproc_watch(c->core.loop, pid, core_on_guest_exit, &c->core, e) : NULL;
    if (p && !container_dir_is_used_by(&c->dir, pid)) { // it is watched, so its pid is not reused
        subproc_close(p, NULL, NULL);
        return err_set(e, ERR_INTERNAL,
                       "the pid file of `runsc create` names process %d, which is not this "
                       "sandbox's sentry",
                       (int)pid);
    }
    c->core.guest = p;
    return p ? 0 : -1;
}

// Take the result of a call during the start. Return false if the machine is ending, or ends now.
static bool goes_on(struct container *c, const struct err *e)
{
    c->call = NULL;
    if (c->core.state != MACHINE_STARTING)
        return false;
    if (e)
        core_fail(&c->core, e);
    return !e;
}

// Step 7. The sentry has its card. The daemon closes its copy: otherwise netd would not end with
// the sentry.
static void on_networked(const struct err *e, void *ctx)
{
    struct container *c = ctx;
    mem_close_fd(&c->card);
    c->card = -1;
    if (!goes_on(c, e))
        return;
    core_step(&c->core, "networked");
    if (c->has_image)
        restore(c);
    else
        container__call(c, "containerManager.StartRoot", json_string(CONTAINER_ID), NULL, 0,
                        START_MS, on_started);
}

// Step 8. The sentry reads the image, and lets the guest run.
static void restore(struct container *c)
{
    json_t *arg = json_pack("{s:b, s:b, s:b, s:b}", "HavePagesFile", 1, "HaveDeviceFile", 0,
                            "Background", 0, "use_checkpoint_gofer", 0);
    container__call(c, "containerManager.Restore", arg, c->image, CHECKPOINT_FILES, RESTORE_MS,
                    on_restored);
    checkpoint_close(c->image);
}

// The pool fills itself when nobody waits.
static void want_spare(const struct container *c)
{
    if (!c->core.background)
        spares_want(&blank_spares, c->core.loop, c->core.template);
}

static void on_restored(const struct err *e, void *ctx)
{
    struct container *c = ctx;
    if (!goes_on(c, e))
        return;
    want_spare(c);
    core_ready(&c->core, MACHINE_RUNNING);
}

// Step 8 for a template without a checkpoint.
static void on_started(const struct err *e, void *ctx)
{
    struct container *c = ctx;
    if (!goes_on(c, e))
        return;
    want_spare(c);
    core_boot_start(&c->core);
}
