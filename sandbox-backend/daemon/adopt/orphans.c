// SPDX-License-Identifier: Apache-2.0
// Orphans: processes of sandboxes that no record names.
#include "sandbox-backend/daemon/adopt/adopt.h"

#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/daemon/sandbox/sandbox.h"
#include "sandbox-backend/drivers/driver.h"
#include "sandbox-backend/host/proc.h"
#include "sandbox-backend/log/log.h"

#define GONE_WAIT_MS 2000

// ---- one pass over all processes; root also kills those of other users, which jails have
struct search {
    const char *dir;      // a sandbox's directory, or the parent of all
    const json_t *spared; // borrowed; a machine record whose processes are not killed; NULL: none
    json_t *names;        // borrowed; gets names below `dir`
    dev_t device;         // of `dir`
};

// Return true for a program of Cubby's or a driver's. A shell or an editor that has a file in the
// directory open is not killed.
static bool is_ours(const char *pid)
{
    char *program auto_free = proc_program(pid);
    return str_starts(program, "cubby") || drivers_own(program);
}

static void kill_orphan(const char *pid, int pidfd, const char *dir, const char *reason)
{
    struct pollfd gone = {.fd = pidfd, .events = POLLIN};
    log_warn("orphan.kill", "pid=%s dir=%s%s", pid, dir, reason);
    if (syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0) == 0 &&
        poll(&gone, 1, GONE_WAIT_MS) != 1)
        log_error("orphan.stays", "pid=%s", pid);
}

static pid_t parent_of(pid_t pid)
{
    struct proc_stat stat = {0};
    proc_stat_read(pid, &stat);
    return stat.parent;
}

// ---- all orphans of a directory, except a machine's processes
// In a machine record, each process is an object with a "pid" (machine_record).
static bool names_pid(const json_t *machine, pid_t pid)
{
    const char *key;
    json_t *value;
    if (json_integer_value(json_object_get(machine, "pid")) == pid)
        return true;
    json_object_foreach ((json_t *)(uintptr_t)machine, key, value) {
        if (json_is_object(value) && names_pid(value, pid))
            return true;
    }
    return false;
}

static bool is_spared(const char *name, const json_t *machine)
{
    for (pid_t pid = machine ? atoi(name) : 0; pid > 1; pid = parent_of(pid))
        if (names_pid(machine, pid))
            return true;
    return false;
}

static void kill_user(const char *pid, int pidfd, void *ctx)
{
    const struct search *s = ctx;
    if (is_ours(pid) && !is_spared(pid, s->spared) && proc_uses(pid, s->dir, "", NULL))
        kill_orphan(pid, pidfd, s->dir, "");
}

void orphans_kill(const char *dir, const json_t *spared)
{
    struct search s = {.dir = dir, .spared = spared};
    proc_each(geteuid(), kill_user, &s);
}

static void note_user(const char *pid, int pidfd, void *ctx)
{
    (void)pidfd;
    const struct search *s = ctx;
    if (is_ours(pid))
        proc_uses(pid, s->dir, SANDBOX_ID_CHARS, s->names);
}

json_t *orphans_below(const char *parent)
{
    struct search s = {.dir = parent, .names = json_object()};
    proc_each(geteuid(), note_user, &s);
    return s.names;
}

// ---- processes of removed directories
static bool is_of_a_daemon(const char *pid)
{
    char *parent auto_free = str_printf("%d", (int)parent_of(atoi(pid)));
    return !str_eq(parent, "1") && is_ours(parent);
}

static void kill_lost(const char *pid, int pidfd, void *ctx)
{
    const struct search *s = ctx;
    if (!is_ours(pid) || !proc_is_of_this_namespace(pid) || is_of_a_daemon(pid))
        return;
    char *dir auto_free = proc_lost_dir(pid, s->dir, s->device);
    if (dir)
        kill_orphan(pid, pidfd, dir, " reason=\"its directory is gone\"");
}

void orphans_kill_lost(const char *parent)
{
    struct stat st;
    struct search s = {.dir = parent};
    if (stat(parent, &st) < 0)
        return;
    s.device = st.st_dev;
    proc_each(geteuid(), kill_lost, &s);
}
