// SPDX-License-Identifier: Apache-2.0
// Builds of templates through the API (E2B's template builder). A build is the daemon's, not a
// request's: it goes on when its client leaves.
//
//   POST /v3/templates ──▶ WAITING ── POST …/builds/{id} ──▶ QUEUED ──▶ RUNNING ──▶ READY
//                             │ an hour, or a stop             │           │
//                             └──────────────────────────────▶ FAILED ◀────┘
//
// A running build is a process: `cubby template build <template> --plan FILE --json` (engine.h). It
// uses this daemon's API as any client on the unix socket does, so its steps run in sandboxes with
// all walls. Its template becomes usable when built_names_add_build has written the tags.
//
//   <home>/builds/<id>/
//     build.json    the record; written at each change of the state
//     plan.json     the plan, from the start on
//     auth.json     credentials for the registry, mode 0600, removed when the build ends
//     log.jsonl     the log (build_log.h)
//     stderr        what the process wrote there
//     files/        the uploads that the plan needs, as hard links
//
// At most `running_max` builds run at once; others are queued in order. A key has at most as many
// unfinished builds as keys.json allows. When the daemon is stopped it ends its builds. When it is
// killed, the kernel kills them, and the next daemon marks them as failed; a queued build is still
// queued then. Records of ended builds are kept for a week.
//
// A build that no tag points to is removed when no sandbox and no snapshot needs its template.
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include <uv.h>

#include "sandbox-backend/base/err.h"
#include "sandbox-backend/base/sandbox_id.h"
#include "sandbox-backend/daemon/builds/build_log.h"
#include "sandbox-backend/daemon/builds/uploads.h"
#include "sandbox-backend/net/deadline.h"

#define BUILD_UUID_CHARS   36
#define BUILD_ID_MAX       (NODE_NAME_MAX + 1 + BUILD_UUID_CHARS)
#define BUILDS_WAIT_NS     (3600LL * 1000000000)
#define BUILDS_KEEP_NS     (7LL * 24 * 3600 * 1000000000)
#define BUILDS_KEPT        2000 // ended builds; older ones are forgotten first
#define BUILDS_ALLOWED_KEY 4    // unfinished builds of a key that only --allow-builds permits

struct store;
struct engine;

enum build_state { BUILD_WAITING, BUILD_QUEUED, BUILD_RUNNING, BUILD_READY, BUILD_FAILED };

struct build {
    TAILQ_ENTRY(build) link;
    struct builds *all;
    char id[BUILD_ID_MAX + 1];
    char *dir;      // owned; <home>/builds/<id>
    char *name;     // owned; of the template, as callers know it
    char *template; // owned; its directory in <home>/templates
    char *owner;    // owned; the key's name; NULL: the operator
    json_t *tags;   // owned; array of strings
    enum build_state state;
    char *reason, *reason_step; // owned; of a failure
    int cpus;                   // 0: the base's
    int64_t memory_mb, disk_mb; // the same
    int64_t created_ns, changed_ns, finished_ns;
    int64_t bytes; // of a ready template
    int steps;     // of E2B's
    struct build_log log;
    struct engine *engine;   // owned; while RUNNING
    const char *stop_reason; // static; the build is being ended, because of this
};
TAILQ_HEAD(build_list, build);

struct builds_opts {
    bool allow_keys;                   // keys without max_builds may build
    int64_t running_max;               // builds that run at once
    int64_t upload_bytes, space_bytes; // of one upload; of all uploads
    const char
        *registries; // comma separated HOST[:PORT], which may have private addresses; or NULL
};

struct builds {
    struct store *store; // borrowed
    struct builds_opts opts;
    char *dir;              // owned; <home>/builds
    struct build_list list; // the newest first
    size_t count, running;
    struct uploads uploads;
    struct deadline timer; // for what happens by time
    bool stopping;
};

// Read the records of earlier builds; store->builds is then set. Nothing starts before
// builds_resume.
int builds_open(struct store *store, const struct builds_opts *opts, struct err *e);
void builds_resume(struct store *store); // the daemon serves: start what was queued
void builds_close(struct store *store);  // end what runs; the handles close in the loop's turns
void builds_fini(struct store *store);   // after the loop has ended

// Check that the caller (NULL: the operator) may build. ERR_DENIED says what the operator can do.
int builds_check_right(const struct store *store, const char *caller, struct err *e);

struct build_request {
    const char *caller, *name; // borrowed
    const json_t *tags;        // borrowed; array of valid tags, not empty
    int cpus;                  // 0: the base's
    int64_t memory_mb, disk_mb;
};
// Make a build in the state WAITING. ERR_DENIED: the name is another's. ERR_LIMIT: of unfinished
// builds, or of the key's disk space.
struct build *builds_request(struct store *store, const struct build_request *r, struct err *e);
// Start a waiting build by the body of E2B's request (plan.h).
int builds_start(struct build *b, const json_t *body, struct err *e);
// A start was refused: end the build as failed, so that it no longer counts as unfinished. Nothing
// happens to a build that was started before.
void builds_refuse(struct build *b, const char *reason);

// Return the build if the caller owns it, or NULL. `name` may be NULL: any.
struct build *builds_find(const struct store *store, const char *caller, const char *name,
                          const char *id);
// Return entries of the log, as build_log_read does. New reference.
json_t *builds_log(struct build *b, size_t from, size_t limit, enum build_level least);
// Return whether an unfinished build of this name belongs to the caller.
bool builds_has_unfinished(const struct store *store, const char *caller, const char *name);
// End a build; an ended one stays as it is. `reason` is static.
void builds_end(struct build *b, const char *reason);
// End the unfinished builds of a name. `reason` is static.
void builds_end_all(struct store *store, const char *name, const char *reason);
// Remove the builds that no tag points to and nobody needs.
void builds_collect(struct store *store);
// Remove a name with all its builds. ERR_CONFLICT: a sandbox or a snapshot needs one of them.
int builds_remove_name(struct store *store, const char *name, struct err *e);

const char *build_state_name(enum build_state state); // E2B's: waiting, building, ready, error
