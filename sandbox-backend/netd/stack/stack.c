// SPDX-License-Identifier: Apache-2.0
// libslirp as an object.
#include "sandbox-backend/netd/stack/stack.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <slirp/libslirp.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/log/log.h"
#include "sandbox-backend/netd/stack/outward.h"

enum owner { OWNER_NONE, OWNER_TCP_OUT, OWNER_UDP_OUT, OWNER_DIALLED };

struct stack {
    Slirp *slirp; // owned
    struct stack_events events;
    uint8_t owner[POLLSET_MAX];      // enum owner of each descriptor that libslirp registered
    struct outward_list outward;     // the guest's connections, for OWNER_TCP_OUT
    bool is_connecting[POLLSET_MAX]; // likewise
    bool dials;                      // stack_set_dials()
    bool is_dialling[POLLSET_MAX];   // connecting, and on_dial's socket tells how it goes
    int idle_fd;                     // owned; stands for a connection before on_dial
    int opened_fd;                   // the connection that the packet has opened; -1: none
    struct halfopen half;            // likewise
    uint16_t udp_port[POLLSET_MAX];  // the guest's source port, for OWNER_UDP_OUT
    uint8_t udp_known[65536 / 8];    // bit set of source ports that have a socket
    int tcp_out, udp_out, dialled;
    int behind;                 // segments that libslirp holds (outward.h)
    const struct packet *input; // the packet that libslirp is processing: it opens descriptors for
                                // it
    int adopt_fd;               // -1, or the socket that replaces the next registered descriptor
    int adopted_fd;             // the descriptor that it replaced
    enum stack_hold hold;       // while a set is being filled
    struct pollset *filling;
    uint32_t round;                     // number of the last stack_fill()
    uint32_t output_round[POLLSET_MAX]; // the last round in which libslirp wanted to write
    bool is_ending[POLLSET_MAX];        // stack_mark_ending()
    bool is_eof_held[POLLSET_MAX];      // the client's end of file is hidden from libslirp
    const struct pollset *polled;
    struct pollset dial_set;
    const struct outward *asked; // the connection whose numbers are being asked for, or NULL
    struct outward_numbers numbers;
};

// ---- what libslirp calls

static ssize_t on_send_packet(const void *frame, size_t len, void *ctx)
{
    struct stack *s = ctx;
    outward_list_note(&s->outward, frame, len);
    if (s->asked)
        outward_note(s->asked, frame, len, &s->numbers);
    s->events.on_frame(s->events.ctx, frame, len);
    return (ssize_t)len;
}

static void on_guest_error(const char *msg, void *ctx)
{
    (void)ctx;
    log_debug("stack.guest_error", "msg=%s", msg);
}

