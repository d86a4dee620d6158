// SPDX-License-Identifier: Apache-2.0
// Moving templates between machines.
//
// The manifest of an archive is {"format", "template": {...}, "files": [...]} (carry.h).
#include "sandbox-backend/template/move/transfer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/home.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/base/version.h"
#include "sandbox-backend/drivers/host/tool.h"
#include "sandbox-backend/drivers/microvm/image/template.h"
#include "sandbox-backend/drivers/template_dirs.h"
#include "sandbox-backend/template/move/archive.h"
#include "sandbox-backend/template/move/carry.h"

#define FORMAT          1
#define MIB             (1024LL * 1024)
#define JSON_BYTES_MAX  (64 * 1024)
#define FETCH_MS        (4 * 3600 * 1000)
#define FETCH_BYTES_MAX "64G"

// The files of an archive, in their order, and their largest sizes.
static const struct carry_rule FILES[] = {
    {TEMPLATE_KERNEL, 256 * MIB, false},        {TEMPLATE_INITRD, 512 * MIB, false},
    {TEMPLATE_PACKAGES, 16 * MIB, false},       {TEMPLATE_DISK, 1024LL * 1024 * MIB, false},
    {TEMPLATE_MEMORY, 64LL * 1024 * MIB, true}, {TEMPLATE_VMSTATE, 64 * MIB, true},
};
#define FILES_OF_MACHINE 2 // the last ones

// The members of template.json that say how to build the machine again.
static const char *const KEPT[] = {"name",  "kernel",      "memory_mb", "cpus", "disk_mb",
                                   "image", "environment", "start",     "key",  "modules"};
// Those that say which saved machine the archive has. They are the member "saved".
static const char *const SAVED[] = {"qemu",         "machine", "cpu_model",    "accel",
                                    "envd_version", "python",  "python_kernel"};
static const char *const SAVED_TEXTS[] = {"qemu", "machine", "cpu_model", "accel", "envd_version"};

// ---- export
static json_t *take_members(const json_t *from, const char *const *keys, size_t count)
{
    json_t *kept = json_object();
    for (size_t i = 0; i < count; i++) {
        json_t *value = json_object_get(from, keys[i]);
        if (value)
            json_object_set(kept, keys[i], value);
    }
    return kept;
}

static json_t *kept_of(int dir, bool with_machine, struct err *e)
{
    struct buf text auto_buf = BUF_INIT;
    int fd auto_close = openat(dir, TEMPLATE_JSON, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        err_sys(e, errno, "open " TEMPLATE_JSON);
        return NULL;
    }
    if (fd_read_all(fd, JSON_BYTES_MAX, &text, e) < 0)
        return NULL;
    json_t *facts = json_parse(buf_str(&text), text.len, e);
    json_t *kept = take_members(facts, KEPT, ARRAY_LEN(KEPT));
    if (with_machine)
        json_object_set_new(kept, "saved", take_members(facts, SAVED, ARRAY_LEN(SAVED)));
    json_decref(facts);
    return kept;
}

static int add_files(struct carry *c, int dir, bool with_machine, struct err *e)
{
    size_t count = ARRAY_LEN(FILES) - (with_machine ? 0 : FILES_OF_MACHINE);
    for (size_t i = 0; i < count; i++)
        if (carry_add(c, dir, FILES[i].name, FILES[i].name, e) < 0)
            return -1;
    return 0;
}

// Under KVM the guest has seen a processor that another host need not have.
static int check_accel(const struct template *t, struct err *e)
{
    return str_eq(t->accel, "tcg")
               ? 0
               : err_set(e, ERR_PRECONDITION,
                         "the machine of template \"%s\" was saved under %s and fits only hosts "
                         "like this one; export it without the machine",
                         t->name, t->accel);
}

int transfer_export(const char *home, const char *name, const char *path, bool with_machine,
                    struct sha256 *digest, struct err *e)
{
    char *dir_path auto_free = template_dirs_find(home, name);
    struct template t;
    if (carry_check_path(path, e) < 0 || template_dirs_check(home, name, e) < 0 ||
        template_load(dir_path, &t, e) < 0)
        return -1;
    int fits = with_machine ? check_accel(&t, e) : 0;
    template_fini(&t);
    if (fits < 0)
        return -1;
    int dir auto_close = open(dir_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0)
        return err_sys(e, errno, "open %s", dir_path);
    json_t *kept = kept_of(dir, with_machine, e);
    if (!kept)
        return -1;
    json_t *manifest =
        json_pack("{s:i, s:s, s:o}", "format", FORMAT, "cubby", CUBBY_VERSION, "template", kept);
    struct carry c;
    carry_init(&c);
    int result = add_files(&c, dir, with_machine, e);
    if (result == 0)
        result = carry_write(&c, manifest, path, 0644, digest, e);
    carry_fini(&c);
    json_decref(manifest);
    return result;
}

// ---- import: what the manifest says

static int refuse(struct err *e, const char *what)
{
    return err_set(e, ERR_INVALID, "the archive cannot be imported: %s", what);
}

static int64_t number_of(const json_t *value)
{
    return json_is_integer(value) ? json_integer_value(value) : -1;
}

