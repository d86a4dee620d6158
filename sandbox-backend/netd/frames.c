// SPDX-License-Identifier: Apache-2.0
// Ethernet frames over QEMU's stream socket.
#include "sandbox-backend/netd/frames.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/netd/wire.h"

#define LENGTH_BYTES 4

void frames_init(struct frames *f, int fd)
{
    *f =
        (struct frames){.fd = fd, .in = xmalloc(FRAMES_IN_BYTES), .out = xmalloc(FRAMES_OUT_BYTES)};
}

void frames_fini(struct frames *f)
{
    free(steal(&f->in));
    free(steal(&f->out));
}

static int is_gone(struct err *e)
{
    return err_set(e, ERR_GONE, "the virtual machine closed its network socket");
}

// The length of the frame at this place of the buffer, if it is there as a whole; else -1.
static int64_t whole_frame(const struct frames *f, size_t at)
{
    size_t left = f->in_len - at;
    size_t len = left >= LENGTH_BYTES ? wire_get32(f->in + at) : 0;
    return left >= LENGTH_BYTES && left - LENGTH_BYTES >= len ? (int64_t)len : -1;
}

bool frames_has_rest(const struct frames *f)
{
    return !f->is_held && whole_frame(f, 0) >= 0;
}

// Hands out the whole frames at the start of the buffer; the rest moves to its front.
static int deliver(struct frames *f, frames_cb on_frame, void *ctx, struct err *e)
{
    size_t at = 0;
    while (!f->is_held && f->in_len - at >= LENGTH_BYTES) {
        size_t len = wire_get32(f->in + at);
        if (len > FRAMES_MAX_BYTES)
            return err_set(e, ERR_INVALID, "a frame of %zu bytes: not QEMU's framing", len);
        if (f->in_len - at - LENGTH_BYTES < len)
            break;
        if (f->stats) {
            f->stats->sent_bytes += len;
            f->stats->sent_packets++;
        }
        on_frame(ctx, f->in + at + LENGTH_BYTES, len);
        at += LENGTH_BYTES + len;
    }
    f->in_len -= at;
    memmove(f->in, f->in + at, f->in_len);
    return 0;
}

int frames_read(struct frames *f, frames_cb on_frame, void *ctx, struct err *e)
{
    if (frames_has_rest(f) && deliver(f, on_frame, ctx, e) < 0)
        return -1;
    if (f->is_held)
        return 0;
    ssize_t n = recv(f->fd, f->in + f->in_len, FRAMES_IN_BYTES - f->in_len, MSG_DONTWAIT);
    if (n == 0 || (n < 0 && errno == ECONNRESET))
        return is_gone(e);
    if (n < 0)
        return errno == EAGAIN || errno == EINTR ? 0 : err_sys(e, errno, "read frames");
    f->in_len += (size_t)n;
    return deliver(f, on_frame, ctx, e);
}

size_t frames_queued(const struct frames *f)
{
    return f->out_tail - f->out_head;
}

uint8_t *frames_reserve(struct frames *f, size_t len)
{
    if (FRAMES_OUT_BYTES - frames_queued(f) < LENGTH_BYTES + len)
        return NULL;
    if (FRAMES_OUT_BYTES - f->out_tail < LENGTH_BYTES + len) {
        memmove(f->out, f->out + f->out_head, frames_queued(f));
        f->out_tail -= f->out_head;
        f->out_head = 0;
    }
    return f->out + f->out_tail + LENGTH_BYTES;
}

void frames_commit(struct frames *f, size_t len)
{
    wire_put32(f->out + f->out_tail, (uint32_t)len);
    f->out_tail += LENGTH_BYTES + len;
    if (f->stats) {
        f->stats->received_bytes += len;
        f->stats->received_packets++;
    }
}

void frames_send(struct frames *f, const void *frame, size_t len)
{
    uint8_t *room = frames_reserve(f, len);
    if (!room)
        return;
    memcpy(room, frame, len);
    frames_commit(f, len);
}

int frames_flush(struct frames *f, struct err *e)
{
    while (frames_queued(f) > 0) {
        ssize_t n =
            send(f->fd, f->out + f->out_head, frames_queued(f), MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return 0;
        if (n < 0)
            return errno == EPIPE || errno == ECONNRESET ? is_gone(e)
                                                         : err_sys(e, errno, "write frames");
        f->out_head += (size_t)n;
    }
    f->out_head = f->out_tail = 0;
    return 0;
}
