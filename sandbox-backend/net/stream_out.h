// SPDX-License-Identifier: Apache-2.0
// The sending half of a stream, for net/ only: small pieces are gathered and leave in one write,
// large ones go straight from the caller's memory; what the socket does not take is kept here.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

#include "sandbox-backend/base/buf.h"

struct stream_out {
    uv_stream_t *stream; // borrowed; outlives this
    struct buf queued;   // not yet given to the loop
    struct buf flight;   // given to uv_write
    uv_write_t request;
    bool writing; // `flight` is in use
    // What changes the bytes on their way (TLS), set after stream_out_init: adds to `sealed`, or
    // returns false when it cannot any more. NULL: they go as they are.
    bool (*seal)(struct stream_out *o, const void *data, size_t len);
    struct buf sealed; // in place of `queued` what waits for the loop
    bool broken;       // a write failed: everything is thrown away from now on
    // From the loop, after a uv_write: 0 or a libuv error.
    void (*on_written)(struct stream_out *o, int status);
};

void stream_out_init(struct stream_out *o, uv_stream_t *stream,
                     void (*on_written)(struct stream_out *o, int status));
void stream_out_fini(struct stream_out *o); // after the stream's close callback

// Bytes for the next flush.
#define stream_out_buf(o) (&(o)->queued)
size_t stream_out_unsent(const struct stream_out *o);
// Sends what is queued, then `data`, then the string `tail`, without waiting. 0, or the libuv error
// of a broken stream.
int stream_out_send(struct stream_out *o, const void *data, size_t len, const char *tail);
int stream_out_flush(struct stream_out *o);
