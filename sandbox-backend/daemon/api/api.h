// SPDX-License-Identifier: Apache-2.0
// The control plane: E2B's REST API (its spec/openapi.yml) with Cubby's extensions.
//
// api.c has the table of methods, paths and handlers. Before it calls a handler it does what the
// route's row says: find the sandbox, collect a small body, wake the sandbox if it is asleep.
#pragma once
#include <jansson.h>
#include <stdbool.h>

#include "sandbox-backend/base/err.h"
#include "sandbox-backend/base/sandbox_id.h"
#include "sandbox-backend/net/http_server.h"

struct sandbox;
struct snapshot;
struct store;

#define API_UPLOADS "/uploads/"       // PUT of an archive for a build; a token follows
#define API_VOLUMES "/volumecontent/" // the files of a volume, whose id follows

#define API_NODE_DRAINING "node_draining" // error_code of what would make something that stays

// Answer `req`, now or later.
void api_request(struct store *store, struct http_request *req);

// A request as its handler gets it; borrowed for the call.
struct api_call {
    struct store *store;
    struct http_request *req;
    const char *arg;        // the path segment at {}; "" without one
    const char *arg2;       // the segment at the second {}; "" without one
    struct sandbox *sb;     // of API_SANDBOX and API_CHANGE, in any known state
    const json_t *body;     // of API_CHANGE and API_BODY: an object, NULL when there is none
    bool v2;                // the path begins with /v2/
    const char *error_code; // for an answer with `e`: a word for programs; NULL: as reply_err
};
// Return 0 when the request is answered or will be; else -1 with `e`, which is then the answer.
typedef int api_handler(struct api_call *c, struct err *e);

api_handler api_create;                                                           // api_create.c
api_handler api_list;                                                             // api_list.c
api_handler api_get, api_kill, api_timeout, api_refresh;                          // api_sandbox.c
api_handler api_pause, api_resume, api_rollback, api_connect;                     // api_pause.c
api_handler api_fork, api_snapshot, api_snapshots;                                // api_snapshots.c
api_handler api_expose, api_ports, api_unexpose;                                  // api_ports.c
api_handler api_mount, api_mounts, api_unmount;                                   // api_mounts.c
api_handler api_network, api_network_get;                                         // api_network.c
api_handler api_stats, api_prometheus, api_metrics, api_metrics_all;              // api_stats.c
api_handler api_record;                                                           // api_record.c
api_handler api_logs;                                                             // api_logs.c
api_handler api_templates, api_template, api_template_delete;                     // api_templates.c
api_handler api_alias, api_teams, api_pool, api_no_feature;                       // api_templates.c
api_handler api_health, api_drain, api_undrain;                                   // api_health.c
api_handler api_move, api_move_end, api_moved, api_arrive;                        // api_move.c
api_handler api_build_request, api_build_start, api_build_status, api_build_logs; // api_builds.c
api_handler api_build_end, api_template_publish;                                  // api_builds.c
api_handler api_upload_link, api_upload;                                          // api_uploads.c
api_handler api_tags, api_tags_assign, api_tags_remove;                           // api_tags.c
api_handler api_volumes, api_volume_make, api_volume, api_volume_remove;          // api_volumes.c
api_handler api_volume_stat, api_volume_change, api_volume_delete; // api_volume_content.c
api_handler api_volume_list, api_volume_make_dir;                  // api_volume_content.c
api_handler api_volume_download, api_volume_upload;                // api_volume_content.c
api_handler api_key_list, api_key_make, api_key_remove;            // api_key_admin.c
api_handler api_team_metrics, api_team_metrics_max;                // api_team_metrics.c
api_handler api_secrets, api_secret_make, api_secret;              // api_secrets.c
api_handler api_secret_change, api_secret_remove;                  // api_secrets.c
api_handler api_events;                                            // api_events.c
api_handler api_webhooks, api_webhook_make, api_webhook;           // api_webhooks.c
api_handler api_webhook_change, api_webhook_remove;                // api_webhooks.c

// api_builds.c: answer DELETE /templates/{} of a name that was built through the API.
int api_build_delete(struct api_call *c, struct err *e);
// Set the error that a name is unknown, or that the caller may not change it.
int api_check_owner(struct api_call *c, const char *name, struct err *e);

// api_record.c: write a line about a request that changes c->sb into its call log. `pattern` is
// that of the route.
void api_note_change(const struct api_call *c, const char *method, const char *pattern);

// api_absent.c: answer a request for a part of E2B's API that this daemon does not have. Return
// false if the path is no part of it.
bool api_absent(struct http_request *req);

// api_snapshots.c: answer DELETE /templates/{} of a snapshot.
int api_snapshot_delete(struct api_call *c, struct snapshot *snap, struct err *e);

// ---- for handlers

// Return the sandbox with this id if the sender of `req` may see it; NULL after a 404, which tells
// a sandbox that has ended from one that never existed.
struct sandbox *api_find(struct store *store, struct http_request *req, const char *id);
// Check that the sandbox is not being moved to another node, for a request that changes it.
int api_check_stays(struct api_call *c, struct err *e);
// Check that the sandbox runs; the error says its state.
int api_need_running(struct api_call *c, struct err *e);
// Check a time to live.
int api_check_timeout(const struct store *store, int64_t seconds, struct err *e);
// Answer that the sandbox `id` could not be paused, woken or rolled back.
void api_reply_moved(struct http_request *req, struct store *store, const char *id,
                     const struct err *e);

// A request that is answered later.
struct api_later {
    struct store *store;
    struct http_request *req;    // NULL once the client has gone
    int64_t seconds;             // the handler's
    char id[SANDBOX_ID_MAX + 1]; // of the sandbox; "" without one
};
struct api_later *api_later_new(const struct api_call *c);
struct http_request *api_later_end(struct api_later *l); // free it, and return its request
int api_later_cancel(struct api_later *l); // free it: the handler answers now. Return -1

// ---- view.c: a sandbox as the API shows it. New references.
json_t *view_created(const struct sandbox *sb); // E2B's Sandbox: the answer to connect
// The answer to create: E2B's Sandbox, and why it took long when it did.
json_t *view_new(const struct sandbox *sb);
json_t *view_detail(const struct sandbox *sb); // SandboxDetail
json_t *view_listed(const struct sandbox *sb); // ListedSandbox
