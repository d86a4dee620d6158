// SPDX-License-Identifier: Apache-2.0
// A link: one side of a tunnel.
//
// TLS also sends by itself: it answers each KeyUpdate with one (RFC 8446, 4.6.3). Such answers
// carry no plain bytes, so back-pressure does not stop a side that asks and never reads. A link
// with more than LIMIT_STREAM_QUEUE_BYTES of unsent answers has failed.
#include "sandbox-backend/egress/link.h"

#include <string.h>
#include <unistd.h>

#include "sandbox-backend/base/limits.h"
#include "sandbox-backend/base/mem.h"

#define READ_BYTES 65536

static char read_buf[READ_BYTES]; // shared: there is one thread

static void on_connected(uv_connect_t *connect, int status);
static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buf);
static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf);
static void on_written(struct stream_out *o, int status);
static bool on_seal(struct stream_out *o, const void *data, size_t len);
static void on_handle_closed(uv_handle_t *handle);

static void begin(struct link *l, const struct link_events *events)
{
    l->events = events;
    l->is_open = true;
    l->io.handle.data = l;
    stream_out_init(&l->out, &l->io.stream, on_written);
}

static int no_tls(struct link *l, struct err *e)
{
    link_close(l);
    return err_set(e, ERR_INTERNAL, "OpenSSL cannot begin a connection");
}

// ---- the beginning

// Take over a descriptor. Return -1 when it fails; it is closed then.
static int open_pipe(struct link *l, uv_loop_t *loop, int fd, const struct link_events *events,
                     struct err *e)
{
    int failed = uv_pipe_init(loop, &l->io.pipe, 0);
    if (failed) {
        close(fd);
        return err_sys(e, -failed, "take a connection");
    }
    begin(l, events);
    failed = uv_pipe_open(&l->io.pipe, fd);
    if (failed) {
        close(fd);
        link_close(l);
        return err_sys(e, -failed, "take a connection");
    }
    return 0;
}

int link_accept(struct link *l, uv_loop_t *loop, int fd, struct tls_contexts *tls, const char *name,
                const struct link_events *events, struct err *e)
{
    if (open_pipe(l, loop, fd, events, e) < 0)
        return -1;
    l->is_ready = !tls;
    if (!tls)
        return 0;
    l->tls = tls_contexts_serve(tls, name, &l->out.sealed);
    if (!l->tls)
        return no_tls(l, e);
    l->out.seal = on_seal;
    return 0;
}

static int prepare_tls(struct link *l, struct tls_contexts *tls, const char *name, struct err *e)
{
    l->tls = tls ? tls_contexts_dial(tls, name, &l->out.sealed) : NULL;
    if (tls && !l->tls)
        return no_tls(l, e);
    if (tls)
        l->out.seal = on_seal;
    return 0;
}

int link_take(struct link *l, uv_loop_t *loop, int fd, struct tls_contexts *tls, const char *name,
              const struct link_events *events, struct err *e)
{
    if (open_pipe(l, loop, fd, events, e) < 0)
        return -1;
    return prepare_tls(l, tls, name, e);
}

static int parse_address(const char *address, int port, struct sockaddr_storage *out)
{
    if (uv_ip4_addr(address, port, (struct sockaddr_in *)out) == 0)
        return 0;
    return uv_ip6_addr(address, port, (struct sockaddr_in6 *)out);
}

int link_connect(struct link *l, uv_loop_t *loop, const char *address, int port,
                 struct tls_contexts *tls, const char *name, const struct link_events *events,
                 struct err *e)
{
    struct sockaddr_storage to;
    int failed = parse_address(address, port, &to);
    failed = failed ? failed : uv_tcp_init(loop, &l->io.tcp);
    if (failed)
        return err_sys(e, -failed, "connect to %s port %d", address, port);
    begin(l, events);
    uv_tcp_nodelay(&l->io.tcp, 1);
    uv_tcp_keepalive(&l->io.tcp, 1, 60);
    if (prepare_tls(l, tls, name, e) < 0)
        return -1;
    failed = uv_tcp_connect(&l->connect, &l->io.tcp, (const struct sockaddr *)&to, on_connected);
    if (!failed)
        return 0;
    link_close(l);
    return err_sys(e, -failed, "connect to %s port %d", address, port);
}

static void on_connected(uv_connect_t *connect, int status)
{
    struct link *l = container_of(connect, struct link, connect);
    if (l->is_closing)
        return;
    if (status < 0) {
        l->events->on_failed(l, uv_strerror(status));
        return;
    }
    link_connected(l);
}

