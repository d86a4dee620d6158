// SPDX-License-Identifier: Apache-2.0
// Raw TCP at an exposed port: each connection is joined with one to the guest.
//
// The way of a connection: wake the sandbox if needed, dial the guest's port (a server that speaks
// first is heard at once), then pass bytes both ways (net/stream_join.h). Every failure is a reset,
// as there is no way to tell the reason. The first bytes of both sides are checked:
//  - An HTTP request is refused, because any page can make a browser send one (DNS rebinding), and
//    no Host is checked here.
//  - An HTTP answer before any request is refused. A browser would take it for the answer to its
//    request, and run it as a page of 127.0.0.1, whose storage other servers may share.
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/daemon/proxy/ports_internal.h"
#include "sandbox-backend/daemon/proxy/proxy_stream.h"
#include "sandbox-backend/daemon/sandbox/sandbox.h"
#include "sandbox-backend/daemon/sandbox/store.h"
#include "sandbox-backend/log/log.h"

#define BACKLOG     128
#define KEEPALIVE_S 60 // finds a peer that disappeared
#define REFUSAL                                                                                 \
    "HTTP/1.1 421 Misdirected Request\r\nConnection: close\r\nContent-Type: text/plain\r\n\r\n" \
    "This port is exposed as raw TCP. Expose it with protocol http to open it in a browser.\n"

#define METHOD_CHARS                                                  \
    "!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijkl" \
    "mnopqrstuvwxyz" // RFC 9110, 5.6.2

struct tcp_link {
    LIST_ENTRY(tcp_link) link; // in port_tcp.links
    struct port_tcp *tcp;
    uv_tcp_t *client;           // owned until it is joined
    struct upstream_dial *dial; // while the guest is dialed
    struct stream_join *join;   // owned
    bool wake_owed;             // on_woken will be called
    bool counted;               // in the sandbox's stream_count
    bool over;
    int closing; // handles
};

struct port_tcp {
    uv_tcp_t listener;
    struct port *port;
    LIST_HEAD(tcp_links, tcp_link) links;
    int count;
    bool closing;
    bool listener_open;
};

static void on_woken(struct sandbox *sb, const struct err *e, void *ctx);
static void dial(struct tcp_link *l);
static void on_dialed(uv_stream_t *stream, const struct err *e, void *ctx);

// ---- the end
static void release_tcp(struct port_tcp *tcp)
{
    if (!tcp->closing || tcp->listener_open || !LIST_EMPTY(&tcp->links))
        return;
    struct port *port = tcp->port;
    free(tcp);
    if (port)
        ports__closed(port);
}

static void release_link(struct tcp_link *l)
{
    if (!l->over || l->closing || l->dial || l->wake_owed || l->join)
        return;
    struct port_tcp *tcp = l->tcp;
    LIST_REMOVE(l, link);
    tcp->count--;
    free(l);
    release_tcp(tcp);
}

static void on_tcp_closed(uv_handle_t *handle)
{
    struct tcp_link *l = handle->data;
    free(handle);
    l->closing--;
    release_link(l);
}

static void uncount(struct tcp_link *l)
{
    struct sandbox *sb = l->tcp->port->sb;
    if (!l->counted)
        return;
    l->counted = false;
    sb->stream_count--;
    sandbox_touch(sb);
}

// End a connection by a reset. May be called in every state, and more than once.
static void end_link(struct tcp_link *l)
{
    if (l->over)
        return;
    l->over = true;
    uncount(l);
    if (l->dial)
        upstream_dial_cancel(steal(&l->dial));
    if (l->join)
        stream_join_close(l->join);
    if (l->client) {
        uv_tcp_t *client = steal(&l->client);
        l->closing++;
        if (uv_tcp_close_reset(client, on_tcp_closed) != 0)
            uv_close((uv_handle_t *)client, on_tcp_closed);
    }
    release_link(l);
}

void ports_tcp_cut(struct port_tcp *tcp)
{
    struct tcp_link *next;
    for (struct tcp_link *l = LIST_FIRST(&tcp->links); l; l = next) {
        next = LIST_NEXT(l, link);
        end_link(l);
    }
}

static void on_listener_closed(uv_handle_t *handle)
{
    struct port_tcp *tcp = container_of((uv_tcp_t *)handle, struct port_tcp, listener);
    tcp->listener_open = false;
    release_tcp(tcp);
}

void ports_tcp_close(struct port_tcp *tcp)
{
    tcp->closing = true;
    ports_tcp_cut(tcp);
    uv_close((uv_handle_t *)&tcp->listener, on_listener_closed);
}

// ---- 1. accept
static bool has_room(const struct port_tcp *tcp)
{
    return tcp->count <= PORT_CONNECTIONS_MAX && tcp->port->sb->stream_count < PROXY_STREAMS_MAX;
}

static void start_link(struct tcp_link *l)
{
    struct sandbox *sb = l->tcp->port->sb;
    bool may_wake = sb->auto_resume || sb->asleep;
    if (!has_room(l->tcp) || (sb->state != SANDBOX_RUNNING && !may_wake)) {
        log_debug("port.refused", "id=%s port=%d state=%s connections=%d", sb->id,
                  l->tcp->port->want.number, sandbox_state_name(sb->state), l->tcp->count);
        end_link(l);
        return;
    }
    l->counted = true;
    sb->stream_count++;
    sandbox_touch(sb);
    if (sb->state == SANDBOX_RUNNING) {
        dial(l);
        return;
    }
    l->wake_owed = true;
    sb->store->hooks->wake(sb, on_woken, l);
}

