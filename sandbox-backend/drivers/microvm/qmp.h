// SPDX-License-Identifier: Apache-2.0
// A client of QEMU's machine protocol (QMP) on a libuv loop.
//
// Use: qmp_open with a connected socket, then qmp_execute at once and as often as needed; commands
// are sent without waiting for the greeting or for each other, and QEMU does them in order.
// (`qmp_capabilities` is sent by qmp_open.) Each command's callback is called exactly once, from
// the loop. When QEMU closes the connection or breaks the protocol all commands fail, on_lost is
// called, and qmp_close is still to be called.
#pragma once
#include <jansson.h>
#include <stdint.h>
#include <uv.h>

#include "sandbox-backend/base/err.h"

#define QMP_LINE_MAX 524288 // longest message taken from QEMU

struct qmp;

struct qmp_events {
    // data: the event's "data", an empty object when it has none. Borrowed. May call anything here.
    void (*on_event)(struct qmp *q, const char *name, const json_t *data, void *ctx);
    // The connection ended, not by qmp_close. After all pending commands failed with the same
    // error.
    void (*on_lost)(struct qmp *q, const struct err *e, void *ctx);
};

// value: the reply's "return" (borrowed), NULL when e is set: ERR_INTERNAL with QEMU's own words,
// ERR_TIMEOUT, ERR_UNAVAILABLE (connection lost), ERR_CANCELED (qmp_close).
typedef void (*qmp_reply_cb)(struct qmp *q, const json_t *value, const struct err *e, void *ctx);

// A connection to a listening socket; the descriptor or -1. Does not wait for QEMU to accept.
int qmp_connect(const char *path, struct err *e);

// Takes `fd`, a connected unix stream socket, in any case. Never fails: trouble is on_lost.
struct qmp *qmp_open(uv_loop_t *loop, int fd, const struct qmp_events *events, void *ctx);

// arguments: taken; NULL for none. cb may be NULL when the answer does not matter.
void qmp_execute(struct qmp *q, const char *command, json_t *arguments, uint64_t timeout_ms,
                 qmp_reply_cb cb, void *ctx);

// "getfd": gives QEMU a copy of `fd` (borrowed) under `name`, for "migrate" to "fd:NAME".
void qmp_give_fd(struct qmp *q, const char *name, int fd, uint64_t timeout_ms, qmp_reply_cb cb,
                 void *ctx);

// "add-fd": the same as the one descriptor of the set `set`, for whatever opens "/dev/fdset/SET".
void qmp_add_fd(struct qmp *q, int set, int fd, uint64_t timeout_ms, qmp_reply_cb cb, void *ctx);

// Fails what is pending (ERR_CANCELED, before it returns), closes, frees; on_closed (may be NULL)
// comes from the loop. No event after this call.
void qmp_close(struct qmp *q, void (*on_closed)(void *ctx), void *ctx);
