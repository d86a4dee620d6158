// SPDX-License-Identifier: Apache-2.0
// The gate: judges what the guest says first.
#include "sandbox-backend/netd/gate/gate.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/log/log.h"
#include "sandbox-backend/netd/gate/gated.h"
#include "sandbox-backend/netd/policy/filter.h"

struct gate {
    struct policy *policy;     // borrowed
    struct stack *stack;       // borrowed
    struct gate_egress egress; // its socket is owned
    struct gate_events events;
    struct gated *by_fd[POLLSET_MAX]; // by libslirp's descriptor
    struct gated *items[GATE_MAX];    // owned; those whose real socket the gate holds
    int count, orphans;
};

static void judge_hello(struct gate *g, struct gated *c);
static void judge_silence(struct gate *g, struct gated *c);
static void allow(struct gate *g, struct gated *c, const struct hello *h);
static bool hand_over(struct gate *g, struct gated *c, const struct hello *h);
static bool clear_requests(struct gate *g, struct gated *c);
static void watch_time(struct gate *g, struct gated *c);
static void refuse(struct gate *g, struct gated *c, const char *why, const char *name);

struct gate *gate_new(struct policy *policy, struct stack *stack, const struct gate_egress *egress,
                      const struct gate_events *events)
{
    struct gate *g = xcalloc(1, sizeof(*g));
    g->policy = policy;
    g->stack = stack;
    g->egress = *egress;
    g->events = *events;
    stack_set_dials(stack, egress->dials);
    return g;
}

// ---- the table

static void remove_item(struct gate *g, const struct gated *c)
{
    for (int i = 0; i < g->count; i++) {
        if (g->items[i] == c) {
            g->items[i] = g->items[--g->count];
            return;
        }
    }
}

static void forget(struct gate *g, struct gated *c)
{
    remove_item(g, c);
    if (c->fd >= 0)
        g->by_fd[c->fd] = NULL;
    else
        g->orphans--;
    gated_free(c);
}

void gate_free(struct gate *g)
{
    if (!g)
        return;
    while (g->count > 0)
        forget(g, g->items[0]);
    for (int fd = 0; fd < POLLSET_MAX; fd++)
        if (g->by_fd[fd])
            forget(g, g->by_fd[fd]);
    mem_close_fd(&g->egress.fd);
    free(g);
}

void gate_set_egress(struct gate *g, const struct gate_egress *egress)
{
    mem_close_fd(&g->egress.fd);
    g->egress = *egress;
    stack_set_dials(g->stack, egress->dials);
}

int gate_parse_use(const char *text, struct gate_egress *out, struct err *e)
{
    bool both = strcmp(text, "both") == 0;
    out->hands = both || strcmp(text, "hand") == 0;
    out->dials = both || strcmp(text, "dial") == 0;
    if (out->hands || out->dials)
        return 0;
    return err_set(e, ERR_INVALID, "the use of egress must be hand, dial or both");
}

// Return whether TLS and HTTP connections are handed over.
static bool hands(const struct gate *g)
{
    return g->egress.fd >= 0 && g->egress.hands;
}

bool gate_wants(struct gate *g, const struct endpoint *to)
{
    return hands(g) || policy_asks_name(g->policy, to);
}

void gate_take(struct gate *g, int fd, const struct endpoint *to)
{
    struct gated *c = g->count < GATE_MAX ? gated_new(fd, to) : NULL;
    if (!c) {
        stack_reset(fd);
        g->events.on_refused(g->events.ctx, to, "too few descriptors for the gate", "");
        return;
    }
    c->deadline = clock_mono_ms() + GATE_SILENT_MS;
    g->by_fd[fd] = c;
    g->items[g->count++] = c;
}

static void tell_allowed(struct gate *g, const struct gated *c, const char *name)
{
    g->events.on_allowed(g->events.ctx, &c->to, name);
}

