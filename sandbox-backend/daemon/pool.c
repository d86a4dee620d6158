// SPDX-License-Identifier: Apache-2.0
// Sandboxes that are ready before they are asked for.
#include "sandbox-backend/daemon/pool.h"

#include <stdlib.h>

#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/daemon/admission.h"
#include "sandbox-backend/daemon/handout.h"
#include "sandbox-backend/daemon/pooled.h"
#include "sandbox-backend/daemon/sandbox.h"
#include "sandbox-backend/daemon/store.h"
#include "sandbox-backend/log/log.h"

struct shelf {
    const struct pool_mark *mark; // borrowed from the plan
    char *template;               // owned; the mark's name resolved; NULL: it is not there
    char *build;                  // owned; which one it is (templates_build)
    bool filling;                 // from below low until high
    unsigned failures;            // in a row
    int64_t again_ms;             // not before
    struct err err;               // of the last failure
    int64_t handed_out, claimed, cold, failed;
};

struct pool {
    struct store *store; // borrowed
    struct pool_plan plan;
    struct shelf shelves[POOL_TEMPLATES_MAX];
    struct shelf *making; // what is made now, or removed after it failed, is for; one at a time
    struct deadline look;
    bool closing;
};

static void on_look(struct deadline *d);
static void on_made(struct sandbox *sb, const struct err *e, void *ctx);

void pool_open(struct store *store, struct pool_plan *plan)
{
    struct pool *pool = xcalloc(1, sizeof *pool);
    pool->store = store;
    pool->plan = *plan;
    *plan = (struct pool_plan){0};
    for (size_t i = 0; i < pool->plan.count; i++)
        pool->shelves[i].mark = &pool->plan.marks[i];
    deadline_init(&pool->look, store->loop, on_look);
    store->pool = pool;
}

void pool_start(struct store *store)
{
    if (store->pool->plan.count)
        deadline_arm(&store->pool->look, POOL_QUIET_MS);
}

static void on_look_closed(struct deadline *d)
{
    struct pool *pool = container_of(d, struct pool, look);
    for (size_t i = 0; i < pool->plan.count; i++) {
        free(pool->shelves[i].template);
        free(pool->shelves[i].build);
    }
    pool_plan_fini(&pool->plan);
    free(pool);
}

void pool_close(struct store *store)
{
    struct pool *pool = store->pool;
    if (!pool || pool->closing)
        return;
    pool->closing = true;
    deadline_close(&pool->look, on_look_closed);
    store->pool = NULL;
}

void pool_poke(struct store *store)
{
    struct pool *pool = store->pool;
    if (pool && pool->plan.count)
        deadline_arm(&pool->look, POOL_QUIET_MS);
}

// ---- what there is
static bool is_ready(const struct sandbox *sb)
{
    return sb->state == SANDBOX_POOLED && pooled_is(sb);
}

static bool is_made(const struct sandbox *sb)
{
    return sb->state == SANDBOX_CREATING && pooled_is(sb);
}

// It runs: what is left is quicker than a new one. Before, it may wait for long in the background.
static bool is_close(const struct sandbox *sb)
{
    return is_made(sb) && sb->machine;
}

static int count(const struct store *store, const char *template,
                 bool (*is)(const struct sandbox *sb))
{
    int n = 0;
    for (const struct sandbox *sb = store_first(store); sb; sb = store_next(sb))
        n += is(sb) && str_eq(sb->template, template);
    return n;
}

static struct sandbox *first(const struct store *store, const struct known_template *template,
                             bool (*is)(const struct sandbox *sb))
{
    for (struct sandbox *sb = store_first(store); sb; sb = store_next(sb))
        if (is(sb) && str_eq(sb->template, template->name) && str_eq(sb->build, template->build))
            return sb;
    return NULL;
}

static struct shelf *shelf_of(struct pool *pool, const char *template)
{
    for (size_t i = 0; i < pool->plan.count; i++)
        if (str_eq(pool->shelves[i].template, template))
            return &pool->shelves[i];
    return NULL;
}

// ---- templates come, change and go
// What is there of another build of it is of no use.
static void end_old(struct store *store, const char *template, const char *build)
{
    struct sandbox *next;
    for (struct sandbox *sb = store_first(store); sb; sb = next) {
        next = store_next(sb);
        if ((is_ready(sb) || is_made(sb)) && str_eq(sb->template, template) &&
            !str_eq(sb->build, build))
            pooled_end(sb, "its template was changed");
    }
}

// Finds out what the shelf's template is now.
static void refresh(struct pool *pool, struct shelf *shelf)
{
    struct store *store = pool->store;
    char *template auto_free = templates_resolve(store, shelf->mark->template);
    char *build auto_free = template ? templates_build(store, template) : NULL;
    if (str_eq(template, shelf->template) && str_eq(build, shelf->build))
        return;
    if (shelf->template)
        end_old(store, shelf->template, str_eq(template, shelf->template) ? build : NULL);
    log_info("pool.template", "name=%s template=%s", shelf->mark->template,
             template ? template : "-");
    free(shelf->template);
    free(shelf->build);
    shelf->template = steal(&template);
    shelf->build = steal(&build);
    shelf->failures = 0;
    shelf->again_ms = 0;
}

// ---- filling
// Something is being done for somebody.
static bool is_busy(const struct store *store)
{
    for (const struct sandbox *sb = store_first(store); sb; sb = store_next(sb))
        if (sb->state == SANDBOX_RESUMING || (sb->state == SANDBOX_CREATING && !pooled_is(sb)))
            return true;
    return false;
}