static int64_t on_clock(void *ctx)
{
    (void)ctx;
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

// libslirp uses timers only for IPv6 router advertisements, and IPv6 is off.
static void *on_timer_new(SlirpTimerCb cb, void *cb_ctx, void *ctx)
{
    (void)cb, (void)cb_ctx, (void)ctx;
    return NULL;
}

static void on_timer_free(void *timer, void *ctx)
{
    (void)timer, (void)ctx;
}

static void on_timer_mod(void *timer, int64_t expire_ms, void *ctx)
{
    (void)timer, (void)expire_ms, (void)ctx;
}

static void set_udp_known(struct stack *s, uint16_t port, bool is_known)
{
    uint8_t bit = (uint8_t)(1u << (port % 8));
    if (is_known)
        s->udp_known[port / 8] |= bit;
    else
        s->udp_known[port / 8] &= (uint8_t)~bit;
}

// libslirp has accepted `fd` for stack_dial(). Replace it by the dialling socket.
static void adopt(struct stack *s, int fd)
{
    if (dup3(s->adopt_fd, fd, O_CLOEXEC) < 0)
        return;
    s->owner[fd] = OWNER_DIALLED;
    s->is_ending[fd] = s->is_eof_held[fd] = false;
    s->dialled++;
    s->adopted_fd = fd;
    s->adopt_fd = -1;
}

// libslirp has made a socket for a connection, and will connect it next. If somebody else makes the
// connection, put a datagram socket in its place: connecting that sends nothing.
static void note_opened(struct stack *s, int fd)
{
    s->opened_fd = fd;
    s->is_dialling[fd] = s->dials && s->input->dst != WIRE_DNS_IP;
    if (s->is_dialling[fd])
        dup3(s->idle_fd, fd, O_CLOEXEC); // fails only for wrong arguments
}

static void on_register_fd(int fd, void *ctx)
{
    struct stack *s = ctx;
    if (fd < 0 || fd >= POLLSET_MAX)
        return;
    s->output_round[fd] = 0;
    if (s->adopt_fd >= 0) {
        adopt(s, fd);
    } else if (s->input && s->input->proto == WIRE_PROTO_TCP) {
        s->owner[fd] = OWNER_TCP_OUT;
        outward_list_add(&s->outward, fd, s->input, &s->behind);
        s->is_connecting[fd] = true;
        s->tcp_out++;
        note_opened(s, fd);
    } else if (s->input && s->input->proto == WIRE_PROTO_UDP) {
        s->owner[fd] = OWNER_UDP_OUT;
        s->udp_port[fd] = s->input->sport;
        set_udp_known(s, s->input->sport, true);
        s->udp_out++;
    }
}

static void on_unregister_fd(int fd, void *ctx)
{
    struct stack *s = ctx;
    if (fd < 0 || fd >= POLLSET_MAX)
        return;
    enum owner owner = s->owner[fd];
    s->owner[fd] = OWNER_NONE;
    if (owner == OWNER_TCP_OUT) {
        s->tcp_out--;
        s->is_dialling[fd] = false;
        s->opened_fd = fd == s->opened_fd ? -1 : s->opened_fd;
        outward_list_remove(&s->outward, fd);
        halfopen_end(&s->half, fd);
        s->events.on_closed(s->events.ctx, fd);
    } else if (owner == OWNER_UDP_OUT) {
        s->udp_out--;
        set_udp_known(s, s->udp_port[fd], false);
    } else if (owner == OWNER_DIALLED) {
        s->dialled--;
        if (fd == s->adopted_fd)
            s->adopted_fd = -1;
        s->events.on_closed(s->events.ctx, fd);
    }
}

// libslirp tells that a buffer has room; all buffers are checked before each wait anyway.
static void on_notify(void *ctx)
{
    (void)ctx;
}

static const SlirpCb callbacks = {
    .send_packet = on_send_packet,
    .guest_error = on_guest_error,
    .clock_get_ns = on_clock,
    .timer_new = on_timer_new,
    .timer_free = on_timer_free,
    .timer_mod = on_timer_mod,
    .register_poll_fd = on_register_fd,
    .unregister_poll_fd = on_unregister_fd,
    .notify = on_notify,
};

// ---- making it

// libslirp learns the guest's Ethernet address from a gratuitous ARP. With this one it never has to
// ask, which saves a round trip for the first connection.
static void prime_arp(struct stack *s)
{
    uint8_t frame[WIRE_ARP_FRAME_BYTES];
    wire_make_arp(frame, WIRE_ARP_REQUEST, wire_guest_mac, WIRE_GUEST_IP, wire_gateway_mac,
                  WIRE_GUEST_IP);
    slirp_input(s->slirp, frame, sizeof(frame));
}

struct stack *stack_new(const struct stack_events *events, bool is_restricted, struct err *e)
{
    struct stack *s = xcalloc(1, sizeof(*s));
    s->events = *events;
    s->adopt_fd = s->adopted_fd = s->opened_fd = -1;
    s->idle_fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    // Then it can be connected also where this host has no route.
    setsockopt(s->idle_fd, SOL_SOCKET, SO_BINDTODEVICE, "lo", sizeof("lo"));
    SlirpConfig config = {
        .version = 4,
        .restricted = is_restricted,
        .in_enabled = true,
        .vnetwork.s_addr = htonl(WIRE_NETWORK),
        .vnetmask.s_addr = htonl(WIRE_NETMASK),
        .vhost.s_addr = htonl(WIRE_GATEWAY_IP),
        .vnameserver.s_addr = htonl(WIRE_DNS_IP),
        .vdhcp_start.s_addr = htonl(WIRE_GUEST_IP),
        .if_mtu = WIRE_MTU,
        .if_mru = WIRE_MTU,
        .disable_host_loopback = true,
        .disable_dns = is_restricted,
        .disable_dhcp = true,
    };
    s->slirp = s->idle_fd < 0 ? NULL : slirp_new(&config, &callbacks, s);
    if (!s->slirp) {
        err_set(e, ERR_INTERNAL, "libslirp %s did not start", slirp_version_string());
        mem_close_fd(&s->idle_fd);
        free(s);
        return NULL;
    }
    prime_arp(s);
    return s;
}

void stack_free(struct stack *s)
{
    if (!s)
        return;
    slirp_cleanup(s->slirp);
    close(s->idle_fd);
    free(s);
}

// ---- connections that somebody else makes

// Refuse a connection that could not be made: the guest gets a reset in answer to its SYN. libslirp
// goes on with a broken connection.
static void refuse_dial(struct stack *s, int fd)
{
    uint8_t frame[WIRE_TCP_FRAME_BYTES];
    const struct outward o = s->outward.items[fd];
    const struct outward_numbers n = {.are_known = true, .ack = o.first_seq + 1};
    s->is_dialling[fd] = s->is_connecting[fd] = false;
    outward_reset_guest(&o, &n, frame);
    s->events.on_frame(s->events.ctx, frame, sizeof(frame));
    stack_reset(fd);
}

static void dial(struct stack *s, int fd)
{
    const struct endpoint to = s->outward.items[fd].to;
    if (!s->events.on_dial(s->events.ctx, fd, &to))
        refuse_dial(s, fd);
}

// The socket of on_dial is readable. Return false if it says nothing yet.
static bool finish_dial(struct stack *s, int fd)
{
    char byte = 1;
    ssize_t n = recv(fd, &byte, 1, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    if (n == 1 && byte == 0)
        s->is_dialling[fd] = false;
    else
        refuse_dial(s, fd);
    return true;
}

// ---- frames

void stack_input(struct stack *s, const struct packet *p)
{
    bool is_tcp = p->proto == WIRE_PROTO_TCP;
    struct outward *o = is_tcp ? outward_list_find(&s->outward, p->sport, p->dst, p->dport) : NULL;
    if (o && !behind_take(&o->behind, p))
        return;
    s->input = p;
    s->opened_fd = -1;
    slirp_input(s->slirp, p->frame, (int)p->len);
    s->input = NULL;
    if (s->opened_fd >= 0 && s->is_dialling[s->opened_fd])
        dial(s, s->opened_fd);
}

void stack_set_dials(struct stack *s, bool dials)
{
    s->dials = dials;
}

void stack_input_made(struct stack *s, uint8_t frame[WIRE_TCP_FRAME_BYTES])
{
    struct packet p;
    if (wire_parse(&p, frame, WIRE_TCP_FRAME_BYTES) == NULL)
        stack_input(s, &p);
}

// A SYN with another number than the first opens a new connection, after TIME_WAIT.
static bool is_repeated(struct stack *s, const struct packet *syn)
{
    const struct outward *o = outward_list_find(&s->outward, syn->sport, syn->dst, syn->dport);
    return o && o->first_seq == syn->seq;
}

enum stack_kind stack_opens(struct stack *s, const struct packet *p)
{
    if (p->proto == WIRE_PROTO_TCP && (p->flags & (WIRE_SYN | WIRE_ACK)) == WIRE_SYN)
        return is_repeated(s, p) ? STACK_NOTHING : STACK_TCP;
    if (p->proto == WIRE_PROTO_UDP && !(s->udp_known[p->sport / 8] & 1u << (p->sport % 8)))
        return STACK_UDP;
    return STACK_NOTHING;
}

int *stack_behind(struct stack *s)
{
    return &s->behind;
}

int stack_count(const struct stack *s, enum stack_kind kind)
{
    return kind == STACK_TCP ? s->tcp_out : kind == STACK_UDP ? s->udp_out : 0;
}

// ---- waiting

// Add a descriptor to the set. Urgent data is never requested: it has no meaning on a unix socket.
// Every socket is registered except a listening one, and stack_dial() always waits for that.
// libslirp waits for nothing between the server's answer and the end of the guest's handshake.
static int on_add_poll(int fd, int events, void *ctx)
{
    struct stack *s = ctx;
    short wanted =
        (short)((events & SLIRP_POLL_IN ? POLLIN : 0) | (events & SLIRP_POLL_OUT ? POLLOUT : 0));
    if (fd >= 0 && fd < POLLSET_MAX && s->owner[fd] != OWNER_NONE) {
        if (wanted & POLLOUT)
            s->output_round[fd] = s->round;
        else
            s->is_eof_held[fd] = false;
        if (!s->is_connecting[fd])
            halfopen_end(&s->half, fd);
        bool is_held = s->hold == STACK_HOLD_ALL ||
                       (s->hold == STACK_HOLD_OUTSIDE && s->owner[fd] != OWNER_DIALLED);
        if (is_held || s->is_eof_held[fd])
            wanted &= (short)~POLLIN;
        if (s->is_dialling[fd])
            wanted = POLLIN;
    }
    return pollset_add(s->filling, wanted ? fd : -1, wanted);
}

static bool is_at_eof(int fd)
{
    int readable = 0;
    return ioctl(fd, FIONREAD, &readable) == 0 && readable == 0;
}

// libslirp waits until a connecting socket can be written. It handles a failed one itself.
static void note_connected(struct stack *s, const struct pollfd *p)
{
    if (p->fd >= POLLSET_MAX || s->owner[p->fd] != OWNER_TCP_OUT || !s->is_connecting[p->fd] ||
        !p->revents)
        return;
    s->is_connecting[p->fd] = false;
    if (p->revents & (POLLERR | POLLHUP | POLLNVAL))
        return;
    halfopen_begin(&s->half, p->fd, clock_mono_ms());
    s->events.on_connected(s->events.ctx, p->fd, &s->outward.items[p->fd].to);
}

// Report errors and hang-ups only as events that were asked for. libslirp reads in response to
// either, and asserts that it has room; it has none when it did not ask to read.
static int on_get_revents(int index, void *ctx)
{
    struct stack *s = ctx;
    const struct pollfd *p = &s->polled->fds[index];
    struct pollfd dialled = {p->fd, POLLOUT, POLLOUT};
    if (p->fd >= 0 && p->fd < POLLSET_MAX && s->is_dialling[p->fd]) {
        if (!p->revents || !finish_dial(s, p->fd))
            return 0;
        p = &dialled; // libslirp waits until its socket can be written
    }
    short events = p->revents;
    if (p->fd < 0)
        return 0;
    note_connected(s, p);
    if (events & (POLLERR | POLLHUP | POLLNVAL))
        events |= p->events;
    events &= p->events;
    if (events & POLLIN && p->fd < POLLSET_MAX && s->is_ending[p->fd] &&
        stack_has_output(s, p->fd) && is_at_eof(p->fd)) {
        s->is_eof_held[p->fd] = true;
        events &= (short)~POLLIN;
    }
    return (events & POLLIN ? SLIRP_POLL_IN : 0) | (events & POLLOUT ? SLIRP_POLL_OUT : 0);
}

void stack_fill(struct stack *s, struct pollset *set, enum stack_hold hold, int *timeout)
{
    uint32_t wait = *timeout < 0 ? UINT32_MAX : (uint32_t)*timeout;
    s->hold = hold;
    s->filling = set;
    s->round++;
    slirp_pollfds_fill(s->slirp, &wait, on_add_poll, s);
    s->filling = NULL;
    // Without a socket no time limit runs, so an idle sandbox does not wake the process.
    if (s->tcp_out + s->udp_out + s->dialled > 0 && wait <= INT32_MAX)
        *timeout = (int)wait;
}

bool stack_has_output(const struct stack *s, int fd)
{
    return fd >= 0 && fd < POLLSET_MAX && s->output_round[fd] == s->round;
}

void stack_mark_ending(struct stack *s, int fd)
{
    if (fd >= 0 && fd < POLLSET_MAX)
        s->is_ending[fd] = true;
}

void stack_poll(struct stack *s, const struct pollset *set)
{
    s->polled = set;
    slirp_pollfds_poll(s->slirp, 0, on_get_revents, s);
    s->polled = NULL;
}

// ---- dialling
//
// libslirp dials into the guest only when a client connects to a socket on which it listens. So it
// gets such a socket for a moment: an abstract unix socket with a random name. libslirp opens it,
// we connect, libslirp accepts in one round of polling, and the socket is closed again. The
// connection carries nothing. Right after accept() libslirp registers its descriptor, and we
// replace that descriptor by the dialling socket (dup3). From then on libslirp reads and writes the
// client's socket itself: without a second copy, and with its own back-pressure and half-close. If
// another process connects in between, its connection is accepted and closed.

// libslirp aborts when it cannot open a socket or bind a port of 127.0.0.1; it binds one for each
// connection, to have a number for it. So try that first. In a network namespace of its own, netd
// therefore needs the loopback interface up.
static int check_headroom(void)
{
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int spare[4];
    int count = 0;
    while (count < 4 && (spare[count] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) >= 0)
        count++;
    bool is_fine = count == 4;
    for (int i = 0; i < count && i < 2; i++)
        is_fine = is_fine && bind(spare[i], (struct sockaddr *)&any, sizeof(any)) == 0;
    while (count > 0)
        close(spare[--count]);
    return is_fine ? 0 : -1;
}

static socklen_t make_name(struct sockaddr_un *name)
{
    uint8_t random[16];
    char hex[2 * sizeof(random) + 1];
    random_bytes(random, sizeof(random));
    hex_encode(hex, random, sizeof(random));
    *name = (struct sockaddr_un){.sun_family = AF_UNIX};
    int len = snprintf(name->sun_path + 1, sizeof(name->sun_path) - 1, "cubby-netd-%s", hex);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)len);
}

