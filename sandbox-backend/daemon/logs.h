// SPDX-License-Identifier: Apache-2.0
// What can be told of a sandbox as log entries: its journal, and the last lines of its guest's
// console. The console's lines have no times of their own: theirs is that of the last one.
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "sandbox-backend/daemon/journal.h"

#define LOGS_CONSOLE_BYTES 65536 // the end of the console that is looked at
#define LOGS_LIMIT_MAX     1000

struct sandbox;

struct log_line {
    int64_t at_ns; // wall clock
    enum journal_level level;
    const char *source; // "cubbyd" or "console"; static
    const char *text;   // borrowed; may not be UTF-8
};
struct logs {
    struct log_line *lines; // owned, the oldest first
    size_t count;
    char *console; // owned; what lines borrow from
};

// Reads them, and first what its network was refused. The lines borrow from `sb`, too.
void logs_read(struct logs *logs, struct sandbox *sb);
void logs_fini(struct logs *logs);
