// SPDX-License-Identifier: Apache-2.0
// cubbyd: the sandboxes of one home, and the HTTP server that serves them.
#include "sandbox-backend/daemon/daemon.h"

#include <signal.h>
#include <unistd.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/version.h"
#include "sandbox-backend/daemon/adopt.h"
#include "sandbox-backend/daemon/api.h"
#include "sandbox-backend/daemon/create.h"
#include "sandbox-backend/daemon/ending.h"
#include "sandbox-backend/daemon/front.h"
#include "sandbox-backend/daemon/gate.h"
#include "sandbox-backend/daemon/home_lock.h"
#include "sandbox-backend/daemon/pool.h"
#include "sandbox-backend/daemon/pooled.h"
#include "sandbox-backend/daemon/ports.h"
#include "sandbox-backend/daemon/proxy.h"
#include "sandbox-backend/daemon/reply.h"
#include "sandbox-backend/daemon/sandbox.h"
#include "sandbox-backend/log/log.h"

enum daemon_state {
    DAEMON_ADOPTING, // finds what an earlier daemon left; does not listen yet
    DAEMON_SERVING,
    DAEMON_STOPPING, // waits until the last sandbox is gone
    DAEMON_STOPPED,
};

static const int SIGNALS[] = {SIGTERM, SIGINT, SIGHUP, SIGUSR1};

struct daemon {
    uv_loop_t loop;
    const struct daemon_opts *opts; // borrowed
    enum daemon_state state;
    struct store store;
    struct front front;
    struct gate gate;
    uv_signal_t signals[ARRAY_LEN(SIGNALS)];
    int stop_signal; // 0 while there was none
    struct err err;
};

static void on_adopted(void *ctx);
static void on_request(struct http_request *req, void *ctx);
static void on_signal(uv_signal_t *handle, int number);
static void stop(struct daemon *d);
static void on_empty(void *ctx);

static void set_state(struct daemon *d, enum daemon_state to)
{
    static const char *const NAMES[] = {"adopting", "serving", "stopping", "stopped"};
    log_debug("daemon.state", "%s -> %s", NAMES[d->state], NAMES[to]);
    d->state = to;
}

static int open_driver(struct daemon *d)
{
    const struct driver *driver = d->opts->driver;
    return driver->open ? driver->open(&d->loop, d->opts->home, &d->opts->jail, &d->err) : 0;
}

static void start(struct daemon *d)
{
    const struct daemon_opts *opts = d->opts;
    reply_hide_home(opts->home);
    for (size_t i = 0; i < ARRAY_LEN(SIGNALS); i++) {
        uv_signal_init(&d->loop, &d->signals[i]);
        uv_signal_start(&d->signals[i], on_signal, SIGNALS[i]);
        uv_unref((uv_handle_t *)&d->signals[i]);
        d->signals[i].data = d;
    }
    if (store_open(&d->store, &d->loop, opts->driver, opts->home, &opts->limits, &d->err) < 0 ||
        open_driver(d) < 0 || gate_init(&d->gate, opts->home, &d->err) < 0 ||
        ports_place_open(&d->store.ports, &opts->ports, &d->err) < 0)
        on_empty(d);
    else {
        d->store.secrets = opts->secrets;
        pool_open(&d->store, opts->pool);
        adopt_all(&d->store, on_adopted, d);
    }
}

static void tell_ready(const struct daemon *d)
{
    struct err e = ERR_INIT;
    if (d->opts->ready_fd < 0)
        return;
    if (fd_write_all(d->opts->ready_fd, "ready\n", 6, &e) < 0)
        log_warn("daemon.ready", "error=\"%s\"", e.msg);
    close(d->opts->ready_fd);
}

static void on_adopted(void *ctx)
{
    struct daemon *d = ctx;
    d->store.gate = &d->gate;
    d->store.domain = d->opts->domain;
    set_state(d, DAEMON_SERVING);
    for (struct sandbox *sb = store_first(&d->store); sb && !d->stop_signal; sb = store_next(sb))
        ports_reopen(sb);
    if (!d->stop_signal &&
        front_open(&d->front, &d->loop, &d->opts->front, on_request, d, &d->err) < 0)
        d->stop_signal = SIGUSR1; // an error of the start is no reason to end what runs
    if (d->stop_signal) {
        stop(d);
        return;
    }
    d->store.url = d->front.url;
    log_info("daemon.started", "version=%s pid=%d driver=%s home=%s url=%s sandboxes=%zu",
             CUBBY_VERSION, (int)getpid(), d->opts->driver->name, d->opts->home,
             d->front.url ? d->front.url : "-", d->store.count);
    pool_start(&d->store);
    tell_ready(d);
}

static void on_request(struct http_request *req, void *ctx)
{
    struct daemon *d = ctx;
    if (!proxy_takes(&d->store, req))
        api_request(&d->store, req);
}

// ---- the end
static void on_signal(uv_signal_t *handle, int number)
{
    struct daemon *d = handle->data;
    if (d->stop_signal)
        return;
    log_info("daemon.signal", "signal=%d", number);
    d->stop_signal = number;
    if (d->state == DAEMON_SERVING)
        stop(d);
}

static void end_sandbox(struct sandbox *sb, bool leave)
{
    if (sb->state == SANDBOX_POOLED && leave)
        pooled_release(sb);
    else if (sb->state == SANDBOX_POOLED)
        pooled_end(sb, "the daemon is stopping");
    else if (sb->state == SANDBOX_CREATING)
        create_abandon(sb, "the daemon is stopping");
    else if (sandbox_is_known(sb) && leave)
        ending_release(sb);
    else if (sandbox_is_known(sb))
        ending_start(sb, ENDED_STOPPED, NULL);
}

static void stop(struct daemon *d)
{
    bool leave = d->opts->keep || d->stop_signal == SIGUSR1;
    set_state(d, DAEMON_STOPPING);
    home_lock_stopping(d->opts->lock);
    log_info("daemon.stopping", "sandboxes=%zu leave=%d", d->store.count, leave);
    deadline_disarm(&d->store.expiry);
    front_close(&d->front);
    pool_close(&d->store);
    for (struct sandbox *sb = store_first(&d->store); sb; sb = store_next(sb))
        end_sandbox(sb, leave);
    store_stop(&d->store, on_empty, d);
}

// With these handles closed the loop runs out of things to wait for.
static void on_empty(void *ctx)
{
    struct daemon *d = ctx;
    set_state(d, DAEMON_STOPPED);
    store_close(&d->store);
    if (d->opts->driver->close)
        d->opts->driver->close();
    for (size_t i = 0; i < ARRAY_LEN(SIGNALS); i++)
        uv_close((uv_handle_t *)&d->signals[i], NULL);
}

int daemon_run(const struct daemon_opts *opts, struct err *e)
{
    struct daemon d = {.opts = opts};
    int status = uv_loop_init(&d.loop);
    if (status < 0)
        return err_sys(e, -status, "event loop");
    start(&d);
    uv_run(&d.loop, UV_RUN_DEFAULT);
    store_fini(&d.store);
    gate_fini(&d.gate);
    ports_place_fini(&d.store.ports);
    front_fini(&d.front);
    uv_loop_close(&d.loop);
    log_info("daemon.stopped", "pid=%d", (int)getpid());
    if (!err_is(&d.err))
        return 0;
    *e = d.err;
    return -1;
}
