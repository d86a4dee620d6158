// SPDX-License-Identifier: Apache-2.0
// Uploads of archives for builds: GET /templates/{}/files/{} gives a URL, PUT there streams to the
// disk.
#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/daemon/api/api.h"
#include "sandbox-backend/daemon/builds/builds.h"
#include "sandbox-backend/daemon/http/api_keys.h"
#include "sandbox-backend/daemon/http/reply.h"
#include "sandbox-backend/daemon/sandbox/store.h"

// ---- the URL
// The address under which this client reaches the daemon, maybe through a proxy that ends TLS.
static char *url_of(struct http_request *req, const char *token)
{
    const char *host = http_request_header(req, "Host");
    const char *proto = http_request_header(req, "X-Forwarded-Proto");
    bool tls = http_request_is_tls(req) || str_eq(proto, "https");
    return str_printf("%s://%s" API_UPLOADS "%s", tls ? "https" : "http",
                      host && *host ? host : "localhost", token);
}

int api_upload_link(struct api_call *c, struct err *e)
{
    struct builds *all = c->store->builds;
    const char *caller = api_keys_caller(c->store->api_keys, c->req);
    const char *hash = c->arg2;
    if (strlen(hash) != 64 || strspn(hash, "0123456789abcdef") != 64)
        return err_set(e, ERR_INVALID, "the hash must have 64 hexadecimal digits in lower case");
    // An upload belongs to a build that was requested.
    if (!builds_has_unfinished(c->store, caller, c->arg)) {
        c->error_code = "template_not_found";
        return err_set(e, ERR_NOT_FOUND, "there is no unfinished build of template '%.100s'",
                       c->arg);
    }
    const char *token = uploads_grant(&all->uploads, caller, c->arg, hash, e);
    if (!token)
        return -1;
    char *url auto_free = url_of(c->req, token);
    reply_json(
        c->req, 201,
        json_pack("{s:b, s:s}", "present", uploads_has(&all->uploads, c->arg, hash), "url", url));
    return 0;
}

// ---- the archive
static void on_data(struct http_request *req, const char *data, size_t len, void *ctx);
static void on_end(struct http_request *req, void *ctx);

static void on_client_gone(void *ctx)
{
    upload_cancel(ctx);
}

static void fail(struct http_request *req, const struct err *e)
{
    http_request_on_close(req, NULL, NULL);
    reply_err(req, NULL, e);
}

static void on_data(struct http_request *req, const char *data, size_t len, void *ctx)
{
    struct err e = ERR_INIT;
    if (upload_write(ctx, data, len, &e) == 0)
        return;
    upload_cancel(ctx);
    fail(req, &e);
}

static void on_end(struct http_request *req, void *ctx)
{
    struct err e = ERR_INIT;
    http_request_on_close(req, NULL, NULL);
    if (upload_end(ctx, &e) < 0)
        reply_err(req, NULL, &e);
    else
        http_respond(req, 200, NULL, NULL, 0);
}

int api_upload(struct api_call *c, struct err *e)
{
    static const struct http_body_events EVENTS = {.on_data = on_data, .on_end = on_end};
    struct upload *up =
        upload_begin(&c->store->builds->uploads, c->arg, http_request_length(c->req), e);
    if (!up)
        return -1;
    http_request_on_close(c->req, on_client_gone, up);
    http_request_stream(c->req, &EVENTS, up);
    return 0;
}
