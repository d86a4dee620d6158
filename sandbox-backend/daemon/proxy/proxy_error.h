// SPDX-License-Identifier: Apache-2.0
// Answers of the proxy itself, as E2B's proxy words them: {"sandboxId","message","code"} and more,
// with "error_code" for Cubby's programs. A browser that shows a page gets HTML. `code` is the
// status as a number, also for envd's RPCs: the SDKs then go by the status and keep the message,
// and their health check expects a 502.
#pragma once
#include "sandbox-backend/base/err.h"
#include "sandbox-backend/net/http_server.h"

struct sandbox;
struct store;

// Answer {"sandboxId": id, "message", "code": status, "error_code": code}; `id` and `code` may be
// NULL.
void proxy_error(struct http_request *req, int status, const char *id, const char *code,
                 const char *fmt, ...) __attribute__((format(printf, 5, 6)));

void proxy_error_reserved(struct http_request *req, const char *path); // 404
// 502: the sandbox does not exist; or it has ended ("reason" and the message say why and when); or
// it is paused, and no request wakes it.
void proxy_error_gone(struct http_request *req, struct store *store, const char *id);
void proxy_error_ending(struct http_request *req,
                        const struct sandbox *sb); // 502: it is being ended
// 409 "sandbox_in_transition": the sandbox is between two states. The request was not passed on, so
// it may be sent again.
void proxy_error_transition(struct http_request *req, const struct sandbox *sb);
// The sandbox was not woken. 403: not allowed; 409: it is being paused; 429 or 503: no room; 502:
// the wake failed, or the sandbox has ended meanwhile.
void proxy_error_wake(struct http_request *req, struct store *store, const char *id,
                      const struct err *e);
// 502: the port does not answer, or the machine has ended and the reason is not known yet. 429: the
// guest has too many connections.
void proxy_error_port(struct http_request *req, const char *id, int port, const struct err *e);
// 503 "kernel_starting": the sandbox has a Python kernel, but nothing listens on its port. The SDKs
// would take a 502 for the sandbox's timeout.
void proxy_error_kernel(struct http_request *req, const char *id);
