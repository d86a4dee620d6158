// SPDX-License-Identifier: Apache-2.0
// Parse a multipart/form-data body (RFC 7578, RFC 2046 section 5.1) as its bytes arrive, in pieces
// of any size. The functions are pure, and MULTIPART_HEAD_MAX bounds their memory.
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/err.h"

#define MULTIPART_BOUNDARY_MAX 200         // RFC 2046 allows 70
#define MULTIPART_HEAD_MAX     (16 * 1024) // the headers of one part

struct multipart_events {
    // A part begins. `name` and `filename` are NULL if the part has none; filename keeps its
    // slashes. Borrowed for the call. A non-zero result of any callback stops the parser.
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
    size_t matched;  // number of the delimiter's bytes with which the input so far ends
    size_t implied;  // of these, a CRLF that ends an earlier line and so is not data
    struct buf line; // the rest of a delimiter line, or a header
    size_t head_len; // bytes of this part's headers so far
    char *name;      // owned; of the part whose headers are parsed
    char *filename;  // owned
    const struct multipart_events *events;
    void *ctx;
};

// Take the boundary from a Content-Type value. ERR_INVALID if it has none.
int multipart_init(struct multipart *m, const char *content_type,
                   const struct multipart_events *events, void *ctx, struct err *e);
void multipart_fini(struct multipart *m);
// Parse more bytes. ERR_CANCELED if a callback stopped it; ERR_INVALID for a malformed body.
int multipart_feed(struct multipart *m, const char *data, size_t len, struct err *e);
// End the body. ERR_INVALID without a closing delimiter.
int multipart_finish(const struct multipart *m, struct err *e);
