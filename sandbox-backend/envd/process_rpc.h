// SPDX-License-Identifier: Apache-2.0
// The methods of process.Process.
#pragma once
#include "sandbox-backend/envd/rpc.h"

extern const struct rpc_method PROCESS_METHODS[];
extern const size_t PROCESS_METHOD_COUNT;
