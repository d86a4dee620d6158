// SPDX-License-Identifier: Apache-2.0
// The control plane's table: methods and paths to handlers.
#include "sandbox-backend/daemon/api.h"

#include <string.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/daemon/reply.h"

static const struct {
    const char *method, *pattern; // "{}" stands for one segment that is not empty
    api_handler handler;
} ROUTES[] = {
    {"GET", "/health", api_health},
    {"POST", "/sandboxes", api_create_v1},
    {"POST", "/v2/sandboxes", api_create_v2},
    {"GET", "/sandboxes", api_list_v1},
    {"GET", "/v2/sandboxes", api_list_v2},
    {"GET", "/sandboxes/{}", api_get},
    {"DELETE", "/sandboxes/{}", api_kill},
    {"POST", "/sandboxes/{}/timeout", api_timeout},
    {"POST", "/sandboxes/{}/refreshes", api_refresh},
    {"POST", "/sandboxes/{}/connect", api_connect_v1},
    {"POST", "/v2/sandboxes/{}/connect", api_connect_v2},
    {"POST", "/sandboxes/{}/pause", api_unavailable},
    {"POST", "/sandboxes/{}/resume", api_unavailable},
    {"POST", "/sandboxes/{}/fork", api_unavailable},
    {"POST", "/sandboxes/{}/snapshots", api_unavailable},
    {"PUT", "/sandboxes/{}/network", api_unavailable},
    {"GET", "/sandboxes/{}/metrics", api_unavailable},
    {"GET", "/sandboxes/{}/logs", api_unavailable},
    {"GET", "/v2/sandboxes/{}/logs", api_unavailable},
    {"GET", "/templates", api_templates},
    {"GET", "/v2/templates", api_templates},
    {"GET", "/templates/aliases/{}", api_alias},
};

// New string: what stood at "{}", "" when the pattern has none; NULL when it does not match.
static char *match(const char *pattern, const char *path)
{
    const char *hole = strstr(pattern, "{}");
    if (!hole)
        return strcmp(pattern, path) == 0 ? xstrdup("") : NULL;
    size_t before = (size_t)(hole - pattern);
    if (strncmp(pattern, path, before) != 0)
        return NULL;
    size_t len = strcspn(path + before, "/");
    if (len == 0 || strcmp(path + before + len, hole + 2) != 0)
        return NULL;
    return xstrndup(path + before, len);
}

void api_request(struct store *store, struct http_request *req)
{
    const char *method = http_request_method(req);
    bool path_known = false;
    for (size_t i = 0; i < ARRAY_LEN(ROUTES); i++) {
        char *arg auto_free = match(ROUTES[i].pattern, http_request_path(req));
        if (!arg)
            continue;
        path_known = true;
        if (strcmp(ROUTES[i].method, method) == 0) {
            ROUTES[i].handler(store, req, arg);
            return;
        }
    }
    if (path_known)
        reply_error(req, 405, NULL, "%s is not a method of this path", method);
    else
        reply_error(req, 404, NULL, "there is nothing at %.200s", http_request_path(req));
}
