// SPDX-License-Identifier: Apache-2.0
// What is remembered of sandboxes that ended: enough to tell "it expired an hour ago" from "there
// never was one". The last ENDED_MAX of ENDED_AGE_MS, also over a restart: a line of JSON for each
// in <home>/ended.jsonl, appended, and written anew when half of it is outdated.
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "sandbox-backend/base/err.h"
#include "sandbox-backend/base/home.h"

#define ENDED_MAX    1000
#define ENDED_AGE_NS (24LL * 3600 * 1000000000)

enum ended_why {
    ENDED_KILLED,  // somebody asked for it
    ENDED_EXPIRED, // its time to live was over
    ENDED_DIED,    // its machine ended by itself
    ENDED_STOPPED, // the daemon was stopped
    ENDED_LOST,    // its machine did not run any more when the daemon started
};

struct ended_entry {
    char id[SANDBOX_ID_LEN + 1];
    enum ended_why why;
    int64_t at_ns; // wall clock
    char *detail;  // owned, one sentence, may be NULL
    char *owner;   // owned; name of the API key that it belonged to; NULL: made on the unix socket
};

struct ended {
    char *path; // owned
    struct ended_entry entries[ENDED_MAX];
    size_t next;  // where the next one goes
    size_t count; // how many are set
    size_t lines; // of the file
};

void ended_open(struct ended *ended, const char *home); // reads the file; a missing one is fine
void ended_close(struct ended *ended);

void ended_add(struct ended *ended, const char *id, const char *owner, enum ended_why why,
               const char *detail);
const struct ended_entry *ended_find(const struct ended *ended, const char *id); // NULL: unknown

const char *ended_why_name(enum ended_why why); // "killed", "expired" ...
// "it was killed by a request at 2026-01-02T03:04:05Z". New string.
char *ended_sentence(const struct ended_entry *entry);
