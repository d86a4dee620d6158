// SPDX-License-Identifier: Apache-2.0
// A tunnel: one connection of the guest, together with the connection to its destination host.
//
//   HANDSHAKE -> HEAD -> CONNECT -> PASS -> HEAD ... -> LINGER -> CLOSED
//                                       `-> RAW
//
// HANDSHAKE  TLS with the guest (without TLS a tunnel begins with HEAD)
// HEAD       waits for a request's head, and judges it when it is complete
// CONNECT    connects the host, TLS included; then the head is sent
// PASS       the body and the answer pass (tunnel_http.c), in any order
// RAW        after 101: bytes
// LINGER     the last answer was given; the rest of it is sent, and the guest is read until it
//            ends, so that it gets the answer
//
// Any state leads to CLOSED when either side breaks. Each state has a deadline, which traffic
// extends.
#include "sandbox-backend/egress/tunnel.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "sandbox-backend/base/limits.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/egress/tunnel_internal.h"
#include "sandbox-backend/log/log.h"
#include "sandbox-backend/net/http.h"

static const struct {
    uint64_t ms;
    const char *late;
} PATIENCE[TUNNEL_STATES] = {
    [TUNNEL_HANDSHAKE] = {30000, "the guest's TLS handshake takes too long"},
    [TUNNEL_HEAD] = {300000, NULL}, // a connection that is kept and not used
    [TUNNEL_CONNECT] = {30000, "the host does not answer"},
    [TUNNEL_PASS] = {900000, "nothing has come from the host"},
    [TUNNEL_RAW] = {3600000, NULL},
    [TUNNEL_LINGER] = {2000, NULL},
    [TUNNEL_CLOSED] = {0, NULL},
};

static void on_deadline(struct deadline *d);
static void on_pause(struct deadline *d);
static const struct link_events GUEST_EVENTS;
static const struct link_events HOST_EVENTS;

// The rest of an answer has as much time as its beginning had: the guest may read slowly.
static enum tunnel_state waits_as(const struct tunnel *t)
{
    return t->state == TUNNEL_LINGER && link_unsent(&t->guest) ? TUNNEL_PASS : t->state;
}

static void restart_deadline(struct tunnel *t)
{
    if (t->state != TUNNEL_CLOSED)
        deadline_arm(&t->deadline, PATIENCE[waits_as(t)].ms);
}

void tunnel__set_state(struct tunnel *t, enum tunnel_state to)
{
    static const char *const NAMES[TUNNEL_STATES] = {"handshake", "head",   "connect", "pass",
                                                     "raw",       "linger", "closed"};
    // clang-format off
    static const bool ALLOWED[TUNNEL_STATES][TUNNEL_STATES] = {
        [TUNNEL_HANDSHAKE] = {[TUNNEL_HEAD] = 1, [TUNNEL_CLOSED] = 1},
        [TUNNEL_HEAD]     = {[TUNNEL_CONNECT] = 1, [TUNNEL_PASS] = 1,
                             [TUNNEL_LINGER] = 1, [TUNNEL_CLOSED] = 1},
        [TUNNEL_CONNECT]  = {[TUNNEL_PASS] = 1, [TUNNEL_LINGER] = 1, [TUNNEL_CLOSED] = 1},
        [TUNNEL_PASS]     = {[TUNNEL_HEAD] = 1, [TUNNEL_RAW] = 1,
                             [TUNNEL_LINGER] = 1, [TUNNEL_CLOSED] = 1},
        [TUNNEL_RAW]      = {[TUNNEL_LINGER] = 1, [TUNNEL_CLOSED] = 1},
        [TUNNEL_LINGER]   = {[TUNNEL_CLOSED] = 1},
    };
    // clang-format on
    assert(ALLOWED[t->state][to]);
    log_debug("tunnel.state", "host=%s state=\"%s -> %s\"", t->name, NAMES[t->state], NAMES[to]);
    t->state = to;
    if (to == TUNNEL_CLOSED)
        deadline_disarm(&t->deadline);
    else
        restart_deadline(t);
}

// ---- the beginning

