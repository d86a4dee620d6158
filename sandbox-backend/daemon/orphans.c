// SPDX-License-Identifier: Apache-2.0
// Processes of a sandbox that nobody has a record of.
#include "sandbox-backend/daemon/orphans.h"

#include <dirent.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/log/log.h"

#define CMDLINE_BYTES 262144
#define STATUS_BYTES  16384
#define GONE_WAIT_MS  2000

// A shell or an editor that looks into the directory is none of our business.
static bool is_ours(const char *pid)
{
    char *path auto_free = str_printf("/proc/%s/exe", pid);
    char target[PATH_MAX];
    ssize_t n = readlink(path, target, sizeof target - 1);
    target[n > 0 ? n : 0] = '\0';
    const char *program = str_base(target);
    return str_starts(program, "qemu-system-") || str_starts(program, "cubby");
}

// Whether `text` names something in `dir`; with `names`, those below it are its members then.
static bool mentions(const char *text, size_t len, const char *dir, json_t *names)
{
    bool found = false;
    size_t n = strlen(dir);
    for (const char *at; (at = memmem(text, len, dir, n)); found = true) {
        len -= (size_t)(at + n - text);
        text = at + n;
        size_t name = len && *text == '/' ? strspn(text + 1, "abcdefghijklmnopqrstuvwxyz0123456789")
                                          : 0; // a text is followed by a NUL
        char *key auto_free = xstrndup(text + (len > 0), name);
        if (names && name)
            json_object_set_new(names, key, json_true());
    }
    return found;
}

static bool has_argument(const char *pid, const char *dir, json_t *names)
{
    char *path auto_free = str_printf("/proc/%s/cmdline", pid);
    struct buf text auto_buf = BUF_INIT;
    struct err e = ERR_INIT;
    if (file_read(path, CMDLINE_BYTES, &text, &e) < 0)
        return false;
    return mentions(buf_str(&text), text.len, dir, names);
}

static bool has_file(const char *pid, const char *dir, json_t *names)
{
    char *fds auto_free = str_printf("/proc/%s/fd", pid);
    DIR *d = opendir(fds);
    if (!d)
        return false;
    bool found = false;
    for (struct dirent *entry; (!found || names) && (entry = readdir(d));) {
        char target[PATH_MAX];
        ssize_t n = readlinkat(dirfd(d), entry->d_name, target, sizeof target - 1);
        target[n > 0 ? n : 0] = '\0';
        found |= str_starts(target, dir) && mentions(target, strlen(target), dir, names);
    }
    closedir(d);
    return found;
}

// The pidfd makes sure that it is still the process that was looked at.
static void kill_and_wait(pid_t pid, int pidfd)
{
    struct pollfd gone = {.fd = pidfd, .events = POLLIN};
    if (syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0) == 0 &&
        poll(&gone, 1, GONE_WAIT_MS) != 1)
        log_error("orphan.stays", "pid=%d", (int)pid);
}

// Root's are of other users in their jails.
static bool is_of_this_user(const char *pid)
{
    char *proc auto_free = str_printf("/proc/%s", pid);
    struct stat st;
    return stat(proc, &st) == 0 && (st.st_uid == geteuid() || geteuid() == 0);
}

static bool is_other_process(const char *name, int64_t *pid)
{
    return str_to_int(name, 2, INT_MAX, pid) && *pid != getpid();
}

static bool check(const char *name, const char *dir)
{
    int64_t pid = 0;
    if (!is_other_process(name, &pid))
        return false;
    int pidfd auto_close = (int)syscall(SYS_pidfd_open, (pid_t)pid, 0);
    if (pidfd < 0 || !is_of_this_user(name) || !is_ours(name) ||
        (!has_argument(name, dir, NULL) && !has_file(name, dir, NULL)))
        return false;
    log_warn("orphan.kill", "pid=%s dir=%s", name, dir);
    kill_and_wait((pid_t)pid, pidfd);
    return true;
}

int orphans_kill(const char *dir)
{
    return orphans_kill_but(dir, NULL);
}

// Each process of a machine is an object with its "pid" (machine_record).
static bool names_pid(const json_t *machine, pid_t pid)
{
    const char *key;
    json_t *value;
    if (json_integer_value(json_object_get(machine, "pid")) == pid)
        return true;
    json_object_foreach((json_t *)(uintptr_t)machine, key, value)
    {
        if (json_is_object(value) && names_pid(value, pid))
            return true;
    }
    return false;
}

static pid_t parent_of(pid_t pid)
{
    char *path auto_free = str_printf("/proc/%d/stat", (int)pid);
    struct buf text auto_buf = BUF_INIT;
    int parent = 0;
    const char *end = file_read(path, 4096, &text, NULL) < 0 ? NULL : strrchr(buf_str(&text), ')');
    return end && sscanf(end + 1, " %*c %d", &parent) == 1 ? parent : 0;
}

