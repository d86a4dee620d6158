// SPDX-License-Identifier: Apache-2.0
// The local daemon: control plane and every envd behind one unix socket, told apart by headers.
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
    r->unix_socket = c->socket;
    r->url = str_printf("http://cubbyd%s", target);
}

static void to_guest(const struct client *c, const char *id, const struct access *a, int port,
                     const char *target, const char *user, struct request *r)
{
    to_api(c, target, r);
    dialect_route(r, id, port);
    dialect_tokens(r, a, port);
    if (user)
        dialect_user(r, user);
}

const struct dialect dialect_local = {
    .name = "cubbyd",
    .local = true,
    .needs_access = true,
    .create_path = "/v2/sandboxes",
    .id_ok = id_ok,
    .id_shape = "20 letters a to z and digits",
    .to_api = to_api,
    .to_guest = to_guest,
};