// Return whether the guest had ended its side before libslirp closed the descriptor; otherwise the
// guest has reset the connection.
static bool has_ended(const struct gated *c)
{
    struct pollfd p = {.fd = c->guest, .events = POLLRDHUP};
    return c->is_guest_done || (poll(&p, 1, 0) == 1 && p.revents & POLLRDHUP);
}

void gate_on_closed(struct gate *g, int fd)
{
    struct gated *c = g->by_fd[fd];
    if (!c)
        return;
    bool has_rest = c->real >= 0 && has_ended(c) && g->orphans < GATE_ORPHANS_MAX;
    if (!has_rest) {
        if (c->state == GATED_HELLO) // reached, but nothing will judge it
            tell_allowed(g, c, "");
        gated_reset(c);
        forget(g, c);
        return;
    }
    g->by_fd[fd] = NULL;
    g->orphans++;
    c->fd = -1;
    c->is_guest_full = false;
    c->rest_until = clock_mono_ms() + GATE_ORPHAN_MS;
}

// ---- judging

static const char *denies_hello(struct gate *g, const struct gated *c, const struct hello *h)
{
    if (h->kind == HELLO_BAD)
        return h->why;
    if (!policy_asks_name(g->policy, &c->to))
        return filter_denies(g->policy, &c->to);
    if (h->kind == HELLO_OTHER)
        return policy_denies_nameless(g->policy, &c->to);
    if (h->kind == HELLO_CONNECT)
        return "CONNECT to a proxy";
    if (!h->name.text[0])
        return "no server name was shown";
    if (h->has_upgrade && !hands(g))
        return "a change of protocol (Upgrade)";
    return policy_denies_name(g->policy, &c->to, h->name.text);
}

// A connection that the guest ends without a byte just ends. A connection that must show a name and
// does not is refused. Any other connection, in which the guest waits for the server, is checked
// again later, because the policy may change.
static void judge_silence(struct gate *g, struct gated *c)
{
    int64_t now = clock_mono_ms();
    if (c->is_guest_done) {
        tell_allowed(g, c, "");
        gated_set_state(c, GATED_FORWARD);
    } else if (now >= c->deadline) {
        c->deadline = now + GATE_SILENT_MS;
        if (policy_asks_name(g->policy, &c->to) && policy_denies_nameless(g->policy, &c->to))
            refuse(g, c, "nothing was sent in time", "");
    }
}

static void judge_hello(struct gate *g, struct gated *c)
{
    struct hello h;
    int64_t now = clock_mono_ms();
    if (c->len == 0) {
        judge_silence(g, c);
        return;
    }
    if (!c->has_begun)
        c->deadline = now + GATE_HELLO_MS;
    c->has_begun = true;
    bool is_late = now >= c->deadline;
    hello_parse(&h, c->bytes, c->len);
    if (h.kind == HELLO_MORE && !c->is_guest_done && !is_late)
        return;
    if (h.kind == HELLO_MORE) {
        // Slowness must not let TLS or HTTP bypass cubby-egress.
        bool is_needed = policy_asks_name(g->policy, &c->to) || (hands(g) && is_late);
        h.kind = is_needed ? HELLO_BAD : HELLO_OTHER;
        h.why =
            is_late ? "the protocol was not known in time" : "an end before the protocol was known";
    }
    const char *why = denies_hello(g, c, &h);
    if (why)
        refuse(g, c, why, h.name.text);
    else
        allow(g, c, &h);
}

static void allow(struct gate *g, struct gated *c, const struct hello *h)
{
    bool is_web = h->kind == HELLO_TLS || h->kind == HELLO_HTTP;
    c->name = h->name;
    if (is_web && hands(g) && !hand_over(g, c, h))
        return;
    tell_allowed(g, c, c->name.text);
    if (c->state == GATED_HANDED)
        return;
    if (h->kind == HELLO_HTTP)
        gated_set_state(c, GATED_WATCH);
    else
        gated_set_state(c, GATED_FORWARD);
}

