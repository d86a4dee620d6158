// SPDX-License-Identifier: Apache-2.0
// Answer a request to envd: CORS, the access token, the user, the route, in this order.
#pragma once
#include "sandbox-backend/envd/core/envd.h"

void server_on_request(struct http_request *req, void *envd);
