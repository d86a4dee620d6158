// SPDX-License-Identifier: Apache-2.0
// cubby doctor: the host. Disk space, memory, user namespaces, control groups, the walls of a jail.
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/cli/doctor.h"
#include "sandbox-backend/drivers/host/host_jail.h"
#include "sandbox-backend/host/cgroup_place.h"
#include "sandbox-backend/host/meminfo.h"
#include "sandbox-backend/mountd/hidden.h"

#define LIMITS_REMEDY   "run the daemon as root, or in a delegated group (systemd: Delegate=yes)"
#define BUILD_NEEDS_MB  3000 // a template, and the temporary files of its build
#define MEMORY_NEEDS_MB 700  // the template's page cache and a first sandbox

static void look_at_disk(struct doctor *d)
{
    int64_t free_bytes = d->home ? dir_free_bytes(d->home) : -1;
    if (free_bytes < 0)
        return;
    bool fits = d->has_template ? driver_check_disk(DRIVERS[0], d->home, NULL) == 0
                                : free_bytes >= BUILD_NEEDS_MB * 1000000LL;
    long long free_mb = free_bytes / 1000000;
    int needs = d->has_template ? (int)DRIVERS[0]->disk_mb : BUILD_NEEDS_MB;
    if (fits)
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
        doctor_add(d, FINDING_NOTE, "memory",
                   memory.by_group ? "raise the limit" : "end other programs, or use a larger host",
                   "%lld MB available%s; the first sandbox may need %d MB", mb, group,
                   MEMORY_NEEDS_MB);
}

// Tried in a child process, because it cannot be undone.
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
                   "not available (%s); root does not need them", strerror(why));
    else
        doctor_add(d, d->has_template ? FINDING_NOTE : FINDING_MISSING, "user namespaces",
                   "sudo sysctl kernel.unprivileged_userns_clone=1 "
                   "kernel.apparmor_restrict_unprivileged_userns=0 (those that exist), or build "
                   "the template as root",
                   "not available (%s); without them only root can build a template",
                   strerror(why));
}

static void look_at_limits(struct doctor *d)
{
    unsigned held = cgroup_place_look();
    if (held == CGROUP_ALL)
        doctor_ok(d, "limits", "control groups limit the memory, cpu and pids of each sandbox");
    else if (held)
        doctor_add(d, FINDING_NOTE, "limits", LIMITS_REMEDY,
                   "control groups limit only the %s of each sandbox", cgroup_names(held));
    else
        doctor_add(d, FINDING_NOTE, "limits", LIMITS_REMEDY,
                   "cubbyd cannot make control groups here: a microVM is limited only by its own "
                   "size, and a gVisor sandbox not at all");
}

static void report_walls(struct doctor *d, const struct host_walls *w)
{
    char *built auto_free = walls_list(w->built, ", ");
    if (!w->built)
        doctor_add(d, FINDING_NOTE, "jail", NULL, "this host allows no wall of the jail");
    else if (w->built & WALL_BIT(WALL_LANDLOCK))
        doctor_ok(d, "jail", "%s (Landlock %d)", built, w->landlock_abi);
    else
        doctor_ok(d, "jail", "%s", built);
    for (int i = 0; i < WALL_COUNT; i++)
        if (w->why[i])
            doctor_add(d, FINDING_NOTE, "jail", host_wall_remedy((enum wall)i), "without %s: %s",
                       wall_what((enum wall)i), w->why[i]);
}

static void look_at_jail(struct doctor *d)
{
    struct host_walls walls;
    struct err e = ERR_INIT;
    if (host_walls_look(&walls, &e) != 0) {
        doctor_add(d, FINDING_NOTE, "jail", "run make, or install Cubby again", "%s", e.msg);
        return;
    }
    report_walls(d, &walls);
    host_walls_fini(&walls);
}

// List on one line the files that mounts hide from sandboxes.
static void look_at_mounts(struct doctor *d)
{
    char text[] = HIDDEN_BY_DEFAULT;
    for (char *at = text; *at; at++)
        if (*at == '\n')
            *at = at[1] ? ' ' : '\0';
    doctor_ok(d, "mounts",
              "cubby mount hides these files of a directory, unless its .cubbyignore says "
              "otherwise: %s",
              text);
}

void doctor_host(struct doctor *d)
{
    look_at_disk(d);
    look_at_memory(d);
    look_at_namespaces(d);
    look_at_limits(d);
    look_at_jail(d);
    look_at_mounts(d);
}
