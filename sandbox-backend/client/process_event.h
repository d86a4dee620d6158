// SPDX-License-Identifier: Apache-2.0
// One message of a process.Process/Start stream, taken apart. Pure; its bytes come from the guest.
// For client/ only.
#pragma once
#include <stdint.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/err.h"

#define PROCESS_STATUS_BYTES 128 // of a status text; longer ones are cut

enum process_event_kind {
    PROCESS_STARTED,
    PROCESS_STDOUT,
    PROCESS_STDERR,
    PROCESS_ENDED,
    PROCESS_OTHER, // keepalive, and whatever later versions add
};

struct process_event {
    enum process_event_kind kind;
    int64_t pid;     // STARTED
    struct buf data; // STDOUT, STDERR; owned by the caller, who empties or frees it
    bool exited;     // ENDED: by itself, else by a signal
    int exit_code;   // ENDED
    char status[PROCESS_STATUS_BYTES]; // ENDED: "exit status 3"
    char error[PROCESS_STATUS_BYTES];  // ENDED: the same; "" for exit 0
};

// {"event":{"start":{"pid":7}}} and so on. `out` keeps its buffer between calls.
int process_event_parse(const char *payload, size_t len, struct process_event *out, struct err *e);
