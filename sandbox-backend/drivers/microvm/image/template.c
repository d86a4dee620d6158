// SPDX-License-Identifier: Apache-2.0
// A template on the disk: what `cubby template build` leaves and the microvm driver restores from.
#include "sandbox-backend/drivers/microvm/image/template.h"

#include <dirent.h>
#include <errno.h>
#include <jansson.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/home.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/limits.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/drivers/template_dirs.h"

#define JSON_BYTES_MAX (1024 * 1024) // an image has labels and variables
#define FLAGS_ALWAYS   3             // of FLAGS, that are written when they are false, too
#define USERS_BYTES    120           // of names, in a message

static const struct {
    const char *key;
    size_t at;
} STRINGS[] =
    {
        {"name", offsetof(struct template, name)},
        {"created_at", offsetof(struct template, created_at)},
        {"kernel", offsetof(struct template, kernel)},
        {"qemu", offsetof(struct template, qemu)},
        {"machine", offsetof(struct template, machine)},
        {"cpu_model", offsetof(struct template, cpu_model)},
        {"accel", offsetof(struct template, accel)},
        {"envd_version", offsetof(struct template, envd_version)},
},
  NUMBERS[] =
      {
          {"memory_mb", offsetof(struct template, memory_mb)},
          {"cpus", offsetof(struct template, cpus)},
          {"disk_mb", offsetof(struct template, disk_mb)},
},
  OPTIONAL[] =
      {
          {"processor", offsetof(struct template, processor)},
          {"no_kvm", offsetof(struct template, no_kvm)},
          {"python_kernel", offsetof(struct template, python_kernel)},
          {"modules", offsetof(struct template, modules)},
          {"missing", offsetof(struct template, missing)},
          {"key", offsetof(struct template, key)},
},
  OBJECTS[] = {
      {"environment", offsetof(struct template, environment)},
      {"image", offsetof(struct template, image)},
      {"start", offsetof(struct template, start)},
};
static const struct {
    const char *key;
    size_t at;
} FLAGS[] = {
    {"python", offsetof(struct template, python)}, // older templates lack these
    {"disk_grows", offsetof(struct template, disk_grows)},
    {"gives_back", offsetof(struct template, gives_back)},
    {"hidden", offsetof(struct template, hidden)},
};

static char **string_at(struct template *t, size_t at)
{
    return (char **)(void *)((char *)t + at);
}

static int64_t *number_at(struct template *t, size_t at)
{
    return (int64_t *)(void *)((char *)t + at);
}

static json_t **object_at(struct template *t, size_t at)
{
    return (json_t **)(void *)((char *)t + at);
}

static bool *flag_at(struct template *t, size_t at)
{
    return (bool *)((char *)t + at);
}

void template_fini(struct template *t)
{
    for (size_t i = 0; i < ARRAY_LEN(STRINGS); i++)
        free(*string_at(t, STRINGS[i].at));
    for (size_t i = 0; i < ARRAY_LEN(OPTIONAL); i++)
        free(*string_at(t, OPTIONAL[i].at));
    for (size_t i = 0; i < ARRAY_LEN(OBJECTS); i++)
        json_decref(*object_at(t, OBJECTS[i].at));
    free(t->gvisor_rootfs);
    *t = (struct template){0};
}

bool template_name_ok(const char *name)
{
    static const char FIRST[] = "abcdefghijklmnopqrstuvwxyz0123456789";
    static const char REST[] = "abcdefghijklmnopqrstuvwxyz0123456789._@-";
    return *name && strchr(FIRST, *name) && strspn(name, REST) == strlen(name) &&
           strlen(name) <= TEMPLATE_NAME_MAX;
}

char *template_dir(const char *home, const char *name)
{
    return str_printf("%s/templates/%s", home, name);
}

