// SPDX-License-Identifier: Apache-2.0
#include "sandbox-backend/web/guard.h"

#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

#define NONCE_BYTES 16
#define NAME_BYTES  8

void guard_init(struct guard *g, int port)
{
    char *name auto_free = random_hex(NAME_BYTES);
    g->host = str_printf("%s.localhost:%d", name, port);
    g->token = NULL;
    g->key = random_hex(GUARD_SECRET_BYTES);
    g->nonce = random_hex(NONCE_BYTES);
    // xterm.js makes style elements, to which the page gives the nonce, and style attributes.
    g->policy =
        str_printf("default-src 'none'; script-src 'self'; style-src 'self' 'nonce-%s'; "
                   "style-src-attr 'unsafe-inline'; img-src 'self' blob:; connect-src 'self'; "
                   "form-action 'none'; base-uri 'none'; frame-ancestors 'none'",
                   g->nonce);
}

void guard_fini(struct guard *g)
{
    free(g->key);
    free(g->token);
    free(g->nonce);
    free(g->policy);
    free(g->host);
}

const char *guard_new_token(struct guard *g)
{
    free(g->token);
    g->token = random_hex(GUARD_SECRET_BYTES);
    return g->token;
}

bool guard_take_token(struct guard *g, const char *token)
{
    if (!str_eq_secret(g->token, token))
        return false;
    free(steal(&g->token));
    return true;
}

void guard_headers(const struct guard *g, struct http_request *req)
{
    http_response_header(req, "Content-Security-Policy", g->policy);
    http_response_header(req, "X-Content-Type-Options", "nosniff");
    http_response_header(req, "X-Frame-Options", "DENY");
    http_response_header(req, "Referrer-Policy", "no-referrer");
    http_response_header(req, "Cross-Origin-Opener-Policy", "same-origin");
    http_response_header(req, "Cross-Origin-Resource-Policy", "same-origin");
    http_response_header(req, "Cache-Control", "no-store");
}

static bool is_own_origin(const struct guard *g, const char *origin)
{
    static const char SCHEME[] = "http://";
    return str_starts(origin, SCHEME) && str_eq(origin + sizeof SCHEME - 1, g->host);
}

bool guard_admits(const struct guard *g, struct http_request *req)
{
    const char *host = http_request_header(req, "Host");
    const char *origin = http_request_header(req, "Origin");
    const char *site = http_request_header(req, "Sec-Fetch-Site");
    if (!str_eq(host, g->host)) {
        http_respond_error(req, 403,
                           "this server does not answer under the host name of this request; open "
                           "the URL that cubby web printed");
        return false;
    }
    if (origin && !is_own_origin(g, origin)) {
        http_respond_error(req, 403, "the request comes from a page of another origin");
        return false;
    }
    if (site && !str_eq(site, "same-origin") && !str_eq(site, "none")) {
        http_respond_error(req, 403,
                           "the request comes from a page of another site; open the URL "
                           "that cubby web printed");
        return false;
    }
    return true;
}

// Return the key among the protocols that a WebSocket offers: "cubby, key.0123". New string.
static char *key_of_protocols(const char *protocols)
{
    while (protocols && *protocols) {
        protocols += strspn(protocols, ", \t");
        size_t len = strcspn(protocols, ", \t");
        size_t prefix = strlen(GUARD_KEY_PROTOCOL);
        if (len > prefix && strncmp(protocols, GUARD_KEY_PROTOCOL, prefix) == 0)
            return xstrndup(protocols + prefix, len - prefix);
        protocols += len;
    }
    return NULL;
}

bool guard_has_key(const struct guard *g, struct http_request *req)
{
    char *offered auto_free =
        http_request_upgrade(req)
            ? key_of_protocols(http_request_header(req, "Sec-WebSocket-Protocol"))
            : NULL;
    const char *key = offered ? offered : http_request_header(req, GUARD_KEY_HEADER);
    // A WebSocket is not subject to the same-origin policy, so its Origin must be there.
    if (http_request_upgrade(req) && !http_request_header(req, "Origin"))
        key = NULL;
    if (str_eq_secret(key, g->key))
        return true;
    http_respond_error(req, 401,
                       "this browser is not signed in; open the URL that cubby web "
                       "printed, or press Enter there for a new one");
    return false;
}
