// SPDX-License-Identifier: Apache-2.0
// What the first bytes of a client say: which protocol, and which server's name.
#pragma once
#include "sandbox-backend/netd/http_head.h"
#include "sandbox-backend/netd/tls_hello.h"

// More are never needed: what has not said by then what it is is HELLO_BAD.
#define HELLO_MAX 16384

enum hello_kind {
    HELLO_MORE,    // cannot be told yet
    HELLO_TLS,     // `name` is that of its ClientHello
    HELLO_HTTP,    // `name` is that of its first request
    HELLO_CONNECT, // an HTTP proxy is asked to go on to `name`
    HELLO_OTHER,   // a protocol that shows no name, or a server that speaks first
    HELLO_BAD,     // TLS or HTTP, written so that two readers may understand two things; `why`
};

struct hello {
    enum hello_kind kind;
    struct server_name name; // "" for none
    bool has_upgrade;        // HTTP
    const char *why;
};

// `data` are all bytes of the client so far; called again with more of them after HELLO_MORE.
void hello_parse(struct hello *h, const uint8_t *data, size_t len);
