// SPDX-License-Identifier: Apache-2.0
// The proxy's own answers, as E2B's proxy words them: {"sandboxId","message","code"} and more, with
// "error_code" for programs of ours. A browser that shows a page gets one. `code` is the status as
// a number, also for envd's RPCs: the SDKs then go by the status and keep the message, and their
// health check wants a 502.
#pragma once
#include "sandbox-backend/base/err.h"
#include "sandbox-backend/net/http_server.h"

struct sandbox;
struct store;

void proxy_error_reserved(struct http_request *req, const char *path); // 404
// 502: there is no such sandbox; or it has ended, and then "reason" and the message say why and
// when; or it is paused, and no request wakes it.
void proxy_error_gone(struct http_request *req, struct store *store, const char *id);
void proxy_error_ending(struct http_request *req, const struct sandbox *sb); // 502, it ends now
// 409 "sandbox_in_transition": it is between two states, and the request came too late or too
// early. It has not been passed on, so it may be sent again.
void proxy_error_transition(struct http_request *req, const char *id, const char *state);
// 403: it may not be woken, 409: it is being paused, 429 or 503: there is no room for it, 502: that
// failed, or it has ended meanwhile.
void proxy_error_wake(struct http_request *req, struct store *store, const char *id,
                      const struct err *e);
// The host name that led here is not of this daemon's domain.
void proxy_error_domain(struct http_request *req, const char *id, const char *domain);
void proxy_error_traffic(struct http_request *req, const char *id); // 403: no traffic token
// 502: no connection to the port came about, or the machine has ended and nobody knows how yet.
void proxy_error_port(struct http_request *req, const char *id, int port, const struct err *e);
// 503 "kernel_starting": nothing listens at the kernel's port, though the sandbox has a kernel. The
// SDKs would take a 502 for the sandbox's timeout.
void proxy_error_kernel(struct http_request *req, const char *id);
// 502: the connection broke before the answer's head. The request may have been acted upon.
void proxy_error_broken(struct http_request *req, const char *id, const struct err *e);
void proxy_error_unanswered(struct http_request *req, const char *id); // the same: it was paused
// What an exposed port refuses before anything is told of its sandbox; `code` is "error_code".
void proxy_error_port_refused(struct http_request *req, int status, const char *code,
                              const char *message);
void proxy_error_busy(struct http_request *req, const char *id); // 429
