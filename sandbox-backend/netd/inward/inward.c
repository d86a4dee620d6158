// SPDX-License-Identifier: Apache-2.0
// Connections from the host into the guest.
#include "sandbox-backend/netd/inward/inward.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/log/log.h"

#define ALIAS_MIN       1024
#define ACCEPTS_A_ROUND 64
#define DRAINS_AT_MOST  64

enum conn_state { CONN_FREE, CONN_LINE, CONN_CONNECTING, CONN_OPEN, CONN_STATES };
static const char *const state_names[CONN_STATES] = {"free", "line", "connecting", "open"};

struct conn {
    enum conn_state state;
    int fd; // owned in LINE; belongs to libslirp from CONNECTING on
    int poll_index;
    char line[INWARD_LINE_MAX_BYTES];
    size_t line_len;
    struct flow flow;
    int64_t deadline;  // of the state; 0: none
    int64_t resend_at; // CONNECTING: when the SYN is repeated
    int64_t resend_gap;
    uint8_t syn[INWARD_SYN_BYTES]; // as the guest got it
    size_t syn_len;
    bool is_answered; // "OK" or "ERR ..." was sent
    bool is_hung_up;  // the client has closed its socket
};

struct inward {
    int listen_fd; // borrowed
    int listen_index;
    struct stack *stack;   // borrowed
    struct frames *frames; // borrowed
    int used;              // conns[0..used) may be in use
    uint16_t next_alias;
    bool has_finished; // a connection is over, and libslirp does not know yet
    struct conn conns[INWARD_MAX];
    uint16_t by_alias[65536]; // index in conns plus 1, or 0
};

static void read_line(struct inward *in, struct conn *c);
static void start_connecting(struct inward *in, struct conn *c, uint16_t port);
static void finish(struct inward *in, struct conn *c);
static void on_expired(struct inward *in, struct conn *c);

// ---- the table

struct inward *inward_new(int listen_fd, struct stack *stack, struct frames *frames)
{
    struct inward *in = xcalloc(1, sizeof(*in));
    in->listen_fd = listen_fd;
    in->stack = stack;
    in->frames = frames;
    // A restored guest may remember connections of another netd, so begin with other aliases.
    random_bytes(&in->next_alias, sizeof(in->next_alias));
    return in;
}

void inward_free(struct inward *in)
{
    if (!in)
        return;
    for (int i = 0; i < in->used; i++) {
        if (in->conns[i].state == CONN_LINE)
            close(in->conns[i].fd);
    }
    free(in);
}

static void set_state(struct conn *c, enum conn_state to)
{
    static const bool allowed[CONN_STATES][CONN_STATES] = {
        [CONN_FREE] = {[CONN_LINE] = true},
        [CONN_LINE] = {[CONN_CONNECTING] = true, [CONN_FREE] = true},
        [CONN_CONNECTING] = {[CONN_OPEN] = true, [CONN_FREE] = true},
        [CONN_OPEN] = {[CONN_FREE] = true},
    };
    assert(allowed[c->state][to]);
    log_debug("inward.state", "port=%u alias=%u state=\"%s -> %s\"", c->flow.guest_port,
              c->flow.alias, state_names[c->state], state_names[to]);
    c->state = to;
    c->deadline = 0;
}

static struct conn *find_free(struct inward *in)
{
    for (int i = 0; i < INWARD_MAX; i++) {
        if (in->conns[i].state == CONN_FREE) {
            if (i >= in->used)
                in->used = i + 1;
            return &in->conns[i];
        }
    }
    return NULL;
}

static struct conn *find_alias(struct inward *in, uint16_t alias)
{
    int number = in->by_alias[alias];
    return number > 0 ? &in->conns[number - 1] : NULL;
}

// Use aliases in turn, so that none is used again while the guest remembers its last use.
static uint16_t take_alias(struct inward *in, const struct conn *c)
{
    do
        in->next_alias++;
    while (in->next_alias < ALIAS_MIN || in->by_alias[in->next_alias] != 0);
    in->by_alias[in->next_alias] = (uint16_t)(c - in->conns + 1);
    return in->next_alias;
}