static void add_needles(struct tunnel *t)
{
    const struct secrets *all = t->room->secrets;
    scan_init(&t->search);
    mask_init(&t->mask);
    for (size_t i = 0; i < all->count; i++) {
        const struct secret *secret = &all->items[i];
        if (t->judge.tls && secret_is_for(secret, t->name)) {
            mask_add(&t->mask, secret->value);
            if (secret->percent)
                mask_add(&t->mask, secret->percent);
        } else {
            t->sought[t->search.count] = secret;
            scan_add(&t->search, secret->placeholder);
        }
    }
    t->mask_fixed = t->mask.count;
}

static struct tunnel *tunnel_new(const struct tunnel_room *room, const struct tunnel_target *target)
{
    struct tunnel *t = xcalloc(1, sizeof *t);
    t->room = room;
    t->name = xstrdup(*target->name ? target->name : target->address);
    t->address = xstrdup(target->address);
    t->judge = (struct judge){.name = t->name,
                              .port = target->port,
                              .tls = target->tls,
                              .secrets = room->secrets,
                              .rule = target->tls ? rules_for(room->rules, t->name) : NULL,
                              .code = &t->code};
    http_parser_init(&t->request, HTTP_REQUEST);
    http_parser_init(&t->answer, HTTP_RESPONSE);
    add_needles(t);
    deadline_init(&t->deadline, room->loop, on_deadline);
    deadline_init(&t->pause, room->loop, on_pause);
    t->handles = 2;
    return t;
}

struct tunnel *tunnel_start(const struct tunnel_room *room, const struct tunnel_target *target,
                            int fd, struct err *e)
{
    struct tunnel *t = tunnel_new(room, target);
    if (link_accept(&t->guest, room->loop, fd, target->tls ? room->tls : NULL, t->name,
                    &GUEST_EVENTS, e) < 0) {
        t->unborn = true;
        t->handles += t->guest.is_open;
        tunnel__close(t);
        return NULL;
    }
    t->handles++;
    if (target->tls)
        restart_deadline(t);
    else
        tunnel__set_state(t, TUNNEL_HEAD);
    link_read(&t->guest, true);
    return t;
}

// ---- the end

static void tunnel_free(struct tunnel *t)
{
    http_parser_fini(&t->request);
    http_parser_fini(&t->answer);
    scan_fini(&t->search);
    mask_fini(&t->mask);
    tunnel__wipe(&t->head);
    tunnel__wipe(&t->code);
    buf_fini(&t->from_guest);
    buf_fini(&t->from_host);
    free(t->name);
    free(t->address);
    free(t);
}

static void on_handle_closed(struct tunnel *t)
{
    if (--t->handles)
        return;
    if (!t->unborn)
        t->room->on_gone(t->room->ctx, t);
    tunnel_free(t);
}

static void on_deadline_closed(struct deadline *d)
{
    on_handle_closed(container_of(d, struct tunnel, deadline));
}

static void on_pause_closed(struct deadline *d)
{
    on_handle_closed(container_of(d, struct tunnel, pause));
}

// Close the host's side. A dial that is under way ends with it.
static void close_host(struct tunnel *t)
{
    if (t->dial)
        dial_forget(steal(&t->dial));
    link_close(&t->host);
}

void tunnel__close(struct tunnel *t)
{
    if (t->is_closing)
        return;
    t->is_closing = true;
    tunnel__set_state(t, TUNNEL_CLOSED);
    link_close(&t->guest);
    close_host(t);
    deadline_close(&t->deadline, on_deadline_closed);
    deadline_close(&t->pause, on_pause_closed);
}

void tunnel_cut(struct tunnel *t)
{
    tunnel__close(t);
}

void tunnel__linger(struct tunnel *t)
{
    close_host(t);
    buf_clear(&t->from_guest);
    link_shut(&t->guest);
    tunnel__set_state(t, TUNNEL_LINGER);
    link_read(&t->guest, true);
}

void tunnel__wipe(struct buf *b)
{
    if (b->data)
        explicit_bzero(b->data, b->cap);
    buf_clear(b);
    buf_fini(b);
}

