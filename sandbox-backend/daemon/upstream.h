// SPDX-License-Identifier: Apache-2.0
// The connections from the daemon to one sandbox's ports, through its vm.net socket.
//
// Connections are kept and used again, as opening one costs a TCP handshake with the guest, where
// it is known how long the other end keeps an idle one: a request sent into one that the guest is
// closing would be lost, and a request is never sent twice. Of envd that is known; another server
// says so with each answer (Keep-Alive: timeout=SECONDS, as the Python kernel does), and what
// promises less than UPSTREAM_PROMISE_S is used once. A connection that idled for half of that
// time, or for UPSTREAM_IDLE_MS, half of envd's own limit, is not used any more.
//
// A port that is closed on the guest's own address may be one of the guest's loopback, as that of a
// development server is: it is asked for by envd's relay then. Which way a port answered is
// remembered, for the last UPSTREAM_LOOPBACK such ports, and is only the order of the next try.
//
// A connection that cannot be made now may be soon: the Python kernel is started again when it has
// ended, and a machine that has ended is found out a moment later, which cuts the streams that wait
// here. Such a dial is tried every UPSTREAM_AGAIN_MS, for as long as its upstream_patience says.
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
#define UPSTREAM_LOOPBACK  16 // ports remembered to listen on the guest's loopback only

struct upstream_conn {
    LIST_ENTRY(upstream_conn) link; // in upstream.idle while idle
    struct upstream *upstream;      // borrowed
    struct http_conn *http;
    int port;
    unsigned machine; // upstream.machine of when it was made
    bool idle;
    int64_t idle_since_ms;
    int64_t keep_ms; // while idle; 0: not to be used again
};

struct upstream {
    uv_loop_t *loop;
    LIST_HEAD(upstream_idle, upstream_conn) idle; // the last used first
    int idle_count;
    int live;                             // connections and dials
    uint16_t loopback[UPSTREAM_LOOPBACK]; // ports; 0 where there is none
    unsigned next_loopback;               // the place of the next one
    unsigned machine;                     // counted: each has connections of its own
    bool closing;
    void (*on_closed)(struct upstream *u); // set by upstream_close
};

struct upstream_dial; // a connection being made
// For how long, in ms, it is tried again; 0: not at all.
struct upstream_patience {
    int64_t closed_ms; // while nothing listens on the port
    int64_t ended_ms;  // while the machine seems to have ended
};
// `c` is the caller's until it is given back or dropped; NULL with `e` set on failure.
// ERR_NOT_FOUND: nothing listens on the port. ERR_UNAVAILABLE: the machine has ended.
typedef void (*upstream_dial_cb)(struct upstream_conn *c, const struct err *e, void *ctx);

void upstream_init(struct upstream *u, uv_loop_t *loop);
// Closes what is idle; `on_closed` comes from the loop once the last connection in use was dropped
// and the last dial has ended, but not when there was none of either (then upstream_is_closed).
void upstream_close(struct upstream *u, void (*on_closed)(struct upstream *u));
bool upstream_is_closed(const struct upstream *u);

// Its machine goes, or is put aside, and another will come: what leads to it is not used again.
void upstream_forget(struct upstream *u);

struct upstream_conn *upstream_take_idle(struct upstream *u, int port); // NULL: there is none
struct upstream_dial *upstream_dial(struct upstream *u, const char *vmnet, int port,
                                    uint64_t timeout_ms, struct upstream_patience patience,
                                    upstream_dial_cb cb, void *ctx);
// The same of a connection that carries no HTTP, or nothing at all: `stream` is on the heap,
// connected and not reading, and the callee's to close and free; NULL with `e` set on failure.
typedef void (*upstream_stream_cb)(uv_stream_t *stream, const struct err *e, void *ctx);
struct upstream_dial *upstream_dial_stream(struct upstream *u, const char *vmnet, int port,
                                           uint64_t timeout_ms, struct upstream_patience patience,
                                           upstream_stream_cb cb, void *ctx);
void upstream_dial_cancel(struct upstream_dial *dial); // its callback is not called any more

// The head of an answer: for how long the connection may be kept.
void upstream_heard(struct upstream_conn *c, const struct http_header *headers, size_t count);
void upstream_give(struct upstream_conn *c); // after a call that ended well
void upstream_drop(struct upstream_conn *c); // a call in progress ends with ERR_CANCELED
