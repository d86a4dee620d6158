// SPDX-License-Identifier: Apache-2.0
// cubbyd: control plane and every envd behind one unix socket, or one URL, told apart by headers.
#include <string.h>

#include "sandbox-backend/base/home.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/client/dialect.h"
#include "sandbox-backend/client/state.h"

static bool id_ok(const char *id)
{
    return strlen(id) == SANDBOX_ID_LEN &&
           strspn(id, "abcdefghijklmnopqrstuvwxyz0123456789") == SANDBOX_ID_LEN;
}

static void to_api(const struct client *c, const char *target, struct request *r)
{
    if (!c->socket) {
        dialect_api(c, target, r);
        return;
    }
    r->unix_socket = c->socket;
    r->url = str_printf("http://cubbyd%s", target);
}

// What goes to a sandbox has no API key: a program in the guest might see it.
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
    .takes_depth = true,
    .id_ok = id_ok,
    .id_shape = "20 letters a to z and digits",
    .to_api = to_api,
    .to_guest = to_guest,
    .knows = dialect_knows,
    .to_lookup = dialect_to_lookup,
    .take_lookup = dialect_take_lookup,
};
