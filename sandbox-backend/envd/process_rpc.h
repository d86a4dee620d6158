// SPDX-License-Identifier: Apache-2.0
// The methods of process.Process.
#pragma once
#include "sandbox-backend/envd/process.h"
#include "sandbox-backend/envd/rpc.h"

extern const struct rpc_method PROCESS_METHODS[];
extern const size_t PROCESS_METHOD_COUNT;

// The process that the selector of a message ("process") means; ended_too as for process_by_pid.
struct process *process_select(const struct rpc *call, const json_t *request, bool ended_too,
                               struct err *e);