static void release(struct inward *in, struct conn *c)
{
    if (c->flow.alias != 0)
        in->by_alias[c->flow.alias] = 0;
    flow_fini(&c->flow);
    set_state(c, CONN_FREE);
    while (in->used > 0 && in->conns[in->used - 1].state == CONN_FREE)
        in->used--;
}

// ---- answering the client

// A socket gets at most one short answer. If it does not fit, the client is gone.
static void say(int fd, const char *text)
{
    ssize_t n = send(fd, text, strlen(text), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n < 0)
        log_debug("inward.answer_lost", "error=\"%s\"", strerror(errno));
}

static void answer(struct conn *c, const char *text)
{
    if (!c->is_answered)
        say(c->fd, text);
    c->is_answered = true;
}

// Closing a unix socket with unread bytes resets it. So read what the client sent; it then sees our
// answer and the end.
static void refuse(int fd, const char *text)
{
    char ignored[4096];
    say(fd, text);
    for (int i = 0; i < DRAINS_AT_MOST; i++) {
        if (recv(fd, ignored, sizeof(ignored), MSG_DONTWAIT) < (ssize_t)sizeof(ignored))
            break;
    }
    close(fd);
}

// ---- LINE

static const char connect_verb[] = "CONNECT ";
#define VERB_BYTES (sizeof(connect_verb) - 1)

// Parse digits up to the newline; 0 for an invalid port.
static uint32_t parse_port(const char *s, size_t len)
{
    uint32_t port = 0;
    if (len == 0 || len > 5 || s[0] == '0')
        return 0;
    for (size_t i = 0; i < len; i++) {
        if (s[i] < '0' || s[i] > '9')
            return 0;
        port = port * 10 + (uint32_t)(s[i] - '0');
    }
    return port <= UINT16_MAX ? port : 0;
}

enum inward_line inward_parse_line(const char *data, size_t len, uint16_t *port, size_t *used)
{
    size_t head = len < VERB_BYTES ? len : VERB_BYTES;
    if (memcmp(data, connect_verb, head) != 0)
        return INWARD_LINE_BAD;
    const char *newline = memchr(data, '\n', len);
    if (!newline)
        return len >= INWARD_LINE_MAX_BYTES ? INWARD_LINE_BAD : INWARD_LINE_MORE;
    size_t line = (size_t)(newline - data);
    uint32_t value = line > VERB_BYTES ? parse_port(data + VERB_BYTES, line - VERB_BYTES) : 0;
    if (value == 0)
        return INWARD_LINE_BAD;
    *port = (uint16_t)value;
    *used = line + 1;
    return INWARD_LINE_DONE;
}

static void accept_clients(struct inward *in)
{
    for (int i = 0; i < ACCEPTS_A_ROUND; i++) {
        int fd = accept4(in->listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0)
            return;
        struct conn *c = find_free(in);
        if (!c) {
            log_warn("inward.limit", "max=%d", INWARD_MAX);
            refuse(fd, "ERR limit\n");
            continue;
        }
        *c = (struct conn){.state = CONN_FREE, .fd = fd};
        set_state(c, CONN_LINE);
        c->deadline = clock_mono_ms() + INWARD_LINE_MS;
        read_line(in, c);
    }
}

static void give_up_line(struct inward *in, struct conn *c, const char *text)
{
    refuse(c->fd, text);
    release(in, c);
}

// Leave the bytes after the newline in the socket: they are for the guest.
static void read_line(struct inward *in, struct conn *c)
{
    size_t room = sizeof(c->line) - c->line_len;
    ssize_t n = recv(c->fd, c->line + c->line_len, room, MSG_PEEK | MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        close(c->fd);
        release(in, c);
        return;
    }
    uint16_t port = 0;
    size_t len = c->line_len + (size_t)n, used = len;
    enum inward_line found = inward_parse_line(c->line, len, &port, &used);
    if (recv(c->fd, c->line + c->line_len, used - c->line_len, MSG_DONTWAIT) < 0)
        found = INWARD_LINE_BAD;
    c->line_len = used;
    if (found == INWARD_LINE_BAD)
        give_up_line(in, c, "ERR bad-request\n");
    else if (found == INWARD_LINE_DONE)
        start_connecting(in, c, port);
}

