// SPDX-License-Identifier: Apache-2.0
// Requests to a guest's envd through its vm.net socket, while a template is built: wait until envd
// answers, and run a command. Each call has its own connection, which begins to close before the
// call returns.
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/err.h"
#include "sandbox-backend/template/pump.h"

// Wait until envd answers /health.
int call_await_envd(struct pump *p, const char *vmnet, uint64_t timeout_ms, struct err *e);

// POST a JSON object to envd. Takes the reference. The answer must be 204.
int call_post(struct pump *p, const char *vmnet, const char *target, json_t *body, struct err *e);

struct call_command {
    const char *user; // NULL: the guest's default user
    const char *cmd;
    const char *const *args; // NULL-terminated
    uint64_t timeout_ms;
};
// Run a command to its end and append its output, stdout and stderr together, to `out` (at most 64
// KiB). Return -1 unless the command exited with status 0; the message has the status and the last
// line of the output.
int call_run(struct pump *p, const char *vmnet, const struct call_command *command, struct buf *out,
             struct err *e);

// Start a command and return once it runs. Its output goes to `out`, as long as the call is not
// left. NULL on failure. call_leave ends the call; the command runs on.
struct call;
struct call *call_begin(struct pump *p, const char *vmnet, const struct call_command *command,
                        struct buf *out, struct err *e);
// Return whether the command has ended. *code: its exit status then.
bool call_has_ended(const struct call *c, int64_t *code);
void call_leave(struct call *c);

// Return the last line of a command's output that is not empty, for a message. New string.
char *call_last_line(const struct buf *out);

// Write bytes into a file of the guest, as root. The guest makes the directories above.
int call_put(struct pump *p, const char *vmnet, const char *path, const struct buf *bytes,
             struct err *e);

// Fetch a file of the guest into the descriptor, from its offset `at` on. ERR_TOO_LARGE after `max`
// bytes. ERR_TIMEOUT if less than a mebibyte arrives in stall_ms, because a
// busy host takes long.
int call_fetch(struct pump *p, const char *vmnet, const char *path, int file, int64_t at,
               int64_t max, uint64_t stall_ms, int64_t *bytes, struct err *e);
