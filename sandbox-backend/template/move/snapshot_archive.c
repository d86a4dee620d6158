// SPDX-License-Identifier: Apache-2.0
// Moving snapshots between homes and machines.
#include "sandbox-backend/template/move/snapshot_archive.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/json_fields.h"
#include "sandbox-backend/base/limits.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/sandbox_id.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/base/version.h"
#include "sandbox-backend/drivers/driver.h"
#include "sandbox-backend/drivers/microvm/image/disk_image.h"
#include "sandbox-backend/drivers/microvm/image/template.h"
#include "sandbox-backend/drivers/template_dirs.h"
#include "sandbox-backend/template/move/carry.h"
#include "sandbox-backend/template/move/image_archive.h"

#define FORMAT          1
#define SNAPSHOT_FORMAT 1 // of snapshot.json (daemon/sandbox/snapshots.c)
#define SNAPSHOT_JSON   "snapshot.json"
#define ID_PREFIX       "snap-"
#define NAME_MAX_CHARS  128
#define MIB             (1024LL * 1024)
#define IMAGE           IMAGE_ARCHIVE_DIR
#define TEMPLATE        "template"

// The files of a template. Those of an image are the driver's (driver.image_files).
static const struct carry_rule BUILD[] = {
    {TEMPLATE "/template.json", MIB, false},
    {TEMPLATE "/vmstate", 64 * MIB, false},
    {TEMPLATE "/memory", 256 * 1024 * MIB, false},
    {TEMPLATE "/disk.ext4", 1024LL * 1024 * MIB, false},
    {TEMPLATE "/overlay.qcow2", 64 * MIB, false},
    {TEMPLATE "/vmlinuz", 256 * MIB, false},
    {TEMPLATE "/initramfs.cpio", 512 * MIB, false},
    {TEMPLATE "/packages.txt", 16 * MIB, true},
    {TEMPLATE "/gvisor/config.json", MIB, true},
    {TEMPLATE "/gvisor/rootfs.erofs", 1024LL * 1024 * MIB, true},
    {TEMPLATE "/gvisor/tools.erofs", 1024 * MIB, true},
    {TEMPLATE "/gvisor/memory.erofs", 256 * 1024 * MIB, true},
    {TEMPLATE "/gvisor/image.json", MIB, true},
    {TEMPLATE "/gvisor/checkpoint.img", 1024 * MIB, true},
    {TEMPLATE "/gvisor/pages_meta.img", 1024 * MIB, true},
    {TEMPLATE "/gvisor/pages.img", 256 * 1024 * MIB, true},
};

// The members of snapshot.json that an import keeps, with their types. The owner stays behind: keys
// belong to one daemon.
static const struct {
    const char *key;
    json_type type;
} KEPT[] = {
    {"name", JSON_STRING},        {"sandbox", JSON_STRING},        {"template", JSON_STRING},
    {"build", JSON_STRING},       {"token", JSON_STRING},          {"metadata", JSON_OBJECT},
    {"policy", JSON_OBJECT},      {"size", JSON_OBJECT},           {"facts", JSON_OBJECT},
    {"created_ns", JSON_INTEGER}, {"standstill_us", JSON_INTEGER},
};

