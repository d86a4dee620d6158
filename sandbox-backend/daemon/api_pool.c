// SPDX-License-Identifier: Apache-2.0
// GET /pool: what is kept ready, and how often that was of use. An extension of Cubby's.
#include "sandbox-backend/daemon/api.h"
#include "sandbox-backend/daemon/pool.h"
#include "sandbox-backend/daemon/reply.h"

void api_pool(struct store *store, struct http_request *req, const char *arg)
{
    (void)arg;
    reply_json(req, 200, pool_to_json(store));
}
