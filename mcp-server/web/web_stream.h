// SPDX-License-Identifier: Apache-2.0
// A stream of server-sent events (MCP, basic/transports): the answer to a POST, or what a
// session's GET listens to.
//
// In the modern era a stream is its connection. In the legacy era it outlives the connection: its
// events have ids, "<stream>.<n>", and are kept for a while (web_log.h). A client whose connection
// broke gets exactly the events that it missed on the next one. A stream is attached to at most one
// connection; a client that comes back takes it over from its earlier connection.
//
// If a reader is too slow, optional messages are left out (web_stream_is_busy). With more than
// WEB_STREAM_UNSENT_MAX unsent, its connection is closed.
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "mcp-server/auth/caller.h"
#include "mcp-server/web/web_log.h"
#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/net/http_server.h"

#define WEB_STREAM_UNSENT_MAX   ((size_t)8 << 20)
#define WEB_STREAM_BUSY_BYTES   ((size_t)32 << 10)
#define WEB_STREAM_PARKED_MAX   32                 // of a session: the last ones that finished,
#define WEB_STREAM_PARKED_MS    300000             // for this long
#define WEB_STREAM_LOGS_BYTES   ((size_t)64 << 20) // limit of all logs together
#define WEB_STREAM_KEEPALIVE_MS 15000
#define WEB_STREAM_RETRY_MS     1000 // the delay that a client is asked for before it comes back

// All streams of an endpoint.
struct web_streams {
    struct web_stream *attached;             // those with a connection
    struct web_stream *parked, **parked_end; // finished ones, the oldest first
    unsigned open, max;                      // count of attached ones
    size_t log_bytes;                        // of all logs
    uv_timer_t beat;                         // sends keep-alives, and ends parked streams
    uv_timer_t reaper;                       // closes connections that are too slow
    struct buf scratch;
};

struct web_stream {
    struct web_streams *all;
    struct caller *caller;              // held; the stream counts for its share
    int64_t until_ns;                   // its connection ends then, by the wall clock
    struct http_request *req;           // its connection; NULL: none
    struct web_stream *next, **link;    // in all->attached or all->parked
    struct web_stream *sibling, **home; // in its session; the stream that began or finished last is
                                        // first
    struct web_stream **family;         // that list; NULL: a modern stream, alone and without ids
    unsigned id;
    unsigned last; // number of the newest event
    unsigned sent; // number of the newest event that a connection has got
    struct web_log log;
    bool finished;
    bool doomed; // its connection is about to be closed
    int64_t finished_ms;
    void (*on_lost)(void *ctx); // the connection is gone; may be NULL
    void *ctx;
};

void web_streams_init(struct web_streams *all, uv_loop_t *loop, unsigned max);
// on_closed is called twice: `beat`, `reaper`
void web_streams_close(struct web_streams *all, uv_close_cb on_closed);
// Return whether the limit of streams is reached, of the server or of this caller.
bool web_streams_are_full(const struct web_streams *all, const struct caller *caller);
// End the connections whose tokens have expired. Their streams stay for clients that come back with
// another token.
void web_streams_sweep(struct web_streams *all);

// `siblings`: the list of a session, NULL for a stream of the modern era. The caller is held.
struct web_stream *web_stream_new(struct web_streams *all, struct caller *caller,
                                  struct web_stream **siblings, unsigned id);
// Attach a connection, which gets the head of the answer and the events after `after`. `prime`: it
// gets an empty event first, from which the client can resume. A finished stream ends the answer.
// `until_ns` is INT64_MAX until it is set again.
void web_stream_attach(struct web_stream *s, struct http_request *req, unsigned after, bool prime);
void web_stream_send(struct web_stream *s, const json_t *message);
bool web_stream_is_busy(const struct web_stream *s); // WEB_STREAM_BUSY_BYTES are unsent
// End the connection, not the stream.
void web_stream_let_go(struct web_stream *s, int retry_ms);
// Nothing more will come: end the answer. A modern stream is freed, another one is parked.
void web_stream_finish(struct web_stream *s);
void web_stream_free(struct web_stream *s); // also ends the answer
