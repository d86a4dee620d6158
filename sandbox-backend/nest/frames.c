// SPDX-License-Identifier: Apache-2.0
// Frames between the guest's TAP device and cubby-netd. Both keep the borders of frames, so each
// read is one frame and each write is one.
#include "sandbox-backend/nest/frames.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "sandbox-backend/base/mem.h"

#define FRAMES_PER_TURN 64 // so that a busy direction does not keep the other one waiting

void carrier_init(struct carrier *c, int tap, int netd)
{
    *c = (struct carrier){.tap = tap,
                          .netd = netd,
                          .out = {.frame = xmalloc(CARRIER_BYTES)},
                          .in = {.frame = xmalloc(CARRIER_BYTES)}};
}

void carrier_fini(struct carrier *c)
{
    free(steal(&c->out.frame));
    free(steal(&c->in.frame));
}

void carrier_watch(const struct carrier *c, struct pollfd *fds)
{
    fds[0] = (struct pollfd){.fd = c->tap};
    fds[1] = (struct pollfd){.fd = c->netd};
    fds[0].events = (short)((c->out.len ? 0 : POLLIN) | (c->in.len ? POLLOUT : 0));
    fds[1].events = (short)((c->in.len ? 0 : POLLIN) | (c->out.len ? POLLOUT : 0));
}

// Return 1 if the frame that waits has gone, 0 if it waits on, -1 at the end of the other side. A
// frame that the other side refuses is lost, as on any network.
static int put(struct carrier_way *w, int to)
{
    ssize_t n = write(to, w->frame, w->len);
    if (n < 0 && (errno == EAGAIN || errno == EINTR || errno == ENOBUFS))
        return 0;
    if (n < 0 && (errno == EPIPE || errno == ECONNRESET))
        return -1;
    w->len = 0;
    return 1;
}

static int carry(struct carrier_way *w, int from, int to)
{
    for (int i = 0; i < FRAMES_PER_TURN; i++) {
        if (!w->len) {
            ssize_t n = read(from, w->frame, CARRIER_BYTES);
            if (n == 0 || (n < 0 && errno == ECONNRESET))
                return -1;
            if (n < 0)
                return 0;
            w->len = (size_t)n;
        }
        int done = put(w, to);
        if (done <= 0)
            return done;
    }
    return 0;
}

int carrier_serve(struct carrier *c, const struct pollfd *fds, struct err *e)
{
    int result = 0;
    if (fds[0].revents & POLLIN || fds[1].revents & POLLOUT)
        result = carry(&c->out, c->tap, c->netd);
    if (result == 0 && (fds[1].revents & (POLLIN | POLLHUP | POLLERR) || fds[0].revents & POLLOUT))
        result = carry(&c->in, c->netd, c->tap);
    return result < 0 ? err_set(e, ERR_GONE, "the network process has ended") : 0;
}
