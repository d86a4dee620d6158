// SPDX-License-Identifier: Apache-2.0
// The builds of this home: records, limits, the queue, and what happens by time.
#include "sandbox-backend/daemon/builds/builds.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/fault.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/home.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/daemon/builds/builds_internal.h"
#include "sandbox-backend/daemon/builds/image_ref.h"
#include "sandbox-backend/daemon/builds/plan.h"
#include "sandbox-backend/daemon/http/api_keys.h"
#include "sandbox-backend/daemon/limits/quota.h"
#include "sandbox-backend/daemon/sandbox/admit.h"
#include "sandbox-backend/daemon/sandbox/store.h"
#include "sandbox-backend/daemon/sandbox/templates.h"
#include "sandbox-backend/log/log.h"

#define TIMER_MS        60000
#define TEMPLATE_CHARS  50 // of the name, in the name of the template's directory
#define SUFFIX_CHARS    8  // of the build's id, there
#define DISK_MB_DEFAULT 8192
#define KILLED                                                                               \
    "cubbyd ended while this build ran; request the build again: its finished steps are in " \
    "the cache"
#define NOT_STARTED "the build was not started within an hour of its request"
#define STOPPED     "cubbyd was stopped while the build ran"

static void on_timer(struct deadline *timer);
static void pump(struct builds *all);

// ---- the list
static void add(struct builds *all, struct build *b)
{
    struct build *after = NULL, *it = NULL;
    TAILQ_FOREACH (it, &all->list, link) {
        if (it->created_ns <= b->created_ns)
            break;
        after = it;
    }
    if (after)
        TAILQ_INSERT_AFTER(&all->list, after, b, link);
    else
        TAILQ_INSERT_HEAD(&all->list, b, link);
    all->count++;
}

// Forget an ended build with its directory. It is small: the archives in it are links.
static void drop(struct build *b)
{
    struct err e = ERR_INIT;
    TAILQ_REMOVE(&b->all->list, b, link);
    b->all->count--;
    if (dir_remove(b->dir, &e) < 0)
        log_warn("build.remove", "id=%s error=\"%s\"", b->id, e.msg);
    build__free(b);
}

static bool is_old(const struct build *b, size_t place)
{
    return !build__is_unfinished(b) &&
           (place >= BUILDS_KEPT || b->finished_ns + BUILDS_KEEP_NS < clock_wall_ns());
}

static void drop_old(struct builds *all)
{
    size_t place = 0;
    struct build *next = NULL;
    for (struct build *b = TAILQ_FIRST(&all->list); b; b = next, place++) {
        next = TAILQ_NEXT(b, link);
        if (is_old(b, place))
            drop(b);
    }
}

struct build *builds_find(const struct store *store, const char *caller, const char *name,
                          const char *id)
{
    struct build *b = NULL;
    TAILQ_FOREACH (b, &store->builds->list, link)
        if (strcmp(b->id, id) == 0)
            break;
    bool fits = b && (!name || str_eq(b->name, name)) && (!caller || str_eq(b->owner, caller));
    return fits ? b : NULL;
}

bool builds_has_unfinished(const struct store *store, const char *caller, const char *name)
{
    const struct build *b = NULL;
    TAILQ_FOREACH (b, &store->builds->list, link)
        if (build__is_unfinished(b) && str_eq(b->name, name) &&
            (!caller || str_eq(b->owner, caller)))
            return true;
    return false;
}

json_t *builds_log(struct build *b, size_t from, size_t limit, enum build_level least)
{
    json_t *entries = build_log_read(&b->log, from, limit, least);
    if (!build__is_unfinished(b))
        build_log_close(&b->log);
    return entries;
}

// ---- opening and closing
// What a build needed only while it was unfinished.
static void clean(const struct build *b)
{
    char *auth auto_free = str_printf("%s/auth.json", b->dir);
    char *files auto_free = str_printf("%s/files", b->dir);
    unlink(auth);
    dir_remove(files, NULL);
}

// A build that ran was killed with its daemon. One that waited had a client that is gone. One whose
// tags are written has succeeded.
static void take_over(struct build *b)
{
    const struct built_names *names = &b->all->store->names;
    if (b->state == BUILD_QUEUED || !build__is_unfinished(b))
        return;
    clean(b);
    if (b->state == BUILD_RUNNING && json_object_get(built_names_builds(names, b->name), b->id))
        build__set_state(b, BUILD_READY);
    else
        build__fail(b, NULL, KILLED);
}

