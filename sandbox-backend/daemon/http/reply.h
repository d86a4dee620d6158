// SPDX-License-Identifier: Apache-2.0
// Answers of the daemon: E2B's JSON, and its error body {"code","message","error_code"}.
#pragma once
#include <jansson.h>

#include "sandbox-backend/base/err.h"
#include "sandbox-backend/net/http_server.h"

// From this call on, a "message" shows the path of the home as $CUBBY_HOME, as only users of the
// host may know it. The string is borrowed for as long as anything is answered.
void reply_hide_home(const char *home);
void reply_hide(json_t *body); // replace the path in a body that the calls below do not send

void reply_json(struct http_request *req, int status, json_t *body /* taken */);
void reply_empty(struct http_request *req); // 204
// `code` is a word for programs ("sandbox_ended"); NULL: no "error_code".
void reply_error(struct http_request *req, int status, const char *code, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
// Answer with an error; e->retry_s becomes Retry-After. With `code` NULL, ERR_LIMIT gives
// "limit_reached" and ERR_BUSY "host_full".
void reply_err(struct http_request *req, const char *code, const struct err *e);
// Answer 421: the id of this sandbox, snapshot or build is of another node than `node` (NULL: this
// daemon has no node name).
void reply_foreign(struct http_request *req, const char *id, const char *node);
// Answer 425: the sandbox was moved to this node. The proxy of a fleet then asks that node (425,
// because HAProxy repeats a request after that status, and programs in guests hardly use it).
void reply_moved(struct http_request *req, const char *id, const char *node);
// `req` is answered later. Set *slot to it, and to NULL when the client goes before that.
void reply_later(struct http_request *req, struct http_request **slot);
// Answer a browser's preflight request: every origin may send every header. That is safe because no
// request is authorized by a cookie.
void reply_preflight(struct http_request *req);
