// SPDX-License-Identifier: Apache-2.0
// Resource limits of the process.
#include "sandbox-backend/jail/limits.h"

#include <errno.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/utsname.h>

#include "sandbox-backend/base/mem.h"

#define OPEN_FILES_VMM     1024
#define OPEN_FILES_NETWORK 4096         // netd/pollset.h
#define PROCESSES          512          // threads too; control groups hold a machine to fewer
#define FILE_BYTES         (64LL << 20) // of a network process, which writes logs and counters

bool limits_count_by_namespace(void)
{
    struct utsname kernel;
    int major = 0, minor = 0;
    return uname(&kernel) == 0 && sscanf(kernel.release, "%d.%d", &major, &minor) == 2 &&
           (major > 5 || (major == 5 && minor >= 14));
}

static int lower(__rlimit_resource_t what, rlim_t most, const char *name, struct err *e)
{
    struct rlimit r;
    if (getrlimit(what, &r) != 0)
        return err_sys(e, errno, "read the limit of %s", name);
    r.rlim_max = r.rlim_max < most ? r.rlim_max : most;
    r.rlim_cur = r.rlim_cur < r.rlim_max ? r.rlim_cur : r.rlim_max;
    if (setrlimit(what, &r) != 0)
        return err_sys(e, errno, "set the limit of %s", name);
    return 0;
}

int limits_set(enum jail_kind kind, bool counted_alone, struct err *e)
{
    bool vmm = kind == JAIL_VMM;
    const struct {
        __rlimit_resource_t what;
        rlim_t most;
        const char *name;
    } limits[] = {{RLIMIT_CORE, 0, "core dumps"},
                  {RLIMIT_NOFILE, vmm ? OPEN_FILES_VMM : OPEN_FILES_NETWORK, "open files"},
                  {RLIMIT_FSIZE, vmm ? RLIM_INFINITY : FILE_BYTES, "a file's size"},
                  {RLIMIT_NPROC, counted_alone ? PROCESSES : RLIM_INFINITY, "processes"},
                  {RLIMIT_MSGQUEUE, 0, "message queues"},
                  {RLIMIT_RTPRIO, 0, "real-time priority"},
                  {RLIMIT_NICE, 0, "priority"}};
    for (size_t i = 0; i < ARRAY_LEN(limits); i++)
        if (lower(limits[i].what, limits[i].most, limits[i].name, e) != 0)
            return -1;
    return 0;
}
