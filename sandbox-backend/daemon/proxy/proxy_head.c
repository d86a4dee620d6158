// SPDX-License-Identifier: Apache-2.0
// The head of a request as a port of a sandbox sees it.
#include "sandbox-backend/daemon/proxy/proxy_head.h"

#include <string.h>
#include <strings.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/limits.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/daemon/http/api_keys.h"
#include "sandbox-backend/daemon/proxy/route.h"
#include "sandbox-backend/daemon/sandbox/sandbox.h"
#include "sandbox-backend/daemon/sandbox/store.h"

#define PORT_HOLE "${PORT}"

// An application may have bearer tokens of its own. A key of this daemon must not reach the guest,
// however it was sent.
static bool is_bearer_key(const struct http_header *h, const struct sandbox *sb)
{
    return http_name_is(h->name, "Authorization") && api_keys_is_key(sb->store->api_keys, h->value);
}

static bool is_secret(const struct http_header *h, const struct sandbox *sb, int port)
{
    if (http_name_is(h->name, "X-API-KEY") || http_name_is(h->name, "E2b-Traffic-Access-Token"))
        return true;
    return port != ENVD_PORT && sb->token && http_name_is(h->name, "X-Access-Token") &&
           str_eq_secret(h->value, sb->token);
}

// Return how many headers are left.
static size_t drop_secrets(struct http_header *headers, size_t count, const struct sandbox *sb,
                           int port)
{
    size_t kept = 0;
    for (size_t i = 0; i < count; i++)
        if (!is_secret(&headers[i], sb, port) && !is_bearer_key(&headers[i], sb))
            headers[kept++] = headers[i];
    return kept;
}

// Replace the header of that name, or append one.
static void set(struct proxy_head *h, const char *name, const char *value)
{
    for (size_t i = 0; i < h->count; i++)
        if (http_name_is(h->headers[i].name, name)) {
            h->headers[i].value = value;
            return;
        }
    h->headers[h->count++] = (struct http_header){name, value};
}

static void set_missing(struct proxy_head *h, const char *name, const char *value)
{
    if (value && !http_header_get(h->headers, h->count, name))
        set(h, name, value);
}

// Remove all headers of this name, and add their values to `list`.
static void take_list(struct proxy_head *h, const char *name, struct buf *list)
{
    size_t kept = 0;
    for (size_t i = 0; i < h->count; i++) {
        if (http_name_is(h->headers[i].name, name))
            buf_printf(list, "%s%s", list->len ? ", " : "", h->headers[i].value);
        else
            h->headers[kept++] = h->headers[i];
    }
    h->count = kept;
}

// Keep what an earlier proxy said, but put the peer last. A guest that trusts the last address must
// not find one that the client invented.
static void add_forwarded(struct proxy_head *h, struct http_request *req)
{
    const char *peer = http_request_peer(req);
    struct buf list auto_buf = BUF_INIT;
    take_list(h, "X-Forwarded-For", &list);
    if (!str_eq(peer, "unix"))
        buf_printf(&list, "%s%s", list.len ? ", " : "", peer);
    if (list.len) {
        h->forwarded_for = buf_take(&list);
        set(h, "X-Forwarded-For", h->forwarded_for);
    }
    set_missing(h, "X-Forwarded-Host", http_request_header(req, "Host"));
    set_missing(h, "X-Forwarded-Proto", http_request_is_tls(req) ? "https" : "http");
}

static bool takes_trailers(const struct http_request *req)
{
    static const char WORD[] = "trailers";
    const char *at = http_request_header(req, "TE");
    for (; at && *at; at += strcspn(at, ",")) {
        at += strspn(at, " \t,");
        size_t len = strcspn(at, " \t,;");
        if (len == sizeof WORD - 1 && strncasecmp(at, WORD, len) == 0)
            return true;
    }
    return false;
}

static char *masked_host(const char *mask, int port)
{
    struct buf host auto_buf = BUF_INIT;
    for (const char *hole; (hole = strstr(mask, PORT_HOLE)); mask = hole + strlen(PORT_HOLE)) {
        buf_add(&host, mask, (size_t)(hole - mask));
        buf_printf(&host, "%d", port);
    }
    buf_adds(&host, mask);
    return buf_take(&host);
}

void proxy_head_init(struct proxy_head *h, struct http_request *req, const struct sandbox *sb,
                     int port, bool offers)
{
    size_t count = 0;
    const struct http_header *all = http_request_headers(req, &count);
    h->host = h->forwarded_for = h->cookie = NULL;
    h->count = route_filter(all, count, h->headers);
    h->count = drop_secrets(h->headers, h->count, sb, port);
    if (offers) {
        set(h, "Connection", "Upgrade");
        set(h, "Upgrade", http_request_upgrade(req));
    } else if (takes_trailers(req)) {
        set(h, "Connection", "TE");
        set(h, "TE", "trailers");
    }
    if (port == ENVD_PORT)
        return;
    add_forwarded(h, req);
    if (!sb->mask_request_host)
        return;
    h->host = masked_host(sb->mask_request_host, port);
    set(h, "Host", h->host);
}

size_t proxy_head_trailers(const struct http_request *req, const struct sandbox *sb, int port,
                           struct http_header out[HTTP_HEADERS_MAX])
{
    size_t count = 0;
    const struct http_header *all = http_request_trailers(req, &count);
    return drop_secrets(out, route_filter(all, count, out), sb, port);
}

void proxy_head_fini(struct proxy_head *h)
{
    free(h->host);
    free(h->forwarded_for);
    free(h->cookie);
}
