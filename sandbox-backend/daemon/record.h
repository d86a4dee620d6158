// SPDX-License-Identifier: Apache-2.0
// sandbox.json: what the next daemon needs to go on with a sandbox that this one made.
//
// It holds the access token, so it is mode 0600. It is replaced as a whole but never synced to
// disk: a sandbox does not outlive its host, so the file only has to survive the daemon, and for
// that the page cache is enough. An fsync would cost creation more than the rest of the daemon.
//
// What it says decides what there is of a sandbox. With "image" it has no machine, whatever may
// still run in its directory; without, it has one, and an image that lies there is not whole, or
// has been used up. Nor does anything else that runs there count but the machine that it names.
#pragma once
#include <jansson.h>
#include <stdbool.h>

#include "sandbox-backend/base/err.h"

struct sandbox;

// How far the end of a sliding sandbox in the file may be behind.
#define RECORD_SLACK_MS 10000

int record_write(struct sandbox *sb, struct err *e);
// For changes that are in force anyway: a failure is logged, and a restart would forget the change.
void record_write_or_log(struct sandbox *sb);

// What it was when the file was written.
enum record_state {
    RECORD_RUNNING,
    RECORD_PAUSED, // or on its way there or back; `asleep` and `image` are the sandbox's
    RECORD_POOLED,
};

// What is not the sandbox's own.
struct record_extra {
    json_t *machine; // the driver's part, a new reference; null of one that has an image
    enum record_state state;
    bool aside; // the machine's files are, or were being, put aside (aside.h)
};
// Fills `sb` (fresh from sandbox_new) from its directory; takes the format before this one, too.
// ERR_NOT_FOUND: there is no file; ERR_INVALID: it does not make sense.
int record_read(struct sandbox *sb, struct record_extra *extra, struct err *e);
