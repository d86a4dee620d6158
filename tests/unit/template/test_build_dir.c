// SPDX-License-Identifier: Apache-2.0
// The build directory of a template: two builds at once, the leftovers of dead builds, and the
// swap.
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/drivers/microvm/image/template.h"
#include "sandbox-backend/template/build_dir.h"
#include "tests/lib/harness/tap.h"

static char home[] = "/tmp/cubby-test-XXXXXX";
static char templates[sizeof home + sizeof "/templates"];

static ino_t wanted; // of the file that test_sync looks at
static bool was_synced;

// In place of the C library's: the same, and it notes whether the wanted file was synced.
int fsync(int fd)
{
    struct stat st;
    was_synced |= fstat(fd, &st) == 0 && st.st_ino == wanted;
    return (int)syscall(SYS_fsync, fd);
}

static void mark(const char *dir, const char *text)
{
    char *path auto_free = str_printf("%s/mark", dir);
    file_write_atomic(path, text, strlen(text), 0600, NULL);
}

static void has_mark(const char *name, const char *text)
{
    struct buf got auto_buf = BUF_INIT;
    char *path auto_free = str_printf("%s/templates/%s/mark", home, name);
    file_read(path, 100, &got, NULL);
    is_str(buf_str(&got), text, "what is in %s", name);
}

static void test_commit(void)
{
    struct build_dir p;
    struct err e = ERR_INIT;
    is_int(build_dir_open(&p, templates, "a", false, &e), 0, "opens: %s", e.msg);
    char *first auto_free = xstrdup(p.path);
    mark(p.path, "first");
    is_int(build_dir_commit(&p, &e), 0, "commits: %s", e.msg);
    build_dir_close(&p);
    has_mark("a", "first");
    ok(!file_exists(first), "nothing is left of the build");

    is_int(build_dir_open(&p, templates, "a", false, &e), 0, "opens again: %s", e.msg);
    char *second auto_free = xstrdup(p.path);
    mark(p.path, "second");
    has_mark("a", "first");
    is_int(build_dir_commit(&p, &e), 0, "replaces: %s", e.msg);
    build_dir_close(&p);
    has_mark("a", "second");
    ok(!file_exists(second), "the old one is gone");
}

// A part of a template that is there. What an interrupted build left of the part goes.
static void test_commit_of_a_part(void)
{
    struct build_dir p;
    struct err e = ERR_INIT;
    struct buf got auto_buf = BUF_INIT;
    is_int(build_dir_open(&p, templates, "a", false, &e), 0, "opens: %s", e.msg);
    char *part auto_free = str_printf("%s/part", p.path);
    char *old auto_free = str_printf("%s/a/part/old", templates);
    char *new auto_free = str_printf("%s/a/part/mark", templates);
    dir_make(part, 0700, NULL);
    mark(part, "third");
    dir_make(old, 0700, NULL);
    is_int(build_dir_commit_part(&p, "part", &e), 0, "commits: %s", e.msg);
    build_dir_close(&p);
    has_mark("a", "second");
    file_read(new, 100, &got, NULL);
    is_str(buf_str(&got), "third", "the part is there");
    ok(!file_exists(old), "what was left of it is gone");

    is_int(build_dir_open(&p, templates, "none", false, &e), 0, "opens: %s", e.msg);
    char *lost auto_free = str_printf("%s/part", p.path);
    dir_make(lost, 0700, NULL);
    ok(build_dir_commit_part(&p, "part", &e) < 0, "a removed template gets none: %s", e.msg);
    build_dir_close(&p);
    ok(!file_exists(lost), "nothing is left of the build");
}

static void test_sync(void)
{
    struct build_dir p;
    struct err e = ERR_INIT;
    struct stat st = {0};
    is_int(build_dir_open(&p, templates, "s", false, &e), 0, "opens: %s", e.msg);
    char *below auto_free = str_printf("%s/gvisor", p.path);
    char *file auto_free = str_printf("%s/mark", below);
    dir_make(below, 0700, NULL);
    mark(below, "below");
    ok(stat(file, &st) == 0, "there is a file in a directory of the template");
    wanted = st.st_ino;
    was_synced = false;
    is_int(build_dir_commit(&p, &e), 0, "commits: %s", e.msg);
    ok(was_synced, "and has synced that file");
    build_dir_close(&p);
}

static void test_give_up(void)
{
    struct build_dir p;
    struct err e = ERR_INIT;
    is_int(build_dir_open(&p, templates, "a", false, &e), 0, "opens");
    char *dir auto_free = xstrdup(p.path);
    mark(dir, "third");
    build_dir_close(&p);
    ok(!file_exists(dir), "a build that was given up leaves nothing");
    has_mark("a", "second");
}

static void test_two_at_once(void)
{
    struct build_dir one, two, other;
    struct err e = ERR_INIT;
    is_int(build_dir_open(&one, templates, "a", false, &e), 0, "the first");
    is_int(build_dir_open(&two, templates, "a", false, &e), -1, "not the second of the same name");
    is_int(e.code, ERR_CONFLICT, "%s", e.msg);
    e = ERR_INIT;
    is_int(build_dir_open(&other, templates, "a-b", false, &e), 0, "one of another name: %s",
           e.msg);
    ok(file_exists(one.path), "the first is undisturbed");
    build_dir_close(&other);
    build_dir_close(&one);
}

// A descriptor that a tool of a killed build still has keeps its directory; a dead one does not.
static void test_sweep(void)
{
    struct build_dir p;
    struct err e = ERR_INIT;
    char *dead auto_free = str_printf("%s/templates/.build-x-0123abcd", home);
    char *alive auto_free = str_printf("%s/templates/.build-y-0123abcd", home);
    dir_make(dead, 0700, NULL);
    dir_make(alive, 0700, NULL);
    mark(dead, "half");
    int fd auto_close = open(alive, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    flock(fd, LOCK_EX);
    is_int(build_dir_open(&p, templates, "x", false, &e), 0, "opens: %s", e.msg);
    ok(!file_exists(dead), "what a dead build left is removed");
    ok(file_exists(alive), "what somebody holds is not");
    build_dir_close(&p);
}

int main(void)
{
    if (!mkdtemp(home))
        return 1;
    snprintf(templates, sizeof templates, "%s/templates", home);
    test_commit();
    test_commit_of_a_part();
    test_sync();
    test_give_up();
    test_two_at_once();
    test_sweep();
    dir_remove(home, NULL);
    return tap_done();
}
