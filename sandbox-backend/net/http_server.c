// SPDX-License-Identifier: Apache-2.0
// An HTTP/1.1 server: listeners, lifetime and turns. The theory of operation is here.
//
// A server has listeners, connections ("peers", http_peer.c) and one idle handle. A peer parses one
// request at a time (http_parser.c) and hands it to the handler. It parses no further until the
// answer has ended. What arrives meanwhile waits in `pending` (at most two reads of 64 KiB) and
// then in the socket. So TCP or the unix socket slows down a peer that sends too fast. For a peer
// that reads slowly, http_response_write says "stop" at LIMIT_STREAM_QUEUE_BYTES. With TLS
// (http_peer_tls.c, tls.c) a peer begins with the handshake, and the same bytes are encrypted as
// they leave.
//
// Nothing is called synchronously. A handler only changes state and, if work follows, "kicks" the
// peer: the idle handle runs it in the same turn of the loop. Small pieces of an answer are
// gathered until then and leave in one write. Whole answers and large pieces leave at once.
//
// No peer keeps the others waiting. One connection may begin HTTP_TURN_REQUESTS requests in a turn
// of the loop. A body above HTTP_LARGE_BODY may keep its handler busy for long, so only the idle
// handle hands it over. The idle handle runs the kicked peers in order for HTTP_TURN_MS and goes on
// in the next turn, after new connections and other peers. A body whose sender has left meanwhile
// is not handed over.
//
// A peer lives until its handles are closed. A request lives until the handler ends it. When the
// connection dies first, the request lives until on_close, which comes from the peer's close
// callback. A handler that ends a request of a dead connection before that gets no on_close.
//
// Limits: head max_head_bytes (431), HTTP_HEADERS_MAX headers, max_connections (503). 30 s for a
// handshake, for a head, and between pieces of a collected body (408). After the first 30 s a
// collected body must average 4 KiB a second (408). 640 s idle. 30 s to drain a body that no
// handler took (1 MiB at most). 2 s for the peer to end after its last answer.
#include "sandbox-backend/net/http_server.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "sandbox-backend/base/home.h"
#include "sandbox-backend/base/limits.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/net/http_server_internal.h"

#define BACKLOG                 1024
#define DEFAULT_MAX_CONNECTIONS 1024
#define DEFAULT_IDLE_MS         640000
#define DEFAULT_HEAD_MS         30000

struct http_server *http_server_new(uv_loop_t *loop, const struct http_server_opts *opts)
{
    struct http_server *s = xcalloc(1, sizeof *s);
    s->loop = loop;
    s->opts = *opts;
    s->kicked_end = &s->kicked;
    if (!s->opts.max_connections)
        s->opts.max_connections = DEFAULT_MAX_CONNECTIONS;
    if (!s->opts.idle_timeout_ms)
        s->opts.idle_timeout_ms = DEFAULT_IDLE_MS;
    if (!s->opts.head_timeout_ms)
        s->opts.head_timeout_ms = DEFAULT_HEAD_MS;
    if (!s->opts.max_head_bytes)
        s->opts.max_head_bytes = LIMIT_HTTP_HEAD_BYTES;
    uv_idle_init(loop, &s->idle);
    s->idle.data = s;
    s->handles = 1;
    return s;
}

void http_server_release(struct http_server *s)
{
    if (--s->handles > 0)
        return;
    void (*on_closed)(void *ctx) = s->on_closed;
    void *ctx = s->on_closed_ctx;
    free(s);
    if (on_closed)
        on_closed(ctx);
}

// ---- listeners

static void on_listener_closed(uv_handle_t *handle)
{
    struct http_listener *l = handle->data;
    struct http_server *s = l->server;
    free(l->path);
    free(l);
    http_server_release(s);
}

// Create a listener with an initialised handle. After a failure its close callback frees it.
static struct http_listener *listener_new(struct http_server *s, bool is_pipe)
{
    struct http_listener *l = xcalloc(1, sizeof *l);
    l->server = s;
    if (is_pipe)
        uv_pipe_init(s->loop, &l->io.pipe, 0);
    else
        uv_tcp_init(s->loop, &l->io.tcp);
    l->io.handle.data = l;
    s->handles++;
    return l;
}

