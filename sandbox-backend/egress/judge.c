// SPDX-License-Identifier: Apache-2.0
// Judges the head of a request, and writes the head that is sent.
//
// The head is written again from its parsed parts. So the host reads exactly the parts that were
// judged, not bytes that it might understand in another way.
#include "sandbox-backend/egress/judge.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "sandbox-backend/base/host_pattern.h"
#include "sandbox-backend/base/str.h"

#define BASIC "Basic "

static bool refuse(struct refusal *r, int status, const struct secret *secret, const char *what,
                   const char *fmt, ...) __attribute__((format(printf, 5, 6)));

static bool refuse(struct refusal *r, int status, const struct secret *secret, const char *what,
                   const char *fmt, ...)
{
    va_list args;
    r->status = status;
    r->what = what;
    r->secret = secret ? secret->name : NULL;
    va_start(args, fmt);
    vsnprintf(r->why, sizeof r->why, fmt, args);
    va_end(args);
    return false;
}

// ---- secrets

static bool may_go(const struct judge *j, const struct secret *secret, struct refusal *r)
{
    if (!secret_is_for(secret, j->name)) {
        struct buf hosts auto_buf = BUF_INIT;
        secret_show_hosts(secret, &hosts);
        return refuse(r, 403, secret, "not for this host",
                      "the placeholder of secret %s was sent to %s, but the secret is only for %s",
                      secret->name, j->name, buf_str(&hosts));
    }
    if (!j->tls)
        return refuse(r, 403, secret, "not without TLS",
                      "the placeholder of secret %s was sent to %s without TLS: use https",
                      secret->name, j->name);
    return true;
}

bool judge_body(const struct judge *j, const struct secret *secret, struct refusal *r)
{
    return may_go(j, secret, r);
}

// Append the text with values for its placeholders.
static bool fill(const struct judge *j, const char *text, size_t len, bool percent, struct buf *out,
                 struct refusal *r)
{
    size_t at = 0;
    const struct secret *secret;
    while ((secret = secrets_find(j->secrets, text, len, &at))) {
        if (!may_go(j, secret, r))
            return false;
        buf_add(out, text, at);
        if (percent)
            buf_adds(out, secret->percent ? secret->percent : secret->value);
        else
            buf_adds(out, secret->value);
        at += strlen(secret->placeholder);
        text += at;
        len -= at;
    }
    buf_add(out, text, len);
    return true;
}

// Check a part of the head in which a placeholder is not allowed.
static bool has_none(const struct judge *j, const char *text, size_t len, const char *where,
                     struct refusal *r)
{
    size_t at;
    const struct secret *secret = secrets_find(j->secrets, text, len, &at);
    if (!secret || !may_go(j, secret, r))
        return !secret;
    return refuse(r, 403, secret, "not in this part of a request",
                  "the placeholder of secret %s is in %s: it is replaced only in header values, in "
                  "Authorization: Basic and in the query",
                  secret->name, where);
}

// ---- target and host

static bool add_target(const struct judge *j, const struct http_parser *p, struct buf *out,
                       struct refusal *r)
{
    const char *query = strchr(p->target, '?');
    size_t path_len = query ? (size_t)(query - p->target) : strlen(p->target);
    int method = llhttp_get_method((llhttp_t *)(uintptr_t)&p->llhttp);
    if (method == HTTP_CONNECT || (p->target[0] != '/' && strcmp(p->target, "*") != 0))
        return refuse(r, 400, NULL, "a request to a proxy",
                      "requests to a proxy are not passed on: send the request to %s itself",
                      j->name);
    if (!has_none(j, p->target, path_len, "the path", r))
        return false;
    buf_printf(out, "%s ", llhttp_method_name((llhttp_method_t)method));
    buf_add(out, p->target, path_len);
    if (query && !fill(j, query, strlen(query), true, out, r))
        return false;
    buf_printf(out, " HTTP/1.%d\r\n", p->llhttp.http_minor);
    return true;
}

// Return whether "name", "name:port" or "[address]:port" is the connection's.
static bool is_ours(const struct judge *j, const char *host)
{
    const char *end = strrchr(host, ']');
    const char *colon = strchr(end ? end : host, ':');
    size_t len = colon ? (size_t)(colon - host) : strlen(host);
    int64_t port;
    if (colon && (!str_to_int(colon + 1, 1, 65535, &port) || port != j->port))
        return false;
    if (*host == '[' && len >= 2 && host[len - 1] == ']') {
        host++;
        len -= 2;
    }
    char name[256];
    if (len == 0 || len >= sizeof name)
        return false;
    snprintf(name, sizeof name, "%.*s", (int)len, host);
    return name[0] != '*' && host_pattern_matches(j->name, name);
}

