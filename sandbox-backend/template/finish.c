// SPDX-License-Identifier: Apache-2.0
// The part for gVisor of a template that was made without it.
#include "sandbox-backend/template/finish.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/drivers/gvisor/attempt.h"
#include "sandbox-backend/drivers/gvisor/runsc.h"
#include "sandbox-backend/drivers/template_dirs.h"
#include "sandbox-backend/template/build_internal.h"
#include "sandbox-backend/template/gvisor_image.h"

static const char *member(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

static bool is_possible(const struct template *t, struct err *e)
{
    if (t->modules)
        err_set(e, ERR_UNIMPLEMENTED, "gVisor's kernel has no modules");
    else if (t->start)
        // The disk has what the start command wrote; gVisor's machine would run it again on that.
        err_set(e, ERR_UNIMPLEMENTED, "it has a start command; build it again instead");
    return !t->modules && !t->start;
}

// Return the directory with the template's directory. New string.
static char *parent_of(const char *dir)
{
    return xstrndup(dir, (size_t)(str_base(dir) - dir - 1));
}

bool template_finish_is_wanted(const char *home, const char *name, char **failed)
{
    struct err unused = ERR_INIT;
    struct template t;
    char *dir auto_free = template_dirs_find(home, name);
    char *templates auto_free = parent_of(dir);
    char *runsc auto_free = runsc_find(NULL, &unused);
    char *mkfs auto_free = tool_find("mkfs.erofs", "erofs-utils", NULL);
    *failed = NULL;
    if (!runsc || !mkfs || access(templates, W_OK) < 0 || template_load(dir, &t, &unused) < 0)
        return false;
    bool wanted = !t.gvisor_rootfs && is_possible(&t, &unused);
    template_fini(&t);
    *failed = wanted ? attempt_reason(dir) : NULL;
    return wanted;
}

// No other process replaces the template meanwhile: the build directory of its name is locked. But
// it may have been removed, or finished before the lock was taken.
static int check_same(const struct build *b, const char *dir, bool *made, struct err *e)
{
    struct template now;
    if (template_load(dir, &now, e) < 0)
        return -1;
    bool same = str_eq(now.created_at, b->finishes->created_at);
    *made = !now.gvisor_rootfs;
    template_fini(&now);
    return same ? 0
                : err_set(e, ERR_CONFLICT, "template \"%s\" was built again meanwhile",
                          b->spec->name);
}

// template.json comes last: without it nothing uses the directory.
static int commit(struct build *b, const char *dir, struct err *e)
{
    struct template t = *b->finishes;
    bool is_new = false;
    if (check_same(b, dir, &is_new, e) < 0 || build_dir_commit_part(&b->dir, GVISOR_DIR, e) < 0)
        return -1;
    t.gvisor_rootfs = b->gvisor_digest;
    attempt_forget(dir);
    return template_save(dir, &t, e);
}

// A part that cannot be made is left out of a build. Here it is all that there is to do.
static int run(struct build *b, const char *dir, bool *made, struct err *e)
{
    if (build_open(b, e) < 0 || check_same(b, dir, made, e) < 0)
        return -1;
    if (!*made)
        return 0;
    b->setup.python = b->finishes->python;
    if (b->runsc && build_run(b, BUILD_STAGES - BUILD_STAGES_GVISOR, e) < 0)
        return -1;
    if (b->runsc)
        return commit(b, dir, e);
    err_set(e, b->no_runsc.code, "%s", b->no_runsc.msg);
    return err_wrap(e, "template \"%s\" gets no part for gVisor", b->spec->name);
}

static int finish(const struct template_finish *spec, const struct template *t, const char *dir,
                  bool *made, struct err *e)
{
    char *disk auto_free = str_printf("%s/" TEMPLATE_DISK, dir);
    char *kernel auto_free = str_printf("%s/" TEMPLATE_KERNEL, dir);
    char *templates auto_free = parent_of(dir);
    bool is_shared = template_dirs_is_system(spec->home, dir);
    if (access(templates, W_OK) < 0)
        return err_set(e, ERR_DENIED,
                       "this user may not write to %s; run as root: cubby template finish %s",
                       templates, spec->name);
    const struct template_build build = {
        .home = spec->home,
        .templates = is_shared ? templates : NULL,
        .name = spec->name,
        .kernel = kernel,
        .memory_mb = t->memory_mb,
        .cpus = t->cpus,
        .disk_mb = t->disk_mb,
        .progress = spec->progress,
        .terminal = spec->terminal,
        .source = {.kind = FROM_DISK, .disk = disk, .keeps_disk = true},
        .environment = {.variables = json_object_get(t->environment, "variables"),
                        .directory = member(t->environment, "directory"),
                        .user = member(t->environment, "user")}};
    struct build b = {.spec = &build,
                      .finishes = t,
                      .templates = templates,
                      .dir = {.lock = -1},
                      .log = -1,
                      .cache_lock = -1};
    mode_t before = umask(022);
    tool_watch_signals();
    int result = run(&b, dir, made, e);
    if (result < 0)
        build_name_full_disk(&b, DISK_WORDS, e);
    build_close(&b);
    tool_unwatch_signals();
    umask(before);
    return result;
}

int template_finish(const struct template_finish *spec, bool *made, struct err *e)
{
    struct template t;
    char *dir auto_free = template_dirs_find(spec->home, spec->name);
    *made = false;
    if (!template_name_ok(spec->name))
        return err_set(e, ERR_INVALID, "\"%s\" is not a valid template name", spec->name);
    if (template_dirs_check(spec->home, spec->name, e) < 0 || template_load(dir, &t, e) < 0)
        return -1;
    int result = 0;
    if (!t.gvisor_rootfs)
        result = is_possible(&t, e)
                     ? finish(spec, &t, dir, made, e)
                     : err_wrap(e, "template \"%s\" gets no part for gVisor", t.name);
    template_fini(&t);
    return result;
}
