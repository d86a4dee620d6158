// SPDX-License-Identifier: Apache-2.0
// MCP Apps: which clients show views.
#include "mcp-server/protocol/apps.h"

#include "sandbox-backend/base/str.h"

bool apps_are_declared(const json_t *extensions)
{
    const json_t *types = json_object_get(json_object_get(extensions, APPS_EXTENSION), "mimeTypes");
    size_t i;
    const json_t *type;
    json_array_foreach ((json_t *)(uintptr_t)types, i, type) {
        if (str_eq(json_string_value(type), APPS_MIME_TYPE))
            return true;
    }
    return false;
}

bool apps_are_wanted(const struct exchange *x)
{
    return apps_are_declared(exchange_client_can(x, "extensions"));
}
