// SPDX-License-Identifier: Apache-2.0
// A CubeSandbox cluster: CubeAPI, which is the first version of E2B's REST API, and envd. envd is
// reached by name through CubeProxy, which may hold streams back (held.c), or, on the cluster's own
// network, by the address that CubeMaster knows.
//
// CubeAPI of before 0.5 reports "0.2.0" for every envd. An envd of that age has no token and no
// default user, so each request names one: root, which every image has, unless --backend-user says
// otherwise. This client filters its list. CubeProxy answers 500 for a sandbox that it cannot find,
// and since 0.5 404 and 410, so the client then asks CubeAPI.
//
// The versions differ, and tell no number:
//   before 0.3   There is a route for snapshots, but no snapshots: it answers with an invented id.
//   0.3          GET /snapshots is there: snapshots and rollback, and forks in later versions.
//   0.5          It ends sandboxes in time, and sets the environment of a create.
//   0.6          GET /volumes is there. Only this tells what came with 0.5 as well.
//   0.7          PUT /sandboxes/{id}/network changes the lists of a sandbox that runs.
// Before 0.6, this client ends the sandboxes (expiry.c), and refuses an environment.
#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/limits.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/client/answer.h"
#include "sandbox-backend/client/client_internal.h"
#include "sandbox-backend/client/dialect.h"

#define DEFAULT_DOMAIN "cube.app"
#define DEFAULT_USER   "root"
#define ENVD           "0.2.0" // CubeAPI reports this version for every sandbox

#define KNOWN_MS         2000
#define MASTER_NOT_FOUND 130404
#define MASTER_PAUSED    5 // CubeMaster's number for the state

static bool id_ok(const char *id)
{
    return strlen(id) == 32 && strspn(id, "0123456789abcdef") == 32;
}

static const char *domain_of(const struct client *c, const struct access *a)
{
    return a->domain[0] ? a->domain : c->domain ? c->domain : DEFAULT_DOMAIN;
}

// The form of the SDKs' getHost.
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

// ---- where a sandbox is, and whether it is paused
//
// A request to a paused sandbox waits until it is given up: its network stands still, and CubeProxy
// does not say so. So what is known counts for KNOWN_MS, and then the client asks again.
static bool knows(const struct client *c, const struct access *a)
{
    return a && clock_mono_ms() - a->asked_ms < KNOWN_MS &&
           (!c->cube_master || c->sandbox_url || a->address[0]);
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

// {"ret":{"ret_code":200,"ret_msg":"..."},"data":[{"sandbox_ip":"192.168.0.7",...}]}. The HTTP
// status is always 200.
static const char *take_address(const char *id, const json_t *answer, struct err *e)
{
    const json_t *ret = json_object_get(answer, "ret");
    json_int_t code = json_integer_value(json_object_get(ret, "ret_code"));
    const char *said = json_string_value(json_object_get(ret, "ret_msg"));
    const json_t *first = json_array_get(json_object_get(answer, "data"), 0);
    const char *address = json_string_value(json_object_get(first, "sandbox_ip"));
    if (code == MASTER_NOT_FOUND || ((code == 0 || code == 200) && !first))
        err_set(e, ERR_NOT_FOUND, "CubeMaster has no sandbox %s", id);
    else if (code != 0 && code != 200)
        err_set(e, ERR_UNAVAILABLE, "CubeMaster refused the request with code %lld: %.100s",
                (long long)code, said ? said : "it gave no reason");
    else if (json_integer_value(json_object_get(first, "status")) == MASTER_PAUSED)
        answer_paused(e);
    else if (!address || !is_address(address))
        err_set(e, ERR_UNAVAILABLE, "CubeMaster gave no valid address for sandbox %s", id);
    return err_is(e) ? NULL : address;
}

static const struct access *take_lookup(struct client *c, const char *id, const json_t *answer,
                                        struct err *e)
{
    if (str_eq(json_string_value(json_object_get(answer, "state")), "paused")) {
        answer_paused(e);
        return NULL;
    }
    if (!c->cube_master || c->sandbox_url)
        return dialect_take_lookup(c, id, answer, e);
    const char *address = take_address(id, answer, e);
    return address ? access_cache_put_address(&c->accesses, id, address, ENVD) : NULL;
}

#define COMMON                                                                                     \
    .word = "cube", .name = "CubeSandbox", .create_path = "/sandboxes", .list_path = "/sandboxes", \
    .creates_late = true, .may_hold_streams = true, .invents_times = true, .ends_unknown = true,   \
    .id_ok = id_ok, .id_shape = "32 digits 0 to 9 and a to f", .to_api = dialect_api,              \
    .to_guest = to_guest, .to_port = to_port, .knows = knows, .to_lookup = to_lookup,              \
    .take_lookup = take_lookup

#define LACKS                                                                \
    [FEATURE_STATS] = "use the tools of its hosts instead",                  \
    [FEATURE_LOGS] = "use the tools of its hosts instead",                   \
    [FEATURE_EVENTS] = "use the tools of its hosts instead",                 \
    [FEATURE_RECORD] = "keep a log on the side of the agent",                \
    [FEATURE_NETWORK_SHOWN] = "ask with its own tools",                      \
    [FEATURE_PORTS] = "every port of a sandbox already has a URL",           \
    [FEATURE_MOUNTS] = "copy the files with cubby cp instead",               \
    [FEATURE_VOLUMES] = "copy the files with cubby cp instead",              \
    [FEATURE_SECRETS] = "only cubbyd offers secrets; leave them out",        \
    [FEATURE_TIERS] = "only cubbyd offers tiers; leave the tier out",        \
    [FEATURE_TEMPLATES] = "ask its operator for the names of its templates", \
    [FEATURE_BUILDS] = "ask its operator to build the template"

#define LACKS_BEFORE_06                                                    \
    [FEATURE_NETWORK] = "set its allow and deny lists with its own tools", \
    [FEATURE_TIME] = "end them with cubby kill"

const struct dialect dialect_cube = {
    COMMON,
    .later = &dialect_cube_03,
    .later_path = "/snapshots?limit=1",
    .instead =
        {
            LACKS,
            LACKS_BEFORE_06,
            [FEATURE_SNAPSHOTS] = "download the files you need, or pause the sandbox",
            [FEATURE_FORK] = "create other sandboxes, and repeat the steps in each",
            [FEATURE_ROLLBACK] = "create another sandbox, and upload the files again",
        },
};

const struct dialect dialect_cube_03 = {
    COMMON,
    .later = &dialect_cube_06,
    .later_path = "/volumes",
    .instead = {LACKS, LACKS_BEFORE_06},
};

const struct dialect dialect_cube_06 = {
    COMMON, .keeps_time = true, .takes_envs = true, .takes_lists = true, .instead = {LACKS},
};
