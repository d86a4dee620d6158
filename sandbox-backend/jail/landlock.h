// SPDX-License-Identifier: Apache-2.0
// Landlock (landlock(7)) restricts files, TCP, signals and abstract sockets, even for a process
// that other checks would allow to use them.
#pragma once
#include <stdbool.h>

#include "sandbox-backend/base/err.h"

struct landlock_rules {
    char *const *files; // read-only; NULL: the whole root directory, which is the process's own
    int count;
    bool resolves; // allow /etc/resolv.conf, if it exists
    bool kvm;      // allow /dev/kvm, beside the devices that are always allowed
    int share;     // descriptor of a directory whose files may be used; -1: none
    bool share_read_only;
    bool tcp; // allow bind and connect
};

int landlock_abi(void); // 0: this kernel has no Landlock, or it is off
// Forbid this process everything outside of `rules`, as far as the host kernel's version of
// Landlock can. The process must have no_new_privs.
int landlock_enforce(const struct landlock_rules *rules, struct err *e);