// ---- CONNECTING

static void start_connecting(struct inward *in, struct conn *c, uint16_t port)
{
    int client = c->fd, dialled = -1;
    flow_init(&c->flow, take_alias(in, c), port, stack_behind(in->stack));
    if (stack_dial(in->stack, client, c->flow.alias, &dialled) < 0) {
        log_warn("inward.dial_failed", "port=%u", port);
        give_up_line(in, c, "ERR limit\n");
        return;
    }
    c->fd = dialled;
    set_state(c, CONN_CONNECTING);
    close(client);
    int64_t now = clock_mono_ms();
    c->deadline = now + INWARD_CONNECT_MS;
    c->resend_gap = INWARD_RESEND_MS;
    c->resend_at = now + c->resend_gap;
}

bool inward_to_guest(struct inward *in, struct packet *p)
{
    struct conn *c = find_alias(in, p->dport);
    if (!c || !flow_to_guest(&c->flow, p))
        return false;
    if (p->flags & WIRE_SYN && p->len <= sizeof(c->syn)) {
        memcpy(c->syn, p->frame, p->len);
        c->syn_len = p->len;
    }
    in->has_finished |= flow_is_over(&c->flow);
    return true;
}

// libslirp repeats a SYN for the first time after 6 s. That is too long for a guest that is just
// being restored, or that first had to drop an old connection.
static void resend_syn(struct inward *in, struct conn *c)
{
    if (c->syn_len) // otherwise the queue was full when libslirp sent it, and libslirp sends it
                    // again
        frames_send(in->frames, c->syn, c->syn_len);
    c->resend_gap *= 2;
    c->resend_at = clock_mono_ms() + c->resend_gap;
}

static void on_answered(struct conn *c, enum flow_event event)
{
    if (event == FLOW_ACCEPTED) {
        answer(c, "OK\n");
        set_state(c, CONN_OPEN);
    } else if (event == FLOW_REFUSED) {
        answer(c, "ERR refused\n");
    } else if (event == FLOW_STALE) {
        c->resend_at = clock_mono_ms();
    }
}

bool inward_from_guest(struct inward *in, struct packet *p)
{
    struct conn *c = find_alias(in, p->dport);
    if (!c || c->flow.guest_port != p->sport)
        return false;
    enum flow_event event = flow_from_guest(&c->flow, p);
    if (event == FLOW_DROP)
        return true;
    on_answered(c, event);
    if (c->flow.guest == FLOW_GUEST_ENDED)
        stack_mark_ending(in->stack, c->fd);
    in->has_finished |= flow_is_over(&c->flow);
    stack_input(in->stack, p); // may close it, so `c` is not used after this
    return true;
}

// ---- the end

void inward_on_closed(struct inward *in, int fd)
{
    for (int i = 0; i < in->used; i++) {
        struct conn *c = &in->conns[i];
        if (c->state >= CONN_CONNECTING && c->fd == fd) {
            release(in, c);
            return;
        }
    }
}

// Make libslirp close its end now, by a reset in the guest's name.
static void finish(struct inward *in, struct conn *c)
{
    uint8_t frame[WIRE_TCP_FRAME_BYTES];
    flow_reset_stack(&c->flow, frame);
    stack_input_made(in->stack, frame);
}

static bool can_release_fin(const struct inward *in, const struct conn *c)
{
    return c->state == CONN_OPEN && flow_fin_is_due(&c->flow) &&
           !stack_has_output(in->stack, c->fd);
}

// The client has read what libslirp held; now the guest's FIN can follow.
static void release_fin(struct inward *in, struct conn *c)
{
    uint8_t frame[WIRE_TCP_FRAME_BYTES];
    flow_release_fin(&c->flow, frame);
    stack_input_made(in->stack, frame);
}

static void abort_both(struct inward *in, struct conn *c)
{
    uint8_t frame[WIRE_TCP_FRAME_BYTES];
    flow_reset_guest(&c->flow, frame);
    frames_send(in->frames, frame, sizeof(frame));
    c->deadline = clock_mono_ms() + INWARD_ORPHAN_MS; // try again if libslirp did not close it
    finish(in, c);
}

