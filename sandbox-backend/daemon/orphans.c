// SPDX-License-Identifier: Apache-2.0
// Processes of a sandbox that nobody has a record of.
#include "sandbox-backend/daemon/orphans.h"

#include <dirent.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
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

static bool has_argument(const char *pid, const char *dir)
{
    char *path auto_free = str_printf("/proc/%s/cmdline", pid);
    struct buf text auto_buf = BUF_INIT;
    struct err e = ERR_INIT;
    if (file_read(path, CMDLINE_BYTES, &text, &e) < 0)
        return false;
    return memmem(buf_str(&text), text.len, dir, strlen(dir)) != NULL;
}

static bool has_file(const char *pid, const char *dir)
{
    char *fds auto_free = str_printf("/proc/%s/fd", pid);
    DIR *d = opendir(fds);
    if (!d)
        return false;
    bool found = false;
    for (struct dirent *entry; !found && (entry = readdir(d));) {
        char target[PATH_MAX];
        ssize_t n = readlinkat(dirfd(d), entry->d_name, target, sizeof target - 1);
        target[n > 0 ? n : 0] = '\0';
        found = str_starts(target, dir);
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

static bool check(const char *name, const char *dir)
{
    int64_t pid = 0;
    if (!str_to_int(name, 2, INT_MAX, &pid) || pid == getpid())
        return false;
    int pidfd auto_close = (int)syscall(SYS_pidfd_open, (pid_t)pid, 0);
    char *proc auto_free = str_printf("/proc/%s", name);
    struct stat st;
    if (pidfd < 0 || stat(proc, &st) < 0 || st.st_uid != geteuid())
        return false;
    if (!is_ours(name) || (!has_argument(name, dir) && !has_file(name, dir)))
        return false;
    log_warn("orphan.kill", "pid=%s dir=%s", name, dir);
    kill_and_wait((pid_t)pid, pidfd);
    return true;
}

int orphans_kill(const char *dir)
{
    int killed = 0;
    DIR *proc = opendir("/proc");
    if (!proc)
        return 0;
    for (struct dirent *entry; (entry = readdir(proc));)
        killed += check(entry->d_name, dir);
    closedir(proc);
    return killed;
}
