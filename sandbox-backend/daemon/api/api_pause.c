// SPDX-License-Identifier: Apache-2.0
// POST pause, resume, connect and rollback of a sandbox.
#include <stdlib.h>

#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/daemon/api/api.h"
#include "sandbox-backend/daemon/api/body.h"
#include "sandbox-backend/daemon/http/api_keys.h"
#include "sandbox-backend/daemon/http/reply.h"
#include "sandbox-backend/daemon/sandbox/record.h"
#include "sandbox-backend/daemon/sandbox/sandbox.h"
#include "sandbox-backend/daemon/sandbox/store.h"
#include "sandbox-backend/daemon/sandbox/templates.h"
#include "sandbox-backend/daemon/sleep/pause.h"

#define CONNECT_S 300 // v2's default
#define RESUME_S  15

// These requests are granted even if their client goes.

// A pause decides whether the memory is kept, so a wake cannot leave it out.
static int check_memory(const struct sandbox *sb, const json_t *body, struct err *e)
{
    bool memory;
    if (json_get_bool(body, "memory", &memory, true, e) < 0)
        return -1;
    return memory || sb->disk_env
               ? 0
               : err_set(e, ERR_INVALID,
                         "memory: false is not available here: the sandbox was paused with its "
                         "memory; pause it with memory: false instead");
}

// The sandbox of `l` could not be paused, woken or rolled back.
static void reply_failed(struct api_later *l, const struct err *e)
{
    if (l->req)
        api_reply_moved(l->req, l->store, l->id, e);
    free(l);
}

// ---- pause
static void on_paused(struct sandbox *sb, const struct err *e, void *ctx)
{
    (void)sb;
    if (e) {
        reply_failed(ctx, e);
        return;
    }
    struct http_request *req = api_later_end(ctx);
    if (req)
        reply_empty(req);
}

// Read E2B's member "memory", and Cubby's own member "depth".
static int read_depth(const json_t *body, enum pause_depth *depth, struct err *e)
{
    const char *name = NULL;
    bool memory;
    if (body_check_members(body, "", e, "memory", "depth") < 0 ||
        json_get_bool(body, "memory", &memory, true, e) < 0 ||
        json_get_string(body, "depth", &name, memory ? "freeze" : NULL, e) < 0)
        return -1;
    if (!memory && name)
        return err_set(
            e, ERR_INVALID,
            "depth says how the memory is kept, so it cannot stand beside memory: false");
    *depth = PAUSE_DISK;
    if (!memory)
        return 0;
    *depth = str_eq(name, "hibernate") ? PAUSE_HIBERNATE : PAUSE_FREEZE;
    if (*depth == PAUSE_HIBERNATE || str_eq(name, "freeze"))
        return 0;
    return err_set(e, ERR_INVALID,
                   "depth must be freeze (the guest's memory stays in the host's memory, so a "
                   "resume is quick) or hibernate (it is saved to the disk)");
}

int api_pause(struct api_call *c, struct err *e)
{
    struct sandbox *sb = c->sb;
    enum pause_depth depth;
    if (read_depth(c->body, &depth, e) < 0 || driver_need(sb->facts.driver, DRIVER_PAUSES, e) < 0 ||
        (depth == PAUSE_DISK && driver_need(sb->facts.driver, DRIVER_DISK_IMAGES, e) < 0) ||
        (depth == PAUSE_DISK && templates_check(sb, e) < 0) ||
        (depth == PAUSE_HIBERNATE && driver_need(sb->facts.driver, DRIVER_SAVES, e) < 0) ||
        (sb->state == SANDBOX_RUNNING && sb->machine && machine_stands(sb->machine, e) < 0))
        return -1;
    bool deeper = sb->state == SANDBOX_PAUSED && depth == PAUSE_HIBERNATE && sb->machine;
    if (sb->state == SANDBOX_PAUSED && !deeper) {
        c->error_code = "sandbox_paused";
        return err_set(e, ERR_CONFLICT, "Sandbox \"%s\" is already paused", sb->id);
    }
    if (sb->state == SANDBOX_PAUSING && depth == PAUSE_DISK && !pause_is_disk(sb))
        return api_need_running(c, e);
    if (sb->state == SANDBOX_PAUSING && !sb->asleep) { // requests at once have one pause
        pause_join(sb, depth, on_paused, api_later_new(c));
        return 0;
    }
    if (!deeper && api_need_running(c, e) < 0)
        return -1;
    pause_begin(sb, depth, on_paused, api_later_new(c));
    return 0;
}

// ---- waking
static void extend(struct sandbox *sb, int64_t seconds)
{
    sandbox_extend_end(sb, seconds * 1000);
    record_write_or_log(sb);
    store_plan(sb->store);
}

static void on_woken(struct sandbox *sb, const struct err *e, void *ctx)
{
    struct api_later *l = ctx;
    if (e) {
        reply_failed(l, e);
        return;
    }
    extend(sb, l->seconds ? l->seconds : sb->timeout_ms / 1000);
    struct http_request *req = api_later_end(l);
    if (req)
        reply_json(req, 201, view_created(sb));
}

static void wake(const struct api_call *c, int64_t seconds)
{
    // Its time to live counts from the wake. With 0 it keeps the one that it was given last.
    if (c->sb->state != SANDBOX_RESUMING && seconds > 0)
        c->sb->timeout_ms = seconds * 1000;
    struct api_later *l = api_later_new(c);
    l->seconds = seconds;
    pause_wake(c->sb, on_woken, l);
}