static bool check_host(const struct judge *j, const struct http_parser *p, struct refusal *r)
{
    const char *host = http_header_get(p->headers, p->count, "Host");
    if (!host)
        return refuse(r, 400, NULL, "a request without a Host",
                      "a request without a Host header is not passed on");
    if (!is_ours(j, host))
        return refuse(r, 421, NULL, "another Host than the connection's",
                      "the request is for host %.100s, and the connection for %s port %d", host,
                      j->name, j->port);
    return true;
}

// ---- headers

static bool is_made_anew(const char *name)
{
    return http_header_is_hop_by_hop(name) || http_name_is(name, "Content-Length");
}

// Append a new value of Basic when the user name or password in it holds a placeholder; *is_basic:
// it was appended.
static bool fill_basic(const struct judge *j, const char *value, struct buf *out, bool *is_basic,
                       struct refusal *r)
{
    struct buf plain auto_buf = BUF_INIT, filled auto_buf = BUF_INIT;
    size_t at;
    const char *code = value + strlen(BASIC);
    *is_basic = strncasecmp(value, BASIC, strlen(BASIC)) == 0;
    if (!*is_basic)
        return true;
    code += strspn(code, " ");
    *is_basic = base64_decode(&plain, code, strlen(code)) &&
                secrets_find(j->secrets, buf_str(&plain), plain.len, &at);
    if (!*is_basic)
        return true;
    if (j->code && j->code->len)
        return refuse(r, 400, NULL, "more than one Authorization",
                      "a request may have only one Authorization header");
    bool filled_it = fill(j, plain.data, plain.len, false, &filled, r);
    if (filled_it) {
        size_t from = (buf_adds(out, BASIC), out->len);
        base64_encode(out, filled.data, filled.len);
        if (j->code)
            buf_add(j->code, out->data + from, out->len - from);
    }
    if (filled.data)
        explicit_bzero(filled.data, filled.cap);
    return filled_it;
}

static bool add_header(const struct judge *j, const struct http_header *h, struct buf *out,
                       struct refusal *r)
{
    bool done = false;
    if (!has_none(j, h->name, strlen(h->name), "a header's name", r))
        return false;
    if (http_name_is(h->name, "Host") && !has_none(j, h->value, strlen(h->value), "the Host", r))
        return false;
    buf_printf(out, "%s: ", h->name);
    if (http_name_is(h->name, "Authorization") && !fill_basic(j, h->value, out, &done, r))
        return false;
    if (!done && !fill(j, h->value, strlen(h->value), false, out, r))
        return false;
    buf_adds(out, "\r\n");
    return true;
}

// Append the rule's headers. Accept-Encoding stays identity where a secret may come back.
static bool add_rule(const struct judge *j, bool guarded, struct buf *out, struct refusal *r)
{
    for (size_t i = 0; j->rule && i < j->rule->count; i++) {
        const struct rule_header *h = &j->rule->headers[i];
        if (guarded && http_name_is(h->name, "Accept-Encoding"))
            continue;
        buf_printf(out, "%s: ", h->name);
        if (!fill(j, h->value, strlen(h->value), false, out, r))
            return false;
        buf_adds(out, "\r\n");
    }
    return true;
}

static void add_connection(const struct http_parser *p, struct buf *out)
{
    const char *upgrade = http_header_get(p->headers, p->count, "Upgrade");
    if (p->is_offer && upgrade && strcasecmp(upgrade, "websocket") == 0)
        buf_adds(out, "Connection: Upgrade\r\nUpgrade: websocket\r\n");
    else if (!p->keep_alive)
        buf_adds(out, "Connection: close\r\n");
    else if (p->llhttp.http_minor == 0)
        buf_adds(out, "Connection: keep-alive\r\n");
}

static void add_length(const struct http_parser *p, struct buf *out)
{
    if (p->length < 0)
        buf_adds(out, "Transfer-Encoding: chunked\r\n");
    else if (http_header_get(p->headers, p->count, "Content-Length"))
        buf_printf(out, "Content-Length: %lld\r\n", (long long)p->length);
}

bool judge_request(const struct judge *j, const struct http_parser *p, struct buf *out,
                   struct refusal *r)
{
    bool guarded = j->tls && secrets_have_any_for(j->secrets, j->name);
    *r = (struct refusal){0};
    if (!check_host(j, p, r) || !add_target(j, p, out, r))
        return false;
    for (size_t i = 0; i < p->count; i++) {
        const struct http_header *h = &p->headers[i];
        bool skipped = is_made_anew(h->name) || rule_sets(j->rule, h->name) ||
                       (guarded && http_name_is(h->name, "Accept-Encoding"));
        if (skipped ? !has_none(j, h->value, strlen(h->value), "a header that is not passed on", r)
                    : !add_header(j, h, out, r))
            return false;
    }
    if (guarded)
        buf_adds(out, "Accept-Encoding: identity\r\n");
    if (!add_rule(j, guarded, out, r))
        return false;
    add_length(p, out);
    add_connection(p, out);
    buf_adds(out, "\r\n");
    return true;
}
