// SPDX-License-Identifier: Apache-2.0
// A request of the HTTP server: its head and its body.
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/net/http_server_internal.h"

// ---- the target

// Return the path and query of a target. The absolute form, which servers must accept (RFC 9112,
// 3.2.2), has a scheme and a host in front.
static const char *origin_form(const char *target)
{
    const char *slashes = strstr(target, "://");
    if (*target == '/' || !slashes)
        return target;
    const char *path = strpbrk(slashes + 3, "/?");
    return path ? path : "/";
}

// Decode the path; NULL when it holds a NUL, which would end a C string early.
static char *decode_path(const char *target)
{
    const char *path = origin_form(target);
    size_t len = strcspn(path, "?#");
    size_t decoded_len;
    char *decoded = len ? percent_decode(path, len, false, &decoded_len) : xstrdup("/");
    if (len && strlen(decoded) != decoded_len) {
        free(decoded);
        return NULL;
    }
    return decoded;
}

struct http_request *http_request_new(struct http_peer *peer)
{
    struct http_parser *p = &peer->parser;
    char *path = decode_path(p->target);
    if (!path)
        return NULL;
    struct http_request *req = xcalloc(1, sizeof *req);
    req->peer = peer;
    req->path = path;
    req->method = llhttp_method_name((llhttp_method_t)llhttp_get_method(&p->llhttp));
    req->is_head = str_eq(req->method, "HEAD");
    req->is_http10 = llhttp_get_http_minor(&p->llhttp) == 0;
    const char *expect = http_header_get(p->headers, p->count, "Expect");
    req->wants_continue =
        expect && !req->is_http10 && p->length != 0 && strcasecmp(expect, "100-continue") == 0;
    return req;
}

void http_request_free(struct http_request *req)
{
    while (req->queries) {
        struct http_query *q = req->queries;
        req->queries = q->next;
        free(q->value);
        free(q);
    }
    buf_fini(&req->collected);
    buf_fini(&req->extra);
    buf_fini(&req->sender.trailers);
    free(req->path);
    free(req);
}

// ---- the head

const char *http_request_method(const struct http_request *req)
{
    return req->method;
}

const char *http_request_target(const struct http_request *req)
{
    return req->peer->parser.target;
}

const char *http_request_path(const struct http_request *req)
{
    return req->path;
}

static bool name_is(const char *raw, size_t len, const char *name)
{
    char *decoded auto_free = percent_decode(raw, len, true, NULL);
    return strcmp(decoded, name) == 0;
}

// Return the raw value of the first parameter of that name, or NULL.
static const char *find_query(const char *query, const char *name, size_t *len)
{
    while (*query) {
        size_t whole = strcspn(query, "&");
        const char *equals = memchr(query, '=', whole);
        size_t name_len = equals ? (size_t)(equals - query) : whole;
        if (name_is(query, name_len, name)) {
            *len = equals ? whole - name_len - 1 : 0;
            return equals ? equals + 1 : query + whole;
        }
        query += whole + (query[whole] == '&');
    }
    return NULL;
}

// Keep a value until the request ends. Takes `text` over.
static const char *keep_query(struct http_request *req, char *text)
{
    struct http_query *q = xmalloc(sizeof *q);
    *q = (struct http_query){.next = req->queries, .value = text};
    req->queries = q;
    return text;
}

const char *http_request_query_other(struct http_request *req, const char *const *known,
                                     size_t count)
{
    const char *at = strchr(http_request_target(req), '?');
    while (at && *at) {
        size_t whole = strcspn(++at, "&");
        char *name = percent_decode(at, strcspn(at, "=&"), true, NULL);
        size_t i = 0;
        while (i < count && strcmp(name, known[i]) != 0)
            i++;
        if (whole > 0 && i == count)
            return keep_query(req, name);
        free(name);
        at += whole;
    }
    return NULL;
}

const char *http_request_query(struct http_request *req, const char *name, bool *bad)
{
    if (bad)
        *bad = false;
    const char *query = strchr(http_request_target(req), '?');
    size_t raw_len;
    const char *raw = query ? find_query(query + 1, name, &raw_len) : NULL;
    if (!raw)
        return NULL;
    size_t len;
    char *value = percent_decode(raw, raw_len, true, &len);
    if (strlen(value) != len) {
        free(value);
        if (bad)
            *bad = true;
        return NULL;
    }
    return keep_query(req, value);
}

const char *http_request_query_all(struct http_request *req, const char *name)
{
    struct buf all = BUF_INIT;
    const char *target = http_request_target(req);
    const char *at = target + strcspn(target, "?");
    size_t len = 0;
    while ((at = find_query(*at ? at + 1 : at, name, &len))) {
        char *value auto_free = percent_decode(at, len, true, NULL);
        if (all.len)
            buf_addc(&all, ',');
        buf_adds(&all, value);
        at += len;
    }
    return all.len ? keep_query(req, buf_take(&all)) : NULL;
}