static void on_connection(uv_stream_t *listener, int status)
{
    struct port_tcp *tcp = container_of((uv_tcp_t *)listener, struct port_tcp, listener);
    if (status < 0 || tcp->closing)
        return;
    struct tcp_link *l = xcalloc(1, sizeof *l);
    l->tcp = tcp;
    l->client = xmalloc(sizeof *l->client);
    uv_tcp_init(listener->loop, l->client);
    l->client->data = l;
    LIST_INSERT_HEAD(&tcp->links, l, link);
    tcp->count++;
    if (uv_accept(listener, (uv_stream_t *)l->client) < 0) {
        end_link(l);
        return;
    }
    uv_tcp_keepalive(l->client, 1, KEEPALIVE_S);
    uv_tcp_nodelay(l->client, 1);
    start_link(l);
}

// ---- 2. wake and dial
static void on_woken(struct sandbox *sb, const struct err *e, void *ctx)
{
    struct tcp_link *l = ctx;
    (void)sb;
    l->wake_owed = false;
    if (l->over)
        release_link(l);
    else if (e)
        end_link(l);
    else
        dial(l);
}

static void dial(struct tcp_link *l)
{
    const struct upstream_patience none = {0};
    struct sandbox *sb = l->tcp->port->sb;
    l->dial = upstream_dial_stream(&sb->upstream, machine_vmnet(sb->machine),
                                   l->tcp->port->want.number, UPSTREAM_DIAL_MS, none, on_dialed, l);
}

// ---- 3. pass bytes
static void on_joined_closed(void *ctx)
{
    struct tcp_link *l = ctx;
    l->join = NULL;
    if (!l->over) {
        l->over = true;
        uncount(l);
    }
    release_link(l);
}

// Recognize "METHOD /" or "METHOD *", a request line as a client sends it to an origin server.
bool ports__is_http(const char *data, size_t len)
{
    size_t i = 0;
    while (i < len && data[i] && strchr(METHOD_CHARS, data[i]))
        i++;
    return i > 0 && i + 1 < len && data[i] == ' ' && (data[i + 1] == '/' || data[i + 1] == '*');
}

static bool may_be_said(const char *data, size_t len, struct buf *answer)
{
    if (!ports__is_http(data, len))
        return true;
    buf_adds(answer, REFUSAL);
    return false;
}

// Browsers skip bytes before a status line: Chromium 4, Firefox 10. Firefox also takes "ICY ".
enum stream_join_verdict ports__judge_early(const char *data, size_t len)
{
    static const char *const STARTS[] = {"HTTP", "ICY "};
    for (size_t at = 0; at < len; at++)
        for (size_t i = 0; i < ARRAY_LEN(STARTS); i++) {
            size_t left = len - at;
            size_t whole = strlen(STARTS[i]);
            if (strncasecmp(data + at, STARTS[i], left < whole ? left : whole) == 0)
                return left < whole ? STREAM_JOIN_WAIT : STREAM_JOIN_REFUSE;
        }
    return STREAM_JOIN_PASS;
}

static void on_dialed(uv_stream_t *stream, const struct err *e, void *ctx)
{
    static const struct stream_join_guard GUARD = {may_be_said, ports__judge_early};
    struct tcp_link *l = ctx;
    l->dial = NULL;
    if (!stream) {
        log_debug("port.dial", "port=%d error=\"%s\"", l->tcp->port->want.number, e->msg);
        end_link(l);
        return;
    }
    l->join =
        stream_join_new((uv_stream_t *)steal(&l->client), stream, NULL, 0, on_joined_closed, l);
    stream_join_set_guard(l->join, &GUARD);
}

// ---- the listener
int ports_tcp_port(const struct port_tcp *tcp)
{
    struct sockaddr_storage address;
    int len = sizeof address;
    if (uv_tcp_getsockname(&tcp->listener, (struct sockaddr *)&address, &len) != 0)
        return 0;
    // IPv4 and IPv6 addresses have the port at the same offset.
    return ntohs(((const struct sockaddr_in *)&address)->sin_port);
}

static int bind_and_listen(struct port_tcp *tcp, const char *ip, int port)
{
    struct sockaddr_storage address;
    int rc = ports__address(ip, port, &address);
    if (rc == 0)
        rc = uv_tcp_bind(&tcp->listener, (struct sockaddr *)&address, 0);
    if (rc == 0)
        rc = uv_listen((uv_stream_t *)&tcp->listener, BACKLOG, on_connection);
    return rc;
}

struct port_tcp *ports_tcp_open(struct port *port, struct err *e)
{
    struct store *store = port->sb->store;
    struct port_tcp *tcp = xcalloc(1, sizeof *tcp);
    LIST_INIT(&tcp->links);
    uv_tcp_init(store->loop, &tcp->listener);
    tcp->listener_open = true;
    int rc = bind_and_listen(tcp, store->ports_listen->ip, port->want.host_port);
    if (rc == 0) {
        tcp->port = port;
        return tcp;
    }
    err_sys(e, -rc, "cannot listen on %s port %d", store->ports_listen->ip, port->want.host_port);
    ports_tcp_close(tcp); // tcp->port is NULL, so no port is closed
    return NULL;
}
