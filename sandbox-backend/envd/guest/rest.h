// SPDX-License-Identifier: Apache-2.0
// The REST routes of this room. Each function takes over the request and ignores `basic`, the user
// that it names. /freeze and /unfreeze are in quiesce.h.
#pragma once
#include "sandbox-backend/envd/core/envd.h"

// init.c: POST /init, which the host sends to a guest after every start and restore.
void init_post(struct envd *envd, struct http_request *req, const char *basic);

// metrics.c: GET /metrics: processors, memory and disk, in the form that E2B's SDKs show.
void metrics_get(struct envd *envd, struct http_request *req, const char *basic);
