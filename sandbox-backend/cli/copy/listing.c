// SPDX-License-Identifier: Apache-2.0
#include "sandbox-backend/cli/copy/listing.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/cli/copy/remote.h"
#include "sandbox-backend/cli/copy/sync_rules.h"

#define OCTAL 8
#define HEX   16

int listing_add(struct listing *l, struct entry entry, struct err *e)
{
    if (l->count == LISTING_ENTRIES_MAX) {
        entry_fini(&entry);
        return err_set(e, ERR_LIMIT, "the directory has more than %d entries", LISTING_ENTRIES_MAX);
    }
    if (l->count == l->room) {
        l->room = l->room ? l->room * 2 : 64;
        l->entries = xrealloc(l->entries, l->room * sizeof *l->entries);
    }
    l->entries[l->count++] = entry;
    return 0;
}

static int compare(const void *a, const void *b)
{
    return strcmp(((const struct entry *)a)->path, ((const struct entry *)b)->path);
}

void listing_sort(struct listing *l)
{
    if (l->count)
        qsort(l->entries, l->count, sizeof *l->entries, compare);
}

void entry_copy(struct entry *to, const struct entry *from)
{
    *to = *from;
    to->path = xstrdup(from->path);
    to->target = from->target ? xstrdup(from->target) : NULL;
    to->move = NULL;
}

void entry_take_stat(struct entry *entry, const struct stat *st)
{
    entry->mode = st->st_mode & 07777;
    entry->size = st->st_size;
    entry->seconds = st->st_mtim.tv_sec;
    entry->nanoseconds = st->st_mtim.tv_nsec;
}

bool entry_is_still(int fd, const struct stat *before)
{
    struct stat now;
    return fstat(fd, &now) == 0 && now.st_size == before->st_size &&
           now.st_mtim.tv_sec == before->st_mtim.tv_sec &&
           now.st_mtim.tv_nsec == before->st_mtim.tv_nsec &&
           now.st_ctim.tv_sec == before->st_ctim.tv_sec &&
           now.st_ctim.tv_nsec == before->st_ctim.tv_nsec;
}

static struct entry *copy_of(const struct entry *entry)
{
    struct entry *copy = entry ? xcalloc(1, sizeof *copy) : NULL;
    if (entry)
        entry_copy(copy, entry);
    return copy;
}

void move_fini(struct move *move)
{
    struct entry *both[] = {move->from, move->to};
    for (size_t i = 0; i < 2; i++)
        if (both[i])
            entry_fini(both[i]);
    free(move->from);
    free(move->to);
    move->from = move->to = NULL;
}

void move_note(struct move *move, const struct entry *from, const struct entry *to)
{
    struct entry *new_from = copy_of(from);
    struct entry *new_to = copy_of(to);
    move_fini(move);
    move->from = new_from;
    move->to = new_to;
}

void entry_fini(struct entry *entry)
{
    free(entry->path);
    free(entry->target);
}

void listing_fini(struct listing *l)
{
    for (size_t i = 0; i < l->count; i++)
        entry_fini(&l->entries[i]);
    free(l->entries);
    *l = (struct listing){0};
}

const struct entry *listing_find(const struct listing *l, const char *path)
{
    const struct entry key = {.path = (char *)(uintptr_t)path};
    return l->count ? bsearch(&key, l->entries, l->count, sizeof *l->entries, compare) : NULL;
}

bool listing_path_is_plain(const char *path)
{
    for (const char *at = path;; at++) {
        size_t len = strcspn(at, "/");
        if (!len || len > NAME_MAX || (len == 1 && *at == '.') ||
            (len == 2 && strncmp(at, "..", 2) == 0))
            return false;
        at += len;
        if (!*at)
            return at - path < PATH_MAX;
    }
}

static char type_of(mode_t mode)
{
    if (S_ISREG(mode))
        return 'f';
    if (S_ISDIR(mode))
        return 'd';
    return S_ISLNK(mode) ? 'l' : 'o';
}

