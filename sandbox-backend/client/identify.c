// SPDX-License-Identifier: Apache-2.0
// Finds out which dialect a server speaks. GET /health changes nothing, needs no sandbox, and each
// of the three servers answers it in its own way:
//   cubbyd       {"status":"ok","server":"cubbyd",...}
//   CubeAPI      {"status":"ok","sandboxes":0}
//   E2B          a line of text, or, where the path is not routed, an error in its form
// Any other answer, such as a gateway's page, its refusal of a key or its rate limit, decides
// nothing, because the decision lasts until the program ends. The next operation asks again.

#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/client/client_internal.h"
#include "sandbox-backend/log/log.h"

#define ANSWER_MS        20000
#define ANSWER_BYTES_MAX 4096

struct identify {
    struct client *client;    // borrowed
    struct http_fetch *fetch; // NULL: none in progress
    struct server_waiter *waiters;
    struct server_waiter *telling; // the rest of those that are told
    int status;
    struct buf body; // its beginning
    bool is_long;    // longer than any of the three answers
    bool done;
};

struct identify *identify_new(struct client *c)
{
    struct identify *id = xcalloc(1, sizeof *id);
    id->client = c;
    return id;
}

void identify_free(struct identify *id)
{
    buf_fini(&id->body);
    free(id);
}

bool identify_is_done(const struct identify *id)
{
    return id->done;
}

// ---- 1. asking
static void on_head(int status, const struct http_header *headers, size_t count, const char *url,
                    void *ctx)
{
    (void)headers;
    (void)count;
    (void)url;
    struct identify *id = ctx;
    id->status = status;
}

static bool on_data(const char *data, size_t len, void *ctx)
{
    struct identify *id = ctx;
    if (!buf_try_add(&id->body, data, len, ANSWER_BYTES_MAX))
        id->is_long = true; // none of the three
    return true;
}

static void on_end(const struct err *e, void *ctx);

static void ask(struct identify *id)
{
    static const struct http_fetch_events EVENTS = {
        .on_head = on_head, .on_data = on_data, .on_end = on_end};
    struct client *c = id->client;
    struct request r = {0};
    dialect_api(c, "/health", &r);
    const struct http_fetch_opts opts = {
        .method = "GET",
        .url = r.url,
        .ca_file = r.ca_file,
        .headers = r.headers,
        .header_count = r.header_count,
        .total_timeout_ms = ANSWER_MS,
    };
    id->status = 0;
    id->is_long = false;
    buf_clear(&id->body);
    id->fetch = http_fetch_start(client__http(c), &opts, &EVENTS, id);
    request_fini(&r);
}

void identify_wait(struct identify *id, struct server_waiter *w)
{
    if (id->done) {
        w->on_ready(NULL, w->ctx);
        return;
    }
    w->next = id->waiters;
    id->waiters = w;
    if (!id->fetch)
        ask(id);
}

void identify_forget(struct identify *id, struct server_waiter *w)
{
    struct server_waiter **lists[] = {&id->waiters, &id->telling};
    for (size_t i = 0; i < ARRAY_LEN(lists); i++) {
        struct server_waiter **at = lists[i];
        while (*at && *at != w)
            at = &(*at)->next;
        if (*at)
            *at = w->next;
    }
}

// ---- 2. judging
static bool is_of_e2b(int status, const json_t *health, const char *body)
{
    if (status == 401 || status == 403 || status == 429)
        return false; // any gateway may answer so, with any body
    if (status >= 400)
        return status < 500 && json_integer_value(json_object_get(health, "code")) == status;
    return status >= 200 && status < 300 && *body != '<';
}

static const struct dialect *judge(int status, const json_t *health, const char *body)
{
    if (status == 200 && str_eq(json_string_value(json_object_get(health, "server")), "cubbyd"))
        return &dialect_cubbyd;
    if (status == 200 && str_eq(json_string_value(json_object_get(health, "status")), "ok") &&
        json_is_integer(json_object_get(health, "sandboxes")))
        return &dialect_cube;
    return is_of_e2b(status, health, body) ? &dialect_e2b : NULL;
}

const struct dialect *identify_judge(int status, const char *body)
{
    json_t *health = json_parse(body, strlen(body), NULL);
    const struct dialect *found = judge(status, health, body);
    json_decref(health);
    return found;
}

static enum err_code code_of(int status)
{
    return status == 401 || status == 403 || status == 429 ? err_from_http_status(status)
                                                           : ERR_UNAVAILABLE;
}

static void learn(struct identify *id, struct err *e)
{
    struct client *c = id->client;
    const struct dialect *found =
        id->is_long ? NULL : identify_judge(id->status, buf_str(&id->body));
    if (!found) {
        err_set(e, code_of(id->status),
                "%s/health answered with HTTP status %d, as no known server does; check the URL, "
                "or name the kind of server with --dialect",
                c->api_url, id->status);
        return;
    }
    log_debug("client.dialect", "url=%s dialect=%s", c->api_url, found->word);
    c->dialect = found;
    id->done = true;
}

// ---- 3. telling the calls that wait. One of them may wait again, or cancel others.
static void on_end(const struct err *error, void *ctx)
{
    struct identify *id = ctx;
    struct err e = error ? *error : ERR_INIT;
    id->fetch = NULL;
    if (error)
        roundtrip_explain(id->client, &e);
    else
        learn(id, &e);
    id->telling = id->waiters;
    id->waiters = NULL;
    while (id->telling) {
        struct server_waiter *w = id->telling;
        id->telling = w->next;
        w->on_ready(err_is(&e) ? &e : NULL, w->ctx);
    }
}