static void run_round(struct stack *s)
{
    int timeout = 0;
    s->dial_set.count = 0;
    stack_fill(s, &s->dial_set, STACK_HOLD_ALL, &timeout);
    if (poll(s->dial_set.fds, (nfds_t)s->dial_set.count, 0) >= 0)
        stack_poll(s, &s->dial_set);
}

int stack_dial(struct stack *s, int fd, uint16_t guest_port, int *dialled)
{
    struct sockaddr_un name;
    socklen_t name_len = make_name(&name);
    struct sockaddr *host = (struct sockaddr *)&name;
    struct sockaddr_in guest = {.sin_family = AF_INET,
                                .sin_addr.s_addr = htonl(WIRE_GUEST_IP),
                                .sin_port = htons(guest_port)};
    if (check_headroom() < 0 || slirp_add_hostxfwd(s->slirp, host, name_len,
                                                   (struct sockaddr *)&guest, sizeof(guest), 0) < 0)
        return -1;
    int trigger auto_close = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    s->adopted_fd = -1;
    s->adopt_fd = fd;
    if (trigger >= 0 && connect(trigger, host, name_len) == 0)
        run_round(s);
    s->adopt_fd = -1;
    slirp_remove_hostxfwd(s->slirp, host, name_len, 0);
    *dialled = s->adopted_fd;
    s->adopted_fd = -1;
    return *dialled >= 0 ? 0 : -1;
}

