// SPDX-License-Identifier: Apache-2.0
// One Connect call on our side (https://connectrpc.com/docs/protocol): a unary one, one with a
// stream of answers, or one with a stream of requests. Handlers see JSON and say JSON, also when
// the client speaks Protocol Buffers or compresses.
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/err.h"
#include "sandbox-backend/connect/services.h"
#include "sandbox-backend/envd/envd.h"

struct rpc;
struct rpc_deadline;

struct rpc_method {
    const char *path; // "/process.Process/Start": one of connect/services.h
    bool stream;      // its answers are
    // request: borrowed for the call, in the form of connect/proto.h. NULL when requests are a
    // stream: the handler sets on_message and on_input_end then.
    void (*handle)(struct rpc *call, const json_t *request);
};

struct rpc {
    struct envd *envd;
    const struct rpc_method *method;
    struct user user;
    int64_t timeout_ms; // Connect-Timeout-Ms; 0 is none. Ends calls without a stream of answers
    // The handler's, set before its handle() returns when the call goes on after it. Exactly one of
    // rpc_end, rpc_fail, on_closed is the call's last; the rpc is not to be used afterwards.
    void *ctx;
    void (*on_closed)(struct rpc *call); // the client is gone, or its time over
    void (*on_blocked)(struct rpc *call,
                       bool blocked); // the client reads too slowly; or does again
    // A stream of requests: each one, borrowed for the call; then that there are no more.
    void (*on_message)(struct rpc *call, const json_t *message);
    void (*on_input_end)(struct rpc *call);

    // Private to rpc*.c.
    const struct service_method *service;
    struct http_request *req; // borrowed
    struct rpc *next_unsent;
    struct rpc_deadline *deadline; // owned; NULL for none
    struct buf in;                 // of a stream of requests, not handed over yet
    struct buf out;                // to be sent when the loop's callbacks have run
    const char *items;             // rpc_begin_items: the member's name
    bool has_item;
    bool binary; // Protocol Buffers
    bool gzip;   // what comes may be compressed
    bool input_paused;
    bool input_due;   // resumed: to be looked at by the loop's hooks
    bool input_whole; // the client has said its last
    bool unsent;
    bool begun;
    bool failed;
    bool ended;
    bool blocked;
    bool full;   // blocked by what this turn of the loop has put, until it is sent
    bool broken; // a message could not be made: what is said from now on is dropped
    int status;
};

// Takes the request over. ctx of its end: see above.
void rpc_serve(struct envd *envd, struct http_request *req, const struct rpc_method *method,
               const struct user *user);
// Answers a request that has no call yet with a Connect error, in the form its type asks for.
void rpc_refuse(struct http_request *req, const struct err *e);

// Header of the request. Borrowed.
const char *rpc_header(const struct rpc *call, const char *name);
// How long a stream may be silent before a keepalive: Keepalive-Ping-Interval, or 90 s.
int64_t rpc_keepalive_ms(const struct rpc *call);

// No on_message until resumed, and nothing more is read from the client.
void rpc_pause_input(struct rpc *call);
void rpc_resume_input(struct rpc *call); // from the loop

// ---- answers. Sent together once the callbacks of this turn of the loop have run.
void rpc_reply(struct rpc *call, const json_t *message); // the only answer, and the end
void rpc_reply_text(struct rpc *call, const char *json); // the same, already text
void rpc_fail(struct rpc *call, const struct err *e);    // any kind: the end, with an error

// A long unary answer: the elements of its repeated member `name` (a literal), each as JSON text;
// rpc_end ends it.
void rpc_begin_items(struct rpc *call, const char *name);
void rpc_add_item(struct rpc *call, const char *json, size_t len);

// Stream: one message. One that cannot be made ends the call: on_closed comes later, from the loop.
void rpc_send_text(struct rpc *call, const char *json);
// The message in which only these bytes are set: {"event":{"data":{"stdout":"<base64>"}}} for
// {"event", "data", "stdout", NULL}. on_blocked may come from within: whoever has more waits then.
void rpc_send_bytes(struct rpc *call, const char *const *path, const void *data, size_t len);
void rpc_end(struct rpc *call); // success

// The loop's hooks that send what was put.
void rpc_hooks_init(struct envd *envd);
void rpc_hooks_close(struct envd *envd);
