// SPDX-License-Identifier: Apache-2.0
// The archive of a template: what is written is read, and nothing else is.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/template/move/archive.h"
#include "tests/lib/harness/tap.h"

#define DATA_BYTES 3000

static char dir[] = "/tmp/cubby-archive-XXXXXX";

static char *path_of(const char *name)
{
    return str_printf("%s/%s", dir, name);
}

static void fill(char *data)
{
    for (int i = 0; i < DATA_BYTES; i++)
        data[i] = (char)(i * 7 + i / 13);
}

static struct sha256 write_one(const char *path)
{
    struct err e = ERR_INIT;
    struct sha256 digest = {{0}};
    char data[DATA_BYTES];
    json_t *manifest = json_pack("{s:i}", "format", 1);
    struct archive_writer *w = archive_create(path, 0600, manifest, &e);
    fill(data);
    ok(w && archive_write(w, data, 1, &e) == 0 &&
           archive_write(w, data + 1, DATA_BYTES - 1, &e) == 0 &&
           archive_write_end(w, &digest, &e) == 0,
       "is written %s", e.msg);
    archive_writer_free(w);
    json_decref(manifest);
    return digest;
}

// Read an archive of write_one. Return whether it is whole.
static bool read_one(const char *path, struct sha256 *digest, struct err *e)
{
    json_t *manifest = NULL;
    char data[DATA_BYTES], wanted[DATA_BYTES];
    struct archive_reader *r = archive_open(path, &manifest, e);
    fill(wanted);
    bool whole = r && archive_read(r, data, DATA_BYTES, e) == 0 &&
                 archive_read_end(r, digest, e) == 0 && memcmp(data, wanted, DATA_BYTES) == 0;
    archive_reader_free(r);
    json_decref(manifest);
    return whole;
}

static void test_round_trip(void)
{
    char *path auto_free = path_of("whole");
    struct err e = ERR_INIT;
    struct sha256 read = {{0}};
    struct sha256 written = write_one(path);
    ok(read_one(path, &read, &e), "is read %s", e.msg);
    ok(sha256_equal(&read, &written), "with the same digest");
    ok(!archive_create(path, 0600, json_null(), &e) && e.sys, "a file is not overwritten");
}

static void test_damage(void)
{
    char *path auto_free = path_of("damaged");
    struct buf whole auto_buf = BUF_INIT;
    struct sha256 digest;
    write_one(path);
    file_read(path, 1 << 20, &whole, NULL);
    int changed = 0, cut = 0;
    for (size_t i = 0; i < whole.len; i++) {
        struct err e = ERR_INIT;
        whole.data[i] ^= 0x10;
        file_replace(path, whole.data, whole.len, 0600, NULL);
        changed += !read_one(path, &digest, &e) && e.code == ERR_INVALID;
        whole.data[i] ^= 0x10;
        e = ERR_INIT;
        file_replace(path, whole.data, i, 0600, NULL);
        cut += !read_one(path, &digest, &e) && e.code == ERR_INVALID;
    }
    is_int(cut, whole.len, "each shorter file is refused");
    // Some bits of the frame's head say nothing about the contents.
    ok(changed >= (int)whole.len - 2, "each changed byte is noticed: %d of %zu", changed,
       whole.len);
    buf_addc(&whole, 'x');
    file_replace(path, whole.data, whole.len, 0600, NULL);
    struct err e = ERR_INIT;
    ok(!read_one(path, &digest, &e) && strstr(e.msg, "follow"), "bytes after its end: %s", e.msg);
}

static void test_others(void)
{
    char *path auto_free = path_of("other");
    static const char *const TEXTS[] = {"", "hello", "(\xb5/\xfd\x04", "\x1f\x8b\x08"};
    for (size_t i = 0; i < ARRAY_LEN(TEXTS); i++) {
        struct err e = ERR_INIT;
        struct sha256 digest;
        file_replace(path, TEXTS[i], strlen(TEXTS[i]), 0600, NULL);
        ok(!read_one(path, &digest, &e) && e.code == ERR_INVALID, "no archive: %s", e.msg);
    }
}

int main(void)
{
    if (!mkdtemp(dir))
        return 1;
    test_round_trip();
    test_damage();
    test_others();
    dir_remove(dir, NULL);
    return tap_done();
}
