// SPDX-License-Identifier: Apache-2.0
// envd's paths: resolution, following links, making directories.
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/base/users.h"
#include "sandbox-backend/envd/core/paths.h"
#include "sandbox-backend/envd/fs/entry.h"
#include "tests/lib/harness/tap.h"

static const struct user ANN = {.name = "ann", .home = "/home/ann"};

static void cleans(const char *path, const char *want)
{
    char *got auto_free = path_clean(path);
    is_str(got, want, "clean %s", path);
}

static void resolves(const char *path, const char *dir, const char *want)
{
    struct err e = ERR_INIT;
    char *got auto_free = path_resolve(path, &ANN, dir, &e);
    is_str(got, want, "\"%s\" with default %s", path, dir ? dir : "none");
}

static void test_resolve(void)
{
    cleans("/", "/");
    cleans("//a//b/", "/a/b");
    cleans("/a/./b/../c", "/a/c");
    cleans("/a/..", "/");
    cleans("/../../x", "/x");
    cleans("/a/b/../../../c/..", "/");
    cleans("/a/...", "/a/...");
    resolves("", NULL, "/home/ann");
    resolves("", "/work", "/work");
    resolves("", "~/w", "/home/ann/w");
    resolves("", "w", "/home/ann/w");
    resolves("~", NULL, "/home/ann");
    resolves("~/x/../y", NULL, "/home/ann/y");
    resolves("x", "/work", "/home/ann/x");
    resolves("../x", NULL, "/home/x");
    resolves("/x//y", NULL, "/x/y");
    resolves("\xFF", NULL, "/home/ann/\xFF");
    struct err e = ERR_INIT;
    ok(path_resolve("~bob/x", &ANN, NULL, &e) == NULL, "another's home is refused");
    is_int(e.code, ERR_INVALID, "as an invalid argument");
}

static void follows(const char *path, const char *want)
{
    struct err e = ERR_INIT;
    char *got auto_free = path_follow(path, &e);
    is_str(got, want, "follow %s", path);
}

static void test_follow(const char *dir)
{
    ok(chdir(dir) == 0, "in %s", dir);
    ok(symlink("b", "a") == 0 && symlink("sub/missing", "b") == 0, "links");
    ok(symlink("two", "one") == 0 && symlink("one", "two") == 0, "a cycle");
    char *a auto_free = str_printf("%s/a", dir);
    char *one auto_free = str_printf("%s/one", dir);
    char *missing auto_free = str_printf("%s/sub/missing", dir);
    follows(a, missing);
    follows(missing, missing);
    follows(one, NULL);
}

static void test_make_dirs(const char *dir)
{
    const struct user me = {.uid = getuid(), .gid = getgid()};
    char *deep auto_free = str_printf("%s/x/y/z", dir);
    char *file auto_free = str_printf("%s/file", dir);
    char *under auto_free = str_printf("%s/file/z", dir);
    struct err e = ERR_INIT;
    bool existed;
    struct stat st;
    ok(path_make_dirs(deep, &me, &existed, &e) == 0 && !existed, "made with its parents");
    ok(stat(deep, &st) == 0 && (st.st_mode & 07777) == 0755, "mode 0755");
    ok(path_make_dirs(deep, &me, &existed, &e) == 0 && existed, "again: it existed");
    ok(file_replace(file, "", 0, 0644, &e) == 0, "a file");
    ok(path_make_dirs(file, &me, &existed, &e) < 0, "over a file");
    is_int(e.code, ERR_INVALID, "is an invalid argument");
    e = ERR_INIT;
    ok(path_make_dirs(under, &me, &existed, &e) < 0, "below a file");
    is_int(e.code, ERR_INVALID, "is an invalid argument");
}

static void permissions(mode_t mode, const char *want)
{
    char got[ENTRY_PERMISSIONS_BYTES];
    entry_permissions(got, mode);
    is_str(got, want, "mode %o", (unsigned)mode);
}

static void test_entry(void)
{
    permissions(S_IFREG | 0644, "-rw-r--r--");
    permissions(S_IFDIR | 0755, "drwxr-xr-x");
    permissions(S_IFDIR | 01777, "dtrwxrwxrwx");
    permissions(S_IFLNK | 0777, "Lrwxrwxrwx");
    permissions(S_IFCHR | 0666, "Dcrw-rw-rw-");
    permissions(S_IFBLK | 0660, "Drw-rw----");
    permissions(S_IFREG | 06755, "ugrwxr-xr-x");
    permissions(S_IFIFO | 0600, "prw-------");
    permissions(S_IFSOCK | 0, "S---------");
    struct buf out auto_buf = BUF_INIT;
    entry_put_string(&out, "a\"b\\c\n\x01\xC3\xA9\xFF");
    is_str(buf_str(&out), "\"a\\\"b\\\\c\\u000a\\u0001\xC3\xA9\xEF\xBF\xBD\"", "a JSON string");
}

int main(void)
{
    char dir[] = "/tmp/envd-paths-XXXXXX";
    if (!mkdtemp(dir))
        return 1;
    test_resolve();
    test_follow(dir);
    test_make_dirs(dir);
    test_entry();
    ok(chdir("/") == 0 && dir_remove(dir, NULL) == 0, "cleaned up");
    return tap_done();
}
