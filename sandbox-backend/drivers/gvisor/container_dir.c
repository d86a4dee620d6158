// SPDX-License-Identifier: Apache-2.0
// The directories of containers.
#include "sandbox-backend/drivers/gvisor/container_dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/drivers/gvisor/gvisor.h"
#include "sandbox-backend/log/log.h"

#define ROOT          "runsc" // in the home
#define NAME_BYTES    6       // random
#define BUILD_PREFIX  "build-"
#define PID_TEXT_MAX  32
#define PID_LIMIT     (1 << 22) // PID_MAX_LIMIT of 64-bit Linux
#define CMDLINE_BYTES 65536
#define STAT_BYTES    4096
#define STAT_NAME     2  // number of a field in /proc/PID/stat, proc(5)
#define STAT_ENV_END  51 // 0 until the kernel has set up the stack of a new program
#define GONE_WAIT_MS  2000
#define KNOWN_WAIT_MS 5000
#define LOOK_EVERY_MS 10
#define ATTEMPTS_MAX  8

static char *root;  // owned; the parent of all containers' directories
static bool builds; // templates
static LIST_HEAD(, container_dir) live = LIST_HEAD_INITIALIZER(live);

int container_dirs_open(const char *home, struct err *e)
{
    root = str_printf("%s/" ROOT, home);
    return dir_make(root, 0700, e);
}

void container_dirs_close(void)
{
    free(steal(&root));
}

static void set_name(struct container_dir *d, const char *name)
{
    d->path = str_printf("%s/%s", root, name);
    d->control = str_printf("%s/runsc-" CONTAINER_ID ".sock", d->path);
}

static char *new_name(void)
{
    char *random auto_free = random_hex(NAME_BYTES);
    return str_printf("%s%s", builds ? BUILD_PREFIX : "", random);
}

void container_dir_init(struct container_dir *d)
{
    char *name auto_free = new_name();
    set_name(d, name);
    d->lock = -1;
    LIST_INSERT_HEAD(&live, d, link);
}

void container_dir_rename(struct container_dir *d, const char *name)
{
    free(d->path);
    free(d->control);
    set_name(d, name);
}

// A sweep of another process may take a directory that is not locked yet for a left-over one.
static bool was_swept(int sys)
{
    return sys == ENOENT || sys == EWOULDBLOCK;
}

int container_dir_make(struct container_dir *d, struct err *e)
{
    for (int attempt = 0; attempt < ATTEMPTS_MAX; attempt++) {
        if (dir_make(d->path, 0700, e) < 0)
            return -1;
        d->lock = dir_lock(d->path);
        if (d->lock >= 0 || !was_swept(errno))
            break;
        char *name auto_free = new_name();
        container_dir_rename(d, name);
    }
    return d->lock >= 0 ? 0 : err_sys(e, errno, "lock %s", d->path);
}

void container_dir_fini(struct container_dir *d, bool remove)
{
    if (remove)
        dir_remove(d->path, NULL);
    LIST_REMOVE(d, link);
    mem_close_fd(&d->lock);
    free(d->path);
    free(d->control);
}

void container_dir_move(struct container_dir *to, struct container_dir *from)
{
    LIST_REMOVE(from, link);
    *to = *from;
    LIST_INSERT_HEAD(&live, to, link);
}

char *container_dir_file(const struct container_dir *d, const char *name)
{
    return str_printf("%s/%s", d->path, name);
}

pid_t container_dir_sentry(const struct container_dir *d, struct err *e)
{
    char *path auto_free = container_dir_file(d, CONTAINER_PID);
    struct buf text auto_buf = BUF_INIT;
    int64_t pid = 0;
    if (file_read(path, PID_TEXT_MAX, &text, e) < 0)
        return -1;
    if (!str_to_int(buf_str(&text), 1, PID_LIMIT, &pid))
        return err_set(e, ERR_INTERNAL, "%s, which `runsc create` wrote, has no process id", path);
    return (pid_t)pid;
}

// ---- left-overs

// An editor or a shell that has a file of the container among its arguments is not runsc.
static bool is_runsc(const char *pid)
{
    char target[PATH_MAX];
    char *path auto_free = str_printf("/proc/%s/exe", pid);
    ssize_t n = readlink(path, target, sizeof target - 1);
    target[n > 0 ? n : 0] = '\0';
    return gvisor_driver.owns(str_base(target));
}

enum use { USE_NONE, USE_UNKNOWN, USE_THIS };

// Return whether the process is just executing a program. It has no arguments then. On a slow or
// busy host this can take long. A stub of systrap has none either, because it has unmapped them.
static bool is_beginning(const char *pid)
{
    char *path auto_free = str_printf("/proc/%s/stat", pid);
    struct buf text auto_buf = BUF_INIT;
    if (file_read(path, STAT_BYTES, &text, NULL) < 0)
        return false;
    const char *at = strrchr(buf_str(&text), ')'); // the name before it may have blanks
    for (int field = STAT_NAME; at && field < STAT_ENV_END; field++)
        at = strchr(at + 1, ' ');
    return at && strtoull(at, NULL, 10) == 0;
}

