// SPDX-License-Identifier: Apache-2.0
// The server context, which all requests of this process share: the configuration, the client of
// the backend, an HTTP client, the local directories, and the known owners. Each part is made at
// its first use, because most processes serve one call, and some only list the tools.
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <sys/queue.h>
#include <uv.h>

#include "mcp-server/config/config.h"
#include "mcp-server/context/owner.h"
#include "sandbox-backend/base/err.h"
#include "sandbox-backend/client/client.h"

struct dir_watch;
struct prepare_child;
struct http_client;
struct local_dirs;
struct offers;
struct prepare;
struct quota_claim;
struct subscriber;

struct context {
    uv_loop_t *loop;
    const struct config *config; // borrowed
    struct client *client;       // owned; NULL until needed, as the next two
    struct http_client *http;
    struct local_dirs *dirs;
    struct prepare *prepare;             // owned; prepare.h. NULL: nothing has to be prepared
    struct prepare_child *prepare_child; // its process, valid while it runs
    struct owner_known known;            // see owner.h
    json_t
        *timeouts; // owned: noted times to live by sandbox id (tool_call_note_timeout); NULL: none
    // Lists and state of other rooms, each in the header that is named beside it. NULL: empty.
    struct offers *offers;          // tools/call/tools.h
    LIST_HEAD(, lane) lanes;        // tools/call/turn.h
    struct quota_claim *claims;     // tools/owner/quota.h
    struct subscriber *subscribers; // resources/subscriber.h
    struct dir_watch *dir_watches;  // resources/sandbox_watch.c
};

void context_init(struct context *cx, uv_loop_t *loop, const struct config *config);
void context_close(struct context *cx); // asynchronous: the loop ends when all is closed
void context_fini(struct context *cx);  // after the loop, and after tools_fini

// Return the object, made on the first call; borrowed. On an error return NULL with `e`.
struct client *context_client(struct context *cx, struct err *e);
struct http_client *context_http(struct context *cx);
struct local_dirs *context_dirs(struct context *cx, struct err *e);

// Return whether `id` can be the id of a sandbox. Models invent ids, and an impossible id gets
// another error than an unknown one.
bool context_id_is_plausible(const struct context *cx, const char *id);
