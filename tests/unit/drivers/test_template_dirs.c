// SPDX-License-Identifier: Apache-2.0
// The directories of templates: which one a name means, and which of the system must not be used.
#include "sandbox-backend/drivers/template_dirs.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "tests/lib/harness/tap.h"

static char top[] = "/tmp/cubby-test-XXXXXX";
static char home[64], shared[64];

static void put(const char *dir, const char *name, const char *build)
{
    char *where auto_free = str_printf("%s/%s", dir, name);
    char *path auto_free = str_printf("%s/template.json", where);
    char *text auto_free = str_printf("{\"created_at\":\"%s\"}", build);
    dir_make(where, 0755, NULL);
    chmod(where, 0755);
    file_replace(path, text, strlen(text), 0644, NULL);
}

static void finds(const char *name, const char *dir, const char *what)
{
    char *got auto_free = template_dirs_find(home, name);
    char *want auto_free = str_printf("%s/%s", dir, name);
    is_str(got, want, "%s", what);
}

static void refuses(const char *name, const char *text)
{
    struct err e = ERR_INIT;
    char *own auto_free = str_printf("%s/templates", home);
    finds(name, own, "it is not found");
    is_int(template_dirs_check(home, name, &e), -1, "and the reason is told");
    ok(strstr(e.msg, text), "%s", e.msg);
}

static void test_find(void)
{
    char *own auto_free = str_printf("%s/templates", home);
    put(shared, "a", "2026-01-01T00:00:00Z");
    put(shared, "b", "2026-01-01T00:00:00Z");
    put(own, "b", "2026-02-02T00:00:00Z");
    finds("a", shared, "one of the system");
    finds("b", own, "the home's goes before it");
    finds("c", own, "one that does not exist");
    finds("../shared/a", own, "no name leads elsewhere");
    char *old auto_free = template_dirs_find_build(home, "b", "2026-01-01T00:00:00Z");
    ok(template_dirs_is_system(home, old), "a build that only the system has");
    char *new auto_free = template_dirs_find_build(home, "b", "2026-02-02T00:00:00Z");
    ok(!template_dirs_is_system(home, new), "a build that the home has");
    char *lost auto_free = template_dirs_find_build(home, "b", "2027");
    is_str(lost, new, "a build that nobody has");
    setenv(TEMPLATE_DIRS_ENV, "", 1);
    finds("a", own, "switched off");
    setenv(TEMPLATE_DIRS_ENV, own, 1);
    finds("b", own, "the same as the home's");
    char *b auto_free = str_printf("%s/b", own);
    ok(!template_dirs_is_system(home, b), "is the home's");
    setenv(TEMPLATE_DIRS_ENV, shared, 1);
}

static void test_trust(void)
{
    char *dir auto_free = str_printf("%s/a", shared);
    char *json auto_free = str_printf("%s/template.json", dir);
    char *own auto_free = str_printf("%s/templates/b", home);
    struct err e = ERR_INIT;
    is_int(template_dirs_check(home, "a", &e), 0, "it may be used: %s", e.msg);
    is_int(template_dirs_check(home, "c", &e), 0, "there is none of that name");
    chmod(shared, 0777);
    refuses("a", "others may write to");
    is_int(template_dirs_check(home, "b", &e), 0, "the home's template does not matter");
    chmod(shared, 01777);
    finds("a", shared, "others cannot replace it in a sticky directory");
    chmod(shared, 0755);
    chmod(top, 0770);
    refuses("a", "others may write to");
    chmod(top, 0755);
    chmod(json, 0664);
    refuses("a", "template.json");
    chmod(json, 0644);
    if (geteuid() == 0) {
        (void)!chown(dir, 4242, 4242);
        refuses("a", "belongs to user 4242");
        (void)!chown(dir, 0, 0);
    }
    char *link auto_free = str_printf("%s/l", shared);
    (void)!symlink(own, link);
    refuses("l", "symbolic link");
    unlink(link);
    finds("a", shared, "it is as before");
}

static void test_own(void)
{
    struct stat before, after;
    char *dir auto_free = str_printf("%s/a", shared);
    char *json auto_free = str_printf("%s/template.json", dir);
    char *mine auto_free = str_printf("%s/templates/b", home);
    char *kept auto_free = template_dirs_own(home, dir);
    char *same auto_free = template_dirs_own(home, mine);
    char *want auto_free = str_printf("%s/system/a@20260101T000000Z", home);
    is_str(kept, want, "what is kept about one of the system");
    is_str(same, mine, "what is kept about one of the home");
    const struct timespec old[2] = {{1000, 0}, {1000, 0}};
    utimensat(AT_FDCWD, json, old, 0);
    is_int((int)template_dirs_used_s(home, dir), 1000, "without a use, the time of the build");
    stat(json, &before);
    template_dirs_touch(home, dir);
    stat(json, &after);
    ok(template_dirs_used_s(home, dir) > 1000, "the last use");
    ok(before.st_ctim.tv_sec == after.st_ctim.tv_sec &&
           before.st_ctim.tv_nsec == after.st_ctim.tv_nsec,
       "nothing is written into the directory of the system");
}

int main(void)
{
    if (!mkdtemp(top))
        return 1;
    chmod(top, 0755);
    snprintf(home, sizeof home, "%s/home", top);
    snprintf(shared, sizeof shared, "%s/shared", top);
    dir_make(shared, 0755, NULL);
    chmod(shared, 0755);
    setenv(TEMPLATE_DIRS_ENV, shared, 1);
    test_find();
    test_trust();
    test_own();
    dir_remove(top, NULL);
    return tap_done();
}