static enum use use_of(const char *pid, const char *dir)
{
    char *path auto_free = str_printf("/proc/%s/cmdline", pid);
    char *argument auto_free = str_printf("--root=%s", dir);
    struct buf text auto_buf = BUF_INIT;
    if (!is_runsc(pid) || file_read(path, CMDLINE_BYTES, &text, NULL) < 0)
        return USE_NONE; // it has ended, if it was runsc
    if (text.len == 0)
        return is_beginning(pid) ? USE_UNKNOWN : USE_NONE;
    bool is_used = memmem(text.data, text.len, argument, strlen(argument) + 1) ||
                   memmem(text.data, text.len, dir, strlen(dir) + 1);
    return is_used ? USE_THIS : USE_NONE;
}

// Kill the process if it uses the directory. Return what was found. The pidfd is opened before the
// check, so a new process with the same number is not killed.
static enum use kill_user(const char *name, const char *dir)
{
    int64_t pid = 0;
    if (!str_to_int(name, 2, PID_LIMIT, &pid) || pid == getpid())
        return USE_NONE;
    int pidfd auto_close = (int)syscall(SYS_pidfd_open, (pid_t)pid, 0);
    enum use use = pidfd < 0 ? USE_NONE : use_of(name, dir);
    if (use != USE_THIS)
        return use;
    struct pollfd gone = {.fd = pidfd, .events = POLLIN};
    log_warn("container_dir.kill", "pid=%s dir=%s", name, dir);
    if (syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0) == 0)
        poll(&gone, 1, GONE_WAIT_MS);
    return use;
}

// Return -1 if the processes cannot be listed. *again: another pass may find more.
static int kill_pass(const char *dir, bool *again)
{
    DIR *processes = opendir("/proc");
    *again = false;
    if (!processes)
        return -1;
    for (struct dirent *entry; (entry = readdir(processes));)
        *again |= kill_user(entry->d_name, dir) != USE_NONE;
    closedir(processes);
    return 0;
}

// Make at least two passes: a process that was killed in a pass may have started another during
// that pass, with a number that the pass had already left behind. Processes whose use is unknown
// are waited for.
static int kill_users(const char *dir)
{
    int64_t until = clock_mono_ms() + KNOWN_WAIT_MS;
    bool again = true;
    for (int pass = 0; pass < 2 || (again && clock_mono_ms() < until); pass++) {
        if (pass > 1)
            poll(NULL, 0, LOOK_EVERY_MS);
        if (kill_pass(dir, &again) < 0)
            return -1;
    }
    return again ? -1 : 0;
}

int container_dir_kill(const struct container_dir *d)
{
    return kill_users(d->path);
}

bool container_dir_is_used_by(const struct container_dir *d, pid_t pid)
{
    char name[16];
    snprintf(name, sizeof name, "%d", (int)pid);
    return use_of(name, d->path) == USE_THIS;
}

static bool is_live(const char *dir)
{
    const struct container_dir *d;
    LIST_FOREACH (d, &live, link)
        if (str_eq(d->path, dir))
            return true;
    return false;
}

// The lock is held until the directory is gone, so that no other process begins to use it.
static void sweep_dir(const char *dir)
{
    int lock auto_close = dir_lock(dir);
    if (lock >= 0 && kill_users(dir) == 0)
        dir_remove(dir, NULL);
}

struct left {
    SLIST_ENTRY(left) link;
    char *dir; // owned
};
SLIST_HEAD(lefts, left);

// List the directories that may be left over. They do not become live: each machine makes its own.
static void find_left(struct lefts *found, const char *prefix)
{
    DIR *dirs = opendir(root);
    if (!dirs)
        return;
    for (struct dirent *entry; (entry = readdir(dirs));) {
        char *dir auto_free = str_printf("%s/%s", root, entry->d_name);
        if (entry->d_name[0] == '.' || !str_starts(entry->d_name, prefix) || is_live(dir))
            continue;
        struct left *l = xcalloc(1, sizeof *l);
        l->dir = steal(&dir);
        SLIST_INSERT_HEAD(found, l, link);
    }
    closedir(dirs);
}

static void sweep_left(struct lefts *found)
{
    while (!SLIST_EMPTY(found)) {
        struct left *l = SLIST_FIRST(found);
        SLIST_REMOVE_HEAD(found, link);
        sweep_dir(l->dir);
        free(l->dir);
        free(l);
    }
}

static void sweep(const char *prefix)
{
    struct lefts found = SLIST_HEAD_INITIALIZER(found);
    find_left(&found, prefix);
    sweep_left(&found);
}

static void *run_sweep(void *ctx)
{
    struct lefts *found = ctx;
    sweep_left(found);
    free(found);
    return NULL;
}

void container_dirs_sweep_later(void)
{
    pthread_t thread;
    struct lefts *found = xcalloc(1, sizeof *found);
    SLIST_INIT(found);
    find_left(found, "");
    if (SLIST_EMPTY(found) || pthread_create(&thread, NULL, run_sweep, found) != 0)
        run_sweep(found);
    else
        pthread_detach(thread);
}

void container_dirs_sweep(void)
{
    sweep("");
}

void container_dirs_for_build(void)
{
    builds = true;
    sweep(BUILD_PREFIX);
}
