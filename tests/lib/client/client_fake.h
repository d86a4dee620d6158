// SPDX-License-Identifier: Apache-2.0
// A fake server for the units of the client library, whose answers the test chooses. It listens on
// <home>/cubbyd.sock, where the client looks for the local daemon, or on a TCP port, and records a
// line for each request.
#pragma once
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/client/client.h"
#include "sandbox-backend/connect/connect.h"
#include "sandbox-backend/net/http_server.h"
#include "tests/lib/harness/tap.h"

#define FAKE_ID    "abcdefghij0123456789"
#define FAKE_TOKEN "fake-token"
#define FAKE_SANDBOX                                                                \
    "{\"sandboxID\":\"" FAKE_ID "\",\"templateID\":\"default\",\"clientID\":\"c\"," \
    "\"envdVersion\":\"0.5.7\",\"envdAccessToken\":\"" FAKE_TOKEN "\"}"

struct fake {
    uv_loop_t loop;
    struct http_server *server;
    struct client *client;
    char home[64];
    struct buf seen;                                    // "GET /sandboxes/x\n" ...
    struct buf body;                                    // of the last request
    struct buf user, token, content_type, timeout, key; // headers of the last one that had them
    // Answers; NULL: 500. A GET of FAKE_ID is answered before it is asked, unless `own_get`.
    void (*answer)(struct fake *f, struct http_request *req, const char *target);
    bool own_get;
    struct http_request *held; // one that the test answers later
    int closed;
    struct err err; // of what ended last
    bool done;
};

static inline void fake_note(struct buf *to, struct http_request *req, const char *name)
{
    const char *value = http_request_header(req, name);
    if (!value)
        return;
    buf_clear(to);
    buf_adds(to, value);
}

static inline void fake_json(struct http_request *req, int status, const char *json)
{
    http_respond(req, status, "application/json", json, strlen(json));
}

static inline void fake_on_body(struct http_request *req, const char *body, size_t len, void *ctx)
{
    struct fake *f = ctx;
    const char *method = http_request_method(req);
    const char *target = http_request_target(req);
    buf_clear(&f->body);
    buf_add(&f->body, body, len);
    if (!f->own_get && strcmp(method, "GET") == 0 && strcmp(target, "/sandboxes/" FAKE_ID) == 0)
        fake_json(req, 200, FAKE_SANDBOX);
    else if (f->answer)
        f->answer(f, req, target);
    else
        fake_json(req, 500, "{\"code\":500,\"message\":\"nothing was expected\"}");
}

static inline void fake_on_request(struct http_request *req, void *ctx)
{
    struct fake *f = ctx;
    buf_printf(&f->seen, "%s %s\n", http_request_method(req), http_request_target(req));
    fake_note(&f->user, req, "Authorization");
    fake_note(&f->token, req, "X-Access-Token");
    fake_note(&f->content_type, req, "Content-Type");
    fake_note(&f->timeout, req, "Connect-Timeout-Ms");
    fake_note(&f->key, req, "X-API-KEY");
    http_request_collect(req, 64 << 20, fake_on_body, f);
}

// On the unix socket of a new home when `api_url` is NULL, else the client is given that URL, with
// "%d" in it as the port of a TCP server.
static inline void fake_open(struct fake *f, const char *api_url)
{
    struct err e = ERR_INIT;
    signal(SIGPIPE, SIG_IGN); // as every program of ours does
    memset(f, 0, sizeof *f);
    strcpy(f->home, "/tmp/cubby-client-XXXXXX");
    if (!mkdtemp(f->home))
        abort();
    uv_loop_init(&f->loop);
    const struct http_server_opts opts = {.on_request = fake_on_request, .ctx = f};
    f->server = http_server_new(&f->loop, &opts);
    char *socket auto_free = str_printf("%s/cubbyd.sock", f->home);
    char url[128];
    struct client_opts client = {.home = f->home, .api_key = "e2b_0123"};
    if (api_url) {
        http_server_listen_tcp(f->server, "127.0.0.1", 0, &e);
        snprintf(url, sizeof url, "http://127.0.0.1:%d/", http_server_port(f->server));
        client.api_url = client.sandbox_url = url;
    } else {
        http_server_listen_unix(f->server, socket, 0600, &e);
    }
    ok(!err_is(&e), "the fake server listens: %s", e.msg);
    f->client = client_new(&f->loop, &client);
}

static inline void fake_on_closed(void *ctx)
{
    struct fake *f = ctx;
    f->closed++;
    uv_stop(&f->loop);
}

// Nothing may be left in the loop: a handle that was forgotten is found here.
static inline void fake_close(struct fake *f)
{
    client_close(f->client, fake_on_closed, f);
    while (f->closed < 1)
        uv_run(&f->loop, UV_RUN_DEFAULT);
    http_server_close(f->server, fake_on_closed, f);
    while (uv_run(&f->loop, UV_RUN_DEFAULT))
        ;
    is_int(f->closed, 2, "client and server closed once each");
    is_int(uv_loop_close(&f->loop), 0, "nothing is left in the loop");
    buf_fini(&f->seen);
    buf_fini(&f->body);
    buf_fini(&f->user);
    buf_fini(&f->token);
    buf_fini(&f->content_type);
    buf_fini(&f->timeout);
    buf_fini(&f->key);
    dir_remove(f->home, NULL);
}

static inline void fake_finish(struct fake *f, const struct err *e)
{
    ok(!f->done, "completes once");
    f->done = true;
    f->err = e ? *e : ERR_INIT;
    uv_stop(&f->loop); // else the loop would wait for I/O once more before it returns
}

static inline void fake_run(struct fake *f)
{
    ok(!f->done, "does not complete inside the call that started it");
    while (!f->done)
        uv_run(&f->loop, UV_RUN_DEFAULT);
    f->done = false;
}

// The requests since the last look.
static inline char *fake_seen(struct fake *f)
{
    char *seen = xstrdup(buf_str(&f->seen));
    buf_clear(&f->seen);
    return seen;
}
