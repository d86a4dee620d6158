// SPDX-License-Identifier: Apache-2.0
// Find out whether gVisor works on this host. An installed runsc proves little: a host may forbid
// user namespaces, ptrace(2) or the seccomp filters that the platform systrap needs.
#pragma once
#include "sandbox-backend/base/err.h"

// Run a command of the template under gVisor, in a sentry of its own that ends with the command.
// Return 0, or -1 with ERR_PRECONDITION and a sentence for a person. runsc: the pinned one
// (runsc_find).
//
// The first call blocks for some 300 ms, PROBE_LIMIT_MS at most, and so does the first call after
// runsc has changed. In between, a success is remembered. If the command failed or did not end,
// that is remembered, too. PROBE_KNOWN_MS later a thread tries again, because the cause may have
// gone away; until it is done, calls get the old result. A failure before the command could start,
// such as a full disk, is not remembered.
#define PROBE_LIMIT_MS 10000
#define PROBE_KNOWN_MS 60000
int probe_gvisor(const char *runsc, const char *template_dir, struct err *e);
void probe__expire(void); // for tests: act as if PROBE_KNOWN_MS had passed since a failure
