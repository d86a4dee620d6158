// SPDX-License-Identifier: Apache-2.0
// The relay: connections from the host to ports of the guest's loopback.
#include "sandbox-backend/envd/guest/relay.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/log/log.h"
#include "sandbox-backend/net/deadline.h"
#include "sandbox-backend/net/stream_join.h"

#define BACKLOG         128
#define VERB            "CONNECT "
#define LINE_MAX_BYTES  14  // "CONNECT 65535\n"
#define HEAD_BYTES      512 // the line, and bytes that may follow it
#define KEEPALIVE_S     60  // finds a peer that is gone, as after a restore
#define REFUSED_WAIT_MS 2000

enum link_state {
    LINK_LINE, // reads "CONNECT <port>\n"
    LINK_CONNECTING,
    LINK_REFUSED, // has been told; waits for the client to close
    LINK_JOINED,
};

struct link {
    struct relay *relay;
    LIST_ENTRY(link) entry; // of relay->links
    enum link_state state;
    bool closing;
    int open;         // handles
    uv_tcp_t *client; // owned until it is joined
    uv_tcp_t *target; // owned until it is joined
    uv_connect_t connect;
    uv_shutdown_t shutdown;
    struct deadline deadline;
    struct stream_join *join; // owned
    int port;
    bool tried_v4;
    size_t len;
    char head[HEAD_BYTES];
};

struct relay {
    uv_tcp_t listener;
    int port;
    LIST_HEAD(, link) links;
    int count;
    bool closing;
    bool listener_open;
};

static void set_state(struct link *l, enum link_state to);
static void read_line(struct link *l);
static void dial(struct link *l);
static void refuse(struct link *l, const char *reason);
static void join(struct link *l);

// ---- the end

static void free_if_closed(struct relay *r)
{
    if (r->closing && !r->listener_open && LIST_EMPTY(&r->links))
        free(r);
}

static void release(struct link *l)
{
    if (--l->open)
        return;
    struct relay *r = l->relay;
    LIST_REMOVE(l, entry);
    r->count--;
    free(l);
    free_if_closed(r);
}

static void on_tcp_closed(uv_handle_t *handle)
{
    struct link *l = handle->data;
    free(handle);
    release(l);
}

static void on_deadline_closed(struct deadline *d)
{
    release(container_of(d, struct link, deadline));
}

static void close_tcp(uv_tcp_t **tcp)
{
    if (*tcp)
        uv_close((uv_handle_t *)steal(tcp), on_tcp_closed);
}

static void link_close(struct link *l)
{
    if (l->closing)
        return;
    l->closing = true;
    close_tcp(&l->client);
    close_tcp(&l->target);
    if (l->join)
        stream_join_close(l->join);
    deadline_close(&l->deadline, on_deadline_closed);
}

static uv_tcp_t *tcp_new(struct link *l)
{
    uv_tcp_t *tcp = xmalloc(sizeof *tcp);
    uv_tcp_init(l->relay->listener.loop, tcp);
    tcp->data = l;
    l->open++;
    return tcp;
}

static void on_deadline(struct deadline *d)
{
    struct link *l = container_of(d, struct link, deadline);
    if (l->state == LINK_REFUSED)
        link_close(l);
    else
        refuse(l, "timeout");
}

static void set_state(struct link *l, enum link_state to)
{
    static const unsigned FROM[] = {
        [LINK_CONNECTING] = 1 << LINK_LINE | 1 << LINK_CONNECTING, // 127.0.0.1, then ::1
        [LINK_REFUSED] = 1 << LINK_LINE | 1 << LINK_CONNECTING,
        [LINK_JOINED] = 1 << LINK_CONNECTING,
    };
    if (!(FROM[to] >> l->state & 1))
        abort();
    l->state = to;
}

// ---- 1. the line

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
    struct link *l = handle->data;
    (void)suggested;
    if (l->state == LINK_REFUSED)
        l->len = 0;
    *buf = (uv_buf_t){.base = l->head + l->len, .len = sizeof l->head - l->len};
}

static bool parse_line(struct link *l, size_t len)
{
    int64_t port;
    l->head[len] = '\0';
    if (strlen(l->head) != len || !str_starts(l->head, VERB) ||
        !str_to_int(l->head + strlen(VERB), 1, UINT16_MAX, &port))
        return false;
    l->port = (int)port;
    return true;
}

static void on_head(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct link *l = stream->data;
    (void)buf;
    if (n < 0) {
        link_close(l);
        return;
    }
    l->len += (size_t)n;
    const char *newline = memchr(l->head, '\n', l->len);
    if (!newline && l->len < LINE_MAX_BYTES)
        return;
    uv_read_stop(stream);
    if (!newline || !parse_line(l, (size_t)(newline - l->head))) {
        refuse(l, "bad-request");
        return;
    }
    l->len -= (size_t)(newline + 1 - l->head);
    memmove(l->head, newline + 1, l->len);
    dial(l);
}

static void read_line(struct link *l)
{
    deadline_arm(&l->deadline, RELAY_TIMEOUT_MS);
    if (uv_read_start((uv_stream_t *)l->client, on_alloc, on_head) < 0)
        link_close(l);
}

// ---- 2. the port

static void on_connected(uv_connect_t *connect, int status)
{
    struct link *l = container_of(connect, struct link, connect);
    if (l->closing || l->state != LINK_CONNECTING)
        return;
    if (status == 0) {
        join(l);
    } else if (!l->tried_v4) {
        l->tried_v4 = true;
        close_tcp(&l->target);
        dial(l);
    } else {
        refuse(l, "refused");
    }
}