// ---- cutting

// Return a socket on which every call fails with "connection reset": its peer closed without
// reading what was sent.
static int broken_socket(void)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
        return -1;
    ssize_t sent = send(pair[0], "", 1, MSG_NOSIGNAL);
    close(pair[1]);
    if (sent == 1)
        return pair[0];
    close(pair[0]);
    return -1;
}

// Make a later close reset the peer.
static void forbid_lingering(int fd)
{
    struct linger none = {.l_onoff = 1};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &none, sizeof(none));
}

// libslirp has no call for this. So its descriptor is replaced by that of a broken connection, and
// libslirp then resets the guest's side. The replacement also closes the real socket.
bool stack_reset(int fd)
{
    int broken auto_close = broken_socket();
    if (broken < 0)
        return shutdown(fd, SHUT_RDWR) == 0; // not a reset, but it ends the connection, too
    forbid_lingering(fd);
    return dup3(broken, fd, O_CLOEXEC) == fd;
}

static bool ask_numbers(struct stack *s, const struct outward *o)
{
    uint8_t frame[WIRE_TCP_FRAME_BYTES];
    s->asked = o;
    s->numbers = (struct outward_numbers){0};
    for (int i = 0; i < OUTWARD_QUESTIONS && !s->numbers.are_known; i++) {
        outward_ask(o, i, frame);
        stack_input_made(s, frame);
    }
    s->asked = NULL;
    return s->numbers.are_known;
}

