// SPDX-License-Identifier: Apache-2.0
// Paths in requests, and the directories above them.
#include "sandbox-backend/envd/core/paths.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

#define LINKS_MAX   40 // as the kernel's MAXSYMLINKS
#define TEMP_PREFIX ".envd-"
#define TEMP_NEW    ".tmp"
#define TEMP_OVER   ".ovr" // as long as TEMP_NEW
#define TEMP_UNIQUE 8      // random bytes

char *path_clean(const char *absolute)
{
    struct buf out = BUF_INIT;
    for (const char *p = absolute; *p;) {
        size_t n = strcspn(p, "/");
        if (n == 2 && p[0] == '.' && p[1] == '.') {
            while (out.len && out.data[--out.len] != '/')
                ;
        } else if (n > 0 && !(n == 1 && p[0] == '.')) {
            buf_addc(&out, '/');
            buf_add(&out, p, n);
        }
        p += n + (p[n] == '/');
    }
    if (out.len == 0)
        buf_addc(&out, '/');
    else
        buf_addc(&out, '\0'); // ".." moved the end back without its NUL
    return buf_take(&out);
}

static char *below(const char *dir, const char *path)
{
    char *joined auto_free = str_printf("/%s/%s", dir, path);
    return path_clean(joined);
}

char *path_resolve(const char *path, const struct user *user, const char *default_dir,
                   struct err *e)
{
    if (!*path)
        path = default_dir && *default_dir ? default_dir : "~";
    if (*path == '~') {
        if (path[1] != '/' && path[1] != '\0') {
            err_set(e, ERR_INVALID, "cannot expand '%s': only your own home (~) is known", path);
            return NULL;
        }
        return below(user->home, path + 1);
    }
    return *path == '/' ? path_clean(path) : below(user->home, path);
}

char *path_parent(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash && slash != path ? xstrndup(path, (size_t)(slash - path)) : xstrdup("/");
}

// Return the target of the symbolic link at `path` as an absolute path; NULL if `path` is no
// symbolic link.
static char *read_link(const char *path)
{
    char target[PATH_MAX];
    ssize_t n = readlink(path, target, sizeof target - 1);
    if (n <= 0)
        return NULL;
    target[n] = '\0';
    if (target[0] == '/')
        return xstrdup(target);
    // path_clean would be wrong: ".." after a linked directory means the parent of the link's
    // target.
    char *dir auto_free = path_parent(path);
    return str_printf("%s/%s", dir, target);
}

char *path_follow(const char *path, struct err *e)
{
    char *at = xstrdup(path);
    for (int i = 0; i < LINKS_MAX; i++) {
        char *next = read_link(at);
        if (!next)
            return at;
        free(at);
        at = next;
    }
    free(at);
    err_set(e, ERR_PRECONDITION, "too many symbolic links: %s", path);
    return NULL;
}

static int make_dir(const char *path, const struct user *user, bool *existed, struct err *e)
{
    *existed = false;
    if (mkdir(path, 0755) == 0) {
        if (chown(path, user->uid, user->gid) < 0 && errno != EPERM)
            return err_sys(e, errno, "change the owner of %s", path);
        return 0;
    }
    int sys = errno;
    struct stat st;
    if (stat(path, &st) < 0) {
        if (sys == ENOTDIR)
            return err_set(e, ERR_INVALID, "part of the path is not a directory: %s", path);
        return err_sys(e, sys, "make directory %s", path);
    }
    if (!S_ISDIR(st.st_mode))
        return err_set(e, ERR_INVALID, "path exists and is not a directory: %s", path);
    *existed = true;
    return 0;
}

int path_make_dirs(const char *path, const struct user *user, bool *existed, struct err *e)
{
    bool there;
    *existed = false;
    struct stat st;
    if (stat(path, &st) == 0) // the usual case, in one call
        return make_dir(path, user, existed, e);
    char *partial auto_free = xstrdup(path);
    for (char *p = partial + 1; *p; p++) {
        if (*p != '/')
            continue;
        *p = '\0';
        if (make_dir(partial, user, &there, e) < 0)
            return -1;
        *p = '/';
    }
    return make_dir(partial, user, existed, e);
}

char *path_temp(const char *dir, bool replaces)
{
    char *unique auto_free = random_hex(TEMP_UNIQUE);
    return str_printf("%s/" TEMP_PREFIX "%s%s", str_eq(dir, "/") ? "" : dir, unique,
                      replaces ? TEMP_OVER : TEMP_NEW);
}

bool path_is_temp(const char *name)
{
    return strlen(name) == strlen(TEMP_PREFIX) + 2 * TEMP_UNIQUE + strlen(TEMP_NEW) &&
           str_starts(name, TEMP_PREFIX) && (str_ends(name, TEMP_NEW) || path_temp_replaces(name));
}

bool path_temp_replaces(const char *name)
{
    return str_ends(name, TEMP_OVER);
}
