// SPDX-License-Identifier: Apache-2.0
// Judges the head of a request before anything of it is sent, and writes the one that is sent.
// Pure: a fuzz target feeds it.
#pragma once
#include <stdbool.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/egress/secret.h"
#include "sandbox-backend/net/http_parser.h"

struct judge {
    const char *name; // of the connection: a name or an address in digits. Borrowed, as all here
    int port;
    bool tls;
    const struct secrets *secrets;
    struct buf *code; // gets what was made for Authorization: Basic, to be masked; NULL: not wanted
};

struct refusal {
    int status;         // of the answer that the guest gets; 0: nothing is refused
    const char *secret; // the name of the one that it is about, or NULL. Borrowed
    const char *what;   // a literal of a few words
    char why[400];      // a sentence, without a value
};

// What is refused: a Host that is not the connection's, a target that is no path, CONNECT, and a
// placeholder where it may not be: over plain HTTP, to a host that it is not for, in a name, a path
// or the Host. Else the head is appended to `out`, as it was but for
//   - values in place of placeholders, in header values, the user name and password of
//     `Authorization: Basic`, and (percent-encoded) the query
//   - what belongs to one connection (Connection, Keep-Alive, TE, Proxy-*), made anew; an offer to
//     change the protocol is passed on when it is WebSocket
//   - Accept-Encoding: identity where a secret may go, so that an echo of it can be seen.
// The result is true when it may be sent; `r` is filled otherwise.
bool judge_request(const struct judge *j, const struct http_parser *p, struct buf *out,
                   struct refusal *r);
// A placeholder in a body (or a trailer) of a request, which is never replaced: false and `r` where
// it is refused.
bool judge_body(const struct judge *j, const struct secret *secret, struct refusal *r);
