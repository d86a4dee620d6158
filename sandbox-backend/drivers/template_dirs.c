// SPDX-License-Identifier: Apache-2.0
// The directories of templates: those of the home and those of the system.
#include "sandbox-backend/drivers/template_dirs.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/json_fields.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

#define JSON_NAME      "template.json"
#define JSON_BYTES_MAX (1024 * 1024)
#define USED           "used"
#define DEPTH_MAX      2 // of a template's directories: gvisor/ has the deepest files

// ---- the directory of the system
char *template_dirs_system_path(struct err *e)
{
    const char *set = getenv(TEMPLATE_DIRS_ENV);
    const char *path = set ? set : TEMPLATE_DIRS_SYSTEM;
    if (*path == '/')
        return xstrdup(path);
    err_set(e, ERR_INVALID, *path ? "%s must be an absolute path, not \"%s\"" : "%s is empty%s",
            TEMPLATE_DIRS_ENV, path);
    return NULL;
}

// The result is not kept: the directory may appear while a daemon runs.
char *template_dirs_system(const char *home)
{
    char *path auto_free = template_dirs_system_path(NULL);
    char *system auto_free = path ? realpath(path, NULL) : NULL;
    char *templates auto_free = str_printf("%s/templates", home);
    char *own auto_free = realpath(templates, NULL);
    return system && !str_eq(system, own) ? steal(&system) : NULL;
}

// ---- may it be used

// Check one file or directory: root or this user must own it, and nobody else may write to it.
// Others may make files in a sticky directory, but cannot replace ours.
static int check_one(const struct stat *st, const char *path, struct err *e)
{
    bool trusted = st->st_uid == 0 || st->st_uid == geteuid();
    bool sticky = S_ISDIR(st->st_mode) && (st->st_mode & S_ISVTX);
    if (!trusted)
        return err_set(e, ERR_PRECONDITION,
                       "%s belongs to user %u; a template of the system must belong to root", path,
                       (unsigned)st->st_uid);
    if ((st->st_mode & (S_IWGRP | S_IWOTH)) && !sticky)
        return err_set(e, ERR_PRECONDITION,
                       "others may write to %s; make it writable by its owner only: chmod go-w %s",
                       path, path);
    return 0;
}

static int check_path(const char *path, struct err *e)
{
    struct stat st;
    if (lstat(path, &st) < 0)
        return err_sys(e, errno, "examine %s", path);
    if (S_ISLNK(st.st_mode))
        return err_set(e, ERR_PRECONDITION, "%s is a symbolic link", path);
    return check_one(&st, path, e);
}

// Check the directories above `path`, from the root.
static int check_parents(const char *path, struct err *e)
{
    char *part auto_free = xstrdup(path);
    for (char *slash = part; (slash = strchr(slash, '/')); slash++) {
        char *end = slash == part ? slash + 1 : slash;
        char after = *end;
        *end = '\0';
        int result = check_path(part, e);
        *end = after;
        if (result < 0)
            return -1;
    }
    return 0;
}

static int check_tree(const char *dir, int depth, struct err *e)
{
    if (check_path(dir, e) < 0)
        return -1;
    DIR *all = opendir(dir);
    if (!all)
        return err_sys(e, errno, "read %s", dir);
    int result = 0;
    for (struct dirent *d; result == 0 && (d = readdir(all));) {
        char *path auto_free = str_printf("%s/%s", dir, d->d_name);
        struct stat st;
        if (str_eq(d->d_name, ".") || str_eq(d->d_name, ".."))
            continue;
        result = check_path(path, e);
        if (result == 0 && depth > 1 && lstat(path, &st) == 0 && S_ISDIR(st.st_mode))
            result = check_tree(path, depth - 1, e);
    }
    closedir(all);
    return result;
}

char *template_dirs_system_make(struct err *e)
{
    char *path auto_free = template_dirs_system_path(e);
    if (!path)
        return NULL;
    // The umask must not keep others out.
    if (!file_exists(path) && (dir_make(path, 0755, NULL) < 0 || chmod(path, 0755) < 0)) {
        err_set(e, ERR_DENIED,
                "this user cannot make %s, the directory of templates for all users; run the "
                "command as root, or leave --system out",
                path);
        return NULL;
    }
    char *real auto_free = realpath(path, NULL);
    if (!real || access(real, W_OK) < 0) {
        err_set(e, ERR_DENIED,
                "this user may not write to %s, the directory of templates for all users; run "
                "the command as root, or leave --system out",
                path);
        return NULL;
    }
    return check_parents(real, e) == 0 && check_path(real, e) == 0 ? steal(&real) : NULL;
}

// Return the directory of the system's template if it exists, or NULL. New string.
static char *in_system(const char *home, const char *name)
{
    char *system auto_free = template_dirs_system(home);
    char *dir = system ? str_printf("%s/%s", system, name) : NULL;
    char *json auto_free = dir ? str_printf("%s/" JSON_NAME, dir) : NULL;
    if (dir && *name && !strchr(name, '/') && *name != '.' && file_exists(json))
        return dir;
    free(dir);
    return NULL;
}

