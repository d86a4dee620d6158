// SPDX-License-Identifier: Apache-2.0
// The network of a sandbox.
#include "sandbox-backend/netd/netd.h"

#include <errno.h>
#include <string.h>

#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/log/log.h"

static void on_stack_frame(void *ctx, const uint8_t *frame, size_t len);
static void on_stack_closed(void *ctx, int fd);
static void on_stack_connected(void *ctx, int fd, const struct endpoint *to);
static void on_stack_late(void *ctx, int fd, const struct endpoint *to);
static bool on_stack_dial(void *ctx, int fd, const struct endpoint *to);
static void on_gate_refused(void *ctx, const struct endpoint *to, const char *why,
                            const char *name);
static void on_gate_allowed(void *ctx, const struct endpoint *to, const char *name);
static void on_guest_frame(void *ctx, uint8_t *frame, size_t len);
static void on_change(void *ctx, struct control_change *change);

// Ask the guest for its address. The question tells the guest our address, so it need not ask
// before its first answer.
static void prime_guest_arp(struct netd *n)
{
    static const uint8_t everyone[6] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
    uint8_t frame[WIRE_ARP_FRAME_BYTES];
    wire_make_arp(frame, WIRE_ARP_REQUEST, wire_gateway_mac, WIRE_GATEWAY_IP, everyone,
                  WIRE_GUEST_IP);
    frames_send(&n->frames, frame, sizeof(frame));
}

static void set_rates(struct netd *n, const struct net_limits *limits)
{
    int64_t now = clock_mono_ms();
    shaper_set(&n->sends, limits->send_bytes_per_s, now);
    shaper_set(&n->receives, limits->receive_bytes_per_s, now);
}

static int open_parts(struct netd *n, const struct netd_options *options, struct err *e)
{
    const struct stack_events events = {
        n, on_stack_frame, on_stack_closed, on_stack_connected, on_stack_late, on_stack_dial};
    const struct gate_events gate_events = {n, on_gate_refused, on_gate_allowed};
    bool is_off = options->control_fd < 0 && net_policy_is_closed(options->policy);
    if (fd_set_nonblock(options->frames_fd, e) < 0 || fd_set_nonblock(options->listen_fd, e) < 0)
        return -1;
    if (options->control_fd >= 0 && fd_set_nonblock(options->control_fd, e) < 0)
        return -1;
    control_init(&n->control, options->control_fd, on_change, n);
    if (hostaddr_init(&n->hostaddr, &n->policy, e) < 0)
        return err_wrap(e, "enumerate this host's addresses");
    n->stack = stack_new(&events, is_off, e);
    if (!n->stack)
        return -1;
    n->resolver = resolver_new(&n->policy, &n->frames, &n->refusals);
    n->inward = inward_new(options->listen_fd, n->stack, &n->frames);
    n->gate = gate_new(&n->policy, n->stack, &options->egress, &gate_events);
    set_rates(n, &options->policy->limits);
    prime_guest_arp(n);
    return 0;
}

struct netd *netd_new(const struct netd_options *options, struct err *e)
{
    struct netd *n = xcalloc(1, sizeof(*n));
    n->hostaddr.events_fd = -1;
    control_init(&n->control, -1, NULL, NULL);
    policy_init(&n->policy, options->policy);
    frames_init(&n->frames, options->frames_fd);
    pace_init(&n->pace);
    if (refusals_init(&n->refusals, options->stats_fd, e) < 0 || open_parts(n, options, e) < 0) {
        netd_free(n);
        return NULL;
    }
    n->frames.stats = n->refusals.stats;
    reached_init(&n->reached, n->refusals.stats, &n->policy);
    return n;
}

void netd_free(struct netd *n)
{
    stack_free(n->stack);
    inward_free(n->inward);
    gate_free(n->gate);
    resolver_free(n->resolver);
    control_fini(&n->control);
    hostaddr_fini(&n->hostaddr);
    frames_fini(&n->frames);
    reached_fini(&n->reached);
    refusals_fini(&n->refusals);
    policy_fini(&n->policy);
    free(n);
}

// ---- from the guest

// Return whether a SYN carries data. That data would leave before the gate could judge it.
static bool is_early_data(struct netd *n, const struct packet *p)
{
    const struct endpoint to = {p->dst, p->dport, p->proto};
    return p->proto == WIRE_PROTO_TCP && p->flags & WIRE_SYN && p->payload_len > 0 &&
           gate_wants(n->gate, &to);
}

// TCP above the rate waits, together with everything that the guest sends after it. UDP above the
// rate is dropped, as on a full line; otherwise a UDP flood would block all other traffic with the
// guest.
static void send_outside(struct netd *n, const struct packet *p)
{
    bool is_over = shaper_wait_ms(&n->sends, clock_mono_ms()) > 0;
    if (is_over && p->proto == WIRE_PROTO_UDP)
        return;
    if (p->proto == WIRE_PROTO_UDP)
        reached_add_datagram(&n->reached, p);
    shaper_spend(&n->sends, (int64_t)p->len);
    n->frames.is_held =
        p->proto == WIRE_PROTO_TCP && shaper_wait_ms(&n->sends, clock_mono_ms()) > 0;
    stack_input(n->stack, p);
}

