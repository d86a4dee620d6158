// SPDX-License-Identifier: Apache-2.0
// Frames over a stream socket, cut anywhere, and over a packet socket: queued, held, refused.
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/netd/wire/frames.h"
#include "sandbox-backend/netd/wire/wire.h"
#include "tests/lib/harness/tap.h"

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

static void open_pair(int type)
{
    int fds[2];
    if (socketpair(AF_UNIX, type | SOCK_NONBLOCK, 0, fds) < 0)
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
    open_pair(SOCK_STREAM);
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
    open_pair(SOCK_STREAM);
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
    is_int(e.code, ERR_INVALID, "as invalid");
    close_pair();
}

static void test_end(int type)
{
    struct err e = ERR_INIT;
    open_pair(type);
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
    open_pair(SOCK_STREAM);
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

// ---- packets
static bool send_frame(size_t len)
{
    static uint8_t bytes[4 + FRAMES_MAX_BYTES + 1];
    make(bytes, len);
    return send(peer, bytes + 4, len, 0) == (ssize_t)len;
}

static void test_packets(void)
{
    struct err e = ERR_INIT;
    struct net_stats stats = {0};
    open_pair(SOCK_SEQPACKET);
    f.stats = &stats;
    is_int(frames_read(&f, on_frame, NULL, &e), 0, "nothing there is no failure");
    ok(send_frame(60) && send_frame(1500) && send_frame(FRAMES_MAX_BYTES), "three packets");
    while (seen < 3 && frames_read(&f, on_frame, NULL, &e) == 0)
        ;
    is_int(seen, 3, "are three frames");
    is_int(seen_bytes, 60 + 1500 + FRAMES_MAX_BYTES, "of their sizes");
    ok(stats.sent_packets == 3 && stats.sent_bytes == seen_bytes, "and counted");
    ok(send_frame(FRAMES_MAX_BYTES + 1), "a packet past the limit is sent");
    is_int(frames_read(&f, on_frame, NULL, &e), -1, "and refused");
    is_int(e.code, ERR_INVALID, "as invalid");
    close_pair();
}

static void hold_after_first(void *ctx, uint8_t *frame, size_t len)
{
    on_frame(ctx, frame, len);
    f.is_held = true;
}

static void test_held_packets(void)
{
    struct err e = ERR_INIT;
    open_pair(SOCK_SEQPACKET);
    for (int i = 0; i < 3; i++)
        ok(send_frame(100), "packet %d", i + 1);
    shutdown(peer, SHUT_WR);
    is_int(frames_read(&f, hold_after_first, NULL, &e), 0, "the end of file waits for them");
    is_int(seen, 1, "a callback holds the rest back");
    ok(!frames_has_rest(&f), "and nothing is due while it does");
    f.is_held = false;
    ok(frames_has_rest(&f), "then the rest is due");
    is_int(frames_read(&f, on_frame, NULL, &e), -1, "behind the rest comes the end");
    is_int(seen, 3, "and nothing is lost");
    is_int(e.code, ERR_GONE, "and the end is its own kind of error");
    close_pair();
}

// A guest that only sends small frames leaves netd in time for others.
static void test_many_packets(void)
{
    struct err e = ERR_INIT;
    int sent = 0, reads = 0;
    open_pair(SOCK_SEQPACKET);
    while (sent < 1000 && send_frame(60))
        sent++;
    frames_read(&f, on_frame, NULL, &e);
    ok(seen > 0 && seen < sent, "one read takes %d of %d packets", seen, sent);
    for (; seen < sent && reads < sent && frames_read(&f, on_frame, NULL, &e) == 0; reads++)
        ;
    is_int(seen, sent, "further reads take the others");
    close_pair();
}

static void test_packets_out(void)
{
    uint8_t frame[600] = {0};
    uint8_t *sink auto_free = xmalloc(FRAMES_MAX_BYTES);
    struct err e = ERR_INIT;
    open_pair(SOCK_SEQPACKET);
    for (int i = 0; i < 2000; i++) {
        frame[0] = (uint8_t)i;
        frames_send(&f, frame, 200 + (size_t)i % 400);
    }
    int got = 0;
    bool right = true;
    while (got < 2000 && frames_flush(&f, &e) == 0) {
        for (ssize_t n; (n = recv(peer, sink, FRAMES_MAX_BYTES, 0)) > 0; got++)
            right = right && n == 200 + got % 400 && sink[0] == (uint8_t)got;
    }
    is_int(got, 2000, "every frame is a packet, also those that had to wait");
    ok(right, "of its own size, in order");
    is_int(frames_queued(&f), 0, "and the queue is empty");
    close(peer);
    frames_send(&f, frame, 100);
    is_int(frames_flush(&f, &e), -1, "nobody is there any more");
    is_int(e.code, ERR_GONE, "which is the end");
    peer = -1;
    close_pair();
}

int main(void)
{
    test_cut_anywhere();
    test_sizes();
    test_end(SOCK_STREAM);
    test_queue();
    test_packets();
    test_held_packets();
    test_many_packets();
    test_packets_out();
    test_end(SOCK_SEQPACKET);
    return tap_done();
}