// ---- refusals

// Send an answer of our own, if the host's answer has not begun.
static void answer(struct tunnel *t, int status, const char *why)
{
    struct buf text auto_buf = BUF_INIT, all auto_buf = BUF_INIT;
    buf_printf(&text, "cubby-egress: %s\n", why);
    buf_printf(&all,
               "HTTP/1.1 %d %s\r\nContent-Type: text/plain; charset=utf-8\r\n"
               "Content-Length: %zu\r\nX-Cubby-Egress: refused\r\nConnection: close\r\n\r\n",
               status, http_status_text(status), text.len);
    if (llhttp_get_method(&t->request.llhttp) != HTTP_HEAD)
        buf_add(&all, text.data, text.len);
    link_send(&t->guest, &all); // if it is broken, lingering ends at once
    tunnel__linger(t);
}

void tunnel__refuse(struct tunnel *t, const struct refusal *r)
{
    if (t->state == TUNNEL_LINGER || t->state == TUNNEL_CLOSED)
        return;
    t->room->report(t->room->ctx, &(struct tunnel_report){.host = t->name,
                                                          .address = t->address,
                                                          .port = t->judge.port,
                                                          .secret = r->secret,
                                                          .what = r->what,
                                                          .why = r->why});
    if (t->answer_begun || t->state == TUNNEL_HANDSHAKE)
        tunnel__close(t);
    else
        answer(t, r->status, r->why);
}

static void refuse(struct tunnel *t, int status, const char *what, const char *why)
{
    struct refusal r = {.status = status, .what = what};
    snprintf(r.why, sizeof r.why, "%s", why);
    tunnel__refuse(t, &r);
}

void tunnel__fail(struct tunnel *t, int status, const char *why)
{
    refuse(t, status, NULL, why);
}

static void on_deadline(struct deadline *d)
{
    struct tunnel *t = container_of(d, struct tunnel, deadline);
    const char *late = PATIENCE[t->state].late;
    if (late)
        tunnel__fail(t, 504, late);
    if (!late || t->state == TUNNEL_HANDSHAKE)
        tunnel__close(t);
}

static void on_pause(struct deadline *d)
{
    tunnel_http__pause(container_of(d, struct tunnel, pause));
}

// ---- the guest's side

static void on_guest_ready(struct link *l)
{
    tunnel__set_state(container_of(l, struct tunnel, guest), TUNNEL_HEAD);
}

static void on_guest_data(struct link *l, const char *data, size_t len)
{
    struct tunnel *t = container_of(l, struct tunnel, guest);
    if (t->state == TUNNEL_LINGER) // dropped
        return;
    restart_deadline(t);
    buf_add(&t->from_guest, data, len);
    tunnel_http__guest(t);
}

static void on_guest_end(struct link *l)
{
    struct tunnel *t = container_of(l, struct tunnel, guest);
    t->guest_ended = true;
    if (t->state == TUNNEL_HANDSHAKE)
        tunnel__close(t);
    else
        tunnel_http__guest(t); // it may still read its answer
}

static void on_guest_failed(struct link *l, const char *why)
{
    struct tunnel *t = container_of(l, struct tunnel, guest);
    if (l->tls_failed && t->state == TUNNEL_HANDSHAKE) // for example because the guest's program
                                                       // pins a certificate
        refuse(t, 0, "the TLS handshake with the guest failed", why);
    tunnel__close(t);
}

static void on_guest_drained(struct link *l)
{
    struct tunnel *t = container_of(l, struct tunnel, guest);
    restart_deadline(t);
    if (t->state == TUNNEL_PASS || t->state == TUNNEL_RAW)
        tunnel_http__host(t);
    else if (t->state == TUNNEL_LINGER)
        tunnel_http__guest(t);
}

static void on_guest_closed(struct link *l)
{
    on_handle_closed(container_of(l, struct tunnel, guest));
}

static const struct link_events GUEST_EVENTS = {
    .on_ready = on_guest_ready,
    .on_data = on_guest_data,
    .on_end = on_guest_end,
    .on_failed = on_guest_failed,
    .on_drained = on_guest_drained,
    .on_closed = on_guest_closed,
};

