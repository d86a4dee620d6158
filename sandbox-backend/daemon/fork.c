// SPDX-License-Identifier: Apache-2.0
// Forking a sandbox.
#include "sandbox-backend/daemon/fork.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <uv.h>

#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/fault.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/daemon/create.h"
#include "sandbox-backend/daemon/ending.h"
#include "sandbox-backend/daemon/journal.h"
#include "sandbox-backend/daemon/reply.h"
#include "sandbox-backend/daemon/sandbox.h"
#include "sandbox-backend/daemon/sandbox_image.h"
#include "sandbox-backend/daemon/store.h"
#include "sandbox-backend/daemon/templates.h"
#include "sandbox-backend/daemon/view.h"
#include "sandbox-backend/log/log.h"

#define UNIQUE_BYTES 8
#define AT_ONCE_MIN  2 // one waits for the disk and its guest while the other computes
#define AT_ONCE_MAX  8
#define MIB          (1024.0 * 1024)

struct child {
    struct forking *f;           // borrowed
    struct sandbox *sb;          // borrowed; while it is being created
    char id[SANDBOX_ID_LEN + 1]; // once it was
    json_t *view;                // owned; the same
    struct err err;              // why it was not
};

struct forking {
    struct store *store;             // borrowed
    char parent[SANDBOX_ID_LEN + 1]; // that may end meanwhile
    struct create_spec spec;         // owned, with the strings that a request's would only borrow
    char *owner, *mask_request_host; // owned
    char *dir;                       // owned; of the image
    struct child *children;          // owned
    size_t count, started, decided;
    size_t at_once;
    struct deadline turn; // starts children, and ends it
    uv_work_t work;
    struct machine_saved saved;
    struct err err; // there will be no child
    int64_t start_ms;
    bool imaged, abandoned;
    fork_cb cb;
    void *ctx;
};

static void on_image(const struct machine_saved *saved, const struct err *e, void *ctx);
static void on_turn(struct deadline *d);
static void start_child(struct child *c);
static void on_child(struct sandbox *sb, const struct err *e, void *ctx);
static void end(struct forking *f);
static void clean(uv_work_t *work);
static void on_cleaned(uv_work_t *work, int status);
static void on_turn_closed(struct deadline *d);

// What a child is, but for what is each one's own.
static void inherit(struct forking *f, const struct sandbox *sb, const struct fork_wish *wish)
{
    struct create_spec *spec = &f->spec;
    f->owner = sb->owner ? xstrdup(sb->owner) : NULL;
    f->mask_request_host = sb->mask_request_host ? xstrdup(sb->mask_request_host) : NULL;
    *spec = (struct create_spec){.owner = f->owner,
                                 .timeout_s = wish->timeout_s,
                                 .metadata = json_deep_copy(sb->metadata),
                                 .mask_request_host = f->mask_request_host,
                                 .secure = sb->token,
                                 .traffic_needs_token = sb->traffic_token,
                                 .auto_pause = sb->auto_pause,
                                 .auto_resume = sb->auto_resume,
                                 .sliding = sb->sliding,
                                 .idle = sb->idle.policy};
    net_policy_copy(&spec->policy, &sb->policy);
    spec->secrets = json_incref(sb->secrets); // processes in it have the same placeholders
    spec->template =
        (struct known_template){.name = xstrdup(sb->template),
                                .dir = str_printf("%s/templates/%s", sb->store->home, sb->template),
                                .build = sb->build ? xstrdup(sb->build) : NULL,
                                .snapshot = sb->snapshot ? xstrdup(sb->snapshot) : NULL,
                                .image = xstrdup(f->dir),
                                .token = sb->token ? xstrdup(sb->token) : NULL,
                                .size = sb->size,
                                .facts = sb->facts};
}

static size_t children_at_once(void)
{
    size_t cpus = uv_available_parallelism();
    return cpus < AT_ONCE_MIN ? AT_ONCE_MIN : cpus > AT_ONCE_MAX ? AT_ONCE_MAX : cpus;
}

struct forking *fork_start(struct sandbox *sb, const struct fork_wish *wish, fork_cb cb, void *ctx,
                           struct err *e)
{
    if (templates_check(sb, e) < 0)
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
                          .at_once = children_at_once(),
                          .start_ms = clock_mono_ms(),
                          .cb = cb,
                          .ctx = ctx};
    memcpy(f->parent, sb->id, sizeof f->parent);
    f->children = xcalloc(f->count, sizeof *f->children);
    for (size_t i = 0; i < f->count; i++)
        f->children[i].f = f;
    f->work.data = f;
    deadline_init(&f->turn, sb->store->loop, on_turn);
    inherit(f, sb, wish);
    FAULT("fork.2");
    sandbox_image_save(sb, f->dir, SAVE_IN_PASSING, on_image, f);
    return f;
}