static int check_dir(const char *dir, struct err *e)
{
    if (check_parents(dir, e) == 0 && check_tree(dir, DEPTH_MAX, e) == 0)
        return 0;
    return err_wrap(e, "template \"%s\" of the system is not used", str_base(dir));
}

int template_dirs_check(const char *home, const char *name, struct err *e)
{
    char *json auto_free = str_printf("%s/templates/%s/" JSON_NAME, home, name);
    char *dir auto_free = file_exists(json) ? NULL : in_system(home, name);
    return dir ? check_dir(dir, e) : 0;
}

// ---- finding
static char *usable(const char *home, const char *name)
{
    char *dir auto_free = in_system(home, name);
    return dir && check_dir(dir, NULL) == 0 ? steal(&dir) : NULL;
}

char *template_dirs_find(const char *home, const char *name)
{
    char *own auto_free = str_printf("%s/templates/%s", home, name);
    char *json auto_free = str_printf("%s/" JSON_NAME, own);
    char *shared = file_exists(json) ? NULL : usable(home, name);
    return shared ? shared : steal(&own);
}

// Return the build of the template in `dir`. New string; NULL: there is none.
static char *build_in(const char *dir)
{
    char *path auto_free = str_printf("%s/" JSON_NAME, dir);
    json_t *json = json_file_read(path, JSON_BYTES_MAX, NULL);
    const char *made = json_string_value(json_object_get(json, "created_at"));
    char *build = json ? xstrdup(made ? made : "") : NULL;
    json_decref(json);
    return build;
}

char *template_dirs_find_build(const char *home, const char *name, const char *build)
{
    char *meant auto_free = template_dirs_find(home, name);
    char *has auto_free = build && *build ? build_in(meant) : NULL;
    if (!has || str_eq(has, build))
        return steal(&meant);
    char *shared auto_free = usable(home, name);
    char *other auto_free = shared ? build_in(shared) : NULL;
    return str_eq(other, build) ? steal(&shared) : steal(&meant);
}

bool template_dirs_is_system(const char *home, const char *dir)
{
    char *system auto_free = template_dirs_system(home);
    size_t len = system ? strlen(system) : 0;
    return system && str_starts(dir, system) && dir[len] == '/';
}

// ---- what a home keeps

// A build is a time, "2026-11-24T02:30:00.123Z". Only its letters and digits are taken, because a
// colon means something in the options of a mount.
char *template_dirs_own(const char *home, const char *dir)
{
    char *build auto_free = template_dirs_is_system(home, dir) ? build_in(dir) : NULL;
    if (!build)
        return xstrdup(dir);
    size_t n = 0;
    for (const char *c = build; *c; c++)
        if (isalnum((unsigned char)*c))
            build[n++] = *c;
    build[n] = '\0';
    return str_printf("%s/" TEMPLATE_DIRS_OWN "/%s@%s", home, str_base(dir), build);
}

void template_dirs_touch(const char *home, const char *dir)
{
    char *own auto_free = template_dirs_own(home, dir);
    bool shared = !str_eq(own, dir);
    char *path auto_free = str_printf("%s/%s", own, shared ? USED : JSON_NAME);
    if (shared && dir_make(own, 0700, NULL) < 0)
        return;
    int fd = shared ? open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600) : -1;
    if (fd >= 0)
        close(fd);
    (void)utimensat(AT_FDCWD, path, NULL, 0);
}

int64_t template_dirs_used_s(const char *home, const char *dir)
{
    char *own auto_free = template_dirs_own(home, dir);
    char *used auto_free = str_printf("%s/" USED, own);
    char *json auto_free = str_printf("%s/" JSON_NAME, dir);
    struct stat st;
    if (!str_eq(own, dir) && stat(used, &st) == 0)
        return st.st_mtim.tv_sec;
    return stat(json, &st) < 0 ? 0 : st.st_mtim.tv_sec;
}

// ---- builds
bool template_dirs_is_build(const char *entry, const char *name)
{
    size_t len = strlen(name);
    const char *rest = entry + strlen(TEMPLATE_BUILD_PREFIX);
    return str_starts(entry, TEMPLATE_BUILD_PREFIX) &&
           strlen(rest) == len + 1 + TEMPLATE_BUILD_UNIQUE && strncmp(rest, name, len) == 0;
}

bool template_dirs_is_in_work(const char *dir)
{
    const char *name = str_base(dir);
    char *parent auto_free = xstrndup(dir, (size_t)(name - dir));
    DIR *all = opendir(parent);
    bool is = false;
    for (struct dirent *d; all && !is && (d = readdir(all));) {
        if (!template_dirs_is_build(d->d_name, name))
            continue;
        int fd auto_close = openat(dirfd(all), d->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        is = fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) < 0 && errno == EWOULDBLOCK;
    }
    if (all)
        closedir(all);
    return is;
}