static const char *text_of(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

static json_t *kept_of(const json_t *snapshot)
{
    json_t *kept = json_object();
    for (size_t i = 0; i < ARRAY_LEN(KEPT); i++) {
        json_t *value = json_object_get(snapshot, KEPT[i].key);
        if (value && json_typeof(value) == KEPT[i].type)
            json_object_set(kept, KEPT[i].key, value);
    }
    return kept;
}

// ---- export

// Return the newest snapshot with this id or name, as its snapshot.json has it. New reference.
static json_t *find_snapshot(const char *home, const char *wanted, char **dir, struct err *e)
{
    char *all_path auto_free = str_printf("%s/snapshots", home);
    DIR *all = opendir(all_path);
    json_t *found = NULL;
    json_int_t newest = -1;
    for (struct dirent *d; all && (d = readdir(all));) {
        char *where auto_free = str_printf("%s/%s", all_path, d->d_name);
        char *path auto_free = str_printf("%s/" SNAPSHOT_JSON, where);
        json_t *one =
            d->d_name[0] == '.' ? NULL : json_file_read(path, LIMIT_JSON_BODY_BYTES, NULL);
        json_int_t made = json_integer_value(json_object_get(one, "created_ns"));
        bool meant = one && !json_is_string(json_object_get(one, "layer")) &&
                     (str_eq(d->d_name, wanted) || str_eq(text_of(one, "name"), wanted));
        if (meant && made > newest) {
            json_decref(found);
            free(*dir);
            found = json_incref(one);
            newest = made;
            *dir = xstrdup(where);
        }
        json_decref(one);
    }
    if (all)
        closedir(all);
    if (!found)
        err_set(
            e, ERR_NOT_FOUND,
            "there is no snapshot \"%.64s\" in this home; cubby snapshot ls lists the snapshots",
            wanted);
    return found;
}

// Return the directory of the template's build that the snapshot needs. New string, or NULL.
static char *find_build(const char *home, const json_t *snapshot, struct err *e)
{
    const char *name = text_of(snapshot, "template"), *build = text_of(snapshot, "build");
    char *dir auto_free = template_dirs_find_build(home, name ? name : "", build);
    char *has auto_free = image_archive_build(dir);
    if (has && (!build || !*build || str_eq(has, build)))
        return steal(&dir);
    err_set(e, ERR_PRECONDITION,
            "the snapshot is useless, because its template \"%.64s\" was %s since it was made",
            name ? name : "", has ? "rebuilt" : "removed");
    return NULL;
}

static int export_found(const char *dir, const json_t *snapshot, const char *template_dir,
                        bool with_template, const char *path, struct sha256 *digest, struct err *e)
{
    const char *driver = text_of(json_object_get(snapshot, "facts"), "driver");
    const struct driver *tier = image_archive_driver(driver, NULL);
    struct image_rules image;
    char *sum auto_free = image_archive_sum(template_dir, e);
    if (!sum)
        return err_wrap(e, "template \"%s\"", str_base(template_dir));
    if (!tier)
        return err_set(e, ERR_UNIMPLEMENTED, "a snapshot of the tier \"%.32s\" cannot be exported",
                       driver ? driver : "");
    image_archive_rules(tier, &image);
    json_t *manifest = json_pack("{s:i, s:s, s:o, s:s, s:s, s:b}", "format", FORMAT, "cubby",
                                 CUBBY_VERSION, "snapshot", kept_of(snapshot), "tier", tier->name,
                                 "sum", sum, "with_template", (int)with_template);
    struct carry c;
    carry_init(&c);
    int result = image_archive_add(&c, dir, image.rules, image.count, "", e);
    if (result == 0 && with_template)
        result = image_archive_add(&c, template_dir, BUILD, ARRAY_LEN(BUILD), TEMPLATE "/", e);
    if (result == 0)
        result = carry_write(&c, manifest, path, 0600, digest, e);
    carry_fini(&c);
    json_decref(manifest);
    return result;
}

int snapshot_archive_export(const char *home, const char *wanted, bool with_template,
                            const char *path, struct sha256 *digest, struct err *e)
{
    char *dir auto_free = NULL;
    if (carry_check_path(path, e) < 0)
        return -1;
    json_t *snapshot = find_snapshot(home, wanted, &dir, e);
    char *template_dir auto_free = snapshot ? find_build(home, snapshot, e) : NULL;
    int result = template_dir
                     ? export_found(dir, snapshot, template_dir, with_template, path, digest, e)
                     : -1;
    json_decref(snapshot);
    return result;
}

// ---- import: what the manifest says
struct import {
    const struct snapshot_import *spec;
    char *dir; // owned; where the files are read to
    int lock;
    json_t *manifest;    // owned
    json_t *snapshot;    // owned; the kept members
    char *template_dir;  // owned; the template's directory, here
    char *template_name; // owned; that an archive brings; NULL: the build is here
};

static int refuse(struct err *e, const char *what)
{
    return err_set(e, ERR_INVALID, "the archive cannot be imported: %s", what);
}

bool snapshot_archive_name_ok(const char *name)
{
    static const char CHARS[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._:-";
    size_t len = strlen(name);
    return len && len <= NAME_MAX_CHARS && *name != '.' && strspn(name, CHARS) == len;
}

static int check_snapshot(const json_t *snapshot, struct err *e)
{
    const char *name = text_of(snapshot, "name");
    if (!text_of(snapshot, "build") || !text_of(snapshot, "sandbox"))
        return refuse(e, "it does not say of which sandbox and template it is");
    if (name && !snapshot_archive_name_ok(name))
        return refuse(e, "its name is invalid");
    return image_archive_check(snapshot, e);
}

static bool has_template(const struct import *im)
{
    return json_is_true(json_object_get(im->manifest, "with_template"));
}

static int check_files(const struct import *im, const struct driver *tier, struct err *e)
{
    struct image_rules image;
    image_archive_rules(tier, &image);
    if (has_template(im)) {
        memcpy(image.rules + image.count, BUILD, sizeof BUILD);
        image.count += ARRAY_LEN(BUILD);
    }
    return carry_check(json_object_get(im->manifest, "files"), image.rules, image.count, im->dir,
                       "snapshot", e);
}

static int check_manifest(struct import *im, struct err *e)
{
    const json_t *snapshot = json_object_get(im->manifest, "snapshot");
    const json_t *format = json_object_get(im->manifest, "format");
    const char *tier = text_of(im->manifest, "tier"), *sum = text_of(im->manifest, "sum");
    struct sha256 digest;
    if (!snapshot)
        return refuse(e, "it has no snapshot; if it has a template, use: cubby template import");
    if (!json_is_integer(format) || json_integer_value(format) != FORMAT)
        return err_set(
            e, ERR_INVALID,
            "this Cubby reads only archives of format %d, and another version wrote this "
            "one: export the snapshot again with the version of this host, or import it "
            "with the version that wrote it",
            FORMAT);
    im->snapshot = kept_of(snapshot);
    const struct driver *driver = image_archive_driver(tier, NULL);
    if (!driver || !str_eq(text_of(json_object_get(im->snapshot, "facts"), "driver"), tier))
        return err_set(e, ERR_INVALID,
                       "the archive cannot be imported: this Cubby has no tier \"%.32s\" whose "
                       "snapshots can be moved",
                       tier ? tier : "");
    if (!sum || !sha256_from_hex(sum, &digest))
        return refuse(e, "it does not say of which build its template is");
    return check_snapshot(im->snapshot, e) < 0 ? -1 : check_files(im, driver, e);
}

// ---- import: the template

// Find the build, also under the name that an earlier import gave it. Otherwise choose that name.
static int find_template(struct import *im, struct err *e)
{
    const char *home = im->spec->home, *name = text_of(im->snapshot, "template");
    const char *build = text_of(im->snapshot, "build"), *sum = text_of(im->manifest, "sum");
    if ((im->template_dir = image_archive_find_build(home, im->snapshot, sum)))
        return 0;
    char *dir auto_free = template_dirs_find_build(home, name, build);
    char *other auto_free = image_archive_other_name(name, sum);
    char *other_dir auto_free = template_dirs_find_build(home, other, build);
    bool taken = file_exists(dir);
    if (!has_template(im))
        return err_set(e, ERR_PRECONDITION,
                       "the snapshot needs template \"%s\" as it was built at %s, and %s; export "
                       "the snapshot again with --with-template",
                       name, build,
                       taken ? "the template here is another build" : "there is none here");
    if (taken && file_exists(other_dir))
        return err_set(e, ERR_CONFLICT, "there are other templates \"%s\" and \"%s\" here", name,
                       other);
    im->template_name = xstrdup(taken ? other : name);
    im->template_dir = str_printf("%s/" TEMPLATE, im->dir);
    json_object_set_new(im->snapshot, "template", json_string(im->template_name));
    return 0;
}

// The name in template.json is that of the directory.
static int rename_template(const struct import *im, struct err *e)
{
    struct template t;
    if (template_load(im->template_dir, &t, e) < 0)
        return err_wrap(e, "the archive cannot be imported: its template");
    free(t.name);
    t.name = xstrdup(im->template_name);
    int result = template_save(im->template_dir, &t, e);
    bool right = str_eq(t.created_at, text_of(im->snapshot, "build"));
    template_fini(&t);
    if (result == 0 && !right)
        return refuse(e, "its template is another build than its snapshot needs");
    return result;
}

static int check_template(const struct import *im, struct err *e)
{
    char *sum auto_free = NULL;
    char *overlay auto_free = str_printf("%s/" TEMPLATE_OVERLAY, im->template_dir);
    if (!im->template_name)
        return 0;
    sum = image_archive_sum(im->template_dir, e);
    if (!sum || !str_eq(sum, text_of(im->manifest, "sum")))
        return sum ? refuse(e, "its template is another build than its snapshot needs") : -1;
    return disk_image_check(overlay, e) < 0 ? -1 : rename_template(im, e);
}

// ---- import: the snapshot

static int check_fit(const struct import *im, struct err *e)
{
    const struct driver *driver = driver_find(text_of(im->manifest, "tier"));
    char *image auto_free = str_printf("%s/" IMAGE, im->dir);
    return image_archive_check_fit(im->snapshot, driver, image, im->template_dir, e) < 0
               ? err_wrap(e, "the snapshot cannot run here")
               : 0;
}

static int check_new_name(const struct import *im, struct err *e)
{
    const char *name = text_of(im->snapshot, "name");
    char *plain auto_free = name ? xstrndup(name, strcspn(name, ":")) : NULL;
    char *dir auto_free = plain ? template_dirs_find(im->spec->home, plain) : NULL;
    char *json auto_free = dir ? str_printf("%s/" TEMPLATE_JSON, dir) : NULL;
    if (!json || !file_exists(json))
        return 0;
    return err_set(e, ERR_CONFLICT,
                   "the snapshot's name \"%s\" is that of a template; choose another with --name",
                   name);
}

static char *new_id(void)
{
    char id[SANDBOX_ID_MAX + 1];
    sandbox_id_make(id, NULL);
    return str_printf(ID_PREFIX "%s", id);
}

static int write_json(const struct import *im, const char *id, const char *dir, struct err *e)
{
    char *path auto_free = str_printf("%s/" SNAPSHOT_JSON, dir);
    struct buf text auto_buf = BUF_INIT;
    json_object_set_new(im->snapshot, "format", json_integer(SNAPSHOT_FORMAT));
    json_object_set_new(im->snapshot, "id", json_string(id));
    json_object_set_new(im->snapshot, "bytes", json_integer(dir_disk_bytes(dir)));
    json_to_buf(&text, im->snapshot);
    return file_write_atomic(path, text.data, text.len, 0600, e);
}

// Put the parts in their places: the template first, because the snapshot needs it. The rename of
// the snapshot's directory is what makes it one.
static int commit(const struct import *im, const char *id, struct err *e)
{
    char *all auto_free = str_printf("%s/snapshots", im->spec->home);
    char *fresh auto_free = str_printf("%s/new", im->dir);
    char *from auto_free = str_printf("%s/" IMAGE, im->dir);
    char *image auto_free = str_printf("%s/" IMAGE, fresh);
    char *to auto_free = str_printf("%s/%s", all, id);
    char *templates auto_free = str_printf("%s/templates", im->spec->home);
    int disk auto_close = open(im->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (mkdir(fresh, 0700) < 0 || rename(from, image) < 0)
        return err_sys(e, errno, "make %s", fresh);
    if (write_json(im, id, fresh, e) < 0 || dir_make(all, 0700, e) < 0 ||
        dir_make(templates, 0700, e) < 0)
        return -1;
    if (disk < 0 || syncfs(disk) < 0)
        return err_sys(e, errno, "sync %s", im->dir);
    char *place auto_free =
        im->template_name ? template_dir(im->spec->home, im->template_name) : NULL;
    if (place && renameat2(AT_FDCWD, im->template_dir, AT_FDCWD, place, RENAME_NOREPLACE) < 0)
        return err_sys(e, errno, "make the template %s", place);
    return rename(fresh, to) < 0 ? err_sys(e, errno, "make %s", to) : 0;
}

static int read_all(struct import *im, struct archive_reader *r, struct err *e)
{
    static const char *const DIRS[] = {IMAGE, TEMPLATE, TEMPLATE "/gvisor"};
    struct sha256 digest;
    if (check_manifest(im, e) < 0)
        return -1;
    if (im->spec->name)
        json_object_set_new(im->snapshot, "name", json_string(im->spec->name));
    if (check_new_name(im, e) < 0 || find_template(im, e) < 0)
        return -1;
    for (size_t i = 0; i < ARRAY_LEN(DIRS); i++) {
        char *path auto_free = str_printf("%s/%s", im->dir, DIRS[i]);
        if (dir_make(path, 0700, e) < 0)
            return -1;
    }
    if (carry_read(r, json_object_get(im->manifest, "files"), im->dir, e) < 0 ||
        archive_read_end(r, &digest, e) < 0)
        return -1;
    if (im->spec->expected && !sha256_equal(im->spec->expected, &digest))
        return refuse(e, "its contents do not have the digest that was asked for");
    return check_template(im, e) < 0 ? -1 : check_fit(im, e);
}

int snapshot_archive_import(const struct snapshot_import *spec, char **id, char **template,
                            struct err *e)
{
    struct import im = {.spec = spec, .lock = -1};
    *id = *template = NULL;
    struct archive_reader *r = archive_open(spec->path, &im.manifest, e);
    im.dir = r ? carry_dir(spec->home, &im.lock, e) : NULL;
    int result = im.dir ? read_all(&im, r, e) : -1;
    archive_reader_free(r);
    char *fresh auto_free = new_id();
    if (result == 0)
        result = commit(&im, fresh, e);
    if (result == 0) {
        *id = steal(&fresh);
        *template = steal(&im.template_name);
    }
    if (im.dir)
        dir_remove(im.dir, NULL);
    mem_close_fd(&im.lock);
    json_decref(im.manifest);
    json_decref(im.snapshot);
    free(im.dir);
    free(im.template_dir);
    free(im.template_name);
    return result;
}
