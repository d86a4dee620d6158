// SPDX-License-Identifier: Apache-2.0
// cubbyd: the sandboxes of one home, and the HTTP server that serves them.
#include "sandbox-backend/daemon/daemon.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/home.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/version.h"
#include "sandbox-backend/daemon/adopt/adopt.h"
#include "sandbox-backend/daemon/agent.h"
#include "sandbox-backend/daemon/api/api.h"
#include "sandbox-backend/daemon/api/key_belongings.h"
#include "sandbox-backend/daemon/builds/builds.h"
#include "sandbox-backend/daemon/http/api_keys.h"
#include "sandbox-backend/daemon/http/reply.h"
#include "sandbox-backend/daemon/listeners.h"
#include "sandbox-backend/daemon/mounts/mounts.h"
#include "sandbox-backend/daemon/options.h"
#include "sandbox-backend/daemon/pool/pool.h"
#include "sandbox-backend/daemon/proxy/ports.h"
#include "sandbox-backend/daemon/proxy/proxy.h"
#include "sandbox-backend/daemon/sandbox/ending.h"
#include "sandbox-backend/daemon/sandbox/sandbox.h"
#include "sandbox-backend/daemon/sleep/move.h"
#include "sandbox-backend/daemon/sleep/pause.h"
#include "sandbox-backend/log/log.h"

#define LOCK_WAIT_MS  15000
#define LOOK_EVERY_MS 10

enum { EXIT_FAILED = 1, EXIT_USAGE = 2, EXIT_RUNNING = 3 }; // RUNNING: another daemon's home

enum daemon_state {
    DAEMON_OPENING, // opens its rooms and adopts what an earlier daemon left; does not listen yet
    DAEMON_SERVING,
    DAEMON_STOPPING, // waits until the last sandbox is gone
    DAEMON_STOPPED,
};

static const int SIGNALS[] = {SIGTERM, SIGINT, SIGHUP, SIGUSR1};

// The functions of higher rooms that sandbox/ calls.
static const struct store_hooks HOOKS = {
    .wake = pause_wake_by_use,
    .pause_overdue = pause_overdue,
    .move_let_go = move_let_go,
    .sleep_next_ms = idle_next_ms,
    .sleep_look = idle_look,
    .take_pooled = pool_take,
    .give_up_pooled = pool_give_up,
    .poke_pool = pool_poke,
    .disconnect = proxy_disconnect,
    .ports_to_json = ports_to_json,
    .ports_from_json = ports_from_json,
    .ports_reopen = ports_reopen,
    .mounts_on_state = mounts_on_state,
    .mounts_inherit = mounts_inherit,
    .mounts_from_json = mounts_from_json,
};

struct daemon {
    uv_loop_t loop;
    struct options *options; // borrowed
    const char *home;        // borrowed
    int lock;                // borrowed
    enum daemon_state state;
    struct store store;
    struct api_keys api_keys;
    struct key_belongings belongings;
    struct ports_listen ports_listen;
    struct listeners listeners;
    struct agent agent;
    uv_signal_t signals[ARRAY_LEN(SIGNALS)];
    int stop_signal; // 0: none was received
    struct err err;
};

// The life of the daemon, in order.
static int open_rooms(struct daemon *d);
static void on_adopted(void *ctx);
static void on_request(struct http_request *req, void *ctx);
static void on_signal(uv_signal_t *handle, int number);
static void stop(struct daemon *d);
static void on_empty(void *ctx);

static void set_state(struct daemon *d, enum daemon_state to)
{
    static const char *const NAMES[] = {"opening", "serving", "stopping", "stopped"};
    static const unsigned ALLOWED[] = {
        [DAEMON_OPENING] = 1u << DAEMON_SERVING | 1u << DAEMON_STOPPED,
        [DAEMON_SERVING] = 1u << DAEMON_STOPPING,
        [DAEMON_STOPPING] = 1u << DAEMON_STOPPED,
        [DAEMON_STOPPED] = 0,
    };
    assert(ALLOWED[d->state] & 1u << to);
    log_debug("daemon.state", "%s -> %s", NAMES[d->state], NAMES[to]);
    d->state = to;
}

// Write the process id and the state of the daemon into the lock file, for people and for
// `cubby daemon`.
static void note_state(int fd, const char *what)
{
    char text[64];
    int len = snprintf(text, sizeof text, "%d\n%s", (int)getpid(), what);
    if (ftruncate(fd, 0) < 0 || pwrite(fd, text, (size_t)len, 0) < 0) {
        // the disk is full; the lock alone tells that a daemon runs
    }
}