static void write_message(struct buf *text, const struct endpoint *to, const struct hello *h)
{
    char address[INET_ADDRSTRLEN];
    struct in_addr in = {.s_addr = htonl(to->address)};
    inet_ntop(AF_INET, &in, address, sizeof(address));
    json_t *json =
        h ? json_pack("{s:s, s:s, s:i, s:b}", "name", h->name.text, "address", address, "port",
                      (int)to->port, "tls", h->kind == HELLO_TLS)
          : json_pack("{s:s, s:i, s:b}", "address", address, "port", (int)to->port, "dial", true);
    json_to_buf(text, json);
    json_decref(json);
}

// Send a socket, which is closed in any case, to cubby-egress (egress.h has the contract): the
// guest's end of a connection that showed `h`, or (`h` NULL) the other end of one to be dialled.
// Return NULL, or why it was not taken. Never waits.
static const char *send_to_egress(struct gate *g, int fd, const struct endpoint *to,
                                  const struct hello *h)
{
    int sent auto_close = fd;
    struct buf text auto_buf = BUF_INIT;
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {.bytes = {0}};
    write_message(&text, to, h);
    struct iovec iov = {.iov_base = text.data, .iov_len = text.len};
    struct msghdr message = {.msg_iov = &iov,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof(control.bytes)};
    struct cmsghdr *c = CMSG_FIRSTHDR(&message);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(c), &sent, sizeof(int));
    if (sendmsg(g->egress.fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0)
        return NULL;
    return errno == EAGAIN ? "the egress proxy is busy" : "the egress proxy is gone";
}

bool gate_dials(const struct gate *g)
{
    return g->egress.dials;
}

bool gate_dial(struct gate *g, int fd, const struct endpoint *to)
{
    int pair[2];
    const char *why = "too few descriptors for the gate";
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) == 0) {
        why = send_to_egress(g, pair[1], to, NULL);
        if (!why && dup3(pair[0], fd, O_CLOEXEC) < 0)
            why = "too few descriptors for the gate";
        close(pair[0]);
    }
    if (why)
        g->events.on_refused(g->events.ctx, to, why, "");
    return !why;
}

// Return false if the connection is refused instead.
static bool hand_over(struct gate *g, struct gated *c, const struct hello *h)
{
    int guest = gated_take_guest(c);
    const char *why = guest < 0 ? "the server spoke first, or no descriptors left"
                                : send_to_egress(g, guest, &c->to, h);
    if (why) {
        refuse(g, c, why, c->name.text);
        return false;
    }
    gated_set_state(c, GATED_HANDED);
    return true;
}

static const char *judge_request(struct gate *g, const struct gated *c, enum http_watch_step step,
                                 const struct http_head *head)
{
    const struct hello h = {.kind = head->is_connect ? HELLO_CONNECT : HELLO_HTTP,
                            .name = head->host,
                            .has_upgrade = head->has_upgrade};
    if (step == HTTP_WATCH_BAD)
        return head->why;
    return step == HTTP_WATCH_ASK ? denies_hello(g, c, &h) : NULL;
}

// Release the requests that are complete and allowed. False: one was refused.
static bool clear_requests(struct gate *g, struct gated *c)
{
    enum http_watch_step step = HTTP_WATCH_PASS;
    while (c->clear < c->len && step != HTTP_WATCH_MORE) {
        struct http_head head = {.why = NULL};
        size_t used;
        step = http_watch_next(&c->watch, &head, c->bytes + c->clear, c->len - c->clear, &used);
        const char *why = judge_request(g, c, step, &head);
        if (why) {
            refuse(g, c, why, head.host.text);
            return false;
        }
        if (step == HTTP_WATCH_ASK && strcmp(head.host.text, c->name.text) != 0)
            tell_allowed(g, c, head.host.text);
        c->clear += used;
    }
    return true;
}

