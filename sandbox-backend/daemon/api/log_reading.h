// SPDX-License-Identifier: Apache-2.0
// An answer that a thread reads from the event log.
#pragma once
#include <jansson.h>

#include "sandbox-backend/daemon/events/readings.h"

struct api_call;

struct log_reading {
    struct reading reading;
    char *home; // owned; where the log is
    json_t *found;
    // In a thread: return the answer's body, which the caller owns.
    json_t *(*find)(struct log_reading *r);
    void (*free)(struct log_reading *r); // with its query
};

// Check that the caller may read the log now: see readings_check.
int log_reading_check(struct api_call *c, struct err *e);
// Read the log for the caller, who was checked, and answer with what `find` finds. The caller has
// set `find` and `free`.
void log_reading_start(struct log_reading *r, struct api_call *c);
