// SPDX-License-Identifier: Apache-2.0
// Fuzz cubbyd's parsers of request heads: routing headers (one a line), the path or target, the
// metadata filter, a signature. NUL bytes separate the parts of the input.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/daemon/api/api_list.h"
#include "sandbox-backend/daemon/proxy/proxy.h"
#include "sandbox-backend/daemon/proxy/route.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static size_t split(char *text, struct http_header *out)
{
    size_t n = 0;
    for (char *line; n < HTTP_HEADERS_MAX && (line = strsep(&text, "\n"));) {
        char *value = strchr(line, ':');
        if (!value)
            continue;
        *value++ = '\0';
        out[n++] = (struct http_header){line, value};
    }
    return n;
}

static void try_headers(char *text, const char *target)
{
    struct http_header headers[HTTP_HEADERS_MAX], passed[HTTP_HEADERS_MAX];
    struct route route;
    struct err e = ERR_INIT;
    size_t n = split(text, headers);
    enum route_kind kind = route_parse(headers, n, target, &route, &e);
    if (kind == ROUTE_SANDBOX && (route.port < 1 || route.port > 65535 || !*route.id))
        abort();
    if (kind == ROUTE_SANDBOX && (route.skip > strlen(target) || memchr(target, '%', route.skip)))
        abort(); // the decoded path is skipped by as much
    if ((kind == ROUTE_BAD) != err_is(&e))
        abort();
    if (route_filter(headers, n, passed) > n)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text auto_free = xstrndup((const char *)data, size);
    char *path = text + strnlen(text, size);
    path += path < text + size;
    char *metadata = path + strlen(path);
    metadata += metadata < text + size;
    char *signature = metadata + strlen(metadata);
    signature += signature < text + size;
    struct err e = ERR_INIT;
    json_t *filter = list_query_metadata(metadata, &e);
    if (!filter && !err_is(&e))
        abort();
    json_decref(filter);
    route_is_reserved(path);
    route_use(49983, "GET", path);
    try_headers(text, path);
    if (proxy_signed_matches(signature, path, "read", "", "token", NULL) &&
        strncmp(signature, "v1_", 3) != 0)
        abort();
    return 0;
}