// ---- the host's side

static void on_dialled(void *ctx, const struct dial *d, const char *what, const char *why)
{
    struct tunnel *t = ctx;
    (void)d;
    t->dial = NULL;
    if (!why) {
        link_connected(&t->host);
        return;
    }
    char *text auto_free = str_printf("%s (%s port %d) could not be connected: %s", t->name,
                                      t->address, t->judge.port, why);
    refuse(t, 502, what, text);
}

// The dial has one end of a socket pair, and the link to the host has the other.
static int connect_by_proxy(struct tunnel *t, struct err *e)
{
    int pair[2];
    const struct dial_target target = {t->address, t->judge.port};
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
        return err_sys(e, errno, "make a socket pair");
    if (link_take(&t->host, t->room->loop, pair[0], t->judge.tls ? t->room->tls : NULL, t->name,
                  &HOST_EVENTS, e) < 0) {
        close(pair[1]);
        return -1;
    }
    t->dial = dial_start(t->room->dials, &target, pair[1], false, on_dialled, t, e);
    return t->dial ? 0 : -1;
}

void tunnel__connect(struct tunnel *t)
{
    struct err e = ERR_INIT;
    tunnel__set_state(t, TUNNEL_CONNECT);
    int rc = t->room->dials
                 ? connect_by_proxy(t, &e)
                 : link_connect(&t->host, t->room->loop, t->address, t->judge.port,
                                t->judge.tls ? t->room->tls : NULL, t->name, &HOST_EVENTS, &e);
    t->handles += t->host.is_open;
    if (rc < 0)
        tunnel__fail(t, 502, e.msg);
}

static void on_host_ready(struct link *l)
{
    struct tunnel *t = container_of(l, struct tunnel, host);
    if (t->state != TUNNEL_CONNECT)
        return;
    tunnel_http__begin(t);
    tunnel_http__guest(t);
}

static void on_host_data(struct link *l, const char *data, size_t len)
{
    struct tunnel *t = container_of(l, struct tunnel, host);
    if (t->state == TUNNEL_LINGER || t->state == TUNNEL_CLOSED)
        return;
    restart_deadline(t);
    buf_add(&t->from_host, data, len);
    tunnel_http__host(t);
}

static void on_host_end(struct link *l)
{
    struct tunnel *t = container_of(l, struct tunnel, host);
    t->host_ended = true;
    tunnel_http__host_ended(t);
}

static void on_host_failed(struct link *l, const char *why)
{
    struct tunnel *t = container_of(l, struct tunnel, host);
    char *text auto_free = NULL;
    const char *what = NULL;
    if (t->state == TUNNEL_CONNECT && l->tls_failed)
        what = "the host's certificate cannot be verified";
    if (what)
        text = str_printf("the certificate of %s (%s port %d) could not be verified, so nothing "
                          "was sent to it: %s",
                          t->name, t->address, t->judge.port, why);
    else if (t->state == TUNNEL_CONNECT)
        text = str_printf("%s (%s port %d) could not be connected: %s", t->name, t->address,
                          t->judge.port, why);
    else
        text = str_printf("the connection to %s was lost: %s", t->name, why);
    if (t->state == TUNNEL_HEAD) // between two requests: the same as an end
        tunnel__linger(t);
    else
        refuse(t, 502, what, text);
}

static void on_host_drained(struct link *l)
{
    struct tunnel *t = container_of(l, struct tunnel, host);
    restart_deadline(t);
    if (t->state == TUNNEL_PASS || t->state == TUNNEL_RAW)
        tunnel_http__guest(t);
}

static void on_host_closed(struct link *l)
{
    on_handle_closed(container_of(l, struct tunnel, host));
}

static const struct link_events HOST_EVENTS = {
    .on_ready = on_host_ready,
    .on_data = on_host_data,
    .on_end = on_host_end,
    .on_failed = on_host_failed,
    .on_drained = on_host_drained,
    .on_closed = on_host_closed,
};
