// SPDX-License-Identifier: Apache-2.0
// A dial: a connection to a destination through the sandbox's upstream proxy.
#include "sandbox-backend/egress/dial.h"

#include <arpa/inet.h>
#include <assert.h>
#include <string.h>
#include <unistd.h>

#include "sandbox-backend/base/limits.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/egress/link.h"
#include "sandbox-backend/log/log.h"
#include "sandbox-backend/net/deadline.h"
#include "sandbox-backend/net/fetch_guard.h"

#define CONNECT_MS 30000
#define REST_MS    300000 // without traffic, once one direction has ended

enum dial_state { DIAL_LOOKUP, DIAL_CONNECT, DIAL_SOCKS, DIAL_RELAY, DIAL_CLOSED };

struct dial {
    LIST_ENTRY(dial) link;
    struct dial_room *room; // borrowed
    enum dial_state state;
    char *address; // owned
    int port;
    struct socks socks;
    struct buf answers; // of the proxy
    struct link near, far;
    bool near_ended, far_ended;
    struct deadline deadline;
    uv_getaddrinfo_t lookup;
    int handles; // the lookup and open handles; the dial is freed when all have ended
    bool tells;
    dial_cb cb; // NULL: nobody waits
    void *ctx;
};

static const struct link_events NEAR_EVENTS;
static const struct link_events FAR_EVENTS;
static void on_deadline(struct deadline *d);
static void on_found(uv_getaddrinfo_t *lookup, int status, struct addrinfo *found);

static void set_state(struct dial *d, enum dial_state to)
{
    static const char *const NAMES[] = {"lookup", "connect", "socks", "relay", "closed"};
    assert(to == DIAL_CLOSED ? d->state != DIAL_CLOSED : to == d->state + 1);
    log_debug("dial.state", "address=%s state=\"%s -> %s\"", d->address, NAMES[d->state],
              NAMES[to]);
    d->state = to;
    if (to >= DIAL_RELAY)
        deadline_disarm(&d->deadline);
}

// ---- the end

static void on_handle_closed(struct dial *d)
{
    if (--d->handles)
        return;
    LIST_REMOVE(d, link);
    d->room->count--;
    buf_fini(&d->answers);
    free(d->address);
    free(d);
}

static void on_deadline_closed(struct deadline *d)
{
    on_handle_closed(container_of(d, struct dial, deadline));
}

static void close_all(struct dial *d)
{
    if (d->state == DIAL_CLOSED)
        return;
    if (d->state == DIAL_LOOKUP)
        uv_cancel((uv_req_t *)&d->lookup); // on_found comes in any case
    set_state(d, DIAL_CLOSED);
    link_close(&d->near);
    link_close(&d->far);
    deadline_close(&d->deadline, on_deadline_closed);
}

static void tell(struct dial *d, const char *what, const char *why)
{
    dial_cb cb = d->cb;
    d->cb = NULL;
    if (cb)
        cb(d->ctx, d, what, why);
}

static void fail(struct dial *d, const char *what, const char *detail)
{
    char *why auto_free = str_printf("%s: %s", what, detail);
    if (d->state == DIAL_CLOSED)
        return;
    tell(d, what, why);
    close_all(d);
}

void dial_forget(struct dial *d)
{
    d->cb = NULL;
}

void dial_cut_all(struct dial_room *room)
{
    struct dial *d = NULL;
    LIST_FOREACH (d, &room->all, link) { // each is freed later, from the loop
        dial_forget(d);
        close_all(d);
    }
}

const char *dial_address(const struct dial *d)
{
    return d->address;
}

int dial_port(const struct dial *d)
{
    return d->port;
}

static void on_deadline(struct deadline *deadline)
{
    struct dial *d = container_of(deadline, struct dial, deadline);
    if (d->state == DIAL_RELAY)
        close_all(d);
    else
        fail(d, "the upstream proxy cannot be reached", "it does not answer in time");
}

// ---- LOOKUP

