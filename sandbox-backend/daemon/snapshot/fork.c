// SPDX-License-Identifier: Apache-2.0
// Forks. See snapshot.h for the steps.
#include "sandbox-backend/daemon/snapshot/snapshot.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>
#include <sys/stat.h>
#include <uv.h>

#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/fault.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/daemon/sandbox/create.h"
#include "sandbox-backend/daemon/sandbox/ending.h"
#include "sandbox-backend/daemon/sandbox/files.h"
#include "sandbox-backend/daemon/sandbox/lifecycle.h"
#include "sandbox-backend/daemon/sandbox/sandbox.h"
#include "sandbox-backend/daemon/sandbox/store.h"
#include "sandbox-backend/daemon/sandbox/templates.h"
#include "sandbox-backend/log/log.h"

#define UNIQUE_BYTES 8
#define AT_ONCE_MIN  2 // so that one computes while the other waits for the disk or its guest
#define AT_ONCE_MAX  8
#define MIB          (1024.0 * 1024)

struct child {
    struct forking *f;           // borrowed
    struct sandbox *sb;          // borrowed; NULL unless it is being created
    char id[SANDBOX_ID_MAX + 1]; // once it is created; else ""
};

struct forking {
    struct store *store;             // borrowed
    char parent[SANDBOX_ID_MAX + 1]; // an id, because the parent may end before the fork
    struct create_spec spec;         // owned, with all its strings
    char *owner, *mask_request_host; // owned
    char *dir;                       // owned; the image's directory
    struct child *children;          // owned
    size_t count, started, decided, made;
    size_t at_once;
    int64_t timeout_s;
    struct deadline turn; // starts children, and ends the fork
    struct machine_saved saved;
    struct err err; // why no child can be created
    int64_t start_ms;
    bool imaged, abandoned;
    enum mounts_kept mounts;
    const struct fork_events *events; // borrowed
    void *ctx;
};

static void on_image(const struct sandbox *sb, const struct machine_saved *saved, json_t *disk_env,
                     const struct err *e, void *ctx);
static void on_turn(struct deadline *d);
static void start_child(struct child *c);
static void on_child(struct sandbox *sb, const struct err *e, void *ctx);
static void end(struct forking *f);
static void on_cleaned(void *ctx);
static void on_turn_closed(struct deadline *d);

// The name that cubby-mcp's create_sandbox gives: it is that of one sandbox.
#define NAME_KEY "cubby-name"

// Fill the create_spec that all children share.
static void inherit(struct forking *f, const struct sandbox *sb)
{
    struct create_spec *spec = &f->spec;
    f->owner = sb->owner ? xstrdup(sb->owner) : NULL;
    f->mask_request_host = sb->mask_request_host ? xstrdup(sb->mask_request_host) : NULL;
    *spec = (struct create_spec){.owner = f->owner,
                                 .parent = f->parent,
                                 .timeout_s = f->timeout_s,
                                 .metadata = json_deep_copy(sb->metadata),
                                 .mask_request_host = f->mask_request_host,
                                 .secure = sb->token,
                                 .traffic_needs_token = sb->traffic_token,
                                 .auto_pause = sb->auto_pause,
                                 .auto_pause_disk = sb->auto_pause_disk,
                                 .auto_resume = sb->auto_resume,
                                 .sliding = sb->sliding,
                                 .idle = sb->idle.policy};
    json_object_del(spec->metadata, NAME_KEY);
    net_policy_copy(&spec->policy, &sb->policy);
    spec->mounts = sb->store->hooks->mounts_inherit(sb, f->mounts);
    spec->secrets = json_incref(sb->secrets); // the image's processes have these placeholders
    spec->template =
        (struct known_template){.name = xstrdup(sb->template),
                                .dir = templates_dir(sb->store, sb->template, sb->build),
                                .build = sb->build ? xstrdup(sb->build) : NULL,
                                .snapshot = sb->snapshot ? xstrdup(sb->snapshot) : NULL,
                                .image = xstrdup(f->dir),
                                .token = sb->token ? xstrdup(sb->token) : NULL,
                                .masks = masks_to_json(&sb->calls->own),
                                .size = sb->size,
                                .facts = sb->facts};
}

struct forking *fork_start(struct sandbox *sb, const struct fork_wish *wish,
                           const struct fork_events *events, void *ctx, struct err *e)
{
    if (driver_need(sb->facts.driver, DRIVER_SAVES, e) < 0 || templates_check(sb, e) < 0)
        return NULL;
    char *unique auto_free = random_hex(UNIQUE_BYTES);
    char *dir auto_free = snapshot_hidden(&sb->store->snapshots, "fork", unique);
    FAULT("fork.1");
    if (mkdir(dir, 0700) < 0) {
        err_sys(e, errno, "make the directory %s", dir);
        return NULL;
    }
    struct forking *f = xcalloc(1, sizeof *f);
    *f = (struct forking){.store = sb->store,
                          .dir = steal(&dir),
                          .count = (size_t)wish->count,
                          .timeout_s = wish->timeout_s,
                          .mounts = wish->mounts,
                          .at_once = MIN(MAX(uv_available_parallelism(), AT_ONCE_MIN), AT_ONCE_MAX),
                          .start_ms = clock_mono_ms(),
                          .events = events,
                          .ctx = ctx};
    memcpy(f->parent, sb->id, sizeof f->parent);
    f->children = xcalloc(f->count, sizeof *f->children);
    for (size_t i = 0; i < f->count; i++)
        f->children[i].f = f;
    deadline_init(&f->turn, sb->store->loop, on_turn);
    FAULT("fork.2");
    saving_start(sb, f->dir, SAVE_IN_PASSING, on_image, f);
    return f;
}

