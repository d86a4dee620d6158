// SPDX-License-Identifier: Apache-2.0
// A process that this program must end, watched through a pidfd.
#include "sandbox-backend/drivers/host/subproc.h"

#include <dirent.h>
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
#include "sandbox-backend/host/proc.h"

#define CHILDREN_BYTES_MAX 65536

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

static void on_poll(uv_poll_t *poll, int status, int events)
{
    (void)status;
    (void)events;
    struct subproc *p = container_of(poll, struct subproc, poll);
    int wait_status = -1;
    // A process that another one started may still be our child: PID 1 of a container becomes the
    // parent of every orphan there, and no other process would reap it.
    pid_t got = waitpid(p->pid, &wait_status, WNOHANG);
    if (got == 0 && p->is_child)
        return; // the process has not ended yet
    if (got <= 0)
        wait_status = -1;
    p->exited = true;
    uv_poll_stop(&p->poll);
    if (p->on_exit)
        p->on_exit(p, wait_status, p->ctx);
}

// Watch the process. Takes ownership of pidfd.
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
    return (int)syscall(SYS_pidfd_open, pid, 0); // the descriptor is close-on-exec by default
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
    struct proc_stat now = {0}; // with 0, a later daemon cannot adopt the process
    proc_stat_read(pid, &now);
    p->start_time = now.start_time;
    p->is_child = true;
    return p;
}

// Open a running process. Return its pidfd, or -1. Open the descriptor first and read the start
// time afterwards: if the time is the expected one, the descriptor refers to that process.
static int open_running(pid_t pid, uint64_t *start_time, struct err *e)
{
    struct proc_stat now;
    int pidfd = pid > 0 ? open_pidfd(pid) : -1;
    if (pidfd >= 0 && proc_stat_read(pid, &now) == 0 && now.state != 'Z' && now.state != 'X') {
        *start_time = now.start_time;
        return pidfd;
    }
    if (pidfd >= 0)
        close(pidfd);
    return err_set(e, ERR_GONE, "process %d no longer runs", (int)pid);
}

struct subproc *subproc_watch(uv_loop_t *loop, pid_t pid, subproc_exit_cb on_exit, void *ctx,
                              struct err *e)
{
    uint64_t start_time = 0;
    int pidfd = open_running(pid, &start_time, e);
    struct subproc *p = pidfd < 0 ? NULL : watch(loop, pid, pidfd, on_exit, ctx, e);
    if (p)
        p->start_time = start_time;
    return p;
}

struct subproc *subproc_adopt(uv_loop_t *loop, pid_t pid, uint64_t start_time,
                              subproc_exit_cb on_exit, void *ctx, struct err *e)
{
    uint64_t now = 0;
    int pidfd = open_running(pid, &now, e);
    if (pidfd >= 0 && now != start_time) {
        err_set(e, ERR_GONE, "process %d no longer runs", (int)pid);
        close(pidfd);
        return NULL;
    }
    struct subproc *p = pidfd < 0 ? NULL : watch(loop, pid, pidfd, on_exit, ctx, e);
    if (p)
        p->start_time = start_time;
    return p;
}

int subproc_children(pid_t pid, pid_t *out, int max)
{
    char path[64];
    int count = 0;
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    DIR *threads = opendir(path);
    if (!threads)
        return 0;
    for (struct dirent *entry; (entry = readdir(threads));) {
        struct buf text auto_buf = BUF_INIT;
        snprintf(path, sizeof path, "/proc/%d/task/%.16s/children", (int)pid, entry->d_name);
        if (entry->d_name[0] == '.' || file_read(path, CHILDREN_BYTES_MAX, &text, NULL) != 0)
            continue;
        char *rest = text.data;
        for (long child; count < max && rest && (child = strtol(rest, &rest, 10)) > 0;)
            out[count++] = (pid_t)child;
    }
    closedir(threads);
    return count;
}

pid_t subproc_pid(const struct subproc *p)
{
    return p->pid;
}

uint64_t subproc_start_time(const struct subproc *p)
{
    return p->start_time;
}

int subproc_pidfd(const struct subproc *p)
{
    return p->pidfd;
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

void subproc_end(struct subproc *p)
{
    if (!p->exited)
        syscall(SYS_pidfd_send_signal, p->pidfd, SIGTERM, NULL, 0);
}

void subproc_retarget(struct subproc *p, subproc_exit_cb on_exit, void *ctx)
{
    p->on_exit = on_exit;
    p->ctx = ctx;
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
