// SPDX-License-Identifier: Apache-2.0
// The context of a build: what a step copies, and its hash.
#include "sandbox-backend/build/build_context.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/build/build_context_internal.h"
#include "sandbox-backend/keys/sha256.h"

struct walk {
    struct build_context *context;
    struct selection *out;
    bool add; // the step is ADD, which unpacks archives
    int depth;
    // If a link leads to the source: where it is, and the length of the path that stands for it.
    char *real; // owned, or NULL
    size_t shown;
    struct err *e;
};

int build_context__open(const struct build_context *c, const char *path, int flags)
{
    struct open_how how = {.flags = (unsigned)flags | O_CLOEXEC,
                           .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS};
    return (int)syscall(SYS_openat2, c->dir, *path ? path : ".", &how, sizeof how);
}

// ---- opening
static int read_ignore(struct build_context *c, const char *file, struct err *e)
{
    struct buf text auto_buf = BUF_INIT;
    char *own auto_free = str_printf("%s/.dockerignore", c->path);
    const char *path = file ? file : own;
    if (!file_exists(path))
        return 0;
    if (file_read(path, IGNORE_BYTES_MAX, &text, e) < 0)
        return -1;
    c->ignore = ignore_new(buf_str(&text), text.len, e);
    return c->ignore ? 0 : -1;
}

struct build_context *build_context_open(const char *dir, const char *ignore_file, struct err *e)
{
    struct build_context *c = xcalloc(1, sizeof *c);
    c->path = xstrdup(dir);
    c->dir = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (c->dir < 0)
        err_sys(e, errno, "the context %s", dir);
    else if (read_ignore(c, ignore_file, e) == 0)
        return c;
    build_context_close(c);
    return NULL;
}

void build_context_close(struct build_context *c)
{
    if (!c)
        return;
    if (c->dir >= 0)
        close(c->dir);
    ignore_free(c->ignore);
    free(c->path);
    free(c);
}

// ---- entries
static struct build_context_entry *add_entry(struct walk *w, const char *path,
                                             const struct stat *st)
{
    struct selection *s = w->out;
    if (s->count >= CONTEXT_ENTRIES_MAX) {
        err_set(w->e, ERR_TOO_LARGE, "the step copies more than %d files", CONTEXT_ENTRIES_MAX);
        return NULL;
    }
    if (s->count == s->cap) {
        s->cap = s->cap ? 2 * s->cap : 64;
        s->entries = xrealloc(s->entries, s->cap * sizeof *s->entries);
    }
    struct build_context_entry *entry = &s->entries[s->count++];
    *entry = (struct build_context_entry){.path = xstrdup(path), .st = *st};
    return entry;
}

static int add_link(struct walk *w, const char *path, int dir, const char *name,
                    const struct stat *st)
{
    char target[PATH_MAX];
    ssize_t len = readlinkat(dir, name, target, sizeof target - 1);
    if (len < 0)
        return err_sys(w->e, errno, "read the link %s", path);
    struct build_context_entry *entry = add_entry(w, path, st);
    if (!entry)
        return -1;
    entry->target = xstrndup(target, (size_t)len);
    return 0;
}

static int walk_dir(struct walk *w, int fd, const char *path);

static int refuse_kind(struct walk *w, const char *path, mode_t mode)
{
    return err_set(w->e, ERR_INVALID, "%.200s is a %s, which cannot be copied", path,
                   S_ISSOCK(mode)   ? "socket"
                   : S_ISFIFO(mode) ? "named pipe"
                                    : "device");
}

// Return whether .dockerignore leaves out a path, or what a link shows there.
static bool is_out(const struct walk *w, const char *path)
{
    if (ignore_matches(w->context->ignore, path))
        return true;
    if (!w->real)
        return false;
    char *real auto_free = str_printf("%s%s", w->real, path + w->shown);
    return ignore_matches(w->context->ignore, real + strspn(real, "/"));
}

