// SPDX-License-Identifier: Apache-2.0
// Answers over HTTP: a message as JSON, and a refusal as a JSON-RPC error.
#pragma once
#include <jansson.h>
#include <stdbool.h>

#include "mcp-server/web/web_head.h"
#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/net/http_server.h"

#define WEB_RETRY_AFTER "5" // seconds, when a limit is reached

// Return the status for an answer. In the modern era it follows the error's code. In the legacy era
// it is always 200, where 404 would mean that the session is gone (MCP, basic/transports).
int web_answer_status(const json_t *message, bool modern);

// `scratch` is cleared and used.
void web_answer_json(struct http_request *req, int status, const json_t *message,
                     struct buf *scratch);
// `id` is borrowed, NULL when it is not known; `data` is taken over, NULL for none. Always true:
// the request was answered.
bool web_answer_error(struct http_request *req, int status, json_t *id, int code, json_t *data,
                      const char *fmt, ...) __attribute__((format(printf, 6, 7)));
// As http_server_opts.refuse.
void web_answer_refuse(int status, const char *message, struct buf *body, const char **type);

// Let the page at `origin` read the answer.
void web_answer_cors(struct http_request *req, const char *origin);
// Answer a CORS preflight: whether a page may send its request (Fetch).
void web_answer_preflight(struct http_request *req);

#define WEB_SCRATCH_KEEP ((size_t)64 << 10)

// A buffer that serves one message after another (`scratch`) gives large memory back after use.
static inline void web_scratch_done(struct buf *scratch)
{
    if (scratch->cap > WEB_SCRATCH_KEEP)
        buf_fini(scratch);
}
