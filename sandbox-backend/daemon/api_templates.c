// SPDX-License-Identifier: Apache-2.0
// GET /templates, /templates/aliases/{alias} and /health.
#include "sandbox-backend/base/version.h"
#include "sandbox-backend/daemon/api.h"
#include "sandbox-backend/daemon/reply.h"
#include "sandbox-backend/daemon/store.h"
#include "sandbox-backend/daemon/templates.h"

void api_templates(struct store *store, struct http_request *req, const char *arg)
{
    (void)arg;
    reply_json(req, 200, templates_list(store));
}

void api_alias(struct store *store, struct http_request *req, const char *alias)
{
    struct known_template t = {0};
    struct err e = ERR_INIT;
    if (templates_find(store, alias, &t, &e) < 0)
        reply_err(req, e.code == ERR_NOT_FOUND ? "template_not_found" : NULL, &e);
    else
        reply_json(req, 200, json_pack("{s:s, s:b}", "templateID", t.name, "public", 0));
    templates_fini(&t);
}

// More than E2B's "ok": what is in use of what there is.
void api_health(struct store *store, struct http_request *req, const char *arg)
{
    (void)arg;
    reply_json(req, 200,
               json_pack("{s:s, s:s, s:I, s:I, s:I, s:I}", "status", "ok", "version", CUBBY_VERSION,
                         "sandboxes", (json_int_t)store->count, "maxSandboxes",
                         (json_int_t)store->limits.sandboxes, "memoryMB",
                         (json_int_t)(store_memory_bytes(store) >> 20), "maxMemoryMB",
                         (json_int_t)(store->limits.memory_bytes >> 20)));
}
