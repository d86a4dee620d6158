// SPDX-License-Identifier: Apache-2.0
// The start of the local daemon.
//
// Theory of operation. A call whose request found nobody listening waits here. The first one takes
// the start lock, looks whether another process has started the daemon meanwhile, and else starts
// cubbyd in a session of its own with a pipe for --ready-fd. cubbyd writes to the pipe when it
// listens; when it fails, or dies, the pipe ends, and the message says why: the last words of its
// log, or how the process ended. The lock is held until then. Processes that did not get the lock
// wait for its release and begin again: then the daemon listens, or it is their turn to start it.
// A single deadline covers all of it.
//
//   IDLE -> OTHERS: another process holds the lock -> IDLE, or OURS
//        -> OURS: we hold it, and cubbyd starts    -> IDLE, or
//                 FAILED: its pipe ended, and its exit status is waited for -> IDLE
#include "sandbox-backend/client/daemon_start.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/home.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/client/daemon_process.h"
#include "sandbox-backend/net/deadline.h"

#define FULL_BYTES (64 << 10) // free: cubbyd cannot even write its log

// A descriptor that is waited for. Frees itself, and closes the descriptor, when closed.
struct watch {
    uv_poll_t poll;
    int fd;
    struct daemon_start *owner;
};

enum start_state { START_IDLE, START_OTHERS, START_OURS, START_FAILED };

struct daemon_start {
    uv_loop_t *loop; // borrowed
    char *home, *socket, *program;
    enum start_state state;
    struct server_waiter *waiters;
    struct watch *watch;             // of the lock in OTHERS, of the ready pipe in OURS
    int lock;                        // in OURS and FAILED, else -1
    int64_t log_from;                // where this start's lines begin in the log
    struct daemon_exit exit;         // of the daemon that was started last
    struct daemon_process *children; // daemons that we started and that have not ended
    struct deadline deadline;
    void (*on_closed)(void *ctx);
    void *closed_ctx; // borrowed
};

static void set_state(struct daemon_start *d, enum start_state to);
static void attempt(struct daemon_start *d);
static void on_lock_released(uv_poll_t *poll, int status, int events);
static void spawn(struct daemon_start *d);
static void on_ready_pipe(uv_poll_t *poll, int status, int events);
static void on_exit_known(void *ctx);
static void on_deadline(struct deadline *deadline);
static void finish(struct daemon_start *d, const struct err *e);

struct daemon_start *daemon_start_new(uv_loop_t *loop, const char *home, const char *socket,
                                      const char *program)
{
    struct daemon_start *d = xcalloc(1, sizeof *d);
    d->loop = loop;
    d->home = xstrdup(home);
    d->socket = xstrdup(socket);
    d->program = program ? xstrdup(program) : NULL;
    d->lock = -1;
    deadline_init(&d->deadline, loop, on_deadline);
    return d;
}

// Connecting to a unix socket does not wait: it succeeds, or fails at once if no process listens. A
// full backlog (EAGAIN) also means that a process listens.
static bool listens(const char *socket_path)
{
    int fd auto_close = fd_connect_unix(socket_path);
    return fd >= 0 || errno == EAGAIN;
}

// Return whether the socket belongs to another user. Then we cannot know if a process listens.
static bool is_foreign(const struct daemon_start *d)
{
    return access(d->socket, W_OK) < 0 && errno == EACCES;
}

bool daemon_start_listens(const struct daemon_start *d)
{
    return d->state == START_IDLE && listens(d->socket);
}

static void set_state(struct daemon_start *d, enum start_state to)
{
    static const unsigned ALLOWED[] = {
        [START_IDLE] = 1u << START_IDLE | 1u << START_OTHERS | 1u << START_OURS,
        [START_OTHERS] = 1u << START_IDLE | 1u << START_OTHERS | 1u << START_OURS,
        [START_OURS] = 1u << START_IDLE | 1u << START_FAILED,
        [START_FAILED] = 1u << START_IDLE,
    };
    assert(ALLOWED[d->state] & 1u << to);
    d->state = to;
}

