// SPDX-License-Identifier: Apache-2.0
// The events of one stream, kept so that they can be sent again: the newest ones, within limits.
#pragma once
#include <stddef.h>

#define WEB_LOG_EVENTS 512
#define WEB_LOG_BYTES  ((size_t)1 << 20)

struct web_event {
    struct web_event *next;
    unsigned number; // ascending, from 1
    size_t len;
    char text[]; // the bytes of the event stream
};

struct web_log {
    struct web_event *first, *last;
    size_t bytes;
    unsigned count;
};

// Add a copy. Drop the oldest events above the limits, but never the new one: it may be the answer.
void web_log_add(struct web_log *l, unsigned number, const char *text, size_t len);
// Return the first event after `number`, or NULL.
const struct web_event *web_log_after(const struct web_log *l, unsigned number);
void web_log_keep_last(struct web_log *l); // drop all but the newest
void web_log_fini(struct web_log *l);
