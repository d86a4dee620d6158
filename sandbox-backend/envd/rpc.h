// SPDX-License-Identifier: Apache-2.0
// One Connect call on our side (https://connectrpc.com/docs/protocol), JSON codec: a unary one, or
// one with a stream of answers. The request is whole and parsed when the handler is called.
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/err.h"
#include "sandbox-backend/envd/envd.h"

struct rpc;

struct rpc_method {
    const char *path; // "/process.Process/Start"
    bool stream;
    void (*handle)(struct rpc *call, const json_t *request); // request: borrowed for the call
};

struct rpc {
    struct envd *envd;
    const struct rpc_method *method;
    struct user user;
    int64_t timeout_ms; // Connect-Timeout-Ms; 0 is none
    // The handler's, set before its handle() returns when the call goes on after it. Exactly one of
    // rpc_end, rpc_fail, on_closed is the call's last; the rpc is not to be used afterwards.
    void *ctx;
    void (*on_closed)(struct rpc *call); // the client is gone
    void (*on_blocked)(struct rpc *call,
                       bool blocked); // the client reads too slowly; or does again

    // Private to rpc.c.
    struct http_request *req; // borrowed
    struct rpc *next_unsent;
    struct buf out; // to be sent when the loop's callbacks have run
    int status;
    bool unsent;
    bool begun;
    bool ended;
    bool blocked;
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

// ---- answers. Sent together once the callbacks of this turn of the loop have run.
void rpc_reply(struct rpc *call, const json_t *message); // unary: the answer, and the end
void rpc_reply_text(struct rpc *call, const char *json); // the same, already text
void rpc_fail(struct rpc *call, const struct err *e);    // either kind: the end, with an error

// A long unary answer in pieces; rpc_end ends it.
void rpc_put(struct rpc *call, const void *data, size_t len);
// Stream: one message "<before><base64 of data><after>", or JSON text alone.
void rpc_send_text(struct rpc *call, const char *json);
void rpc_send_base64(struct rpc *call, const char *before, const void *data, size_t len,
                     const char *after);
void rpc_end(struct rpc *call); // success

// The loop's hooks that send what was put.
void rpc_hooks_init(struct envd *envd);
void rpc_hooks_close(struct envd *envd);
