// SPDX-License-Identifier: Apache-2.0
// The record, sandbox.json: what the next daemon needs to adopt the sandbox.
//
// The file holds the access token, so its mode is 0600. It is replaced as a whole but never synced
// to disk: a sandbox does not outlive its host, so the file only has to survive the daemon, and for
// that the page cache is enough. An fsync would take longer than everything else that the daemon
// does for a create.
//
// The record decides which files and processes in the directory belong to the sandbox. With the
// member "image", the sandbox has that image and no machine. Without it, the sandbox has the
// machine that the record names, and an image in the directory is incomplete or no longer needed.
// Any process that the record does not name is an orphan.
#pragma once
#include <jansson.h>
#include <stdbool.h>

#include "sandbox-backend/base/err.h"

struct sandbox;

// The end time of a sliding sandbox in the file may be earlier than the real one, by at most this.
#define RECORD_SLACK_MS 10000

// Replace the record.
int record_write(struct sandbox *sb, struct err *e);
// Replace the record for a change that is already in force. After a failure, log it and let the
// timer try again; a daemon that restarts before then forgets the change.
void record_write_or_log(struct sandbox *sb);

// The state of the sandbox when the record was written.
enum record_state {
    RECORD_RUNNING,
    RECORD_PAUSED, // also PAUSING and RESUMING; see sandbox.asleep and sandbox.image
    RECORD_POOLED,
};

// The parts of a record for which struct sandbox has no member.
struct record_extra {
    json_t *machine; // the machine record, a new reference; JSON null if there is an image
    enum record_state state;
    bool aside; // the machine's files are put aside, or a daemon was moving them when it ended
};
// Fill `sb`, which sandbox_new has just made, from the record in its directory. The previous format
// is understood as well. ERR_NOT_FOUND: there is no record; ERR_INVALID: the record is invalid.
int record_read(struct sandbox *sb, struct record_extra *extra, struct err *e);

// Check, before anything is adopted, that no record below `dir` is of a newer format. An older
// daemon would otherwise take such a sandbox for a broken one, and end it. ERR_PRECONDITION.
int records_check(const char *dir, struct err *e);