// ---- waiting
void daemon_start_wait(struct daemon_start *d, struct server_waiter *w)
{
    w->next = d->waiters;
    d->waiters = w;
    if (d->state == START_IDLE) {
        deadline_arm(&d->deadline, DAEMON_START_MS);
        attempt(d);
    }
}

void daemon_start_forget(struct daemon_start *d, struct server_waiter *w)
{
    for (struct server_waiter **at = &d->waiters; *at; at = &(*at)->next) {
        if (*at == w) {
            *at = w->next;
            return;
        }
    }
}

static void on_watch_closed(uv_handle_t *handle)
{
    struct watch *w = container_of((uv_poll_t *)handle, struct watch, poll);
    close(w->fd);
    free(w);
}

static void watch_end(struct daemon_start *d)
{
    if (d->watch)
        uv_close((uv_handle_t *)&steal(&d->watch)->poll, on_watch_closed);
}

static void watch_begin(struct daemon_start *d, int fd /* taken */, uv_poll_cb cb)
{
    struct watch *w = xcalloc(1, sizeof *w);
    w->fd = fd;
    w->owner = d;
    d->watch = w;
    uv_poll_init(d->loop, &w->poll, fd);
    uv_poll_start(&w->poll, UV_READABLE | UV_DISCONNECT, cb);
}

static void finish(struct daemon_start *d, const struct err *e)
{
    watch_end(d);
    deadline_disarm(&d->deadline);
    if (d->lock >= 0)
        close(steal_fd(&d->lock));
    set_state(d, START_IDLE);
    // Take the waiters out one by one, because a waiter may remove another. No waiter is added
    // during this loop: a call begins to wait only when a request of it ends.
    while (d->waiters) {
        struct server_waiter *w = d->waiters;
        d->waiters = w->next;
        w->on_ready(e, w->ctx);
    }
}

static void on_deadline(struct deadline *deadline)
{
    struct daemon_start *d = container_of(deadline, struct daemon_start, deadline);
    struct err e = ERR_INIT;
    err_set(&e, ERR_TIMEOUT,
            "cubbyd was started but does not listen after %d s; see why in %s/cubbyd.log",
            DAEMON_START_MS / 1000, d->home);
    finish(d, &e);
}

// ---- 1. the lock
static void attempt(struct daemon_start *d)
{
    struct err e = ERR_INIT;
    if (is_foreign(d)) {
        err_set(
            &e, ERR_UNAVAILABLE,
            "permission denied on %s: run as the user that started cubbyd, or set CUBBY_HOME to a "
            "directory of your own",
            d->socket);
        finish(d, &e);
        return;
    }
    if (!d->program) {
        err_set(&e, ERR_UNAVAILABLE, "cubbyd is not running (nothing listens on %s)", d->socket);
        finish(d, &e);
        return;
    }
    char *path auto_free = home_path(d->home, "cubbyd.start");
    int fd = -1;
    int taken = start_lock_try(path, &fd, &e);
    if (taken < 0) {
        finish(d, &e);
    } else if (taken == 1) {
        set_state(d, START_OTHERS);
        watch_begin(d, fd, on_lock_released);
    } else {
        set_state(d, START_OURS);
        d->lock = fd;
        if (listens(d->socket))
            finish(d, NULL); // another had started it between our look and the lock
        else
            spawn(d);
    }
}

static void on_lock_released(uv_poll_t *poll, int status, int events)
{
    (void)status;
    (void)events;
    struct daemon_start *d = container_of(poll, struct watch, poll)->owner;
    watch_end(d);
    if (listens(d->socket))
        finish(d, NULL);
    else
        attempt(d);
}

// ---- 2. the daemon
static void spawn(struct daemon_start *d)
{
    struct err e = ERR_INIT;
    int pipe_fds[2] = {-1, -1};
    int log auto_close = daemon_log_open(d->home, &d->log_from, &e);
    if (log >= 0 && pipe2(pipe_fds, O_CLOEXEC) < 0)
        err_sys(&e, errno, "make a pipe");
    int ours auto_close = pipe_fds[0];
    int theirs auto_close = pipe_fds[1];
    d->exit = (struct daemon_exit){.on_known = on_exit_known, .ctx = d};
    const struct daemon_process_opts opts = {
        .program = d->program, .home = d->home, .log = log, .ready = theirs, .exit = &d->exit};
    if (err_is(&e) || daemon_process_spawn(&d->children, d->loop, &opts, &e) < 0)
        finish(d, &e);
    else
        watch_begin(d, steal_fd(&ours), on_ready_pipe);
}

