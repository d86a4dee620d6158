// SPDX-License-Identifier: Apache-2.0
// The pool: see pool.h for the theory of operation.
#include "sandbox-backend/daemon/pool/pool.h"

#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/daemon/limits/admission.h"
#include "sandbox-backend/daemon/pool/pool_internal.h"
#include "sandbox-backend/daemon/sandbox/ending.h"
#include "sandbox-backend/daemon/sandbox/sandbox.h"
#include "sandbox-backend/daemon/sandbox/store.h"
#include "sandbox-backend/log/log.h"

#define OWN_TEMPLATE "default"
// Hosts with at least this memory keep more members.
#define LARGE_MEMORY_BYTES (16LL << 30)
#define LARGE_CPUS         8
#define SMALL_MEMORY_BYTES (2LL << 30) // below it, "auto" means no pool

struct shelf {
    const struct pool_mark *mark; // borrowed from the plan
    char *template;               // owned; what the mark's name stands for; NULL: no such template
    char *build;                  // owned; the template's build (templates_build)
    bool filling;                 // true from below the low mark until the high mark
    unsigned failures;            // in a row
    int64_t again_ms;             // build no member before this time
    struct err err;               // of the last failure
    int64_t handed_out, claimed, cold, failed;
};

struct pool {
    struct store *store; // borrowed
    struct pool_plan plan;
    struct shelf shelves[POOL_TEMPLATES_MAX];
    struct shelf
        *making; // of the member that is being built, or removed after a failure; NULL: none
    struct deadline look;
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
    store->pool = NULL;
    if (pool)
        deadline_close(&pool->look, on_look_closed);
}

void pool_poke(struct store *store)
{
    struct pool *pool = store->pool;
    if (pool && pool->plan.count)
        deadline_arm(&pool->look, POOL_QUIET_MS);
}

// ---- the members
static bool is_ready(const struct sandbox *sb)
{
    return sb->state == SANDBOX_POOLED && sb->unclaimed;
}

static bool is_made(const struct sandbox *sb)
{
    return sb->state == SANDBOX_CREATING && sb->unclaimed;
}

// Return true for a member that is being built and has a machine. Finishing it is quicker than
// creating a sandbox. Before it has a machine, the background work may still take long.
static bool is_close(const struct sandbox *sb)
{
    return is_made(sb) && sb->machine;
}

static int count_members(const struct store *store, const char *template,
                         bool (*is)(const struct sandbox *sb))
{
    int n = 0;
    for (const struct sandbox *sb = store_first(store); sb; sb = store_next(sb))
        n += is(sb) && str_eq(sb->template, template);
    return n;
}