static int read_optional(const json_t *object, struct template *t, struct err *e)
{
    for (size_t i = 0; i < ARRAY_LEN(FLAGS); i++)
        if (json_get_bool(object, FLAGS[i].key, flag_at(t, FLAGS[i].at), false, e) < 0)
            return -1;
    for (size_t i = 0; i < ARRAY_LEN(OPTIONAL); i++) {
        const char *s = json_string_value(json_object_get(object, OPTIONAL[i].key));
        *string_at(t, OPTIONAL[i].at) = s ? xstrdup(s) : NULL;
    }
    for (size_t i = 0; i < ARRAY_LEN(OBJECTS); i++) {
        json_t *value = json_object_get(object, OBJECTS[i].key);
        *object_at(t, OBJECTS[i].at) = json_is_object(value) ? json_incref(value) : NULL;
    }
    const char *gvisor =
        json_string_value(json_object_get(json_object_get(object, "gvisor"), "rootfs"));
    t->gvisor_rootfs = gvisor ? xstrdup(gvisor) : NULL;
    return 0;
}

static int read_members(const json_t *object, struct template *t, struct err *e)
{
    int64_t format = 0;
    if (json_get_int(object, "format", 0, INT64_MAX, &format, 0, e) < 0)
        return -1;
    if (format != TEMPLATE_FORMAT)
        return err_set(
            e, ERR_INVALID,
            "the template has format %lld, but this version of Cubby reads only format %d",
            (long long)format, TEMPLATE_FORMAT);
    for (size_t i = 0; i < ARRAY_LEN(STRINGS); i++) {
        const char *s = NULL;
        if (json_get_string(object, STRINGS[i].key, &s, NULL, e) < 0)
            return -1;
        if (!s)
            return err_set(e, ERR_INVALID, "%s is missing", STRINGS[i].key);
        *string_at(t, STRINGS[i].at) = xstrdup(s);
    }
    for (size_t i = 0; i < ARRAY_LEN(NUMBERS); i++) {
        int64_t *n = number_at(t, NUMBERS[i].at);
        if (json_get_int(object, NUMBERS[i].key, 1, INT64_MAX, n, 0, e) < 0)
            return -1;
        if (*n == 0)
            return err_set(e, ERR_INVALID, "%s is missing", NUMBERS[i].key);
    }
    return read_optional(object, t, e);
}

int template_load(const char *dir, struct template *t, struct err *e)
{
    char *path auto_free = str_printf("%s/%s", dir, TEMPLATE_JSON);
    struct buf text auto_buf = BUF_INIT;
    *t = (struct template){0};
    if (!file_exists(path))
        return err_set(e, ERR_NOT_FOUND,
                       "there is no template in %s; build it with: cubby template build %s", dir,
                       str_base(dir));
    if (file_read(path, JSON_BYTES_MAX, &text, e) < 0)
        return -1;
    json_t *object = json_parse(buf_str(&text), text.len, e);
    if (json_is_object(object) && read_members(object, t, e) == 0) {
        json_decref(object);
        return 0;
    }
    json_decref(object);
    template_fini(t);
    err_set(e, ERR_INVALID, "the file is not a JSON object"); // unless an error is set already
    return err_wrap(e, "%s cannot be read; build the template again with: cubby template build %s",
                    path, str_base(dir));
}

int template_save(const char *dir, const struct template *t, struct err *e)
{
    struct template copy = *t; // a shallow copy, read through string_at
    json_t *object = json_pack("{s:i, s:s}", "format", TEMPLATE_FORMAT, "driver", TEMPLATE_DRIVER);
    for (size_t i = 0; i < ARRAY_LEN(STRINGS); i++) {
        const char *s = *string_at(&copy, STRINGS[i].at);
        json_object_set_new(object, STRINGS[i].key, json_lossy_string(s, strlen(s)));
    }
    for (size_t i = 0; i < ARRAY_LEN(NUMBERS); i++)
        json_object_set_new(object, NUMBERS[i].key, json_integer(*number_at(&copy, NUMBERS[i].at)));
    for (size_t i = 0; i < ARRAY_LEN(FLAGS); i++)
        if (*flag_at(&copy, FLAGS[i].at) || i < FLAGS_ALWAYS)
            json_object_set_new(object, FLAGS[i].key, json_boolean(*flag_at(&copy, FLAGS[i].at)));
    for (size_t i = 0; i < ARRAY_LEN(OPTIONAL); i++) {
        const char *s = *string_at(&copy, OPTIONAL[i].at);
        if (s)
            json_object_set_new(object, OPTIONAL[i].key, json_lossy_string(s, strlen(s)));
    }
    for (size_t i = 0; i < ARRAY_LEN(OBJECTS); i++)
        if (*object_at(&copy, OBJECTS[i].at))
            json_object_set(object, OBJECTS[i].key, *object_at(&copy, OBJECTS[i].at));
    if (t->gvisor_rootfs)
        json_object_set_new(object, "gvisor", json_pack("{s:s}", "rootfs", t->gvisor_rootfs));
    struct buf text auto_buf = BUF_INIT;
    json_to_buf(&text, object);
    buf_addc(&text, '\n');
    json_decref(object);
    char *path auto_free = str_printf("%s/%s", dir, TEMPLATE_JSON);
    return file_write_atomic(path, text.data, text.len, 0644, e);
}

