// SPDX-License-Identifier: Apache-2.0
// Reads answers: turns one that is not a success into an error, and parses a message of a
// process.Process/Start stream. The bytes may come from the guest. Pure. For client/ only.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/err.h"

#define ANSWER_ERROR_BYTES_MAX (64 * 1024) // kept of an error's body

// ---- errors

// An answer of the control plane: {"code":404,"message":"...","error_code":"sandbox_ended"}.
// sandbox_ended is ERR_GONE; sandbox_not_found and any other 404 are ERR_NOT_FOUND.
void answer_api_error(struct err *e, int status, const char *body, size_t len);

// An answer of envd, or of the proxy in front of it. `existed`: the sandbox is known to have
// existed, so a proxy that cannot find it means that it has ended.
//   502, error_code sandbox_paused                   ERR_CONFLICT, see answer_paused
//   502, error_code sandbox_ended, or a "reason"     ERR_GONE
//   502, sandbox_not_found, or E2B's text for that   ERR_GONE, or ERR_NOT_FOUND if it is unknown
//   502, E2B's text for a port that is not open      ERR_REFUSED
//   any other 502                                    ERR_UNAVAILABLE: it runs, but does not answer
//   {"code":"not_found",...}   a Connect error
//   {"code":404,"message":..}  by the status
void answer_envd_error(struct err *e, bool existed, int status, const char *body, size_t len);

// Set ERR_CONFLICT: the sandbox exists but is paused, and nothing was done.
void answer_paused(struct err *e);
// Return whether the answer may mean that the sandbox is paused. E2B's proxy gives the same answer
// for a paused and an ended sandbox; the control plane knows which.
bool answer_may_mean_paused(int status, const char *body, size_t len);

// ---- a message of a process.Process/Start stream

#define PROCESS_STATUS_BYTES 128 // of a status text; longer texts are cut

enum process_event_kind {
    PROCESS_STARTED,
    PROCESS_STDOUT, // or of its terminal
    PROCESS_STDERR,
    PROCESS_ENDED,
    PROCESS_OTHER, // keepalive, and what later versions add
};

struct process_event {
    enum process_event_kind kind;
    int64_t pid;                       // STARTED
    struct buf data;                   // STDOUT, STDERR; the caller frees it
    bool exited;                       // ENDED: by itself; false: by a signal
    int exit_code;                     // ENDED
    char status[PROCESS_STATUS_BYTES]; // ENDED: "exit status 3"
    char error[PROCESS_STATUS_BYTES];  // ENDED: the same; "" for exit 0
};

// {"event":{"start":{"pid":7}}} and so on. `out` keeps its buffer between calls.
int process_event_parse(const char *payload, size_t len, struct process_event *out, struct err *e);
