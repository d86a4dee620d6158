// SPDX-License-Identifier: Apache-2.0
// A process that is ours to end, watched through a pidfd.
#include "sandbox-backend/drivers/microvm/subproc.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

#define STAT_BYTES_MAX 4096

struct subproc {
    uv_poll_t poll; // of pidfd: readable when the process has ended (pidfd_open(2))
    pid_t pid;
    int pidfd; // owned
    uint64_t start_time;
    bool is_child;
    bool exited;
    subproc_exit_cb on_exit;
    void *ctx;
    void (*on_closed)(void *ctx);
    void *closed_ctx;
};

// Field 22 of /proc/PID/stat, and field 3, the state. The name before them may hold anything, also
// blanks and parentheses: the last one closes it (proc(5)).
static int read_stat(pid_t pid, uint64_t *start_time, char *state)
{
    char path[32];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    struct buf text auto_buf = BUF_INIT;
    if (file_read(path, STAT_BYTES_MAX, &text, NULL) != 0)
        return -1;
    const char *at = strrchr(buf_str(&text), ')');
    unsigned long long ticks = 0;
    char letter = 0;
    if (!at || sscanf(at + 1,
                      " %c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s "
                      "%llu",
                      &letter, &ticks) != 2)
        return -1;
    *start_time = ticks;
    *state = letter;
    return 0;
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
    (void)status;
    (void)events;
    struct subproc *p = container_of(poll, struct subproc, poll);
    int wait_status = -1;
    if (p->is_child) {
        pid_t got = waitpid(p->pid, &wait_status, WNOHANG);
        if (got == 0)
            return; // not yet
        if (got < 0)
            wait_status = -1;
    }
    p->exited = true;
    uv_poll_stop(&p->poll);
    if (p->on_exit)
        p->on_exit(p, wait_status, p->ctx);
}

// Takes pidfd.
static struct subproc *watch(uv_loop_t *loop, pid_t pid, int pidfd, subproc_exit_cb on_exit,
                             void *ctx, struct err *e)
{
    struct subproc *p = xcalloc(1, sizeof *p);
    *p = (struct subproc){.pid = pid, .pidfd = pidfd, .on_exit = on_exit, .ctx = ctx};
    int failed = uv_poll_init(loop, &p->poll, pidfd);
    if (failed) {
        err_sys(e, -failed, "watch process %d", (int)pid);
        close(pidfd);
        free(p);
        return NULL;
    }
    uv_poll_start(&p->poll, UV_READABLE, on_poll);
    return p;
}

static int open_pidfd(pid_t pid)
{
    return (int)syscall(SYS_pidfd_open, pid, 0); // close-on-exec by itself
}

struct subproc *subproc_start(uv_loop_t *loop, const struct spawn_opts *opts,
                              subproc_exit_cb on_exit, void *ctx, struct err *e)
{
    pid_t pid = spawn_program(opts, e);
    if (pid < 0)
        return NULL;
    struct subproc *p = NULL;
    int pidfd = open_pidfd(pid);
    if (pidfd < 0)
        err_sys(e, errno, "open process %d", (int)pid);
    else
        p = watch(loop, pid, pidfd, on_exit, ctx, e);
    if (!p) {
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        return NULL;
    }
    char state;
    p->is_child = true;
    if (read_stat(pid, &p->start_time, &state) != 0)
        p->start_time = 0; // cannot be adopted later
    return p;
}

struct subproc *subproc_adopt(uv_loop_t *loop, pid_t pid, uint64_t start_time,
                              subproc_exit_cb on_exit, void *ctx, struct err *e)
{
    // The descriptor first, then the look: what was looked at is then what the descriptor means.
    uint64_t now = 0;
    char state = 0;
    int pidfd = pid > 0 ? open_pidfd(pid) : -1;
    if (pidfd < 0 || read_stat(pid, &now, &state) != 0 || now != start_time || state == 'Z' ||
        state == 'X') {
        if (pidfd >= 0)
            close(pidfd);
        err_set(e, ERR_GONE, "process %d no longer runs", (int)pid);
        return NULL;
    }
    struct subproc *p = watch(loop, pid, pidfd, on_exit, ctx, e);
    if (p)
        p->start_time = start_time;
    return p;
}

pid_t subproc_pid(const struct subproc *p)
{
    return p->pid;
}

uint64_t subproc_start_time(const struct subproc *p)
{
    return p->start_time;
}

bool subproc_has_exited(const struct subproc *p)
{
    return p->exited;
}

void subproc_kill(struct subproc *p)
{
    if (!p->exited)
        syscall(SYS_pidfd_send_signal, p->pidfd, SIGKILL, NULL, 0);
}

static void on_poll_closed(uv_handle_t *handle)
{
    struct subproc *p = container_of((uv_poll_t *)handle, struct subproc, poll);
    void (*on_closed)(void *ctx) = p->on_closed;
    void *ctx = p->closed_ctx;
    close(p->pidfd);
    free(p);
    if (on_closed)
        on_closed(ctx);
}

void subproc_close(struct subproc *p, void (*on_closed)(void *ctx), void *ctx)
{
    p->on_exit = NULL;
    p->on_closed = on_closed;
    p->closed_ctx = ctx;
    uv_close((uv_handle_t *)&p->poll, on_poll_closed);
}

void subproc_describe(int status, char *out, size_t size)
{
    if (status != -1 && WIFSIGNALED(status))
        snprintf(out, size, "was killed (signal %d)", WTERMSIG(status));
    else if (status != -1 && WIFEXITED(status))
        snprintf(out, size, "exited with status %d", WEXITSTATUS(status));
    else
        snprintf(out, size, "ended");
}
