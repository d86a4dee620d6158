// SPDX-License-Identifier: Apache-2.0
// The proxy's own answers, as E2B's proxy words them: {"sandboxId","message","code"} and more.
#pragma once
#include "sandbox-backend/base/err.h"
#include "sandbox-backend/net/http_server.h"

struct sandbox;
struct store;

void proxy_error_reserved(struct http_request *req); // 404
// 502: there is no such sandbox, or it has ended; then "reason" and the message say why and when.
void proxy_error_gone(struct http_request *req, struct store *store, const char *id);
void proxy_error_ending(struct http_request *req, const struct sandbox *sb); // 502, it ends now
// 502: no connection to the port came about.
void proxy_error_port(struct http_request *req, const char *id, int port, const struct err *e);
// 502: the connection broke before the answer's head. The request may have been acted upon.
void proxy_error_broken(struct http_request *req, const char *id, const struct err *e);
void proxy_error_busy(struct http_request *req, const char *id); // 429