// While a connection is being made, libslirp ignores segments of the guest.
void stack_end(struct stack *s, int fd)
{
    uint8_t frame[WIRE_TCP_FRAME_BYTES];
    const struct outward o = s->outward.items[fd];
    if (s->is_connecting[fd] || !ask_numbers(s, &o)) {
        stack_reset(fd);
        return;
    }
    forbid_lingering(fd);
    outward_reset_stack(&o, &s->numbers, frame);
    stack_input_made(s, frame);
    outward_reset_guest(&o, &s->numbers, frame);
    s->events.on_frame(s->events.ctx, frame, sizeof(frame));
}

void stack_end_late(struct stack *s)
{
    int fd;
    while ((fd = halfopen_late(&s->half, clock_mono_ms())) >= 0) {
        s->events.on_late(s->events.ctx, fd, &s->outward.items[fd].to);
        stack_end(s, fd);
        halfopen_end(&s->half, fd);
    }
}

int stack_cut(struct stack *s, const char *(*denies)(void *ctx, const struct stack_connection *c),
              void *ctx)
{
    int count = 0;
    for (int fd = 0; fd < POLLSET_MAX; fd++) {
        const struct stack_connection c = {fd, s->outward.items[fd].to, s->is_connecting[fd]};
        if (s->owner[fd] != OWNER_TCP_OUT || !denies(ctx, &c))
            continue;
        stack_end(s, fd);
        count++;
    }
    return count;
}
