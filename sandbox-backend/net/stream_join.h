// SPDX-License-Identifier: Apache-2.0
// Joins two connected streams: what comes from the one goes to the other, both ways.
//
// The end of one direction is passed on, and the other goes on (half-close). A reader that is slow
// stops its sender. When one of the two breaks, so is the other: nobody takes a part for the whole.
// Memory: what one read gave (STREAM_JOIN_READ_BYTES) a direction, while its reader is slow.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

#include "sandbox-backend/base/buf.h"

#define STREAM_JOIN_READ_BYTES 32768

struct stream_join;

// `a` and `b` are each a uv_tcp_t or uv_pipe_t of its own allocation, connected and not reading;
// they are taken, and freed with free(). `first` is what `a` has said already. `on_closed` comes
// from the loop, once, when both are closed; the join is gone then.
struct stream_join *stream_join_new(uv_stream_t *a, uv_stream_t *b, const void *first, size_t len,
                                    void (*on_closed)(void *ctx), void *ctx);
// Looks at what `a` says first, before `b` sees it. False: it may not, and both are closed;
// `answer` is said to `a` before. At once after stream_join_new, and not of a join that has
// `first`.
typedef bool (*stream_join_guard_fn)(const char *data, size_t len, struct buf *answer);
void stream_join_guard(struct stream_join *j, stream_join_guard_fn guard);
void stream_join_close(struct stream_join *j); // breaks both; on_closed comes as always
