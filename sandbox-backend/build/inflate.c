// SPDX-License-Identifier: Apache-2.0
// Archives of a plan, without their compression.
#include "sandbox-backend/build/inflate.h"

#include <errno.h>
#include <unistd.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/net/gzip.h"

#define BLOCK_BYTES 65536

struct inflating {
    int to;
    int64_t left; // bytes that may still come out
    struct err *e;
};

static int on_piece(const char *data, size_t len, void *ctx)
{
    struct inflating *f = ctx;
    f->left -= (int64_t)len;
    if (f->left < 0)
        return err_set(f->e, ERR_TOO_LARGE, "it unpacks to more than the disk of the template");
    return fd_write_all(f->to, data, len, f->e) < 0 ? err_wrap(f->e, "write to %s", fd_temp_dir())
                                                    : 0;
}

static int inflate_to(struct gzip *g, int from, struct inflating *f)
{
    char block[BLOCK_BYTES];
    for (ssize_t n; (n = read(from, block, sizeof block)) != 0;) {
        if (n < 0 && errno != EINTR)
            return err_sys(f->e, errno, "read it");
        if (n > 0 && gzip_feed(g, block, (size_t)n, on_piece, f, f->e) < 0)
            return -1;
    }
    return gzip_finish(g, on_piece, f, f->e);
}

int inflate_archive(int fd, int64_t max, struct err *e)
{
    unsigned char magic[2] = {0};
    int from auto_close = fd;
    if (pread(from, magic, sizeof magic, 0) != (ssize_t)sizeof magic || magic[0] != 0x1f ||
        magic[1] != 0x8b)
        return steal_fd(&from);
    int to auto_close = fd_open_temp(e);
    struct gzip *g = to < 0 ? NULL : gzip_decompress_new();
    struct inflating f = {.to = to, .left = max, .e = e};
    if (!g)
        return to < 0 ? -1 : err_set(e, ERR_INTERNAL, "there is no memory to decompress it");
    int result = inflate_to(g, from, &f);
    gzip_free(g);
    if (result == 0 && lseek(to, 0, SEEK_SET) < 0)
        result = err_sys(e, errno, "rewind a temporary file");
    return result < 0 ? -1 : steal_fd(&to);
}
