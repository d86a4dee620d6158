// SPDX-License-Identifier: Apache-2.0
// The checksum of a file is the same for the same contents, and differs after any change.
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/drivers/microvm/image/checksum.h"
#include "tests/lib/harness/tap.h"

#define BYTES (300 * 1024 + 13) // some chunks, and a part of a block

static char path[] = "/tmp/cubby-checksum-XXXXXX";
static char data[BYTES];

static uint64_t sum_of(size_t len)
{
    struct err e = ERR_INIT;
    uint64_t sum = 0;
    if (file_replace(path, data, len, 0600, &e) < 0 || checksum_file(path, len, &sum, &e) < 0)
        ok(false, "%s", e.msg);
    return sum;
}

static void test_changes(void)
{
    uint64_t whole = sum_of(BYTES);
    ok(sum_of(BYTES) == whole, "the same again");
    static const size_t AT[] = {0, 7, 8, 31, 32, 128 * 1024 - 1, 128 * 1024, BYTES - 1};
    for (size_t i = 0; i < sizeof AT / sizeof *AT; i++) {
        data[AT[i]] ^= 0x40;
        ok(sum_of(BYTES) != whole, "one bit of byte %zu", AT[i]);
        data[AT[i]] ^= 0x40;
    }
    memset(data + 4096, 0, 4096);
    ok(sum_of(BYTES) != whole, "a page");
}

static void test_lengths(void)
{
    memset(data, 0, sizeof data);
    uint64_t none = sum_of(0), one = sum_of(1), two = sum_of(2), block = sum_of(32);
    ok(none != one && one != two && two != block && none != block, "zeros count");
    ok(sum_of(128 * 1024) != sum_of(128 * 1024 + 1), "at the end of a chunk, too");
}

static void test_more_than_asked_for(void)
{
    struct err e = ERR_INIT;
    uint64_t sum, without = sum_of(1000);
    ok(checksum_file(path, BYTES, &sum, &e) == 0 && sum == without, "a limit is no part of it");
    is_int(checksum_file(path, 999, &sum, &e), -1, "a byte more");
    is_int(e.code, ERR_TOO_LARGE, "is said");
}

static void test_missing(void)
{
    struct err e = ERR_INIT;
    uint64_t sum;
    unlink(path);
    is_int(checksum_file(path, BYTES, &sum, &e), -1, "no file");
    is_int(e.code, ERR_NOT_FOUND, "is said");
}

int main(void)
{
    close(mkstemp(path));
    srandom(1);
    for (size_t i = 0; i < BYTES; i++)
        data[i] = (char)random();
    test_changes();
    test_lengths();
    test_more_than_asked_for();
    test_missing();
    return tap_done();
}