// A connection may rest between requests. A request that has begun must be completed in time, once
// the server has taken everything before it.
static void watch_time(struct gate *g, struct gated *c)
{
    int64_t now = clock_mono_ms();
    if (c->len == 0 || c->clear > 0)
        c->deadline = 0;
    else if (c->is_guest_done || (c->deadline != 0 && now >= c->deadline))
        refuse(g, c, "a request that was not complete in time", c->name.text);
    else if (c->deadline == 0)
        c->deadline = now + GATE_HELLO_MS;
}

static void refuse(struct gate *g, struct gated *c, const char *why, const char *name)
{
    g->events.on_refused(g->events.ctx, &c->to, why, name);
    if (c->fd >= 0) {
        g->by_fd[c->fd] = NULL; // libslirp closes it now, and nothing may follow
        stack_end(g->stack, c->fd);
    }
    gated_reset(c);
    c->is_refused = true;
}

// ---- a new policy

const char *gate_denies(struct gate *g, int fd, const struct endpoint *to)
{
    struct gated *c = g->by_fd[fd];
    const char *why = NULL;
    if (policy_asks_name(g->policy, to)) {
        if (!c)
            why = "its name was never shown";
        else if (c->state != GATED_HELLO)
            why = c->name.text[0] ? policy_denies_name(g->policy, to, c->name.text)
                                  : policy_denies_nameless(g->policy, to);
    }
    return why;
}

void gate_cut(struct gate *g, int fd)
{
    struct gated *c = g->by_fd[fd];
    if (!c)
        return;
    gated_reset(c);
    forget(g, c);
}

// ---- waiting

static void shorten(int *timeout, int64_t at, int64_t now)
{
    int64_t left = at <= now ? 0 : at - now;
    if (at != 0 && (*timeout < 0 || left < *timeout))
        *timeout = (int)left;
}

void gate_fill(struct gate *g, struct pollset *set, int *timeout)
{
    int64_t now = clock_mono_ms();
    for (int i = 0; i < g->count; i++) {
        gated_fill(g->items[i], set);
        shorten(timeout, g->items[i]->deadline, now);
        shorten(timeout, g->items[i]->rest_until, now);
    }
}

static void serve(struct gate *g, struct gated *c)
{
    gated_to_guest(c);
    gated_from_guest(c);
    if (c->state == GATED_HELLO)
        judge_hello(g, c);
    if (c->is_refused || c->state == GATED_HANDED ||
        (c->state == GATED_WATCH && !clear_requests(g, c)))
        return;
    if (c->state == GATED_FORWARD)
        c->clear = c->len;
    gated_to_server(c);
    if (c->state == GATED_WATCH)
        watch_time(g, c);
    if (c->state == GATED_FORWARD && gated_put_back(c))
        gated_set_state(c, GATED_OPEN);
}

// Remove a connection that has ended or needs no more attention.
static void settle(struct gate *g, struct gated *c, int64_t now)
{
    bool is_over = !c->is_refused && gated_is_over(c);
    if (is_over)
        stack_reset(c->fd);
    if (c->rest_until != 0 && now >= c->rest_until)
        gated_reset(c);
    if (c->is_refused || is_over || gated_is_done(c))
        forget(g, c);
    else if (c->state == GATED_OPEN || c->state == GATED_HANDED)
        remove_item(g, c);
}

// No event tells that libslirp has read something, so connections that wait for that are checked
// after each wait.
static bool is_due(const struct gated *c, const struct pollset *set, int64_t now)
{
    return gated_has_event(c, set) || c->state == GATED_FORWARD || c->is_broken ||
           (c->deadline != 0 && now >= c->deadline) || (c->rest_until != 0 && now >= c->rest_until);
}

// Go backwards: a removed connection is replaced by the last one.
void gate_poll(struct gate *g, const struct pollset *set)
{
    int64_t now = clock_mono_ms();
    for (int i = g->count - 1; i >= 0; i--) {
        struct gated *c = g->items[i];
        if (!is_due(c, set, now))
            continue;
        serve(g, c);
        settle(g, c, now);
    }
}
