// SPDX-License-Identifier: Apache-2.0
// E2B's cloud, and self-hosted E2B: a control plane at a URL, and envd at a host name made from the
// sandbox's domain.
//
// E2B's own domains serve every sandbox at sandbox.<domain> and route by header. Elsewhere the host
// name carries the port and the sandbox's id. A single origin (E2B_SANDBOX_URL) routes by header
// again. An envd older than 0.4 has no default user, so the request names one.
#include <string.h>

#include "sandbox-backend/base/limits.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/client/client_internal.h"
#include "sandbox-backend/client/dialect.h"

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

bool client__is_e2b(const char *api_url)
{
    char *domain auto_free = domain_of_api(api_url);
    return strstr(api_url, "://api.") && routes_by_header(domain);
}

// The domain that the server names for the sandbox overrides the configured one.
static char *domain_of(const struct client *c, const struct access *a)
{
    if (a->domain[0])
        return xstrdup(a->domain);
    return c->domain ? xstrdup(c->domain) : domain_of_api(c->api_url);
}

static void to_guest(const struct client *c, const struct access *a, int port, const char *target,
                     const char *user, struct request *r)
{
    char *domain auto_free = domain_of(c, a);
    r->ca_file = c->ca_file;
    r->connect_to = c->connect_to;
    if (c->sandbox_url)
        r->url = str_printf("%s%s", c->sandbox_url, target);
    else if (routes_by_header(domain))
        r->url = str_printf("https://sandbox.%s%s", domain, target);
    else
        r->url = str_printf("%s://%d-%s.%s%s", c->proxy_scheme, port, a->id, domain, target);
    if (c->sandbox_url || routes_by_header(domain))
        dialect_route(r, a->id, port);
    dialect_tokens(r, a, port);
    if (port != ENVD_PORT)
        return;
    if (!user)
        user = c->user;
    if (access_envd_older(a, 0, 4, 0))
        dialect_name_user(r, user ? user : OLD_ENVD_USER);
    else if (user)
        dialect_user(r, user);
}

// The form of the SDKs' getHost.
static char *to_port(const struct client *c, const struct access *a, int port)
{
    char *domain auto_free = domain_of(c, a);
    return str_printf("%s://%d-%s.%s", c->proxy_scheme, port, a->id, domain);
}

const struct dialect dialect_e2b = {
    .word = "e2b",
    .name = "E2B",
    .create_path = "/v2/sandboxes",
    .create_path_old = "/sandboxes",
    .list_path = "/v2/sandboxes",
    .list_path_old = "/sandboxes",
    .keeps_time = true,
    .takes_envs = true,
    .filters = true,
    .creates_ready = true,
    .tells_gone = true,
    .instead = {[FEATURE_ROLLBACK] = "create a sandbox from the snapshot instead",
                [FEATURE_STATS] = "ask each sandbox for its metrics instead",
                [FEATURE_RECORD] = "keep a log on the side of the agent",
                [FEATURE_NETWORK] = "set its allow and deny lists with its own SDK",
                [FEATURE_NETWORK_SHOWN] = "ask with its own SDK",
                [FEATURE_PORTS] = "every port of a sandbox already has a URL",
                [FEATURE_MOUNTS] = "copy the files with cubby cp instead",
                [FEATURE_VOLUMES] = "use its own SDK for volumes",
                [FEATURE_SECRETS] = "only cubbyd offers secrets; leave them out",
                [FEATURE_TIERS] = "only cubbyd offers tiers; leave the tier out",
                [FEATURE_SIZES] = "each sandbox gets the cpus, memory and disk of its template"},
    .id_ok = access_id_ok,
    .id_shape = "letters, digits, '-' and '_'",
    .to_api = dialect_api,
    .to_guest = to_guest,
    .to_port = to_port,
    .knows = dialect_knows,
    .to_lookup = dialect_to_lookup,
    .take_lookup = dialect_take_lookup,
};
