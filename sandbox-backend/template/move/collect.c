// SPDX-License-Identifier: Apache-2.0
// Garbage collection of what builds keep and leave.
//
// The last use of a layer or a template is the modification time of its snapshot.json or
// template.json: the daemon sets it at each create. A directory is renamed to a name that nothing
// starts from before its files are removed, so that no half of it is ever used.
#include "sandbox-backend/template/move/collect.h"

#include <dirent.h>
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/home.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/drivers/microvm/image/template.h"

#define JSON_BYTES_MAX (1024 * 1024)

enum kind { LAYER, HIDDEN_TEMPLATE, UNFINISHED_BUILD, IMPORT, LOG };
static const char *const KINDS[] = {"layer", "hidden template", "unfinished build", "import",
                                    "log"};

struct item {
    enum kind kind;
    char *name; // owned
    char *path; // owned
    int64_t bytes;
    int64_t used;
    bool is_cache; // it is removed by age and size; else it is of no use
};

struct items {
    struct item *list;
    size_t count;
};

static void add(struct items *items, enum kind kind, const char *name, const char *path,
                const struct stat *st)
{
    items->list = xrealloc(items->list, (items->count + 1) * sizeof *items->list);
    items->list[items->count++] =
        (struct item){.kind = kind,
                      .name = xstrdup(name),
                      .path = xstrdup(path),
                      .bytes = kind == LOG ? st->st_size : dir_disk_bytes(path),
                      .used = st->st_mtim.tv_sec,
                      .is_cache = kind == LAYER || kind == HIDDEN_TEMPLATE};
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

// A directory that a living process has locked is in use.
static bool is_abandoned(const char *path)
{
    int lock auto_close = dir_lock(path);
    return lock >= 0;
}

static void look_at(struct items *items, const char *dir, const char *name)
{
    char *path auto_free = str_printf("%s/%s", dir, name);
    char *layer auto_free = str_printf("%s/snapshot.json", path);
    char *template auto_free = str_printf("%s/" TEMPLATE_JSON, path);
    struct stat st;
    if (str_starts(name, ".build-")) {
        if (stat(path, &st) == 0 && is_abandoned(path))
            add(items, UNFINISHED_BUILD, name, path, &st);
    } else if (str_starts(name, "import-")) {
        bool is_file = stat(path, &st) == 0 && S_ISREG(st.st_mode);
        if (is_file || is_abandoned(path))
            add(items, IMPORT, name, path, &st);
    } else if (str_starts(name, "build-") && str_ends(name, ".log")) {
        if (stat(path, &st) == 0)
            add(items, LOG, name, path, &st);
    } else if (stat(layer, &st) == 0 && is_marked(layer, "layer")) {
        add(items, LAYER, name, path, &st);
    } else if (stat(template, &st) == 0 && is_marked(template, "hidden")) {
        add(items, HIDDEN_TEMPLATE, name, path, &st);
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
            look_at(items, path, d->d_name);
    closedir(dir);
    return 0;
}

static int by_use(const void *a, const void *b)
{
    int64_t x = ((const struct item *)a)->used, y = ((const struct item *)b)->used;
    return x < y ? -1 : x > y;
}

// ---- what goes

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
    if (item->kind == LOG)
        return unlink(item->path) == 0;
    struct stat st;
    if (stat(item->path, &st) == 0 && S_ISREG(st.st_mode))
        return unlink(item->path) == 0;
    char *unique auto_free = random_hex(4);
    char *gone auto_free = home_path(spec->home, "templates/.build-gone-");
    char *aside auto_free = str_printf("%s%s", gone, unique);
    return rename(item->path, aside) == 0 && dir_remove(aside, NULL) == 0;
}

static bool is_due(const struct collect_spec *spec, const struct item *item, int64_t cached)
{
    bool is_old = time(NULL) - item->used >= spec->unused_s;
    if (item->kind == UNFINISHED_BUILD || item->kind == IMPORT)
        return true;
    return is_old || (item->is_cache && cached > spec->bytes_max);
}

int collect_run(const struct collect_spec *spec,
                void (*each)(const struct collect_item *item, void *ctx), void *ctx, int64_t *kept,
                struct err *e)
{
    static const char *const DIRS[] = {"", "templates", "snapshots", "cache"};
    struct items items = {0};
    int result = 0;
    int64_t cached = 0;
    for (size_t i = 0; result == 0 && i < ARRAY_LEN(DIRS); i++)
        result = look_into(&items, spec->home, DIRS[i], e);
    for (size_t i = 0; i < items.count; i++)
        cached += items.list[i].is_cache ? items.list[i].bytes : 0;
    if (items.count)
        qsort(items.list, items.count, sizeof *items.list, by_use);
    for (size_t i = 0; result == 0 && i < items.count; i++) {
        const struct item *item = &items.list[i];
        if (!is_due(spec, item, cached) || !take_away(spec, item))
            continue;
        cached -= item->is_cache ? item->bytes : 0;
        each(&(struct collect_item){KINDS[item->kind], item->name, item->bytes, item->used}, ctx);
    }
    *kept = cached;
    items_fini(&items);
    return result;
}