static void on_image(const struct sandbox *sb, const struct machine_saved *saved, json_t *disk_env,
                     const struct err *e, void *ctx)
{
    struct forking *f = ctx;
    inherit(f, sb);
    f->spec.template.disk_env = json_incref(disk_env);
    FAULT("fork.3");
    f->imaged = true;
    if (e)
        f->err = *e;
    else
        f->saved = *saved;
    deadline_arm(&f->turn, 0);
}

// ---- the children
static void on_turn(struct deadline *d)
{
    struct forking *f = container_of(d, struct forking, turn);
    bool more = !err_is(&f->err) && !f->abandoned;
    if (!f->imaged)
        return;
    while (more && f->started < f->count && f->started - f->decided < f->at_once)
        start_child(&f->children[f->started++]);
    if (f->decided == f->started && (!more || f->started == f->count))
        end(f);
}

static void decide_child(struct child *c, const struct sandbox *sb, const struct err *e)
{
    struct forking *f = c->f;
    f->decided++;
    f->made += sb != NULL;
    if (!f->abandoned)
        f->events->on_child((size_t)(c - f->children), sb, e, f->ctx);
}

// When the host has no room for one child, fail the rest too. Each would wait for room in vain.
static void give_up(struct forking *f, const struct err *e)
{
    while (f->started < f->count)
        decide_child(&f->children[f->started++], NULL, e);
}

static void start_child(struct child *c)
{
    struct forking *f = c->f;
    struct err e = ERR_INIT;
    if (create_start(f->store, &f->spec, on_child, c, &c->sb, &e) == 0)
        return;
    decide_child(c, NULL, &e);
    if (e.code == ERR_LIMIT || e.code == ERR_BUSY)
        give_up(f, &e);
}

static void tell_parent(const struct forking *f, const char *child)
{
    const struct sandbox *parent = store_find_any(f->store, f->parent);
    if (parent)
        lifecycle_note(parent, "forked", json_pack("{s:s}", "child", child));
}

static void on_child(struct sandbox *sb, const struct err *e, void *ctx)
{
    struct child *c = ctx;
    struct forking *f = c->f;
    FAULT("fork.4");
    c->sb = NULL;
    decide_child(c, sb, e);
    if (sb) {
        memcpy(c->id, sb->id, sizeof c->id);
        journal_add(&sb->journal, JOURNAL_INFO, "forked from sandbox %s", f->parent);
        tell_parent(f, sb->id);
    } else if (e->code == ERR_BUSY) {
        give_up(f, e);
    }
    deadline_arm(&f->turn, 0);
}

// ---- the end
static void report(const struct forking *f)
{
    struct sandbox *sb = store_find_any(f->store, f->parent);
    log_info("sandbox.forked", "id=%s count=%zu made=%zu bytes=%lld standstill_us=%lld ms=%lld",
             f->parent, f->count, f->made, (long long)f->saved.bytes,
             (long long)f->saved.standstill_us, (long long)(clock_mono_ms() - f->start_ms));
    if (sb && err_is(&f->err))
        journal_add(&sb->journal, JOURNAL_WARN, "the fork failed: %s", f->err.msg);
    else if (sb)
        journal_add(&sb->journal, JOURNAL_INFO,
                    "forked into %zu of %zu copies: %.1f MB; the sandbox stood still for %.1f ms",
                    f->made, f->count, (double)f->saved.bytes / MIB,
                    (double)f->saved.standstill_us / 1000);
}

static void end_children(const struct forking *f)
{
    for (size_t i = 0; i < f->count; i++) {
        const struct child *c = &f->children[i];
        struct sandbox *sb = c->id[0] ? store_find_any(f->store, c->id) : NULL;
        if (sb)
            ending_start(sb, ENDED_KILLED,
                         "the client disconnected while the sandbox was being forked");
    }
}

static void end(struct forking *f)
{
    report(f);
    if (err_is(&f->err))
        err_wrap(&f->err, "the sandbox could not be forked");
    if (f->abandoned)
        end_children(f);
    else
        f->events->on_end(err_is(&f->err) ? &f->err : NULL, f->ctx);
    FAULT("fork.5");
    files_remove_tree(f->store->loop, f->dir, "fork.clean", on_cleaned, f);
}

void fork_abandon(struct forking *f)
{
    f->abandoned = true;
    for (size_t i = 0; i < f->started; i++)
        if (f->children[i].sb)
            create_abandon(f->children[i].sb, "the client went away");
    deadline_arm(&f->turn, 0);
}

static void on_cleaned(void *ctx)
{
    struct forking *f = ctx;
    FAULT("fork.6");
    deadline_close(&f->turn, on_turn_closed);
}

static void on_turn_closed(struct deadline *d)
{
    struct forking *f = container_of(d, struct forking, turn);
    json_decref(f->spec.metadata);
    create_spec_fini(&f->spec);
    free(f->children);
    free(f->owner);
    free(f->mask_request_host);
    free(f->dir);
    free(f);
}
