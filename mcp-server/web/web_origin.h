// SPDX-License-Identifier: Apache-2.0
// The origin check: which Host and Origin a request may name (MCP, basic/transports: DNS
// rebinding).
#pragma once
#include <stdbool.h>
#include <sys/socket.h>

#include "mcp-server/config/config.h"

// A web page can reach a server on its reader's machine through a name of its own that resolves to
// 127.0.0.1. Host is then that name, and Origin the page's. So only names that are known to be this
// server's are accepted. A server that listens on all addresses also accepts an address as Host,
// because a rebound host is always a name.
struct web_origin {
    const struct config *config; // borrowed
    char bound[64];              // the address that the server listens on
    bool any_address;
    char *public_origin; // owned: "https://mcp.example"; NULL for none
    bool cors;           // there is an --allow-origin: pages from it may read answers
};

void web_origin_init(struct web_origin *g, const struct config *config,
                     const struct sockaddr_storage *bound);
void web_origin_fini(struct web_origin *g);
bool web_origin_takes_host(const struct web_origin *g, const char *host);     // NULL: refused
bool web_origin_takes_origin(const struct web_origin *g, const char *origin); // NULL: accepted
