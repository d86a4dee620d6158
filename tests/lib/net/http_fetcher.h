// SPDX-License-Identifier: Apache-2.0
// The HTTP client and our server in one loop, for units. A fetch records its events.
#pragma once
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/net/http_client.h"
#include "sandbox-backend/net/http_server.h"
#include "tests/lib/harness/tap.h"

#define FETCHER_WAIT_MS 30000

static struct {
    uv_loop_t loop;
    struct http_server *server;
    struct http_client *client;
    char dir[32], path[40];
    int port;
} fetcher;

struct outcome {
    int status, heads, ends;
    int sent; // times that the request went out
    struct buf body;
    char url[200], method[20], type[60], custom[20];
    struct err e;
    int pause_every; // refuse each nth piece once
    int pieces;
    size_t upload_left;
    bool upload_pauses;
    bool close_client; // in fetcher_on_data
    struct outcome *start_other;
    bool client_closed;
    struct http_fetch *fetch;
};

static inline bool fetcher_wait(const int *counter)
{
    int64_t end = clock_mono_ms() + FETCHER_WAIT_MS;
    while (!*counter && clock_mono_ms() < end)
        uv_run(&fetcher.loop, UV_RUN_NOWAIT);
    return *counter > 0;
}

static inline void fetcher_copy_header(char *to, size_t size, const struct http_header *h, size_t n,
                                       const char *k)
{
    const char *v = http_header_get(h, n, k);
    snprintf(to, size, "%s", v ? v : "(none)");
}

static inline void fetcher_on_head(int status, const struct http_header *headers, size_t count,
                                   const char *url, void *ctx)
{
    struct outcome *o = ctx;
    o->status = status;
    o->heads++;
    snprintf(o->url, sizeof o->url, "%s", url);
    fetcher_copy_header(o->method, sizeof o->method, headers, count, "x-method");
    fetcher_copy_header(o->type, sizeof o->type, headers, count, "x-type");
    fetcher_copy_header(o->custom, sizeof o->custom, headers, count, "x-custom");
}

static inline void fetcher_on_sent(void *ctx)
{
    ((struct outcome *)ctx)->sent++;
}

static inline void fetcher_on_client_closed(void *ctx)
{
    ((struct outcome *)ctx)->client_closed = true;
}

static inline void fetcher_on_resume_timer(uv_timer_t *timer)
{
    struct outcome *o = timer->data;
    uv_close((uv_handle_t *)timer, (uv_close_cb)free);
    if (!o->ends) {
        http_fetch_resume_download(o->fetch);
        http_fetch_resume_upload(o->fetch);
    }
}

static inline void fetcher_resume_later(struct outcome *o)
{
    uv_timer_t *timer = malloc(sizeof *timer);
    uv_timer_init(&fetcher.loop, timer);
    timer->data = o;
    uv_timer_start(timer, fetcher_on_resume_timer, 1, 0);
}

static const struct http_fetch_events FETCHER_EVENTS;

static inline bool fetcher_on_data(const char *data, size_t len, void *ctx)
{
    struct outcome *o = ctx;
    if (o->pause_every && ++o->pieces % o->pause_every == 0) {
        fetcher_resume_later(o);
        return false;
    }
    buf_add(&o->body, data, len);
    if (o->start_other) {
        struct outcome *other = steal(&o->start_other);
        other->fetch = http_fetch_start(fetcher.client,
                                        &(struct http_fetch_opts){.method = "GET",
                                                                  .url = "http://h/pump",
                                                                  .unix_socket = fetcher.path},
                                        &FETCHER_EVENTS, other);
    }
    if (o->close_client)
        http_client_close(steal(&fetcher.client), fetcher_on_client_closed, o);
    return true;
}

static inline void fetcher_on_end(const struct err *e, void *ctx)
{
    struct outcome *o = ctx;
    o->ends++;
    if (e)
        o->e = *e;
}

static const struct http_fetch_events FETCHER_EVENTS = {.on_head = fetcher_on_head,
                                                        .on_data = fetcher_on_data,
                                                        .on_end = fetcher_on_end,
                                                        .on_sent = fetcher_on_sent};

static inline void fetcher_start(struct outcome *o, struct http_fetch_opts opts)
{
    o->fetch = http_fetch_start(fetcher.client, &opts, &FETCHER_EVENTS, o);
    is_int(o->ends, 0, "nothing ends within the call");
}

static inline void fetcher_fetch(struct outcome *o, struct http_fetch_opts opts)
{
    fetcher_start(o, opts);
    ok(fetcher_wait(&o->ends), "%s %s ends", opts.method, opts.url);
}

#define OUTCOME                  \
    (struct outcome)             \
    {                            \
        .e = {.code = ERR_NONE } \
    }

static inline void fetcher_open(void (*on_request)(struct http_request *req, void *ctx))
{
    struct err e = ERR_INIT;
    signal(SIGPIPE, SIG_IGN);
    strcpy(fetcher.dir, "/tmp/test-client-XXXXXX");
    if (!mkdtemp(fetcher.dir))
        abort();
    snprintf(fetcher.path, sizeof fetcher.path, "%s/s", fetcher.dir);
    uv_loop_init(&fetcher.loop);
    fetcher.server =
        http_server_new(&fetcher.loop, &(struct http_server_opts){.on_request = on_request});
    if (http_server_listen_unix(fetcher.server, fetcher.path, 0600, &e) != 0 ||
        http_server_listen_tcp(fetcher.server, "0.0.0.0", 0, &e) != 0) {
        fprintf(stderr, "the server does not listen: %s\n", e.msg);
        abort();
    }
    fetcher.port = http_server_port(fetcher.server);
    fetcher.client = http_client_new(&fetcher.loop);
}

static inline void fetcher_on_closed(void *ctx)
{
    *(int *)ctx = 1;
}

static inline void fetcher_close(void)
{
    int done = 0;
    if (fetcher.client) { // else closed by the test
        http_client_close(steal(&fetcher.client), fetcher_on_closed, &done);
        fetcher_wait(&done);
        done = 0;
    }
    http_server_close(fetcher.server, fetcher_on_closed, &done);
    ok(fetcher_wait(&done), "the server closes");
    for (int i = 0; i < 50; i++)
        uv_run(&fetcher.loop, UV_RUN_NOWAIT);
    ok(uv_loop_close(&fetcher.loop) == 0 && rmdir(fetcher.dir) == 0,
       "nothing is left in the loop, nor in the directory");
}
