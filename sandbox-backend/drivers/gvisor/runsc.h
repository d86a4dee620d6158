// SPDX-License-Identifier: Apache-2.0
// Find gVisor's runsc, and prove that it is the build that runsc_pin.h names.
#pragma once
#include <stdint.h>

#include "sandbox-backend/base/err.h"

// Return the path of runsc: `given` unless it is NULL, else $CUBBY_RUNSC, else the one that
// `make runsc` built or `make install` installed. New string. NULL with `e`: ERR_NOT_FOUND if there
// is none, ERR_PRECONDITION if it is another build or the file's name does not begin with "runsc".
// Each error says what to do.
//
// Reads the whole file, 80 MB in some 100 ms, when it has changed since the last call.
char *runsc_find(const char *given, struct err *e);

// How every sentry is started, also that of a probe: flags of runsc before its command, what it
// does not see of the host, and its namespaces. runsc gives the sentry the host's memory as the
// guest's (/proc/meminfo, sysinfo, the default size of tmpfs), and has no option for it, so it sees
// a file of runsc_tell_memory instead.
//
// --gofer-network-namespace=new: each sandbox gets an empty network namespace of its own; the
// default one stays mounted on the host. --sidecar-usage-policy: the pinned build has the sentry in
// itself.
#define RUNSC_FLAGS                                                                     \
    "--platform=systrap", "--ignore-cgroups", "--in-sandbox-cgroup=v2", "--allow-suid", \
        "--gofer-network-namespace=new",                                                \
        "--sidecar-usage-policy=LEGACY_DEPRECATED_SLOW_EMBEDDED_FALLBACK"
// The Go runtime would keep files of the daemon's own control group open in the sentry.
#define RUNSC_HIDDEN     "/sys/fs/cgroup"
#define RUNSC_NAMESPACES (CLONE_NEWNS | (geteuid() == 0 ? 0 : CLONE_NEWUSER)) // <sched.h>
int runsc_tell_memory(const char *path, int64_t memory_mb, struct err *e);

// Return a new descriptor for runsc's standard input: an empty file that nobody can change. runsc
// of root gives its standard streams to the sentry's user, so none may be the host's /dev/null.
int runsc_stdin(struct err *e);
