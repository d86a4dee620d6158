// SPDX-License-Identifier: Apache-2.0
// Makes sure that the local daemon runs.
//
// Theory of operation. Whoever finds nothing listening on the socket takes the start lock, looks
// again, and starts cubbyd in a session of its own with a pipe for --ready-fd. cubbyd writes to the
// pipe when it listens; when it fails, or dies, the pipe ends. Either way the socket is tried once
// more, and that decides. The lock is held until then. Those that did not get the lock wait for its
// release and begin again: then the daemon listens, or it is their turn to start it and to learn
// for themselves why it does not come up. One deadline covers all of it.
#include "sandbox-backend/client/daemon_start.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/home.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/client/daemon_process.h"
#include "sandbox-backend/client/start_lock.h"
#include "sandbox-backend/net/deadline.h"

// A descriptor that is waited for. Frees itself, and closes the descriptor, when closed.
struct watch {
    uv_poll_t poll;
    int fd;
    struct daemon_start *owner;
};

enum start_state { START_IDLE, START_OTHERS, START_OURS };

struct daemon_start {
    uv_loop_t *loop; // borrowed
    char *home, *socket, *program;
    enum start_state state;
    struct daemon_waiter *waiters;
    struct watch *watch;             // of the lock in OTHERS, of the ready pipe in OURS
    int lock;                        // in OURS, else -1
    off_t log_from;                  // where this start's lines begin in the log
    struct daemon_process *children; // daemons that we started and that have not ended
    struct deadline deadline;
    void (*on_closed)(void *ctx);
    void *closed_ctx; // borrowed
};

static void attempt(struct daemon_start *d);
static void on_lock_released(uv_poll_t *poll, int status, int events);
static void spawn(struct daemon_start *d);
static void on_ready_pipe(uv_poll_t *poll, int status, int events);
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

// Connecting to a unix socket does not wait: it succeeds, or says at once that nobody listens. A
// full backlog is somebody who listens.
static bool listens(const char *socket_path)
{
    int fd auto_close = fd_connect_unix(socket_path);
    return fd >= 0 || errno == EAGAIN;
}

// That somebody listens on it cannot be known then.
static bool is_foreign(const struct daemon_start *d)
{
    return access(d->socket, W_OK) < 0 && errno == EACCES;
}

bool daemon_start_is_done(const struct daemon_start *d)
{
    return d->state == START_IDLE && listens(d->socket);
}

// ---- waiting
void daemon_start_wait(struct daemon_start *d, struct daemon_waiter *w)
{
    if (daemon_start_is_done(d)) {
        w->on_ready(NULL, w->ctx);
        return;
    }
    w->next = d->waiters;
    d->waiters = w;
    if (d->state == START_IDLE) {
        deadline_arm(&d->deadline, DAEMON_START_MS);
        attempt(d);
    }
}

void daemon_start_forget(struct daemon_start *d, struct daemon_waiter *w)
{
    for (struct daemon_waiter **at = &d->waiters; *at; at = &(*at)->next) {
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
    d->state = START_IDLE;
    // One at a time: a waiter may forget another. None comes back before this has returned, because
    // waiting begins in a turn of the client's queue.
    while (d->waiters) {
        struct daemon_waiter *w = d->waiters;
        d->waiters = w->next;
        w->on_ready(e, w->ctx);
    }
}

static void on_deadline(struct deadline *deadline)
{
    struct daemon_start *d = container_of(deadline, struct daemon_start, deadline);
    struct err e = ERR_INIT;
    err_set(&e, ERR_TIMEOUT, "cubbyd does not listen after %d s; see %s/cubbyd.log",
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
            "%s may not be opened by this user: be the user whose cubbyd it is, or set CUBBY_HOME "
            "to a directory of your own",
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
        d->state = START_OTHERS;
        watch_begin(d, fd, on_lock_released);
    } else {
        d->state = START_OURS;
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
    if (err_is(&e) ||
        daemon_process_spawn(&d->children, d->loop, d->program, d->home, log, theirs, &e) < 0)
        finish(d, &e);
    else
        watch_begin(d, steal_fd(&ours), on_ready_pipe);
}

static void on_ready_pipe(uv_poll_t *poll, int status, int events)
{
    (void)status;
    (void)events;
    struct daemon_start *d = container_of(poll, struct watch, poll)->owner;
    if (listens(d->socket)) {
        finish(d, NULL);
        return;
    }
    struct buf tail auto_buf = BUF_INIT;
    struct err e = ERR_INIT;
    daemon_log_tail(d->home, d->log_from, &tail);
    err_set(&e, ERR_UNAVAILABLE, "cubbyd did not start: %s (see %s/cubbyd.log)",
            tail.len ? buf_str(&tail) : "it said nothing", d->home);
    finish(d, &e);
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
