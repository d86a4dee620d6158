// SPDX-License-Identifier: Apache-2.0
// Functions that the files of a Connect call share: rpc.c parses requests, rpc_input.c streams of
// them, rpc_answer.c sends responses.
#pragma once
#include "sandbox-backend/envd/rpc/rpc.h"

// ---- rpc.c
// Parse a message in the client's codec, and decompress it first if `compressed`. New reference, or
// NULL.
json_t *rpc__parse(const struct rpc *call, bool compressed, const char *data, size_t len,
                   struct err *e);
void rpc__free(struct rpc *call); // the request has been answered, or its client has left
// Fail the call because of a limit or a failure of envd. The handler gets on_closed, as if the
// client had left.
void rpc__give_up(struct rpc *call, const struct err *e);
bool rpc__is_stream(const struct rpc *call); // both directions have envelopes
bool rpc__has_ended(const struct rpc *call); // ENDED or FAILED

// ---- rpc_input.c
void rpc__input_open(struct rpc *call);
void rpc__input_run(struct rpc *call); // passes what has arrived to the handler, unless paused

// ---- rpc_answer.c
void rpc__mark_unsent(struct rpc *call); // the loop's hooks run the call
void rpc__forget_unsent(struct rpc *call);
