// SPDX-License-Identifier: Apache-2.0
// A client of QEMU's machine protocol (QMP) on a libuv loop.
//
// Use: call qmp_open with a connected socket, then qmp_execute at once and as often as needed.
// Commands are sent without waiting for the greeting or for each other, and QEMU runs them in
// order. (qmp_open sends `qmp_capabilities`.) Each command's callback is called exactly once, from
// the loop. When QEMU closes the connection or breaks the protocol, all commands fail and on_lost
// is called; the caller must still call qmp_close.
#pragma once
#include <jansson.h>
#include <stdint.h>
#include <uv.h>

#include "sandbox-backend/base/err.h"

#define QMP_LINE_MAX 524288 // the longest message that is accepted from QEMU

struct qmp;

struct qmp_events {
    // An event of QEMU. data: the event's "data", or an empty object. Borrowed. The callback may
    // call any function of this header.
    void (*on_event)(struct qmp *q, const char *name, const json_t *data, void *ctx);
    // The connection was lost, not closed by qmp_close. Called after all pending commands have
    // failed with the same error.
    void (*on_lost)(struct qmp *q, const struct err *e, void *ctx);
};

// The result of a command. value: the reply's "return" (borrowed), or NULL when `e` is set. Errors:
// ERR_INTERNAL with QEMU's own words, ERR_TIMEOUT, ERR_UNAVAILABLE (connection lost), ERR_CANCELED
// (qmp_close).
typedef void (*qmp_reply_cb)(struct qmp *q, const json_t *value, const struct err *e, void *ctx);

// Connect to a listening socket. Return the descriptor or -1. Does not wait for QEMU to accept.
int qmp_connect(const char *path, struct err *e);

// Open a client on `fd`, a connected unix stream socket. Always takes ownership of `fd`. Never
// fails: on_lost reports an error.
struct qmp *qmp_open(uv_loop_t *loop, int fd, const struct qmp_events *events, void *ctx);

// Send a command. Takes ownership of `arguments`; NULL for none. cb may be NULL.
void qmp_execute(struct qmp *q, const char *command, json_t *arguments, uint64_t timeout_ms,
                 qmp_reply_cb cb, void *ctx);

// Send "getfd": give QEMU a copy of `fd` (borrowed) under `name`, for "migrate" to "fd:NAME".
void qmp_give_fd(struct qmp *q, const char *name, int fd, uint64_t timeout_ms, qmp_reply_cb cb,
                 void *ctx);

// Send "add-fd": give QEMU a copy of `fd` as the one member of the set `set`, for commands that
// open "/dev/fdset/SET".
void qmp_add_fd(struct qmp *q, int set, int fd, uint64_t timeout_ms, qmp_reply_cb cb, void *ctx);

// Fail the pending commands (ERR_CANCELED, before the return), close, and free. The loop calls
// on_closed (may be NULL). No event follows this call.
void qmp_close(struct qmp *q, void (*on_closed)(void *ctx), void *ctx);
