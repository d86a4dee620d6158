// SPDX-License-Identifier: Apache-2.0
// One exposed port, as its files share it: its life (ports.c), HTTP (ports_http.c) and raw TCP
// (ports_tcp.c).
#pragma once
#include <uv.h>

#include "sandbox-backend/daemon/ports.h"
#include "sandbox-backend/daemon/ports_rules.h"

struct port {
    LIST_ENTRY(port) link;      // in sandbox.ports, until it is being closed
    struct sandbox *sb;         // borrowed; held while this is there and open
    struct port_want want;      // its token is owned; host_port is the one it really has
    struct http_server *server; // of PORT_HTTP; NULL while it is not open
    struct port_tcp *tcp;       // of PORT_TCP; the same
};

struct ports_names ports__names(const struct port *port);
void ports__closed(struct port *port); // the last of it is gone

// ports_http.c
void ports__on_request(struct http_request *req, void *ctx);

// ports_tcp.c: calls ports__closed once all is closed. NULL with `e`, and then nothing is left.
struct port_tcp *ports_tcp_open(struct port *port, struct err *e);
int ports_tcp_port(const struct port_tcp *tcp); // of the host
void ports_tcp_cut(struct port_tcp *tcp);       // its connections
void ports_tcp_close(struct port_tcp *tcp);     // all of it
