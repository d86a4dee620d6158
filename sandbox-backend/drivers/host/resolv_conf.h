// SPDX-License-Identifier: Apache-2.0
// A copy of the host's /etc/resolv.conf, which is shown in the roots of network processes.
//
// resolvconf, DHCP clients and systemd replace the file, and another root then still shows the old
// one. So the roots show a copy, which the daemon rewrites in place when the host's file has
// changed. It looks every few seconds, and when it starts.
#pragma once
#include <uv.h>

#include "sandbox-backend/base/err.h"

// Make the copy in `dir`, which exists. A file that cannot be read counts as an empty one.
int resolv_conf_open(uv_loop_t *loop, const char *dir, struct err *e);
void resolv_conf_close(void);
// Return the path of the copy, or NULL. Borrowed.
const char *resolv_conf_copy(void);
