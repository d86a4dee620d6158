// SPDX-License-Identifier: Apache-2.0
// A command in a sandbox that has our standard streams, for the verbs exec, run and shell.
#pragma once
#include <stdint.h>

#include "sandbox-backend/base/err.h"
#include "sandbox-backend/cli/connection.h"
#include "sandbox-backend/client/client.h"

#define EXEC_TIMED_OUT 124
#define EXEC_NOT_RUN   125 // cubby itself failed

// Run a command to its end. The first SIGINT or SIGTERM kills it. Prints errors. Returns the exit
// status for this program (exec.c has the list).
int exec_run(struct connection *c, const char *id, const struct command_opts *opts);
// The same, but print the command's stderr as lines of visible text (shown_lines.h).
int exec_run_shown(struct connection *c, const char *id, const struct command_opts *opts);

// Return the exit status for a command's end. Prints that the command took longer than timeout_ms.
int exec_status(const struct command_result *r, int64_t timeout_ms);

// Print the error of a command that did not run to its end, with what to do about a paused sandbox.
void exec_complain(const struct err *e);
