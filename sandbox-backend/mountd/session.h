// SPDX-License-Identifier: Apache-2.0
// One connection of cubby-mountd to a guest: requests in, answers out.
//
// The bytes are a guest's. A request whose head is not valid ends the session, because the guest's
// own mountfs sends none. The session blocks while the guest does not read its answers: it serves
// this guest alone.
#pragma once
#include "sandbox-backend/mountd/share.h"

struct session {
    struct share *share; // borrowed
    struct buf in, out;
};

void session_fini(struct session *s);
// Serve the whole requests in `in`, and add their answers to `out`, until `out` is long enough to
// be sent. Return how many requests were served, or -1: a request is malformed.
int session_serve(struct session *s, struct err *e);
// Serve a connection until its end. Return 0 when the guest ended it.
int session_run(struct session *s, int conn, struct err *e);
