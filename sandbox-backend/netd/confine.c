// SPDX-License-Identifier: Apache-2.0
// What the process may use at most.
#include "sandbox-backend/netd/confine.h"

#include <errno.h>
#include <malloc.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include "sandbox-backend/netd/pollset.h"

static int limit_descriptors(struct err *e)
{
    struct rlimit r;
    if (getrlimit(RLIMIT_NOFILE, &r) < 0)
        return err_sys(e, errno, "read the limit of open files");
    if (r.rlim_max < POLLSET_MAX)
        return err_set(e, ERR_LIMIT, "%d open files are needed and %lu are allowed (ulimit -Hn)",
                       POLLSET_MAX, (unsigned long)r.rlim_max);
    r.rlim_cur = POLLSET_MAX;
    if (setrlimit(RLIMIT_NOFILE, &r) < 0)
        return err_sys(e, errno, "set the limit of open files");
    return 0;
}

// The sanitizers' own tables are larger than any limit worth setting.
static int limit_memory(struct err *e)
{
#ifndef __SANITIZE_ADDRESS__
    struct rlimit r = {CONFINE_DATA_BYTES, CONFINE_DATA_BYTES};
    if (setrlimit(RLIMIT_DATA, &r) < 0)
        return err_sys(e, errno, "set the limit of memory");
#else
    (void)e;
#endif
    return 0;
}

int confine_self(struct err *e)
{
    mallopt(M_MMAP_THRESHOLD, CONFINE_MAPPED_BYTES);
    mallopt(M_TOP_PAD, CONFINE_HEAP_STEP);
    signal(SIGPIPE, SIG_IGN); // libslirp writes to sockets whose reader may be gone
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return err_sys(e, errno, "set no_new_privs");
    if (limit_descriptors(e) < 0)
        return -1;
    return limit_memory(e);
}
