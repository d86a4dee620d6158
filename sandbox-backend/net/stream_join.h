// SPDX-License-Identifier: Apache-2.0
// Joins two connected streams: the bytes of each go to the other.
//
// The end of one direction is passed on, while the other direction stays open (half-close). A slow
// reader slows its sender down. When one stream breaks, the other is broken too, so that no peer
// mistakes a partial stream for a complete one. Memory: one read (STREAM_JOIN_READ_BYTES) for each
// direction whose reader is slow.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

#include "sandbox-backend/base/buf.h"

#define STREAM_JOIN_READ_BYTES 32768

struct stream_join;

// Join `a` and `b`. Each is a uv_tcp_t or uv_pipe_t with an allocation of its own, connected and
// not reading; the join takes them over and frees them with free(). `first` holds bytes already
// read from `a`. `on_closed` comes from the loop, once, when both are closed; the join has been
// freed then.
struct stream_join *stream_join_new(uv_stream_t *a, uv_stream_t *b, const void *first, size_t len,
                                    void (*on_closed)(void *ctx), void *ctx);
// The verdict of a guard on the bytes that `b` sends before `a` has sent any.
enum stream_join_verdict {
    STREAM_JOIN_PASS,
    STREAM_JOIN_WAIT,  // for the next bytes of `b`, its end, or bytes of `a` that are admitted
    STREAM_JOIN_REFUSE // break both streams
};
struct stream_join_guard {
    // Checks the first bytes of `a` before `b` gets them. False: both are closed, after `answer`
    // was sent to `a`.
    bool (*admits)(const char *data, size_t len, struct buf *answer);
    // Checks the bytes that `b` sends before `admits` was called: each time all of them so far, but
    // at most STREAM_JOIN_EARLY_BYTES. Nothing waits when there are as many; later bytes pass.
    enum stream_join_verdict (*judges)(const char *data, size_t len);
};
#define STREAM_JOIN_EARLY_BYTES 16
// Set it right after stream_join_new, and only for a join without `first`. Borrowed.
void stream_join_set_guard(struct stream_join *j, const struct stream_join_guard *guard);
void stream_join_close(struct stream_join *j); // break both streams; on_closed follows as always
