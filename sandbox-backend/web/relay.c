// SPDX-License-Identifier: Apache-2.0
#include "sandbox-backend/web/relay.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/limits.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

// A script of the page reads what sandboxes contain. A browser must never show it as a page of
// this origin.
#define SEALED "sandbox; default-src 'none'"

struct relay {
    const struct backend *backend;
    struct http_request *req; // NULL once the client has gone
    struct http_fetch *fetch;
    char *file;     // owned; NULL: none
    struct buf out; // of the request's body, and not sent yet
    bool sent_all;  // the client's body is complete
    bool upload_waits, client_waits;
    bool has_begun; // the head of the answer has been sent
};

static void relay_free(struct relay *r)
{
    buf_fini(&r->out);
    free(r->file);
    free(r);
}

// ---- the request

static void resume_upload(struct relay *r)
{
    if (r->upload_waits && r->fetch) {
        r->upload_waits = false;
        http_fetch_resume_upload(r->fetch);
    }
}

static void on_body_data(struct http_request *req, const char *data, size_t len, void *ctx)
{
    struct relay *r = ctx;
    buf_add(&r->out, data, len);
    if (r->out.len > LIMIT_STREAM_QUEUE_BYTES) {
        r->client_waits = true;
        http_request_pause(req);
    }
    resume_upload(r);
}

static void on_body_end(struct http_request *req, void *ctx)
{
    (void)req;
    struct relay *r = ctx;
    r->sent_all = true;
    resume_upload(r);
}

static ssize_t read_body(void *into, size_t room, void *ctx)
{
    struct relay *r = ctx;
    size_t len = r->out.len < room ? r->out.len : room;
    if (!len && !r->req)
        return HTTP_READ_ABORT;
    if (!len && !r->sent_all) {
        r->upload_waits = true;
        return HTTP_READ_PAUSE;
    }
    if (!len)
        return 0;
    memcpy(into, r->out.data, len);
    buf_consume(&r->out, len);
    if (r->client_waits && r->req && r->out.len <= LIMIT_STREAM_QUEUE_BYTES / 2) {
        r->client_waits = false;
        http_request_resume(r->req);
    }
    return (ssize_t)len;
}

// ---- the answer

static void on_drain(void *ctx)
{
    struct relay *r = ctx;
    if (r->fetch)
        http_fetch_resume_download(r->fetch);
}

static void on_client_gone(void *ctx)
{
    struct relay *r = ctx;
    r->req = NULL;
    http_fetch_cancel(r->fetch); // on_end follows
}

static int64_t length_of(int status, const struct http_header *headers, size_t count)
{
    int64_t length = -1;
    const char *declared = http_header_get(headers, count, "Content-Length");
    if (declared && str_to_int(declared, 0, INT64_MAX, &length))
        return length;
    return status == 204 || status == 304 ? 0 : -1;
}

static void add_download_headers(struct relay *r)
{
    char *value auto_free = str_printf("attachment; filename*=UTF-8''%s", r->file);
    http_response_header(r->req, "Content-Disposition", value);
    http_response_header(r->req, "Content-Type", "application/octet-stream");
}

static void on_head(int status, const struct http_header *headers, size_t count, const char *url,
                    void *ctx)
{
    (void)url;
    static const char *const PASSED[] = {"Content-Type", "X-Next-Token", "Retry-After"};
    struct relay *r = ctx;
    if (!r->req)
        return;
    bool saves = r->file && status == 200;
    for (size_t i = saves ? 1 : 0; i < ARRAY_LEN(PASSED); i++) {
        const char *value = http_header_get(headers, count, PASSED[i]);
        if (value)
            http_response_header(r->req, PASSED[i], value);
    }
    if (saves)
        add_download_headers(r);
    http_response_header(r->req, "Content-Security-Policy", SEALED);
    http_response_on_drain(r->req, on_drain, r);
    r->has_begun = true;
    http_response_begin(r->req, status, length_of(status, headers, count));
}

static bool on_data(const char *data, size_t len, void *ctx)
{
    struct relay *r = ctx;
    if (!r->req)
        return true;
    if (http_response_unsent(r->req) > LIMIT_STREAM_QUEUE_BYTES)
        return false;
    http_response_write(r->req, data, len);
    return true;
}

static void on_end(const struct err *e, void *ctx)
{
    struct relay *r = ctx;
    struct http_request *req = r->req;
    struct err why = e ? *e : ERR_INIT;
    r->fetch = NULL;
    if (e)
        backend_explain(r->backend, &why);
    if (req)
        http_request_on_close(req, NULL, NULL);
    if (req && !e)
        http_response_end(req);
    else if (req && r->has_begun)
        http_response_abort(req);
    else if (req)
        http_respond_error(req, err_http_status(why.code), "%s", why.msg);
    relay_free(r);
}

void relay_start(const struct backend *b, struct http_request *req,
                 const struct backend_target *target, const char *token, const char *file)
{
    static const struct http_fetch_events EVENTS = {on_head, on_data, on_end, NULL};
    static const struct http_body_events BODY = {on_body_data, on_body_end};
    static const char *const PASSED[] = {"Content-Type", "Connect-Protocol-Version",
                                         "X-Access-Token", "Authorization"};
    struct relay *r = xcalloc(1, sizeof *r);
    struct backend_request want = {.method = http_request_method(req), .to = *target};
    int64_t length = http_request_length(req);
    r->backend = b;
    r->req = req;
    r->file = file ? xstrdup(file) : NULL;
    for (size_t i = 0; i < ARRAY_LEN(PASSED); i++)
        backend_header(&want, PASSED[i], http_request_header(req, PASSED[i]));
    if (token)
        backend_header(&want, "X-Access-Token", token);
    if (length != 0) {
        want.read_body = read_body;
        want.body_total = length;
    }
    http_request_on_close(req, on_client_gone, r);
    r->fetch = backend_fetch(b, &want, &EVENTS, r);
    if (length != 0)
        http_request_stream(req, &BODY, r);
}
