// SPDX-License-Identifier: Apache-2.0
// The server side of one Connect call (https://connectrpc.com/docs/protocol): unary, with a stream
// of responses, or with a stream of requests. Handlers read and write JSON; this room converts for
// clients that use Protocol Buffers or compression.
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/err.h"
#include "sandbox-backend/connect/services.h"
#include "sandbox-backend/envd/core/envd.h"

struct rpc;
struct rpc_deadline;

struct rpc_method {
    const char *path; // "/process.Process/Start": one of connect/services.h
    bool stream;      // it has a stream of responses
    // request: borrowed for the call, in the form of connect/proto.h. NULL for a stream of
    // requests, for which the handler sets on_message and on_input_end.
    void (*handle)(struct rpc *call, const json_t *request);
};

enum rpc_state {
    RPC_OPEN,   // the handler has the call
    RPC_BROKEN, // a message could not be encoded: `out` has the end; the handler is not told yet
    RPC_ENDED,  // the handler has ended the call; its output must still be sent
    RPC_FAILED, // the same, but it ended with an error
    RPC_STATES
};

enum rpc_output {
    RPC_OUTPUT_FLOWS,
    RPC_OUTPUT_FULL,    // enough for this turn of the loop: blocked until it is sent
    RPC_OUTPUT_BLOCKED, // the client reads too slowly
};

enum rpc_input {
    RPC_INPUT_FLOWS,
    RPC_INPUT_PAUSED,
    RPC_INPUT_DUE, // resumed: the loop's hooks will run the input
};

struct rpc {
    struct envd *envd;
    const struct rpc_method *method;
    struct user user;
    int64_t timeout_ms; // Connect-Timeout-Ms, 0: none. Ends calls without a stream of responses
    // The handler sets these before handle() returns if the call continues. Exactly one of rpc_end,
    // rpc_fail, on_closed ends the call; the handler must not use it afterwards.
    void *ctx;
    void (*on_closed)(struct rpc *call); // the client has left, or the deadline has passed
    void (*on_blocked)(struct rpc *call,
                       bool blocked); // true: the client reads too slowly; false: it has caught up
    // For a stream of requests: on_message gets each message, borrowed for the call; on_input_end
    // comes at the end of the stream.
    void (*on_message)(struct rpc *call, const json_t *message);
    void (*on_input_end)(struct rpc *call);

    // Private to rpc*.c.
    const struct service_method *service;
    struct http_request *req;      // borrowed
    LIST_ENTRY(rpc) unsent_link;   // of envd->unsent
    struct rpc_deadline *deadline; // owned; NULL: no deadline
    struct buf in;                 // of a stream of requests, not passed to the handler yet
    struct buf out;                // to be sent when the loop's callbacks have run
    const char *items;             // the name of the member, from rpc_begin_items
    int status;                    // of HTTP
    enum rpc_state state;
    enum rpc_output output;
    enum rpc_input input;
    bool binary;      // Protocol Buffers
    bool gzip;        // requests may be compressed
    bool input_whole; // the client has sent everything
    bool has_item;    // an element of `items` was added
    bool unsent;      // in envd->unsent
    bool begun;       // the head of the response was sent
};

// Serve a request. Takes over the request.
void rpc_serve(struct envd *envd, struct http_request *req, const struct rpc_method *method,
               const struct user *user);
// Answer a request that has no call with a Connect error, in the form that its type asks for.
void rpc_refuse(struct http_request *req, const struct err *e);

// Return a header of the request. Borrowed.
const char *rpc_header(const struct rpc *call, const char *name);
// Return how long a stream may be silent before a keepalive: Keepalive-Ping-Interval, or 90 s.
int64_t rpc_keepalive_ms(const struct rpc *call);

// Stop on_message, and stop reading from the client, until the input is resumed.
void rpc_pause_input(struct rpc *call);
void rpc_resume_input(struct rpc *call); // on_message comes from the loop

// ---- responses. They are sent together when the callbacks of this turn of the loop have run.
void rpc_reply(struct rpc *call, const json_t *message); // sends the only response; ends the call
void rpc_reply_text(struct rpc *call, const char *json); // the same, as JSON text
void rpc_fail(struct rpc *call, const struct err *e);    // ends any kind of call with an error

// A long unary response: the elements of its repeated member `name` (a literal), each as JSON text.
// rpc_end ends it.
void rpc_begin_items(struct rpc *call, const char *name);
void rpc_add_item(struct rpc *call, const char *json, size_t len);

// Send one message of a stream. If it cannot be encoded, on_closed comes later, from the loop.
void rpc_send_text(struct rpc *call, const char *json);
// Send the message in which only these bytes are set: {"event":{"data":{"stdout":"<base64>"}}} for
// the path {"event", "data", "stdout", NULL}. on_blocked may be called from inside; the handler
// then waits before it sends more.
void rpc_send_bytes(struct rpc *call, const char *const *path, const void *data, size_t len);
void rpc_end(struct rpc *call); // ends the call with success

// Install and remove the loop's hooks that send the output.
void rpc_hooks_init(struct envd *envd);
void rpc_hooks_close(struct envd *envd);