// ---- 1. opening: what is opened last is closed first (stop, on_empty, run)
static void watch_signals(struct daemon *d)
{
    for (size_t i = 0; i < ARRAY_LEN(SIGNALS); i++) {
        uv_signal_init(&d->loop, &d->signals[i]);
        uv_signal_start(&d->signals[i], on_signal, SIGNALS[i]);
        uv_unref((uv_handle_t *)&d->signals[i]);
        d->signals[i].data = d;
    }
}

static int open_rooms(struct daemon *d)
{
    struct options *o = d->options;
    char *keys auto_free = o->keys ? xstrdup(o->keys) : home_path(d->home, API_KEYS_FILE);
    if (store_open(&d->store, &d->loop, &HOOKS, d->home, &o->limits, &d->err) < 0 ||
        drivers_open(&d->loop, d->home, &o->jail, &d->err) < 0 ||
        api_keys_init(&d->api_keys, keys, &d->err) < 0 ||
        key_belongings_open(&d->belongings, &d->store, &d->api_keys, &d->err) < 0 ||
        ports_listen_open(&d->ports_listen, &o->ports, &d->err) < 0)
        return -1;
    d->store.secrets = o->secrets;
    d->store.secrets.stored = &d->store.stored;
    d->store.secrets.private_network = o->limits.private_network;
    d->store.domain = o->domain;
    d->store.peers = peers_new(&d->loop, &o->peers);
    d->store.node = d->store.snapshots.node = d->store.volumes.node = o->node;
    d->store.ports_listen = &d->ports_listen;
    pool_open(&d->store, &o->pool);
    return builds_open(&d->store, &o->builds, &d->err);
}

static void start(struct daemon *d)
{
    reply_hide_home(d->home);
    watch_signals(d);
    if (open_rooms(d) < 0)
        on_empty(d);
    else
        adopt_all(&d->store, on_adopted, d);
}

// Tell the service manager that the daemon listens, as sd_notify(3) describes: whoever waits for
// the unit's start then finds this daemon, and starts no other.
static void tell_service_manager(void)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    const char *path = getenv("NOTIFY_SOCKET");
    size_t len = path ? strlen(path) : 0;
    if (len < 2 || len >= sizeof to.sun_path)
        return;
    memcpy(to.sun_path, path, len);
    if (*path == '@') // an abstract address
        to.sun_path[0] = '\0';
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len);
    int fd auto_close = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || sendto(fd, "READY=1", 7, MSG_NOSIGNAL, (struct sockaddr *)&to, size) < 0)
        log_warn("daemon.notify", "error=\"%s\"", strerror(errno));
}

static void tell_ready(const struct daemon *d)
{
    struct err e = ERR_INIT;
    tell_service_manager();
    if (d->options->ready_fd < 0)
        return;
    if (fd_write_all(d->options->ready_fd, "ready\n", 6, &e) < 0)
        log_warn("daemon.ready", "error=\"%s\"", e.msg);
    close(d->options->ready_fd);
}

// ---- 2. serving
static int listen_all(struct daemon *d)
{
    for (struct sandbox *sb = store_first(&d->store); sb; sb = store_next(sb))
        ports_reopen(sb);
    if (agent_open(&d->agent, &d->store, &d->loop, d->options->agent, &d->err) < 0)
        return -1;
    return listeners_open(&d->listeners, &d->loop, &d->options->listeners, d->home, on_request, d,
                          &d->err);
}

static bool is_there(const char *id, void *store)
{
    for (const struct sandbox *sb = store_first(store); sb; sb = store_next(sb))
        if (strcmp(sb->id, id) == 0)
            return true;
    return false;
}

static void on_adopted(void *ctx)
{
    struct daemon *d = ctx;
    // From here on quotas count: no quota may refuse a sandbox that was adopted.
    d->store.api_keys = &d->api_keys;
    set_state(d, DAEMON_SERVING);
    if (!d->stop_signal && listen_all(d) < 0)
        d->stop_signal = SIGUSR1; // a failed start is no reason to end running sandboxes
    if (d->stop_signal) {
        stop(d);
        return;
    }
    d->store.url = d->listeners.url;
    call_logs_end_others(&d->store.calls, is_there, &d->store);
    log_info("daemon.started", "version=%s pid=%d tier=%s home=%s url=%s sandboxes=%zu",
             CUBBY_VERSION, (int)getpid(), d->options->tier, d->home,
             d->listeners.url ? d->listeners.url : "-", d->store.count);
    pool_poke(&d->store);
    key_belongings_follow(&d->belongings);
    builds_resume(&d->store);
    tell_ready(d);
}

static void on_request(struct http_request *req, void *ctx)
{
    struct daemon *d = ctx;
    if (!proxy_takes(&d->store, req))
        api_request(&d->store, req);
}

// ---- 3. stopping
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

