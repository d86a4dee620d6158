// SPDX-License-Identifier: Apache-2.0
// Whether what the user chose for HTTP is safe, before anything is bound.
#include <string.h>

#include "mcp-server/auth/secure_url.h"
#include "mcp-server/config.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/net/listen_address.h"

static int check_oauth(const struct config *c, bool is_loopback, struct err *e)
{
    if (!c->oauth_issuer && (c->oauth_jwks || c->oauth_audience || c->oauth_scopes.count))
        return err_set(e, ERR_INVALID,
                       "--oauth-jwks, --oauth-audience and --oauth-scope need --oauth-issuer");
    if (c->oauth_issuer && (!secure_url_check(c->oauth_issuer) || strchr(c->oauth_issuer, '?')))
        return err_set(e, ERR_INVALID,
                       "--oauth-issuer must be an https URL without a query (or http of this "
                       "machine), as it stands in the tokens' iss, not \"%s\"",
                       c->oauth_issuer);
    if (c->oauth_jwks && strstr(c->oauth_jwks, "://") && !secure_url_check(c->oauth_jwks))
        return err_set(e, ERR_INVALID,
                       "--oauth-jwks must be an https URL (or http of this machine) or a file, not "
                       "\"%s\"",
                       c->oauth_jwks);
    if (c->oauth_issuer && !c->public_url && !is_loopback)
        return err_set(
            e, ERR_INVALID,
            "--oauth-issuer at an address other than loopback needs --public-url: "
            "clients must be told where this server is, and their tokens be made for it");
    return 0;
}

static int check_network(const struct config *c, struct err *e)
{
    bool is_encrypted = c->tls_cert || (c->public_url && str_starts(c->public_url, "https://"));
    if (!c->token_file && !c->oauth_issuer) {
        if (c->allow_open_network)
            return 0;
        return err_set(
            e, ERR_INVALID,
            "--http %s is not loopback, and without tokens anybody who reaches it could "
            "run commands: give --token-file (see --new-token) or --oauth-issuer, or, if "
            "that is what you want, --allow-unauthenticated-network",
            c->http);
    }
    if (is_encrypted || c->allow_plain_network)
        return 0;
    return err_set(
        e, ERR_INVALID,
        "--http %s is not loopback, and tokens would travel unencrypted: give --tls-cert "
        "and --tls-key, or --public-url https://... when a proxy in front does TLS, or "
        "--allow-plaintext-network",
        c->http);
}

// The length of "https://host:port" or "http://..." at the start; 0: it does not start so.
static size_t origin_length(const char *url)
{
    const char *host = strstr(url, "://");
    if (!host || (!str_starts(url, "https://") && !str_starts(url, "http://")))
        return 0;
    size_t n = strcspn(host + 3, "/?#@ ");
    return n == 0 || host[3 + n] == '@' ? 0 : (size_t)(host + 3 - url) + n;
}

static int check_names(const struct config *c, struct err *e)
{
    size_t n = c->public_url ? origin_length(c->public_url) : 1;
    if (n == 0 || (c->public_url && strpbrk(c->public_url + n, "?# ")))
        return err_set(e, ERR_INVALID,
                       "--public-url must be a URL such as https://cubby.example/mcp, not \"%s\"",
                       c->public_url);
    for (int i = 0; i < c->allow_origins.count; i++) {
        const char *origin = c->allow_origins.items[i];
        n = origin_length(origin);
        if (n == 0 || origin[n])
            return err_set(e, ERR_INVALID,
                           "--allow-origin must be an origin such as https://app.example:8443, not "
                           "\"%s\"",
                           origin);
    }
    return 0;
}

int config_check_http(const struct config *c, struct err *e)
{
    struct sockaddr_storage address;
    if (listen_address_parse(c->http, &address, e) < 0)
        return err_wrap(e, "--http");
    if (c->http_path[0] != '/' || strpbrk(c->http_path, "?# "))
        return err_set(e, ERR_INVALID, "--http-path must be a path such as /mcp, not \"%s\"",
                       c->http_path);
    if (!c->tls_cert != !c->tls_key)
        return err_set(e, ERR_INVALID, "--tls-cert and --tls-key need each other");
    if (check_names(c, e) < 0)
        return -1;
    bool is_loopback = listen_address_is_loopback(&address);
    if (check_oauth(c, is_loopback, e) < 0)
        return -1;
    return is_loopback ? 0 : check_network(c, e);
}