// ---- the host
struct walk {
    struct listing *out;
    const struct sync_rules *ignored;
    int depth;
    struct err *e;
};

static int walk_dir(struct walk *w, int fd /* taken */, const char *path);

// Return the target of a link, or NULL. New string.
static char *read_target(int dir, const char *name)
{
    char target[PATH_MAX];
    ssize_t n = readlinkat(dir, name, target, sizeof target);
    return n > 0 && n < PATH_MAX ? xstrndup(target, (size_t)n) : NULL;
}

static int walk_entry(struct walk *w, int dir, const char *name, const char *path)
{
    struct stat st;
    if (sync_rules_hide(w->ignored, path))
        return 0;
    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? 0 : err_sys(w->e, errno, "%.200s", path);
    struct entry entry = {
        .type = type_of(st.st_mode),
        .mode = st.st_mode & 07777,
        .size = S_ISREG(st.st_mode) ? st.st_size : 0,
        .seconds = st.st_mtim.tv_sec,
        .nanoseconds = st.st_mtim.tv_nsec,
    };
    entry.path = xstrdup(path);
    entry.target = entry.type == 'l' ? read_target(dir, name) : NULL;
    if (listing_add(w->out, entry, w->e) < 0)
        return -1;
    if (entry.type != 'd')
        return 0;
    int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 ? err_sys(w->e, errno, "%.200s", path) : walk_dir(w, fd, path);
}

static int walk_dir(struct walk *w, int fd, const char *path)
{
    DIR *dir = fdopendir(fd);
    int result = 0;
    if (!dir) {
        close(fd);
        return err_sys(w->e, errno, "%.200s", path);
    }
    if (++w->depth > LISTING_DEPTH_MAX)
        result = err_set(w->e, ERR_LIMIT, "%.200s is nested more than %d directories deep", path,
                         LISTING_DEPTH_MAX);
    while (result == 0) {
        errno = 0;
        const struct dirent *d = readdir(dir);
        if (!d) {
            if (errno)
                result = err_sys(w->e, errno, "%.200s", path);
            break;
        }
        if (str_eq(d->d_name, ".") || str_eq(d->d_name, ".."))
            continue;
        char *below auto_free = *path ? str_printf("%s/%s", path, d->d_name) : xstrdup(d->d_name);
        result = walk_entry(w, dirfd(dir), d->d_name, below);
    }
    w->depth--;
    closedir(dir);
    return result;
}

