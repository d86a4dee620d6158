// SPDX-License-Identifier: Apache-2.0
// What the files of a Connect call share: rpc.c takes it apart, rpc_input.c its stream of requests,
// rpc_answer.c sends.
#pragma once
#include "sandbox-backend/envd/rpc.h"

// ---- rpc.c
// The message in the client's codec, decompressed when it is said to be compressed. New reference,
// or NULL.
json_t *rpc__parse(const struct rpc *call, bool compressed, const char *data, size_t len,
                   struct err *e);
void rpc__free(struct rpc *call); // its request has been answered, or is gone
// It fails for a reason of ours: the handler is told that it is over, as when the client had left.
void rpc__give_up(struct rpc *call, const struct err *e);
bool rpc__is_stream(const struct rpc *call); // envelopes both ways

// ---- rpc_input.c
void rpc__input_open(struct rpc *call);
void rpc__input_run(struct rpc *call); // hands over what has come, unless paused

// ---- rpc_answer.c
void rpc__mark_unsent(struct rpc *call); // it is run by the loop's hooks
void rpc__forget_unsent(struct rpc *call);
