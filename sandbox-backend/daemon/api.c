// SPDX-License-Identifier: Apache-2.0
// The control plane's table: methods and paths to handlers.
#include "sandbox-backend/daemon/api.h"

#include <string.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/daemon/gate.h"
#include "sandbox-backend/daemon/reply.h"
#include "sandbox-backend/daemon/store.h"

static const struct {
    const char *method, *pattern; // "{}" stands for one segment that is not empty
    api_handler handler;
} ROUTES[] = {
    {"GET", "/health", api_health},
    {"POST", "/sandboxes", api_create_v1},
    {"POST", "/v2/sandboxes", api_create_v2},
    {"GET", "/sandboxes", api_list_v1},
    {"GET", "/v2/sandboxes", api_list_v2},
    {"GET", "/sandboxes/metrics", api_metrics_all}, // before what any id would match
    {"GET", "/sandboxes/stats", api_stats},
    {"GET", "/sandboxes/{}", api_get},
    {"DELETE", "/sandboxes/{}", api_kill},
    {"POST", "/sandboxes/{}/timeout", api_timeout},
    {"POST", "/sandboxes/{}/refreshes", api_refresh},
    {"POST", "/sandboxes/{}/connect", api_connect_v1},
    {"POST", "/v2/sandboxes/{}/connect", api_connect_v2},
    {"POST", "/sandboxes/{}/pause", api_pause},
    {"POST", "/sandboxes/{}/resume", api_resume},
    {"POST", "/sandboxes/{}/rollback", api_rollback},
    {"POST", "/sandboxes/{}/fork", api_fork},
    {"POST", "/sandboxes/{}/snapshots", api_snapshot},
    {"PUT", "/sandboxes/{}/network", api_network},
    {"GET", "/sandboxes/{}/network", api_network_get},
    {"POST", "/sandboxes/{}/ports", api_expose},
    {"GET", "/sandboxes/{}/ports", api_ports},
    {"DELETE", "/sandboxes/{}/ports", api_unexpose},
    {"GET", "/sandboxes/{}/metrics", api_metrics},
    {"GET", "/sandboxes/{}/logs", api_logs_v1},
    {"GET", "/v2/sandboxes/{}/logs", api_logs_v2},
    {"GET", "/snapshots", api_snapshots},
    {"GET", "/templates", api_templates},
    {"GET", "/v2/templates", api_templates},
    {"POST", "/templates", api_unavailable},
    {"POST", "/v2/templates", api_unavailable},
    {"POST", "/v3/templates", api_unavailable},
    {"GET", "/templates/aliases/{}", api_alias},
    {"GET", "/templates/{}", api_template},
    {"DELETE", "/templates/{}", api_template_delete},
    {"PATCH", "/templates/{}", api_unavailable},
    {"PATCH", "/v2/templates/{}", api_unavailable},
    {"GET", "/volumes", api_unavailable},
    {"POST", "/volumes", api_unavailable},
    {"GET", "/secrets", api_unavailable},
    {"POST", "/secrets", api_unavailable},
    {"GET", "/pool", api_pool},
    {"GET", "/teams", api_teams},
    {"GET", "/metrics", api_prometheus},
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

// A page in a browser may ask, too, if it has a key: nothing here goes by cookies.
static void allow_origins(struct http_request *req)
{
    http_response_header(req, "Access-Control-Allow-Origin", "*");
    http_response_header(req, "Access-Control-Expose-Headers", "X-Next-Token, X-Total-Running");
}

void api_request(struct store *store, struct http_request *req)
{
    const char *method = http_request_method(req);
    bool path_known = false;
    if (strcmp(method, "OPTIONS") == 0) { // also for sandboxes: SDKs in browsers name none in it
        reply_preflight(req);
        return;
    }
    allow_origins(req);
    // Whether it is there may be asked by everybody.
    if (strcmp(http_request_path(req), "/health") != 0 && !gate_admits(store->gate, req))
        return;
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
