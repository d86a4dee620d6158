// SPDX-License-Identifier: Apache-2.0
// Answers over HTTP.
#include "mcp-server/web/web_answer.h"

#include <stdarg.h>
#include <stdio.h>

#include "mcp-server/protocol/jsonrpc.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/log/log.h"

#define JSON_TYPE "application/json"

int web_answer_status(const json_t *message, bool modern)
{
    static const struct {
        int code, status;
    } STATUS[] = {
        {RPC_PARSE_ERROR, 400},     {RPC_INVALID_REQUEST, 400},    {RPC_METHOD_NOT_FOUND, 404},
        {RPC_HEADER_MISMATCH, 400}, {RPC_MISSING_CAPABILITY, 400}, {RPC_UNSUPPORTED_VERSION, 400},
    };
    const json_t *error = modern ? json_object_get(message, "error") : NULL;
    json_int_t code = error ? json_integer_value(json_object_get(error, "code")) : 0;
    for (size_t i = 0; error && i < ARRAY_LEN(STATUS); i++)
        if (STATUS[i].code == code)
            return STATUS[i].status;
    return 200;
}

void web_answer_json(struct http_request *req, int status, const json_t *message,
                     struct buf *scratch)
{
    buf_clear(scratch);
    json_to_buf(scratch, message);
    http_respond(req, status, JSON_TYPE, scratch->data, scratch->len);
    web_scratch_done(scratch);
}

bool web_answer_error(struct http_request *req, int status, json_t *id, int code, json_t *data,
                      const char *fmt, ...)
{
    char text[ERR_MSG_BYTES];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    log_debug("http.refuse", "status=%d why=%s", status, text);
    struct buf scratch auto_buf = BUF_INIT;
    json_t *message = rpc_error(id, code, text, data);
    web_answer_json(req, status, message, &scratch);
    json_decref(message);
    return true;
}

void web_answer_refuse(int status, const char *message, struct buf *body, const char **type)
{
    (void)status;
    json_t *error = rpc_error(NULL, RPC_INVALID_REQUEST, message, NULL);
    json_to_buf(body, error);
    json_decref(error);
    *type = JSON_TYPE;
}

void web_answer_cors(struct http_request *req, const char *origin)
{
    http_response_header(req, "Access-Control-Allow-Origin", origin);
    http_response_header(req, "Access-Control-Expose-Headers",
                         "Mcp-Session-Id, WWW-Authenticate, Retry-After");
    http_response_header(req, "Vary", "Origin");
}

// Each request header of a page is listed, because "*" would not cover Authorization. Tools name
// the Mcp-Param-* headers, so the requested ones are granted too.
void web_answer_preflight(struct http_request *req)
{
    const char *asked = http_request_header(req, "Access-Control-Request-Headers");
    struct buf headers auto_buf = BUF_INIT;
    buf_adds(&headers, "Content-Type, Accept, Authorization, MCP-Protocol-Version, "
                       "Mcp-Session-Id, Mcp-Method, Mcp-Name, Last-Event-ID");
    if (asked)
        buf_printf(&headers, ", %s", asked);
    http_response_header(req, "Access-Control-Allow-Methods", "GET, POST, DELETE");
    http_response_header(req, "Access-Control-Allow-Headers", buf_str(&headers));
    http_response_header(req, "Access-Control-Max-Age", "7200");
    http_respond(req, 204, NULL, NULL, 0);
}
