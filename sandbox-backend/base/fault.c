// SPDX-License-Identifier: Apache-2.0
// Numbered points at which a test build ends its own process.
#include "sandbox-backend/base/fault.h"

#ifdef CUBBY_FAULTS
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void fault_point(const char *name)
{
    static long passed;
    const char *wanted = getenv("CUBBY_FAULT");
    size_t len = strlen(name);
    if (!wanted || strncmp(wanted, name, len) != 0 || (wanted[len] && wanted[len] != ':'))
        return;
    if (++passed >= (wanted[len] ? atol(wanted + len + 1) : 1))
        kill(getpid(), SIGKILL);
}
#endif