const char *http_request_header(const struct http_request *req, const char *name)
{
    const struct http_parser *p = &req->peer->parser;
    return http_header_get(p->headers, p->count, name);
}

const struct http_header *http_request_headers(const struct http_request *req, size_t *count)
{
    *count = req->peer->parser.count;
    return req->peer->parser.headers;
}

const struct http_header *http_request_trailers(const struct http_request *req, size_t *count)
{
    const struct http_trailers *t = &req->peer->parser.trailers;
    *count = req->end_told ? t->count : 0;
    return t->list;
}

const char *http_request_upgrade(const struct http_request *req)
{
    const struct http_parser *p = &req->peer->parser;
    return p->is_offer && p->length == 0 && !req->is_http10 ? http_request_header(req, "Upgrade")
                                                            : NULL;
}

int64_t http_request_length(const struct http_request *req)
{
    return req->peer->parser.length;
}

uv_loop_t *http_request_loop(const struct http_request *req)
{
    return req->peer->server->loop;
}

const char *http_request_peer(struct http_request *req)
{
    struct sockaddr_storage address;
    int len = sizeof address;
    if (req->peer->io.handle.type != UV_TCP)
        return "unix";
    if (!*req->address &&
        (uv_tcp_getpeername(&req->peer->io.tcp, (struct sockaddr *)&address, &len) != 0 ||
         uv_ip_name((struct sockaddr *)&address, req->address, sizeof req->address) != 0))
        return "unknown"; // the peer has just left
    return req->address;
}

bool http_request_is_tls(const struct http_request *req)
{
    return req->peer->tls != NULL;
}

// ---- the body

// Tell a client that asked first (Expect) to send its body, unless it already does.
static void say_continue(struct http_request *req)
{
    if (!req->wants_continue || req->begun)
        return;
    req->wants_continue = false;
    if (!req->peer->pending.len && req->peer->state == PEER_REQUEST)
        buf_adds(stream_out_buf(&req->peer->out), "HTTP/1.1 100 Continue\r\n\r\n");
}

static void take_body(struct http_request *req, enum body_mode mode, void *ctx)
{
    req->mode = mode;
    req->body_ctx = ctx;
    say_continue(req);
    http_peer_kick(req->peer);
}

void http_request_stream(struct http_request *req, const struct http_body_events *events, void *ctx)
{
    req->body = *events;
    take_body(req, BODY_STREAMED, ctx);
}

void http_request_collect(struct http_request *req, size_t max,
                          void (*on_body)(struct http_request *req, const char *body, size_t len,
                                          void *ctx),
                          void *ctx)
{
    int64_t length = http_request_length(req);
    req->on_body = on_body;
    req->collect_max = max;
    req->collect_began = uv_now(http_request_loop(req));
    req->too_large = length > 0 && (uint64_t)length > max;
    if (req->too_large)
        req->wants_continue = false;
    take_body(req, BODY_COLLECTED, ctx);
}

void http_request_pause(struct http_request *req)
{
    req->paused = true;
}

void http_request_resume(struct http_request *req)
{
    req->paused = false;
    http_peer_kick(req->peer);
}

bool http_request_wants_step(const struct http_request *req)
{
    return req->mode != BODY_UNTAKEN && !req->paused && !req->end_told;
}

bool http_request_is_large(const struct http_request *req)
{
    return req->mode == BODY_COLLECTED && req->collected.len > HTTP_LARGE_BODY;
}

// The handler may end the request in its callback, so `req` is not used after that.
void http_request_on_data(struct http_request *req, const char *data, size_t len)
{
    req->wants_continue = false;
    if (req->mode == BODY_COLLECTED)
        req->too_large = !buf_try_add(&req->collected, data, len, req->collect_max);
    else if (req->body.on_data)
        req->body.on_data(req, data, len, req->body_ctx);
}

void http_request_on_end(struct http_request *req)
{
    req->end_told = true;
    if (req->mode == BODY_STREAMED) {
        if (req->body.on_end)
            req->body.on_end(req, req->body_ctx);
        return;
    }
    struct buf body = req->collected;
    size_t len = body.len;
    req->collected = BUF_INIT;
    req->on_body(req, buf_str(&body), len, req->body_ctx);
    buf_fini(&body);
    mem_give_back(len);
}

void http_request_refuse_large(struct http_request *req)
{
    char message[80];
    snprintf(message, sizeof message, "the body is longer than %zu bytes", req->collect_max);
    if (req->begun)
        http_peer_close(req->peer);
    else
        http_response_refuse(req->peer, 413, message);
}
