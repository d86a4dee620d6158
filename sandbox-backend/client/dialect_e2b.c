// SPDX-License-Identifier: Apache-2.0
// E2B's cloud, self-hosted E2B and CubeSandbox: a control plane at a URL, and envd at a name made
// from the sandbox's domain.
//
// E2B's own domains answer for every sandbox at sandbox.<domain> and route by header; elsewhere
// (self-hosted E2B, CubeProxy) the host name carries the port and the sandbox. One origin for all,
// as E2B_SANDBOX_URL gives it, routes by header again. An envd older than 0.4 has no default user
// and must be named one.
#include <string.h>

#include "sandbox-backend/base/limits.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/client/dialect.h"
#include "sandbox-backend/client/state.h"

#define OLD_ENVD_USER "user"

static bool routes_by_header(const char *domain)
{
    static const char *const KNOWN[] = {"e2b.app", "e2b.dev", "e2b.pro", "e2b-staging.dev"};
    for (size_t i = 0; i < ARRAY_LEN(KNOWN); i++)
        if (strcmp(domain, KNOWN[i]) == 0)
            return true;
    return false;
}

// "https://api.e2b.app" is the control plane of the domain "e2b.app".
static char *domain_of_api(const char *api_url)
{
    const char *host = strstr(api_url, "://");
    host = host ? host + 3 : api_url;
    if (str_starts(host, "api."))
        host += 4;
    return xstrndup(host, strcspn(host, "/"));
}

static void to_api(const struct client *c, const char *target, struct request *r)
{
    r->url = str_printf("%s%s", c->api_url, target);
    if (c->api_key)
        request_header(r, "X-API-KEY", c->api_key);
}

static void address(const struct client *c, const char *id, int port, const char *domain,
                    const char *target, struct request *r)
{
    if (c->sandbox_url) {
        r->url = str_printf("%s%s", c->sandbox_url, target);
        dialect_route(r, id, port);
    } else if (routes_by_header(domain)) {
        r->url = str_printf("https://sandbox.%s%s", domain, target);
        dialect_route(r, id, port);
    } else {
        r->url = str_printf("https://%d-%s.%s%s", port, id, domain, target);
    }
}

static void to_guest(const struct client *c, const char *id, const struct access *a, int port,
                     const char *target, const char *user, struct request *r)
{
    char *domain auto_free = a->domain[0] ? xstrdup(a->domain) : domain_of_api(c->api_url);
    address(c, id, port, domain, target, r);
    dialect_tokens(r, a, port);
    if (!user && port == ENVD_PORT && access_envd_older(a, 0, 4))
        user = OLD_ENVD_USER;
    if (user)
        dialect_user(r, user);
}

const struct dialect dialect_e2b = {
    .name = "E2B",
    .needs_access = true,
    .create_path = "/v2/sandboxes",
    .create_path_old = "/sandboxes",
    .id_ok = access_id_ok,
    .id_shape = "letters, digits, '-' and '_'",
    .to_api = to_api,
    .to_guest = to_guest,
};
