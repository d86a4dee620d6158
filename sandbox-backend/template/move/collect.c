// SPDX-License-Identifier: Apache-2.0
// Garbage collection of what builds keep and leave.
//
// The last use of a layer or a template is the modification time of its snapshot.json or
// template.json: the daemon sets it at each create. A directory is renamed to a name that nothing
// starts from before its files are removed, so that no half of it is ever used.
#include "sandbox-backend/template/move/collect.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/home.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/json_fields.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/drivers/microvm/image/template.h"
#include "sandbox-backend/drivers/template_dirs.h"
#include "sandbox-backend/template/unpack.h"

#define JSON_BYTES_MAX  (1024 * 1024)
#define DOWNLOAD_IDLE_S 600 // a download that nothing was written to for so long is abandoned
#define WORK_DIR        "build-work" // <name>/ and <name>.lock of a running build (build/engine.c)
#define LOCK_ENDING     ".lock"

enum kind { LAYER, HIDDEN_TEMPLATE, UNFINISHED_BUILD, IMPORT, LOG, OF_SYSTEM, WORK };
static const char *const KINDS[] = {"layer",
                                    "hidden template",
                                    "unfinished build",
                                    "import",
                                    "log",
                                    "files of the system's template",
                                    "unfinished build"};

struct item {
    enum kind kind;
    char *name; // owned
    char *path; // owned
    int64_t bytes;
    int64_t used;
    bool is_cache; // it is removed by age and size
    bool is_dead;  // it is of no use
};

struct items {
    struct item *list;
    size_t count;
};

static void add(struct items *items, enum kind kind, const char *name, const char *path,
                const struct stat *st, bool is_dead)
{
    items->list = xrealloc(items->list, (items->count + 1) * sizeof *items->list);
    items->list[items->count++] =
        (struct item){.kind = kind,
                      .name = xstrdup(name),
                      .path = xstrdup(path),
                      .bytes = kind == LOG ? st->st_size : dir_disk_bytes(path),
                      .used = st->st_mtim.tv_sec,
                      .is_cache = !is_dead && kind != LOG,
                      .is_dead = is_dead};
}

static void items_fini(struct items *items)
{
    for (size_t i = 0; i < items->count; i++) {
        free(items->list[i].name);
        free(items->list[i].path);
    }
    free(items->list);
}

// ---- what there is

// Tell whether the JSON file of a directory has a member that is set.
static bool is_marked(const char *file, const char *member)
{
    struct buf text auto_buf = BUF_INIT;
    if (file_read(file, JSON_BYTES_MAX, &text, NULL) < 0)
        return false;
    json_t *object = json_parse(buf_str(&text), text.len, NULL);
    const json_t *value = json_object_get(object, member);
    bool marked = value && !json_is_null(value) && !json_is_false(value);
    json_decref(object);
    return marked;
}

// A layer is of no use without the very build of the template that it was made with.
static bool is_orphan(const char *home, const char *file)
{
    json_t *layer = json_file_read(file, JSON_BYTES_MAX, NULL);
    const char *template = json_string_value(json_object_get(layer, "template"));
    const char *build = json_string_value(json_object_get(layer, "build"));
    char *dir auto_free = template ? template_dirs_find_build(home, template, build) : NULL;
    char *path auto_free = dir ? str_printf("%s/" TEMPLATE_JSON, dir) : NULL;
    json_t *facts = path && file_exists(path) ? json_file_read(path, JSON_BYTES_MAX, NULL) : NULL;
    bool orphan =
        path && build &&
        (!file_exists(path) ||
         (facts && !str_eq(json_string_value(json_object_get(facts, "created_at")), build)));
    json_decref(facts);
    json_decref(layer);
    return orphan;
}

