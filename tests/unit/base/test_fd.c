// SPDX-License-Identifier: Apache-2.0
// Files and trees of directories, in the test's own directory.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "tests/lib/harness/tap.h"

static char dir[] = "/tmp/test-fd-XXXXXX";

static char *in_dir(const char *name)
{
    return str_printf("%s/%s", dir, name);
}

static int count_entries(const char *of)
{
    char *command auto_free = str_printf("ls -A %s | wc -l", of);
    FILE *p = popen(command, "r");
    int n = -1;
    if (!p || fscanf(p, "%d", &n) != 1)
        n = -1;
    if (p)
        pclose(p);
    return n;
}

static void test_owner_is_kept(void)
{
    struct err e = ERR_INIT;
    char *path auto_free = in_dir("kept");
    struct buf b auto_buf = BUF_INIT;
    struct stat old, now;
    bool is_root = geteuid() == 0;
    is_int(file_write_atomic(path, "old", 3, 0600, &e), 0, "a file");
    ok(chmod(path, 0666) == 0 && (!is_root || chown(path, 12, 34) == 0) && stat(path, &old) == 0,
       "with other permissions than a umask would leave, and as root with another owner");
    is_int(file_write_atomic_like(path, "new", 3, &old, &e), 0, "replaced %s", e.msg);
    ok(stat(path, &now) == 0 && now.st_ino != old.st_ino, "as a whole");
    is_int(now.st_mode, old.st_mode, "its permissions stay");
    ok(now.st_uid == old.st_uid && now.st_gid == old.st_gid, "and its owner");
    ok(file_read(path, 10, &b, &e) == 0 && str_eq(buf_str(&b), "new"), "its content");
    unlink(path);
}

static void test_files(void)
{
    struct err e = ERR_INIT;
    char *path auto_free = in_dir("file");
    struct buf b auto_buf = BUF_INIT;
    is_int(file_read(path, 10, &b, &e), -1, "a missing file");
    is_int(e.code, ERR_NOT_FOUND, "is not found: %s", e.msg);
    ok(!file_exists(path), "does not exist");
    e = ERR_INIT;
    is_int(file_write_atomic(path, "hello", 5, 0600, &e), 0, "written");
    is_int(file_write_atomic(path, "world!", 6, 0640, &e), 0, "and replaced");
    is_int(file_read(path, 6, &b, &e), 0, "read");
    is_str(buf_str(&b), "world!", "its content");
    struct stat st;
    ok(stat(path, &st) == 0 && (st.st_mode & 0777) == 0640, "its mode");
    is_int(count_entries(dir), 1, "no temporary file is left");
    buf_clear(&b);
    is_int(file_read(path, 5, &b, &e), -1, "a byte too long");
    is_int(e.code, ERR_TOO_LARGE, "says so: %s", e.msg);
    e = ERR_INIT;
    is_int(file_replace(path, "x", 1, 0600, &e), 0, "replaced without syncing");
    char *nowhere auto_free = in_dir("no/such");
    is_int(file_write_atomic(nowhere, "x", 1, 0600, &e), -1, "no directory: %s", e.msg);
    e = ERR_INIT;
    buf_clear(&b);
    ok(file_read("/proc/self/status", 100000, &b, &e) == 0 && b.len > 100, "a file of /proc");
    is_int(file_read("/", 10, &b, &e), -1, "a directory: %s", e.msg);
    e = ERR_INIT;
    int temp auto_close = fd_open_temp(&e);
    ok(temp >= 0 && fd_write_all(temp, "abc", 3, &e) == 0, "a file without a name");
    int closed = dup(temp);
    close(closed);
    is_int(fd_write_all(closed, "abc", 3, &e), -1, "a closed descriptor: %s", e.msg);
    e = ERR_INIT;
    ok(fd_set_nonblock(temp, &e) == 0 && (fcntl(temp, F_GETFL) & O_NONBLOCK), "non-blocking");
    ok(fd_set_cloexec(temp, false, &e) == 0 && fcntl(temp, F_GETFD) == 0 &&
           fd_set_cloexec(temp, true, &e) == 0 && fcntl(temp, F_GETFD) == FD_CLOEXEC,
       "close-on-exec");
}

