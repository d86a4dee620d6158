// SPDX-License-Identifier: Apache-2.0
// An outward connection on its way through the gate.
#include "sandbox-backend/netd/gate/gated.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/log/log.h"

#define CHUNK_BYTES  65536        // to the guest in one step
#define HANDED_BYTES (512 * 1024) // holds whatever an ordinary socket pair held

static const char *const state_names[GATED_STATES] = {"hello", "forward", "watch", "open",
                                                      "handed"};

void gated_set_state(struct gated *c, enum gated_state to)
{
    static const bool allowed[GATED_STATES][GATED_STATES] = {
        [GATED_HELLO] = {[GATED_FORWARD] = true, [GATED_WATCH] = true, [GATED_HANDED] = true},
        [GATED_FORWARD] = {[GATED_OPEN] = true},
    };
    assert(allowed[c->state][to]);
    log_debug("gate.state", "port=%u name=\"%s\" state=\"%s -> %s\"", c->to.port, c->name.text,
              state_names[c->state], state_names[to]);
    c->state = to;
    c->deadline = 0;
}

static void close_if_open(int *fd)
{
    if (*fd >= 0)
        close(steal_fd(fd));
}

static int make_pair(int pair[2])
{
    return socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair);
}

struct gated *gated_new(int fd, const struct endpoint *to)
{
    int pair[2];
    int real = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (real < 0 || make_pair(pair) < 0) {
        close_if_open(&real);
        return NULL;
    }
    if (dup3(pair[0], fd, O_CLOEXEC) < 0) {
        close(pair[0]);
        close(pair[1]);
        close(real);
        return NULL;
    }
    close(pair[0]);
    struct gated *c = xcalloc(1, sizeof(*c));
    *c = (struct gated){
        .fd = fd, .guest = pair[1], .real = real, .guest_index = -1, .real_index = -1, .to = *to};
    return c;
}

void gated_free(struct gated *c)
{
    close_if_open(&c->guest);
    close_if_open(&c->real);
    free(c->bytes);
    free(c);
}

void gated_reset(struct gated *c)
{
    struct linger none = {.l_onoff = 1};
    if (c->real >= 0)
        setsockopt(c->real, SOL_SOCKET, SO_LINGER, &none, sizeof(none));
    close_if_open(&c->real);
}

// ---- copying

static bool is_later(ssize_t n)
{
    return n < 0 && (errno == EAGAIN || errno == EINTR || errno == ENOBUFS || errno == ENOMEM);
}

// Take from the server's socket only what the guest's side took, so that no buffer stands in
// between.
static void copy_to_guest(struct gated *c, uint8_t *chunk, size_t len)
{
    ssize_t n = send(c->guest, chunk, len, MSG_DONTWAIT | MSG_NOSIGNAL);
    c->is_guest_full = is_later(n);
    if (c->is_guest_full)
        return;
    // An error means that libslirp has closed its end: the guest is gone.
    if (recv(c->real, chunk, n < 0 ? len : (size_t)n, MSG_DONTWAIT) < 0)
        log_debug("gate.taken", "errno=%d", errno);
    c->has_server_spoken = true;
}

void gated_to_guest(struct gated *c)
{
    uint8_t chunk[CHUNK_BYTES];
    if (c->real < 0 || c->is_real_done || c->fd < 0)
        return;
    ssize_t n = recv(c->real, chunk, sizeof(chunk), MSG_PEEK | MSG_DONTWAIT);
    if (is_later(n))
        return;
    if (n > 0) {
        copy_to_guest(c, chunk, (size_t)n);
        return;
    }
    c->is_real_done = true;
    if (n < 0)
        c->is_broken = true;
    else if (!c->is_broken)
        shutdown(c->guest, SHUT_WR);
}

void gated_from_guest(struct gated *c)
{
    if (c->guest < 0 || c->is_guest_done || c->len == HELLO_MAX)
        return;
    if (!c->bytes)
        c->bytes = xmalloc(HELLO_MAX);
    ssize_t n = recv(c->guest, c->bytes + c->len, HELLO_MAX - c->len, MSG_DONTWAIT);
    if (n > 0)
        c->len += (size_t)n;
    else if (!is_later(n))
        c->is_guest_done = true;
}

