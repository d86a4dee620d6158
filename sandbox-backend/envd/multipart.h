// SPDX-License-Identifier: Apache-2.0
// Takes a multipart/form-data body (RFC 7578, RFC 2046 section 5.1) apart as its bytes arrive,
// however they are split. Pure: no I/O; memory is bounded by MULTIPART_HEAD_MAX.
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/err.h"

#define MULTIPART_BOUNDARY_MAX 200         // RFC 2046 allows 70
#define MULTIPART_HEAD_MAX     (16 * 1024) // the headers of one part

struct multipart_events {
    // A part begins. `name` and `filename` are NULL when the part does not say them; filename is
    // whole, with its slashes. Borrowed for the call. Non-zero from any of the three stops.
    int (*on_part)(const char *name, const char *filename, void *ctx);
    int (*on_data)(const char *data, size_t len, void *ctx);
    int (*on_part_end)(void *ctx);
};

enum multipart_state {
    MULTIPART_PREAMBLE,
    MULTIPART_DELIMITED, // after a delimiter, before the end of its line
    MULTIPART_HEADERS,
    MULTIPART_DATA,
    MULTIPART_EPILOGUE, // after the closing delimiter: ignored
};

struct multipart {
    enum multipart_state state;
    bool in_part;
    char delimiter[MULTIPART_BOUNDARY_MAX + 5]; // "\r\n--<boundary>"
    size_t delimiter_len;
    size_t matched;  // bytes of the delimiter seen last
    size_t implied;  // of them: the CRLF of a line end that was already taken, so not data
    struct buf line; // of what follows a delimiter, or of a header
    size_t head_len; // of this part's headers so far
    char *name;      // owned; of the part whose headers are being read
    char *filename;  // owned
    const struct multipart_events *events;
    void *ctx;
};

// Reads the boundary out of a Content-Type value. ERR_INVALID when there is none.
int multipart_init(struct multipart *m, const char *content_type,
                   const struct multipart_events *events, void *ctx, struct err *e);
void multipart_fini(struct multipart *m);
// ERR_CANCELED when a callback stopped it; ERR_INVALID for a malformed body.
int multipart_feed(struct multipart *m, const char *data, size_t len, struct err *e);
// The body is over: ERR_INVALID unless the closing delimiter was there.
int multipart_finish(const struct multipart *m, struct err *e);
