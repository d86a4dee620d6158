// SPDX-License-Identifier: Apache-2.0
// One stream of server-sent events (MCP, basic/transports): the answer of a POST, or what a
// session's GET listens to.
//
// In the modern era a stream is its connection. In the handshake era it outlives it: its events
// have ids, "<stream>.<n>", and are kept for a while (web_log.h), so that a client whose
// connection broke has what it missed, and only that, from the next. A stream is attached to at
// most one connection; a client that comes back takes it over from the one that it had before.
//
// A reader that does not keep up: what can be left out is (web_stream_is_busy); when more than
// WEB_STREAM_UNSENT_MAX is unsent, its connection is closed.
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
#define WEB_STREAM_PARKED_MAX   32                 // of a session: those that finished last
#define WEB_STREAM_PARKED_MS    300000             // for so long
#define WEB_STREAM_LOGS_BYTES   ((size_t)64 << 20) // all logs together
#define WEB_STREAM_KEEPALIVE_MS 15000
#define WEB_STREAM_RETRY_MS     1000 // how long a client is asked to wait before it comes back

// Those of an endpoint.
struct web_streams {
    struct web_stream *attached;             // to a connection
    struct web_stream *parked, **parked_end; // finished, the oldest first
    unsigned open, max;                      // attached ones
    size_t log_bytes;                        // of all logs
    uv_timer_t beat;                         // keep-alives, and the end of what is parked
    uv_timer_t reaper;                       // closes connections that do not keep up
    struct buf scratch;
};

struct web_stream {
    struct web_streams *all;
    struct caller *caller;              // held; whose share it counts for
    int64_t until_ns;                   // its connection ends then, by the wall clock
    struct http_request *req;           // its connection; NULL: none
    struct web_stream *next, **link;    // of all->attached or all->parked
    struct web_stream *sibling, **home; // of its session; first what began or finished last
    struct web_stream **family;         // that list; NULL: modern, it is alone and has no ids
    unsigned id;
    unsigned last; // number of the newest event
    unsigned sent; // of the newest that was given to a connection
    struct web_log log;
    bool finished;
    bool doomed; // its connection is about to be closed
    int64_t finished_ms;
    void (*on_lost)(void *ctx); // its connection is gone; may be NULL
    void *ctx;
};

void web_streams_init(struct web_streams *all, uv_loop_t *loop, unsigned max);
void web_streams_close(struct web_streams *all, uv_close_cb on_closed); // twice: `beat`, `reaper`
// Nobody, or this caller, may open one more.
bool web_streams_are_full(const struct web_streams *all, const struct caller *caller);
// Ends the connections whose tokens have expired; the streams stay for who comes back with another.
void web_streams_sweep(struct web_streams *all);

// `siblings`: the list of a session, NULL for a stream of the modern era. The caller is held.
struct web_stream *web_stream_new(struct web_streams *all, struct caller *caller,
                                  struct web_stream **siblings, unsigned id);
// Gives it a connection, which gets the head of the answer and the events after `after`; `prime`:
// an empty event first, for the client to come back from. Ends the answer if it has finished.
// `until_ns` is INT64_MAX from then on, until it is set.
void web_stream_attach(struct web_stream *s, struct http_request *req, unsigned after, bool prime);
void web_stream_send(struct web_stream *s, const json_t *message);
bool web_stream_is_busy(const struct web_stream *s); // WEB_STREAM_BUSY_BYTES are unsent
// Ends the connection, not the stream.
void web_stream_let_go(struct web_stream *s, int retry_ms);
// Nothing more comes: ends the answer. Frees a modern one, parks another.
void web_stream_finish(struct web_stream *s);
void web_stream_free(struct web_stream *s); // ends the answer as well
