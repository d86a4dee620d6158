// SPDX-License-Identifier: Apache-2.0
// A change of a file that is the user's: shown first, then written as a whole. A change is in one
// part of the file, so the lines before it and after it are the same.
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/cli/cli.h"
#include "sandbox-backend/cli/setup/setup.h"

#define CONTEXT_LINES  3
#define FILE_BYTES_MAX (8 << 20)
#define ANSWER_BYTES   16
#define LINKS_MAX      40 // as the kernel

// ---- showing it

// Return the length of the line at `text`, with its newline.
static size_t line_bytes(const char *text)
{
    size_t len = strcspn(text, "\n");
    return len + (text[len] == '\n');
}

// Return how many bytes of whole lines both texts begin with.
static size_t same_start(const char *a, const char *b)
{
    size_t same = 0;
    while (a[same]) {
        size_t len = line_bytes(a + same);
        if (len != line_bytes(b + same) || memcmp(a + same, b + same, len) != 0)
            break;
        same += len;
    }
    return same;
}

// Return where the last line before `at` begins.
static size_t line_before(const char *text, size_t at)
{
    for (at -= at > 0; at > 0 && text[at - 1] != '\n'; at--)
        ;
    return at;
}

static void same_end(const char *a, const char *b, size_t from, size_t *a_end, size_t *b_end)
{
    while (*a_end > from && *b_end > from) {
        size_t x = line_before(a, *a_end), y = line_before(b, *b_end);
        if (x < from || y < from || *a_end - x != *b_end - y ||
            memcmp(a + x, b + y, *a_end - x) != 0)
            return;
        *a_end = x;
        *b_end = y;
    }
}

static void print_lines(char mark, const char *text, size_t from, size_t to)
{
    for (size_t at = from; at < to;) {
        size_t len = strcspn(text + at, "\n");
        len = len < to - at ? len : to - at;
        char *line auto_free = xstrndup(text + at, len);
        putchar(mark);
        putchar(' ');
        cli_print_line(line);
        at += len + 1;
    }
}

static void print(const char *before, const char *after)
{
    size_t before_len = strlen(before);
    size_t start = same_start(before, after);
    size_t before_end = before_len, after_end = strlen(after);
    same_end(before, after, start, &before_end, &after_end);
    size_t shown = start, rest = before_end;
    for (int i = 0; i < CONTEXT_LINES; i++) {
        shown = line_before(before, shown);
        rest += line_bytes(before + rest);
    }
    print_lines(' ', before, shown, start);
    print_lines('-', before, start, before_end);
    print_lines('+', after, start, after_end);
    print_lines(' ', before, before_end, rest);
}

// ---- reading it

static int check_regular(const char *path, const struct stat *st, struct err *e)
{
    return S_ISREG(st->st_mode) ? 0 : err_set(e, ERR_INVALID, "%s is not a regular file", path);
}

// The look before the opening is for devices, which an opening may change. The one after it is for
// a file that was replaced meanwhile: nothing waits for the writer of a pipe.
int change_read(const char *path, struct buf *out, struct err *e)
{
    struct stat st;
    if (stat(path, &st) < 0)
        return errno == ENOENT ? 0 : err_sys(e, errno, "read %s", path);
    if (check_regular(path, &st, e) < 0)
        return -1;
    int fd auto_close = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0)
        return err_sys(e, errno, "read %s", path);
    if (check_regular(path, &st, e) < 0)
        return -1;
    if (fd_read_all(fd, FILE_BYTES_MAX, out, e) < 0)
        return err_wrap(e, "%s", path);
    if (strlen(buf_str(out)) != out->len)
        return err_set(e, ERR_INVALID, "%s is not a text file", path);
    return 0;
}

// ---- writing it

// Return the path that a link leads to, also where nothing is there yet. New string, or NULL.
static char *follow(const char *path, struct err *e)
{
    char *at auto_free = xstrdup(path);
    for (int i = 0; i < LINKS_MAX; i++) {
        char next[PATH_MAX];
        ssize_t len = readlink(at, next, sizeof next - 1);
        if (len < 0)
            return steal(&at);
        next[len] = '\0';
        size_t parent = *next == '/' ? 0 : (size_t)(str_base(at) - at);
        char *joined = str_printf("%.*s%s", (int)parent, at, next);
        free(at);
        at = joined;
    }
    err_sys(e, ELOOP, "follow %s", path);
    return NULL;
}

// Root may write everywhere, but a file that nobody may write is so on purpose.
static int check_writable(const char *path, struct err *e)
{
    struct stat st;
    if (stat(path, &st) < 0)
        return errno == ENOENT ? 0 : err_sys(e, errno, "stat %s", path);
    if (!(st.st_mode & (S_IWUSR | S_IWGRP | S_IWOTH)))
        return err_set(e, ERR_DENIED, "%s is read-only; make it writable first (chmod u+w)", path);
    if (faccessat(AT_FDCWD, path, W_OK, AT_EACCESS) < 0)
        return err_sys(e, errno, "write %s", path);
    return 0;
}

static bool confirm(const char *path)
{
    char answer[ANSWER_BYTES] = "";
    printf("\nWrite this to %s? [y/N] ", path);
    fflush(stdout);
    return fgets(answer, sizeof answer, stdin) && (answer[0] == 'y' || answer[0] == 'Y');
}

static bool is_same(const struct buf *a, const struct buf *b)
{
    return a->len == b->len && memcmp(buf_str(a), buf_str(b), a->len) == 0;
}

// A link is followed: some users keep such files elsewhere.
static int write_text(const char *path, const struct buf *before, const struct buf *after,
                      struct err *e)
{
    struct buf now auto_buf = BUF_INIT;
    struct stat st;
    char *target auto_free = follow(path, e);
    if (!target || change_read(target, &now, e) < 0)
        return -1;
    if (!is_same(&now, before))
        return err_set(e, ERR_CONFLICT, "%s was changed by another program meanwhile; try again",
                       target);
    char *dir auto_free = xstrdup(target);
    *strrchr(dir, '/') = '\0';
    if (dir_make(dir, 0700, e) < 0)
        return -1;
    bool exists = stat(target, &st) == 0;
    if (!exists && errno != ENOENT)
        return err_sys(e, errno, "stat %s", target);
    return exists ? file_write_atomic_like(target, after->data, after->len, &st, e)
                  : file_write_atomic(target, after->data, after->len, 0600, e);
}

int change_apply(const char *path, const struct buf *before, const struct buf *after, bool yes,
                 struct err *e)
{
    if (is_same(before, after)) {
        printf("%s has the entry already.\n", path);
        return CHANGE_SAME;
    }
    if (check_writable(path, e) < 0)
        return -1;
    printf("%s%s:\n\n", path, before->len ? "" : " (new)");
    print(buf_str(before), buf_str(after));
    bool may = yes || (isatty(STDIN_FILENO) && confirm(path));
    if (!may) {
        puts("\nNothing was written. To write it: the same command with --yes.");
        return CHANGE_REFUSED;
    }
    return write_text(path, before, after, e) < 0 ? -1 : CHANGE_WRITTEN;
}