static void dial(struct link *l)
{
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } to;
    set_state(l, LINK_CONNECTING);
    // A connection to the relay itself would never end.
    if (l->port == l->relay->port) {
        refuse(l, "refused");
        return;
    }
    if (l->tried_v4)
        uv_ip6_addr("::1", l->port, &to.v6);
    else
        uv_ip4_addr("127.0.0.1", l->port, &to.v4);
    l->target = tcp_new(l);
    if (uv_tcp_connect(&l->connect, l->target, &to.any, on_connected) < 0)
        refuse(l, "refused");
}

// ---- 3a. refused

static void on_ignored(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    (void)buf;
    if (n < 0)
        link_close(stream->data);
}

static void on_shutdown(uv_shutdown_t *shutdown, int status)
{
    struct link *l = container_of(shutdown, struct link, shutdown);
    if (status < 0 && !l->closing)
        link_close(l);
}

// Read on: unread bytes would make the kernel reset the connection and lose the answer.
static void refuse(struct link *l, const char *reason)
{
    char answer[32];
    int n = snprintf(answer, sizeof answer, "ERR %s\n", reason);
    uv_buf_t piece = {.base = answer, .len = (size_t)n};
    uv_stream_t *client = (uv_stream_t *)l->client;
    set_state(l, LINK_REFUSED);
    close_tcp(&l->target);
    deadline_arm(&l->deadline, REFUSED_WAIT_MS);
    if (uv_try_write(client, &piece, 1) != n || uv_shutdown(&l->shutdown, client, on_shutdown) < 0)
        link_close(l);
    else if (uv_read_start(client, on_alloc, on_ignored) < 0)
        link_close(l);
}

// ---- 3b. joined

static void on_join_closed(void *ctx)
{
    struct link *l = ctx;
    l->join = NULL;
    l->open--; // the join closed two streams
    release(l);
}

static void join(struct link *l)
{
    uv_buf_t piece = {.base = (char[]){"OK\n"}, .len = 3};
    if (uv_try_write((uv_stream_t *)l->client, &piece, 1) != 3) {
        link_close(l);
        return;
    }
    set_state(l, LINK_JOINED);
    deadline_close(&l->deadline, on_deadline_closed);
    uv_tcp_nodelay(l->client, 1);
    uv_tcp_nodelay(l->target, 1);
    l->join = stream_join_new((uv_stream_t *)steal(&l->client), (uv_stream_t *)steal(&l->target),
                              l->head, l->len, on_join_closed, l);
}

// ---- the listener

static void on_connection(uv_stream_t *listener, int status)
{
    struct relay *r = container_of((uv_tcp_t *)listener, struct relay, listener);
    if (status < 0 || r->closing)
        return;
    struct link *l = xcalloc(1, sizeof *l);
    l->relay = r;
    LIST_INSERT_HEAD(&r->links, l, entry);
    r->count++;
    l->open = 1;
    deadline_init(&l->deadline, r->listener.loop, on_deadline);
    l->client = tcp_new(l);
    if (uv_accept(listener, (uv_stream_t *)l->client) < 0) {
        link_close(l);
        return;
    }
    uv_tcp_keepalive(l->client, 1, KEEPALIVE_S);
    if (r->count > 2 * RELAY_MAX) { // as many again may be waiting for their "ERR limit"
        link_close(l);
    } else if (r->count > RELAY_MAX) {
        log_warn("relay.limit", "max=%d", RELAY_MAX);
        refuse(l, "limit");
    } else {
        read_line(l);
    }
}

static int bind_and_listen(struct relay *r, const char *ip, int port)
{
    struct sockaddr_storage address;
    int len = sizeof address;
    int rc = uv_ip4_addr(ip, port, (struct sockaddr_in *)&address);
    if (rc < 0)
        rc = uv_ip6_addr(ip, port, (struct sockaddr_in6 *)&address);
    if (rc == 0)
        rc = uv_tcp_bind(&r->listener, (struct sockaddr *)&address, 0);
    if (rc == 0)
        rc = uv_listen((uv_stream_t *)&r->listener, BACKLOG, on_connection);
    if (rc == 0)
        rc = uv_tcp_getsockname(&r->listener, (struct sockaddr *)&address, &len);
    // The port is at the same offset in both kinds of address.
    r->port = ntohs(((struct sockaddr_in *)&address)->sin_port);
    return rc;
}

static void on_listener_closed(uv_handle_t *handle)
{
    struct relay *r = container_of((uv_tcp_t *)handle, struct relay, listener);
    r->listener_open = false;
    free_if_closed(r);
}

struct relay *relay_listen(uv_loop_t *loop, const char *ip, int port, struct err *e)
{
    struct relay *r = xcalloc(1, sizeof *r);
    uv_tcp_init(loop, &r->listener);
    r->listener_open = true;
    int rc = bind_and_listen(r, ip, port);
    if (rc == 0)
        return r;
    err_sys(e, -rc, "listen for the relay on %s port %d", ip, port);
    relay_close(r);
    return NULL;
}

int relay_port(const struct relay *r)
{
    return r->port;
}

void relay_close(struct relay *r)
{
    r->closing = true;
    struct link *l;
    LIST_FOREACH (l, &r->links, entry)
        link_close(l);
    uv_close((uv_handle_t *)&r->listener, on_listener_closed);
}
