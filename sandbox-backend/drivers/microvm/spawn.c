// SPDX-License-Identifier: Apache-2.0
// Starting a program by posix_spawn(3): no copy of the daemon's memory, no code between fork and
// exec, and every descriptor that is not meant for the child is closed, close-on-exec or not.
#include "sandbox-backend/drivers/microvm/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <unistd.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

// Sources are first moved above all targets, so that no dup2 can overwrite a later source.
static int move_up(int *moved, const int *fds, int count)
{
    for (int i = 0; i < count; i++) {
        moved[i] = fds[i] < 0 ? -1 : fcntl(fds[i], F_DUPFD_CLOEXEC, SPAWN_FDS_MAX);
        if (fds[i] >= 0 && moved[i] < 0)
            return errno;
    }
    return 0;
}

static int add_fds(posix_spawn_file_actions_t *actions, const int *moved, int count)
{
    int failed = 0;
    for (int i = 0; i < count && !failed; i++) {
        if (moved[i] >= 0)
            failed = posix_spawn_file_actions_adddup2(actions, moved[i], i);
        else if (i <= STDERR_FILENO)
            failed = posix_spawn_file_actions_addopen(actions, i, "/dev/null", O_RDWR, 0);
        else
            failed = posix_spawn_file_actions_addclose(actions, i);
    }
    return failed ? failed : posix_spawn_file_actions_addclosefrom_np(actions, count);
}

static int set_attributes(posix_spawnattr_t *attributes)
{
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    int failed = posix_spawnattr_setflags(attributes, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK |
                                                          POSIX_SPAWN_SETSIGDEF);
    failed = failed ? failed : posix_spawnattr_setsigmask(attributes, &none);
    return failed ? failed : posix_spawnattr_setsigdefault(attributes, &all);
}

static int start(pid_t *pid, const char *file, char *const *argv, char *const *env,
                 const int *moved, int count)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    int failed = posix_spawn_file_actions_init(&actions);
    if (failed)
        return failed;
    failed = posix_spawnattr_init(&attributes);
    if (!failed) {
        failed = add_fds(&actions, moved, count);
        failed = failed ? failed : set_attributes(&attributes);
        failed = failed ? failed : posix_spawn(pid, file, &actions, &attributes, argv, env);
        posix_spawnattr_destroy(&attributes);
    }
    posix_spawn_file_actions_destroy(&actions);
    return failed;
}

pid_t spawn_program(const char *file, char *const *argv, char *const *env, const int *fds,
                    int fd_count, struct err *e)
{
    const char *path = getenv("PATH");
    char *path_entry auto_free = str_printf("PATH=%s", path ? path : "/usr/bin:/bin");
    char lang[] = "LANG=C";
    char *const minimal[] = {path_entry, lang, NULL};
    int moved[SPAWN_FDS_MAX];
    pid_t pid = -1;
    int count = fd_count < SPAWN_FDS_MAX ? fd_count : SPAWN_FDS_MAX;
    for (int i = 0; i < SPAWN_FDS_MAX; i++)
        moved[i] = -1;
    int failed = move_up(moved, fds, count);
    if (!failed)
        failed = start(&pid, file, argv, env ? env : minimal, moved, count);
    for (int i = 0; i < count; i++) {
        if (moved[i] >= 0)
            close(moved[i]);
    }
    return failed ? err_sys(e, failed, "start %s", file) : pid;
}
