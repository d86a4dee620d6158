// SPDX-License-Identifier: Apache-2.0
// Which Host and Origin a request may name (MCP, basic/transports: DNS rebinding).
#pragma once
#include <stdbool.h>
#include <sys/socket.h>

#include "mcp-server/config.h"

// A web page reaches a server on its reader's machine by a name of its own that resolves to
// 127.0.0.1; then Host is that name and Origin is that page's. So only names that are known to be
// this server's are taken. Where all addresses are listened at, an address as Host is fine too:
// what is rebound is always a name.
struct web_gate {
    const struct config *config; // borrowed
    char bound[64];              // the address that is listened at
    bool any_address;
    char *public_origin; // owned: "https://mcp.example"; NULL for none
    bool cors;           // there is an --allow-origin: pages that are let in may read the answers
};

void web_gate_init(struct web_gate *g, const struct config *config,
                   const struct sockaddr_storage *bound);
void web_gate_fini(struct web_gate *g);
bool web_gate_takes_host(const struct web_gate *g, const char *host);     // NULL: no
bool web_gate_takes_origin(const struct web_gate *g, const char *origin); // NULL: yes
