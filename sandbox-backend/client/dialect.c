// SPDX-License-Identifier: Apache-2.0
// The dialects by their words, the functions that several share, and cubbyd's own dialect. The
// others: dialect_e2b.c, dialect_cube.c.
#include "sandbox-backend/client/dialect.h"

#include <string.h>

#include "sandbox-backend/base/home.h"
#include "sandbox-backend/base/limits.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/sandbox_id.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/client/client_internal.h"

const struct dialect *dialect_find(const char *word)
{
    static const struct dialect *const ALL[] = {&dialect_cubbyd, &dialect_e2b, &dialect_cube};
    for (size_t i = 0; i < ARRAY_LEN(ALL); i++)
        if (str_eq(ALL[i]->word, word))
            return ALL[i];
    return NULL;
}

static const char *const NAMES[FEATURES] = {
    [FEATURE_SNAPSHOTS] = "snapshots",
    [FEATURE_FORK] = "fork",
    [FEATURE_ROLLBACK] = "rollback",
    [FEATURE_STATS] = "figures of what sandboxes use of the host",
    [FEATURE_LOGS] = "log of a sandbox",
    [FEATURE_EVENTS] = "list of events",
    [FEATURE_RECORD] = "record of what is done in a sandbox",
    [FEATURE_NETWORK] = "network policy as Cubby writes it",
    [FEATURE_NETWORK_SHOWN] = "way to show a sandbox's network policy",
    [FEATURE_TIME] = "end of sandboxes in time",
    [FEATURE_PORTS] = "ports on the host",
    [FEATURE_MOUNTS] = "mounts of directories of a host",
    [FEATURE_VOLUMES] = "volumes that this program can use",
    [FEATURE_SECRETS] = "secrets",
    [FEATURE_SIZES] = "way to choose the size of one sandbox",
    [FEATURE_TIERS] = "choice between tiers",
    [FEATURE_TEMPLATES] = "list of templates",
    [FEATURE_BUILDS] = "template builder",
};

int dialect_check(const struct dialect *d, enum feature feature, struct err *e)
{
    if (!d->instead[feature])
        return 0;
    return err_set(e, ERR_UNIMPLEMENTED, "%s has no %s: %s", d->name, NAMES[feature],
                   d->instead[feature]);
}

void dialect_too_old(const struct dialect *d, enum feature feature, int status, struct err *e)
{
    err_set(e, ERR_UNIMPLEMENTED, "this %s has no %s (it answered %d); its version may be too old",
            d->name, NAMES[feature], status);
}

void dialect_api(const struct client *c, const char *target, struct request *r)
{
    r->url = str_printf("%s%s", c->api_url, target);
    r->ca_file = c->ca_file;
    if (c->api_key)
        request_header(r, "X-API-KEY", c->api_key);
}

// envd reads the name and ignores the password, which is empty.
void dialect_user(struct request *r, const char *user)
{
    struct buf plain auto_buf = BUF_INIT;
    struct buf value auto_buf = BUF_INIT;
    buf_printf(&plain, "%s:", user);
    buf_adds(&value, "Basic ");
    base64_encode(&value, plain.data, plain.len);
    request_header(r, "Authorization", buf_str(&value));
}

void dialect_name_user(struct request *r, const char *user)
{
    const char *query = strstr(r->url, "/files?");
    dialect_user(r, user);
    if (!query || strstr(query, "&username="))
        return;
    struct buf name auto_buf = BUF_INIT;
    percent_encode(&name, user, false);
    char *url auto_free = r->url;
    r->url = str_printf("%s&username=%s", url, buf_str(&name));
}

void dialect_route(struct request *r, const char *id, int port)
{
    char *number auto_free = str_printf("%d", port);
    request_header(r, "E2b-Sandbox-Id", id);
    request_header(r, "E2b-Sandbox-Port", number);
}

// The traffic token is for other servers in the guest, never for envd.
void dialect_tokens(struct request *r, const struct access *a, int port)
{
    if (a->token[0])
        request_header(r, "X-Access-Token", a->token);
    if (a->traffic_token[0] && port != ENVD_PORT)
        request_header(r, "E2B-Traffic-Access-Token", a->traffic_token);
}

bool dialect_knows(const struct client *c, const struct access *a)
{
    (void)c;
    return a != NULL;
}

void dialect_to_lookup(const struct client *c, const char *id, struct request *r)
{
    char *target auto_free = str_printf("/sandboxes/%s", id);
    c->dialect->to_api(c, target, r);
}

const struct access *dialect_take_lookup(struct client *c, const char *id, const json_t *answer,
                                         struct err *e)
{
    const struct access *a = access_cache_put(&c->accesses, answer);
    if (a && strcmp(a->id, id) == 0)
        return a;
    err_set(e, ERR_INTERNAL, "%s answered with another sandbox than the requested one",
            c->dialect->name);
    return NULL;
}

// ---- cubbyd: the control plane and every sandbox behind one unix socket, or one URL, told apart
// by headers.

static void to_api(const struct client *c, const char *target, struct request *r)
{
    if (!c->socket) {
        dialect_api(c, target, r);
        return;
    }
    r->unix_socket = c->socket;
    r->url = str_printf("http://cubbyd%s", target);
}

// A request to a sandbox has no API key, because a program in the guest might see it.
static void to_guest(const struct client *c, const struct access *a, int port, const char *target,
                     const char *user, struct request *r)
{
    if (c->socket) {
        to_api(c, target, r);
    } else {
        r->url = str_printf("%s%s", c->sandbox_url ? c->sandbox_url : c->api_url, target);
        r->ca_file = c->ca_file;
        r->connect_to = c->sandbox_url ? c->connect_to : NULL;
    }
    dialect_route(r, a->id, port);
    dialect_tokens(r, a, port);
    if (user || c->user)
        dialect_user(r, user ? user : c->user);
}

const struct dialect dialect_cubbyd = {
    .word = "cubbyd",
    .name = "cubbyd",
    .create_path = "/v2/sandboxes",
    .list_path = "/v2/sandboxes",
    .slides = true,
    .keeps_time = true,
    .takes_envs = true,
    .filters = true,
    .creates_ready = true,
    .tells_gone = true,
    .ends_builds = true,
    .takes_depth = true,
    .id_ok = sandbox_id_is_valid,
    .id_shape = "20 to 31 letters a to z and digits, as cubby ps shows it",
    .to_api = to_api,
    .to_guest = to_guest,
    .knows = dialect_knows,
    .to_lookup = dialect_to_lookup,
    .take_lookup = dialect_take_lookup,
};
