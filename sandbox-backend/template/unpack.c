// SPDX-License-Identifier: Apache-2.0
// A template's root file system as a directory.
//
// debugfs reads the ext4 image without mounting it. cubby-nest runs it as root of the guest's
// users, so the files get owners that the guest knows and the host does not use.
#include "sandbox-backend/template/unpack.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/home.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/drivers/bubblewrap/bubblewrap.h"
#include "sandbox-backend/drivers/host/tool.h"
#include "sandbox-backend/drivers/microvm/image/template.h"
#include "sandbox-backend/drivers/template_dirs.h"
#include "sandbox-backend/nest/nest.h"

#define DISK_FILE      "disk.ext4" // in the template
#define NEW            ".new"
#define LOG_BYTES_MAX  (64 << 10)
#define LIMIT_MS       (15 * 60 * 1000)
#define BANNER         "debugfs " // the first line of its messages
#define LINE_SHOWN_MAX 200

static int run_nest(const char *const *argv, int log, struct err *e)
{
    const struct tool tool = {.argv = argv,
                              .package = "cubby",
                              .out = log,
                              .log = log,
                              .keep = -1,
                              .timeout_ms = LIMIT_MS};
    return tool_run(&tool, e);
}

// debugfs ends with 0 after an error, too, so any message but its name is one.
static int check_log(int log, struct err *e)
{
    struct buf text auto_buf = BUF_INIT;
    if (lseek(log, 0, SEEK_SET) < 0 || fd_read_all(log, LOG_BYTES_MAX, &text, e) < 0)
        return err_set(e, ERR_INTERNAL, "debugfs reported too many errors");
    char *rest = text.data;
    for (char *line; rest && (line = strsep(&rest, "\n"));)
        if (*line && !str_starts(line, BANNER))
            return err_set(e, ERR_INTERNAL, "%.*s", LINE_SHOWN_MAX, line);
    return 0;
}

static int remove_dir(const char *dir, struct err *e)
{
    char *nest auto_free = self_program(NEST_PROGRAM, e);
    const char *const argv[] = {nest, "--kind", "remove", "--dir", dir, NULL};
    int log auto_close = nest && file_exists(dir) ? fd_open_temp(e) : -1;
    return log < 0 ? (nest && !file_exists(dir) ? 0 : -1) : run_nest(argv, log, e);
}

static int unpack(const char *image, const char *dir, struct err *e)
{
    char *nest auto_free = self_program(NEST_PROGRAM, e);
    char *debugfs auto_free = nest ? tool_find("debugfs", "e2fsprogs", e) : NULL;
    int log auto_close = debugfs ? fd_open_temp(e) : -1;
    if (log < 0 || dir_make(dir, 0755, e) < 0)
        return -1;
    const char *const argv[] = {nest,      "--kind", "unpack", "--dir", dir,
                                "--image", image,    "--",     debugfs, NULL};
    struct err why = ERR_INIT, failed = ERR_INIT;
    int result = run_nest(argv, log, &failed);
    if (check_log(log, &why) < 0)
        return err_set(e, why.code, "%s", why.msg);
    return result < 0 ? err_set(e, failed.code, "%s", failed.msg) : 0;
}

static char *root_of(const char *template)
{
    return str_printf("%s/" BUBBLEWRAP_DIR "/" BUBBLEWRAP_ROOT, template);
}

bool template_is_unpacked(const char *home, const char *template_dir)
{
    struct err e = ERR_INIT;
    return bubblewrap_check_root(home, template_dir, &e) == 0;
}

// Return a descriptor that holds the lock of a directory, or -1. how: of flock(2).
static int lock_dir(const char *dir, int how, struct err *e)
{
    int lock auto_close = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    while (lock >= 0 && flock(lock, how) < 0)
        if (errno != EINTR)
            return err_sys(e, errno, "lock %s", dir);
    return lock < 0 ? err_sys(e, errno, "open %s", dir) : steal_fd(&lock);
}

// Wait for another process that unpacks the template. Return a descriptor that holds the lock.
static int take_lock(const char *template, struct err *e)
{
    char *dir auto_free = str_printf("%s/" BUBBLEWRAP_DIR, template);
    if (dir_make(template, 0700, e) < 0 || dir_make(dir, 0755, e) < 0)
        return -1;
    return lock_dir(dir, LOCK_EX, e);
}

// Write all files to the disk before the name says that they are complete.
static int sync_root(const char *root, struct err *e)
{
    int fd auto_close = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 || syncfs(fd) < 0 ? err_sys(e, errno, "sync %s", root) : 0;
}

static int unpack_to(const char *image, const char *root, struct err *e)
{
    char *fresh auto_free = str_printf("%s" NEW, root);
    if (remove_dir(fresh, e) < 0 || unpack(image, fresh, e) < 0 || sync_root(fresh, e) < 0) {
        remove_dir(fresh, NULL);
        return -1;
    }
    // A root of another user stands there if this user cannot use it.
    if (remove_dir(root, e) < 0)
        return -1;
    return rename(fresh, root) < 0 ? err_sys(e, errno, "rename %s", fresh) : 0;
}

int template_unpack(const char *home, const char *name, bool *made, struct err *e)
{
    char *template auto_free = template_dirs_find(home, name);
    char *own auto_free = template_dirs_own(home, template);
    char *image auto_free = str_printf("%s/" DISK_FILE, template);
    char *root auto_free = root_of(own);
    *made = false;
    if (template_dirs_check(home, name, e) < 0)
        return -1;
    if (!file_exists(image))
        return err_set(e, ERR_NOT_FOUND,
                       "there is no template \"%s\"; build it with: cubby template build %s", name,
                       name);
    int lock auto_close = take_lock(own, e);
    if (lock < 0)
        return -1;
    *made = !template_is_unpacked(home, template);
    return *made && unpack_to(image, root, e) < 0 ? err_wrap(e, "unpack template \"%s\"", name) : 0;
}

int template_unpack_remove(const char *template_dir, bool force, struct err *e)
{
    char *dir auto_free = str_printf("%s/" BUBBLEWRAP_DIR, template_dir);
    char *root auto_free = root_of(template_dir);
    int how = LOCK_EX | LOCK_NB;
    if (!file_exists(dir))
        return 0;
    int lock auto_close = lock_dir(dir, how, NULL);
    if (lock < 0)
        return err_set(e, ERR_CONFLICT, "template \"%s\" is being unpacked; try again later",
                       str_base(template_dir));
    // Each cubby-nest of a sandbox holds a lock of the other kind.
    int users auto_close = file_exists(root) && !force ? lock_dir(root, how, NULL) : -1;
    if (users < 0 && file_exists(root) && !force)
        return err_set(e, ERR_CONFLICT, "a sandbox of the tier bubblewrap uses template \"%s\"",
                       str_base(template_dir));
    return remove_dir(dir, e);
}