static void on_connection(uv_stream_t *stream, int status)
{
    if (status == 0)
        http_peer_accept(stream->data);
}

// Listen, or close the listener. A negative `fd` was not given to it.
static int listener_start(struct http_listener *l, int status, struct err *e, const char *what)
{
    if (status == 0)
        status = uv_listen(&l->io.stream, BACKLOG, on_connection);
    if (status == 0) {
        l->next = l->server->listeners;
        l->server->listeners = l;
        return 0;
    }
    uv_close(&l->io.handle, on_listener_closed);
    return err_sys(e, -status, "cannot listen on %s", what);
}

static int open_fd(struct http_server *s, int fd, struct err *e, const char *what,
                   struct http_listener **out)
{
    struct sockaddr_storage address = {0};
    socklen_t len = sizeof address;
    if (getsockname(fd, (struct sockaddr *)&address, &len) != 0) {
        int sys = errno;
        close(fd);
        return err_sys(e, sys, "cannot listen on %s", what);
    }
    bool is_pipe = address.ss_family == AF_UNIX;
    struct http_listener *l = listener_new(s, is_pipe);
    int status = is_pipe ? uv_pipe_open(&l->io.pipe, fd) : uv_tcp_open(&l->io.tcp, fd);
    if (status != 0)
        close(fd);
    if (listener_start(l, status, e, what) != 0)
        return -1;
    *out = l;
    return 0;
}

int http_server_listen_fd(struct http_server *s, int fd, struct err *e)
{
    struct http_listener *l;
    return open_fd(s, fd, e, "the inherited socket", &l);
}

// Remove the socket file of a dead server, on which no process listens. Keep that of a live server.
static int remove_stale(const struct sockaddr_un *address, struct err *e)
{
    struct stat st;
    if (lstat(address->sun_path, &st) != 0)
        return 0;
    if (!S_ISSOCK(st.st_mode))
        return err_set(e, ERR_EXISTS, "%s exists and is not a socket", address->sun_path);
    int probe auto_close = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (probe < 0)
        return err_sys(e, errno, "cannot make a socket");
    if (connect(probe, (const struct sockaddr *)address, sizeof *address) == 0 || errno == EAGAIN)
        return err_set(e, ERR_EXISTS, "another server listens on %s", address->sun_path);
    if (unlink(address->sun_path) != 0 && errno != ENOENT)
        return err_sys(e, errno, "cannot remove the stale %s", address->sun_path);
    return 0;
}

int http_server_listen_unix(struct http_server *s, const char *path, mode_t mode, struct err *e)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) > UNIX_PATH_MAX_BYTES)
        return err_set(e, ERR_INVALID, "the socket path %s is longer than %d bytes", path,
                       UNIX_PATH_MAX_BYTES);
    memcpy(address.sun_path, path, strlen(path) + 1);
    if (remove_stale(&address, e) != 0)
        return -1;
    int fd auto_close = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct stat st;
    // No client can connect between bind and listen, so the mode is set in time.
    if (fd < 0 || bind(fd, (const struct sockaddr *)&address, sizeof address) != 0 ||
        chmod(path, mode) != 0 || lstat(path, &st) != 0)
        return err_sys(e, errno, "cannot listen on %s", path);
    struct http_listener *l;
    if (open_fd(s, steal_fd(&fd), e, path, &l) != 0) {
        unlink(path);
        return -1;
    }
    l->path = xstrdup(path);
    l->dev = st.st_dev;
    l->ino = st.st_ino;
    return 0;
}

int http_server_listen_tcp(struct http_server *s, const char *ip, int port, struct err *e)
{
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } address;
    if (uv_ip4_addr(ip, port, &address.v4) != 0 && uv_ip6_addr(ip, port, &address.v6) != 0)
        return err_set(e, ERR_INVALID, "%s is not an IP address", ip);
    struct http_listener *l = listener_new(s, false);
    int status = uv_tcp_bind(&l->io.tcp, &address.any, 0);
    if (listener_start(l, status, e, ip) != 0)
        return err_wrap(e, "port %d", port);
    return 0;
}

