// SPDX-License-Identifier: Apache-2.0
// A machine that runs only when nothing else wants the processor, and one that runs as others do.
//
// Its threads are scheduled as SCHED_IDLE: they run on a processor that has nothing else to do and
// yield at once. Back from there is allowed with CAP_SYS_NICE or a high enough RLIMIT_NICE only;
// without, a machine would stay in the background for good, so it is not put there at all.
#include <dirent.h>
#include <limits.h>
#include <linux/capability.h>
#include <sched.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/drivers/microvm/machine.h"

#define RLIMIT_NICE_0 20 // what allows a nice value of 0, getrlimit(2)
#define PASSES_MAX    4  // over the list of threads, until it holds no one new

static bool has_sys_nice(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {0};
    return syscall(SYS_capget, &header, data) == 0 && data[0].effective & (1u << CAP_SYS_NICE);
}

// Asked once: what a daemon may do does not change.
static bool can_come_back(void)
{
    static enum { UNKNOWN, NO, YES } known;
    struct rlimit nice = {0};
    if (known == UNKNOWN) {
        getrlimit(RLIMIT_NICE, &nice);
        known = has_sys_nice() || nice.rlim_cur >= RLIMIT_NICE_0 ? YES : NO;
    }
    return known == YES;
}

// Whether there was a thread that was scheduled otherwise.
static bool set_threads(const char *dir, int policy)
{
    const struct sched_param none = {0};
    bool changed = false;
    DIR *threads = opendir(dir);
    if (!threads)
        return false;
    for (struct dirent *entry; (entry = readdir(threads));) {
        int64_t tid = 0;
        if (str_to_int(entry->d_name, 1, INT_MAX, &tid) && sched_getscheduler((pid_t)tid) != policy)
            changed |= sched_setscheduler((pid_t)tid, policy, &none) == 0;
    }
    closedir(threads);
    return changed;
}

// A thread has the policy of the one that started it, so only one that was started in the middle
// of a pass by a thread not yet changed is missed by it.
static void set_process(const struct subproc *p, int policy)
{
    char dir[48];
    if (!p || subproc_has_exited(p))
        return;
    snprintf(dir, sizeof dir, "/proc/%d/task", (int)subproc_pid(p));
    for (int pass = 0; pass < PASSES_MAX && set_threads(dir, policy); pass++)
        ;
}

void machine_set_background(struct machine *m, bool background)
{
    if (machine__cgroup_set_background(m, background) || !can_come_back())
        return;
    set_process(m->qemu, background ? SCHED_IDLE : SCHED_OTHER);
    set_process(m->netd, background ? SCHED_IDLE : SCHED_OTHER);
}
