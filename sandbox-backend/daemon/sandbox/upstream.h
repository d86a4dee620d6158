// SPDX-License-Identifier: Apache-2.0
// Upstream: the daemon's connections to the ports of one guest, through the sandbox's vm.net
// socket.
//
// Connections are kept for later requests, because a new one costs a TCP handshake with the guest.
// A request is never sent twice, so it must not meet a connection that the other end is closing.
// The daemon therefore keeps a connection only if it knows the idle limit, after which the other
// end closes an idle connection. envd's limit is known. Other servers give theirs in each answer
// (Keep-Alive: timeout=SECONDS, as the Python kernel does). A connection with a limit below
// UPSTREAM_PROMISE_S is used once. The daemon closes a connection that was idle for half of its
// limit, or for UPSTREAM_IDLE_MS, which is half of envd's limit.
//
// A port that is closed on the guest's own address may be open on the guest's loopback, for example
// a development server's. envd's relay reaches it there. The last UPSTREAM_LOOPBACK ports that
// answered there are remembered, so that the next dial tries the relay first.
//
// A dial that fails now may succeed soon: the guest restarts a Python kernel that ended, and the
// daemon notices a moment later that a machine ended, which cuts the waiting streams. Such a dial
// is tried again every UPSTREAM_AGAIN_MS, for as long as its upstream_patience allows.
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <uv.h>

#include "sandbox-backend/base/err.h"
#include "sandbox-backend/net/http_conn.h"

#define UPSTREAM_IDLE_MAX  16
#define UPSTREAM_IDLE_MS   300000
#define UPSTREAM_PROMISE_S 60
#define UPSTREAM_DIAL_MS   10000
#define UPSTREAM_AGAIN_MS  200
#define UPSTREAM_LOOPBACK  16 // ports remembered as open on the guest's loopback only

struct upstream_conn {
    LIST_ENTRY(upstream_conn) link; // in upstream.idle while idle
    struct upstream *upstream;      // borrowed
    struct http_conn *http;
    int port;
    unsigned machine; // upstream.machine when the connection was made
    bool idle;
    int64_t idle_since_ms;
    int64_t keep_ms; // how long it may idle; 0: use it once
};

struct upstream {
    uv_loop_t *loop;
    LIST_HEAD(upstream_idle, upstream_conn) idle; // the most recently used first
    int idle_count;
    int live;                             // connections and dials
    uint16_t loopback[UPSTREAM_LOOPBACK]; // ports; 0: a free slot
    unsigned next_loopback;               // the next slot to use
    unsigned machine; // number of the sandbox's machine; a connection belongs to one
    bool closing;
    void (*on_closed)(struct upstream *u); // set by upstream_close
};

struct upstream_dial; // a connection being made
// For how long, in ms, a dial is tried again; 0: do not try again.
struct upstream_patience {
    int64_t closed_ms; // while nothing listens on the port
    int64_t ended_ms;  // while the machine seems to have ended
};
// `c` belongs to the callee until upstream_give or upstream_drop; NULL with `e` set on failure.
// ERR_NOT_FOUND: nothing listens on the port. ERR_UNAVAILABLE: the machine has ended.
typedef void (*upstream_dial_cb)(struct upstream_conn *c, const struct err *e, void *ctx);

void upstream_init(struct upstream *u, uv_loop_t *loop);
// Close idle connections. `on_closed` is called from the loop once the last connection in use was
// dropped and the last dial has ended. If there are none, upstream_is_closed is true at once and
// `on_closed` is not called.
void upstream_close(struct upstream *u, void (*on_closed)(struct upstream *u));
bool upstream_is_closed(const struct upstream *u);

// Use no connection to the present machine for further requests, because another machine will
// replace this one.
void upstream_forget(struct upstream *u);

// Return an idle connection to the port, or NULL. It stays apart from the dial, because a proxied
// request that finds an idle connection stale is sent again on a dialled one only.
struct upstream_conn *upstream_take_idle(struct upstream *u, int port);
struct upstream_dial *upstream_dial(struct upstream *u, const char *vmnet, int port,
                                    uint64_t timeout_ms, struct upstream_patience patience,
                                    upstream_dial_cb cb, void *ctx);
// Dial for a plain stream, without HTTP. `stream` is on the heap, connected and not reading; the
// callee closes and frees it. NULL with `e` set on failure.
typedef void (*upstream_stream_cb)(uv_stream_t *stream, const struct err *e, void *ctx);
struct upstream_dial *upstream_dial_stream(struct upstream *u, const char *vmnet, int port,
                                           uint64_t timeout_ms, struct upstream_patience patience,
                                           upstream_stream_cb cb, void *ctx);
void upstream_dial_cancel(struct upstream_dial *dial); // do not call its callback

// Take the idle limit of the connection from the headers of an answer.
void upstream_heard(struct upstream_conn *c, const struct http_header *headers, size_t count);
void upstream_give(struct upstream_conn *c); // return it after a call that succeeded
void upstream_drop(struct upstream_conn *c); // close it; a call in progress ends with ERR_CANCELED
