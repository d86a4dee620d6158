// SPDX-License-Identifier: Apache-2.0
// The origin check: which Host and Origin a request may name.
#include "mcp-server/web/web_origin.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>
#include <strings.h>
#include <uv.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

void web_origin_init(struct web_origin *g, const struct config *config,
                     const struct sockaddr_storage *bound)
{
    *g = (struct web_origin){.config = config, .cors = config->allow_origins.count > 0};
    uv_ip_name((const struct sockaddr *)bound, g->bound, sizeof g->bound);
    g->any_address = str_eq(g->bound, "0.0.0.0") || str_eq(g->bound, "::");
    const char *host = config->public_url ? strstr(config->public_url, "://") : NULL;
    if (host)
        g->public_origin = xstrndup(config->public_url, (size_t)(host - config->public_url) + 3 +
                                                            strcspn(host + 3, "/?#"));
}

void web_origin_fini(struct web_origin *g)
{
    free(g->public_origin);
    g->public_origin = NULL;
}

// Split "name", "name:port" or "[address]:port"; false for anything else. The name has no brackets.
static bool split(const char *host, const char **name, size_t *len)
{
    bool bracketed = host[0] == '[';
    *name = bracketed ? host + 1 : host;
    *len = strcspn(*name, bracketed ? "]" : ":");
    const char *rest = *name + *len;
    if (*len == 0 || (bracketed && *rest++ != ']'))
        return false;
    int64_t port;
    return *rest == '\0' ||
           (*rest == ':' && (rest[1] == '\0' || str_to_int(rest + 1, 0, UINT16_MAX, &port)));
}

static bool same(const char *name, size_t len, const char *other)
{
    return strlen(other) == len && strncasecmp(name, other, len) == 0;
}

static bool is_loopback(const char *name, size_t len)
{
    return same(name, len, "localhost") || same(name, len, "127.0.0.1") || same(name, len, "::1");
}

static bool is_address(const char *name, size_t len)
{
    char text[INET6_ADDRSTRLEN + 1];
    struct in6_addr address;
    if (len >= sizeof text)
        return false;
    memcpy(text, name, len);
    text[len] = '\0';
    return inet_pton(AF_INET, text, &address) == 1 || inet_pton(AF_INET6, text, &address) == 1;
}

// Return whether the name is that of --public-url or --allow-host. An --allow-host with a port must
// match the port, too.
static bool is_named(const struct web_origin *g, const char *host, const char *name, size_t len)
{
    const char *public_name;
    size_t public_len;
    const char *public_host = g->public_origin ? strstr(g->public_origin, "://") + 3 : "";
    if (split(public_host, &public_name, &public_len) && public_len == len &&
        strncasecmp(public_name, name, len) == 0)
        return true;
    for (int i = 0; i < g->config->allow_hosts.count; i++) {
        const char *allowed = g->config->allow_hosts.items[i];
        if (strcasecmp(allowed, host) == 0 || same(name, len, allowed))
            return true;
    }
    return false;
}

bool web_origin_takes_host(const struct web_origin *g, const char *host)
{
    const char *name;
    size_t len;
    if (!host || !split(host, &name, &len))
        return false;
    return is_loopback(name, len) || same(name, len, g->bound) || is_named(g, host, name, len) ||
           (g->any_address && is_address(name, len));
}

bool web_origin_takes_origin(const struct web_origin *g, const char *origin)
{
    if (!origin || (g->public_origin && strcasecmp(origin, g->public_origin) == 0))
        return true;
    for (int i = 0; i < g->config->allow_origins.count; i++)
        if (strcasecmp(origin, g->config->allow_origins.items[i]) == 0)
            return true;
    const char *name;
    size_t len;
    size_t scheme = strncasecmp(origin, "http://", 7) == 0    ? 7
                    : strncasecmp(origin, "https://", 8) == 0 ? 8
                                                              : 0;
    return scheme > 0 && split(origin + scheme, &name, &len) && is_loopback(name, len);
}
