// SPDX-License-Identifier: Apache-2.0
// The first bytes of a client: they show the protocol and the server's name.
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "sandbox-backend/netd/gate/http_head.h"
#include "sandbox-backend/netd/policy/policy.h"

// The most bytes that are needed: a client that has not shown its protocol by then is HELLO_BAD.
#define HELLO_MAX 16384

enum hello_kind {
    HELLO_MORE,    // more bytes are needed
    HELLO_TLS,     // `name` comes from the ClientHello
    HELLO_HTTP,    // `name` comes from the first request
    HELLO_CONNECT, // an HTTP proxy is asked to connect to `name`
    HELLO_OTHER,   // a protocol without a name, or the server speaks first
    HELLO_BAD,     // ambiguous TLS or HTTP; `why` tells more
};

struct hello {
    enum hello_kind kind;
    struct server_name name; // "" for none
    bool has_upgrade;        // HTTP
    const char *why;
};

// Judge all bytes of the client so far; call again with more of them after HELLO_MORE.
void hello_parse(struct hello *h, const uint8_t *data, size_t len);
