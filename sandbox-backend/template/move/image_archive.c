// SPDX-License-Identifier: Apache-2.0
// The common part of the archives of snapshots and of sandboxes.
#include "sandbox-backend/template/move/image_archive.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/json_fields.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/net_policy.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/drivers/microvm/image/disk_image.h"
#include "sandbox-backend/drivers/microvm/image/template.h"
#include "sandbox-backend/drivers/template_dirs.h"
#include "sandbox-backend/keys/sha256.h"

#define JSON_BYTES (1 << 20)
#define SUM_DIGITS 8 // of a build's sum, in the name of a template that an archive brought

static const char *text_of(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

static int refuse(struct err *e, const char *what)
{
    return err_set(e, ERR_INVALID, "the archive cannot be imported: %s", what);
}

// ---- files
const struct driver *image_archive_driver(const char *tier, struct err *e)
{
    const struct driver *driver = tier ? driver_find(tier) : NULL;
    if (driver && driver->image_files)
        return driver;
    err_set(e, ERR_INVALID, "this Cubby has no tier \"%.32s\" whose images can be moved",
            tier ? tier : "");
    return NULL;
}

void image_archive_rules(const struct driver *driver, struct image_rules *out)
{
    out->count = 0;
    for (const struct driver_file *f = driver->image_files; f->name; f++) {
        char *name = out->names[out->count];
        snprintf(name, sizeof out->names[0], IMAGE_ARCHIVE_DIR "/%s", f->name);
        out->rules[out->count++] =
            (struct carry_rule){.name = name, .max = f->max, .optional = f->optional};
    }
}

int image_archive_add(struct carry *c, const char *dir, const struct carry_rule *rules,
                      size_t count, const char *below, struct err *e)
{
    int fd auto_close = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return err_sys(e, errno, "open %s", dir);
    for (size_t i = 0; i < count; i++) {
        const char *name = rules[i].name + strlen(below);
        if (rules[i].optional && faccessat(fd, name, F_OK, 0) < 0)
            continue;
        if (carry_add(c, fd, name, rules[i].name, e) < 0)
            return -1;
    }
    return 0;
}

// ---- the object
static int check_policy(const json_t *json, struct err *e)
{
    struct net_policy policy;
    if (!json)
        return 0;
    if (net_policy_from_json(&policy, json, e) < 0)
        return err_wrap(e, "the archive cannot be imported: its network policy");
    net_policy_fini(&policy);
    return 0;
}

static int check_numbers(const json_t *object, struct err *e)
{
    static const struct {
        const char *key;
        int64_t max;
    } NUMBERS[] = {{"cpus", 1024}, {"memory_mb", 1 << 24}, {"disk_mb", 1 << 30}};
    for (size_t i = 0; i < ARRAY_LEN(NUMBERS); i++) {
        const json_t *value = json_object_get(object, NUMBERS[i].key);
        if (value && (!json_is_integer(value) || json_integer_value(value) < 0 ||
                      json_integer_value(value) > NUMBERS[i].max))
            return refuse(e, "a size is out of range");
    }
    return 0;
}

static int check_metadata(const json_t *what, struct err *e)
{
    json_t *ignored;
    return json_get_string_map(what, "metadata", &ignored, e) < 0
               ? err_wrap(e, "the archive cannot be imported")
               : 0;
}

int image_archive_check(const json_t *what, struct err *e)
{
    const char *template = text_of(what, "template");
    const json_t *facts = json_object_get(what, "facts");
    const json_t *python = json_object_get(facts, "python"),
                 *accel = json_object_get(facts, "accel");
    if (!template || !template_name_ok(template))
        return refuse(e, "its template has an invalid name");
    if ((python && !json_is_boolean(python)) || (accel && !json_is_string(accel)))
        return refuse(e, "the facts of its machine are malformed");
    return check_numbers(facts, e) < 0 || check_numbers(json_object_get(what, "size"), e) < 0 ||
                   check_policy(json_object_get(what, "policy"), e) < 0
               ? -1
               : check_metadata(what, e);
}

// ---- the build
char *image_archive_sum(const char *template_dir, struct err *e)
{
    char *path auto_free = str_printf("%s/" TEMPLATE_VMSTATE, template_dir);
    struct sha256 sum;
    char hex[SHA256_HEX_CHARS + 1];
    if (sha256_of_file(path, &sum, e) < 0)
        return NULL;
    sha256_to_hex(&sum, hex);
    return xstrdup(hex);
}

char *image_archive_build(const char *template_dir)
{
    char *path auto_free = str_printf("%s/" TEMPLATE_JSON, template_dir);
    json_t *json = json_file_read(path, JSON_BYTES, NULL);
    const char *made = text_of(json, "created_at");
    char *build = made ? xstrdup(made) : NULL;
    json_decref(json);
    return build;
}

char *image_archive_other_name(const char *name, const char *sum)
{
    return str_printf("%.*s-%.*s", TEMPLATE_NAME_MAX - SUM_DIGITS - 1, name, SUM_DIGITS, sum);
}

static bool is_build(const char *dir, const char *wanted_build, const char *wanted_sum)
{
    char *build auto_free = image_archive_build(dir);
    char *sum auto_free = str_eq(build, wanted_build) ? image_archive_sum(dir, NULL) : NULL;
    return str_eq(sum, wanted_sum);
}

char *image_archive_find_build(const char *home, json_t *what, const char *sum)
{
    const char *name = text_of(what, "template"), *build = text_of(what, "build");
    char *other auto_free = image_archive_other_name(name, sum);
    char *dir auto_free = template_dirs_find_build(home, name, build);
    char *other_dir auto_free = template_dirs_find_build(home, other, build);
    if (is_build(dir, build, sum))
        return steal(&dir);
    if (!is_build(other_dir, build, sum))
        return NULL;
    json_object_set_new(what, "template", json_string(other));
    return steal(&other_dir);
}

int image_archive_check_fit(const json_t *what, const struct driver *driver, const char *dir,
                            const char *template_dir, struct err *e)
{
    const json_t *size = json_object_get(what, "size");
    const struct machine_size machine = {
        .cpus = (int)json_integer_value(json_object_get(size, "cpus")),
        .memory_mb = json_integer_value(json_object_get(size, "memory_mb")),
        .disk_mb = json_integer_value(json_object_get(size, "disk_mb"))};
    char *disk auto_free = str_printf("%s/disk.qcow2", dir);
    struct machine_facts facts = {0};
    if (file_exists(disk) && disk_image_check(disk, e) < 0)
        return -1;
    return driver->facts(template_dir, &facts, e) < 0
               ? -1
               : driver->image_check(dir, template_dir, &machine, e);
}
