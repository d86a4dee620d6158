// SPDX-License-Identifier: Apache-2.0
// Requests for a port of a sandbox, passed on to it.
//
// Theory of operation. A request that route.h finds to be for a sandbox becomes a stream: the
// client's request on one side, a connection to the guest's port (upstream.h) on the other. Heads
// are filtered, bodies pass through as they arrive, in both directions at once, and whichever side
// is slow stops the other: a full connection pauses reading from its source until it has drained,
// so a stream holds at most LIMIT_STREAM_QUEUE_BYTES each way.
//
// States: DIALING (a connection is being made; the request's body waits in its socket),
// WAITING (the request is on its way), ANSWERING (the answer's head has been sent), DONE (the
// client has its answer or is gone; what is left is to get rid of the connection).
//
// Failures. A request is never sent twice. Before the answer's head a failure is a 502 in JSON;
// after it, the client's connection is dropped without a clean end, which is how the SDKs tell a
// dead sandbox from a finished command. When the client goes, its connection to the guest is
// closed: envd leaves a command running then, as E2B's does. When the sandbox ends, its streams
// are cut first. How long an answer may take is the client's business, who can leave; only making
// the connection has a deadline of ours (UPSTREAM_DIAL_MS).
//
// A stream is use of a sandbox for as long as it is open, but for a watch of files (WatchDir): to
// be told of changes is not to make any, and nobody would notice that a watch keeps a sandbox for
// ever. Opening one counts as any other request does.
#pragma once
#include "sandbox-backend/daemon/route.h"
#include "sandbox-backend/net/http_server.h"

struct sandbox;
struct store;

// Of one sandbox. netd passes 512 connections on, some of which wait to be used or are being
// closed.
#define PROXY_STREAMS_MAX 480

// Answers `req`, which was found to be for `route`.
void proxy_request(struct store *store, struct http_request *req, const struct route *route);

// Ends every stream of a sandbox that is being ended.
void proxy_cut_streams(struct sandbox *sb);