static int64_t or_else(int64_t limit, int64_t standard)
{
    return limit > 0 ? limit : standard;
}

// Return NULL if the guest may open the connection that this packet opens, and count it; else
// return the reason.
static const char *refuses_opening(struct netd *n, const struct packet *packet)
{
    const struct net_limits *limits = &n->policy.rules.limits;
    enum stack_kind kind = stack_opens(n->stack, packet);
    if (kind == STACK_NOTHING)
        return NULL;
    bool is_tcp = kind == STACK_TCP;
    int64_t most = or_else(is_tcp ? limits->connections : limits->udp_ports, NET_CONNECTIONS_MAX);
    int64_t per_s =
        or_else(is_tcp ? limits->connections_per_s : limits->udp_ports_per_s, NET_NEW_PER_S);
    if (stack_count(n->stack, kind) >= most)
        return is_tcp ? "too many connections" : "too many UDP ports";
    if (!pace_take(is_tcp ? &n->pace.tcp : &n->pace.udp, per_s, clock_mono_ms()))
        return is_tcp ? "too many new connections" : "too many new UDP ports";
    return NULL;
}

// A packet of a known UDP port opens nothing, so this is asked for each packet.
static bool is_udp_past_proxy(struct netd *n, const struct packet *p)
{
    return p->proto == WIRE_PROTO_UDP && gate_dials(n->gate) && p->dst != WIRE_DNS_IP;
}

static void open_or_refuse(struct netd *n, struct filter_result *r)
{
    const char *why = refuses_opening(n, &r->packet);
    if (is_udp_past_proxy(n, &r->packet))
        filter_refuse(r, "UDP does not go through the upstream proxy");
    else if (why)
        filter_refuse(r, why);
    else if (is_early_data(n, &r->packet))
        filter_refuse(r, "data in a SYN");
    else
        send_outside(n, &r->packet);
}

// Refuse TCP to the gateway. Segments that open nothing are noise: they belong to an inward
// connection that has ended, or that the guest's kernel remembers from the machine whose image it
// was restored from.
static void refuse_inward(struct filter_result *r)
{
    filter_refuse(r, "the gateway has no services");
    r->is_noise = (r->packet.flags & (WIRE_SYN | WIRE_ACK)) != WIRE_SYN;
}

static void on_guest_frame(void *ctx, uint8_t *frame, size_t len)
{
    struct netd *n = ctx;
    struct filter_result *r = &n->result;
    filter_from_guest(&n->policy, frame, len, r);
    if (r->verdict == FILTER_INWARD && !inward_from_guest(n->inward, &r->packet))
        refuse_inward(r);
    else if (r->verdict == FILTER_NAME && !resolver_from_guest(n->resolver, &r->packet))
        filter_refuse(r, "not a DNS question");
    else if (r->verdict == FILTER_STACK)
        open_or_refuse(n, r);
    if (r->verdict == FILTER_ANSWER)
        frames_send(&n->frames, r->answer, r->answer_len);
    if (r->why)
        refusals_note(&n->refusals, r);
}

// ---- from libslirp

// Copy the frame to the send queue and change it there.
static void on_stack_frame(void *ctx, const uint8_t *frame, size_t len)
{
    struct netd *n = ctx;
    struct packet p;
    uint8_t *copy = frames_reserve(&n->frames, len);
    if (!copy)
        return; // libslirp repeats it
    memcpy(copy, frame, len);
    if (wire_parse(&p, copy, len) || filter_to_guest(&n->policy, &p))
        return;
    reached_learn(&n->reached, &p);
    bool is_inward = p.proto == WIRE_PROTO_TCP && p.src == WIRE_GATEWAY_IP;
    if (!is_inward)
        shaper_spend(&n->receives, (int64_t)len);
    if (!is_inward || inward_to_guest(n->inward, &p))
        frames_commit(&n->frames, len);
}

static void on_stack_closed(void *ctx, int fd)
{
    struct netd *n = ctx;
    inward_on_closed(n->inward, fd);
    gate_on_closed(n->gate, fd);
}

static void on_stack_connected(void *ctx, int fd, const struct endpoint *to)
{
    struct netd *n = ctx;
    if (gate_wants(n->gate, to))
        gate_take(n->gate, fd, to);
    else
        reached_add(&n->reached, to, "");
}

static void on_stack_late(void *ctx, int fd, const struct endpoint *to)
{
    struct netd *n = ctx;
    refusals_add(&n->refusals, "a handshake that the guest did not end", to, NULL);
    gate_cut(n->gate, fd);
}

static bool on_stack_dial(void *ctx, int fd, const struct endpoint *to)
{
    struct netd *n = ctx;
    return gate_dial(n->gate, fd, to);
}

static void on_gate_refused(void *ctx, const struct endpoint *to, const char *why, const char *name)
{
    struct netd *n = ctx;
    refusals_add(&n->refusals, why, to, name);
}