void gated_to_server(struct gated *c)
{
    if (c->real < 0)
        return;
    ssize_t n = c->clear ? send(c->real, c->bytes, c->clear, MSG_DONTWAIT | MSG_NOSIGNAL) : 0;
    c->is_real_full = is_later(n);
    if (c->is_real_full)
        return;
    if (n < 0) { // the server takes nothing more
        c->is_broken = true;
        n = (ssize_t)c->clear;
    }
    c->clear -= (size_t)n;
    c->len -= (size_t)n;
    memmove(c->bytes, c->bytes + n, c->len);
    c->is_real_full = c->clear > 0;
    bool is_end = c->is_guest_done && c->len == 0 && c->state != GATED_HELLO;
    if (is_end && !c->is_end_told) {
        c->is_end_told = true;
        shutdown(c->real, SHUT_WR);
    }
}

// ---- the end

static int unread(int fd)
{
    int count = 0;
    return ioctl(fd, FIONREAD, &count) == 0 ? count : 0;
}

bool gated_is_over(const struct gated *c)
{
    return c->is_broken && c->is_real_done && c->fd >= 0 && unread(c->fd) == 0;
}

bool gated_is_done(const struct gated *c)
{
    return c->fd < 0 && (c->is_end_told || c->is_broken || c->real < 0);
}

// Return whether neither bytes of the guest nor its end are on their way to us.
static bool is_guest_quiet(const struct gated *c)
{
    char next;
    ssize_t n = recv(c->guest, &next, 1, MSG_PEEK | MSG_DONTWAIT);
    return c->len == 0 && (n == 0 ? c->is_end_told : is_later(n));
}

bool gated_put_back(struct gated *c)
{
    if (c->fd < 0 || c->is_broken || !is_guest_quiet(c) || unread(c->fd) > 0 ||
        dup3(c->real, c->fd, O_CLOEXEC) < 0)
        return false;
    close_if_open(&c->real);
    close_if_open(&c->guest);
    free(steal(&c->bytes));
    return true;
}

// ---- to another process

// Move everything that the guest has sent so far, in order. The socket has room for it.
static bool move_bytes(struct gated *c, int to)
{
    bool is_whole = true;
    while (c->len > 0 && is_whole) {
        is_whole = send(to, c->bytes, c->len, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)c->len;
        c->len = 0;
        gated_from_guest(c);
    }
    if (c->is_guest_done)
        shutdown(to, SHUT_WR);
    return is_whole;
}

int gated_take_guest(struct gated *c)
{
    int pair[2];
    int room = HANDED_BYTES;
    if (c->has_server_spoken || c->is_real_done || c->fd < 0 || make_pair(pair) < 0)
        return -1;
    setsockopt(pair[0], SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
    bool is_fine = move_bytes(c, pair[0]) && dup3(pair[0], c->fd, O_CLOEXEC) >= 0;
    close(pair[0]);
    if (!is_fine) {
        close(pair[1]);
        return -1;
    }
    close_if_open(&c->guest);
    close_if_open(&c->real);
    free(steal(&c->bytes));
    c->len = c->clear = 0;
    return pair[1];
}

// ---- waiting

void gated_fill(struct gated *c, struct pollset *set)
{
    bool reads_guest = !c->is_guest_done && c->len < HELLO_MAX;
    bool reads_real = !c->is_real_done && !c->is_guest_full && c->fd >= 0;
    short guest = (short)((reads_guest ? POLLIN : 0) | (c->is_guest_full ? POLLOUT : 0));
    short real = (short)((reads_real ? POLLIN : 0) | (c->is_real_full ? POLLOUT : 0));
    c->guest_index = guest ? pollset_add(set, c->guest, guest) : -1;
    c->real_index = real ? pollset_add(set, c->real, real) : -1;
}

bool gated_has_event(const struct gated *c, const struct pollset *set)
{
    return (c->guest_index >= 0 && pollset_events(set, c->guest_index)) ||
           (c->real_index >= 0 && pollset_events(set, c->real_index));
}