static void on_image(const struct machine_saved *saved, const struct err *e, void *ctx)
{
    struct forking *f = ctx;
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

// A host that is full is so for those behind as well, who would each wait for room.
static void give_up(struct forking *f, const struct err *e)
{
    while (f->started < f->count) {
        f->children[f->started++].err = *e;
        f->decided++;
    }
}

static void start_child(struct child *c)
{
    struct forking *f = c->f;
    if (create_start(f->store, &f->spec, on_child, c, &c->sb, &c->err) == 0)
        return;
    f->decided++;
    if (c->err.code == ERR_LIMIT || c->err.code == ERR_BUSY)
        give_up(f, &c->err);
}

static void on_child(struct sandbox *sb, const struct err *e, void *ctx)
{
    struct child *c = ctx;
    struct forking *f = c->f;
    FAULT("fork.4");
    c->sb = NULL;
    f->decided++;
    if (sb) {
        memcpy(c->id, sb->id, sizeof c->id);
        c->view = view_created(sb);
        journal_add(&sb->journal, JOURNAL_INFO, "forked from sandbox %s", f->parent);
    } else {
        c->err = *e;
        if (e->code == ERR_BUSY)
            give_up(f, e);
    }
    deadline_arm(&f->turn, 0);
}

// ---- the end
static json_t *result_of(struct child *c)
{
    if (c->view)
        return json_pack("{s:o}", "sandbox", steal(&c->view));
    enum err_code code = c->err.code;
    json_t *error = json_pack("{s:i, s:o}", "code", err_http_status(code), "message",
                              json_lossy_string(c->err.msg, strlen(c->err.msg)));
    reply_hide(error);
    return json_pack("{s:o}", "error", error);
}

static size_t count_made(const struct forking *f)
{
    size_t made = 0;
    for (size_t i = 0; i < f->count; i++)
        made += f->children[i].view != NULL;
    return made;
}

static void report(const struct forking *f)
{
    struct sandbox *sb = store_find_any(f->store, f->parent);
    size_t made = count_made(f);
    log_info("sandbox.forked", "id=%s count=%zu made=%zu bytes=%lld standstill_us=%lld ms=%lld",
             f->parent, f->count, made, (long long)f->saved.bytes,
             (long long)f->saved.standstill_us, (long long)(clock_mono_ms() - f->start_ms));
    if (sb && err_is(&f->err))
        journal_add(&sb->journal, JOURNAL_WARN, "a fork failed: %s", f->err.msg);
    else if (sb)
        journal_add(&sb->journal, JOURNAL_INFO,
                    "forked into %zu of %zu: %.1f MB, it stood still for %.1f ms", made, f->count,
                    (double)f->saved.bytes / MIB, (double)f->saved.standstill_us / 1000);
}

static void tell(struct forking *f)
{
    if (err_is(&f->err)) {
        err_wrap(&f->err, "the sandbox could not be forked");
        f->cb(NULL, &f->err, f->ctx);
        return;
    }
    json_t *results = json_array();
    for (size_t i = 0; i < f->count; i++)
        json_array_append_new(results, result_of(&f->children[i]));
    f->cb(results, NULL, f->ctx);
}

static void end_children(const struct forking *f)
{
    for (size_t i = 0; i < f->count; i++) {
        const struct child *c = &f->children[i];
        struct sandbox *sb = c->id[0] ? store_find_any(f->store, c->id) : NULL;
        if (sb)
            ending_start(sb, ENDED_KILLED, "the client went away while it was forked");
    }
}

static void end(struct forking *f)
{
    report(f);
    if (f->abandoned)
        end_children(f);
    else
        tell(f);
    uv_queue_work(f->store->loop, &f->work, clean, on_cleaned);
}

void fork_abandon(struct forking *f)
{
    f->abandoned = true;
    for (size_t i = 0; i < f->started; i++)
        if (f->children[i].sb)
            create_abandon(f->children[i].sb, "the client went away");
    deadline_arm(&f->turn, 0);
}

static void clean(uv_work_t *work)
{
    const struct forking *f = work->data;
    struct err e = ERR_INIT;
    FAULT("fork.5");
    if (dir_remove(f->dir, &e) < 0) // a daemon's start tries again
        log_error("fork.clean", "error=\"%s\"", e.msg);
    FAULT("fork.6");
}

static void on_cleaned(uv_work_t *work, int status)
{
    (void)status;
    struct forking *f = work->data;
    deadline_close(&f->turn, on_turn_closed);
}

static void on_turn_closed(struct deadline *d)
{
    struct forking *f = container_of(d, struct forking, turn);
    json_decref(f->spec.metadata);
    create_spec_fini(&f->spec);
    for (size_t i = 0; i < f->count; i++)
        json_decref(f->children[i].view);
    free(f->children);
    free(f->owner);
    free(f->mask_request_host);
    free(f->dir);
    free(f);
}
