// SPDX-License-Identifier: Apache-2.0
// The server context: the state that all requests of this process share.
#include <stdlib.h>
#include <string.h>

#include "mcp-server/context/context.h"
#include "mcp-server/context/local_dirs.h"
#include "mcp-server/context/prepare.h"
#include "sandbox-backend/base/home.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/sandbox_id.h"
#include "sandbox-backend/net/http_client.h"

void context_init(struct context *cx, uv_loop_t *loop, const struct config *config)
{
    *cx = (struct context){
        .loop = loop,
        .config = config,
    };
}

void context_close(struct context *cx)
{
    prepare_close(cx);
    if (cx->client)
        client_close(cx->client, NULL, NULL);
    if (cx->http)
        http_client_close(cx->http, NULL, NULL);
    cx->client = NULL;
    cx->http = NULL;
}

void context_fini(struct context *cx)
{
    local_dirs_free(cx->dirs);
    cx->dirs = NULL;
    owner_known_fini(&cx->known);
    json_decref(cx->timeouts);
    cx->timeouts = NULL;
}

struct client *context_client(struct context *cx, struct err *e)
{
    if (cx->client)
        return cx->client;
    const struct config *config = cx->config;
    char *home auto_free = NULL;
    char *daemon auto_free = NULL;
    struct client_opts opts = config_client_opts(config);
    if (!config_is_remote(config)) {
        home = home_open(e);
        daemon = home ? self_program("cubbyd", NULL) : NULL; // NULL is fine if one already runs
        if (!home)
            return NULL;
        opts.home = home;
        opts.daemon_path = daemon;
    }
    cx->client = client_new(cx->loop, &opts);
    return cx->client;
}

struct http_client *context_http(struct context *cx)
{
    if (!cx->http)
        cx->http = http_client_new(cx->loop);
    return cx->http;
}

struct local_dirs *context_dirs(struct context *cx, struct err *e)
{
    if (!cx->dirs)
        cx->dirs = local_dirs_new(cx->config, e);
    return cx->dirs;
}

bool context_id_is_plausible(const struct context *cx, const char *id)
{
    static const char REMOTE_ID[] = "abcdefghijklmnopqrstuvwxyz0123456789-"
                                    "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
    size_t len = strlen(id);
    if (config_is_remote(cx->config)) // invented ids are shorter
        return len >= 16 && len <= 128 && strspn(id, REMOTE_ID) == len;
    return sandbox_id_is_valid(id);
}