// Read the seconds that the body asks for. With `fallback` -1 the body must have them.
static int read_seconds(const struct api_call *c, int64_t fallback, int64_t *out, struct err *e)
{
    if (json_get_int(c->body, "timeout", 0, INT64_MAX, out, fallback, e) < 0)
        return -1;
    if (*out < 0)
        return err_set(e, ERR_INVALID, "timeout is required, in whole seconds");
    return api_check_timeout(c->store, *out, e);
}

// A sandbox on its way to or from a pause is woken when that is over.
static bool may_be_woken(const struct sandbox *sb)
{
    return sb->state >= SANDBOX_PAUSING && sb->state <= SANDBOX_RESUMING;
}

int api_connect(struct api_call *c, struct err *e)
{
    int64_t seconds;
    bool wakes = may_be_woken(c->sb);
    if (read_seconds(c, c->v2 ? CONNECT_S : -1, &seconds, e) < 0 ||
        (wakes ? check_memory(c->sb, c->body, e) : api_need_running(c, e)) < 0)
        return -1;
    if (wakes) {
        wake(c, seconds);
        return 0;
    }
    extend(c->sb, seconds);
    reply_json(c->req, 200, view_created(c->sb));
    return 0;
}

int api_resume(struct api_call *c, struct err *e)
{
    int64_t seconds;
    bool auto_pause;
    if (json_get_bool(c->body, "autoPause", &auto_pause, c->sb->auto_pause, e) < 0 ||
        read_seconds(c, RESUME_S, &seconds, e) < 0 || check_memory(c->sb, c->body, e) < 0)
        return -1;
    if (c->sb->state == SANDBOX_RUNNING) {
        c->error_code = "sandbox_running";
        return err_set(e, ERR_CONFLICT, "Sandbox \"%s\" is already running", c->sb->id);
    }
    if (!may_be_woken(c->sb))
        return api_need_running(c, e);
    c->sb->auto_pause = auto_pause;
    wake(c, seconds);
    return 0;
}

// ---- rollback
static void on_rolled_back(struct sandbox *sb, const struct err *e, void *ctx)
{
    if (e) {
        reply_failed(ctx, e);
        return;
    }
    struct http_request *req = api_later_end(ctx);
    if (req)
        reply_json(req, 200, view_created(sb));
}

// For what was not found, do not advise to build a template.
static int only_a_snapshot(const struct store *store, const char *id, struct err *e)
{
    if (e->code != ERR_NOT_FOUND)
        return -1;
    *e = ERR_INIT;
    return templates_no_snapshot(store, id, e);
}

// Find a snapshot that the caller may use and that has the template and driver of the sandbox.
static int find_snapshot(const struct api_call *c, struct known_template *out, struct err *e)
{
    const struct sandbox *sb = c->sb;
    const char *owner = api_keys_caller(c->store->api_keys, c->req);
    const char *id = NULL;
    if (json_get_string(c->body, "snapshotID", &id, NULL, e) < 0)
        return -1;
    if (!id || !*id)
        return err_set(e, ERR_INVALID, "snapshotID is required");
    snapshots_look(&c->store->snapshots);
    if (templates_find_as(c->store, owner, id, NULL, out, e) < 0)
        return only_a_snapshot(c->store, id, e);
    if (!out->snapshot)
        return err_set(e, ERR_INVALID,
                       "'%.100s' is a template, not a snapshot; a sandbox can be rolled back to a "
                       "snapshot only",
                       id);
    if (!str_eq(out->name, sb->template))
        return err_set(e, ERR_INVALID,
                       "snapshot '%s' is of template '%s', and sandbox '%s' is of '%s'; create a "
                       "sandbox from it instead",
                       out->snapshot, out->name, sb->id, sb->template);
    if (out->facts.driver != sb->facts.driver)
        return err_set(e, ERR_INVALID,
                       "snapshot '%s' was made with driver '%s', and sandbox '%s' runs with '%s'; "
                       "create a sandbox from it instead",
                       out->snapshot, out->facts.driver->name, sb->id, sb->facts.driver->name);
    return 0;
}

// Check the image before the sandbox is touched.
static int check_image(const struct known_template *to, struct err *e)
{
    struct err why = ERR_INIT;
    if (to->facts.driver->image_check(to->image, to->dir, &to->size, &why) == 0)
        return 0;
    return err_set(e, ERR_INVALID,
                   "the rollback did not begin; the sandbox is unchanged: snapshot '%s' cannot be "
                   "used: %s",
                   to->snapshot, why.msg);
}

int api_rollback(struct api_call *c, struct err *e)
{
    struct known_template to = {0};
    int rc = find_snapshot(c, &to, e);
    if (rc == 0)
        rc = check_image(&to, e);
    else if (e->code == ERR_NOT_FOUND)
        c->error_code = "snapshot_not_found";
    if (rc == 0 && c->sb->state != SANDBOX_PAUSED)
        rc = api_need_running(c, e);
    if (rc == 0 && c->sb->disk_env)
        rc = err_set(e, ERR_CONFLICT,
                     "Sandbox \"%s\" was paused without its memory; resume it first", c->sb->id);
    if (rc == 0)
        pause_rollback(c->sb, &to, on_rolled_back, api_later_new(c));
    templates_fini(&to);
    return rc;
}
