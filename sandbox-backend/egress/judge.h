// SPDX-License-Identifier: Apache-2.0
// Judges the head of a request before any of it is sent, and writes the head that is sent. It has
// no side effects, so a fuzz target can feed it.
#pragma once
#include <stdbool.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/egress/rules.h"
#include "sandbox-backend/egress/secret.h"
#include "sandbox-backend/net/http_parser.h"

struct judge {
    const char *name; // the connection's name, or its address in digits; borrowed, as all here
    int port;
    bool tls;
    const struct secrets *secrets;
    const struct rule *rule; // NULL: none for this connection
    struct buf *code; // gets the new text of Authorization: Basic, which must be masked in answers;
                      // NULL: not wanted
};

struct refusal {
    int status;         // of the guest's answer; 0: nothing is refused
    const char *secret; // name of the secret in question, or NULL. Borrowed
    const char *what;   // a literal of a few words
    char why[400];      // a sentence without a secret's value
};

// Judge a head. The judge refuses CONNECT, a Host that is not the connection's, and a target that
// is not a path. It also refuses a placeholder over plain HTTP, for a host that the secret is not
// for, or in a header's name, the path or the Host. Return false then, with `r`. Otherwise return
// true and append the head to `out`, unchanged except for
//
// - values in place of placeholders: in header values, in the user name and password of
//   `Authorization: Basic`, and (percent-encoded) in the query;
// - headers of the guest's connection (Connection, Keep-Alive, TE, Proxy-*), in place of which new
//   ones are written. An offer to change the protocol is passed on when it is WebSocket;
// - Accept-Encoding, which is set to identity if a secret may go to this host, so that an echo of
//   the secret can be found;
// - the headers of the rule, which take the place of the guest's of the same names.
bool judge_request(const struct judge *j, const struct http_parser *p, struct buf *out,
                   struct refusal *r);
// Judge a placeholder in a request's body or trailer, where it is never replaced. Return false with
// `r` where it is refused.
bool judge_body(const struct judge *j, const struct secret *secret, struct refusal *r);
