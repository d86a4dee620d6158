// SPDX-License-Identifier: Apache-2.0
// What envd answers to: CORS, the access token, the user, the routes, in this order.
#pragma once
#include "sandbox-backend/envd/envd.h"

void server_on_request(struct http_request *req, void *envd);