int listing_of_host(struct listing *l, int root, const struct sync_rules *ignored, struct err *e)
{
    struct walk w = {.out = l, .ignored = ignored, .e = e};
    int fd = openat(root, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return err_sys(e, errno, "read the directory");
    int result = walk_dir(&w, fd, "");
    listing_sort(l);
    return result;
}

// ---- the sandbox
//
// GNU's find prints each entry as it is needed, ended by NUL, and then the target of a link. Other
// finds, such as busybox's, have no -printf; then stat prints lines, the target of a link is not
// known, and a name with a line end is refused.
static const char LIST_SCRIPT[] =
    "cd -- \"$1\" || exit 1\n"
    "if find . -maxdepth 0 -printf '' 2>/dev/null; then\n"
    "  printf G; exec find . -mindepth 1 -printf '%y %m %s %T@ ./%P\\0%l\\0'\n"
    "fi\n"
    "[ -z \"$(find . -name '*\n*')\" ] || {\n"
    "  echo 'a name in the directory has a line end, which the find of this sandbox cannot list'"
    " >&2; exit 1; }\n"
    "printf S; exec find . -mindepth 1 -exec stat -c '%f %s %Y %n' {} +\n";

static bool take_number(char **at, int base, long long *out)
{
    char *end = NULL;
    *out = strtoll(*at, &end, base);
    if (end == *at)
        return false;
    *at = end;
    return true;
}

static bool take_space(char **at)
{
    if (**at != ' ')
        return false;
    ++*at;
    return true;
}

// The part of a second after "." in nanoseconds; find writes ten digits.
static long take_fraction(char **at)
{
    long nanoseconds = 0;
    long digits = 0;
    if (**at != '.')
        return 0;
    for (++*at; **at >= '0' && **at <= '9'; ++*at, digits++)
        if (digits < 9)
            nanoseconds = nanoseconds * 10 + (**at - '0');
    for (; digits < 9; digits++)
        nanoseconds *= 10;
    return nanoseconds;
}

// Parse "f 644 12 1700000000.5000000000 ./a" (GNU) or "81a4 12 1700000000 ./a".
static bool parse_entry(char *text, bool is_gnu, struct entry *out)
{
    char *at = text;
    long long mode = 0;
    long long size = 0;
    long long seconds = 0;
    *out = (struct entry){0};
    if (is_gnu) {
        out->type = *at && strchr("fdl", *at) ? *at : 'o';
        at += *at != '\0';
        if (!take_space(&at))
            return false;
    }
    if (!take_number(&at, is_gnu ? OCTAL : HEX, &mode) || !take_space(&at) ||
        !take_number(&at, 10, &size) || !take_space(&at) || !take_number(&at, 10, &seconds))
        return false;
    out->nanoseconds = take_fraction(&at);
    if (!take_space(&at) || strncmp(at, "./", 2) != 0 || !listing_path_is_plain(at + 2) ||
        size < 0 || size > LISTING_SIZE_MAX)
        return false;
    if (!is_gnu)
        out->type = type_of((mode_t)mode);
    out->mode = (unsigned)mode & 07777;
    out->size = out->type == 'f' ? size : 0;
    out->seconds = seconds;
    out->path = xstrdup(at + 2);
    return true;
}

// Take the text up to `stop`. NULL: there is none.
static char *take_field(char **at, char *end, char stop)
{
    char *field = *at;
    char *found = field < end ? memchr(field, stop, (size_t)(end - field)) : NULL;
    if (!found)
        return NULL;
    *found = '\0';
    *at = found + 1;
    return field;
}

int listing_parse(struct listing *l, struct buf *text, const struct sync_rules *ignored,
                  struct err *e)
{
    char kind = text->len ? text->data[0] : 0;
    if (kind != 'G' && kind != 'S')
        return err_set(e, ERR_INTERNAL, "the sandbox sent no listing of the directory");
    l->kind = kind;
    for (char *at = text->data + 1, *end = text->data + text->len; at < end;) {
        struct entry entry;
        char *line = take_field(&at, end, kind == 'G' ? '\0' : '\n');
        const char *target = line && kind == 'G' ? take_field(&at, end, '\0') : line;
        if (!target)
            return err_set(e, ERR_INTERNAL, "the sandbox's listing of the directory is cut off");
        if (!parse_entry(line, kind == 'G', &entry))
            return err_set(e, ERR_INTERNAL, "the sandbox sent an invalid listing entry: %.100s",
                           line);
        if (kind == 'G' && entry.type == 'l' && *target)
            entry.target = xstrdup(target);
        if (sync_rules_hide(ignored, entry.path))
            entry_fini(&entry);
        else if (listing_add(l, entry, e) < 0)
            return -1;
    }
    listing_sort(l);
    return 0;
}

int listing_of_sandbox(struct listing *l, struct remote *r, const char *path,
                       const struct sync_rules *ignored, struct err *e)
{
    struct buf text auto_buf = BUF_INIT;
    const char *args[] = {path, NULL};
    if (remote_script(r, LIST_SCRIPT, args, &text, LISTING_BYTES_MAX, e) < 0)
        return err_wrap(e, "list %.100s in the sandbox", path);
    return listing_parse(l, &text, ignored, e);
}
