// SPDX-License-Identifier: Apache-2.0
// The files of call logs (call_log.h): their names, their lines as texts, and reading them.
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/err.h"

// Return the path of the newest file, or of the older one, of a sandbox. New string.
char *call_file(const char *dir, const char *id, bool older);
// Return the number of a line, which begins with {"n":; 0: it is not a line of a call log.
int64_t call_line_number(const char *line, size_t len);

// Read the log of a sandbox that exists or has ended: whole lines with numbers above `after`, each
// with its newline, until `out` has `max` bytes. A single longer line is given whole. *owner is the
// owner as the log has it: a new reference to a string or null. Return -1 with ERR_NOT_FOUND when
// there is no log, or the last line of a sandbox that has ended is older than `oldest_ns` (wall
// clock). Blocking, so for a worker.
struct call_logs;
int call_files_read(const struct call_logs *logs, const char *id, int64_t oldest_ns, int64_t after,
                    size_t max, struct buf *out, json_t **owner, struct err *e);
