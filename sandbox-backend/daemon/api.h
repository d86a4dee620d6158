// SPDX-License-Identifier: Apache-2.0
// The control plane: E2B's REST API (reference: its spec/openapi.yml), and the table that joins
// methods and paths to handlers.
#pragma once
#include <stdbool.h>

#include "sandbox-backend/net/http_server.h"

struct store;

// Answers `req`, now or later.
void api_request(struct store *store, struct http_request *req);

// ---- the handlers. `arg` is what stood at {} in the path; borrowed for the call.
typedef void (*api_handler)(struct store *store, struct http_request *req, const char *arg);

// api_create.c
void api_create_v1(struct store *store, struct http_request *req, const char *arg);
void api_create_v2(struct store *store, struct http_request *req, const char *arg);

// api_list.c
void api_list_v1(struct store *store, struct http_request *req, const char *arg);
void api_list_v2(struct store *store, struct http_request *req, const char *arg);

// api_sandbox.c
void api_get(struct store *store, struct http_request *req, const char *id);
void api_kill(struct store *store, struct http_request *req, const char *id);
void api_timeout(struct store *store, struct http_request *req, const char *id);
void api_refresh(struct store *store, struct http_request *req, const char *id);
void api_connect_v1(struct store *store, struct http_request *req, const char *id);
void api_connect_v2(struct store *store, struct http_request *req, const char *id);
void api_unavailable(struct store *store, struct http_request *req, const char *id); // 501

// api_templates.c
void api_templates(struct store *store, struct http_request *req, const char *arg);
void api_alias(struct store *store, struct http_request *req, const char *alias);
void api_health(struct store *store, struct http_request *req, const char *arg);

// 404, telling a sandbox that has ended from one that never was.
void api_not_found(struct store *store, struct http_request *req, const char *id);