// Tell whether a directory of this home belongs to a template of the system that is gone, or whose
// name another build has. The directory's name is that of the template, '@' and the build.
static bool is_of_lost_template(const char *home, const char *path, const char *name)
{
    const char *at = strrchr(name, '@');
    char *system auto_free = template_dirs_system(home);
    char *template auto_free = at ? xstrndup(name, (size_t)(at - name)) : NULL;
    char *dir auto_free = at && system ? str_printf("%s/%s", system, template) : NULL;
    char *own auto_free = dir ? template_dirs_own(home, dir) : NULL;
    return at && !str_eq(own, path);
}

// A directory that a living process has locked is in use.
static bool is_abandoned(const char *path)
{
    int lock auto_close = dir_lock(path);
    return lock >= 0;
}

// Take the lock of a build's directory. Return its descriptor, or -1 if the build runs.
static int work_lock(const char *path, int flags)
{
    char *lock auto_free = str_printf("%s" LOCK_ENDING, path);
    int fd = open(lock, O_RDWR | O_CLOEXEC | flags, 0600);
    if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) < 0)
        mem_close_fd(&fd), fd = -1;
    return fd;
}

// A killed build leaves its directory, its lock file, or both.
static void look_at_work(struct items *items, const char *path, const char *name)
{
    struct stat st;
    bool is_lock = stat(path, &st) == 0 && S_ISREG(st.st_mode) && str_ends(name, LOCK_ENDING);
    size_t cut = is_lock ? strlen(LOCK_ENDING) : 0;
    char *dir auto_free = xstrndup(path, strlen(path) - cut);
    char *build auto_free = xstrndup(name, strlen(name) - cut);
    char *lock auto_free = str_printf("%s" LOCK_ENDING, dir);
    if (is_lock && file_exists(dir))
        return; // the directory is listed
    int fd auto_close = work_lock(dir, 0);
    if (fd >= 0 || !file_exists(lock))
        add(items, WORK, build, dir, &st, true);
}

static void look_at(struct items *items, const char *home, const char *dir, const char *name)
{
    char *path auto_free = str_printf("%s/%s", dir, name);
    char *layer auto_free = str_printf("%s/snapshot.json", path);
    char *template auto_free = str_printf("%s/" TEMPLATE_JSON, path);
    struct stat st;
    if (str_ends(dir, "/" TEMPLATE_DIRS_OWN)) {
        if (stat(path, &st) == 0 && is_of_lost_template(home, path, name))
            add(items, OF_SYSTEM, name, path, &st, true);
    } else if (str_ends(dir, "/" WORK_DIR)) {
        look_at_work(items, path, name);
    } else if (str_starts(name, ".build-")) {
        if (stat(path, &st) == 0 && is_abandoned(path))
            add(items, UNFINISHED_BUILD, name, path, &st, true);
    } else if (str_starts(name, "import-")) {
        bool is_file = stat(path, &st) == 0 && S_ISREG(st.st_mode);
        if (is_file ? time(NULL) - st.st_mtime >= DOWNLOAD_IDLE_S : is_abandoned(path))
            add(items, IMPORT, name, path, &st, true);
    } else if (str_starts(name, "build-") && str_ends(name, ".log")) {
        if (stat(path, &st) == 0)
            add(items, LOG, name, path, &st, false);
    } else if (stat(layer, &st) == 0 && is_marked(layer, "layer")) {
        add(items, LAYER, name, path, &st, is_orphan(home, layer));
    } else if (stat(template, &st) == 0 && is_marked(template, "hidden")) {
        add(items, HIDDEN_TEMPLATE, name, path, &st, false);
    }
}

static int look_into(struct items *items, const char *home, const char *relative, struct err *e)
{
    char *path auto_free = home_path(home, relative);
    DIR *dir = opendir(path);
    if (!dir)
        return errno == ENOENT ? 0 : err_sys(e, errno, "read %s", path);
    for (struct dirent *d; (d = readdir(dir));)
        if (!str_eq(d->d_name, ".") && !str_eq(d->d_name, ".."))
            look_at(items, home, path, d->d_name);
    closedir(dir);
    return 0;
}

