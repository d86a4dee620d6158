// SPDX-License-Identifier: Apache-2.0
// One request on its way to a port of a sandbox, and the answer on its way back.
//
// Theory of operation. A stream is the client's request on one side and a connection to the guest's
// port (upstream.h) on the other. Heads are filtered, bodies pass through as they arrive, in both
// directions at once, and whichever side is slow stops the other: a full connection pauses reading
// from its source until it has drained, so a stream holds at most LIMIT_STREAM_QUEUE_BYTES and one
// read each way.
//
// States: WAKING (the sandbox is paused, and on its way back), DIALING (a connection is being made;
// the request's body waits in its socket), WAITING (the request is on its way), ANSWERING (the
// answer's head has been sent), TUNNEL (the guest has taken an offer to upgrade, WebSocket above
// all: bytes both ways, each with its own end), DONE (the client has its answer or is gone; what is
// left is to get rid of the other side).
//
// Failures. A request is never sent twice, but for a GET or HEAD on a connection that was kept and
// turns out to be closed. Before the answer's head a failure is a 502 in JSON;
// after it, the client's connection is dropped without a clean end, which is how the SDKs tell a
// dead sandbox from a finished command. That it may be sent again (409) is only said of a request
// that has not been passed on at all. A request for the kernel's port of a sandbox that has a
// kernel waits while that is started again (KERNEL_WAIT_MS), and one for a machine that seems to
// have ended until it is known how (ENDED_WAIT_MS). When the client goes, its connection to the
// guest is closed: envd leaves a command running then, as E2B's does. When the sandbox ends or is
// paused, its streams are cut first. How long an answer may take is the client's business, who can
// leave; only making the connection has a deadline of ours (UPSTREAM_DIAL_MS), and waking has the
// daemon's.
//
// A stream is use of a sandbox for as long as it is open, but for a watch of files (WatchDir): to
// be told of changes is not to make any, and nobody would notice that a watch keeps a sandbox for
// ever. Opening one counts as any other request does; asking for /health does not.
//
// envd's port is offered no upgrade: envd knows none, and what a tunnel carries is not looked at.
#pragma once
#include "sandbox-backend/net/http_server.h"

struct port;
struct sandbox;

// Of one sandbox. netd passes 512 connections on, some of which wait to be used or are being
// closed.
#define PROXY_STREAMS_MAX 480

#define KERNEL_WAIT_MS 30000 // an emulated guest on a loaded host takes 15 s
#define ENDED_WAIT_MS  5000

// Where a request goes. Borrowed from it.
struct proxy_target {
    int port;
    const char *target; // as the guest is to see it
    const char
        *path; // the same decoded, without the query. Empty: the target has none and needs "/"
    const struct port *via; // the exposed port that it came to (ports.h), which lives at least as
                            // long as the request; NULL: none
};

// Answers `req`; the sandbox is known, and running or may be woken.
void proxy_stream_start(struct sandbox *sb, struct http_request *req,
                        const struct proxy_target *to);
