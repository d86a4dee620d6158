// SPDX-License-Identifier: Apache-2.0
// Framing over a stream socket: cut anywhere, queued, refused.
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/netd/frames.h"
#include "sandbox-backend/netd/wire.h"
#include "tests/lib/tap.h"

static struct frames f;
static int peer;
static int seen;
static size_t seen_bytes;

static void on_frame(void *ctx, uint8_t *frame, size_t len)
{
    (void)ctx;
    seen++;
    seen_bytes += len;
    if (len > 0)
        ok(frame[0] == 0xaa && frame[len - 1] == 0xbb, "a frame of %zu bytes is whole", len);
}

static void open_pair(void)
{
    int fds[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds) < 0)
        return;
    peer = fds[1];
    frames_init(&f, fds[0]);
    seen = 0;
    seen_bytes = 0;
}

static void close_pair(void)
{
    close(f.fd);
    close(peer);
    frames_fini(&f);
}

static size_t make(uint8_t *out, size_t len)
{
    memset(out + 4, 0, len);
    wire_put32(out, (uint32_t)len);
    if (len > 0) {
        out[4 + len - 1] = 0xbb;
        out[4] = len == 1 ? 0xbb : 0xaa;
    }
    return 4 + len;
}

static void test_cut_anywhere(void)
{
    uint8_t bytes[600];
    size_t n = make(bytes, 60);
    n += make(bytes + n, 0);
    n += make(bytes + n, 300);
    open_pair();
    struct err e = ERR_INIT;
    for (size_t i = 0; i < n; i++) {
        if (write(peer, bytes + i, 1) != 1 || frames_read(&f, on_frame, NULL, &e) < 0)
            break;
    }
    is_int(seen, 3, "byte by byte: three frames, one empty");
    is_int(seen_bytes, 360, "and all of them");
    is_int(frames_read(&f, on_frame, NULL, &e), 0, "nothing there is no failure");
    close_pair();
}

static void test_sizes(void)
{
    uint8_t *bytes auto_free = xmalloc(FRAMES_MAX_BYTES + 5);
    struct err e = ERR_INIT;
    open_pair();
    size_t n = make(bytes, FRAMES_MAX_BYTES), at = 0;
    while (at < n && seen == 0) {
        ssize_t w = write(peer, bytes + at, n - at);
        at += w > 0 ? (size_t)w : 0;
        frames_read(&f, on_frame, NULL, &e);
    }
    is_int(seen, 1, "the largest frame");
    wire_put32(bytes, FRAMES_MAX_BYTES + 1);
    ok(write(peer, bytes, 4) == 4, "a length past the limit is sent");
    is_int(frames_read(&f, on_frame, NULL, &e), -1, "and refused");
    is_int(e.code, ERR_INVALID, "as not being QEMU's");
    close_pair();
}

static void test_end(void)
{
    struct err e = ERR_INIT;
    open_pair();
    shutdown(peer, SHUT_WR);
    is_int(frames_read(&f, on_frame, NULL, &e), -1, "end of file");
    is_int(e.code, ERR_GONE, "is its own kind of error");
    close_pair();
}

static void test_queue(void)
{
    uint8_t *frame auto_free = xcalloc(1, 60000);
    uint8_t *sink auto_free = xmalloc(1 << 20);
    struct err e = ERR_INIT;
    open_pair();
    int sent = 0;
    while (frames_reserve(&f, 60000)) {
        frames_send(&f, frame, 60000);
        sent++;
    }
    ok(frames_queued(&f) <= FRAMES_OUT_BYTES, "the queue is bounded");
    frames_send(&f, frame, 60000);
    is_int(frames_queued(&f), sent * 60004, "what does not fit is lost");
    size_t got = 0;
    while (frames_queued(&f) > 0 && frames_flush(&f, &e) == 0) {
        ssize_t n = read(peer, sink, 1 << 20);
        got += n > 0 ? (size_t)n : 0;
        if (sent < 50 && frames_reserve(&f, 60000)) {
            frames_send(&f, frame, 60000);
            sent++;
        }
    }
    ssize_t n;
    while ((n = read(peer, sink, 1 << 20)) > 0)
        got += (size_t)n;
    is_int(got, sent * 60004, "all the rest arrives, in whatever steps");
    close_pair();
}

int main(void)
{
    test_cut_anywhere();
    test_sizes();
    test_end();
    test_queue();
    return tap_done();
}