void link_connected(struct link *l)
{
    link_read(l, true);
    if (l->tls) {
        tls_session_start(l->tls);
        stream_out_flush(&l->out); // a failure shows when reading
        return;
    }
    l->is_ready = true;
    l->events->on_ready(l);
}

// ---- reading

void link_read(struct link *l, bool on)
{
    if (!l->is_open || l->is_closing || on == l->is_reading)
        return;
    l->is_reading = on;
    if (on)
        uv_read_start(&l->io.stream, on_alloc, on_read);
    else
        uv_read_stop(&l->io.stream);
}

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
    (void)handle;
    (void)suggested;
    *buf = (uv_buf_t){.base = read_buf, .len = sizeof read_buf};
}

static enum tls_event take_some(struct link *l, char *into, size_t room, size_t *len)
{
    size_t before = l->out.sealed.len;
    enum tls_event event = tls_session_take(l->tls, into, room, len);
    l->replies += l->out.sealed.len - before;
    return event;
}

static void send_replies(struct link *l)
{
    stream_out_flush(&l->out);
    if (link_unsent(l) == 0)
        l->replies = 0;
    if (l->replies > LIMIT_STREAM_QUEUE_BYTES)
        l->events->on_failed(l, "the peer requests new keys but does not read the answers");
}

// Process the bytes that TLS was given. The events that this calls may close the link.
static void take(struct link *l)
{
    char plain[TLS_PLAIN_BYTES];
    for (;;) {
        size_t len = 0;
        enum tls_event event = take_some(l, plain, sizeof plain, &len);
        bool is_new = !l->is_ready && tls_session_is_established(l->tls);
        l->is_ready = l->is_ready || is_new;
        if (is_new) {
            stream_out_flush(&l->out);
            l->events->on_ready(l);
        }
        if (l->is_closing)
            return;
        if (event == TLS_MORE)
            break;
        if (event == TLS_DATA) {
            l->events->on_data(l, plain, len);
        } else if (event == TLS_END) {
            l->events->on_end(l);
            return;
        } else {
            stream_out_flush(&l->out); // the alert
            l->tls_failed = true;
            l->events->on_failed(l, tls_session_why(l->tls));
            return;
        }
    }
    send_replies(l);
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct link *l = stream->data;
    if (n == 0)
        return;
    if (n == UV_EOF) {
        link_read(l, false);
        l->events->on_end(l);
    } else if (n < 0) {
        link_read(l, false);
        l->events->on_failed(l, uv_strerror((int)n));
    } else if (l->tls) {
        tls_session_give(l->tls, buf->base, (size_t)n);
        take(l);
    } else {
        l->events->on_data(l, buf->base, (size_t)n);
    }
}

// ---- writing

static void on_shut(uv_shutdown_t *shutdown, int status)
{
    (void)shutdown;
    (void)status; // the other side may be gone already
}

// Shut the stream only when all bytes are sent: libuv would shut it after the bytes that it was
// given, which may not be all.
static void end_when_sent(struct link *l)
{
    if (!l->is_shut || l->is_ending || stream_out_unsent(&l->out))
        return;
    l->is_ending = true;
    uv_shutdown(&l->shutdown, &l->io.stream, on_shut);
}

static bool on_seal(struct stream_out *o, const void *data, size_t len)
{
    return tls_session_seal(container_of(o, struct link, out)->tls, data, len);
}

static void on_written(struct stream_out *o, int status)
{
    struct link *l = container_of(o, struct link, out);
    if (l->is_closing)
        return;
    if (status < 0) {
        l->events->on_failed(l, uv_strerror(status));
        return;
    }
    end_when_sent(l);
    l->events->on_drained(l);
}

bool link_send(struct link *l, const struct buf *data)
{
    return data->len == 0 || stream_out_send(&l->out, data->data, data->len, "") == 0;
}

size_t link_unsent(const struct link *l)
{
    return l->is_open ? stream_out_unsent(&l->out) : 0;
}

void link_shut(struct link *l)
{
    if (!l->is_open || l->is_closing || l->is_shut)
        return;
    l->is_shut = true;
    if (l->tls)
        tls_session_bye(l->tls);
    stream_out_flush(&l->out);
    end_when_sent(l);
}

// ---- the end

void link_close(struct link *l)
{
    if (!l->is_open || l->is_closing)
        return;
    l->is_closing = true;
    uv_close(&l->io.handle, on_handle_closed);
}

static void on_handle_closed(uv_handle_t *handle)
{
    struct link *l = handle->data;
    l->is_open = false;
    stream_out_fini(&l->out);
    if (l->tls)
        tls_session_free(steal(&l->tls));
    l->events->on_closed(l);
}
