// SPDX-License-Identifier: Apache-2.0
// gzip in both directions: input cut anywhere, several members, damage, and output that grows too
// large.
#include "sandbox-backend/net/gzip.h"

#include <string.h>

#include "sandbox-backend/base/mem.h"
#include "tests/lib/harness/tap.h"

static int add(const char *data, size_t len, void *ctx)
{
    buf_add(ctx, data, len);
    return len > GZIP_PIECE_BYTES ? -1 : 0;
}

static int stop(const char *data, size_t len, void *ctx)
{
    (void)data;
    (void)len;
    (void)ctx;
    return -1;
}

static int through(struct gzip *g, const struct buf *in, size_t piece, struct buf *out,
                   struct err *e)
{
    int rc = 0;
    for (size_t at = 0; rc == 0 && at < in->len; at += piece)
        rc = gzip_feed(g, in->data + at, in->len - at < piece ? in->len - at : piece, add, out, e);
    if (rc == 0)
        rc = gzip_finish(g, add, out, e);
    gzip_free(g);
    return rc;
}

static bool same(const struct buf *a, const struct buf *b)
{
    return a->len == b->len && memcmp(buf_str(a), buf_str(b), a->len) == 0;
}

static void test_pieces(const struct buf *plain)
{
    static const size_t PIECES[] = {1, 7, 4096, 1 << 20};
    for (size_t i = 0; i < ARRAY_LEN(PIECES); i++) {
        struct buf packed auto_buf = BUF_INIT;
        struct buf back auto_buf = BUF_INIT;
        struct err e = ERR_INIT;
        ok(through(gzip_compress_new(), plain, PIECES[i], &packed, &e) == 0, "compressed");
        ok(through(gzip_decompress_new(), &packed, PIECES[i], &back, &e) == 0, "decompressed");
        ok(same(plain, &back), "in pieces of %zu", PIECES[i]);
    }
}

static void test_members(void)
{
    struct buf packed auto_buf = BUF_INIT;
    struct buf back auto_buf = BUF_INIT;
    struct err e = ERR_INIT;
    gzip_compress(&packed, "ab", 2, &e);
    gzip_compress(&packed, "", 0, &e);
    gzip_compress(&packed, "cd", 2, &e);
    ok(through(gzip_decompress_new(), &packed, 1, &back, &e) == 0, "three members");
    is_str(buf_str(&back), "abcd", "are one text");
    buf_clear(&back);
    buf_addc(&packed, 'x');
    ok(gzip_decompress(&back, packed.data, packed.len, 100, &e) < 0, "bytes after the last");
    is_int(e.code, ERR_INVALID, "are no member");
}

static void test_damage(const struct buf *plain)
{
    struct buf packed auto_buf = BUF_INIT;
    struct err ignored = ERR_INIT;
    gzip_compress(&packed, plain->data, plain->len, &ignored);
    for (size_t cut = 0; cut < packed.len; cut += 1 + packed.len / 50) {
        struct buf back auto_buf = BUF_INIT;
        struct err e = ERR_INIT;
        ok(gzip_decompress(&back, packed.data, cut, plain->len, &e) < 0, "cut at %zu", cut);
        is_int(e.code, ERR_INVALID, "is told");
    }
    struct buf back auto_buf = BUF_INIT;
    struct err e = ERR_INIT;
    packed.data[packed.len - 6] ^= 1;
    ok(gzip_decompress(&back, packed.data, packed.len, plain->len, &e) < 0, "a wrong checksum");
    is_int(e.code, ERR_INVALID, "is told");
    struct err e2 = ERR_INIT;
    ok(gzip_decompress(&back, "plain text", 10, 100, &e2) < 0, "no gzip at all");
    is_int(e2.code, ERR_INVALID, "is told");
}

static void test_bomb(void)
{
    struct buf zeros auto_buf = BUF_INIT;
    struct buf packed auto_buf = BUF_INIT;
    struct buf back auto_buf = BUF_INIT;
    struct err e = ERR_INIT;
    memset(buf_room(&zeros, 1 << 20), 0, 1 << 20);
    buf_took(&zeros, 1 << 20);
    gzip_compress(&packed, zeros.data, zeros.len, &e);
    ok(packed.len < 8192, "a megabyte of zeros is %zu bytes", packed.len);
    ok(gzip_decompress(&back, packed.data, packed.len, 65536, &e) < 0, "a limit");
    is_int(e.code, ERR_LIMIT, "is told as such");
    ok(back.len <= 65536, "and no more is made than that");
    buf_clear(&back);
    struct err e2 = ERR_INIT;
    ok(gzip_decompress(&back, packed.data, packed.len, 1 << 20, &e2) == 0, "it just fits");
    ok(same(&back, &zeros), "and is the same");
}

static void test_stopped(const struct buf *plain)
{
    struct err e = ERR_INIT;
    struct gzip *g = gzip_compress_new();
    int rc = gzip_feed(g, plain->data, plain->len, stop, NULL, &e);
    if (rc == 0)
        rc = gzip_finish(g, stop, NULL, &e);
    ok(rc < 0 && e.code == ERR_CANCELED, "a sink may stop it");
    gzip_free(g);
    gzip_free(NULL);
}

int main(void)
{
    struct buf plain auto_buf = BUF_INIT;
    uint32_t seed = 1;
    for (int i = 0; i < 60000; i++) {
        seed = seed * 1664525 + 1013904223;
        buf_addc(&plain, (char)(i % 3 ? seed >> 24 : 'x'));
    }
    test_pieces(&plain);
    test_pieces(&(struct buf){0});
    test_members();
    test_damage(&plain);
    test_bomb();
    test_stopped(&plain);
    return tap_done();
}
