// SPDX-License-Identifier: Apache-2.0
// What of a request for an exposed port tells who asks.
#include "sandbox-backend/daemon/ports_rules.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

#define LOCALHOST      "localhost"
#define NAME_MAX_BYTES 256
#define METHOD_CHARS                                                  \
    "!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijkl" \
    "mnopqrstuvwxyz" // RFC 9110, 5.6.2

// ---- names

// The name or address of "name:port", "[::1]:port", "name.": without port, brackets and the root's
// dot. False: it is too long to be one.
static bool bare_name(const char *authority, char out[NAME_MAX_BYTES])
{
    bool is_v6 = *authority == '[';
    size_t len = is_v6 ? strcspn(authority + 1, "]") : strcspn(authority, ":/");
    if (len == 0 || len >= NAME_MAX_BYTES)
        return false;
    memcpy(out, authority + is_v6, len);
    out[len] = '\0';
    if (!is_v6 && out[len - 1] == '.')
        out[len - 1] = '\0';
    return true;
}

static bool is_address(const char *name)
{
    unsigned char bytes[sizeof(struct in6_addr)];
    return inet_pton(AF_INET, name, bytes) == 1 || inet_pton(AF_INET6, name, bytes) == 1;
}

static bool is_loopback(const char *name)
{
    struct in_addr v4;
    struct in6_addr v6;
    if (inet_pton(AF_INET, name, &v4) == 1)
        return ntohl(v4.s_addr) >> 24 == IN_LOOPBACKNET;
    return strcasecmp(name, LOCALHOST) == 0 ||
           (inet_pton(AF_INET6, name, &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6));
}

// Whether `name` is "<port>-<id>.<domain>", or with `any_port` that of another port.
static bool is_own(const char *name, const struct ports_names *names, const char *domain,
                   bool any_port)
{
    char port[16];
    char zone[NAME_MAX_BYTES];
    snprintf(port, sizeof port, "%d-", names->port);
    size_t digits = strspn(name, "0123456789");
    size_t id_len = strlen(names->id);
    if (!domain || !bare_name(domain, zone) || digits == 0 || name[digits] != '-' ||
        (!any_port && strncmp(name, port, digits + 1) != 0))
        return false;
    const char *id = name + digits + 1;
    return strncasecmp(id, names->id, id_len) == 0 && id[id_len] == '.' &&
           strcasecmp(id + id_len + 1, zone) == 0;
}

enum ports_host ports_rules_host(const char *host, const struct ports_names *names)
{
    char name[NAME_MAX_BYTES];
    if (!bare_name(host, name))
        return PORTS_HOST_FOREIGN;
    if (is_own(name, names, LOCALHOST, false) || is_own(name, names, names->domain, false))
        return PORTS_HOST_OWN;
    if (is_address(name) || strcasecmp(name, LOCALHOST) == 0 ||
        (names->host && strcasecmp(name, names->host) == 0))
        return PORTS_HOST_SHARED;
    return PORTS_HOST_FOREIGN;
}

bool ports_rules_origin(const char *origin, const char *host, const struct ports_names *names)
{
    char name[NAME_MAX_BYTES];
    char asked[NAME_MAX_BYTES];
    const char *authority = strstr(origin, "://");
    if (!authority || !bare_name(authority + 3, name))
        return false;
    if (bare_name(host, asked) && strcasecmp(name, asked) == 0)
        return true;
    return is_loopback(name) || is_own(name, names, LOCALHOST, true) ||
           is_own(name, names, names->domain, true);
}

// ---- the token
char *ports_rules_take_token(const char *target, char **token)
{
    static const char NAME[] = PORTS_TOKEN_QUERY "=";
    struct buf rest auto_buf = BUF_INIT;
    const char *query = strchr(target, '?');
    *token = NULL;
    if (!query)
        return NULL;
    buf_add(&rest, target, (size_t)(query - target));
    char joint = '?';
    for (const char *at = query + 1;; at++) {
        size_t len = strcspn(at, "&");
        if (strncmp(at, NAME, sizeof NAME - 1) == 0 && !*token) {
            *token = xstrndup(at + sizeof NAME - 1, len - (sizeof NAME - 1));
        } else if (strncmp(at, NAME, sizeof NAME - 1) != 0) {
            buf_addc(&rest, joint);
            buf_add(&rest, at, len);
            joint = '&';
        }
        at += len;
        if (!*at)
            break;
    }
    if (!*token)
        return NULL;
    return rest.len ? buf_take(&rest) : xstrdup("");
}

// The next "name=value" of a Cookie header from *at on, and moves *at behind it; NULL at the end.
static const char *next_cookie(const char **at, size_t *len)
{
    *at += strspn(*at, "; \t");
    const char *cookie = *at;
    *len = strcspn(cookie, ";");
    *at += *len;
    while (*len && (cookie[*len - 1] == ' ' || cookie[*len - 1] == '\t'))
        --*len;
    return *len ? cookie : NULL;
}

bool ports_rules_cookie_has(const char *cookies, int host_port, const char *token)
{
    char name[32];
    size_t len;
    bool found = false;
    size_t name_len = (size_t)snprintf(name, sizeof name, PORTS_COOKIE "%d=", host_port);
    for (const char *cookie; (cookie = next_cookie(&cookies, &len));) {
        if (len < name_len || strncmp(cookie, name, name_len) != 0)
            continue;
        char *value auto_free = xstrndup(cookie + name_len, len - name_len);
        found = str_eq_secret(value, token) || found;
    }
    return found;
}

char *ports_rules_cookie_rest(const char *cookies)
{
    struct buf rest auto_buf = BUF_INIT;
    size_t len;
    for (const char *cookie; (cookie = next_cookie(&cookies, &len));)
        if (strncmp(cookie, PORTS_COOKIE, sizeof PORTS_COOKIE - 1) != 0) {
            buf_adds(&rest, rest.len ? "; " : "");
            buf_add(&rest, cookie, len);
        }
    return rest.len ? buf_take(&rest) : NULL;
}

// ---- raw TCP

// "METHOD /": the request line of what is sent to a server itself.
bool ports_rules_is_http(const char *data, size_t len)
{
    size_t i = 0;
    while (i < len && data[i] && strchr(METHOD_CHARS, data[i]))
        i++;
    return i > 0 && i + 1 < len && data[i] == ' ' && (data[i + 1] == '/' || data[i + 1] == '*');
}
