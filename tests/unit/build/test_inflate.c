// SPDX-License-Identifier: Apache-2.0
// Archives of a plan: with gzip, without it, damaged, and larger than the disk.
#include "sandbox-backend/build/inflate.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/net/gzip.h"
#include "tests/lib/harness/tap.h"

#define BOMB_BYTES (8 << 20)

// Return what comes out, or the error. New string.
static char *inflated(const char *data, size_t len, int64_t max)
{
    struct err e = ERR_INIT;
    struct buf out = BUF_INIT;
    int fd auto_close = inflate_archive(fd_open_memory("archive", data, len, NULL), max, &e);
    if (fd < 0)
        return xstrdup(e.msg);
    if (fd_read_all(fd, BOMB_BYTES, &out, &e) < 0)
        abort();
    return out.len ? buf_take(&out) : xstrdup("");
}

static void check(const char *data, size_t len, int64_t max, const char *expected, const char *what)
{
    char *got auto_free = inflated(data, len, max);
    is_str(got, expected, "%s", what);
}

int main(void)
{
    struct buf packed auto_buf = BUF_INIT, bomb auto_buf = BUF_INIT;
    char *zeros auto_free = xcalloc(1, BOMB_BYTES);
    if (gzip_compress(&packed, "an archive", 10, NULL) < 0 ||
        gzip_compress(&bomb, zeros, BOMB_BYTES, NULL) < 0)
        abort();
    check("an archive", 10, 5, "an archive", "an archive without gzip stays as it is");
    check("", 0, 5, "", "an empty one too");
    check(packed.data, packed.len, 10, "an archive", "gzip is taken off");
    check(packed.data, packed.len, 9, "it unpacks to more than the disk of the template",
          "up to the limit");
    check(bomb.data, bomb.len, BOMB_BYTES / 2, "it unpacks to more than the disk of the template",
          "a bomb is refused");
    check(packed.data, packed.len - 4, 100, "the gzip data ends too early",
          "an end that is missing is found");
    packed.data[packed.len - 6] ^= 1;
    check(packed.data, packed.len, 100, "invalid gzip data: incorrect data check",
          "a changed byte is found");
    return tap_done();
}