static void read_record(struct builds *all, const char *id)
{
    struct err e = ERR_INIT;
    struct build *b = build__read(all, id, &e);
    if (!b) {
        char *dir auto_free = str_printf("%s/%s", all->dir, id);
        log_warn("build.record", "error=\"%s\"", e.msg);
        dir_remove(dir, NULL); // a build whose request was not answered yet
        return;
    }
    add(all, b);
    take_over(b);
}

// A killed daemon may have renamed a template, and not removed it.
static void remove_gone(const char *home)
{
    char *path auto_free = home_path(home, "templates");
    DIR *dir = opendir(path);
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        char *gone auto_free = str_printf("%s/%s", path, entry->d_name);
        if (str_starts(entry->d_name, ".gone-"))
            dir_remove(gone, NULL);
    }
    if (dir)
        closedir(dir);
}

// Return whether a directory's name has the form of a build's id.
static bool is_id(const char *name)
{
    size_t len = strlen(name);
    return len >= BUILD_UUID_CHARS && len <= BUILD_ID_MAX &&
           strspn(name, SANDBOX_ID_CHARS "-") == len;
}

int builds_open(struct store *store, const struct builds_opts *opts, struct err *e)
{
    struct builds *all = store->builds = xcalloc(1, sizeof *all);
    all->store = store;
    all->opts = *opts;
    all->dir = home_path(store->home, "builds");
    TAILQ_INIT(&all->list);
    deadline_init(&all->timer, store->loop, on_timer);
    if (uploads_open(&all->uploads, store->home, opts->upload_bytes, opts->space_bytes, e) < 0)
        return -1;
    all->uploads.node = store->node;
    DIR *dir = opendir(all->dir);
    for (struct dirent *entry; dir && (entry = readdir(dir));)
        if (is_id(entry->d_name))
            read_record(all, entry->d_name);
    if (dir)
        closedir(dir);
    remove_gone(store->home);
    return 0;
}

void builds_resume(struct store *store)
{
    struct build *b = NULL;
    deadline_arm(&store->builds->timer, TIMER_MS);
    TAILQ_FOREACH (b, &store->builds->list, link)
        collect__orphan(b);
    drop_old(store->builds);
    builds_collect(store);
    pump(store->builds);
}

static void end_running(struct build *b, const char *reason)
{
    if (b->stop_reason)
        return;
    b->stop_reason = reason;
    engine__end(b);
}

void builds_close(struct store *store)
{
    struct builds *all = store->builds;
    struct build *b = NULL;
    if (!all)
        return;
    all->stopping = true;
    deadline_close(&all->timer, NULL);
    TAILQ_FOREACH (b, &all->list, link)
        if (b->state == BUILD_RUNNING)
            end_running(b, STOPPED);
}

void builds_fini(struct store *store)
{
    struct builds *all = store->builds;
    if (!all)
        return;
    for (struct build *b; (b = TAILQ_FIRST(&all->list));) {
        TAILQ_REMOVE(&all->list, b, link);
        build__free(b);
    }
    uploads_fini(&all->uploads);
    free(all->dir);
    free(all);
    store->builds = NULL;
}

// ---- the queue
static struct build *next_queued(const struct builds *all)
{
    struct build *found = NULL, *b = NULL;
    TAILQ_FOREACH (b, &all->list, link) // the oldest is the last
        if (b->state == BUILD_QUEUED)
            found = b;
    return found;
}

static void pump(struct builds *all)
{
    struct build *b;
    while (!all->stopping && (int64_t)all->running < all->opts.running_max &&
           (b = next_queued(all))) {
        struct err e = ERR_INIT;
        build__set_state(b, BUILD_RUNNING);
        all->running++;
        if (engine__start(b, &e) < 0) {
            build__fail(b, NULL, e.msg);
            builds__on_ended(b);
            return; // which has pumped
        }
    }
}

void builds__on_ended(struct build *b)
{
    struct builds *all = b->all;
    all->running--;
    clean(b);
    if (all->stopping)
        return;
    collect__orphan(b);
    builds_collect(all->store);
    pump(all);
}

static void on_timer(struct deadline *timer)
{
    struct builds *all = container_of(timer, struct builds, timer);
    struct build *b = NULL;
    TAILQ_FOREACH (b, &all->list, link)
        if (b->state == BUILD_WAITING && b->created_ns + BUILDS_WAIT_NS < clock_wall_ns())
            build__fail(b, NULL, NOT_STARTED);
    uploads_sweep(&all->uploads);
    drop_old(all);
    builds_collect(all->store);
    deadline_arm(timer, TIMER_MS);
}