static void stop(struct daemon *d)
{
    bool leave = d->options->keep || d->stop_signal == SIGUSR1;
    set_state(d, DAEMON_STOPPING);
    note_state(d->lock, "stopping\n");
    log_info("daemon.stopping", "sandboxes=%zu leave=%d", d->store.count, leave);
    deadline_disarm(&d->store.expiry);
    listeners_close(&d->listeners);
    agent_close(&d->agent);
    key_belongings_close(&d->belongings);
    peers_close(steal(&d->store.peers));
    pool_close(&d->store);
    builds_close(&d->store);
    ending_all(&d->store, leave);
    store_stop(&d->store, on_empty, d);
}

// ---- 4. stopped: with these handles closed, the loop has nothing to wait for
static void on_empty(void *ctx)
{
    struct daemon *d = ctx;
    set_state(d, DAEMON_STOPPED);
    drivers_close();
    store_close(&d->store);
    for (size_t i = 0; i < ARRAY_LEN(SIGNALS); i++)
        uv_close((uv_handle_t *)&d->signals[i], NULL);
}

// ---- the program: options, process, home, lock, daemon

// Serve the home until a signal ends it, and close all that was opened.
static int run(struct options *options, const char *home, int lock, struct err *e)
{
    struct daemon d = {.options = options, .home = home, .lock = lock};
    int status = uv_loop_init(&d.loop);
    if (status < 0)
        return err_sys(e, -status, "event loop");
    start(&d);
    uv_run(&d.loop, UV_RUN_DEFAULT);
    listeners_fini(&d.listeners);
    ports_listen_fini(&d.ports_listen);
    key_belongings_fini(&d.belongings);
    api_keys_fini(&d.api_keys);
    builds_fini(&d.store);
    store_fini(&d.store);
    uv_loop_close(&d.loop);
    log_info("daemon.stopped", "pid=%d", (int)getpid());
    if (!err_is(&d.err))
        return 0;
    *e = d.err;
    return -1;
}

// Return whether the process that made the socket listen is alive. A child that a killed daemon was
// just starting holds that socket, and the lock, until it calls exec.
static bool is_listener_alive(int fd)
{
    struct ucred peer;
    socklen_t len = sizeof peer;
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) < 0 || peer.pid <= 0 ||
           kill(peer.pid, 0) == 0 || errno != ESRCH;
}

static bool is_served(const char *path)
{
    int fd auto_close = fd_connect_unix(path);
    return fd < 0 ? errno == EAGAIN : is_listener_alive(fd);
}

// Lock the home: the daemon holds <home>/cubbyd.lock with flock(2) for as long as it lives. Return
// the descriptor, which is close-on-exec so that no machine inherits the lock, or -1. ERR_EXISTS:
// another daemon serves this home. A daemon that holds the lock but does not listen is starting or
// stopping; wait for it, at most LOCK_WAIT_MS. Blocking.
static int lock_home(const char *home, struct err *e)
{
    char *path auto_free = home_path(home, "cubbyd.lock");
    char *sock auto_free = home_path(home, "cubbyd.sock");
    int fd auto_close = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return err_sys(e, errno, "open %s", path);
    int64_t until = clock_mono_ms() + LOCK_WAIT_MS;
    while (flock(fd, LOCK_EX | LOCK_NB) < 0) {
        if (errno != EWOULDBLOCK && errno != EINTR)
            return err_sys(e, errno, "lock %s", path);
        if (is_served(sock) || clock_mono_ms() > until)
            return err_set(e, ERR_EXISTS, "cubbyd already runs for %s", home);
        poll(NULL, 0, LOOK_EVERY_MS);
    }
    note_state(fd, "");
    return steal_fd(&fd);
}

// A sandbox takes a handful of descriptors, and each request takes two more.
static void raise_nofile(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

static int serve(struct options *options, struct err *e)
{
    char *home auto_free = home_open(e);
    if (!home)
        return EXIT_FAILED;
    if (options->node && home_check_node(home, options->node, e) < 0)
        return EXIT_FAILED;
    int lock auto_close = lock_home(home, e);
    if (lock < 0)
        return e->code == ERR_EXISTS ? EXIT_RUNNING : EXIT_FAILED;
    return run(options, home, lock, e) < 0 ? EXIT_FAILED : 0;
}

int daemon_main(int argc, char **argv)
{
    struct err e = ERR_INIT;
    bool done = false;
    struct options *options = options_read(argc, argv, &done, &e);
    int status = options ? 0 : EXIT_USAGE;
    if (options && !done) {
        signal(SIGPIPE, SIG_IGN);
        umask(077);
        raise_nofile();
        status = serve(options, &e);
    }
    if (err_is(&e))
        fprintf(stderr, "cubbyd: %s%s\n", e.code == ERR_NO_SPACE ? "the host's disk is full: " : "",
                e.msg);
    options_free();
    return status;
}
