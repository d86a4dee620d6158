// SPDX-License-Identifier: Apache-2.0
// The Connect protocol (https://connectrpc.com/docs/protocol): envelopes, errors, end of stream.
// Pure: bytes and JSON, no I/O.
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/err.h"

#define CONNECT_UNARY_TYPE        "application/json"
#define CONNECT_STREAM_TYPE       "application/connect+json"
#define CONNECT_UNARY_PROTO_TYPE  "application/proto"
#define CONNECT_STREAM_PROTO_TYPE "application/connect+proto"

#define CONNECT_FLAG_COMPRESSED 0x01
#define CONNECT_FLAG_END        0x02
#define CONNECT_ENVELOPE_HEAD   5 // a flag byte and a 32-bit big-endian length

void connect_envelope(struct buf *out, uint8_t flags, const void *payload, size_t len);
void connect_envelope_json(struct buf *out, const json_t *message);
void connect_envelope_end(struct buf *out, const struct err *e); // NULL: success, payload "{}"

// {"code":"not_found","message":"..."}; new reference.
json_t *connect_error_json(const struct err *e);
// Read such an object (or the "error" of an end-of-stream payload) into `e`; 0 when it holds no
// error.
int connect_error_parse(const json_t *object, struct err *e);

// Correct the length of the envelope that begins at `at` of `out`, for a payload whose length is
// known only once it is written.
void connect_envelope_close(struct buf *out, size_t at);

struct connect_frame {
    uint8_t flags;
    const char *payload; // borrowed from what was read
    size_t len;
};
// Read the envelope at the start of `data`. Return 1; 0 when it is not complete yet; -1 with
// ERR_INVALID for unknown flags, or ERR_TOO_LARGE for a payload of more than `max`, as soon as its
// length is read. A compressed payload is returned compressed.
int connect_frame_read(const char *data, size_t len, size_t max, struct connect_frame *out,
                       struct err *e);

// Reads envelopes from a stream of bytes, however the bytes are split.
struct connect_reader {
    struct buf pending; // of the envelope that is not complete yet
    size_t max;         // longest payload; a longer one is ERR_TOO_LARGE
    bool ended;         // an end-of-stream envelope was delivered; more bytes are an error
};
// Returns non-zero to stop.
typedef int (*connect_envelope_cb)(uint8_t flags, const char *payload, size_t len, void *ctx);

void connect_reader_init(struct connect_reader *r, size_t max);
void connect_reader_fini(struct connect_reader *r);
// Return 0, or -1 with `e` set: too long, bytes after the end, compressed, or stopped by the
// callback with its own error in *e.
int connect_reader_feed(struct connect_reader *r, const char *data, size_t len,
                        connect_envelope_cb cb, void *ctx, struct err *e);

// Parse "Connect-Timeout-Ms": at most 10 digits. NULL: 0 (none). Return -1 with `e` for anything
// else.
int connect_timeout_parse(const char *header, int64_t *ms, struct err *e);