void builds_end(struct build *b, const char *reason)
{
    if (b->state == BUILD_RUNNING)
        end_running(b, reason);
    else if (build__is_unfinished(b))
        build__fail(b, NULL, reason);
}

void builds_end_all(struct store *store, const char *name, const char *reason)
{
    struct build *b = NULL;
    TAILQ_FOREACH (b, &store->builds->list, link)
        if (str_eq(b->name, name))
            builds_end(b, reason);
}

// ---- a request
static struct quota quota_of(const struct store *store, const char *caller)
{
    return caller && store->api_keys ? api_keys_quota(store->api_keys, caller) : QUOTA_UNLIMITED;
}

int builds_check_right(const struct store *store, const char *caller, struct err *e)
{
    struct quota q = quota_of(store, caller);
    if (!caller || store->builds->opts.allow_keys || q.max[QUOTA_BUILDS] > 0)
        return 0;
    return err_set(e, ERR_DENIED,
                   "this API key may not build templates; the operator allows it by max_builds in "
                   "keys.json (cubby key new --max-builds N), or for all keys by cubbyd "
                   "--allow-builds");
}

static int check_limits(const struct store *store, const char *caller, struct err *e)
{
    int64_t unfinished = 0, snapshots = 0;
    const struct build *b = NULL;
    struct quota q = quota_of(store, caller);
    if (!caller)
        return 0;
    if (q.max[QUOTA_BUILDS] <= 0)
        q.max[QUOTA_BUILDS] = BUILDS_ALLOWED_KEY;
    TAILQ_FOREACH (b, &store->builds->list, link)
        unfinished += build__is_unfinished(b) && str_eq(b->owner, caller);
    snapshots_count(&store->snapshots, caller, false, &snapshots);
    return quota_check_build(&q, caller, unfinished,
                             snapshots + built_names_bytes(&store->names, caller), e);
}

// A key may neither take a name of the operator's, nor one that another key has or is building.
static int check_name(const struct store *store, const struct build_request *r, struct err *e)
{
    const struct built_names *names = &store->names;
    bool unfinished = builds_has_unfinished(store, NULL, r->name);
    if (!r->caller || built_names_owns(names, r->caller, r->name))
        return 0;
    char *template auto_free = templates_resolve(store, r->name);
    bool foreign = built_names_has(names, r->name) || template ||
                   (unfinished && !builds_has_unfinished(store, r->caller, r->name));
    if (!foreign)
        return 0;
    return err_set(e, ERR_DENIED,
                   "the template name '%s' belongs to another API key, or to the operator; choose "
                   "another name",
                   r->name);
}

static void make_id(char id[BUILD_ID_MAX + 1], const char *node)
{
    char *hex auto_free = random_hex(16);
    hex[12] = '4'; // version 4: random
    hex[16] = "89ab"[hex[16] % 4];
    snprintf(id, BUILD_ID_MAX + 1, "%s%s%.8s-%.4s-%.4s-%.4s-%.12s", node ? node : "",
             node ? "-" : "", hex, hex + 8, hex + 12, hex + 16, hex + 20);
}

static struct build *make(struct store *store, const struct build_request *r)
{
    char id[BUILD_ID_MAX + 1];
    make_id(id, store->node);
    struct build *b = build__new(store->builds, id);
    b->name = xstrdup(r->name);
    b->template = str_printf("%.*s@%.*s", TEMPLATE_CHARS, r->name, SUFFIX_CHARS,
                             id + strlen(id) - BUILD_UUID_CHARS);
    b->owner = r->caller ? xstrdup(r->caller) : NULL;
    b->tags = json_deep_copy(r->tags);
    b->cpus = r->cpus;
    b->memory_mb = r->memory_mb;
    b->disk_mb = r->disk_mb;
    return b;
}

struct build *builds_request(struct store *store, const struct build_request *r, struct err *e)
{
    struct builds *all = store->builds;
    if (builds_check_right(store, r->caller, e) < 0 || check_name(store, r, e) < 0 ||
        check_limits(store, r->caller, e) < 0)
        return NULL;
    struct build *b = make(store, r);
    char *files auto_free = str_printf("%s/files", b->dir);
    if (dir_make(files, 0700, e) < 0 || build__write(b, e) < 0) {
        dir_remove(b->dir, NULL);
        build__free(b);
        return NULL;
    }
    add(all, b);
    log_info("build.requested", "id=%s template=%s owner=%s", b->id, b->name,
             b->owner ? b->owner : "-");
    return b;
}