// Walk one entry of a directory: `name` in `dir`, whose path in the context is `path`.
static int walk_one(struct walk *w, int dir, const char *name, const char *path)
{
    struct stat st;
    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? 0 : err_sys(w->e, errno, "look at %s", path);
    bool out = is_out(w, path);
    if (out && !(S_ISDIR(st.st_mode) && ignore_has_exceptions(w->context->ignore)))
        return 0;
    if (S_ISLNK(st.st_mode))
        return add_link(w, path, dir, name, &st);
    if (S_ISREG(st.st_mode))
        return add_entry(w, path, &st) ? 0 : -1;
    if (!S_ISDIR(st.st_mode))
        return refuse_kind(w, path, st.st_mode);
    if (!out && !add_entry(w, path, &st))
        return -1;
    int fd auto_close = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 ? err_sys(w->e, errno, "open %s", path) : walk_dir(w, fd, path);
}

static int no_dots(const struct dirent *d)
{
    return strcmp(d->d_name, ".") != 0 && strcmp(d->d_name, "..") != 0;
}

static int by_bytes(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static int walk_dir(struct walk *w, int fd, const char *path)
{
    struct dirent **names = NULL;
    if (w->depth >= CONTEXT_DEPTH_MAX)
        return err_set(w->e, ERR_TOO_LARGE, "%.200s has too many levels of directories", path);
    int n = scandirat(fd, ".", &names, no_dots, by_bytes);
    if (n < 0)
        return err_sys(w->e, errno, "read the directory %s", *path ? path : w->context->path);
    w->depth++;
    int result = 0;
    for (int i = 0; i < n; i++) {
        char *child auto_free = str_printf("%s%s%s", path, *path ? "/" : "", names[i]->d_name);
        if (result == 0)
            result = walk_one(w, fd, names[i]->d_name, child);
        free(names[i]);
    }
    w->depth--;
    free(names);
    return result;
}

// ---- sources
// Make a source relative, without "." and double slashes. New string; NULL: it leads out.
static char *relative(const char *source)
{
    struct buf out = BUF_INIT;
    int up = 0;
    for (const char *s = source; *s;) {
        size_t len = strcspn(s, "/");
        if (len == 2 && s[0] == '.' && s[1] == '.') {
            up = -1;
            break;
        }
        if (len && !(len == 1 && s[0] == '.')) {
            if (out.len)
                buf_addc(&out, '/');
            buf_add(&out, s, len);
        }
        s += len + (s[len] == '/');
    }
    char *path = out.len ? buf_take(&out) : (buf_fini(&out), xstrdup(""));
    if (up == 0)
        return path;
    free(path);
    return NULL;
}

// A link that leads out of the context, or to nothing, is stored as it is.
static int take_stray_link(struct walk *w, const char *path)
{
    struct stat st;
    char *parent auto_free = xstrdup(path);
    char *slash = strrchr(parent, '/');
    if (slash)
        *slash = '\0';
    int dir auto_close = build_context__open(w->context, slash ? parent : "", O_PATH | O_DIRECTORY);
    if (dir < 0 || fstatat(dir, str_base(path), &st, AT_SYMLINK_NOFOLLOW) < 0 ||
        !S_ISLNK(st.st_mode))
        return err_set(w->e, ERR_NOT_FOUND, "\"%.200s\" is not in the context %s", path,
                       w->context->path);
    return add_link(w, path, dir, str_base(path), &st);
}

// Tell why a source that the Dockerfile names cannot be followed.
static int refuse_link(struct walk *w, const char *path, int why)
{
    if (why == EXDEV)
        return err_set(w->e, ERR_INVALID,
                       "\"%.200s\" is a link, or is behind one, that leads out of the context %s; "
                       "copy the files there into the context",
                       path, w->context->path);
    return err_set(w->e, ERR_NOT_FOUND,
                   "\"%.200s\" is a link that leads to nothing in the context %s", path,
                   w->context->path);
}

// A source cannot be opened. A link that a glob has found is stored as it is.
static int refuse_or_keep(struct walk *w, const char *path, bool named, int why)
{
    if (why != EXDEV && why != ELOOP && why != ENOENT)
        return err_sys(w->e, why, "open %s in the context", path);
    if (named && why == EXDEV)
        return refuse_link(w, path, why);
    if (take_stray_link(w, path) < 0)
        return -1;
    return named ? refuse_link(w, path, why) : 0;
}

static int refuse_ignored(struct walk *w, const char *path)
{
    return err_set(w->e, ERR_NOT_FOUND, "\"%.200s\" is left out by .dockerignore", path);
}

// Take a directory. out: .dockerignore leaves it out, so it is there only for the files that a "!"
// pattern brings back.
static int take_dir(struct walk *w, int fd, const char *path, const struct stat *st, bool out)
{
    if (*path && !add_entry(w, path, st))
        return -1;
    size_t before = w->out->count;
    if (walk_dir(w, fd, path) < 0)
        return -1;
    return *path && out && w->out->count == before ? refuse_ignored(w, path) : 0;
}

// Return where an open file is in the context; NULL: it is at `path`, or nobody knows. New string.
static char *real_path(const struct build_context *c, int fd, const char *path)
{
    char names[2][PATH_MAX];
    const int fds[] = {c->dir, fd};
    for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
        char *link auto_free = str_printf("/proc/self/fd/%d", fds[i]);
        ssize_t len = readlink(link, names[i], sizeof names[i] - 1);
        if (len < 0)
            return NULL;
        names[i][len] = '\0';
    }
    const char *real = str_starts(names[1], names[0]) ? names[1] + strlen(names[0]) : path;
    real += strspn(real, "/");
    return str_eq(real, path) ? NULL : xstrdup(real);
}

