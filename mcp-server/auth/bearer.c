// SPDX-License-Identifier: Apache-2.0
// The Authorization header, and the WWW-Authenticate header that answers it.
#include "mcp-server/auth/bearer.h"

#include <string.h>
#include <strings.h>

#define SCHEME "Bearer"

bool bearer_parse(const char *header, const char **token, size_t *len)
{
    static const char TOKEN68[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~+/";
    const char *at = header + sizeof SCHEME - 1;
    if (strncasecmp(header, SCHEME, sizeof SCHEME - 1) != 0 || *at != ' ')
        return false;
    at += strspn(at, " ");
    size_t n = strspn(at, TOKEN68);
    if (n == 0)
        return false;
    n += strspn(at + n, "=");
    *token = at;
    *len = n;
    return at[n + strspn(at + n, " \t")] == '\0';
}

// Append a parameter as a quoted string (RFC 9110, 5.6.4). Quotes and backslashes become
// apostrophes, other characters that are not visible ASCII become question marks.
static void add_part(struct buf *out, const char *name, const char *value)
{
    if (!value || !*value)
        return;
    buf_printf(out, ", %s=\"", name);
    for (const char *c = value; *c; c++) {
        if (*c == '"' || *c == '\\')
            buf_addc(out, '\'');
        else
            buf_addc(out, *c >= ' ' && *c <= '~' ? *c : '?');
    }
    buf_addc(out, '"');
}

void bearer_challenge(struct buf *out, const char *error, const char *description,
                      const char *scope, const char *metadata_url)
{
    buf_adds(out, SCHEME " realm=\"cubby\"");
    add_part(out, "error", error);
    add_part(out, "error_description", description);
    add_part(out, "scope", scope);
    add_part(out, "resource_metadata", metadata_url);
}
