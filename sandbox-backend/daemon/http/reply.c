// SPDX-License-Identifier: Apache-2.0
// Answers of the control plane.
#include "sandbox-backend/daemon/http/reply.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/sandbox_id.h"
#include "sandbox-backend/base/str.h"

#define JSON_TYPE "application/json; charset=utf-8"
#define HOME_NAME "$CUBBY_HOME"

static const char *hidden; // one a process, as there is one home

void reply_hide_home(const char *home)
{
    hidden = home;
}

// Errors of files and of the driver name paths, which the log needs. So only what leaves the daemon
// is changed.
void reply_hide(json_t *body)
{
    const char *message = json_string_value(json_object_get(body, "message"));
    if (!hidden || !message)
        return;
    char *text auto_free = str_replace(message, hidden, HOME_NAME);
    json_object_set_new(body, "message", json_lossy_string(text, strlen(text)));
}

void reply_json(struct http_request *req, int status, json_t *body)
{
    struct buf text auto_buf = BUF_INIT;
    reply_hide(body);
    json_to_buf(&text, body);
    json_decref(body);
    http_respond(req, status, JSON_TYPE, text.data, text.len);
}

void reply_empty(struct http_request *req)
{
    http_respond(req, 204, NULL, NULL, 0);
}

// The message may hold bytes of a peer, and may be cut in the middle of a character.
static void reply_message(struct http_request *req, int status, const char *code, const char *text)
{
    json_t *body =
        json_pack("{s:i, s:o}", "code", status, "message", json_lossy_string(text, strlen(text)));
    if (code)
        json_object_set_new(body, "error_code", json_string(code));
    reply_json(req, status, body);
}

void reply_error(struct http_request *req, int status, const char *code, const char *fmt, ...)
{
    char text[1024];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    reply_message(req, status, code, text);
}

void reply_err(struct http_request *req, const char *code, const struct err *e)
{
    char seconds[16];
    snprintf(seconds, sizeof seconds, "%d", e->retry_s);
    if (e->retry_s > 0)
        http_response_header(req, "Retry-After", seconds);
    if (!code)
        code = e->code == ERR_LIMIT ? "limit_reached" : e->code == ERR_BUSY ? "host_full" : NULL;
    reply_message(req, err_http_status(e->code), code, e->msg);
}

void reply_foreign(struct http_request *req, const char *id, const char *node)
{
    char *ours auto_free = node ? str_printf("is node \"%s\"", node) : xstrdup("has no --node");
    reply_error(req, 421, "wrong_node",
                "\"%.60s\" is of node \"%.*s\", but this cubbyd %s: the proxy in front must send "
                "it there (cubby fleet config), or that node does not run",
                id, (int)sandbox_id_node_len(id), id, ours);
}

void reply_moved(struct http_request *req, const char *id, const char *node)
{
    http_response_header(req, "Cubby-Node", node);
    reply_error(req, 425, "sandbox_moved",
                "sandbox \"%.60s\" was moved to node \"%s\": send requests to the proxy of the "
                "fleet, whose list must say then=%s or moved=%s for this node (cubby fleet config)",
                id, node, node, node);
}

static void on_client_gone(void *ctx)
{
    struct http_request **slot = ctx;
    *slot = NULL;
}

void reply_later(struct http_request *req, struct http_request **slot)
{
    *slot = req;
    http_request_on_close(req, on_client_gone, slot);
}

void reply_preflight(struct http_request *req)
{
    const char *headers = http_request_header(req, "Access-Control-Request-Headers");
    http_response_header(req, "Access-Control-Allow-Origin", "*");
    http_response_header(req, "Access-Control-Allow-Methods",
                         "HEAD, GET, POST, PUT, PATCH, DELETE");
    http_response_header(req, "Access-Control-Allow-Headers", headers ? headers : "*");
    http_response_header(req, "Access-Control-Max-Age", "7200");
    reply_empty(req);
}