int http_server_port(const struct http_server *s)
{
    for (const struct http_listener *l = s->listeners; l; l = l->next) {
        struct sockaddr_storage address;
        int len = sizeof address;
        if (l->io.handle.type != UV_TCP ||
            uv_tcp_getsockname(&l->io.tcp, (struct sockaddr *)&address, &len) != 0)
            continue;
        return address.ss_family == AF_INET6
                   ? ntohs(((const struct sockaddr_in6 *)&address)->sin6_port)
                   : ntohs(((const struct sockaddr_in *)&address)->sin_port);
    }
    return 0;
}

// ---- the end

// Remove only the file that this server made: a successor may have put its own there.
static void unlink_own(const struct http_listener *l)
{
    struct stat st;
    if (l->path && lstat(l->path, &st) == 0 && st.st_dev == l->dev && st.st_ino == l->ino)
        unlink(l->path);
}

static void on_idle_closed(uv_handle_t *handle)
{
    http_server_release(handle->data);
}

void http_server_close(struct http_server *s, void (*on_closed)(void *ctx), void *ctx)
{
    if (s->closing)
        return;
    s->closing = true;
    s->on_closed = on_closed;
    s->on_closed_ctx = ctx;
    for (struct http_listener *l = s->listeners; l; l = l->next) {
        unlink_own(l);
        uv_close(&l->io.handle, on_listener_closed);
    }
    for (struct http_peer *peer = s->peers; peer; peer = peer->next)
        http_peer_close(peer);
    uv_close((uv_handle_t *)&s->idle, on_idle_closed);
}

// ---- turns: the queue of kicked peers, and the limits of one turn

static struct http_peer *next_kicked(struct http_server *s)
{
    struct http_peer *peer = s->kicked;
    s->kicked = peer->next_kicked;
    if (!s->kicked)
        s->kicked_end = &s->kicked;
    peer->kicked = false;
    return peer;
}

// Connections that are kicked meanwhile run in the next turn.
static void on_idle(uv_idle_t *idle)
{
    struct http_server *s = idle->data;
    struct http_peer **last = s->kicked_end;
    uint64_t until = uv_hrtime() + HTTP_TURN_MS * (uint64_t)1000000;
    bool was_last = false;
    s->in_idle = true;
    while (s->kicked && !was_last && uv_hrtime() < until) {
        was_last = &s->kicked->next_kicked == last;
        struct http_peer *peer = next_kicked(s);
        peer->begun = 0;
        http_peer_run(peer);
    }
    s->in_idle = false;
    if (!s->kicked)
        uv_idle_stop(idle);
}

void http_peer_kick(struct http_peer *peer)
{
    struct http_server *s = peer->server;
    if (peer->kicked || peer->running || peer->state == PEER_CLOSED)
        return;
    peer->kicked = true;
    peer->next_kicked = NULL;
    *s->kicked_end = peer;
    s->kicked_end = &peer->next_kicked;
    uv_idle_start(&s->idle, on_idle);
}

void http_peer_unqueue(struct http_peer *peer)
{
    if (!peer->kicked)
        return;
    struct http_server *s = peer->server;
    struct http_peer **at = &s->kicked;
    while (*at != peer)
        at = &(*at)->next_kicked;
    *at = peer->next_kicked;
    if (!*at)
        s->kicked_end = at;
}

void http_peer_begin_turn(struct http_peer *peer)
{
    uint64_t now = uv_now(peer->server->loop);
    if (peer->turn == now)
        return;
    peer->turn = now;
    peer->begun = 0;
}

bool http_peer_had_turn(const struct http_peer *peer)
{
    return peer->state == PEER_IDLE && peer->begun >= HTTP_TURN_REQUESTS;
}

bool http_peer_has_left(const struct http_peer *peer)
{
    uv_os_fd_t fd;
    if (uv_fileno(&peer->io.handle, &fd) != 0)
        return true;
    struct pollfd ask = {.fd = fd, .events = POLLRDHUP};
    return poll(&ask, 1, 0) > 0;
}
