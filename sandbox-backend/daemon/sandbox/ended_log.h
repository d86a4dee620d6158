// SPDX-License-Identifier: Apache-2.0
// The ended log: the sandboxes that ended lately, with the reasons. From it, an error text can say
// "it expired an hour ago" rather than "there is no such sandbox".
//
// The log has at most ENDED_LOG_MAX entries, none older than ENDED_LOG_AGE_NS. It survives a
// restart in <home>/ended.jsonl, one JSON object per line. New lines are appended; the file is
// rewritten when half of its lines are outdated.
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "sandbox-backend/base/err.h"
#include "sandbox-backend/base/sandbox_id.h"

#define ENDED_LOG_MAX    1000
#define ENDED_LOG_AGE_NS (24LL * 3600 * 1000000000)

enum ended_why {
    ENDED_KILLED,  // by a request
    ENDED_EXPIRED, // its end time came
    ENDED_DIED,    // its machine ended by itself
    ENDED_STOPPED, // the daemon was stopped
    ENDED_LOST,    // a starting daemon could not adopt it
    ENDED_MOVED,   // another node has it; never in the log
};

struct ended_entry {
    char id[SANDBOX_ID_MAX + 1];
    enum ended_why why;
    int64_t at_ns; // wall clock
    char *detail;  // owned; one sentence; may be NULL
    char *owner;   // owned; the owner; NULL: created on the unix socket
};

struct ended_log {
    char *path; // owned
    struct ended_entry entries[ENDED_LOG_MAX];
    size_t next;  // the index that is written next
    size_t count; // of entries that are set
    size_t lines; // in the file
};

void ended_log_open(struct ended_log *ended, const char *home); // read the file, if there is one
void ended_log_close(struct ended_log *ended);

void ended_log_add(struct ended_log *ended, const struct ended_entry *entry); // copied
// Return the entry of this id. NULL: unknown.
const struct ended_entry *ended_log_find(const struct ended_log *ended, const char *id);

const char *ended_why_name(enum ended_why why); // "killed", "expired" ...
// Return, for example, "it was killed by a request at 2026-01-02T03:04:05Z". New string.
char *ended_sentence(const struct ended_entry *entry);
