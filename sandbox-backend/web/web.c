// SPDX-License-Identifier: Apache-2.0
#include "sandbox-backend/web/web.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/base/version.h"
#include "sandbox-backend/net/http_server.h"
#include "sandbox-backend/web/downloads.h"
#include "sandbox-backend/web/guard.h"
#include "sandbox-backend/web/live.h"
#include "sandbox-backend/web/page.h"
#include "sandbox-backend/web/relay.h"
#include "sandbox-backend/web/stream.h"

#define PORT_TRIES     8 // until a port is free on both addresses
#define SMALL_BODY_MAX 16384
#define JSON_TYPE      "application/json; charset=utf-8"

struct web {
    struct backend backend;
    struct http_server *server;
    struct guard guard;
    struct live live;
    struct streams streams;
    struct downloads downloads;
    unsigned closing; // the timer, the client and the server that are not closed yet
    void (*on_closed)(void *ctx);
    void *ctx;
};

static void reply(struct http_request *req, json_t *body /* taken */)
{
    struct buf text auto_buf = BUF_INIT;
    json_to_buf(&text, body);
    json_decref(body);
    http_respond(req, 200, JSON_TYPE, text.data, text.len);
}

// ---- signing in

static void reply_session(struct web *w, struct http_request *req)
{
    const struct backend *b = &w->backend;
    reply(req, json_pack("{s:s, s:s, s:s, s:b, s:s}", "key", w->guard.key, "nonce", w->guard.nonce,
                         "version", CUBBY_VERSION, "terminal", page_has_terminal(), "backend",
                         b->unix_socket ? "this computer" : b->url));
}

static void on_sign_in(struct http_request *req, const char *body, size_t len, void *ctx)
{
    struct web *w = ctx;
    struct err e = ERR_INIT;
    json_t *want = json_parse(body, len, &e);
    bool right = guard_take_token(&w->guard, json_string_value(json_object_get(want, "token")));
    json_decref(want);
    if (right)
        reply_session(w, req);
    else
        http_respond_error(req, 401,
                           "this link was used before, or is of another cubby web; press "
                           "Enter where cubby web runs for a new one");
}

// ---- downloads

static void on_download_wanted(struct http_request *req, const char *body, size_t len, void *ctx)
{
    struct web *w = ctx;
    struct err e = ERR_INIT;
    char *url auto_free = downloads_add(&w->downloads, body, len, &e);
    if (url)
        reply(req, json_pack("{s:s}", "url", url));
    else
        http_respond_error(req, err_http_status(e.code), "%s", e.msg);
}

static void download(struct web *w, struct http_request *req, const char *secret)
{
    struct download link;
    struct backend_target target;
    if (!downloads_take(&w->downloads, secret, &link)) {
        http_respond_error(req, 404,
                           "this link was used before or is too old; choose Download "
                           "again");
        return;
    }
    if (backend_target_parse(link.target, &target))
        relay_start(&w->backend, req, &target, link.token, link.file);
    download_fini(&link);
}

// ---- requests

static bool is(const struct http_request *req, const char *method, const char *path)
{
    return str_eq(http_request_method(req), method) && str_eq(http_request_path(req), path);
}

static void take_keyed(struct web *w, struct http_request *req)
{
    struct backend_target target;
    if (is(req, "GET", "/session"))
        reply_session(w, req);
    else if (is(req, "POST", "/download"))
        http_request_collect(req, SMALL_BODY_MAX, on_download_wanted, w);
    else if (is(req, "GET", "/live"))
        live_accept(&w->live, req);
    else if (is(req, "GET", "/stream"))
        streams_accept(&w->streams, req);
    else if (backend_target_parse(http_request_target(req), &target))
        relay_start(&w->backend, req, &target, NULL, NULL);
    else
        http_respond_error(req, 404, "there is no such path");
}

static void on_request(struct http_request *req, void *ctx)
{
    struct web *w = ctx;
    const char *path = http_request_path(req);
    bool gets = str_eq(http_request_method(req), "GET");
    guard_headers(&w->guard, req);
    if (!guard_admits(&w->guard, req))
        return;
    if (gets && page_serve(req, path))
        return;
    if (is(req, "POST", "/session"))
        http_request_collect(req, SMALL_BODY_MAX, on_sign_in, w);
    else if (gets && str_starts(path, DOWNLOADS_PATH))
        download(w, req, path + strlen(DOWNLOADS_PATH));
    else if (guard_has_key(&w->guard, req))
        take_keyed(w, req);
}

// ---- the server

// Listen on both addresses of loopback: browsers connect to either for a name below .localhost, so
// no other user of the host may have the port at one of them. A host without IPv6 has only one.
static int listen_at(struct http_server *server, int port, struct err *e)
{
    if (http_server_listen_tcp(server, "127.0.0.1", port, e) < 0)
        return -1;
    if (http_server_listen_tcp(server, "::1", http_server_port(server), e) < 0) {
        if (e->sys != EADDRNOTAVAIL && e->sys != EAFNOSUPPORT)
            return -1;
        *e = ERR_INIT;
    }
    return 0;
}

// Return a server that listens, or NULL with `e`.
static struct http_server *open_server(struct web *w, uv_loop_t *loop, int port, struct err *e)
{
    const struct http_server_opts opts = {.on_request = on_request, .ctx = w};
    for (int tries = 1;; tries++) {
        struct http_server *server = http_server_new(loop, &opts);
        if (listen_at(server, port, e) == 0)
            return server;
        http_server_close(server, NULL, NULL);
        if (port || e->sys != EADDRINUSE || tries == PORT_TRIES)
            return NULL;
        *e = ERR_INIT;
    }
}

struct web *web_open(uv_loop_t *loop, const struct backend *backend, int port, struct err *e)
{
    struct web *w = xcalloc(1, sizeof *w);
    w->server = open_server(w, loop, port, e);
    if (!w->server) {
        free(w);
        return NULL;
    }
    w->backend = *backend;
    w->backend.http = http_client_new(loop);
    w->streams.backend = &w->backend;
    guard_init(&w->guard, http_server_port(w->server));
    live_init(&w->live, loop, &w->backend);
    return w;
}

char *web_link(struct web *w)
{
    return str_printf("http://%s/#%s", w->guard.host, guard_new_token(&w->guard));
}

static void on_part_closed(void *ctx)
{
    struct web *w = ctx;
    if (--w->closing)
        return;
    void (*on_closed)(void *ctx) = w->on_closed;
    void *owner = w->ctx;
    guard_fini(&w->guard);
    downloads_fini(&w->downloads);
    free(w);
    on_closed(owner);
}

void web_close(struct web *w, void (*on_closed)(void *ctx), void *ctx)
{
    w->on_closed = on_closed;
    w->ctx = ctx;
    w->closing = 3;
    streams_close(&w->streams);
    live_close(&w->live, on_part_closed, w);
    http_client_close(w->backend.http, on_part_closed, w);
    http_server_close(w->server, on_part_closed, w);
}
