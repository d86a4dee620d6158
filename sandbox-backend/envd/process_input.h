// SPDX-License-Identifier: Apache-2.0
// The methods of process.Process that feed one: SendInput, StreamInput, CloseStdin. An answer comes
// once the process's pipe or terminal has taken the bytes.
#pragma once
#include "sandbox-backend/envd/rpc.h"

void process_input_send(struct rpc *call, const json_t *request);
void process_input_stream(struct rpc *call, const json_t *request);
void process_input_close(struct rpc *call, const json_t *request);
