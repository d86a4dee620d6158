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
// Checks the first bytes of `a` before `b` gets them. False: both are closed, after `answer` was
// sent to `a`. Set it right after stream_join_new, and only for a join without `first`.
typedef bool (*stream_join_guard_fn)(const char *data, size_t len, struct buf *answer);
void stream_join_guard(struct stream_join *j, stream_join_guard_fn guard);
void stream_join_close(struct stream_join *j); // break both streams; on_closed follows as always
