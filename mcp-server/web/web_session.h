// SPDX-License-Identifier: Apache-2.0
// Sessions over HTTP, of the legacy era (MCP 2025-03-26 to 2025-11-25, basic/transports), found by
// their Mcp-Session-Id.
//
// A session belongs to its caller and is unknown to any other. It ends by DELETE, after
// --session-idle without use, when its token is revoked, or with the server. A session with a
// running call or an open stream is in use. When --max-sessions sessions exist, or the caller has
// its share of them (caller.h), a new session replaces the caller's own session that has been idle
// longest, if that is at least WEB_SESSION_SPARE_MS. Otherwise it is refused. Sessions of other
// callers are not touched.
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "mcp-server/protocol/session.h"
#include "mcp-server/web/web_stream.h"

#define WEB_SESSION_ID_BYTES 16 // random
#define WEB_SESSION_SPARE_MS 60000
#define WEB_SESSION_BUCKETS  4096

struct web_session {
    struct outlet outlet; // for messages that belong to no request: the standalone stream
    struct web_sessions *all;
    char id[2 * WEB_SESSION_ID_BYTES + 1];
    struct session *session;           // owned
    struct web_session *same_hash;     // in all->table
    struct web_session *newer, *older; // in order of their last use
    int64_t used_ms;
    struct web_stream *streams;    // owned
    struct web_stream *standalone; // one of them; NULL until it is needed
    unsigned last_stream;          // id of the newest
};

struct web_sessions {
    uv_loop_t *loop;
    struct context *context;                        // borrowed
    struct web_streams *streams;                    // borrowed
    struct web_session *table[WEB_SESSION_BUCKETS]; // by a hash of their ids
    struct web_session *newest, *oldest;
    unsigned count, max;
    unsigned ending; // no longer in the table, but still busy
    int64_t idle_ms;
    uv_timer_t sweep;
    void (*on_none)(void *ctx); // see web_sessions_close
    void *ctx;
};

void web_sessions_init(struct web_sessions *all, struct context *context,
                       struct web_streams *streams);
// End all sessions, then call on_none after the last, possibly inside this call.
void web_sessions_close(struct web_sessions *all, void (*on_none)(void *ctx), void *ctx);
void web_sessions_fini(struct web_sessions *all, uv_close_cb on_closed); // after on_none

// Open a session without an era. NULL: there are too many, or too many of this caller.
struct web_session *web_session_open(struct web_sessions *all, struct caller *caller);
// Return the session with this id and caller, which counts as used now, or NULL.
struct web_session *web_session_find(struct web_sessions *all, const char *id,
                                     const struct caller *caller);
// Cancel its calls and end its streams. It is freed when its calls have ended.
void web_session_end(struct web_session *w);
void web_session_use(struct web_session *w); // the time of its last use is now

// Return its stream for messages that belong to no request.
struct web_stream *web_session_standalone(struct web_session *w);
struct web_stream *web_session_add_stream(struct web_session *w);
struct web_stream *web_session_stream(const struct web_session *w, unsigned id); // NULL: none
