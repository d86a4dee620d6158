// SPDX-License-Identifier: Apache-2.0
// A machine of gVisor: a sentry, and the network process beside it.
//
// Theory of operation
//
// The sentry is gVisor's kernel, a program of its own. The guest's processes run in stubs, children
// of the sentry in its own PID namespace, and each of their system calls goes to the sentry
// (systrap). The root file system is an EROFS file that the sentry maps; what the guest writes is
// in memory above it. There is no gofer, so the sentry has no path to any file of the host.
//
// Create (container_create.c). `runsc create` starts the sentry with the bundle, and ends. The
// driver then speaks the sentry's control socket (urpc.h): it gives the sentry one end of a socket
// pair as its network card, whose other end is netd's, and lets it restore a checkpoint or boot.
// runsc's own files know nothing of this, so no other command of runsc is used.
//
// Walls. A daemon of root starts runsc with --directfs=false: the sentry and its stubs run as the
// user nobody, without capabilities, in user, mount, network, PID, IPC and UTS namespaces of their
// own, with a read-only root that has /proc only, and behind a seccomp filter. Any other daemon
// starts runsc in a user namespace in which runsc is root. Outside, the sentry then has the
// daemon's user. Its other walls are the same. cubby-jail is around netd and egress, not around the
// sentry, which must make namespaces and filters of its own.
//
// States, processes and ends are those of every machine (host/core.c). The sentry ends when PID 1
// of the guest does.
//
// Adoption. The record names the sentry by pid and start time, and the container's directory,
// which has its control socket. The sentry needs no parent. Whether its guest stands still is known
// from a mark in that directory, or from the sentry (container_settle.c).
#include "sandbox-backend/drivers/gvisor/container.h"
#include "sandbox-backend/drivers/gvisor/blank.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/drivers/host/childlog.h"
#include "sandbox-backend/drivers/host/jailed.h"
#include "sandbox-backend/log/log.h"

#define GUARDS_MAX     8     // that end before their sentry
#define START_LIMIT_MS 30000 // a restore reads 200 MB
#define MEMORY_FILE    "/memfd:runsc-memory"
#define STAT_BLOCK     512     // bytes, stat(2)
#define RECORD_DIR     "place" // in records of all versions: the container's directory

static const char *why_late(const struct machine_core *core)
{
    return core->boot ? "the guest did not boot in time"
                      : "gVisor did not restore the machine in time";
}

static void on_ended(struct machine_core *core)
{
    container__save_abandon(container_of_core(core));
}

static void on_guard_exit(struct subproc *p, int status, void *ctx);

static void on_guard_closed(void *ctx)
{
    core_handle_closed(ctx);
}

int container__start_guard(struct container *c, struct err *e)
{
    c->guard = jailed_guard(c->core.loop, c->core.guest, on_guard_exit, c, e);
    return c->guard ? 0 : -1;
}

// A guard that ends before its sentry is replaced: without one, the sentry would not end with the
// daemon.
static void on_guard_exit(struct subproc *p, int status, void *ctx)
{
    struct container *c = ctx;
    struct err e = ERR_INIT;
    char how[64];
    c->guard = NULL;
    bool is_awaited = c->core.state == MACHINE_CLOSING;
    subproc_close(p, is_awaited ? on_guard_closed : NULL, &c->core);
    if (!core_is_alive(&c->core) || subproc_has_exited(c->core.guest))
        return;
    subproc_describe(status, how, sizeof how);
    bool again = c->guards++ < GUARDS_MAX && container__start_guard(c, &e) == 0;
    log_warn("container.guard", "id=%s it %s; another %s %s", c->core.id, how,
             again ? "runs" : "does not start, so the sentry does not end with the daemon:", e.msg);
}

static int close_handles(struct machine_core *core)
{
    struct container *c = container_of_core(core);
    struct subproc *guard = c->guard;
    c->is_left = core_is_gone(core); // a released machine goes on
    urpc_abandon(steal(&c->call));
    if (guard && !c->is_left) // it goes on, too. Else it ends now
        subproc_close(steal(&c->guard), on_guard_closed, core);
    return guard != NULL;
}

static void free_members(struct machine_core *core)
{
    struct container *c = container_of_core(core);
    container__save_abandon(c);
    mem_close_fd(&c->card);
    mem_close_fd(&c->panic_log);
    blank_drop(c->blank);
    free(c->runsc);
    free(c->from);
    mem_close_fd(&c->template_fd);
    checkpoint_close(c->image);
    container_dir_fini(&c->dir, c->is_left && !c->may_be_used);
}

// The guest's memory is one memory file of the sentry. Only some of its pages are the sentry's own:
// others have been touched by the guest's processes alone.
static int64_t memory_bytes(const struct machine_core *core)
{
    char path[64], target[PATH_MAX];
    struct stat st;
    int64_t bytes = -1;
    snprintf(path, sizeof path, "/proc/%d/fd", (int)subproc_pid(core->guest));
    DIR *files = opendir(path);
    if (!files)
        return -1;
    for (const struct dirent *entry; bytes < 0 && (entry = readdir(files));) {
        ssize_t n = readlinkat(dirfd(files), entry->d_name, target, sizeof target - 1);
        target[n > 0 ? n : 0] = '\0';
        if (str_starts(target, MEMORY_FILE) && fstatat(dirfd(files), entry->d_name, &st, 0) == 0)
            bytes = (int64_t)st.st_blocks * STAT_BLOCK;
    }
    closedir(files);
    return bytes;
}

