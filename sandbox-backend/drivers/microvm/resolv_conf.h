// SPDX-License-Identifier: Apache-2.0
// A copy of the host's /etc/resolv.conf, which is shown in the roots of network processes.
//
// A file that is shown in another root stays the one that it was when the host replaces it, as
// resolvconf, DHCP clients and systemd do. The copy is a file of the daemon's own that is written
// anew, in its place, when the host's has changed: looked at every few seconds, and when a daemon
// starts.
#pragma once
#include <uv.h>

#include "sandbox-backend/base/err.h"

// `dir` exists. What cannot be read is as good as empty.
int resolv_conf_open(uv_loop_t *loop, const char *dir, struct err *e);
void resolv_conf_close(void);
// Its path, or NULL when there is none. Borrowed.
const char *resolv_conf_copy(void);
