// SPDX-License-Identifier: Apache-2.0
// Sessions over HTTP, of the handshake era (MCP 2025-03-26 to 2025-11-25, basic/transports): found
// again by their Mcp-Session-Id.
//
// A session is its caller's: to any other it is unknown. It ends by DELETE, when it was not used
// for --session-idle, when its token is revoked, or when the server does. One in which a call runs
// or that has a stream open is in use. When there are --max-sessions, or its caller has its share
// of them (web_share.h), a new one takes the place of that of the same caller which is idle the
// longest, if that is WEB_SESSION_SPARE_MS; otherwise it is refused. Other callers' sessions are
// left alone.
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "mcp-server/protocol/session.h"
#include "mcp-server/web/web_stream.h"

#define WEB_SESSION_ID_BYTES 16 // random
#define WEB_SESSION_SPARE_MS 60000
#define WEB_SESSION_BUCKETS  4096

struct web_session {
    struct outlet outlet; // of what belongs to no request: the standalone stream
    struct web_sessions *all;
    char id[2 * WEB_SESSION_ID_BYTES + 1];
    struct session *session;           // owned
    struct web_session *same_hash;     // in all->table
    struct web_session *newer, *older; // by their last use
    int64_t used_ms;
    struct web_stream *streams;    // owned
    struct web_stream *standalone; // of them; NULL until it is needed
    unsigned last_stream;          // id of the newest
};

struct web_sessions {
    uv_loop_t *loop;
    struct toolbox *toolbox;                        // borrowed
    struct web_streams *streams;                    // borrowed
    struct web_session *table[WEB_SESSION_BUCKETS]; // by a hash of their ids
    struct web_session *newest, *oldest;
    unsigned count, max;
    unsigned ending; // not in the table any more, not idle yet
    int64_t idle_ms;
    uv_timer_t sweep;
    void (*on_none)(void *ctx); // see web_sessions_close
    void *ctx;
};

void web_sessions_init(struct web_sessions *all, struct toolbox *toolbox,
                       struct web_streams *streams);
// Ends all sessions; then, when the last has gone, possibly inside this call, on_none.
void web_sessions_close(struct web_sessions *all, void (*on_none)(void *ctx), void *ctx);
void web_sessions_fini(struct web_sessions *all, uv_close_cb on_closed); // after on_none

// A session without an era yet. NULL: there are too many, or too many of this caller.
struct web_session *web_session_open(struct web_sessions *all, struct caller *caller);
// That of this id and caller; it counts as used now. NULL: there is none.
struct web_session *web_session_find(struct web_sessions *all, const char *id,
                                     const struct caller *caller);
// Cancels its calls, ends its streams; it is gone once its calls have wound down.
void web_session_end(struct web_session *w);
void web_session_use(struct web_session *w); // now

// Its stream for what belongs to no request.
struct web_stream *web_session_standalone(struct web_session *w);
struct web_stream *web_session_add_stream(struct web_session *w);
struct web_stream *web_session_stream(const struct web_session *w, unsigned id); // NULL: none
