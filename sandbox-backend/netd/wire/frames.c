// SPDX-License-Identifier: Apache-2.0
// Ethernet frames over a stream socket or a packet socket.
#include "sandbox-backend/netd/wire/frames.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/netd/wire/wire.h"

#define LENGTH_BYTES 4
// Packets that one read takes at most, so that a guest which sends small frames does not keep
// others waiting.
#define PACKETS_PER_READ 64

static bool keeps_packets(int fd)
{
    int type = 0;
    socklen_t len = sizeof(type);
    return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) == 0 && type == SOCK_SEQPACKET;
}

void frames_init(struct frames *f, int fd)
{
    *f = (struct frames){.fd = fd,
                         .is_packets = keeps_packets(fd),
                         .in = xmalloc(FRAMES_IN_BYTES),
                         .out = xmalloc(FRAMES_OUT_BYTES)};
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

// Return the length of the frame at `at`, or -1 when it is not complete.
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

// Deliver the complete frames at the start of the buffer; move the rest to its front.
static int deliver(struct frames *f, frames_cb on_frame, void *ctx, struct err *e)
{
    size_t at = 0;
    while (!f->is_held && f->in_len - at >= LENGTH_BYTES) {
        size_t len = wire_get32(f->in + at);
        if (len > FRAMES_MAX_BYTES)
            return err_set(
                e, ERR_INVALID,
                "the machine sent a frame of %zu bytes, more than %d: not QEMU's framing", len,
                FRAMES_MAX_BYTES);
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

// Receive up to `size` bytes, or one packet, into `to`. Return the length, which is the packet's
// even when it is longer than `size`; 0 when nothing has come; -1 with `e` at end of file or on
// failure.
static ssize_t receive(const struct frames *f, uint8_t *to, size_t size, struct err *e)
{
    ssize_t n = recv(f->fd, to, size, MSG_DONTWAIT | (f->is_packets ? MSG_TRUNC : 0));
    if (n == 0 || (n < 0 && errno == ECONNRESET))
        return is_gone(e);
    if (n < 0)
        return errno == EAGAIN || errno == EINTR ? 0 : err_sys(e, errno, "read frames");
    return n;
}

// Append the packets that have come to the buffer, each behind its length, as a stream has them.
static int receive_packets(struct frames *f, struct err *e)
{
    for (int i = 0; i < PACKETS_PER_READ; i++) {
        uint8_t *at = f->in + f->in_len;
        if (FRAMES_IN_BYTES - f->in_len < LENGTH_BYTES + FRAMES_MAX_BYTES)
            return 0;
        ssize_t n = receive(f, at + LENGTH_BYTES, FRAMES_MAX_BYTES, i == 0 ? e : NULL);
        if (n <= 0)
            return i == 0 ? (int)n : 0; // the end of file comes again, behind these frames
        if (n > FRAMES_MAX_BYTES)
            return err_set(e, ERR_INVALID, "a frame of %zd bytes: at most %d are allowed", n,
                           FRAMES_MAX_BYTES);
        wire_put32(at, (uint32_t)n);
        f->in_len += LENGTH_BYTES + (size_t)n;
    }
    return 0;
}

static int receive_stream(struct frames *f, struct err *e)
{
    ssize_t n = receive(f, f->in + f->in_len, FRAMES_IN_BYTES - f->in_len, e);
    f->in_len += n > 0 ? (size_t)n : 0;
    return n < 0 ? -1 : 0;
}

int frames_read(struct frames *f, frames_cb on_frame, void *ctx, struct err *e)
{
    if (frames_has_rest(f) && deliver(f, on_frame, ctx, e) < 0)
        return -1;
    if (f->is_held)
        return 0;
    if ((f->is_packets ? receive_packets(f, e) : receive_stream(f, e)) < 0)
        return -1;
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

// Send what the socket takes at once from the front of the queue: a piece of a stream, or one
// packet without its length. Return the bytes of the queue that are sent, or -1 with errno.
static ssize_t send_front(const struct frames *f)
{
    const uint8_t *front = f->out + f->out_head;
    if (!f->is_packets)
        return send(f->fd, front, frames_queued(f), MSG_DONTWAIT | MSG_NOSIGNAL);
    ssize_t n = send(f->fd, front + LENGTH_BYTES, wire_get32(front), MSG_DONTWAIT | MSG_NOSIGNAL);
    return n < 0 ? -1 : LENGTH_BYTES + n;
}

int frames_flush(struct frames *f, struct err *e)
{
    while (frames_queued(f) > 0) {
        ssize_t n = send_front(f);
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
