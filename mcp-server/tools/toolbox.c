// SPDX-License-Identifier: Apache-2.0
// What all calls share, made when it is needed.
#include <stdlib.h>

#include "mcp-server/tools/local_dirs.h"
#include "mcp-server/tools/text.h"
#include "mcp-server/tools/tools.h"
#include "sandbox-backend/base/home.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/self.h"
#include "sandbox-backend/net/http_client.h"

void toolbox_init(struct toolbox *t, uv_loop_t *loop, const struct config *config)
{
    *t = (struct toolbox){
        .loop = loop,
        .config = config,
        .text = config_is_miroflow(config) ? &TEXT_MIROFLOW : &TEXT_DEFAULT,
    };
}

void toolbox_close(struct toolbox *t)
{
    if (t->client)
        client_close(t->client, NULL, NULL);
    if (t->http)
        http_client_close(t->http, NULL, NULL);
    t->client = NULL;
    t->http = NULL;
}

void toolbox_fini(struct toolbox *t)
{
    free(t->offers);
    t->offers = NULL;
    json_decref(t->schemas);
    t->schemas = NULL;
    local_dirs_free(t->dirs);
    t->dirs = NULL;
    owner_known_fini(&t->known);
}

struct client *toolbox_client(struct toolbox *t, struct err *e)
{
    if (t->client)
        return t->client;
    const struct config *config = t->config;
    char *home auto_free = NULL;
    char *daemon auto_free = NULL;
    struct client_opts opts = config_client_opts(config);
    if (!config_is_remote(config)) {
        home = home_open(e);
        daemon = home ? self_program("cubbyd", NULL) : NULL; // one that runs already will do
        if (!home)
            return NULL;
        opts.home = home;
        opts.daemon_path = daemon;
    }
    t->client = client_new(t->loop, &opts);
    return t->client;
}

struct http_client *toolbox_http(struct toolbox *t)
{
    if (!t->http)
        t->http = http_client_new(t->loop);
    return t->http;
}

struct local_dirs *toolbox_dirs(struct toolbox *t, struct err *e)
{
    if (!t->dirs)
        t->dirs = local_dirs_new(t->config, e);
    return t->dirs;
}
