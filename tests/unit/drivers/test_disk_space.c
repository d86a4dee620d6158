// SPDX-License-Identifier: Apache-2.0
// The cause of a failure on a disk that may be full.
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/drivers/host/disk_space.h"
#include "tests/lib/harness/tap.h"

#define MIB     (1LL << 20)
#define SURE    "is full"
#define PERHAPS "may be full"

static char dir[] = "/tmp/cubby-disk-space-XXXXXX";

// A tool fails with `said` in its log, after `least` bytes were free.
static void check(int64_t least, const char *said, enum err_code code, const char *msg,
                  const char *want, enum err_code want_code)
{
    struct disk_space s;
    struct err e = ERR_INIT;
    char *log auto_free = str_printf("%s/log", dir), *whole auto_free = NULL;
    file_replace(log, said, strlen(said), 0600, NULL);
    disk_space_init(&s, dir, "CUBBY_HOME");
    s.least = least;
    err_set(&e, code, "%s", msg);
    bool changed = disk_space_explain(&s, log, &e);
    whole = want ? str_printf("the host's disk %s: only 3 MB were free in %s; make room, or set "
                              "CUBBY_HOME to a directory on a larger file system: %s",
                              want, dir, msg)
                 : xstrdup(msg);
    is_str(e.msg, whole, "%s after \"%s\", with %lld MB", msg, said, (long long)(least / MIB));
    is_int(e.code, want_code, "the code");
    is_int(changed, want != NULL, "changed");
}

static void test_causes(void)
{
    static const char MKFS[] = "mkfs.erofs failed with status 1";
    static const char GO[] = "level=fatal msg=\"write blob: no space left on device\"\n";
    check(3 * MIB, "write: No space left on device\n", ERR_INTERNAL, MKFS, SURE, ERR_NO_SPACE);
    check(3 * MIB, GO, ERR_INTERNAL, MKFS, SURE, ERR_NO_SPACE);
    check(3 * MIB, "bad option\n", ERR_INTERNAL, MKFS, PERHAPS, ERR_INTERNAL);
    check(3 * MIB, "", ERR_NO_SPACE, "write x", SURE, ERR_NO_SPACE);
    check(3 * MIB, "", ERR_INVALID, "layer 2: No space left on device", SURE, ERR_NO_SPACE);
    // The words can be the guest's, whose own disk is full.
    check(600 * MIB, GO, ERR_INTERNAL, MKFS, NULL, ERR_INTERNAL);
    check(3 * MIB, GO, ERR_NO_SPACE, "the host's disk is full: 5 MB are free", NULL, ERR_NO_SPACE);
}

static void test_temporary(void)
{
    struct disk_space s;
    struct err e = ERR_INIT;
    disk_space_init(&s, dir, "TMPDIR");
    s.least = 3 * MIB;
    s.needs = DISK_WORDS;
    err_set(&e, ERR_INTERNAL, "tar failed");
    ok(!disk_space_explain(&s, NULL, &e) && strcmp(e.msg, "tar failed") == 0, "a small disk");
    ok(!disk_space_explain(&s, "/nonexistent/log", &e), "an absent log tells nothing");
    e = ERR_INIT;
    err_set(&e, ERR_INVALID, "COPY: tar: x: No space left on device");
    s.needs = DISK_CODE;
    ok(!disk_space_explain(&s, NULL, &e), "the words can be a guest's");
    e.code = ERR_NO_SPACE;
    ok(disk_space_explain(&s, NULL, &e) && strstr(e.msg, "or set TMPDIR to"), "%s", e.msg);
    e = ERR_INIT;
    err_set(&e, ERR_INTERNAL, "QEMU was killed (signal 7)");
    s.least = MIB / 2;
    ok(disk_space_explain(&s, NULL, &e) && strstr(e.msg, "disk is full"), "%s", e.msg);
    e = ERR_INIT;
    ok(!disk_space_explain(&s, NULL, &e) && !err_is(&e), "no error");
}

// The fewest bytes count, because a tool that fails may remove its files.
static void test_looks(void)
{
    struct disk_space s;
    disk_space_init(&s, dir, "CUBBY_HOME");
    ok(s.least > 0, "the first look");
    s.least = 5;
    disk_space_look(&s);
    is_int(s.least, 5, "more room changes nothing");
    disk_space_init(&s, "/nonexistent", "CUBBY_HOME");
    is_int(s.least, -1, "a directory that is not there");
}

static void test_log(void)
{
    char *path auto_free = str_printf("%s/reserved", dir);
    struct err e = ERR_INIT;
    struct stat st;
    int log = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    ok(write(log, "first\n", 6) == 6, "a log");
    disk_space_reserve_log(log);
    ok(fstat(log, &st) == 0 && st.st_size == 6 && st.st_blocks >= 512, "has room beyond its end");
    ok(write(log, "last\n", 5) == 5, "its last words");
    is_int(disk_space_release_log(log, &e), 0, "the room is given back");
    ok(fstat(log, &st) == 0 && st.st_size == 11 && st.st_blocks <= 16, "and the words stay");
    close(log);
}

int main(void)
{
    if (!mkdtemp(dir))
        return 1;
    test_causes();
    test_temporary();
    test_looks();
    test_log();
    dir_remove(dir, NULL);
    return tap_done();
}