static void on_ready_pipe(uv_poll_t *poll, int status, int events)
{
    (void)status;
    (void)events;
    struct daemon_start *d = container_of(poll, struct watch, poll)->owner;
    watch_end(d);
    if (listens(d->socket)) {
        finish(d, NULL);
        return;
    }
    set_state(d, START_FAILED);
    if (d->exit.is_known)
        on_exit_known(d);
}

// ---- 3. the daemon did not start
static void describe_exit(const struct daemon_exit *x, struct buf *out)
{
    if (x->signal)
        buf_printf(out, "cubbyd was killed by signal %d (%s)", x->signal, strsignal(x->signal));
    else
        buf_printf(out, "cubbyd ended with status %d", x->status);
}

static void on_exit_known(void *ctx)
{
    struct daemon_start *d = ctx;
    struct buf why auto_buf = BUF_INIT;
    struct err e = ERR_INIT;
    if (d->state != START_FAILED)
        return;
    daemon_log_tail(d->home, d->log_from, &why);
    int64_t free_bytes = dir_free_bytes(d->home);
    if (free_bytes >= 0 && free_bytes < FULL_BYTES) { // then its log has not all of its words
        err_set(&e, ERR_NO_SPACE,
                "cubbyd did not start: the host's disk is full: %lld KB are free in %s; make room, "
                "or set CUBBY_HOME to a directory on a larger file system",
                (long long)(free_bytes >> 10), d->home);
        finish(d, &e);
        return;
    }
    bool has_said = why.len > 0;
    if (has_said && d->exit.signal)
        buf_adds(&why, "; ");
    if (!has_said || d->exit.signal)
        describe_exit(&d->exit, &why);
    if (!has_said)
        buf_adds(&why, " and wrote nothing to its log");
    err_set(&e, ERR_UNAVAILABLE, "cubbyd did not start: %s (see %s/cubbyd.log)", buf_str(&why),
            d->home);
    finish(d, &e);
}

// ---- the lock
static int open_fifo(const char *path, int flags, struct err *e)
{
    struct stat st;
    int fd auto_close = open(path, flags | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0 || fstat(fd, &st) < 0)
        return err_sys(e, errno, "open %s", path);
    if (!S_ISFIFO(st.st_mode))
        return err_set(e, ERR_PRECONDITION, "%s is not a FIFO; remove it", path);
    return steal_fd(&fd);
}

int start_lock_try(const char *path, int *fd, struct err *e)
{
    if (mkfifo(path, 0600) < 0 && errno != EEXIST)
        return err_sys(e, errno, "make %s", path);
    int writer auto_close = open_fifo(path, O_RDWR, e);
    if (writer < 0)
        return -1;
    if (flock(writer, LOCK_EX | LOCK_NB) == 0) {
        *fd = steal_fd(&writer);
        return 0;
    }
    if (errno != EWOULDBLOCK)
        return err_sys(e, errno, "lock %s", path);
    // Opened while a writer (this one) is there: only then does the kernel report that the last
    // writer has gone.
    *fd = open_fifo(path, O_RDONLY, e);
    return *fd < 0 ? -1 : 1;
}

// ---- closing
static void on_deadline_closed(struct deadline *deadline)
{
    struct daemon_start *d = container_of(deadline, struct daemon_start, deadline);
    void (*on_closed)(void *ctx) = d->on_closed;
    void *ctx = d->closed_ctx;
    free(d->home);
    free(d->socket);
    free(d->program);
    free(d);
    on_closed(ctx);
}

void daemon_start_close(struct daemon_start *d, void (*on_closed)(void *ctx), void *ctx)
{
    d->on_closed = on_closed;
    d->closed_ctx = ctx;
    watch_end(d);
    if (d->lock >= 0)
        close(steal_fd(&d->lock));
    daemon_process_close_all(&d->children);
    deadline_close(&d->deadline, on_deadline_closed);
}
