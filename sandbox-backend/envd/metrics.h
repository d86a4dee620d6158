// SPDX-License-Identifier: Apache-2.0
// GET /metrics: processors, memory, disk, as E2B's SDKs show them.
#pragma once
#include "sandbox-backend/envd/envd.h"

void metrics_get(struct http_request *req);
