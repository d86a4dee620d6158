// SPDX-License-Identifier: Apache-2.0
// An HTTP round trip to the server.
#include "sandbox-backend/client/roundtrip.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/limits.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/client/answer.h"
#include "sandbox-backend/client/client_internal.h"

// ---- requests
// A line break in a value would end the header and let the value begin another one.
static bool can_be_sent(const char *value)
{
    for (const char *p = value; *p; p++)
        if (((unsigned char)*p < 0x20 && *p != '\t') || *p == 0x7f)
            return false;
    return true;
}

void request_header(struct request *r, const char *name, const char *value)
{
    if (!can_be_sent(value)) {
        r->bad_header = name;
        return;
    }
    assert(r->header_count < REQUEST_HEADERS_MAX);
    r->headers[r->header_count++] = (struct http_header){.name = name, .value = xstrdup(value)};
}

void request_fini(struct request *r)
{
    for (size_t i = 0; i < r->header_count; i++) {
        const void *value = r->headers[i].value;
        free((void *)(uintptr_t)value);
    }
    free(r->url);
    memset(r, 0, sizeof *r);
}

// ---- states
static void set_state(struct roundtrip *x, enum roundtrip_state to)
{
    static const unsigned ALLOWED[] = {
        [ROUNDTRIP_IDLE] = 1u << ROUNDTRIP_FETCHING,
        [ROUNDTRIP_FETCHING] = 1u << ROUNDTRIP_IDLE | 1u << ROUNDTRIP_STARTING,
        [ROUNDTRIP_STARTING] = 1u << ROUNDTRIP_IDLE | 1u << ROUNDTRIP_FETCHING,
    };
    assert(ALLOWED[x->state] & 1u << to);
    x->state = to;
}

// In the order in which they come.
static void begin_fetch(struct roundtrip *x);
static void on_sent(void *ctx);
static void on_head(int status, const struct http_header *headers, size_t count, const char *url,
                    void *ctx);
static bool on_data(const char *data, size_t len, void *ctx);
static void on_fetch_end(const struct err *e, void *ctx);
static void start_daemon(struct roundtrip *x);
static void on_daemon(const struct err *e, void *ctx);

// ---- 1. the request
void roundtrip_start(struct roundtrip *x, struct client *c, const struct request *request,
                     const struct http_fetch_opts *opts, const struct roundtrip_events *events,
                     void *ctx)
{
    x->client = c;
    x->request = request;
    x->opts = *opts;
    x->events = *events;
    x->ctx = ctx;
    x->has_started_daemon = x->is_canceled = false;
    x->err = ERR_INIT;
    begin_fetch(x);
}

static ssize_t read_body(void *into, size_t room, void *ctx)
{
    struct roundtrip *x = ctx;
    return x->is_canceled ? HTTP_READ_ABORT : x->opts.read_body(into, room, x->ctx);
}

static void begin_fetch(struct roundtrip *x)
{
    static const struct http_fetch_events EVENTS = {
        .on_head = on_head, .on_data = on_data, .on_end = on_fetch_end, .on_sent = on_sent};
    const struct request *r = x->request;
    struct http_fetch_opts opts = x->opts;
    opts.url = r->url;
    opts.unix_socket = r->unix_socket;
    opts.connect_to = r->connect_to;
    opts.ca_file = r->ca_file;
    opts.headers = r->headers;
    opts.header_count = r->header_count;
    opts.read_body = x->opts.read_body ? read_body : NULL;
    x->status = 0;
    x->was_sent = x->was_refused = false;
    buf_clear(&x->body);
    set_state(x, ROUNDTRIP_FETCHING);
    x->fetch = http_fetch_start(client__http(x->client), &opts, &EVENTS, x);
}

static void on_sent(void *ctx)
{
    ((struct roundtrip *)ctx)->was_sent = true;
}

// ---- 2. the answer
static void keep_header(char **kept, const struct http_header *headers, size_t count,
                        const char *name)
{
    const char *value = http_header_get(headers, count, name);
    free(*kept);
    *kept = value && *value ? xstrdup(value) : NULL;
}

static void on_head(int status, const struct http_header *headers, size_t count, const char *url,
                    void *ctx)
{
    (void)url;
    struct roundtrip *x = ctx;
    int64_t length = -1;
    const char *text = http_header_get(headers, count, "Content-Length");
    if (text && !str_to_int(text, 0, INT64_MAX, &length))
        length = -1;
    x->status = status;
    keep_header(&x->retry_after, headers, count, "Retry-After");
    keep_header(&x->next_token, headers, count, "X-Next-Token");
    if (roundtrip_is_success(x) && x->events.on_head)
        x->events.on_head(length, x->ctx);
}

