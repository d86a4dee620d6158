// SPDX-License-Identifier: Apache-2.0
// Shared by tunnel.c (both connections, their states and deadlines) and tunnel_http.c (requests and
// answers).
#pragma once
#include "sandbox-backend/egress/judge.h"
#include "sandbox-backend/egress/link.h"
#include "sandbox-backend/egress/mask.h"
#include "sandbox-backend/egress/tunnel.h"
#include "sandbox-backend/net/deadline.h"
#include "sandbox-backend/net/http_parser.h"

enum tunnel_state {
    TUNNEL_HANDSHAKE,
    TUNNEL_HEAD,
    TUNNEL_CONNECT,
    TUNNEL_PASS,
    TUNNEL_RAW,
    TUNNEL_LINGER,
    TUNNEL_CLOSED,
    TUNNEL_STATES
};

struct tunnel {
    const struct tunnel_room *room; // borrowed
    enum tunnel_state state;
    char *name, *address; // owned
    struct judge judge;
    struct link guest, host;
    struct dial *dial;        // the host's connection through the upstream proxy, until it is made
    struct deadline deadline; // of the state
    int handles;              // open handles; the tunnel is freed when all have closed
    bool is_closing, unborn, guest_ended, host_ended;

    struct buf from_guest, from_host; // not yet parsed
    struct http_parser request, answer;
    struct buf head;    // of the request, with values, until it is sent
    struct scan search; // finds placeholders in the request's body that may not go to this host
    const struct secret *sought[SCAN_TEXTS_MAX]; // the secrets of `search`
    struct mask mask;                            // masks values in the answer
    size_t mask_fixed;                           // the first texts of `mask`, which stay
    struct deadline pause;                       // when it expires, `mask` puts out what it holds
    struct buf code; // the code of the last Authorization: Basic, a text of `mask`
    bool request_whole, answer_whole;
    bool answer_begun; // a final (not interim) head of the answer was passed on
    bool answer_chunked, interim;
    bool is_last; // nothing follows on this connection
};

// ---- tunnel.c
void tunnel__set_state(struct tunnel *t, enum tunnel_state to);
void tunnel__close(struct tunnel *t);
void tunnel__linger(struct tunnel *t); // the guest has got its last answer
// Report a refusal, and answer with it where that is still possible.
void tunnel__refuse(struct tunnel *t, const struct refusal *r);
// Report a failure.
void tunnel__fail(struct tunnel *t, int status, const char *why);
void tunnel__connect(struct tunnel *t);
void tunnel__wipe(struct buf *b); // wipe and free: it held values

// ---- tunnel_http.c: each function goes as far as the received bytes allow
void tunnel_http__guest(struct tunnel *t);
void tunnel_http__host(struct tunnel *t);
void tunnel_http__begin(struct tunnel *t); // the host is connected: send the head
void tunnel_http__host_ended(struct tunnel *t);
void tunnel_http__pause(struct tunnel *t); // the answer has paused