static int check_facts(const json_t *facts, struct err *e)
{
    static const struct {
        const char *key;
        int64_t min, max;
    } NUMBERS[] = {{"memory_mb", 128, 64 * 1024}, {"cpus", 1, 64}, {"disk_mb", 1024, 1024 * 1024}};
    const char *name = json_string_value(json_object_get(facts, "name"));
    for (size_t i = 0; i < ARRAY_LEN(NUMBERS); i++) {
        int64_t n = number_of(json_object_get(facts, NUMBERS[i].key));
        if (n < NUMBERS[i].min || n > NUMBERS[i].max)
            return err_set(e, ERR_INVALID, "the archive cannot be imported: %s is out of range",
                           NUMBERS[i].key);
    }
    return name && template_name_ok(name) ? 0 : refuse(e, "its template has an invalid name");
}

// Check that the member "saved" and the files of the saved machine come together, and that the
// memory has the machine's size.
static int check_saved(const json_t *facts, const json_t *files, struct err *e)
{
    size_t first = ARRAY_LEN(FILES) - FILES_OF_MACHINE, count = json_array_size(files);
    const json_t *saved = json_object_get(facts, "saved");
    int64_t bytes = number_of(json_object_get(facts, "memory_mb")) * MIB;
    if (!saved && count == first)
        return 0;
    for (size_t i = 0; i < ARRAY_LEN(SAVED_TEXTS); i++)
        if (!json_is_string(json_object_get(saved, SAVED_TEXTS[i])))
            return refuse(e, "its saved machine is not described");
    if (count != ARRAY_LEN(FILES) ||
        number_of(json_object_get(json_array_get(files, first), "size")) != bytes)
        return refuse(e, "its saved machine is not complete");
    return 0;
}

int transfer_check_manifest(const json_t *manifest, const char *dir, struct err *e)
{
    int64_t format = number_of(json_object_get(manifest, "format"));
    if (json_object_get(manifest, "snapshot"))
        return refuse(e, "it has a snapshot; use: cubby snapshot import");
    if (!json_is_integer(json_object_get(manifest, "format")))
        return refuse(e, "it does not say its format");
    if (format != FORMAT)
        return err_set(e, ERR_INVALID,
                       "the archive has format %lld, but this version of Cubby reads only format "
                       "%d; export it again, or use a newer Cubby",
                       (long long)format, FORMAT);
    if (carry_check(json_object_get(manifest, "files"), FILES, ARRAY_LEN(FILES), dir, "template",
                    e) < 0)
        return -1;
    const json_t *facts = json_object_get(manifest, "template");
    return check_facts(facts, e) < 0 ? -1
                                     : check_saved(facts, json_object_get(manifest, "files"), e);
}

// ---- import: the files

static int read_all(struct transfer *t, struct archive_reader *r, const json_t *manifest,
                    const struct sha256 *expected, struct err *e)
{
    if (transfer_check_manifest(manifest, t->dir, e) < 0 ||
        carry_read(r, json_object_get(manifest, "files"), t->dir, e) < 0)
        return -1;
    if (archive_read_end(r, &t->digest, e) < 0)
        return -1;
    if (expected && !sha256_equal(expected, &t->digest))
        return refuse(e, "its contents do not have the digest that was asked for");
    t->template = json_incref(json_object_get(manifest, "template"));
    return 0;
}

int transfer_read(struct transfer *t, const char *home, const char *path,
                  const struct sha256 *expected, struct err *e)
{
    json_t *manifest = NULL;
    *t = (struct transfer){.lock = -1};
    struct archive_reader *r = archive_open(path, &manifest, e);
    t->dir = r ? carry_dir(home, &t->lock, e) : NULL;
    int result = t->dir ? 0 : -1;
    if (result == 0)
        result = read_all(t, r, manifest, expected, e);
    archive_reader_free(r);
    json_decref(manifest);
    if (result < 0)
        transfer_fini(t);
    return result;
}

void transfer_fini(struct transfer *t)
{
    if (t->dir)
        dir_remove(t->dir, NULL);
    if (t->lock >= 0)
        close(t->lock);
    json_decref(t->template);
    free(t->dir);
    *t = (struct transfer){.lock = -1};
}

char *transfer_fetch(const char *home, const char *url, struct err *e)
{
    char *cache auto_free = home_path(home, "cache");
    char *unique auto_free = random_hex(4);
    char *path = str_printf("%s/import-%s.part", cache, unique);
    const char *argv[] = {"curl",
                          "--fail",
                          "--silent",
                          "--show-error",
                          "--location",
                          "--proto",
                          "=http,https",
                          "--max-filesize",
                          FETCH_BYTES_MAX,
                          "--output",
                          path,
                          "--",
                          url,
                          NULL};
    struct tool tool = {
        .argv = argv, .package = "curl", .out = 2, .log = 2, .keep = -1, .timeout_ms = FETCH_MS};
    if (dir_make(cache, 0700, e) == 0 && tool_run(&tool, e) == 0)
        return path;
    err_wrap(e, "download %s", url);
    unlink(path);
    free(path);
    return NULL;
}
