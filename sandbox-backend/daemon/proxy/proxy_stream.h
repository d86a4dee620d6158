// SPDX-License-Identifier: Apache-2.0
// Pass a request on to a port of a sandbox, and the answer back.
//
// Theory of operation. A stream has the client's request on one side and a connection to the
// guest's port (upstream.h) on the other. Heads are filtered. Bodies pass through as they arrive,
// in both directions at once. A full connection pauses reading from its source until it has
// drained, so a stream holds at most LIMIT_STREAM_QUEUE_BYTES and one read each way.
//
// States:
//   WAKING     the sandbox is paused and being woken
//   DIALING    a connection is being made; the request's body waits in its socket
//   WAITING    the request is sent
//   ANSWERING  the answer's head is sent
//   TUNNEL     the guest accepted an upgrade (WebSocket above all): bytes both ways
//   DONE       the client has its answer or is gone; the guest's side is being released
//
// Failures. A request is never sent twice, except a GET or HEAD on a kept connection that turns out
// to be closed. Before the answer's head, a failure is a 502 in JSON. After it, the client's
// connection is dropped without a clean end, which is how the SDKs tell a dead sandbox from a
// finished command. A 409, which invites to send again, is given only for a request that was not
// passed on at all. A request for the Python kernel's port waits while the Python kernel restarts
// (KERNEL_WAIT_MS). A request for a machine that seems to have ended waits until the reason is
// known (ENDED_WAIT_MS). When the client disconnects, its connection to the guest is closed; envd
// then leaves a command running, as E2B's envd does. When the sandbox ends or is paused, its
// streams are cut first. An answer has no deadline, because the client can disconnect. Making the
// connection has a deadline (UPSTREAM_DIAL_MS), and so has waking.
//
// An open stream counts as use of its sandbox, except a watch of files (WatchDir): a forgotten
// watch would keep the sandbox alive for ever. Opening a watch counts like any other request. A
// request for /health does not count.
//
// A client's offer to upgrade is not passed on to envd, which knows no other protocol. The bytes of
// a tunnel are not checked.
#pragma once
#include "sandbox-backend/net/http_server.h"

struct port;
struct sandbox;

// Streams of one sandbox. netd allows 512 connections, some of which are idle or being closed.
#define PROXY_STREAMS_MAX 480

#define KERNEL_WAIT_MS 30000 // an emulated guest on a loaded host needs 15 s
#define ENDED_WAIT_MS  5000

// Where a request goes. Borrowed from the request.
struct proxy_target {
    int port;
    const char *target; // as the guest sees it
    const char *path; // the target decoded, without the query. Empty: the target needs "/" in front
    const struct port *via; // the exposed port that it came to (ports.h), valid as long as the
                            // request; NULL: none
};

// Answer `req`. The sandbox is known, and it runs or may be woken.
void proxy_stream_start(struct sandbox *sb, struct http_request *req,
                        const struct proxy_target *to);