static bool wants_more(struct pool *pool, struct shelf *shelf, int64_t now_ms)
{
    int ready = shelf->template ? count(pool->store, shelf->template, is_ready) : 0;
    if (ready >= shelf->mark->high)
        shelf->filling = false;
    else if (ready < shelf->mark->low)
        shelf->filling = true;
    return shelf->template && shelf->filling && now_ms >= shelf->again_ms;
}

static void failed(struct shelf *shelf, const struct err *e)
{
    int64_t wait = POOL_RETRY_MS;
    for (unsigned i = 0; i < shelf->failures && wait < POOL_RETRY_MAX_MS; i++)
        wait *= 2;
    if (wait > POOL_RETRY_MAX_MS)
        wait = POOL_RETRY_MAX_MS;
    shelf->failures++;
    shelf->failed++;
    shelf->again_ms = clock_mono_ms() + wait;
    shelf->err = *e;
    log_warn("pool.failed", "template=%s again_ms=%lld error=\"%s\"", shelf->mark->template,
             (long long)wait, e->msg);
}

static void make(struct pool *pool, struct shelf *shelf)
{
    struct known_template template = {0};
    struct err e = ERR_INIT;
    if (templates_find(pool->store, shelf->template, &template, &e) < 0) {
        failed(shelf, &e);
    } else if (admission_has_spare(pool->store, template.facts.memory_mb)) {
        pool->making = shelf;
        pooled_make(pool->store, &template, on_made, pool->store);
    }
    templates_fini(&template);
}

// The daemon may be on its end, and the pool gone.
static void on_made(struct sandbox *sb, const struct err *e, void *ctx)
{
    struct pool *pool = ((struct store *)ctx)->pool;
    if (!pool)
        return;
    struct shelf *shelf = steal(&pool->making);
    if (sb)
        shelf->failures = 0;
    else if (e->code != ERR_CANCELED)
        failed(shelf, e);
    deadline_arm(&pool->look, 0);
}

// ---- giving up
static bool is_short(struct pool *pool)
{
    return !admission_has_spare(pool->store, 0);
}

bool pool_give_up(struct store *store)
{
    struct sandbox *found = NULL;
    for (struct sandbox *sb = store_first(store); sb; sb = store_next(sb))
        if (is_ready(sb) || (!found && is_made(sb)))
            found = sb;
    if (found)
        pooled_end(found, "its room is needed");
    return found;
}

static void on_look(struct deadline *d)
{
    struct pool *pool = container_of(d, struct pool, look);
    struct store *store = pool->store;
    int64_t now = clock_mono_ms();
    bool may_make = !is_busy(store) && !pool->making;
    deadline_arm(d, is_busy(store) ? POOL_QUIET_MS : POOL_LOOK_MS);
    if (is_short(pool))
        may_make = !pool_give_up(store) && may_make;
    for (size_t i = 0; i < pool->plan.count; i++) {
        refresh(pool, &pool->shelves[i]);
        if (may_make && wants_more(pool, &pool->shelves[i], now)) {
            make(pool, &pool->shelves[i]);
            may_make = false;
        }
    }
}

// ---- taking
static bool is_plain(const struct create_spec *spec)
{
    const struct machine_size *size = &spec->template.size;
    return !spec->template.image && !spec->secrets && !size->cpus && !size->memory_mb &&
           !size->disk_mb;
}

struct sandbox *pool_take(struct store *store, const struct create_spec *spec, create_cb cb,
                          void *ctx)
{
    struct pool *pool = store->pool;
    struct shelf *shelf = pool && is_plain(spec) ? shelf_of(pool, spec->template.name) : NULL;
    if (!shelf)
        return NULL;
    struct sandbox *ready = first(store, &spec->template, is_ready);
    struct sandbox *sb = ready ? ready : first(store, &spec->template, is_close);
    deadline_arm(&pool->look, POOL_QUIET_MS);
    shelf->handed_out += ready != NULL;
    shelf->claimed += sb && !ready;
    shelf->cold += !sb;
    if (!sb)
        return NULL;
    create_identify(sb, spec);
    sb->handout_env = spec->env ? json_incref(spec->env) : json_object();
    if (ready)
        handout_start(sb, cb, ctx);
    else
        pooled_claim(sb, cb, ctx);
    return sb;
}

// ---- what an earlier daemon left
void pool_adopt(struct sandbox *sb)
{
    struct store *store = sb->store;
    for (size_t i = 0; i < store->pool->plan.count; i++)
        refresh(store->pool, &store->pool->shelves[i]);
    const struct shelf *shelf = shelf_of(store->pool, sb->template);
    pooled_adopt(sb);
    bool keeps = shelf && count(store, sb->template, is_ready) <= shelf->mark->high &&
                 str_eq(sb->build, shelf->build) && machine_is_paused(sb->machine);
    if (!keeps)
        pooled_end(sb, "this daemon has no place for it");
}

json_t *pool_to_json(const struct store *store)
{
    const struct pool *pool = store->pool;
    json_t *list = json_array();
    for (size_t i = 0; pool && i < pool->plan.count; i++) {
        const struct shelf *shelf = &pool->shelves[i];
        const char *template = shelf->template ? shelf->template : shelf->mark->template;
        bool has_failed = shelf->failures > 0;
        json_array_append_new(
            list,
            json_pack("{s:s, s:i, s:i, s:i, s:i, s:I, s:I, s:I, s:I, s:s?}", "templateID", template,
                      "low", shelf->mark->low, "high", shelf->mark->high, "ready",
                      count(store, template, is_ready), "making", count(store, template, is_made),
                      "handedOut", (json_int_t)shelf->handed_out, "claimed",
                      (json_int_t)shelf->claimed, "cold", (json_int_t)shelf->cold, "failed",
                      (json_int_t)shelf->failed, "error", has_failed ? shelf->err.msg : NULL));
    }
    return json_pack("{s:o}", "templates", list);
}