// Take one source whose path is known. named: the Dockerfile has the path itself, not a glob.
static int take_path(struct walk *w, const char *path, bool named)
{
    struct stat st;
    int fd auto_close = build_context__open(w->context, path, O_RDONLY | O_NONBLOCK);
    int why = fd < 0 ? errno : 0;
    if (fd >= 0 && fstat(fd, &st) < 0)
        return err_sys(w->e, errno, "look at %s", path);
    free(w->real);
    w->real = fd < 0 ? NULL : real_path(w->context, fd, path);
    w->shown = strlen(path);
    bool out = is_out(w, path);
    if (out && (fd < 0 || !S_ISDIR(st.st_mode) || !ignore_has_exceptions(w->context->ignore)))
        return named ? refuse_ignored(w, path) : 0;
    json_array_append_new(w->out->sources, json_stringn(path, strlen(path)));
    if (fd < 0)
        return refuse_or_keep(w, path, named, why);
    if (S_ISDIR(st.st_mode))
        return take_dir(w, fd, path, &st, out);
    if (!S_ISREG(st.st_mode))
        return refuse_kind(w, path, st.st_mode);
    struct build_context_entry *entry = add_entry(w, path, &st);
    if (!entry)
        return -1;
    entry->unpack = w->add && build_context__is_archive(fd);
    return 0;
}

// Take what matches a glob: expand one part of the path after the other.
static int take_glob(struct walk *w, const char *done, const char *rest, size_t *found)
{
    size_t len = strcspn(rest, "/");
    char *part auto_free = xstrndup(rest, len);
    struct dirent **names = NULL;
    int fd auto_close = build_context__open(w->context, done, O_RDONLY | O_DIRECTORY);
    int n = fd < 0 ? 0 : scandirat(fd, ".", &names, no_dots, by_bytes);
    int result = 0;
    for (int i = 0; i < n; i++) {
        char *path auto_free = str_printf("%s%s%s", done, *done ? "/" : "", names[i]->d_name);
        bool fits = result == 0 && glob_matches(part, names[i]->d_name, false);
        if (fits && !utf8_is_valid(path, strlen(path))) {
            result =
                err_set(w->e, ERR_INVALID,
                        "\"%.100s\" matches a name that is not UTF-8; copy its directory", part);
            fits = false;
        }
        if (fits && rest[len] == '/')
            result = take_glob(w, path, rest + len + 1, found);
        else if (fits && !ignore_matches(w->context->ignore, path)) {
            ++*found;
            result = take_path(w, path, false);
        }
        free(names[i]);
    }
    free(names);
    return result;
}

