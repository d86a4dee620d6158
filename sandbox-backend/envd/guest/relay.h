// SPDX-License-Identifier: Apache-2.0
// The relay: connections from the host to ports that listen only on the guest's loopback, such as a
// development server's.
//
// A client sends "CONNECT <port>\n". It gets "OK\n" and from then on has a connection to
// 127.0.0.1:<port>, or to ::1 if nothing listens there. Or it gets "ERR <reason>\n", with the
// reasons of vm.net: refused, timeout, limit, bad-request. The host asks only when a port is
// wanted, so an idle guest does no work. The joined connection: net/stream_join.h.
#pragma once
#include <uv.h>

#include "sandbox-backend/base/err.h"

#define RELAY_MAX        256   // connections at once; a further one gets "ERR limit"
#define RELAY_TIMEOUT_MS 10000 // limit for the line, and for connecting to the port

struct relay;

// Listen. Port 0: the kernel chooses one.
struct relay *relay_listen(uv_loop_t *loop, const char *ip, int port, struct err *e);
int relay_port(const struct relay *r);
void relay_close(struct relay *r); // closes all connections; freed from the loop