static struct sandbox *first_member(const struct store *store,
                                    const struct known_template *template,
                                    bool (*is)(const struct sandbox *sb))
{
    for (struct sandbox *sb = store_first(store); sb; sb = store_next(sb))
        if (is(sb) && str_eq(sb->template, template->name) && str_eq(sb->build, template->build) &&
            sb->facts.driver == template->facts.driver)
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

// End an unclaimed member, without an entry in the ended log.
static void end_member(struct sandbox *sb, const char *why)
{
    char *detail auto_free = str_printf("the pool ended this sandbox: %s", why);
    ending_start(sb, ENDED_DIED, detail);
}

// ---- changes of templates
// End the unclaimed members that were made from another build of the template.
static void end_old(struct store *store, const char *template, const char *build)
{
    for (struct sandbox *sb = store_first(store); sb; sb = store_next(sb))
        if ((is_ready(sb) || is_made(sb)) && str_eq(sb->template, template) &&
            !str_eq(sb->build, build))
            end_member(sb, "its template was changed");
}

// Resolve the shelf's template again. If it changed, end the members of the old build.
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
// Return true while a sandbox is created, handed out or woken for a caller.
static bool is_busy(const struct store *store)
{
    for (const struct sandbox *sb = store_first(store); sb; sb = store_next(sb))
        if (sb->state == SANDBOX_RESUMING || (sb->state == SANDBOX_CREATING && !sb->unclaimed))
            return true;
    return false;
}

static bool wants_more(struct pool *pool, struct shelf *shelf, int64_t now_ms)
{
    int ready = shelf->template ? count_members(pool->store, shelf->template, is_ready) : 0;
    if (ready >= shelf->mark->high)
        shelf->filling = false;
    else if (ready < shelf->mark->low)
        shelf->filling = true;
    return shelf->template && shelf->filling && now_ms >= shelf->again_ms;
}

static void failed(struct shelf *shelf, const struct err *e)
{
    int64_t wait = MIN(POOL_RETRY_MS << MIN(shelf->failures, 9), POOL_RETRY_MAX_MS);
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
    if (templates_find_as(pool->store, NULL, shelf->template, NULL, &template, &e) < 0 ||
        driver_need(template.facts.driver, DRIVER_PAUSES | DRIVER_POLICY, &e) < 0 ||
        driver_check_disk(template.facts.driver, pool->store->dir, &e) < 0) {
        failed(shelf, &e);
    } else if (admission_has_spare(&pool->store->admission, template.facts.memory_mb << 20)) {
        pool->making = shelf;
        pool__make(pool->store, &template, on_made, pool->store);
    }
    templates_fini(&template);
}

// When the daemon stops, the pool may be closed before this callback comes.
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

// ---- shortage of memory
bool pool_give_up(struct store *store)
{
    struct sandbox *found = NULL;
    for (struct sandbox *sb = store_first(store); sb; sb = store_next(sb))
        if (is_ready(sb) || (!found && is_made(sb)))
            found = sb;
    if (found)
        end_member(found, "another sandbox needs the memory");
    return found;
}

static void on_look(struct deadline *d)
{
    struct pool *pool = container_of(d, struct pool, look);
    struct store *store = pool->store;
    int64_t now = clock_mono_ms();
    bool may_make = !is_busy(store) && !pool->making;
    deadline_arm(d, is_busy(store) ? POOL_QUIET_MS : POOL_LOOK_MS);
    if (!admission_has_spare(&store->admission, 0))
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

struct sandbox *pool_take(struct store *store, const struct create_spec *spec, sandbox_cb cb,
                          void *ctx)
{
    struct pool *pool = store->pool;
    struct shelf *shelf = pool && is_plain(spec) ? shelf_of(pool, spec->template.name) : NULL;
    if (!shelf)
        return NULL;
    struct sandbox *ready = first_member(store, &spec->template, is_ready);
    struct sandbox *sb = ready ? ready : first_member(store, &spec->template, is_close);
    deadline_arm(&pool->look, POOL_QUIET_MS);
    shelf->handed_out += ready != NULL;
    shelf->claimed += sb && !ready;
    shelf->cold += !sb;
    if (!sb)
        return NULL;
    create_identify(sb, spec);
    sb->handout_env = spec->env ? json_incref(spec->env) : json_object();
    if (ready)
        pool__hand_out(sb, cb, ctx);
    else
        pool__claim(sb, cb, ctx);
    return sb;
}

// ---- adoption
void pool_adopt(struct sandbox *sb)
{
    struct store *store = sb->store;
    if (sb->handout_env) {
        pool__hand_out_again(sb);
        return;
    }
    for (size_t i = 0; i < store->pool->plan.count; i++)
        refresh(store->pool, &store->pool->shelves[i]);
    const struct shelf *shelf = shelf_of(store->pool, sb->template);
    struct known_template now = {0}; // the usual tier may be another one than the last daemon's
    templates_find_as(store, NULL, sb->template, NULL, &now, NULL);
    sb->unclaimed = sb->forget = true;
    sandbox_set_state(sb, SANDBOX_POOLED);
    machine_set_background(sb->machine, true);
    bool keeps = shelf && count_members(store, sb->template, is_ready) <= shelf->mark->high &&
                 str_eq(sb->build, shelf->build) && machine_is_paused(sb->machine) &&
                 sb->facts.driver == now.facts.driver;
    templates_fini(&now);
    if (!keeps)
        end_member(sb, "the pool of this daemon does not need it");
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
            list, json_pack("{s:s, s:i, s:i, s:i, s:i, s:I, s:I, s:I, s:I, s:s?}", "templateID",
                            template, "low", shelf->mark->low, "high", shelf->mark->high, "ready",
                            count_members(store, template, is_ready), "making",
                            count_members(store, template, is_made), "handedOut",
                            (json_int_t)shelf->handed_out, "claimed", (json_int_t)shelf->claimed,
                            "cold", (json_int_t)shelf->cold, "failed", (json_int_t)shelf->failed,
                            "error", has_failed ? shelf->err.msg : NULL));
    }
    return json_pack("{s:o}", "templates", list);
}

