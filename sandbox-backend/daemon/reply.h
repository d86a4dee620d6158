// SPDX-License-Identifier: Apache-2.0
// Answers of the control plane: E2B's JSON, and its error body {"code","message","error_code"}.
#pragma once
#include <jansson.h>

#include "sandbox-backend/base/err.h"
#include "sandbox-backend/net/http_server.h"

// From now on a "message" shows this directory, which nobody but the host's users is to know, as
// $CUBBY_HOME. The string is borrowed, for as long as anything is answered.
void reply_hide_home(const char *home);
void reply_hide(json_t *body); // does so, for what is not sent by the calls below

void reply_json(struct http_request *req, int status, json_t *body /* taken */);
void reply_empty(struct http_request *req); // 204
// `code` is a word for programs ("sandbox_ended"); NULL leaves "error_code" out.
void reply_error(struct http_request *req, int status, const char *code, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
// With e->retry_s as Retry-After. Without a code, what is full says so: "limit_reached",
// "host_full".
void reply_err(struct http_request *req, const char *code, const struct err *e);
// What a browser asks before it asks: every origin may, with the headers that it names. Nothing
// here goes by cookies, so that gives nobody anything.
void reply_preflight(struct http_request *req);