// ---- of directories that are gone

#define DELETED " (deleted)" // what the kernel shows behind the path of a removed file (proc(5))

// "<parent>/<name>/..." of a removed file on that device: the directory of it, which is gone as
// well. New string, or NULL.
static char *lost_dir(int fds, const char *fd, const char *parent, dev_t device)
{
    char target[PATH_MAX];
    struct stat st;
    size_t n = strlen(parent);
    ssize_t len = readlinkat(fds, fd, target, sizeof target - 1);
    target[len > 0 ? len : 0] = '\0';
    if (!str_starts(target, parent) || target[n] != '/' || !str_ends(target, DELETED) ||
        fstatat(fds, fd, &st, 0) != 0 || st.st_nlink != 0 || st.st_dev != device)
        return NULL;
    size_t name = strcspn(target + n + 1, "/");
    char *dir auto_free = xstrndup(target, n + 1 + name);
    return name && target[n + 1 + name] == '/' && !file_exists(dir) ? steal(&dir) : NULL;
}

static char *lost_dir_of(const char *pid, const char *parent, dev_t device)
{
    char *fds auto_free = str_printf("/proc/%s/fd", pid);
    char *found = NULL;
    DIR *d = opendir(fds);
    for (struct dirent *entry; d && !found && (entry = readdir(d));)
        found = lost_dir(dirfd(d), entry->d_name, parent, device);
    if (d)
        closedir(d);
    return found;
}

// Its numbers from this namespace of processes down to its own: one, or in a jail two.
static bool is_of_this_namespace(const char *pid)
{
    char *path auto_free = str_printf("/proc/%s/status", pid);
    struct buf text auto_buf = BUF_INIT;
    int own = 0, jailed = 0, deeper = 0;
    const char *line =
        file_read(path, STATUS_BYTES, &text, NULL) < 0 ? NULL : strstr(buf_str(&text), "\nNSpid:");
    int count = line ? sscanf(line, "\nNSpid: %d%*[ \t]%d%*[ \t]%d", &own, &jailed, &deeper) : 0;
    return count == 1 || count == 2;
}

static bool is_of_a_daemon(pid_t pid)
{
    char *parent auto_free = str_printf("%d", (int)parent_of(pid));
    return !str_eq(parent, "1") && is_ours(parent);
}

static bool check_lost(const char *name, const char *parent, dev_t device)
{
    int64_t pid = 0;
    if (!is_other_process(name, &pid))
        return false;
    int pidfd auto_close = (int)syscall(SYS_pidfd_open, (pid_t)pid, 0);
    if (pidfd < 0 || !is_of_this_user(name) || !is_ours(name) || !is_of_this_namespace(name) ||
        is_of_a_daemon((pid_t)pid))
        return false;
    char *dir auto_free = lost_dir_of(name, parent, device);
    if (!dir)
        return false;
    log_warn("orphan.kill", "pid=%s dir=%s reason=\"its directory is gone\"", name, dir);
    kill_and_wait((pid_t)pid, pidfd);
    return true;
}

int orphans_kill_lost(const char *parent)
{
    struct stat st;
    int killed = 0;
    DIR *proc = stat(parent, &st) == 0 ? opendir("/proc") : NULL;
    for (struct dirent *entry; proc && (entry = readdir(proc));)
        killed += check_lost(entry->d_name, parent, st.st_dev);
    if (proc)
        closedir(proc);
    return killed;
}

// ---- all but a machine's

static bool is_spared(const char *name, const json_t *machine)
{
    for (pid_t pid = machine ? atoi(name) : 0; pid > 1; pid = parent_of(pid))
        if (names_pid(machine, pid))
            return true;
    return false;
}

int orphans_kill_but(const char *dir, const json_t *machine)
{
    int killed = 0;
    DIR *proc = opendir("/proc");
    if (!proc)
        return 0;
    for (struct dirent *entry; (entry = readdir(proc));)
        if (!is_spared(entry->d_name, machine))
            killed += check(entry->d_name, dir);
    closedir(proc);
    return killed;
}

json_t *orphans_below(const char *parent)
{
    json_t *names = json_object();
    DIR *proc = opendir("/proc");
    int64_t pid = 0;
    for (struct dirent *entry; proc && (entry = readdir(proc));) {
        if (!is_other_process(entry->d_name, &pid) || !is_of_this_user(entry->d_name) ||
            !is_ours(entry->d_name))
            continue;
        has_argument(entry->d_name, parent, names);
        has_file(entry->d_name, parent, names);
    }
    if (proc)
        closedir(proc);
    return names;
}
