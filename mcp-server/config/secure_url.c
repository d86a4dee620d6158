// SPDX-License-Identifier: Apache-2.0
// URLs whose content is trusted.
#include "mcp-server/config/secure_url.h"

#include <string.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

#define HTTPS "https://"
#define HTTP  "http://"

const char *secure_url_path(const char *url)
{
    const char *host = strstr(url, "://");
    return host ? host + 3 + strcspn(host + 3, "/?") : url + strlen(url);
}

char *secure_url_origin(const char *url)
{
    return xstrndup(url, (size_t)(secure_url_path(url) - url));
}

bool secure_url_is_plain(const char *url)
{
    return str_starts(url, HTTP);
}

static bool is_this_machine(const char *host)
{
    static const char *const NAMES[] = {"localhost", "127.0.0.1", "[::1]"};
    for (size_t i = 0; i < ARRAY_LEN(NAMES); i++) {
        size_t n = strlen(NAMES[i]);
        if (strncmp(host, NAMES[i], n) == 0 && strchr(":/?", host[n]))
            return true; // strchr finds the end of the string too
    }
    return false;
}

bool secure_url_check(const char *url)
{
    for (const char *c = url; *c; c++)
        if (*c <= ' ' || *c > '~' || strchr("@#\\\"<>", *c))
            return false;
    if (secure_url_is_plain(url))
        return is_this_machine(url + sizeof HTTP - 1);
    const char *host = url + sizeof HTTPS - 1;
    return str_starts(url, HTTPS) && *host && !strchr(":/?", *host);
}