struct dial *dial_start(struct dial_room *room, const struct dial_target *target, int near,
                        bool tells, dial_cb cb, void *ctx, struct err *e)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    if (room->count == DIALS_MAX) {
        close(near);
        err_set(e, ERR_LIMIT, "too many connections are open at once");
        return NULL;
    }
    struct dial *d = xcalloc(1, sizeof *d);
    *d = (struct dial){.room = room,
                       .address = xstrdup(target->address),
                       .port = target->port,
                       .tells = tells,
                       .cb = cb,
                       .ctx = ctx};
    LIST_INSERT_HEAD(&room->all, d, link);
    room->count++;
    deadline_init(&d->deadline, room->loop, on_deadline);
    deadline_arm(&d->deadline, CONNECT_MS);
    d->handles = 2; // the deadline and the lookup
    if (uv_getaddrinfo(room->loop, &d->lookup, on_found, room->proxy->host, NULL, &hints) != 0)
        abort(); // libuv fails here only for wrong arguments
    if (link_accept(&d->near, room->loop, near, NULL, NULL, &NEAR_EVENTS, e) < 0) {
        d->handles += d->near.is_open;
        dial_forget(d);
        close_all(d);
        return NULL;
    }
    d->handles++;
    link_read(&d->near, true); // to see its end
    return d;
}

static bool is_allowed(const struct dial *d, const struct sockaddr *address)
{
    static const struct fetch_guard PUBLIC;
    return d->room->proxy->special ||
           (fetch_guard_allows(&PUBLIC, address) && !fetch_guard_is_own(address));
}

static void connect_to(struct dial *d, const struct sockaddr *to)
{
    char text[INET6_ADDRSTRLEN] = "";
    struct err e = ERR_INIT;
    set_state(d, DIAL_CONNECT);
    uv_ip_name(to, text, sizeof text);
    int rc = link_connect(&d->far, d->room->loop, text, d->room->proxy->port, d->room->tls,
                          d->room->proxy->tls_name, &FAR_EVENTS, &e);
    d->handles += d->far.is_open;
    if (rc < 0)
        fail(d, "the upstream proxy cannot be reached", "the connection failed");
}

// Return the first IPv4 address, as this host may have no IPv6; else the first.
static const struct sockaddr *pick(const struct addrinfo *found)
{
    const struct addrinfo *one = found;
    while (one && one->ai_family != AF_INET)
        one = one->ai_next;
    return one ? one->ai_addr : found->ai_addr;
}

static void on_found(uv_getaddrinfo_t *lookup, int status, struct addrinfo *found)
{
    struct dial *d = container_of(lookup, struct dial, lookup);
    if (d->state == DIAL_LOOKUP && (status < 0 || !found))
        fail(d, "the upstream proxy cannot be reached", "its name does not resolve");
    else if (d->state == DIAL_LOOKUP && !is_allowed(d, pick(found)))
        fail(d, "the upstream proxy cannot be reached",
             "its address is not public, or of this host");
    else if (d->state == DIAL_LOOKUP)
        connect_to(d, pick(found));
    uv_freeaddrinfo(found);
    on_handle_closed(d);
}

// ---- CONNECT and SOCKS

static void send_to_proxy(struct dial *d, const struct buf *out)
{
    if (!link_send(&d->far, out))
        fail(d, "the upstream proxy cannot be reached", "the connection was lost");
}

static void on_far_ready(struct link *l)
{
    struct dial *d = container_of(l, struct dial, far);
    struct buf out auto_buf = BUF_INIT;
    if (d->state != DIAL_CONNECT)
        return;
    set_state(d, DIAL_SOCKS);
    socks_begin(&d->socks, d->room->proxy, d->address, d->port, &out);
    send_to_proxy(d, &out);
}

static void await_rest(struct dial *d)
{
    if (d->state == DIAL_RELAY && (d->near_ended || d->far_ended))
        deadline_arm(&d->deadline, REST_MS);
}

static void pass_on(struct dial *d, struct link *from, struct link *to, const struct buf *data)
{
    await_rest(d);
    if (!link_send(to, data))
        close_all(d);
    else if (link_unsent(to) > LIMIT_STREAM_QUEUE_BYTES)
        link_read(from, false);
}