// ---- the plan: parsing of --pool
static int add_mark(struct pool_plan *plan, const char *template, size_t len, int low, int high,
                    struct err *e)
{
    for (size_t i = 0; i < plan->count; i++)
        if (strlen(plan->marks[i].template) == len &&
            strncmp(plan->marks[i].template, template, len) == 0)
            return err_set(e, ERR_INVALID, "--pool: template \"%s\" is given twice",
                           plan->marks[i].template);
    if (plan->count == POOL_TEMPLATES_MAX)
        return err_set(e, ERR_INVALID, "--pool: more than %d templates", POOL_TEMPLATES_MAX);
    plan->marks[plan->count++] =
        (struct pool_mark){.template = xstrndup(template, len), .low = low, .high = high};
    return 0;
}

// "4" means "4:4": each member that is taken is replaced at once.
static bool read_marks(const char *text, int *low, int *high)
{
    char *first auto_free = xstrndup(text, strcspn(text, ":"));
    const char *colon = strchr(text, ':');
    int64_t a = 0, b = 0;
    if (!str_to_int(first, 0, POOL_HIGH_MAX, &a) ||
        !str_to_int(colon ? colon + 1 : first, 0, POOL_HIGH_MAX, &b) || a > b)
        return false;
    *low = (int)a;
    *high = (int)b;
    return true;
}

static int read_item(struct pool_plan *plan, const char *item, struct err *e)
{
    const char *equals = strrchr(item, '=');
    int low = 0, high = 0;
    if (equals == item || !read_marks(equals ? equals + 1 : item, &low, &high))
        return err_set(e, ERR_INVALID,
                       "--pool cannot be \"%.60s\": use off, auto, N, LOW:HIGH, or a list of "
                       "TEMPLATE=N and TEMPLATE=LOW:HIGH with commas between; LOW <= HIGH <= %d",
                       item, POOL_HIGH_MAX);
    return equals ? add_mark(plan, item, (size_t)(equals - item), low, high, e)
                  : add_mark(plan, OWN_TEMPLATE, strlen(OWN_TEMPLATE), low, high, e);
}

int pool_plan_parse(const char *text, int64_t memory_bytes, int cpus, struct pool_plan *out,
                    struct err *e)
{
    *out = (struct pool_plan){0};
    if (!text || strcmp(text, "auto") == 0) {
        bool large = memory_bytes >= LARGE_MEMORY_BYTES && cpus >= LARGE_CPUS;
        return memory_bytes < SMALL_MEMORY_BYTES ? 0
                                                 : add_mark(out, OWN_TEMPLATE, strlen(OWN_TEMPLATE),
                                                            large ? 2 : 1, large ? 4 : 2, e);
    }
    if (strcmp(text, "off") == 0)
        return 0;
    char *copy auto_free = xstrdup(text);
    char *rest = copy;
    for (char *item; (item = strsep(&rest, ","));)
        if (read_item(out, item, e) < 0)
            return -1;
    return 0;
}

void pool_plan_fini(struct pool_plan *plan)
{
    for (size_t i = 0; i < plan->count; i++)
        free(plan->marks[i].template);
    *plan = (struct pool_plan){0};
}
