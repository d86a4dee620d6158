// SPDX-License-Identifier: Apache-2.0
// gzip (RFC 1952) as a stream, both ways, and of whole messages. What goes in may be cut anywhere;
// what comes out goes to a sink in pieces of at most GZIP_PIECE_BYTES. Memory: 270 KiB to compress,
// 45 KiB to decompress, whatever passes through.
#pragma once
#include <stddef.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/err.h"

#define GZIP_PIECE_BYTES 16384

struct gzip;

// Takes what comes out. Non-zero stops the feeding; it may have set the `e` of the feeding then.
typedef int (*gzip_sink)(const char *data, size_t len, void *ctx);

struct gzip *gzip_compress_new(void);   // fast, not small; NULL when memory is out
struct gzip *gzip_decompress_new(void); // several members after one another too; NULL as above
void gzip_free(struct gzip *g);         // NULL is fine

// 0; or -1: with ERR_INVALID for what is no gzip, with ERR_CANCELED when the sink stopped it and
// `e` held nothing yet. Nothing may be fed after a failure.
int gzip_feed(struct gzip *g, const void *data, size_t len, gzip_sink sink, void *ctx,
              struct err *e);
// No more comes. Compressing: the rest goes to the sink. Decompressing: ERR_INVALID when the data
// ended too early.
int gzip_finish(struct gzip *g, gzip_sink sink, void *ctx, struct err *e);

// Whole messages, appended to `out`. Decompressing what would become longer than `max` is
// ERR_LIMIT, found before it has been made; `out` then holds part of it.
int gzip_compress(struct buf *out, const void *data, size_t len, struct err *e);
int gzip_decompress(struct buf *out, const void *data, size_t len, size_t max, struct err *e);