static void begin_relay(struct dial *d)
{
    const struct buf zero = {.data = (char[]){0}, .len = d->tells};
    set_state(d, DIAL_RELAY);
    tell(d, NULL, NULL);
    if (d->state != DIAL_RELAY)
        return;
    pass_on(d, &d->far, &d->near, &zero);
    if (d->state == DIAL_RELAY)
        pass_on(d, &d->far, &d->near, &d->answers);
    buf_clear(&d->answers);
}

static void take_answers(struct dial *d)
{
    struct buf out auto_buf = BUF_INIT;
    const char *why = NULL;
    enum socks_step step = socks_take(&d->socks, &d->answers, &out, &why);
    if (step == SOCKS_REFUSED)
        fail(d, "the upstream proxy refused the connection", why);
    else if (step == SOCKS_CONNECTED)
        begin_relay(d);
    else
        send_to_proxy(d, &out);
    if (out.data)
        explicit_bzero(out.data, out.cap); // it held the password
}

// ---- RELAY

// Close when both directions have ended and everything is sent.
static void settle(struct dial *d)
{
    if (d->near_ended && d->far_ended && !link_unsent(&d->near) && !link_unsent(&d->far))
        close_all(d);
}

static void on_near_data(struct link *l, const char *data, size_t len)
{
    struct dial *d = container_of(l, struct dial, near);
    const struct buf piece = {.data = (char *)(uintptr_t)data, .len = len};
    if (d->state == DIAL_RELAY)
        pass_on(d, &d->near, &d->far, &piece);
    else
        close_all(d); // nobody sends before the dial is connected
}

static void on_near_end(struct link *l)
{
    struct dial *d = container_of(l, struct dial, near);
    d->near_ended = true;
    if (d->state != DIAL_RELAY) {
        close_all(d);
        return;
    }
    link_shut(&d->far);
    await_rest(d);
    settle(d);
}

static void on_near_failed(struct link *l, const char *why)
{
    (void)why;
    close_all(container_of(l, struct dial, near));
}

static void on_near_drained(struct link *l)
{
    struct dial *d = container_of(l, struct dial, near);
    if (d->state != DIAL_RELAY)
        return;
    link_read(&d->far, !d->far_ended);
    settle(d);
}

static void on_near_closed(struct link *l)
{
    on_handle_closed(container_of(l, struct dial, near));
}

static const struct link_events NEAR_EVENTS = {
    .on_data = on_near_data,
    .on_end = on_near_end,
    .on_failed = on_near_failed,
    .on_drained = on_near_drained,
    .on_closed = on_near_closed,
};

static void on_far_data(struct link *l, const char *data, size_t len)
{
    struct dial *d = container_of(l, struct dial, far);
    const struct buf piece = {.data = (char *)(uintptr_t)data, .len = len};
    if (d->state == DIAL_RELAY) {
        pass_on(d, &d->far, &d->near, &piece);
    } else if (d->state == DIAL_SOCKS) {
        buf_add(&d->answers, data, len);
        take_answers(d);
    }
}

static void on_far_end(struct link *l)
{
    struct dial *d = container_of(l, struct dial, far);
    d->far_ended = true;
    if (d->state != DIAL_RELAY) {
        fail(d, "the upstream proxy cannot be reached", "it closed the connection");
        return;
    }
    link_shut(&d->near);
    await_rest(d);
    settle(d);
}

static void on_far_failed(struct link *l, const char *why)
{
    struct dial *d = container_of(l, struct dial, far);
    if (d->state == DIAL_RELAY)
        close_all(d);
    else if (l->tls_failed)
        fail(d, "the upstream proxy's certificate is not valid", why);
    else
        fail(d, "the upstream proxy cannot be reached", why);
}

static void on_far_drained(struct link *l)
{
    struct dial *d = container_of(l, struct dial, far);
    if (d->state != DIAL_RELAY)
        return;
    link_read(&d->near, !d->near_ended);
    settle(d);
}

static void on_far_closed(struct link *l)
{
    on_handle_closed(container_of(l, struct dial, far));
}

static const struct link_events FAR_EVENTS = {
    .on_ready = on_far_ready,
    .on_data = on_far_data,
    .on_end = on_far_end,
    .on_failed = on_far_failed,
    .on_drained = on_far_drained,
    .on_closed = on_far_closed,
};
