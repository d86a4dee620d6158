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
void api_unavailable(struct store *store, struct http_request *req, const char *arg); // 501

// api_pause.c
void api_pause(struct store *store, struct http_request *req, const char *id);
void api_resume(struct store *store, struct http_request *req, const char *id);
void api_rollback(struct store *store, struct http_request *req, const char *id);
void api_connect_v1(struct store *store, struct http_request *req, const char *id);
void api_connect_v2(struct store *store, struct http_request *req, const char *id);

// api_fork.c, api_snapshots.c
void api_fork(struct store *store, struct http_request *req, const char *id);
void api_snapshot(struct store *store, struct http_request *req, const char *id);
void api_snapshots(struct store *store, struct http_request *req, const char *arg);
struct snapshot;
void api_snapshot_delete(struct store *store, struct http_request *req, struct snapshot *snap);

// api_ports.c
void api_expose(struct store *store, struct http_request *req, const char *id);
void api_ports(struct store *store, struct http_request *req, const char *id);
void api_unexpose(struct store *store, struct http_request *req, const char *id);

// api_network.c, api_metrics.c, api_logs.c
void api_network(struct store *store, struct http_request *req, const char *id);
void api_network_get(struct store *store, struct http_request *req, const char *id);
void api_metrics(struct store *store, struct http_request *req, const char *id);
void api_metrics_all(struct store *store, struct http_request *req, const char *arg);
void api_stats(struct store *store, struct http_request *req, const char *arg); // api_stats.c
void api_prometheus(struct store *store, struct http_request *req, const char *arg);
void api_logs_v1(struct store *store, struct http_request *req, const char *id);
void api_logs_v2(struct store *store, struct http_request *req, const char *id);

// api_templates.c
void api_templates(struct store *store, struct http_request *req, const char *arg);
void api_template(struct store *store, struct http_request *req, const char *name);
void api_template_delete(struct store *store, struct http_request *req, const char *name);
void api_alias(struct store *store, struct http_request *req, const char *alias);
void api_teams(struct store *store, struct http_request *req, const char *arg);
void api_pool(struct store *store, struct http_request *req, const char *arg);
void api_health(struct store *store, struct http_request *req, const char *arg);

// api_change.c: 404, telling a sandbox that has ended from one that never was.
void api_not_found(struct store *store, struct http_request *req, const char *id);
