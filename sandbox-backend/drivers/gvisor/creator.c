// SPDX-License-Identifier: Apache-2.0
// `runsc create`, which starts a sentry and ends.
#include "sandbox-backend/drivers/gvisor/creator.h"

#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/drivers/gvisor/bundle.h"
#include "sandbox-backend/drivers/gvisor/runsc.h"
#include "sandbox-backend/drivers/host/host_jail.h"

// The log is a file: the sentry keeps it, as the guest's console, and would keep a pipe open for
// ever.
struct subproc *creator_start(uv_loop_t *loop, const struct creator *how, subproc_exit_cb on_exit,
                              void *ctx, struct err *e)
{
    const char *place = how->dir->path;
    char *meminfo auto_free = container_dir_file(how->dir, CONTAINER_MEMORY);
    char *pid auto_free = container_dir_file(how->dir, CONTAINER_PID);
    char *panics auto_free = container_dir_file(how->dir, CONTAINER_PANIC);
    char *panic_log auto_free = str_printf("--panic-log=%s/log", panics);
    if (runsc_tell_memory(meminfo, how->memory_mb, e) < 0 || dir_make(panics, 0700, e) < 0)
        return NULL;
    const char *args[] = {
        "runsc", "--root", place, "--network=sandbox", RUNSC_FLAGS, panic_log,
        // gVisor compares the path of the root file system with that of the saved machine, and a
        // template is built at another path. checkpoint_check compares what matters.
        "--restore-spec-validation=ignore", geteuid() == 0 ? "--directfs=false" : "--directfs=true",
        "create", "--bundle", place, "--pid-file", pid, CONTAINER_ID, NULL};
    char *argv[ARRAY_LEN(args)]; // execve(2) takes no const, but changes nothing
    for (size_t i = 0; i < ARRAY_LEN(args); i++)
        argv[i] = (char *)(uintptr_t)args[i];
    int in auto_close = runsc_stdin(e);
    if (in < 0)
        return NULL;
    const int fds[] = {in, how->log, how->log, [BUNDLE_FD] = how->template_fd};
    const struct spawn_opts opts = {.file = how->runsc,
                                    .argv = argv,
                                    .fds = fds,
                                    .fd_count = ARRAY_LEN(fds),
                                    .meminfo = meminfo,
                                    .hidden = RUNSC_HIDDEN,
                                    .scratch = panics,
                                    .dies_with_us = host_jail_ends_with_daemon(),
                                    .namespaces = RUNSC_NAMESPACES};
    return subproc_start(loop, &opts, on_exit, ctx, e);
}
