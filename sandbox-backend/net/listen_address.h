// SPDX-License-Identifier: Apache-2.0
// Addresses to listen on: "127.0.0.1:8700", "[::1]:8700", "localhost:0".
#pragma once
#include <stdbool.h>
#include <sys/socket.h>

#include "sandbox-backend/base/err.h"

struct http_server;

// Parse a numeric address and a port (0: any); localhost is 127.0.0.1. ERR_INVALID names the forms
// that are accepted.
int listen_address_parse(const char *text, struct sockaddr_storage *out, struct err *e);
bool listen_address_is_loopback(const struct sockaddr_storage *address);
// Let `server` listen at `address`. Return the URL of the actual address, without a path (new
// string): "http://127.0.0.1:43211"; NULL with `e` on failure.
char *listen_address_open(const struct sockaddr_storage *address, struct http_server *server,
                          bool is_tls, struct err *e);
