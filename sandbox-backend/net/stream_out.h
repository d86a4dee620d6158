// SPDX-License-Identifier: Apache-2.0
// The sending half of a stream, for net/ and egress/. It gathers small pieces and sends them in one
// write. It sends large pieces from the caller's memory. It keeps the bytes that the socket does
// not take.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

#include "sandbox-backend/base/buf.h"

struct stream_out {
    uv_stream_t *stream; // borrowed; outlives this object
    struct buf queued;   // not yet given to the loop
    struct buf flight;   // given to uv_write
    uv_write_t request;
    bool writing; // `flight` is in use
    // Encrypts the bytes as they leave (TLS): adds them to `sealed`, or returns false when it
    // cannot. Set after stream_out_init. NULL: bytes leave as they are.
    bool (*seal)(struct stream_out *o, const void *data, size_t len);
    struct buf sealed; // encrypted bytes that wait for the loop, instead of `queued`
    bool broken;       // a write failed: everything is dropped from now on
    // Called from the loop after a uv_write with 0 or a libuv error.
    void (*on_written)(struct stream_out *o, int status);
};

void stream_out_init(struct stream_out *o, uv_stream_t *stream,
                     void (*on_written)(struct stream_out *o, int status));
void stream_out_fini(struct stream_out *o); // after the stream's close callback

// Append bytes here for the next flush.
#define stream_out_buf(o) (&(o)->queued)
size_t stream_out_unsent(const struct stream_out *o);
// Send the queue, then `data`, then the string `tail`, without waiting. Return 0, or the libuv
// error of a broken stream.
int stream_out_send(struct stream_out *o, const void *data, size_t len, const char *tail);
int stream_out_flush(struct stream_out *o);