static int take_source(struct walk *w, const char *source)
{
    char *path auto_free = relative(source);
    if (!path)
        return err_set(w->e, ERR_INVALID, "the source \"%.200s\" is outside the context", source);
    if (!glob_is_pattern(path))
        return take_path(w, path, true);
    size_t found = 0;
    if (take_glob(w, "", path, &found) < 0)
        return -1;
    return found ? 0
                 : err_set(w->e, ERR_NOT_FOUND, "nothing in the context %s matches \"%.200s\"",
                           w->context->path, source);
}

static int take_file(struct walk *w, const json_t *file)
{
    const char *text = json_string_value(json_object_get(file, "text"));
    struct stat st = {
        .st_mode = S_IFREG | 0644, .st_size = (off_t)strlen(text), .st_mtim.tv_sec = time(NULL)};
    char *path auto_free =
        str_printf(".cubby-inline/%s", json_string_value(json_object_get(file, "name")));
    struct build_context_entry *entry = add_entry(w, path, &st);
    if (!entry)
        return -1;
    entry->text = xstrdup(text);
    json_array_append_new(w->out->sources, json_string(path));
    return 0;
}

// ---- the hash
static int hash_content(const struct walk *w, const struct build_context_entry *entry,
                        struct sha256 *hash)
{
    if (entry->text || entry->target) {
        const char *text = entry->text ? entry->text : entry->target;
        *hash = sha256_of(text, strlen(text));
        return 0;
    }
    int fd auto_close = build_context__open(w->context, entry->path, O_RDONLY | O_NONBLOCK);
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (fd < 0 || sha256_of_file(path, hash, NULL) < 0)
        return err_sys(w->e, fd < 0 ? errno : EIO, "read %s in the context", entry->path);
    return 0;
}

static int hash_all(const struct walk *w)
{
    struct buf all auto_buf = BUF_INIT;
    char hex[SHA256_HEX_CHARS + 1] = "";
    for (size_t i = 0; i < w->out->count; i++) {
        const struct build_context_entry *entry = &w->out->entries[i];
        struct sha256 hash = {0};
        if (!S_ISDIR(entry->st.st_mode) && hash_content(w, entry, &hash) < 0)
            return -1;
        hex_encode(hex, hash.bytes, sizeof hash.bytes);
        buf_printf(&all, "%o %d %s ", (unsigned)entry->st.st_mode, entry->unpack, hex);
        buf_add(&all, entry->path, strlen(entry->path) + 1);
    }
    char *sources auto_free = json_dumps(w->out->sources, JSON_COMPACT);
    buf_adds(&all, sources);
    struct sha256 whole = sha256_of(buf_str(&all), all.len);
    hex_encode(w->out->hash, whole.bytes, sizeof whole.bytes);
    return 0;
}

int build_context_select(struct build_context *c, const json_t *step, struct selection *out,
                         struct err *e)
{
    *out = (struct selection){.sources = json_array()};
    struct walk w = {.context = c, .out = out, .e = e};
    w.add = str_eq(json_string_value(json_object_get(step, "type")), "ADD");
    size_t i;
    json_t *one;
    int result = 0;
    json_array_foreach (json_object_get(step, "sources"), i, one) {
        result = result < 0 ? -1 : take_source(&w, json_string_value(one));
    }
    json_array_foreach (json_object_get(step, "files"), i, one) {
        result = result < 0 ? -1 : take_file(&w, one);
    }
    free(w.real);
    if (result == 0)
        result = hash_all(&w);
    if (result < 0)
        selection_fini(out);
    return result;
}

void selection_fini(struct selection *s)
{
    for (size_t i = 0; i < s->count; i++) {
        free(s->entries[i].path);
        free(s->entries[i].target);
        free(s->entries[i].text);
    }
    free(s->entries);
    json_decref(s->sources);
    *s = (struct selection){0};
}
