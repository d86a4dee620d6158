// SPDX-License-Identifier: Apache-2.0
// Removing the templates of builds: those that no tag points to, and those of a removed name.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/fault.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/daemon/builds/builds_internal.h"
#include "sandbox-backend/daemon/sandbox/files.h"
#include "sandbox-backend/daemon/sandbox/sandbox.h"
#include "sandbox-backend/daemon/sandbox/store.h"
#include "sandbox-backend/log/log.h"

// Return who needs a template, as a new string for a message, or NULL.
static char *user_of(const struct store *store, const char *template)
{
    const struct snapshot *snap = NULL;
    for (const struct sandbox *sb = store_first(store); sb; sb = store_next(sb))
        if (str_eq(sb->template, template))
            return str_printf("sandbox %s", sb->id);
    TAILQ_FOREACH (snap, &store->snapshots.all, link)
        if (str_eq(snap->template, template))
            return str_printf("snapshot %s", snap->id);
    TAILQ_FOREACH (snap, &store->snapshots.making, link)
        if (str_eq(snap->template, template))
            return str_printf("snapshot %s", snap->id);
    return NULL;
}

// A build may start from it.
static bool is_base(const struct store *store, const char *template)
{
    const struct build *b = NULL;
    TAILQ_FOREACH (b, &store->builds->list, link) {
        char *plan auto_free = str_printf("%s/plan.json", b->dir);
        struct buf text auto_buf = BUF_INIT;
        if (b->state != BUILD_QUEUED && b->state != BUILD_RUNNING)
            continue;
        if (file_read(plan, 4 << 20, &text, NULL) == 0 && strstr(buf_str(&text), template))
            return true;
    }
    return false;
}

static int remove_template(struct store *store, const char *template, struct err *e)
{
    char *dir auto_free = str_printf("%s/templates/%s", store->home, template);
    char *gone auto_free = str_printf("%s/templates/.gone-%s", store->home, template);
    if (rename(dir, gone) < 0 && errno != ENOENT)
        return err_sys(e, errno, "rename %s", dir);
    FAULT("build_collect.3");
    files_remove_tree(store->loop, gone, "build.remove", NULL, NULL);
    return 0;
}

void collect__orphan(struct build *b)
{
    struct err e = ERR_INIT;
    struct store *store = b->all->store;
    char *dir auto_free = str_printf("%s/templates/%s", store->home, b->template);
    if (build__is_unfinished(b) || built_names_of_template(&store->names, b->template) ||
        !file_exists(dir))
        return;
    log_info("build.orphan", "template=%s", b->template);
    if (remove_template(store, b->template, &e) < 0)
        log_warn("build.orphan", "template=%s error=\"%s\"", b->template, e.msg);
}

// Remove the template of one build. First its name goes, so that nothing starts from it any more.
static int remove_build(struct store *store, const char *name, const char *id, const char *template,
                        struct err *e)
{
    log_info("build.collected", "template=%s build=%s", template, id);
    FAULT("build_collect.1");
    if (built_names_forget(&store->names, name, id, e) < 0)
        return -1;
    FAULT("build_collect.2");
    return remove_template(store, template, e);
}

static bool is_tagged(const struct built_names *names, const char *name, const char *id)
{
    const char *tag;
    json_t *at;
    json_object_foreach ((json_t *)(uintptr_t)built_names_tags(names, name), tag, at)
        if (str_eq(json_string_value(json_object_get(at, "build")), id))
            return true;
    return false;
}

// Remove one build of the name that nobody needs. Return whether there was one: the table has
// changed then, and what was borrowed from it is gone.
static bool collect_one(struct store *store, const char *name)
{
    const char *id;
    json_t *build;
    json_object_foreach ((json_t *)(uintptr_t)built_names_builds(&store->names, name), id, build) {
        struct err e = ERR_INIT;
        const char *template = json_string_value(json_object_get(build, "template"));
        char *user auto_free = user_of(store, template);
        if (user || is_tagged(&store->names, name, id) || is_base(store, template))
            continue;
        char *name_copy auto_free = xstrdup(name), *id_copy auto_free = xstrdup(id);
        char *template_copy auto_free = xstrdup(template);
        if (remove_build(store, name_copy, id_copy, template_copy, &e) == 0)
            return true;
        log_warn("build.collect", "template=%s error=\"%s\"", template_copy, e.msg);
        return false;
    }
    return false;
}

void builds_collect(struct store *store)
{
    const char *name;
    json_t *entry;
    bool again = true;
    while (again) {
        again = false;
        json_object_foreach (store->names.all, name, entry) {
            again = collect_one(store, name);
            if (again)
                break;
        }
    }
}

int builds_remove_name(struct store *store, const char *name, struct err *e)
{
    const char *id;
    json_t *build;
    json_object_foreach ((json_t *)(uintptr_t)built_names_builds(&store->names, name), id, build) {
        const char *template = json_string_value(json_object_get(build, "template"));
        char *user auto_free = user_of(store, template);
        if (user)
            return err_set(e, ERR_CONFLICT,
                           "template '%s' is needed by %s; end or delete that first", name, user);
    }
    while (built_names_has(&store->names, name)) {
        void *first =
            json_object_iter((json_t *)(uintptr_t)built_names_builds(&store->names, name));
        char *id_copy auto_free = xstrdup(json_object_iter_key(first));
        const json_t *at = json_object_iter_value(first);
        char *template auto_free = xstrdup(json_string_value(json_object_get(at, "template")));
        if (remove_build(store, name, id_copy, template, e) < 0)
            return -1;
    }
    return 0;
}