static int not_hidden(const struct dirent *d)
{
    return d->d_name[0] != '.';
}

struct listing {
    const char *home;
    int (*each)(const struct template *t, const char *dir, void *ctx);
    void (*bad)(const char *name, const struct err *why, void *ctx);
    void *ctx;
};

static int list_one(const struct listing *l, const char *dir, const char *name)
{
    char *path auto_free = str_printf("%s/%s", dir, name);
    struct template t;
    struct err why = ERR_INIT;
    bool usable =
        !template_dirs_is_system(l->home, path) || template_dirs_check(l->home, name, &why) == 0;
    if (usable && template_load(path, &t, &why) == 0) {
        int stop = l->each(&t, path, l->ctx);
        template_fini(&t);
        return stop;
    }
    if (l->bad)
        l->bad(name, &why, l->ctx);
    return 0;
}

// skip: a directory whose templates go before those of `dir`; or NULL.
static int list_in(const struct listing *l, const char *dir, const char *skip, struct err *e)
{
    struct dirent **names = NULL;
    int stop = 0, n = scandir(dir, &names, not_hidden, alphasort);
    if (n < 0)
        return errno == ENOENT ? 0 : err_sys(e, errno, "read %s", dir);
    for (int i = 0; i < n; i++) {
        char *first auto_free =
            skip ? str_printf("%s/%s/" TEMPLATE_JSON, skip, names[i]->d_name) : NULL;
        if (!stop && !(first && file_exists(first)))
            stop = list_one(l, dir, names[i]->d_name);
        free(names[i]);
    }
    free(names);
    return stop;
}

int template_list(const char *home,
                  int (*each)(const struct template *t, const char *dir, void *ctx),
                  void (*bad)(const char *name, const struct err *why, void *ctx), void *ctx,
                  struct err *e)
{
    const struct listing l = {home, each, bad, ctx};
    char *dir auto_free = home_path(home, "templates");
    char *system auto_free = template_dirs_system(home);
    int stop = list_in(&l, dir, NULL, e);
    return stop || !system ? stop : list_in(&l, system, dir, e);
}

// Which entries of <home>/<dir> count as users.
struct users {
    const char *dir, *file;
    bool hibernated; // count only a sandbox with an image and no machine
};
// A layer of a build, which is a hidden snapshot, never counts: it can be made again. Nor does a
// pool member: the daemon ends it when its template changes.
static const struct users SNAPSHOTS = {"snapshots", "snapshot.json", false};
static const struct users SANDBOXES = {"sandboxes", "sandbox.json", false};
static const struct users HIBERNATED = {"sandboxes", "sandbox.json", true};

// Tell whether a daemon's file names the template. An unreadable file belongs to an entry that a
// running daemon is making or removing, so it does not count.
static bool file_names(const char *path, const struct users *users, const char *name)
{
    struct buf text auto_buf = BUF_INIT;
    if (file_read(path, LIMIT_JSON_BODY_BYTES, &text, NULL) < 0)
        return false;
    json_t *object = json_parse(buf_str(&text), text.len, NULL);
    bool names = str_eq(json_string_value(json_object_get(object, "template")), name) &&
                 !json_is_string(json_object_get(object, "layer")) &&
                 !str_eq(json_string_value(json_object_get(object, "state")), "pooled") &&
                 (!users->hibernated || json_is_string(json_object_get(object, "image")));
    json_decref(object);
    return names;
}

