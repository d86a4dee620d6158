// SPDX-License-Identifier: Apache-2.0
// gzip as a stream in both directions, and of whole messages, on zlib.
#include "sandbox-backend/net/gzip.h"

#include <stdbool.h>
#include <stdint.h>
#include <zlib.h>

#include "sandbox-backend/base/mem.h"

#define GZIP_ONLY   (MAX_WBITS + 16) // tells zlib to expect gzip's framing
#define MEM_DEFAULT 8

struct gzip {
    z_stream z;
    bool compresses;
    bool whole; // decompressing: a member has ended, and no other has begun
};

static struct gzip *new_gzip(bool compresses)
{
    struct gzip *g = xcalloc(1, sizeof *g);
    g->compresses = compresses;
    int rc = compresses ? deflateInit2(&g->z, Z_BEST_SPEED, Z_DEFLATED, GZIP_ONLY, MEM_DEFAULT,
                                       Z_DEFAULT_STRATEGY)
                        : inflateInit2(&g->z, GZIP_ONLY);
    if (rc == Z_OK)
        return g;
    free(g);
    return NULL;
}

struct gzip *gzip_compress_new(void)
{
    return new_gzip(true);
}

struct gzip *gzip_decompress_new(void)
{
    return new_gzip(false);
}

void gzip_free(struct gzip *g)
{
    if (!g)
        return;
    if (g->compresses)
        deflateEnd(&g->z);
    else
        inflateEnd(&g->z);
    free(g);
}

// Call zlib once. False: it can do nothing more for now.
static bool step(struct gzip *g, int flush, struct err *e)
{
    if (g->compresses)
        return deflate(&g->z, flush) == Z_OK;
    if (g->whole && g->z.avail_in == 0)
        return false;
    if (g->whole)
        inflateReset(&g->z); // another member follows
    g->whole = false;
    int rc = inflate(&g->z, Z_NO_FLUSH);
    g->whole = rc == Z_STREAM_END;
    if (rc == Z_MEM_ERROR)
        err_set(e, ERR_LIMIT, "no memory to decompress");
    else if (rc != Z_OK && rc != Z_STREAM_END && rc != Z_BUF_ERROR)
        err_set(e, ERR_INVALID, "invalid gzip data: %s", g->z.msg ? g->z.msg : "unknown format");
    return rc == Z_OK || rc == Z_STREAM_END;
}

// Run until zlib needs more input or has ended.
static int run(struct gzip *g, int flush, gzip_sink sink, void *ctx, struct err *e)
{
    char piece[GZIP_PIECE_BYTES];
    struct err failed = ERR_INIT;
    bool more = true;
    while (more) {
        g->z.next_out = (Bytef *)piece;
        g->z.avail_out = sizeof piece;
        more = step(g, flush, &failed);
        size_t made = sizeof piece - g->z.avail_out;
        if (err_is(&failed))
            return err_set(e, failed.code, "%s", failed.msg);
        if (made && sink(piece, made, ctx) != 0)
            return err_set(e, ERR_CANCELED, "the receiver stopped the stream");
        more = more && (g->z.avail_in || made == sizeof piece || flush == Z_FINISH);
    }
    return 0;
}

int gzip_feed(struct gzip *g, const void *data, size_t len, gzip_sink sink, void *ctx,
              struct err *e)
{
    const char *at = data;
    while (len > 0) {
        uInt part = len < UINT32_MAX ? (uInt)len : UINT32_MAX;
        g->z.next_in = (Bytef *)(uintptr_t)at;
        g->z.avail_in = part;
        if (run(g, Z_NO_FLUSH, sink, ctx, e) < 0)
            return -1;
        at += part;
        len -= part;
    }
    return 0;
}

int gzip_finish(struct gzip *g, gzip_sink sink, void *ctx, struct err *e)
{
    if (!g->compresses)
        return g->whole ? 0 : err_set(e, ERR_INVALID, "the gzip data ends too early");
    g->z.next_in = NULL;
    g->z.avail_in = 0;
    return run(g, Z_FINISH, sink, ctx, e);
}

// ---- whole messages

struct collected {
    struct buf *out;
    size_t max; // limit of out->len
};

static int collect(const char *data, size_t len, void *ctx)
{
    const struct collected *c = ctx;
    return buf_try_add(c->out, data, len, c->max) ? 0 : -1;
}

static int convert(struct gzip *g, struct collected *c, const void *data, size_t len, struct err *e)
{
    if (!g)
        return err_set(e, ERR_LIMIT, "no memory for gzip");
    int rc = gzip_feed(g, data, len, collect, c, e);
    if (rc == 0)
        rc = gzip_finish(g, collect, c, e);
    gzip_free(g);
    return rc;
}

int gzip_compress(struct buf *out, const void *data, size_t len, struct err *e)
{
    struct collected c = {.out = out, .max = SIZE_MAX};
    return convert(gzip_compress_new(), &c, data, len, e);
}

int gzip_decompress(struct buf *out, const void *data, size_t len, size_t max, struct err *e)
{
    struct collected c = {.out = out, .max = out->len + max};
    struct err failed = ERR_INIT;
    if (convert(gzip_decompress_new(), &c, data, len, &failed) == 0)
        return 0;
    if (failed.code == ERR_CANCELED)
        return err_set(e, ERR_LIMIT, "the message has more than %zu bytes once decompressed", max);
    return err_set(e, failed.code, "%s", failed.msg);
}
