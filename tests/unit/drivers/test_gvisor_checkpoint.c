// SPDX-License-Identifier: Apache-2.0
// The files of a saved machine: what is checked is what is read.
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/drivers/gvisor/checkpoint.h"
#include "tests/lib/harness/tap.h"

static char dir[] = "/tmp/gvisor-checkpoint-XXXXXX";
static const struct bundle_template TEMPLATE = {
    .cpus = 1, .memory_mb = 128, .disk_mb = 256, .rootfs = "abc"};

static void empty(void)
{
    int fd auto_close = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    checkpoint_empty_at(fd);
}

static void make_image(const char *text)
{
    int fds[CHECKPOINT_FILES];
    int64_t bytes = 0;
    struct err e = ERR_INIT;
    is_int(checkpoint_create(dir, fds, &e), 0, "the files are made: %s", e.msg);
    for (int i = 0; i < CHECKPOINT_FILES; i++)
        fd_write_all(fds[i], text, strlen(text), &e);
    checkpoint_close(fds);
    is_int(checkpoint_seal(dir, &TEMPLATE, false, &bytes, &e), 0, "and sealed: %s", e.msg);
}

static void test_the_files_that_were_checked(void)
{
    int fds[CHECKPOINT_FILES];
    struct err e = ERR_INIT;
    char text[8] = "";
    make_image("first");
    is_int(checkpoint_open(dir, &TEMPLATE, fds, &e), 0, "an image is opened: %s", e.msg);
    empty();
    make_image("other");
    for (int i = 0; i < CHECKPOINT_FILES; i++)
        ok(pread(fds[i], text, 5, 0) == 5 && str_eq(text, "first"),
           "a later image in its place is not what is read");
    checkpoint_close(fds);
}

static void test_what_is_refused(void)
{
    int fds[CHECKPOINT_FILES];
    struct err e = ERR_INIT, damaged = ERR_INIT, missing = ERR_INIT;
    struct bundle_template larger = TEMPLATE;
    larger.disk_mb = 512;
    make_image("first");
    is_int(checkpoint_check(dir, &larger, &e), -1, "another size: %s", e.msg);
    is_int(e.code, ERR_PRECONDITION, "is said");
    char *path auto_free = str_printf("%s/pages.img", dir);
    is_int(truncate(path, 2), 0, "a file is cut off");
    is_int(checkpoint_open(dir, &TEMPLATE, fds, &damaged), -1, "it is refused: %s", damaged.msg);
    ok(damaged.code == ERR_INVALID && fds[CHECKPOINT_STATE] == -1, "with no file open");
    empty();
    is_int(checkpoint_check(dir, &TEMPLATE, &missing), -1, "no image: %s", missing.msg);
    is_int(missing.code, ERR_NOT_FOUND, "is said");
}

static void test_a_full_disk(void)
{
    struct err full = ERR_INIT, other = ERR_INIT;
    err_set(&full, ERR_NO_SPACE, "full");
    err_set(&other, ERR_INTERNAL, "other");
    ok(checkpoint_fills_disk(dir, &full), "a write that failed for want of room");
    ok(!checkpoint_fills_disk(dir, &other), "any other failure on a disk with room");
    ok(!checkpoint_fills_disk("/nonexistent/dir", &other), "or on one whose room is unknown");
}

int main(void)
{
    ok(mkdtemp(dir), "a directory");
    test_the_files_that_were_checked();
    test_what_is_refused();
    test_a_full_disk();
    dir_remove(dir, NULL);
    return tap_done();
}
