// SPDX-License-Identifier: Apache-2.0
// POST /init: what the host tells a guest after every start and restore.
#pragma once
#include "sandbox-backend/envd/envd.h"

void init_post(struct envd *envd, struct http_request *req);
