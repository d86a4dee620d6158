// SPDX-License-Identifier: Apache-2.0
// A CubeSandbox cluster: CubeAPI, which is E2B's REST in its first version, and envd of the 0.2
// line, reached by name through CubeProxy or, on the cluster's own network, by the address that
// CubeMaster knows.
//
// Such an envd has no token and no default user, so one is named in each request: root, whom every
// image has, unless --backend-user says otherwise. CubeAPI's time limit is that of its create call,
// so sandboxes are ended here (expiry.c); it drops a sandbox's environment; its list is filtered
// here. CubeProxy answers 500 for a sandbox that it cannot find, so CubeAPI is asked again then. It
// has a route for snapshots, but no snapshots: it answers with an id that it has made up.
#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/limits.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/client/dialect.h"
#include "sandbox-backend/client/state.h"

#define DEFAULT_DOMAIN "cube.app"
#define DEFAULT_USER   "root"
#define ENVD           "0.2.0" // what CubeAPI says of every sandbox

#define MASTER_NOT_FOUND 130404

static bool id_ok(const char *id)
{
    return strlen(id) == 32 && strspn(id, "0123456789abcdef") == 32;
}

static const char *domain_of(const struct client *c, const struct access *a)
{
    return a->domain[0] ? a->domain : c->domain ? c->domain : DEFAULT_DOMAIN;
}

// As the SDKs' getHost has it.
static char *to_port(const struct client *c, const struct access *a, int port)
{
    return str_printf("%s://%d-%s.%s", c->proxy_scheme, port, a->id, domain_of(c, a));
}

static void to_guest(const struct client *c, const struct access *a, int port, const char *target,
                     const char *user, struct request *r)
{
    const char *domain = domain_of(c, a);
    if (c->sandbox_url) {
        r->url = str_printf("%s%s", c->sandbox_url, target);
        dialect_route(r, a->id, port);
    } else if (c->cube_master) {
        bool is_v6 = strchr(a->address, ':');
        r->is_direct = true;
        r->url =
            str_printf(is_v6 ? "http://[%s]:%d%s" : "http://%s:%d%s", a->address, port, target);
    } else {
        r->url = str_printf("%s://%d-%s.%s%s", c->proxy_scheme, port, a->id, domain, target);
        r->connect_to = c->connect_to;
    }
    r->ca_file = c->ca_file;
    if (!user)
        user = c->user ? c->user : DEFAULT_USER;
    if (port == ENVD_PORT)
        dialect_name_user(r, user);
}

// ---- where a sandbox is
static bool knows(const struct client *c, const struct access *a)
{
    return a && (!c->cube_master || c->sandbox_url || a->address[0]);
}

static void to_lookup(const struct client *c, const char *id, struct request *r)
{
    if (!c->cube_master || c->sandbox_url) {
        dialect_to_lookup(c, id, r);
        return;
    }
    r->url = str_printf("%s/cube/sandbox/info?sandbox_id=%s", c->cube_master, id);
    r->ca_file = c->ca_file;
}

static bool is_address(const char *s)
{
    unsigned char bytes[sizeof(struct in6_addr)];
    return inet_pton(AF_INET, s, bytes) == 1 || inet_pton(AF_INET6, s, bytes) == 1;
}

// {"ret":{"ret_code":200,"ret_msg":"..."},"data":[{"sandbox_ip":"192.168.0.7",...}]}, and HTTP's
// status is 200 whatever happened.
static const char *take_address(const char *id, const json_t *answer, struct err *e)
{
    const json_t *ret = json_object_get(answer, "ret");
    json_int_t code = json_integer_value(json_object_get(ret, "ret_code"));
    const char *said = json_string_value(json_object_get(ret, "ret_msg"));
    const json_t *first = json_array_get(json_object_get(answer, "data"), 0);
    const char *address = json_string_value(json_object_get(first, "sandbox_ip"));
    if (code == MASTER_NOT_FOUND || ((code == 0 || code == 200) && !first))
        err_set(e, ERR_NOT_FOUND, "CubeMaster knows no sandbox %s", id);
    else if (code != 0 && code != 200)
        err_set(e, ERR_UNAVAILABLE, "CubeMaster answered %lld: %.100s", (long long)code,
                said ? said : "no reason");
    else if (!address || !is_address(address))
        err_set(e, ERR_UNAVAILABLE, "CubeMaster does not tell the sandbox's address");
    return err_is(e) ? NULL : address;
}

static const struct access *take_lookup(struct client *c, const char *id, const json_t *answer,
                                        struct err *e)
{
    if (!c->cube_master || c->sandbox_url)
        return dialect_take_lookup(c, id, answer, e);
    const char *address = take_address(id, answer, e);
    return address ? access_cache_put_address(&c->accesses, id, address, ENVD) : NULL;
}

const struct dialect dialect_cube = {
    .word = "cube",
    .name = "CubeSandbox",
    .create_path = "/sandboxes",
    .list_path = "/sandboxes",
    .instead =
        {
            [FEATURE_SNAPSHOTS] = "copy the files that matter out of the sandbox, or pause it",
            [FEATURE_FORK] = "create other sandboxes, and repeat in each what made this one",
            [FEATURE_ROLLBACK] = "create another sandbox, and upload the files again",
            [FEATURE_STATS] = "look at its hosts instead",
            [FEATURE_NETWORK] = "give its own lists, by its own tools",
            [FEATURE_PORTS] = "every port has its name from the beginning",
            [FEATURE_SECRETS] = "only cubbyd puts them in",
        },
    .id_ok = id_ok,
    .id_shape = "32 digits 0 to 9 and a to f",
    .to_api = dialect_api,
    .to_guest = to_guest,
    .to_port = to_port,
    .knows = knows,
    .to_lookup = to_lookup,
    .take_lookup = take_lookup,
};
