// SPDX-License-Identifier: Apache-2.0
// What tunnel.c (both connections, their states and deadlines) and exchange.c (the messages that
// pass) share.
#pragma once
#include "sandbox-backend/egress/judge.h"
#include "sandbox-backend/egress/link.h"
#include "sandbox-backend/egress/mask.h"
#include "sandbox-backend/egress/scan.h"
#include "sandbox-backend/egress/tunnel.h"
#include "sandbox-backend/net/deadline.h"
#include "sandbox-backend/net/http_parser.h"

enum tunnel_state {
    TUNNEL_HANDSHAKE,
    TUNNEL_HEAD,
    TUNNEL_CONNECT,
    TUNNEL_EXCHANGE,
    TUNNEL_RAW,
    TUNNEL_LINGER,
    TUNNEL_CLOSED,
};

struct tunnel {
    const struct tunnel_room *room; // borrowed
    enum tunnel_state state;
    char *name, *address; // owned
    struct judge judge;
    struct link guest, host;
    struct deadline deadline; // of the state
    int handles;              // that close before it is freed
    bool is_closing, unborn, guest_ended, host_ended;

    struct buf from_guest, from_host; // not parsed yet
    struct http_parser request, answer;
    struct buf head;    // of the request, with values: until it is sent
    struct scan search; // for placeholders that may not go there, in the request's body
    const struct secret *sought[SCAN_TEXTS_MAX]; // of `search`: whose they are
    struct mask mask;                            // of values, in the answer
    size_t mask_fixed;                           // of `mask`, those of every request
    struct deadline pause;                       // what `mask` holds back goes then
    struct buf code; // `mask` has it: what was made for the last Authorization: Basic
    bool request_whole, answer_whole;
    bool answer_begun; // the head of the last one, not of an interim one, has been passed on
    bool answer_chunked, interim;
    bool is_last; // nothing follows on this connection
};

// ---- tunnel.c
void tunnel__set_state(struct tunnel *t, enum tunnel_state to);
void tunnel__progress(struct tunnel *t); // the deadline is counted from now
void tunnel__close(struct tunnel *t);
void tunnel__linger(struct tunnel *t); // the guest has its last answer
// Reports it, and answers with it where that is still possible. `what` as in tunnel_report.
void tunnel__refuse(struct tunnel *t, const struct refusal *r);
// Something that nobody refused went wrong.
void tunnel__fail(struct tunnel *t, int status, const char *why);
void tunnel__connect(struct tunnel *t);
void tunnel__wipe(struct buf *b); // it held values

// ---- exchange.c; each goes as far as the bytes that wait allow
void exchange__guest(struct tunnel *t);
void exchange__host(struct tunnel *t);
void exchange__begin(struct tunnel *t); // the host is there: the head goes out
void exchange__host_ended(struct tunnel *t);
void exchange__pause(struct tunnel *t); // nothing has come of the answer for a while