static void test_copy(void)
{
    struct err e = ERR_INIT;
    char *from auto_free = in_dir("sparse");
    char *to auto_free = in_dir("copy");
    int fd = open(from, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    ok(pwrite(fd, "begin", 5, 0) == 5 && pwrite(fd, "middle", 6, 5 << 20) == 6 &&
           ftruncate(fd, 20 << 20) == 0,
       "a file with holes");
    close(fd);
    is_int(file_copy(from, to, 0600, &e), 0, "copied: %s", e.msg);
    char *same auto_free = str_printf("cmp -s %s %s", from, to);
    is_int(system(same), 0, "byte for byte");
    struct stat st;
    ok(stat(to, &st) == 0 && st.st_size == 20 << 20 && st.st_blocks * 512 < 5 << 20,
       "with its holes");
    char *missing auto_free = in_dir("missing");
    is_int(file_copy(missing, to, 0600, &e), -1, "nothing to copy: %s", e.msg);
}

static void test_dirs(void)
{
    struct err e = ERR_INIT;
    char *deep auto_free = in_dir("a/b/c/");
    char *top auto_free = in_dir("a");
    char *file auto_free = in_dir("a/b/file");
    char *below auto_free = in_dir("a/b/file/x");
    char *link auto_free = in_dir("a/link");
    char *outside auto_free = in_dir("outside");
    is_int(dir_make(deep, 0700, &e), 0, "made with its parents");
    is_int(dir_make(deep, 0700, &e), 0, "existing is fine");
    is_int(file_write_atomic(file, "", 0, 0600, &e), 0, "a file in it");
    is_int(dir_make(file, 0700, &e), -1, "a file in the way: %s", e.msg);
    e = ERR_INIT;
    is_int(dir_make(below, 0700, &e), -1, "or above: %s", e.msg);
    e = ERR_INIT;
    is_int(dir_make("", 0700, &e), -1, "no name: %s", e.msg);
    e = ERR_INIT;
    ok(file_write_atomic(outside, "x", 1, 0600, &e) == 0 && symlink(dir, link) == 0,
       "a link that leads out");
    is_int(dir_remove(top, &e), 0, "removed: %s", e.msg);
    ok(!file_exists(top) && file_exists(outside), "and not what the link led to");
    is_int(dir_remove(top, &e), 0, "a missing one is fine");
    is_int(dir_remove(outside, &e), 0, "a plain file goes, too");
}

static void test_entries(void)
{
    struct err e = ERR_INIT;
    char *hidden auto_free = in_dir("e/.hidden");
    char *seen auto_free = in_dir("e/seen");
    char *of auto_free = in_dir("e");
    ok(!dir_has_entries(of), "a missing directory has none");
    ok(dir_make(hidden, 0700, &e) == 0 && !dir_has_entries(of), "hidden ones do not count");
    ok(dir_make(seen, 0700, &e) == 0 && dir_has_entries(of), "one that does");
    is_int(dir_remove(of, &e), 0, "removed");
}

static void test_connecting(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char *path auto_free = in_dir("socket");
    char *far auto_free = str_printf("/tmp/%0200d", 0);
    memcpy(address.sun_path, path, strlen(path) + 1);
    ok(fd_connect_unix(path) < 0 && errno == ENOENT, "a socket that is not there");
    ok(fd_connect_unix(far) < 0 && errno == ENAMETOOLONG, "one that cannot be");
    int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ok(bind(listener, (const struct sockaddr *)&address, sizeof address) == 0 &&
           fd_connect_unix(path) < 0 && errno == ECONNREFUSED,
       "one that does not listen");
    listen(listener, 1);
    int fd = fd_connect_unix(path);
    ok(fd >= 0 && fcntl(fd, F_GETFL) & O_NONBLOCK && fcntl(fd, F_GETFD) == FD_CLOEXEC,
       "one that does");
    close(fd);
    close(listener);
    unlink(path);
}

int main(void)
{
    if (!mkdtemp(dir))
        return 1;
    test_owner_is_kept();
    test_files();
    test_copy();
    test_dirs();
    test_entries();
    test_connecting();
    struct err e = ERR_INIT;
    is_int(dir_remove(dir, &e), 0, "cleaned up");
    return tap_done();
}
