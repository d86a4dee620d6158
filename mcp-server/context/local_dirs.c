// SPDX-License-Identifier: Apache-2.0
// The local directories from which tools may read files, and to which they may write downloads.
//
// Each directory is held open, and the kernel resolves paths below that descriptor (openat2 with
// RESOLVE_BENEATH). So "..", an absolute symbolic link, or a race with a process that swaps a
// directory for a link cannot lead out: there is no moment between check and use. Without openat2,
// each component is opened separately, and links and ".." are refused.
//
// A model chooses what is written there, and may be tricked. So no file of the user is replaced,
// and no hidden name is written, because programs run what they find there: .git/hooks, .vscode,
// .mcp.json.
#include "mcp-server/context/local_dirs.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/log/log.h"

#define ROOTS_MAX (OPT_LIST_MAX + 2)

struct root {
    int fd;      // O_PATH, owned
    char *given; // owned: absolute, as the user named it
    char *real;  // owned: without symbolic links
};

struct local_dirs {
    char *cwd; // owned; "" if unknown
    struct root roots[ROOTS_MAX];
    int count;
};

static char *absolute(const struct local_dirs *d, const char *path)
{
    return path[0] == '/' ? xstrdup(path) : str_printf("%s/%s", d->cwd, path);
}

static void add_root(struct local_dirs *d, const char *path)
{
    char *given auto_free = absolute(d, path);
    char *real auto_free = realpath(given, NULL);
    int fd = real ? open(real, O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
    if (fd < 0) {
        log_warn("local_dir.skip",
                 "dir=%s error=\"%s\": tools cannot use it; once it can be opened, start "
                 "cubby-mcp again",
                 given, strerror(errno));
        return;
    }
    size_t len = strlen(given);
    while (len > 1 && given[len - 1] == '/')
        given[--len] = '\0';
    for (int i = 0; i < d->count; i++) {
        if (str_eq(d->roots[i].given, given)) {
            close(fd);
            return;
        }
    }
    d->roots[d->count++] = (struct root){.fd = fd, .given = steal(&given), .real = steal(&real)};
}

// Directories that are allowed by default, over stdio only.
static void add_usual_roots(struct local_dirs *d, const struct config *config)
{
    // Desktop clients start their servers in "/", which must not allow every file.
    if (d->cwd[0] && !str_eq(d->cwd, "/"))
        add_root(d, d->cwd);
    if (config->logs_dir) {
        char *tmpfiles auto_free = str_printf("%s/tmpfiles", config->logs_dir);
        struct err made = ERR_INIT;
        if (dir_make(tmpfiles, 0755, &made) < 0)
            log_warn("local_dir.skip", "error=%s", made.msg);
        else
            add_root(d, tmpfiles);
    }
}

struct local_dirs *local_dirs_new(const struct config *config, struct err *e)
{
    struct local_dirs *d = xcalloc(1, sizeof *d);
    char cwd[PATH_MAX];
    d->cwd = xstrdup(getcwd(cwd, sizeof cwd) ? cwd : "");
    if (!config->http)
        add_usual_roots(d, config);
    for (int i = 0; i < config->local_dirs.count; i++)
        add_root(d, config->local_dirs.items[i]);
    if (d->count > 0)
        return d;
    err_set(e, ERR_DENIED, "no local directory is allowed");
    local_dirs_free(d);
    return NULL;
}

void local_dirs_free(struct local_dirs *d)
{
    for (int i = 0; d && i < d->count; i++) {
        close(d->roots[i].fd);
        free(d->roots[i].given);
        free(d->roots[i].real);
    }
    if (d)
        free(d->cwd);
    free(d);
}

const char *local_dirs_first(const struct local_dirs *d)
{
    return d->roots[0].given;
}

// ---- resolving

// Return the rest of `path` below `root`; NULL when it is not below it.
static const char *below(const char *path, const char *root)
{
    size_t len = strlen(root);
    if (strncmp(path, root, len) != 0)
        return NULL;
    if (str_eq(root, "/"))
        return path + 1;
    return path[len] == '/' ? path + len + 1 : path[len] ? NULL : path + len;
}

// Open component by component, without links and "..".
static int open_step_by_step(int root, const char *rest, int flags)
{
    int at auto_close = fcntl(root, F_DUPFD_CLOEXEC, 3);
    char *path auto_free = xstrdup(rest);
    char *save = NULL;
    const char *part = strtok_r(path, "/", &save);
    while (part) {
        const char *next = strtok_r(NULL, "/", &save);
        if (strcmp(part, "..") == 0) {
            errno = EXDEV;
            return -1;
        }
        int last = flags | O_NOFOLLOW | O_CLOEXEC;
        int fd = openat(at, part, next ? O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC : last);
        if (fd < 0)
            return -1;
        close(at);
        at = fd;
        part = next;
    }
    return steal_fd(&at);
}

static int open_beneath(int root, const char *rest, int flags)
{
    while (*rest == '/')
        rest++;
    struct open_how how = {
        .flags = (uint64_t)(unsigned)(flags | O_CLOEXEC),
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS,
    };
    long fd = syscall(SYS_openat2, root, *rest ? rest : ".", &how, sizeof how);
    if (fd < 0 && (errno == ENOSYS || errno == EPERM))
        return open_step_by_step(root, rest, flags);
    return (int)fd;
}

static int fail_outside(const struct local_dirs *d, const char *path, struct err *e)
{
    struct buf names auto_buf = BUF_INIT;
    for (int i = 0; i < d->count; i++)
        buf_printf(&names, "%s%s", i ? ", " : "", d->roots[i].given);
    return err_set(e, ERR_DENIED, "%.100s is not in an allowed directory (%.120s)", path,
                   buf_str(&names));
}

static int fail_open(const char *path, int sys, struct err *e)
{
    if (sys == EXDEV || sys == ELOOP)
        return err_set(e, ERR_DENIED, "%.200s leads outside the allowed directory", path);
    return err_sys(e, sys, "open %.200s", path);
}

// Return the first component that begins with '.' and is not ".", or NULL. Borrowed from `rest`.
static const char *hidden_in(const char *rest)
{
    for (const char *part = rest; *part; part += strcspn(part, "/")) {
        part += strspn(part, "/");
        if (part[0] == '.' && part[1] && part[1] != '/')
            return part;
    }
    return NULL;
}

static int fail_hidden(const char *name, struct err *e)
{
    size_t len = strcspn(name, "/");
    int shown = (int)utf8_valid_prefix(name, len < 100 ? len : 100);
    return err_set(e, ERR_DENIED, "'%.*s' begins with '.': downloads cannot write hidden files",
                   shown, name);
}

// A link may lead to a hidden directory, so check the real path of the opened one. Return 0 or -1.
static int check_inside(int root, int dir, struct err *e)
{
    char top[PATH_MAX], real[PATH_MAX];
    char *link auto_free = str_printf("/proc/self/fd/%d", root);
    char *other auto_free = str_printf("/proc/self/fd/%d", dir);
    ssize_t a = readlink(link, top, sizeof top - 1);
    ssize_t b = readlink(other, real, sizeof real - 1);
    if (a < 0 || b < 0)
        return err_sys(e, errno, "read /proc/self/fd");
    top[a] = real[b] = '\0';
    const char *rest = below(real, top);
    const char *hidden = rest ? hidden_in(rest) : NULL;
    if (!rest)
        return err_set(e, ERR_DENIED, "%.200s is not in an allowed directory", real);
    return hidden ? fail_hidden(hidden, e) : 0;
}

// The use of an opened path. A path to write to must not have hidden names.
enum purpose { TO_READ, TO_WRITE };

static int open_allowed(const struct local_dirs *d, const char *path, int flags,
                        enum purpose purpose, struct err *e)
{
    char *full auto_free = absolute(d, path);
    const char *hidden = NULL;
    int sys = 0;
    for (int i = 0; i < d->count; i++) {
        const struct root *r = &d->roots[i];
        const char *rest = below(full, r->given);
        if (!rest)
            rest = below(full, r->real);
        if (!rest)
            continue;
        if (purpose == TO_WRITE && hidden_in(rest)) {
            hidden = hidden_in(rest);
            continue;
        }
        int fd auto_close = open_beneath(r->fd, rest, flags);
        if (fd >= 0 && purpose == TO_WRITE && check_inside(r->fd, fd, e) < 0)
            return -1;
        if (fd >= 0)
            return steal_fd(&fd);
        // Of two allowed directories, one inside the other, the inner one wins.
        if (sys == 0 || sys == EXDEV)
            sys = errno;
    }
    if (sys)
        return fail_open(path, sys, e);
    // Report ".." as a way out.
    return hidden && strncmp(hidden, "..", 2) != 0 ? fail_hidden(hidden, e)
                                                   : fail_outside(d, path, e);
}

int local_dirs_open(const struct local_dirs *d, const char *path, struct err *e)
{
    // O_NONBLOCK: opening a FIFO must not wait for its other end.
    int fd auto_close = open_allowed(d, path, O_RDONLY | O_NONBLOCK | O_NOCTTY, TO_READ, e);
    if (fd < 0)
        return -1;
    struct stat st;
    if (fstat(fd, &st) < 0)
        return err_sys(e, errno, "stat %.200s", path);
    if (!S_ISREG(st.st_mode))
        return err_set(e, ERR_INVALID, "%.200s is %s, not a regular file", path,
                       S_ISDIR(st.st_mode) ? "a directory" : "a special file");
    return steal_fd(&fd);
}

// ---- writing

static void local_file_free(struct local_file *f)
{
    if (f->fd >= 0)
        close(f->fd);
    if (f->dir >= 0)
        close(f->dir);
    free(f->name);
    free(f->temp);
    free(f->path);
    *f = (struct local_file){.dir = -1, .fd = -1};
}

static int check_name(const char *name, const char *path, struct err *e)
{
    if (!name[0] || str_eq(name, ".") || str_eq(name, ".."))
        return err_set(e, ERR_INVALID, "%.200s does not end with a file name", path);
    if (strlen(name) > NAME_MAX)
        return err_set(e, ERR_INVALID, "the file name is too long (%zu bytes; at most %d)",
                       strlen(name), NAME_MAX);
    return name[0] == '.' ? fail_hidden(name, e) : 0;
}

static int fail_exists(const struct local_file *f, struct err *e)
{
    return err_set(e, ERR_EXISTS, "%.200s already exists; choose another local_filename", f->path);
}

static int open_temp(struct local_file *f, const struct local_dirs *d, struct err *e)
{
    char *random auto_free = random_hex(6);
    f->temp = str_printf(".cubby-%s.part", random);
    char *dir auto_free = xstrndup(f->path, (size_t)(str_base(f->path) - f->path));
    struct stat st;
    f->dir = open_allowed(d, dir, O_PATH | O_DIRECTORY, TO_WRITE, e);
    if (f->dir < 0)
        return -1;
    if (!f->replace && fstatat(f->dir, f->name, &st, AT_SYMLINK_NOFOLLOW) == 0)
        return fail_exists(f, e);
    f->fd = openat(f->dir, f->temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    return f->fd < 0 ? err_sys(e, errno, "write %.200s", f->path) : 0;
}

int local_file_create(struct local_file *f, const struct local_dirs *d, const char *path,
                      bool replace, struct err *e)
{
    *f = (struct local_file){.replace = replace, .dir = -1, .fd = -1, .path = absolute(d, path)};
    f->name = xstrdup(str_base(f->path));
    if (check_name(f->name, path, e) == 0 && open_temp(f, d, e) == 0)
        return 0;
    local_file_free(f);
    return -1;
}

// Give the file its final name. Not every file system can rename without replacing, but all with
// hard links can link.
static int settle(const struct local_file *f)
{
    if (f->replace)
        return renameat(f->dir, f->temp, f->dir, f->name);
    if (renameat2(f->dir, f->temp, f->dir, f->name, RENAME_NOREPLACE) == 0)
        return 0;
    if (errno != EINVAL && errno != ENOSYS)
        return -1;
    if (linkat(f->dir, f->temp, f->dir, f->name, 0) < 0)
        return -1;
    return unlinkat(f->dir, f->temp, 0);
}

int local_file_commit(struct local_file *f, struct err *e)
{
    if (settle(f) == 0) {
        local_file_free(f);
        return 0;
    }
    if (errno == EEXIST)
        fail_exists(f, e);
    else
        err_sys(e, errno, "write %.200s", f->path);
    local_file_abort(f);
    return -1;
}

void local_file_abort(struct local_file *f)
{
    if (f->dir >= 0)
        unlinkat(f->dir, f->temp, 0);
    local_file_free(f);
}
