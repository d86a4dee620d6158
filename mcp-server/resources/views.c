// SPDX-License-Identifier: Apache-2.0
// The views of MCP Apps.
#include "mcp-server/resources/views.h"

#include <string.h>

#include "app_views.h"
#include "mcp-server/protocol/apps.h"
#include "mcp-server/protocol/exchange.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

static const struct view {
    const char *uri;
    const unsigned char *html; // UTF-8, ends with NUL
} VIEWS[] = {
#define ROW(name, html) {APPS_URI_PREFIX name, html},
    VIEW_ROWS(ROW)
#undef ROW
};

static const char *find(const char *uri)
{
    for (size_t i = 0; i < ARRAY_LEN(VIEWS); i++)
        if (str_eq(VIEWS[i].uri, uri))
            return (const char *)VIEWS[i].html;
    return NULL;
}

static void read_view(struct exchange *x, const char *uri)
{
    const char *html = apps_are_wanted(x) ? find(uri) : NULL;
    if (!html) {
        resource_not_found(x, uri, "there is no such view");
        return;
    }
    json_t *content = resource_content(uri, APPS_MIME_TYPE, html, strlen(html));
    json_object_set_new(content, "_meta", json_pack("{s:{s:b}}", "ui", "prefersBorder", true));
    exchange_result_cacheable(x, json_pack("{s:[o]}", "contents", content), true, VIEWS_TTL_MS);
}

const struct resource_source APP_VIEWS = {.scheme = "ui", .read = read_view};
