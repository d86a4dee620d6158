// SPDX-License-Identifier: Apache-2.0
// Start a process in the jail that the daemon wants and this host can build.
#include "sandbox-backend/drivers/host/jailed.h"

#include <errno.h>
#include <sched.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/home.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/drivers/host/host_jail.h"
#include "sandbox-backend/drivers/host/program_files.h"
#include "sandbox-backend/drivers/host/resolv_conf.h"

#ifdef __SANITIZE_ADDRESS__
#define IS_INSTRUMENTED true
#else
#define IS_INSTRUMENTED false
#endif

static int length(const char *const *list)
{
    int n = 0;
    while (list && list[n])
        n++;
    return n;
}

// Return all files that the root of the process holds. New array of borrowed strings.
static const char **files_of(const struct jailed_program *program, const struct spawn_opts *opts,
                             struct err *e)
{
    const char *const *needed = program_files(opts->file, e);
    if (!needed)
        return NULL;
    int n = 0, first = length(needed), more = length(program->files);
    const char **all = xcalloc((size_t)first + (size_t)more + 2, sizeof *all);
    for (int i = 0; i < first; i++)
        all[n++] = needed[i];
    for (int i = 0; i < more; i++)
        if (file_exists(program->files[i]))
            all[n++] = program->files[i];
    if (opts->preload)
        all[n++] = opts->preload;
    return all;
}

// Return the directory of the program if one of its libraries lies there, as in the portable
// programs, or NULL. New string. A jail has no /proc, in which the linker looks up the program's
// own directory ($ORIGIN).
static char *own_libraries(const char *program, const char *const *files)
{
    size_t len = (size_t)(strrchr(program, '/') - program);
    for (; *files; files++)
        if (!str_eq(*files, program) && strncmp(*files, program, len) == 0 &&
            strrchr(*files, '/') == *files + len)
            return xstrndup(program, len);
    return NULL;
}

// Return the clone flags for namespaces that only a parent can make for its child. The user
// namespace is included only if this user cannot make the others without it.
static int namespaces_of(unsigned walls)
{
    int flags = walls & WALL_BIT(WALL_PID) ? CLONE_NEWPID : 0;
    return flags | (walls & WALL_BIT(WALL_USER) && geteuid() != 0 ? CLONE_NEWUSER : 0);
}

// `fds` must have room for one more descriptor, by which the jail watches this process.
static struct subproc *start(uv_loop_t *loop, const struct jail_spec *spec,
                             const struct spawn_opts *opts, subproc_exit_cb on_exit, void *ctx,
                             struct err *e)
{
    char *jail auto_free = self_program(JAIL_PROGRAM, e);
    if (!jail)
        return NULL;
    char **argv = jail_argv(spec, jail, opts->file, opts->argv);
    struct spawn_opts jailed = *opts;
    jailed.file = jail;
    jailed.argv = argv;
    jailed.namespaces = namespaces_of(spec->walls);
    struct subproc *p = subproc_start(loop, &jailed, on_exit, ctx, e);
    jail_argv_free(argv);
    return p;
}

static struct subproc *start_watched(uv_loop_t *loop, struct jail_spec *spec,
                                     const struct spawn_opts *opts, subproc_exit_cb on_exit,
                                     void *ctx, struct err *e)
{
    int fds[SPAWN_FDS_MAX];
    struct spawn_opts watched = *opts;
    int self auto_close = (int)syscall(SYS_pidfd_open, getpid(), 0);
    if (self < 0 || opts->fd_count >= SPAWN_FDS_MAX) {
        err_sys(e, self < 0 ? errno : EMFILE, "let a process end with the daemon");
        return NULL;
    }
    memcpy(fds, opts->fds, (size_t)opts->fd_count * sizeof fds[0]);
    fds[opts->fd_count] = self;
    watched.fds = fds;
    spec->dies_with = watched.fd_count++;
    return start(loop, spec, &watched, on_exit, ctx, e);
}

struct subproc *jailed_start(uv_loop_t *loop, const struct jailed_program *program,
                             const struct spawn_opts *opts, subproc_exit_cb on_exit, void *ctx,
                             struct err *e)
{
    struct spawn_opts plain = *opts;
    plain.dies_with_us = opts->dies_with_us || host_jail_ends_with_daemon();
    if (!host_jail_is_on())
        return subproc_start(loop, &plain, on_exit, ctx, e);
    // First: this waits for the thread that also looks for program files.
    unsigned walls = host_jail_walls();
    const char **files auto_free = files_of(program, opts, e);
    char *libraries auto_free =
        files ? own_libraries(opts->file, program_files(opts->file, NULL)) : NULL;
    if (!files)
        return NULL;
    plain.libraries = libraries;
    struct jail_spec spec = {.kind = program->kind,
                             .walls = walls,
                             .files = files,
                             .resolv_conf = program->resolves ? resolv_conf_copy() : NULL,
                             .kvm = program->kvm,
                             .share = program->share,
                             .share_fd = program->share_fd,
                             .share_read_only = program->share_read_only,
                             .dies_with = -1,
                             .instrumented =
                                 IS_INSTRUMENTED && (program->kind != JAIL_VMM || program->is_own)};
    return plain.dies_with_us ? start_watched(loop, &spec, &plain, on_exit, ctx, e)
                              : start(loop, &spec, &plain, on_exit, ctx, e);
}

struct subproc *jailed_guard(uv_loop_t *loop, const struct subproc *guarded,
                             subproc_exit_cb on_exit, void *ctx, struct err *e)
{
    char *jail auto_free = self_program(JAIL_PROGRAM, e);
    int self auto_close = (int)syscall(SYS_pidfd_open, getpid(), 0);
    if (!jail)
        return NULL;
    if (self < 0) {
        err_sys(e, errno, "let a process end with the daemon");
        return NULL;
    }
    char *const argv[] = {jail, (char *)(uintptr_t) "--dies-with-fd=3",
                          (char *)(uintptr_t) "--guard-fd=4", NULL};
    const int fds[] = {-1, -1, -1, self, subproc_pidfd(guarded)};
    const struct spawn_opts opts = {
        .file = jail, .argv = argv, .fds = fds, .fd_count = ARRAY_LEN(fds)};
    return subproc_start(loop, &opts, on_exit, ctx, e);
}
