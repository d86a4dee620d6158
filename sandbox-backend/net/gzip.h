// SPDX-License-Identifier: Apache-2.0
// gzip (RFC 1952) as a stream in both directions, and of whole messages.
//
// The input may be cut anywhere. The output goes to a sink in pieces of at most GZIP_PIECE_BYTES.
// Memory: 270 KiB to compress, 45 KiB to decompress, whatever the length of the stream.
#pragma once
#include <stddef.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/err.h"

#define GZIP_PIECE_BYTES 16384

struct gzip;

// Receives output. Non-zero stops the feeding; the sink may then have set its `e`.
typedef int (*gzip_sink)(const char *data, size_t len, void *ctx);

struct gzip *gzip_compress_new(void);   // compresses fast rather than well; NULL when memory is out
struct gzip *gzip_decompress_new(void); // accepts several members in a row; NULL when memory is out
void gzip_free(struct gzip *g);         // NULL is fine

// Return 0, or -1 with ERR_INVALID when the data is not gzip, or with ERR_CANCELED when the sink
// stopped it without setting `e`. After a failure the stream takes no more data.
int gzip_feed(struct gzip *g, const void *data, size_t len, gzip_sink sink, void *ctx,
              struct err *e);
// End the input. A compressor sends its remaining output to the sink. A decompressor fails with
// ERR_INVALID if the data ended too early.
int gzip_finish(struct gzip *g, gzip_sink sink, void *ctx, struct err *e);

// Handle a whole message, appended to `out`. Decompression to more than `max` bytes is ERR_LIMIT,
// found before the memory is used; `out` then holds a part.
int gzip_compress(struct buf *out, const void *data, size_t len, struct err *e);
int gzip_decompress(struct buf *out, const void *data, size_t len, size_t max, struct err *e);
