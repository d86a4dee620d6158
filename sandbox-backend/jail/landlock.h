// SPDX-License-Identifier: Apache-2.0
// Landlock (landlock(7)): files, TCP, signals and abstract sockets, whatever else the process may.
#pragma once
#include <stdbool.h>

#include "sandbox-backend/base/err.h"

struct landlock_rules {
    char *const *files; // read-only; NULL: all of the root directory, which is the process's own
    int count;
    bool resolves; // with /etc/resolv.conf, if there is one
    bool kvm;      // with /dev/kvm, beside the devices that all have
    bool tcp;      // it may bind and connect
};

int landlock_abi(void); // 0: this kernel has none, or it is not on
// Needs no_new_privs. What the kernel's version of it cannot forbid is not forbidden.
int landlock_enforce(const struct landlock_rules *rules, struct err *e);