// The beginning of an error is enough.
static void collect(struct roundtrip *x, const char *data, size_t len)
{
    bool success = roundtrip_is_success(x);
    if (buf_try_add(&x->body, data, len,
                    success ? LIMIT_JSON_BODY_BYTES : ANSWER_ERROR_BYTES_MAX) ||
        !success)
        return;
    err_set(&x->err, ERR_TOO_LARGE, "the server's answer is longer than %d bytes",
            LIMIT_JSON_BODY_BYTES);
    roundtrip_cancel(x);
}

static bool on_data(const char *data, size_t len, void *ctx)
{
    struct roundtrip *x = ctx;
    if (x->is_canceled) // the rest is dropped
        return true;
    if (roundtrip_is_success(x) && x->events.on_data)
        x->events.on_data(data, len, x->ctx);
    else
        collect(x, data, len);
    return true;
}

// Return whether the local daemon seems not to run, and this round trip may start it.
static bool needs_daemon(const struct roundtrip *x, const struct err *e)
{
    return e && (e->code == ERR_REFUSED || e->code == ERR_UNAVAILABLE) && !x->was_sent &&
           x->client->starter && !x->has_started_daemon && !x->is_canceled;
}

// A local daemon that ends a connection instead of answering has ended itself.
static void explain(const struct roundtrip *x, struct err *e)
{
    if (x->client->starter && x->was_sent && x->status == 0 && e->code == ERR_UNAVAILABLE) {
        *e = ERR_INIT;
        err_set(e, ERR_UNAVAILABLE,
                "the daemon ended before it answered; its last lines are in cubbyd.log in the "
                "state directory. The next request starts a daemon again");
    }
    roundtrip_explain(x->client, e);
}

static void on_fetch_end(const struct err *e, void *ctx)
{
    struct roundtrip *x = ctx;
    struct err told = e ? *e : ERR_INIT;
    x->fetch = NULL;
    if (needs_daemon(x, e)) {
        start_daemon(x);
        return;
    }
    set_state(x, ROUNDTRIP_IDLE);
    x->was_refused = told.code == ERR_REFUSED;
    if (err_is(&x->err))
        told = x->err;
    else if (e)
        explain(x, &told);
    x->events.on_end(err_is(&told) ? &told : NULL, x->ctx);
}

// ---- 3. nothing listens on the local daemon's socket
static void start_daemon(struct roundtrip *x)
{
    x->has_started_daemon = true;
    x->waiter = (struct server_waiter){.on_ready = on_daemon, .ctx = x};
    set_state(x, ROUNDTRIP_STARTING);
    daemon_start_wait(x->client->starter, &x->waiter);
}

static void on_daemon(const struct err *e, void *ctx)
{
    struct roundtrip *x = ctx;
    if (!e) {
        begin_fetch(x);
        return;
    }
    set_state(x, ROUNDTRIP_IDLE);
    x->events.on_end(e, x->ctx);
}

// ---- 4. the end
bool roundtrip_cancel(struct roundtrip *x)
{
    err_set(&x->err, ERR_CANCELED, "canceled");
    x->is_canceled = true;
    if (x->state == ROUNDTRIP_FETCHING) {
        http_fetch_cancel(x->fetch);
        return true;
    }
    if (x->state == ROUNDTRIP_STARTING) {
        daemon_start_forget(x->client->starter, &x->waiter);
        set_state(x, ROUNDTRIP_IDLE);
    }
    return false;
}

void roundtrip_fini(struct roundtrip *x)
{
    size_t had = x->body.len;
    buf_fini(&x->body);
    mem_give_back(had);
    free(x->retry_after);
    free(x->next_token);
}

void roundtrip_explain(const struct client *c, struct err *e)
{
    bool is_known = !c->identify || identify_is_done(c->identify);
    size_t len = strlen(e->msg);
    if (e->code == ERR_UNTRUSTED)
        snprintf(e->msg + len, sizeof e->msg - len,
                 ". If your own certificate authority signed its certificate, name the authority's "
                 "PEM file in --backend-ca or SSL_CERT_FILE");
    if (e->code == ERR_NOT_TLS) {
        *e = ERR_INIT;
        err_set(e, ERR_INVALID, "the server speaks HTTP, not HTTPS: write its URL with http://");
    }
    if (e->code == ERR_NOT_FOUND || e->code == ERR_REFUSED || e->code == ERR_UNTRUSTED)
        e->code = ERR_UNAVAILABLE;
    err_wrap(e, "%s", is_known ? c->dialect->name : c->api_url);
}
