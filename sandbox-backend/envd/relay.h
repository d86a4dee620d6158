// SPDX-License-Identifier: Apache-2.0
// The way from outside to what listens on the guest's loopback only, such as a development server.
//
// Who connects says "CONNECT <port>\n" and is told "OK\n", and from there on has a connection to
// 127.0.0.1:<port>, or to ::1 where nothing listens there; or is told "ERR <reason>\n", the reasons
// being those of vm.net: refused, timeout, limit, bad-request. So the host asks when somebody wants
// a port, and an idle guest does no work. The connection itself: net/stream_join.h.
#pragma once
#include <uv.h>

#include "sandbox-backend/base/err.h"

#define RELAY_MAX        256   // at once; a further one is told "ERR limit"
#define RELAY_TIMEOUT_MS 10000 // for the line, and for the connection to the port

struct relay;

// Port 0: one that the kernel chooses.
struct relay *relay_listen(uv_loop_t *loop, const char *ip, int port, struct err *e);
int relay_port(const struct relay *r);
void relay_close(struct relay *r); // breaks what is connected; frees itself from the loop
