// SPDX-License-Identifier: Apache-2.0
// A command in a sandbox with a terminal, which is ours: for the verbs shell and run.
#pragma once
#include <jansson.h>
#include <stdbool.h>

#include "sandbox-backend/base/err.h"
#include "sandbox-backend/cli/connection.h"
#include "sandbox-backend/client/client.h"

// Check that standard input and output are a terminal.
int shell_check(struct err *e);

// Run a command in a terminal, whose name is opts->tag (NULL: shell_run makes one). With `joins`
// it returns to the running one of that name, if there is one. The person may leave it with ~. at
// the beginning of a line; it then runs on, and the text printed says how to return. A connection
// that breaks is made again. Prints errors. Returns the exit status for this program; 0 when the
// person left. *left, if not NULL: whether it runs on.
int shell_run(struct connection *c, const char *id, const struct command_opts *opts, bool joins,
              bool *left);

// Add the variables that a program in our terminal needs. *envs: an object or NULL, owned by the
// caller.
void shell_add_environment(json_t **envs);
