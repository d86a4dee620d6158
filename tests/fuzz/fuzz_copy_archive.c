// SPDX-License-Identifier: Apache-2.0
// Fuzz the unpacking of a sandbox's tar. The input begins with a line that says whether links out
// are kept ("keep" or not), lines of stat as a listing has them, and an empty line; the rest is the
// tar. Whatever it has, nothing beside the destination changes, and without "keep" no new link
// leads out of it.
#include <assert.h>
#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/cli/copy/archive.h"
#include "sandbox-backend/cli/copy/listing.h"

#define KEEP      "keep\n"
#define SECRET    "a file of the user\n"
#define BREADTH   16 // descriptors of nftw(3)
#define INPUT_MAX (256 << 10)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

// The destination, and beside it a file and nothing else.
static struct {
    char above[PATH_MAX], root[PATH_MAX], secret[PATH_MAX];
    struct stat was;
} place;

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st, (void)type, (void)ftw;
    return remove(path);
}

static void remove_place(void)
{
    nftw(place.above, remove_one, BREADTH, FTW_DEPTH | FTW_PHYS);
}

static void make_place(void)
{
    struct err e = ERR_INIT;
    snprintf(place.above, sizeof place.above, "/dev/shm/cubby-fuzz-XXXXXX");
    if (!mkdtemp(place.above))
        abort();
    snprintf(place.root, sizeof place.root, "%.4000s/root", place.above);
    snprintf(place.secret, sizeof place.secret, "%.4000s/secret", place.above);
    if (file_write_atomic(place.secret, SECRET, strlen(SECRET), 0600, &e) < 0 ||
        stat(place.secret, &place.was) < 0)
        abort();
    atexit(remove_place);
}

// The destination has a file, a directory, and a link that leads out.
static int make_root(void)
{
    nftw(place.root, remove_one, BREADTH, FTW_DEPTH | FTW_PHYS);
    int root = mkdir(place.root, 0700) < 0 ? -1 : open(place.root, O_RDONLY | O_DIRECTORY);
    if (root < 0 || symlinkat("..", root, "out") < 0 || mkdirat(root, "dir", 0700) < 0)
        abort();
    close(openat(root, "file", O_WRONLY | O_CREAT, 0600));
    return root;
}

// ---- what has to hold afterwards

static int check_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    char to[PATH_MAX], real[PATH_MAX];
    (void)type;
    assert(!(st->st_mode & (S_ISUID | S_ISGID | S_ISVTX)) || S_ISLNK(st->st_mode));
    assert(S_ISREG(st->st_mode) || S_ISDIR(st->st_mode) || S_ISLNK(st->st_mode));
    if (!S_ISLNK(st->st_mode) || (ftw->level == 1 && str_eq(path + ftw->base, "out")))
        return 0;
    ssize_t len = readlink(path, to, sizeof to - 1);
    assert(len > 0 && to[0] != '/');
    // A target may be missing, or lead through "out", which was there.
    if (realpath(path, real) && !memmem(to, (size_t)len, "out", 3))
        assert(str_eq(real, place.root) || str_path_is_below(real, place.root));
    return 0;
}

static void check_place(bool keeps_links)
{
    struct stat st;
    char text[sizeof SECRET + 1] = "";
    int count = 0;
    DIR *above = opendir(place.above);
    assert(above);
    while (readdir(above))
        count++;
    closedir(above);
    assert(count == 4); // with "." and ".."
    int fd auto_close = open(place.secret, O_RDONLY | O_NOFOLLOW);
    assert(fd >= 0 && fstat(fd, &st) == 0 &&
           read(fd, text, sizeof text) == (ssize_t)strlen(SECRET));
    assert(str_eq(text, SECRET) && st.st_ino == place.was.st_ino && st.st_nlink == 1 &&
           st.st_mode == place.was.st_mode);
    if (!keeps_links)
        nftw(place.root, check_one, BREADTH, FTW_PHYS);
}

// ---- the input

static void unpack(const struct listing *l, bool keeps_links, const void *tar, size_t len)
{
    struct err e = ERR_INIT;
    const struct entry **wanted auto_free = xcalloc(l->count + 1, sizeof(void *));
    for (size_t i = 0; i < l->count; i++)
        wanted[i] = &l->entries[i];
    int in auto_close = fd_open_memory("tar", tar, len, &e);
    int root auto_close = make_root();
    const struct unpacking u = {
        .root = root, .wanted = wanted, .count = l->count, .keeps_links = keeps_links};
    assert(in >= 0);
    int result = archive_unpack(&u, in, &e);
    assert((result == 0) == !err_is(&e));
    check_place(keeps_links);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct err e = ERR_INIT;
    struct listing l = {0};
    struct buf text auto_buf = BUF_INIT;
    bool keeps_links = size >= strlen(KEEP) && memcmp(data, KEEP, strlen(KEEP)) == 0;
    const uint8_t *stop = size && size <= INPUT_MAX ? memmem(data, size, "\n\n", 2) : NULL;
    const uint8_t *line = stop ? memchr(data, '\n', size) : NULL;
    if (!stop)
        return 0;
    if (!*place.above)
        make_place();
    buf_addc(&text, 'S');
    if (stop > line)
        buf_add(&text, line + 1, (size_t)(stop - line));
    if (listing_parse(&l, &text, NULL, &e) == 0)
        unpack(&l, keeps_links, stop + 2, size - (size_t)(stop + 2 - data));
    listing_fini(&l);
    return 0;
}
