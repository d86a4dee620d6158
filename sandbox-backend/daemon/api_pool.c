// SPDX-License-Identifier: Apache-2.0
// GET /pool: what is kept ready, and how often that was of use. An extension of Cubby's.
#include "sandbox-backend/daemon/api.h"
#include "sandbox-backend/daemon/gate.h"
#include "sandbox-backend/daemon/pool.h"
#include "sandbox-backend/daemon/reply.h"
#include "sandbox-backend/daemon/store.h"

void api_pool(struct store *store, struct http_request *req, const char *arg)
{
    (void)arg;
    if (gate_sees_host(store->gate, req))
        reply_json(req, 200, pool_to_json(store));
    else
        reply_error(req, 403, "unix_socket_only",
                    "the pool is everybody's: it is shown on the daemon's unix socket only");
}
