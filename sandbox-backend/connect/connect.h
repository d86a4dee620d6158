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
#define CONNECT_ENVELOPE_HEAD   5 // flag byte and a 32-bit big-endian length

void connect_envelope(struct buf *out, uint8_t flags, const void *payload, size_t len);
void connect_envelope_json(struct buf *out, const json_t *message);
void connect_envelope_end(struct buf *out, const struct err *e); // NULL: success, payload "{}"

// {"code":"not_found","message":"..."}; new reference.
json_t *connect_error_json(const struct err *e);
// Reads such an object (or an end-of-stream payload's "error") into `e`; 0 when it holds none.
int connect_error_parse(const json_t *object, struct err *e);

// Writes the length of the envelope that begins at `at` of `out` and was put there with another:
// for payloads whose length is known only once they are written.
void connect_envelope_close(struct buf *out, size_t at);

struct connect_frame {
    uint8_t flags;
    const char *payload; // borrowed from what was read
    size_t len;
};
// The envelope at the start of `data`: 1, or 0 when it is not whole yet, or -1 with ERR_INVALID for
// unknown flags and ERR_TOO_LARGE for a payload of more than `max`, told as soon as it can be. What
// is compressed is handed out so.
int connect_frame_read(const char *data, size_t len, size_t max, struct connect_frame *out,
                       struct err *e);

// Takes envelopes apart as their bytes arrive, however they are split.
struct connect_reader {
    struct buf pending; // of the envelope that is not whole yet
    size_t max;         // longest payload; longer is ERR_TOO_LARGE
    bool ended;         // an end-of-stream envelope was delivered; more bytes are an error
};
// Returns non-zero to stop.
typedef int (*connect_envelope_cb)(uint8_t flags, const char *payload, size_t len, void *ctx);

void connect_reader_init(struct connect_reader *r, size_t max);
void connect_reader_fini(struct connect_reader *r);
// 0, or -1 with `e` set (too long, bytes after the end, compressed, or the callback stopped it with
// an error of its own in *e).
int connect_reader_feed(struct connect_reader *r, const char *data, size_t len,
                        connect_envelope_cb cb, void *ctx, struct err *e);

// "Connect-Timeout-Ms": at most 10 digits. NULL is 0 (none). -1 with `e` for anything else.
int connect_timeout_parse(const char *header, int64_t *ms, struct err *e);
