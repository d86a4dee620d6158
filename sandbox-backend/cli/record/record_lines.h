// SPDX-License-Identifier: Apache-2.0
// The lines of a sandbox's record (daemon/calls/call_log.h), as `cubby record` verifies, shows and
// exports them.
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/err.h"
#include "sandbox-backend/keys/sha256.h"

// ---- verifying (record_check.c): each line has the hash of the one before, and the next number

struct record_check {
    struct sha256 last;            // of the last line
    int64_t first, n;              // numbers of the first and the last line; 0: there was none
    int64_t explained;             // lines up to this one are known to be missing
    int64_t jump_first, jump_last; // lines that the next line must call missing; 0: none
    char *sandbox;                 // owned
    const char *wanted; // borrowed; a hash that a line must have, in hexadecimal; NULL: none
    bool is_found, has_ended;
    int gaps;
};

// Return -1 with `e`, which names the line, for the first line that does not fit.
int record_check_line(struct record_check *c, const char *line, size_t len, struct err *e);
// Check what only the end shows.
int record_check_end(const struct record_check *c, struct err *e);
void record_check_print(const struct record_check *c); // for people
void record_check_fini(struct record_check *c);

// ---- for people (record_show.c)
void record_show_line(const json_t *line);

// ---- asciicast version 2 (record_cast.c)

// Write the terminal session of the line `call` (0: the last one) of all these lines.
int record_cast(const struct buf *lines, int64_t call, FILE *to, struct err *e);