// Go writes "panic: <why>" or "fatal error: <why>" before the stacks.
static char *panic_line(const struct machine_core *core)
{
    const struct container *c = (const struct container *)core;
    char *line = childlog_first_line(c->panic_log);
    if (line[0])
        return line;
    free(line);
    return NULL;
}

static void kill_creator(struct machine_core *core)
{
    struct container *c = container_of_core(core);
    if (c->creator)
        subproc_kill(c->creator);
}

static const struct core_kind KIND = {
    .driver = &gvisor_driver,
    .process = "gVisor's sentry",
    .member = "sentry",
    .log = "gvisor.log",
    .memory_is_shared = true,
    .child_levels = 2,
    .first_ends = true,
    .limited = container__on_limited,
    .kill = kill_creator,
    .cause = panic_line,
    .memory_bytes = memory_bytes,
    .start_ms = START_LIMIT_MS,
    .late = why_late,
    .ended = on_ended,
    .close = close_handles,
    .fini = free_members,
};

struct container *container__new(uv_loop_t *loop, const struct machine_spec *spec,
                                 machine_ready_cb on_ready, machine_exit_cb on_exit, void *ctx)
{
    struct container *c = xcalloc(1, sizeof *c);
    core_init(&c->core, &KIND, loop, spec, on_ready, on_exit, ctx);
    c->card = c->template_fd = c->panic_log = -1;
    for (int i = 0; i < CHECKPOINT_FILES; i++)
        c->image[i] = -1;
    container_dir_init(&c->dir);
    return c;
}

void container__call(struct container *c, const char *method, json_t *arg, const int *fds,
                     int fd_count, uint64_t limit_ms, urpc_cb cb)
{
    const struct urpc_request request = {
        .method = method, .arg = arg, .fds = fds, .fd_count = fd_count, .limit_ms = limit_ms};
    container__call_with(c, &request, cb);
}

void container__call_with(struct container *c, const struct urpc_request *request, urpc_cb cb)
{
    struct urpc_request own = *request;
    own.path = c->dir.control;
    own.limit_ms *= core_patience(&c->core);
    own.slow_ms *= core_patience(&c->core);
    c->call = urpc_send(c->core.loop, &own, cb, c);
}

// ---- adoption

json_t *container__record(const struct machine *machine)
{
    const struct container *c = (const struct container *)machine;
    json_t *record = core_record(machine);
    json_object_set_new(record, RECORD_DIR, json_string(str_base(c->dir.path)));
    json_object_set_new(record, "made_of",
                        json_pack("{s:s, s:I, s:I}", "rootfs", c->facts.rootfs, "memory_mb",
                                  (json_int_t)c->facts.memory_mb, "disk_mb",
                                  (json_int_t)c->facts.disk_mb));
    return record;
}

static void on_policy_set(struct machine_core *core, const struct err *e)
{
    struct container *c = container_of_core(core);
    struct err failed = ERR_INIT;
    if (core->state != MACHINE_STARTING)
        return;
    if (!e) {
        container__settle(c);
        return;
    }
    err_set(&failed, ERR_GONE, "the machine's network policy cannot be set: %s", e->msg);
    core_fail(core, &failed);
}

// Take what a later image needs from the record. The template does not have it: it may have been
// rebuilt or removed while the machine ran.
static int take_facts(struct container *c, const json_t *record, struct err *e)
{
    const json_t *facts = json_object_get(record, "made_of");
    const char *rootfs = json_string_value(json_object_get(facts, "rootfs"));
    if (!rootfs || strlen(rootfs) >= sizeof c->facts.rootfs)
        return err_set(e, ERR_GONE, "the machine's record does not name its root file system");
    memcpy(c->facts.rootfs, rootfs, strlen(rootfs) + 1);
    c->facts.memory_mb = json_integer_value(json_object_get(facts, "memory_mb"));
    c->facts.disk_mb = json_integer_value(json_object_get(facts, "disk_mb"));
    return 0;
}

// Every machine of this driver has one. The core takes a record without it for a machine without a
// network card.
static int check_netd(const struct container *c, struct err *e)
{
    return c->core.netd ? 0
                        : err_set(e, ERR_GONE, "the machine's record names no process \"netd\"");
}

void container__adopt(uv_loop_t *loop, const struct machine_spec *spec, const json_t *record,
                      machine_ready_cb on_ready, machine_exit_cb on_exit, void *ctx)
{
    struct container *c = container__new(loop, spec, on_ready, on_exit, ctx);
    const char *name = json_string_value(json_object_get(record, RECORD_DIR));
    struct err e = ERR_INIT;
    if (name && *name && !strchr(name, '/') && name[0] != '.')
        container_dir_rename(&c->dir, name);
    if (core_adopt(&c->core, record, &e) < 0 || check_netd(c, &e) < 0 ||
        take_facts(c, record, &e) < 0) {
        e.code = ERR_GONE;
        core_fail(&c->core, &e); // ends the process that is left
        return;
    }
    c->panic_log = childlog_reopen(subproc_pid(c->core.guest));
    core_step(&c->core, "found");
    core_policy_send(&c->core, on_policy_set);
}
