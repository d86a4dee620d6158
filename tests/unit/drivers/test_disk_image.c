// SPDX-License-Identifier: Apache-2.0
// The check of disks that a hostile QEMU has left. Each case is also tried without its change, and
// then accepted.
#include "sandbox-backend/drivers/microvm/image/disk_image.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sandbox-backend/base/mem.h"
#include "tests/lib/harness/tap.h"

// As qemu-img makes it: the head, the names of features (shortened to one), the end.
static const unsigned char GOOD[512] = {
    'Q',          'F',      'I',       0xfb,     0,          0,          0,        3,
    [23] = 16,    [28] = 2, [39] = 16, [45] = 3, [53] = 1,   [59] = 1,   [99] = 4, [103] = 112,
    [112] = 0x68, 0x03,     0xf8,      0x57,     [119] = 48, [122] = 'd'};

static char path[] = "/tmp/cubby-disk-XXXXXX";

static int check(const unsigned char *bytes, size_t len, struct err *e)
{
    int fd auto_close = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);
    if (fd < 0 || write(fd, bytes, len) != (ssize_t)len)
        abort();
    *e = (struct err)ERR_INIT;
    return disk_image_check(path, e);
}

// The good one with these bytes at a place.
static void refuses(size_t at, const char *bytes, size_t len, const char *why)
{
    unsigned char changed[sizeof GOOD];
    struct err e;
    memcpy(changed, GOOD, sizeof changed);
    memcpy(changed + at, bytes, len);
    ok(check(changed, sizeof changed, &e) != 0 && e.code == ERR_INVALID && strstr(e.msg, why),
       "%s: %s", why, e.msg);
}

int main(void)
{
    struct err e;
    int fd auto_close = mkstemp(path);
    ok(fd >= 0 && check(GOOD, sizeof GOOD, &e) == 0, "as it was made");
    unsigned char dirty[sizeof GOOD];
    memcpy(dirty, GOOD, sizeof dirty);
    dirty[79] = 1;
    ok(check(dirty, sizeof dirty, &e) == 0, "in use");
    refuses(0, "raw!", 4, "not qcow2");
    refuses(7, "\2", 1, "version 3");
    refuses(8, "\0\0\0\0\0\0\2\0\0\0\0\x0b", 12, "backing file");
    refuses(16, "\0\0\0\x0b", 4, "backing file");
    refuses(35, "\2", 1, "encrypted");
    refuses(63, "\1", 1, "snapshots");
    refuses(79, "\4", 1, "features");   // an external file of data
    refuses(79, "\x10", 1, "features"); // extended L2 entries
    refuses(72, "\x80", 1, "features");
    refuses(168, "DATA\0\0\0\x0b/etc/shadow", 19, "names another file");
    refuses(168, "\xe2\x79\x2a\xca\0\0\0\3raw", 11,
            "names another file");                                // the backing file's format
    refuses(168, "\x05\x37\xbe\x77\0\0\0\x10", 8, "other parts"); // LUKS
    refuses(116, "\xff\xff\xff\xff", 4, "no end");
    refuses(116, "\0\0\x01\xf0", 4, "no end");
    refuses(103, "\0", 1, "length");
    refuses(100, "\xff\xff\xff\xf8", 4, "no end");
    for (size_t len = 0; len < 176; len += 5)
        if (check(GOOD, len, &e) == 0)
            ok(false, "%zu bytes are taken", len);
    unlink(path);
    ok(disk_image_check(path, &e) != 0, "not there");
    ok(symlink("/dev/null", path) == 0 && disk_image_check(path, &e) != 0, "a link");
    unlink(path);
    return tap_done();
}
