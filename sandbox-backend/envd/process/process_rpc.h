// SPDX-License-Identifier: Apache-2.0
// The methods of process.Process, and what their files share.
#pragma once
#include <jansson.h>

#include "sandbox-backend/base/err.h"
#include "sandbox-backend/base/users.h"
#include "sandbox-backend/envd/process/process.h"
#include "sandbox-backend/envd/rpc/rpc.h"

extern const struct rpc_method PROCESS_METHODS[];
extern const size_t PROCESS_METHOD_COUNT;

// Return the process that the selector of a message ("process") names; ended_too as for
// process_by_pid. NULL with an error.
struct process *process_select(const struct rpc *call, const json_t *request, bool ended_too,
                               struct err *e);

// follower.c: a Start or Connect call that follows a process. It sends "start", then output as it
// comes, then the end, and keepalives. Connect-Timeout-Ms of a Connect ends the call alone. For a
// Start call (`started`) it is the process's own time limit, which ends both. The follower owns the
// call from here on.
void follower_new(struct rpc *call, struct process *p, bool started);

// process_input.c: SendInput, StreamInput, CloseStdin. The answer comes when the process's pipe or
// terminal has taken the bytes.
void process_input_send(struct rpc *call, const json_t *request);
void process_input_stream(struct rpc *call, const json_t *request);
void process_input_close(struct rpc *call, const json_t *request);

// ---- the environment of a command
//
// Later sources win: envd's PATH, and HOME, USER, LOGNAME; the
// variables that /init set; the variables of the request.

struct environment {
    char **envp;      // NULL-terminated; one allocation with its text
    const char *path; // PATH in it; "" without one. Borrowed from envp
};

// `global` and `request` are objects of strings; `request` may be NULL.
int environment_init(struct environment *env, const struct user *user, json_t *global,
                     const json_t *request, struct err *e);
void environment_fini(struct environment *env);
