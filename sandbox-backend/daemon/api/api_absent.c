// SPDX-License-Identifier: Apache-2.0
// The parts of E2B's API that this daemon does not have. A client learns what is missing and what
// to do instead. Without these rows it would read a 404 as "there is no such secret".
//
// tests/lib/daemon/e2b_table.py reads the table for docs/e2b.md.
#include <string.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/daemon/api/api.h"
#include "sandbox-backend/daemon/http/reply.h"

static const struct absent {
    const char *path, *what, *instead;
} ABSENT[] = {
    {"/api-keys", "other names for API keys are",
     "sandboxes belong to the name of their key: make another key and delete this one"},
    {"/access-tokens", "access tokens are", "run `cubby key new NAME` on the server"},
    {"/nodes", "nodes are", "one cubbyd serves one host; GET /health shows its load"},
    {"/admin", "administration by requests is", "use the command `cubby` on the server"},
    {"/default-templates", "E2B's own templates are",
     "GET /templates lists the templates of this host"},
};

static bool is_at(const char *path, const char *prefix)
{
    return str_eq(path, prefix) || str_path_is_below(path, prefix);
}

bool api_absent(struct http_request *req)
{
    for (size_t i = 0; i < ARRAY_LEN(ABSENT); i++) {
        if (!is_at(http_request_path(req), ABSENT[i].path))
            continue;
        reply_error(req, 501, "not_implemented", "%s %.200s: %s not available in Cubby; %s",
                    http_request_method(req), http_request_path(req), ABSENT[i].what,
                    ABSENT[i].instead);
        return true;
    }
    return false;
}
