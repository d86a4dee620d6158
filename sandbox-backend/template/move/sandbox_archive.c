// SPDX-License-Identifier: Apache-2.0
// Moving a hibernated sandbox to another node.
#include "sandbox-backend/template/move/sandbox_archive.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/json_fields.h"
#include "sandbox-backend/base/limits.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/sandbox_id.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/base/version.h"
#include "sandbox-backend/drivers/template_dirs.h"
#include "sandbox-backend/template/move/archive.h"
#include "sandbox-backend/template/move/carry.h"
#include "sandbox-backend/template/move/image_archive.h"

#define SANDBOX "sandbox" // the sandbox's directory in that of an arrival
#define RECORD  "sandbox.json"

static const char *text_of(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

// ---- export

// Return what the other node gets of the record. New reference, or NULL.
static json_t *read_record(const char *dir, struct err *e)
{
    static const char *const OF_HOST[] = {"moving", "moving_ran", "boot_id", "end_ms", "used_ms"};
    char *path auto_free = str_printf("%s/" RECORD, dir);
    json_t *record = json_file_read(path, LIMIT_JSON_BODY_BYTES, e);
    if (!record)
        return NULL;
    if (str_eq(text_of(record, "image"), "") && text_of(record, "moving")) {
        for (size_t i = 0; i < ARRAY_LEN(OF_HOST); i++)
            json_object_del(record, OF_HOST[i]);
        json_object_set_new(record, "machine", json_null());
        return record;
    }
    json_decref(record);
    err_set(e, ERR_CONFLICT, "the sandbox is not being moved");
    return NULL;
}

static int write_archive(const char *dir, const char *id, const char *template_dir, json_t *record,
                         const char *path, struct sha256 *digest, struct err *e)
{
    const char *tier = text_of(json_object_get(record, "facts"), "driver");
    const struct driver *driver = image_archive_driver(tier, e);
    char *sum auto_free = driver ? image_archive_sum(template_dir, e) : NULL;
    struct image_rules image;
    struct carry c;
    if (!sum)
        return err_wrap(e, "template \"%s\"", str_base(template_dir));
    image_archive_rules(driver, &image);
    json_t *manifest =
        json_pack("{s:i, s:s, s:O, s:s, s:s, s:s}", "format", SANDBOX_ARCHIVE_FORMAT, "cubby",
                  CUBBY_VERSION, "sandbox", record, "id", id, "tier", tier, "sum", sum);
    carry_init(&c);
    int result = image_archive_add(&c, dir, image.rules, image.count, "", e);
    if (result == 0)
        result = carry_write(&c, manifest, path, 0600, digest, e);
    carry_fini(&c);
    json_decref(manifest);
    return result;
}

int sandbox_archive_export(const char *home, const char *id, const char *path,
                           struct sha256 *digest, struct err *e)
{
    char *dir auto_free = str_printf("%s/sandboxes/%s", home, id);
    json_t *record = read_record(dir, e);
    if (!record)
        return -1;
    const char *name = text_of(record, "template"), *build = text_of(record, "build");
    char *template_dir auto_free = template_dirs_find_build(home, name ? name : "", build);
    int result = write_archive(dir, id, template_dir, record, path, digest, e);
    json_decref(record);
    return result;
}

// ---- import
static int refuse(struct err *e, const char *what)
{
    return err_set(e, ERR_INVALID, "the archive cannot be taken: %s", what);
}

static int check_manifest(const json_t *manifest, const char *wanted, struct err *e)
{
    const json_t *record = json_object_get(manifest, SANDBOX);
    const json_t *format = json_object_get(manifest, "format");
    const char *id = text_of(manifest, "id"), *sum = text_of(manifest, "sum");
    struct sha256 digest;
    if (!json_is_object(record))
        return refuse(e, "it has no sandbox");
    if (!json_is_integer(format) || json_integer_value(format) != SANDBOX_ARCHIVE_FORMAT)
        return refuse(e, "it has another format than this version of Cubby reads");
    if (!id || !sandbox_id_is_valid(id) || !str_eq(id, wanted) ||
        !str_eq(id, text_of(record, "id")))
        return refuse(e, "it has another sandbox");
    if (!sum || !sha256_from_hex(sum, &digest) || !text_of(record, "build"))
        return refuse(e, "it does not say of which build its template is");
    if (!str_eq(text_of(json_object_get(record, "facts"), "driver"), text_of(manifest, "tier")) ||
        !str_eq(text_of(record, "image"), "") || json_object_get(record, "moving") ||
        !json_is_null(json_object_get(record, "machine")) || json_object_get(record, "mounts"))
        return refuse(e, "its record is not one of a hibernated sandbox");
    return image_archive_check(record, e);
}

static int write_record(const json_t *record, const char *dir, struct err *e)
{
    char *path auto_free = str_printf("%s/" RECORD, dir);
    struct buf text auto_buf = BUF_INIT;
    json_to_buf(&text, record);
    return file_write_atomic(path, text.data, text.len, 0600, e);
}

static int sync_one(const char *path, int flags, struct err *e)
{
    int fd auto_close = open(path, O_RDONLY | O_CLOEXEC | flags);
    return fd < 0 || fsync(fd) < 0 ? err_sys(e, errno, "sync %s", path) : 0;
}

// Once the other node has removed the sandbox, these files are all that is left of it.
static int sync_all(const char *dir, const json_t *files, struct err *e)
{
    char *image auto_free = str_printf("%s/" IMAGE_ARCHIVE_DIR, dir);
    size_t i;
    const json_t *file;
    json_array_foreach (files, i, file) {
        char *path auto_free = str_printf("%s/%s", dir, text_of(file, "name"));
        if (sync_one(path, 0, e) < 0)
            return -1;
    }
    return sync_one(image, O_DIRECTORY, e) < 0 ? -1 : sync_one(dir, O_DIRECTORY, e);
}

static int read_files(const json_t *manifest, struct archive_reader *r, const struct driver *driver,
                      const char *dir, struct err *e)
{
    const json_t *files = json_object_get(manifest, "files");
    char *image auto_free = str_printf("%s/" IMAGE_ARCHIVE_DIR, dir);
    struct image_rules rules;
    struct sha256 digest;
    image_archive_rules(driver, &rules);
    if (carry_check(files, rules.rules, rules.count, dir, "sandbox", e) < 0 ||
        dir_make(image, 0700, e) < 0 || carry_read(r, files, dir, e) < 0)
        return -1;
    return archive_read_end(r, &digest, e);
}

static int take(const struct sandbox_arrival *a, const char *home, const json_t *manifest,
                struct archive_reader *r, struct err *e)
{
    json_t *record = json_object_get(manifest, SANDBOX);
    const char *sum = text_of(manifest, "sum");
    const struct driver *driver = image_archive_driver(text_of(manifest, "tier"), e);
    if (!driver || check_manifest(manifest, a->id, e) < 0)
        return -1;
    char *template_dir auto_free = image_archive_find_build(home, record, sum);
    if (!template_dir)
        return err_set(e, ERR_PRECONDITION,
                       "this node does not have template \"%s\" as it was built at %s; copy the "
                       "template's directory, or give it a snapshot with --with-template",
                       text_of(record, "template"), text_of(record, "build"));
    char *dir auto_free = str_printf("%s/" SANDBOX, a->dir);
    char *image auto_free = str_printf("%s/" IMAGE_ARCHIVE_DIR, dir);
    if (dir_make(dir, 0700, e) < 0 || read_files(manifest, r, driver, dir, e) < 0)
        return -1;
    if (image_archive_check_fit(record, driver, image, template_dir, e) < 0)
        return err_wrap(e, "it cannot run on this node");
    return write_record(record, dir, e) < 0 ? -1
                                            : sync_all(dir, json_object_get(manifest, "files"), e);
}

int sandbox_archive_read(struct sandbox_arrival *a, const char *home, const char *wanted,
                         const char *path, struct err *e)
{
    json_t *manifest = NULL;
    *a = (struct sandbox_arrival){.lock = -1, .id = xstrdup(wanted)};
    struct archive_reader *r = archive_open(path, &manifest, e);
    a->dir = r ? carry_dir(home, &a->lock, e) : NULL;
    int result = a->dir ? take(a, home, manifest, r, e) : -1;
    archive_reader_free(r);
    json_decref(manifest);
    return result;
}

void sandbox_arrival_fini(struct sandbox_arrival *a)
{
    if (a->dir)
        dir_remove(a->dir, NULL);
    mem_close_fd(&a->lock);
    free(a->dir);
    free(a->id);
}
