// SPDX-License-Identifier: Apache-2.0
#include "sandbox-backend/cli/git/git.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/home.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/cli/connection.h"
#include "sandbox-backend/cli/shown_lines.h"

#define OUTPUT_MAX  (16 << 20)
#define ARGS_MAX    32
#define BLOCK_BYTES 4096

extern char **environ;

static const char *const SAFE[] = {
    "git",
    "-c",
    "protocol.ext.allow=never",
    "-c",
    "transfer.fsckObjects=true",
    "-c",
    "fetch.fsckObjects=true", // a user's own setting of it would win over the one above
    "-c",
    "fetch.recurseSubmodules=false",
    "-c",
    "submodule.recurse=false",
    "-c",
    "core.fsmonitor=false",
};

int git_prepare(const struct backend_opts *server, struct err *e)
{
    struct backend_opts copy = *server;
    struct opt rows[BACKEND_OPTS_COUNT];
    char *helper auto_free = self_program("git-remote-cubby", e);
    if (!helper)
        return -1;
    const char *path = getenv("PATH");
    char *dir auto_free = xstrndup(helper, (size_t)(str_base(helper) - helper - 1));
    char *whole auto_free = str_printf("%s:%s", dir, path ? path : "/usr/bin:/bin");
    setenv("PATH", whole, 1);
    backend_opts_table(rows, &copy);
    for (size_t i = 0; i < BACKEND_OPTS_COUNT; i++) {
        const char *value = *(const char **)rows[i].value;
        if (value && rows[i].env)
            setenv(rows[i].env, value, 1);
    }
    return 0;
}

// Start git with its stdout, and its stderr unless it is quiet, at `out`. Return the pid, or -1.
static pid_t start(const char *const *args, int out, bool is_quiet, struct err *e)
{
    const char *argv[ARGS_MAX + ARRAY_LEN(SAFE)] = {NULL};
    posix_spawn_file_actions_t files;
    pid_t pid = -1;
    size_t count = ARRAY_LEN(SAFE);
    memcpy(argv, SAFE, sizeof SAFE);
    for (size_t i = 0; args[i] && i + 1 < ARGS_MAX; i++)
        argv[count++] = args[i];
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&files, out, STDOUT_FILENO);
    if (is_quiet)
        posix_spawn_file_actions_addopen(&files, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    else
        posix_spawn_file_actions_adddup2(&files, out, STDERR_FILENO);
    int failed = posix_spawnp(&pid, argv[0], &files, NULL, (char **)(uintptr_t)argv, environ);
    posix_spawn_file_actions_destroy(&files);
    if (failed == ENOENT)
        return err_set(e, ERR_NOT_FOUND, "git is not installed: apt install git");
    return failed ? err_sys(e, failed, "start git") : pid;
}

static int await(pid_t pid, const char *what, struct err *e)
{
    int status = 0;
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return err_sys(e, errno, "wait for git");
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return 0;
    return err_set(e, ERR_PRECONDITION, "git %s failed", what);
}

// Print what git says as lines of visible text: messages of a sandbox's git are among it.
static void show_all(int fd)
{
    struct buf rest auto_buf = BUF_INIT;
    struct buf shown auto_buf = BUF_INIT;
    struct err unused = ERR_INIT;
    char block[BLOCK_BYTES];
    for (ssize_t n; (n = read(fd, block, sizeof block)) != 0;) {
        if (n < 0 && errno != EINTR)
            break;
        if (n > 0)
            shown_lines_take(&rest, block, (size_t)n, &shown);
        fd_write_all(STDERR_FILENO, buf_str(&shown), shown.len, &unused);
        shown.len = 0;
    }
    shown_lines_end(&rest, &shown);
    fd_write_all(STDERR_FILENO, buf_str(&shown), shown.len, &unused);
}

int git_run(const char *const *args, struct err *e)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return err_sys(e, errno, "make a pipe");
    int reader auto_close = ends[0];
    pid_t pid = start(args, ends[1], false, e);
    close(ends[1]);
    if (pid < 0)
        return -1;
    show_all(reader);
    return await(pid, args[0], e);
}

int git_output(const char *const *args, struct buf *out, struct err *e)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return err_sys(e, errno, "make a pipe");
    int reader auto_close = ends[0];
    pid_t pid = start(args, ends[1], true, e);
    close(ends[1]);
    if (pid < 0)
        return -1;
    int read_all = fd_read_all(reader, OUTPUT_MAX, out, e);
    close(steal_fd(&reader)); // git ends even if its output was too long
    int ended = await(pid, args[0], e);
    while (out->len && out->data[out->len - 1] == '\n')
        out->data[--out->len] = '\0';
    return read_all < 0 || ended < 0 ? -1 : 0;
}
