// SPDX-License-Identifier: Apache-2.0
// Processes of this host, as /proc shows them.
#include "sandbox-backend/host/proc.h"

#include <dirent.h>
#include <limits.h>
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

#define CMDLINE_BYTES 262144
#define STATUS_BYTES  16384
#define STAT_BYTES    4096

const char *proc_boot_id(void)
{
    static char known[64]; // the id does not change while the process runs
    struct buf text auto_buf = BUF_INIT;
    if (!known[0] && file_read("/proc/sys/kernel/random/boot_id", 256, &text, NULL) == 0) {
        size_t len = strcspn(buf_str(&text), "\n");
        if (len < sizeof known)
            memcpy(known, buf_str(&text), len);
    }
    return known;
}

// The name before the fields may contain blanks and parentheses; the last parenthesis closes it
// (proc(5)).
int proc_stat_read(pid_t pid, struct proc_stat *out)
{
    char *path auto_free = str_printf("/proc/%d/stat", (int)pid);
    struct buf text auto_buf = BUF_INIT;
    unsigned long long ticks = 0;
    int parent = 0;
    char state = 0;
    const char *at =
        file_read(path, STAT_BYTES, &text, NULL) < 0 ? NULL : strrchr(buf_str(&text), ')');
    if (!at || sscanf(at + 1,
                      " %c %d %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s "
                      "%llu",
                      &state, &parent, &ticks) != 3)
        return -1;
    *out = (struct proc_stat){.state = state, .parent = parent, .start_time = ticks};
    return 0;
}

char *proc_program(const char *pid)
{
    char *path auto_free = str_printf("/proc/%s/exe", pid);
    char target[PATH_MAX];
    ssize_t n = readlink(path, target, sizeof target - 1);
    target[n > 0 ? n : 0] = '\0';
    return xstrdup(str_base(target));
}

// ---- a directory's users
// Return true if `text` has a path in `dir`. With `names`, add the names directly below `dir` to
// it.
static bool mentions(const char *text, size_t len, const char *dir, const char *chars,
                     json_t *names)
{
    bool found = false;
    size_t n = strlen(dir);
    for (const char *at; (at = memmem(text, len, dir, n)); found = true) {
        len -= (size_t)(at + n - text);
        text = at + n;
        size_t name = len && *text == '/' ? strspn(text + 1, chars)
                                          : 0; // a NUL follows the text, so text[0] is readable
        char *key auto_free = xstrndup(text + (len > 0), name);
        if (names && name)
            json_object_set_new(names, key, json_true());
    }
    return found;
}

static bool has_argument(const char *pid, const char *dir, const char *chars, json_t *names)
{
    char *path auto_free = str_printf("/proc/%s/cmdline", pid);
    struct buf text auto_buf = BUF_INIT;
    struct err e = ERR_INIT;
    if (file_read(path, CMDLINE_BYTES, &text, &e) < 0)
        return false;
    return mentions(buf_str(&text), text.len, dir, chars, names);
}

static bool has_file(const char *pid, const char *dir, const char *chars, json_t *names)
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
        found |= str_starts(target, dir) && mentions(target, strlen(target), dir, chars, names);
    }
    closedir(d);
    return found;
}

bool proc_uses(const char *pid, const char *dir, const char *chars, json_t *names)
{
    bool found = has_argument(pid, dir, chars, names);
    return (found && !names) || has_file(pid, dir, chars, names) || found;
}

#define DELETED " (deleted)" // proc(5) appends it to a removed file's path

// If the open file `fd` was "<parent>/<name>/..." on that device and is removed together with its
// directory, return "<parent>/<name>". New string, or NULL.
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

char *proc_lost_dir(const char *pid, const char *parent, dev_t device)
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

// ---- all processes

// NSpid lists the process's number in this PID namespace and in each one below, down to its own:
// one number, or two for a jailed process.
bool proc_is_of_this_namespace(const char *pid)
{
    char *path auto_free = str_printf("/proc/%s/status", pid);
    struct buf text auto_buf = BUF_INIT;
    int own = 0, jailed = 0, deeper = 0;
    const char *line =
        file_read(path, STATUS_BYTES, &text, NULL) < 0 ? NULL : strstr(buf_str(&text), "\nNSpid:");
    int count = line ? sscanf(line, "\nNSpid: %d%*[ \t]%d%*[ \t]%d", &own, &jailed, &deeper) : 0;
    return count == 1 || count == 2;
}

static bool is_of_user(const char *pid, uid_t user)
{
    char *proc auto_free = str_printf("/proc/%s", pid);
    struct stat st;
    return stat(proc, &st) == 0 && st.st_uid == user;
}

void proc_each(uid_t user, proc_visit visit, void *ctx)
{
    DIR *proc = opendir("/proc");
    for (struct dirent *entry; proc && (entry = readdir(proc));) {
        int64_t pid = 0;
        if (!str_to_int(entry->d_name, 2, INT_MAX, &pid) || pid == getpid())
            continue;
        int pidfd auto_close = (int)syscall(SYS_pidfd_open, (pid_t)pid, 0);
        if (pidfd >= 0 && (user == 0 || is_of_user(entry->d_name, user)))
            visit(entry->d_name, pidfd, ctx);
    }
    if (proc)
        closedir(proc);
}