// Return the entries whose file names the template, "a, b ...". New string; NULL: none.
static char *users_of(const char *home, const struct users *users, const char *name)
{
    char *where auto_free = home_path(home, users->dir);
    struct buf found = BUF_INIT;
    struct dirent **ids = NULL;
    bool full = false;
    int n = scandir(where, &ids, not_hidden, alphasort);
    for (int i = 0; i < n; i++) {
        char *path auto_free = str_printf("%s/%s/%s", where, ids[i]->d_name, users->file);
        if (!full && file_names(path, users, name)) {
            full = found.len > USERS_BYTES;
            buf_printf(&found, "%s%s", found.len ? ", " : "", full ? "..." : ids[i]->d_name);
        }
        free(ids[i]);
    }
    free(ids);
    return found.len ? buf_take(&found) : NULL;
}

char *template_snapshots(const char *home, const char *name)
{
    return users_of(home, &SNAPSHOTS, name);
}

char *template_hibernated(const char *home, const char *name)
{
    return users_of(home, &HIBERNATED, name);
}

int template_check_unused(const char *home, const char *name, struct err *e)
{
    char *sandboxes auto_free = users_of(home, &SANDBOXES, name);
    char *snapshots auto_free = template_snapshots(home, name);
    if (sandboxes)
        return err_set(
            e, ERR_CONFLICT,
            "template \"%s\" is used by sandbox %s; kill the sandbox first, or use --force", name,
            sandboxes);
    if (snapshots)
        return err_set(e, ERR_CONFLICT,
                       "template \"%s\" is needed by snapshot %s; delete the snapshot first, or "
                       "use --force, which makes it useless",
                       name, snapshots);
    return 0;
}

int template_remove(const char *home, const char *name, bool force, struct err *e)
{
    char *templates auto_free = home_path(home, "templates");
    char *json auto_free = str_printf("%s/%s/" TEMPLATE_JSON, templates, name);
    if (!force && file_exists(json) && template_check_unused(home, name, e) < 0)
        return -1;
    return template_remove_from(templates, name, e);
}

int template_remove_from(const char *templates, const char *name, struct err *e)
{
    char *dir auto_free = str_printf("%s/%s", templates, name);
    if (!template_name_ok(name))
        return err_set(e, ERR_INVALID, "\"%s\" is not a valid template name", name);
    if (!file_exists(dir))
        return err_set(e, ERR_NOT_FOUND,
                       "there is no template \"%s\"; cubby template ls lists them", name);
    // Rename the directory first, to a name that is never restored from, so that no program sees a
    // half-removed template. If this program is killed here, the next build removes the rest.
    char *unique auto_free = random_hex(4);
    char *gone auto_free = str_printf("%s/.build-%s-%s", templates, name, unique);
    if (rename(dir, gone) < 0)
        return err_sys(e, errno, "rename %s", dir);
    return dir_remove(gone, e);
}

// ---- another size

char *sized_apply(struct template *t, const char *template_dir, const struct machine_size *size)
{
    int64_t cpus = size->cpus ? size->cpus : t->cpus;
    int64_t memory_mb = size->memory_mb ? size->memory_mb : t->memory_mb;
    bool is_own = size->booted || cpus != t->cpus || memory_mb != t->memory_mb;
    t->cpus = cpus;
    t->memory_mb = memory_mb;
    t->disk_mb = size->disk_mb ? size->disk_mb : t->disk_mb;
    return is_own ? xstrdup(SIZED_ZEROS) : str_printf("%s/" TEMPLATE_MEMORY, template_dir);
}

bool sized_is_own(const char *memory)
{
    return str_eq(memory, SIZED_ZEROS);
}

char *sized_load(struct template *t, const char *template_dir, const struct machine_size *size,
                 struct err *e)
{
    return template_load(template_dir, t, e) == 0 ? sized_apply(t, template_dir, size) : NULL;
}
