// SPDX-License-Identifier: Apache-2.0
#include "sandbox-backend/web/backend.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "sandbox-backend/base/limits.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

#define API_PREFIX "/api"
#define BOX_PREFIX "/box/"
#define ID_CHARS   "abcdefghijklmnopqrstuvwxyz0123456789-"

// A URL has no characters like these; the client would refuse them with a less clear error.
static bool is_clean(const char *path)
{
    for (; *path; path++)
        if ((unsigned char)*path <= ' ' || *path == '\x7f' || *path == '#')
            return false;
    return true;
}

bool backend_target_parse(const char *target, struct backend_target *out)
{
    *out = (struct backend_target){0};
    if (!is_clean(target))
        return false;
    if (str_starts(target, API_PREFIX "/")) {
        out->path = target + strlen(API_PREFIX);
        return true;
    }
    if (!str_starts(target, BOX_PREFIX))
        return false;
    const char *id = target + strlen(BOX_PREFIX);
    size_t len = strspn(id, ID_CHARS);
    if (len == 0 || len >= sizeof out->id || id[len] != '/')
        return false;
    memcpy(out->id, id, len);
    out->path = id + len;
    return true;
}

void backend_header(struct backend_request *r, const char *name, const char *value)
{
    if (!value)
        return;
    assert(r->header_count < BACKEND_HEADERS_MAX);
    r->headers[r->header_count++] = (struct http_header){name, value};
}

struct http_fetch *backend_fetch(const struct backend *b, const struct backend_request *r,
                                 const struct http_fetch_events *events, void *ctx)
{
    char port[8];
    snprintf(port, sizeof port, "%d", ENVD_PORT);
    struct http_header headers[BACKEND_HEADERS_MAX + 3];
    size_t count = r->header_count;
    memcpy(headers, r->headers, count * sizeof *headers);
    if (b->api_key)
        headers[count++] = (struct http_header){"X-API-KEY", b->api_key};
    if (*r->to.id) {
        headers[count++] = (struct http_header){"E2b-Sandbox-Id", r->to.id};
        headers[count++] = (struct http_header){"E2b-Sandbox-Port", port};
    }
    char *url auto_free = str_printf("%s%s", b->url, r->to.path);
    const struct http_fetch_opts opts = {.method = r->method,
                                         .url = url,
                                         .unix_socket = b->unix_socket,
                                         .ca_file = b->ca_file,
                                         .headers = headers,
                                         .header_count = count,
                                         .body = r->body,
                                         .body_len = r->body_len,
                                         .read_body = r->read_body,
                                         .body_total = r->body_total};
    return http_fetch_start(b->http, &opts, events, ctx);
}

void backend_explain(const struct backend *b, struct err *e)
{
    if (e->code != ERR_REFUSED && e->code != ERR_NOT_FOUND)
        return;
    struct err out = ERR_INIT;
    if (b->unix_socket)
        err_set(&out, ERR_UNAVAILABLE,
                "cubbyd does not run; any command that makes a sandbox starts it, such as cubby "
                "create");
    else
        err_set(&out, ERR_UNAVAILABLE, "%s does not answer; check that cubbyd runs there", b->url);
    *e = out;
}
