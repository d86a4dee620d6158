// SPDX-License-Identifier: Apache-2.0
// The room of a volume: its counts and its lock between processes, and files that are removed while
// they are open.
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/volume/removed.h"
#include "tests/lib/harness/tap.h"

#define LIMIT (64 * 4096)

static char dir[] = "/tmp/test-space-XXXXXX";

// After a measurement there is a rest of four times what it took, however slow the machine was.
static bool may_measure_soon(const struct space *s)
{
    int64_t end_ms = clock_mono_ms() + 60000;
    while (!space_may_err(s) && clock_mono_ms() < end_ms)
        sched_yield();
    return space_may_err(s);
}

static void test_counts(void)
{
    struct err e = ERR_INIT;
    struct space one, two;
    is_int(space_make(&one, LIMIT, &e), 0, "made");
    ok(!space_take(&one, 1), "there is no room before a measurement");
    space_set_used(&one, 0, clock_mono_ms());
    is_int(space_open(&two, space_share(&one, &e), &e), 0, "a second process's view");
    ok(space_take(&two, LIMIT / 2) && space_expect(&one, LIMIT / 2), "each takes a half");
    ok(!space_take(&two, 1) && !space_expect(&two, 1), "then there is no room");
    ok(space_take(&two, 0), "but it is within the limit");
    space_arrived(&one, LIMIT / 2);
    ok(space_take(&two, LIMIT / 2), "what an upload gave back");
    space_correct(&two, 1);
    ok(!space_take(&one, 0), "one byte too much");
    ok(!space_take(&one, INT64_MAX), "no overflow");
    ok(ftruncate(one.fd, 0) < 0, "nobody can cut the counts");
    space_fini(&two);
    space_fini(&one);
    is_int(space_open(&two, memfd_create("small", 0), &e), -1, "another file: %s", e.msg);
}

static void test_rest(void)
{
    const int64_t hour_ms = 3600 * 1000;
    struct err e = ERR_INIT;
    struct space s;
    space_make(&s, LIMIT, &e);
    ok(space_may_err(&s), "nothing was measured");
    space_set_used(&s, 0, clock_mono_ms());
    space_doubt(&s);
    ok(may_measure_soon(&s), "a doubt after a measurement that took no time");
    space_set_used(&s, 0, clock_mono_ms() - hour_ms);
    space_doubt(&s);
    ok(!space_may_err(&s), "after a long one, no doubt makes another at once");
    ok(space_is_doubted(&s), "but the doubt stays");
    space_fini(&s);
}

static void test_lock(void)
{
    struct err e = ERR_INIT;
    struct space one, two;
    space_make(&one, LIMIT, &e);
    space_open(&two, space_share(&one, &e), &e);
    ok(space_try_lock(&one), "locked");
    ok(!space_try_lock(&two), "for all others");
    space_unlock(&one);
    pid_t pid = fork();
    if (pid == 0) {
        space_lock(&two);
        _exit(0);
    }
    waitpid(pid, NULL, 0);
    // The child's descriptor is the parent's, too, which closes it here.
    space_fini(&two);
    ok(space_try_lock(&one), "the lock of a process ends with it");
    space_fini(&one);
}

static int64_t measured(const struct space *s, int root)
{
    return removed_measure(s, root) ? space_used(s) : -1;
}

static void test_measurement(void)
{
    struct err e = ERR_INIT;
    struct space s;
    int root auto_close = open(dir, O_PATH | O_DIRECTORY);
    space_make(&s, LIMIT, &e);
    is_int(measured(&s, root), 0, "nothing");
    mkdirat(root, "d", 0700);
    is_int(symlinkat("/etc", root, "l"), 0, "a link");
    close(openat(root, "d/empty", O_CREAT | O_WRONLY, 0600));
    is_int(measured(&s, root), 3 * SPACE_NAME_BYTES, "each name counts");
    is_int(linkat(root, "d/empty", root, "again", 0), 0, "a second name");
    is_int(measured(&s, root), 4 * SPACE_NAME_BYTES, "a second name, too");
    is_int(removed_depth(root, "d", 10), 0, "no directory in it");
    mkdirat(root, "d/e", 0700);
    mkdirat(root, "d/e/f", 0700);
    is_int(removed_depth(root, "d", 10), 2, "two in each other");
    is_int(removed_depth(root, "d", 1), 1, "it looks no further");
    ok(removed_make_room(&s, root, LIMIT / 2), "room");
    ok(!removed_make_room(&s, root, LIMIT), "no room");
    space_doubt(&s);
    ok(may_measure_soon(&s), "a doubt");
    ok(removed_make_room(&s, root, LIMIT - 6 * SPACE_NAME_BYTES), "measured again");
    space_fini(&s);
    dir_remove(dir, &e);
    mkdir(dir, 0700);
}

static bool is_there(int root)
{
    struct stat st;
    return fstatat(root, REMOVED_DIR, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

static void test_files_in_use(void)
{
    struct err e = ERR_INIT;
    struct space s;
    int hold = -1;
    int root auto_close = open(dir, O_PATH | O_DIRECTORY);
    int used = openat(root, "used", O_CREAT | O_RDWR, 0600);
    int other auto_close = openat(root, "other", O_CREAT | O_RDWR, 0600);
    space_make(&s, LIMIT, &e);
    ok(removed_note_open(used), "noted");
    is_int(removed_look(root, "used", &hold), REMOVED_IN_USE, "in use");
    is_int(removed_look(root, "other", &hold), REMOVED_UNUSED, "unused");
    ok(!removed_note_open(other), "nobody opens it while it is held");
    unlinkat(root, "other", 0);
    mem_close_fd(&hold);
    ok(!removed_note_open(other), "nor after its last name has gone");
    is_int(removed_look(root, "none", &hold), -1, "no such name");
    is_int(removed_bury(root, root, "used"), 0, "buried");
    is_int(measured(&s, root), SPACE_NAME_BYTES, "it still counts");
    close(used);
    is_int(measured(&s, root), 0, "until it is closed");
    ok(!is_there(root), "no directory is left");

    mkdirat(root, "tree", 0700);
    used = openat(root, "tree/used", O_CREAT | O_RDWR, 0600);
    ok(removed_note_open(used), "a file in a tree");
    close(openat(root, "tree/unused", O_CREAT | O_RDWR, 0600));
    is_int(removed_bury(root, root, "tree"), 0, "the tree is buried");
    is_int(measured(&s, root), 2 * SPACE_NAME_BYTES, "the file in use, and its directory");
    close(used);
    is_int(measured(&s, root), 0, "nothing is left");
    space_fini(&s);
}

int main(void)
{
    if (!mkdtemp(dir))
        return 1;
    test_counts();
    test_rest();
    test_lock();
    test_measurement();
    test_files_in_use();
    dir_remove(dir, NULL);
    return tap_done();
}