// libslirp would keep a closed connection, and its ports, for 10 s in TIME_WAIT. No late segment
// can arrive here, so a finished connection can be removed.
static void finish_all(struct inward *in)
{
    in->has_finished = false;
    for (int i = 0; i < in->used; i++) {
        if (in->conns[i].state == CONN_OPEN && flow_is_over(&in->conns[i].flow))
            finish(in, &in->conns[i]);
    }
}

static void on_expired(struct inward *in, struct conn *c)
{
    if (c->state == CONN_LINE) {
        give_up_line(in, c, "ERR timeout\n");
    } else if (c->state == CONN_CONNECTING) {
        answer(c, "ERR timeout\n");
        abort_both(in, c);
    } else if (c->state == CONN_OPEN) {
        log_info("inward.orphan", "port=%u ms=%d", c->flow.guest_port, INWARD_ORPHAN_MS);
        abort_both(in, c);
    }
}

// The client closed its socket. Before the guest has accepted, that ends the connection. Afterwards
// the guest has got a FIN and some time to react, as from any kernel.
static void on_hang_up(struct inward *in, struct conn *c)
{
    c->is_hung_up = true;
    if (c->state == CONN_CONNECTING)
        abort_both(in, c);
    else
        c->deadline = clock_mono_ms() + INWARD_ORPHAN_MS;
}

// ---- waiting

static bool awaits_hang_up(const struct conn *c)
{
    return !c->is_hung_up &&
           (c->state == CONN_CONNECTING || (c->state == CONN_OPEN && c->flow.has_stack_fin));
}

static void shorten(int *timeout, int64_t at, int64_t now)
{
    int64_t left = at <= now ? 0 : at - now;
    if (*timeout < 0 || left < *timeout)
        *timeout = (int)left;
}

void inward_fill(struct inward *in, struct pollset *set, int *timeout)
{
    int64_t now = clock_mono_ms();
    in->listen_index = pollset_add(set, in->listen_fd, POLLIN);
    for (int i = 0; i < in->used; i++) {
        struct conn *c = &in->conns[i];
        c->poll_index = -1;
        if (c->state == CONN_LINE)
            c->poll_index = pollset_add(set, c->fd, POLLIN);
        else if (awaits_hang_up(c))
            c->poll_index = pollset_add(set, c->fd, 0);
        if (c->state != CONN_FREE && c->deadline != 0)
            shorten(timeout, c->deadline, now);
        if (c->state == CONN_CONNECTING)
            shorten(timeout, c->resend_at, now);
        if (can_release_fin(in, c))
            *timeout = 0;
    }
    if (in->has_finished)
        *timeout = 0;
}

static void serve(struct inward *in, struct conn *c, short events, int64_t now)
{
    if (c->state == CONN_LINE && events)
        read_line(in, c);
    else if (awaits_hang_up(c) && events & (POLLHUP | POLLERR))
        on_hang_up(in, c);
    if (c->state == CONN_FREE)
        return;
    if (can_release_fin(in, c))
        release_fin(in, c);
    else if (c->deadline != 0 && now >= c->deadline)
        on_expired(in, c);
    else if (c->state == CONN_CONNECTING && now >= c->resend_at)
        resend_syn(in, c);
}

// Since the wait, libslirp and the guest may have ended connections, and others may have taken
// their entries. `is_same` tells whether the events belong to this connection.
void inward_poll(struct inward *in, const struct pollset *set)
{
    int64_t now = clock_mono_ms();
    if (in->has_finished)
        finish_all(in);
    for (int i = 0; i < in->used; i++) {
        struct conn *c = &in->conns[i];
        if (c->state == CONN_FREE)
            continue;
        bool is_same = c->poll_index >= 0 && set->fds[c->poll_index].fd == c->fd;
        serve(in, c, is_same ? pollset_events(set, c->poll_index) : 0, now);
    }
    if (pollset_events(set, in->listen_index))
        accept_clients(in);
}