// ---- the start
static int link_upload(json_t *step, const char *files, void *ctx, struct err *e)
{
    struct build *b = ctx;
    char *to auto_free = str_printf("%s/files/%s.tar", b->dir, files);
    char *sum auto_free = uploads_link(&b->all->uploads, b->name, files, to, e);
    if (!sum)
        return -1;
    json_object_set_new(step, "archive", json_string(to));
    json_object_set_new(step, "hash", json_string(sum));
    return 0;
}

static int write_json(const struct build *b, const char *file, const json_t *json, struct err *e)
{
    struct buf text auto_buf = BUF_INIT;
    char *path auto_free = str_printf("%s/%s", b->dir, file);
    json_to_buf(&text, json);
    return file_write_atomic(path, text.data, text.len, 0600, e);
}

// The size of the base, unless the request had another.
static void set_size(const struct build *b, json_t *plan, const struct machine_facts *base)
{
    int cpus = b->cpus ? b->cpus : base->cpus ? base->cpus : 1;
    int64_t memory_mb = b->memory_mb ? b->memory_mb : base->memory_mb ? base->memory_mb : 512;
    int64_t disk_mb = base->disk_mb ? base->disk_mb : DISK_MB_DEFAULT;
    json_object_set_new(plan, "cpus", json_integer(cpus));
    json_object_set_new(plan, "memory_mb", json_integer(memory_mb));
    json_object_set_new(plan, "disk_mb", json_integer(b->disk_mb > disk_mb ? b->disk_mb : disk_mb));
}

static int set_template(struct build *b, struct plan_parts *parts, struct machine_facts *base,
                        struct err *e)
{
    struct known_template t = {0};
    if (templates_find_as(b->all->store, b->owner, parts->template, NULL, &t, e) < 0)
        return err_wrap(e, "fromTemplate");
    if (t.snapshot)
        err_set(e, ERR_INVALID, "fromTemplate: '%s' is a snapshot, and must be a template",
                parts->template);
    *base = t.facts;
    json_t *environment = templates_environment(b->all->store, t.name, t.build);
    plan_set_template(parts, t.name, environment);
    json_decref(environment);
    templates_fini(&t);
    return err_is(e) ? -1 : 0;
}

// A registry could lead the pull to any address of the operator's network, so the operator names
// those that builds may use. An authfile is always given: without one, skopeo would use the
// operator's own credentials.
static int set_image(const struct build *b, struct plan_parts *parts, struct err *e)
{
    bool plain = false;
    char *path auto_free = str_printf("%s/auth.json", b->dir);
    json_t *stage = json_array_get(json_object_get(parts->plan, "stages"), 0);
    if (!image_ref_is_allowed(b->all->opts.registries, parts->registry, &plain))
        return err_set(e, ERR_DENIED,
                       "builds through the API may not use the registry %.100s; the operator "
                       "allows it with cubbyd --build-registry %.100s",
                       parts->registry, parts->registry);
    if (!parts->authfile)
        parts->authfile = json_pack("{s:{}}", "auths");
    json_object_set_new(stage, "authfile", json_string(path));
    json_object_set_new(stage, "plain_http", json_boolean(plain));
    return 0;
}

static int prepare(struct build *b, struct plan_parts *parts, struct err *e)
{
    struct machine_facts base = {0};
    if (parts->template && set_template(b, parts, &base, e) < 0)
        return -1;
    if (!parts->template && set_image(b, parts, e) < 0)
        return -1;
    set_size(b, parts->plan, &base);
    if (plan_each_upload(parts->plan, link_upload, b, e) < 0 ||
        (parts->authfile && write_json(b, "auth.json", parts->authfile, e) < 0))
        return -1;
    return write_json(b, "plan.json", parts->plan, e);
}

int builds_start(struct build *b, const json_t *body, struct err *e)
{
    struct plan_parts parts;
    if (b->state != BUILD_WAITING)
        return err_set(e, ERR_CONFLICT,
                       "build %s was started before, or its start was refused; request another "
                       "build",
                       b->id);
    int rc = plan_read(body, &parts, e);
    if (rc == 0)
        rc = prepare(b, &parts, e);
    b->steps = parts.steps;
    plan_parts_fini(&parts);
    if (rc < 0)
        return -1;
    FAULT("build.1");
    build__set_state(b, BUILD_QUEUED);
    pump(b->all);
    return 0;
}

void builds_refuse(struct build *b, const char *reason)
{
    if (b->state != BUILD_WAITING)
        return;
    clean(b);
    build__fail(b, NULL, reason);
}
