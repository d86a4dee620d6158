// SPDX-License-Identifier: Apache-2.0
// cubby doctor: the machine. Disk space, memory, user namespaces.
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/meminfo.h"
#include "sandbox-backend/cli/doctor.h"

#define BUILD_NEEDS_MB   3000 // a template and what its build leaves lying about until it is done
#define SANDBOX_NEEDS_MB 500
#define MEMORY_NEEDS_MB  700 // the template's page cache and a first sandbox

static void look_at_disk(struct doctor *d)
{
    struct statvfs fs;
    if (!d->home || statvfs(d->home, &fs) < 0)
        return;
    long long free_mb = (long long)((double)fs.f_bavail * (double)fs.f_frsize / 1e6);
    int needs = d->has_template ? SANDBOX_NEEDS_MB : BUILD_NEEDS_MB;
    if (free_mb >= needs)
        doctor_ok(d, "disk", "%lld MB free in %s", free_mb, d->home);
    else
        doctor_add(d, FINDING_MISSING, "disk",
                   "make room, or set CUBBY_HOME to a directory on a larger file system",
                   "%lld MB free in %s, of %d MB that %s needs", free_mb, d->home, needs,
                   d->has_template ? "a sandbox" : "a template build");
}

static void look_at_memory(struct doctor *d)
{
    struct meminfo memory;
    if (meminfo_read(&memory, NULL) < 0)
        return;
    long long mb = memory.available >> 20;
    const char *group = memory.by_group ? " below the memory limit of its control group" : "";
    if (mb >= MEMORY_NEEDS_MB)
        doctor_ok(d, "memory", "%lld MB available%s", mb, group);
    else
        doctor_add(
            d, FINDING_NOTE, "memory",
            memory.by_group ? "raise the limit" : "end other programs, or use a larger machine",
            "%lld MB available%s; a first sandbox may need %d MB", mb, group, MEMORY_NEEDS_MB);
}

// Tried in a child, because it cannot be undone.
static bool may_unshare(int *why)
{
    int answer[2];
    if (pipe(answer) < 0)
        return false;
    pid_t pid = fork();
    if (pid == 0) {
        int error = unshare(CLONE_NEWUSER) == 0 ? 0 : errno;
        _exit(write(answer[1], &error, sizeof error) == sizeof error ? 0 : 1);
    }
    close(answer[1]);
    bool told = pid > 0 && read(answer[0], why, sizeof *why) == sizeof *why;
    close(answer[0]);
    if (pid > 0)
        waitpid(pid, NULL, 0);
    return told && *why == 0;
}

static void look_at_namespaces(struct doctor *d)
{
    int why = EPERM;
    if (may_unshare(&why))
        doctor_ok(d, "user namespaces", "available");
    else if (geteuid() == 0)
        doctor_add(d, FINDING_NOTE, "user namespaces", NULL,
                   "not available (%s); root does without", strerror(why));
    else
        doctor_add(d, d->has_template ? FINDING_NOTE : FINDING_MISSING, "user namespaces",
                   "sudo sysctl kernel.unprivileged_userns_clone=1 "
                   "kernel.apparmor_restrict_unprivileged_userns=0 (those that exist), or build "
                   "the template as root",
                   "not available (%s); only root can build a template without", strerror(why));
}

void doctor_host(struct doctor *d)
{
    look_at_disk(d);
    look_at_memory(d);
    look_at_namespaces(d);
}
