// SPDX-License-Identifier: Apache-2.0
// A copy of the host's /etc/resolv.conf, which the root directories of jailed network processes
// show.
//
// resolvconf, DHCP clients and systemd replace the file, and a bind mount in another root still
// shows the old one. So the roots show a copy. The daemon compares it with the host's file when it
// starts and then every few seconds, and rewrites it in place after a change.
#pragma once
#include <uv.h>

#include "sandbox-backend/base/err.h"

// Make the copy in the existing directory `dir`. A file that cannot be read counts as an empty one.
int resolv_conf_open(uv_loop_t *loop, const char *dir, struct err *e);
void resolv_conf_close(void);
// Return the path of the copy, or NULL. Borrowed.
const char *resolv_conf_copy(void);