static void on_gate_allowed(void *ctx, const struct endpoint *to, const char *name)
{
    struct netd *n = ctx;
    reached_add(&n->reached, to, name);
}

// ---- from the daemon

static const char *denies_connection(void *ctx, const struct stack_connection *c)
{
    struct netd *n = ctx;
    const char *why = filter_denies(&n->policy, &c->to);
    if (!why && n->egress_changes)
        why = "the rules for its headers have changed";
    if (!why && !c->is_connecting)
        why = gate_denies(n->gate, c->fd, &c->to);
    if (why)
        gate_cut(n->gate, c->fd);
    return why;
}

// The host's addresses were not watched while the policy was closed, so renew them.
static void on_change(void *ctx, struct control_change *change)
{
    struct netd *n = ctx;
    struct err e = ERR_INIT;
    const struct net_policy *rules = &change->rules;
    if (net_policy_is_closed(&n->policy.rules) && hostaddr_renew(&n->hostaddr, &e) < 0)
        log_error("hostaddr.failed", "error=\"%s\"", e.msg);
    policy_set_rules(&n->policy, rules);
    set_rates(n, &rules->limits);
    if (change->sets_egress)
        gate_set_egress(n->gate, &change->egress);
    n->egress_changes = change->sets_egress;
    int count = stack_cut(n->stack, denies_connection, n);
    n->egress_changes = false;
    if (count > 0)
        log_info("policy.cut", "connections=%d", count);
}

// ---- the loop

static void shorten(int *timeout, int ms)
{
    if (*timeout < 0 || ms < *timeout)
        *timeout = ms;
}

// Return whether the guest has to wait because of what it has sent.
static bool holds_guest(struct netd *n, int *timeout)
{
    int wait = n->frames.is_held ? shaper_wait_ms(&n->sends, clock_mono_ms()) : 0;
    n->frames.is_held = wait > 0;
    if (wait > 0 || frames_has_rest(&n->frames))
        shorten(timeout, wait);
    return wait > 0;
}

// Return which sockets of the outside have to wait.
static enum stack_hold holds_outside(struct netd *n, size_t queued, int *timeout)
{
    int wait = shaper_wait_ms(&n->receives, clock_mono_ms());
    if (queued >= FRAMES_HOLD_HOST_BYTES)
        return STACK_HOLD_ALL;
    if (wait > 0)
        shorten(timeout, wait);
    return wait > 0 ? STACK_HOLD_OUTSIDE : STACK_HOLD_NOTHING;
}

static void fill(struct netd *n, int *timeout)
{
    size_t queued = frames_queued(&n->frames);
    bool reads_guest = !holds_guest(n, timeout) && queued < FRAMES_HOLD_GUEST_BYTES;
    n->set.count = 0;
    n->frames_index = pollset_add(&n->set, n->frames.fd,
                                  (short)((reads_guest ? POLLIN : 0) | (queued ? POLLOUT : 0)));
    stack_fill(n->stack, &n->set, holds_outside(n, queued, timeout), timeout);
    gate_fill(n->gate, &n->set, timeout);
    inward_fill(n->inward, &n->set, timeout);
    resolver_fill(n->resolver, &n->set, timeout);
    control_fill(&n->control, &n->set, timeout);
    if (!net_policy_is_closed(&n->policy.rules))
        hostaddr_fill(&n->hostaddr, &n->set, timeout);
}

// The order matters. libslirp looks at its events before anything changes its sockets. inward.c
// looks at its events before frames of the guest change its connections.
static int serve(struct netd *n, struct err *e)
{
    stack_poll(n->stack, &n->set);
    stack_end_late(n->stack);
    inward_poll(n->inward, &n->set);
    resolver_poll(n->resolver, &n->set);
    if (!net_policy_is_closed(&n->policy.rules))
        hostaddr_poll(&n->hostaddr, &n->set);
    short frames = pollset_events(&n->set, n->frames_index);
    if (frames & (POLLHUP | POLLERR))
        n->frames.is_held = false; // the machine has ended, so stop waiting
    if ((frames & (POLLIN | POLLHUP | POLLERR) || frames_has_rest(&n->frames)) &&
        frames_read(&n->frames, on_guest_frame, n, e) < 0)
        return -1;
    gate_poll(n->gate, &n->set);
    control_poll(&n->control,
                 &n->set); // last: it changes libslirp's sockets and the state that the others wait
                           // for
    return frames_flush(&n->frames, e);
}

int netd_run(struct netd *n, struct err *e)
{
    for (;;) {
        int timeout = -1;
        if (frames_flush(&n->frames, e) < 0)
            break;
        fill(n, &timeout);
        if (poll(n->set.fds, (nfds_t)n->set.count, timeout) < 0) {
            if (errno == EINTR)
                continue;
            return err_sys(e, errno, "poll");
        }
        if (serve(n, e) < 0)
            break;
    }
    if (e->code != ERR_GONE)
        return -1;
    log_info("netd.end", "why=\"%s\"", e->msg);
    *e = ERR_INIT;
    return 0;
}