static int by_use(const void *a, const void *b)
{
    int64_t x = ((const struct item *)a)->used, y = ((const struct item *)b)->used;
    return x < y ? -1 : x > y;
}

// ---- what goes

// The lock keeps a new build of the name out meanwhile.
static bool take_work(const char *path)
{
    int fd auto_close = work_lock(path, O_CREAT);
    char *lock auto_free = str_printf("%s" LOCK_ENDING, path);
    return fd >= 0 && dir_remove(path, NULL) == 0 && unlink(lock) == 0;
}

// Remove an item. Return false if it must stay.
static bool take_away(const struct collect_spec *spec, const struct item *item)
{
    bool is_template = item->kind == HIDDEN_TEMPLATE;
    if (is_template && template_check_unused(spec->home, item->name, NULL) < 0)
        return false;
    if (spec->dry_run)
        return true;
    if (is_template)
        return template_remove(spec->home, item->name, false, NULL) == 0;
    if (item->kind == OF_SYSTEM && template_unpack_remove(item->path, false, NULL) < 0)
        return false;
    if (item->kind == LOG)
        return unlink(item->path) == 0;
    if (item->kind == WORK)
        return take_work(item->path);
    struct stat st;
    if (stat(item->path, &st) == 0 && S_ISREG(st.st_mode))
        return unlink(item->path) == 0;
    char *unique auto_free = random_hex(4);
    size_t parent = (size_t)(str_base(item->path) - item->path);
    char *aside auto_free = str_printf("%.*s.build-gone-%s", (int)parent, item->path, unique);
    return rename(item->path, aside) == 0 && dir_remove(aside, NULL) == 0;
}

static bool is_due(const struct collect_spec *spec, const struct item *item, int64_t cached,
                   int64_t count)
{
    bool is_old = time(NULL) - item->used >= spec->unused_s;
    return item->is_dead || is_old ||
           (item->is_cache && (cached > spec->bytes_max || count > spec->count_max));
}

int collect_run(const struct collect_spec *spec,
                void (*each)(const struct collect_item *item, void *ctx), void *ctx, int64_t *kept,
                struct err *e)
{
    static const char *const DIRS[] = {"",      "templates", "snapshots",
                                       "cache", WORK_DIR,    TEMPLATE_DIRS_OWN};
    struct items items = {0};
    int result = 0;
    int64_t cached = 0, count = 0;
    for (size_t i = 0; result == 0 && i < ARRAY_LEN(DIRS); i++)
        result = look_into(&items, spec->home, DIRS[i], e);
    for (size_t i = 0; i < items.count; i++) {
        cached += items.list[i].is_cache ? items.list[i].bytes : 0;
        count += items.list[i].is_cache;
    }
    if (items.count)
        qsort(items.list, items.count, sizeof *items.list, by_use);
    for (size_t i = 0; result == 0 && i < items.count; i++) {
        const struct item *item = &items.list[i];
        if (!is_due(spec, item, cached, count) || !take_away(spec, item))
            continue;
        cached -= item->is_cache ? item->bytes : 0;
        count -= item->is_cache;
        each(&(struct collect_item){KINDS[item->kind], item->name, item->bytes, item->used}, ctx);
    }
    *kept = cached;
    items_fini(&items);
    return result;
}

static void on_collected(const struct collect_item *item, void *ctx)
{
    (void)item, (void)ctx;
}

void collect_quietly(const char *home, bool is_full)
{
    int64_t kept;
    struct err ignored = ERR_INIT;
    const struct collect_spec spec = {.home = home,
                                      .unused_s = is_full ? COLLECT_UNUSED_S : INT64_MAX,
                                      .bytes_max = is_full ? COLLECT_BYTES_MAX : INT64_MAX,
                                      .count_max = is_full ? COLLECT_COUNT_MAX : INT64_MAX};
    collect_run(&spec, on_collected, NULL, &kept, &ignored);
}
