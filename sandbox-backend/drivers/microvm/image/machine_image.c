// SPDX-License-Identifier: Apache-2.0
// An image: the files that machine_save leaves in a directory.
#include "sandbox-backend/drivers/microvm/image/machine_image.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/json_fields.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/drivers/microvm/image/checksum.h"
#include "sandbox-backend/drivers/microvm/image/page_file.h"
#include "sandbox-backend/drivers/microvm/image/processor.h"

#define IMAGE_FORMAT     1
#define IMAGE_JSON_BYTES (64 * 1024)

static const char *const FILES[] = {MACHINE_IMAGE_JSON, MACHINE_IMAGE_VMSTATE, MACHINE_IMAGE_PAGES,
                                    MACHINE_IMAGE_DISK};

// The members of image.json for each file. An older image without sums is accepted unchecked. The
// disk has no sum: QEMU reads only the parts that the guest asks for, so a check would be the only
// reader of the whole file.
static const struct {
    const char *name;
    bool summed;
    int64_t most; // the limit in bytes
} KEPT[] = {
    {MACHINE_IMAGE_DISK, false, INT64_MAX}, // the only one of an image without memory
    {MACHINE_IMAGE_VMSTATE, true, MACHINE_IMAGE_VMSTATE_BYTES_MAX},
    {MACHINE_IMAGE_PAGES, true, INT64_MAX},
};

#define SUM_CHARS 17 // with the NUL

static const char DISK_MAGIC[4] = {'Q', 'F', 'I', '\xfb'};

// The facts of the template that must be equal for devices and pages to fit. The first must be
// equal for a disk to fit.
static const struct {
    const char *key;
    size_t at;
} SAME[] = {
    {"created_at", offsetof(struct template, created_at)},
    {"qemu", offsetof(struct template, qemu)},
    {"machine", offsetof(struct template, machine)},
    {"cpu_model", offsetof(struct template, cpu_model)},
    {"accel", offsetof(struct template, accel)},
};

static size_t kept_of(bool with_memory)
{
    return with_memory ? ARRAY_LEN(KEPT) : 1;
}

static bool has_memory(const json_t *image)
{
    return !json_is_false(json_object_get(image, "memory"));
}

static const char *member(const struct template *t, size_t at)
{
    return *(char *const *)(const void *)((const char *)t + at);
}

// Start to write the files to the disk. This overlaps with the computing of the sums; the sync
// later waits for the end.
static void begin_sync(const char *dir, size_t kept)
{
    for (size_t i = 0; i < kept; i++) {
        char *path auto_free = str_printf("%s/%s", dir, KEPT[i].name);
        int fd auto_close = open(path, O_RDONLY | O_CLOEXEC);
        if (fd >= 0)
            sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WRITE);
    }
}

static int end_sync(const char *dir, size_t kept, struct err *e)
{
    for (size_t i = 0; i < kept; i++) {
        char *path auto_free = str_printf("%s/%s", dir, KEPT[i].name);
        int fd auto_close = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0 || fsync(fd) != 0)
            return err_sys(e, errno, "write %s", path);
    }
    return 0;
}

static int sum_of(const char *dir, const char *name, int64_t bytes, char text[SUM_CHARS],
                  struct err *e)
{
    char *path auto_free = str_printf("%s/%s", dir, name);
    uint64_t sum;
    if (checksum_file(path, (uint64_t)bytes, &sum, e) != 0)
        return -1;
    snprintf(text, SUM_CHARS, "%016llx", (unsigned long long)sum);
    return 0;
}

static int size_of(const char *dir, const char *name, int64_t *size, struct err *e)
{
    char *path auto_free = str_printf("%s/%s", dir, name);
    struct stat st;
    if (stat(path, &st) != 0)
        return err_sys(e, errno, "look at %s", path);
    *size = (int64_t)st.st_size;
    return 0;
}

// Check the length of a file that QEMU wrote. QEMU decides the length, and the whole file would be
// read.
static int check_most(const char *name, int64_t size, int64_t most, struct err *e)
{
    if (size <= most)
        return 0;
    return err_set(e, ERR_TOO_LARGE, "QEMU wrote %lld bytes of %s, more than the limit of %lld",
                   (long long)size, name, (long long)most);
}

// Return NULL on failure.
static json_t *describe_files(const char *dir, size_t kept, struct err *e)
{
    json_t *files = json_object();
    for (size_t i = 0; i < kept; i++) {
        const char *name = KEPT[i].name;
        char sum[SUM_CHARS];
        int64_t size;
        if (size_of(dir, name, &size, e) != 0 || check_most(name, size, KEPT[i].most, e) != 0 ||
            (KEPT[i].summed && sum_of(dir, name, size, sum, e) != 0)) {
            json_decref(files);
            return NULL;
        }
        json_object_set_new(files, name,
                            json_pack("{s:I, s:s*}", "bytes", (json_int_t)size, "sum",
                                      KEPT[i].summed ? sum : NULL));
    }
    return files;
}

// Return NULL on failure.
static json_t *describe(const char *dir, const struct template *t, bool with_memory, struct err *e)
{
    json_t *files = describe_files(dir, kept_of(with_memory), e);
    if (!files)
        return NULL;
    json_t *object = json_pack("{s:i, s:s, s:I, s:I, s:o}", "format", IMAGE_FORMAT, "template",
                               t->name, "memory_mb", (json_int_t)t->memory_mb, "cpus",
                               (json_int_t)t->cpus, "files", files);
    for (size_t i = 0; i < ARRAY_LEN(SAME); i++)
        json_object_set_new(object, SAME[i].key, json_string(member(t, SAME[i].at)));
    char *processor auto_free = str_eq(t->accel, "kvm") ? processor_here() : NULL;
    if (processor)
        json_object_set_new(object, "processor", json_string(processor));
    if (!with_memory)
        json_object_set_new(object, "memory", json_false());
    return object;
}

static int write_json(const char *dir, const json_t *object, bool sync, struct err *e)
{
    char *path auto_free = str_printf("%s/" MACHINE_IMAGE_JSON, dir);
    struct buf text auto_buf = BUF_INIT;
    json_to_buf(&text, object);
    buf_addc(&text, '\n');
    return sync ? file_write_atomic(path, text.data, text.len, 0600, e)
                : file_replace(path, text.data, text.len, 0600, e);
}

int machine_image_seal(const char *dir, const struct template *t, bool with_memory, bool sync,
                       int64_t *bytes, struct err *e)
{
    size_t kept = kept_of(with_memory);
    if (sync)
        begin_sync(dir, kept);
    json_t *object = describe(dir, t, with_memory, e);
    bool written =
        object && (!sync || end_sync(dir, kept, e) == 0) && write_json(dir, object, sync, e) == 0;
    json_decref(object);
    if (!written)
        return -1;
    *bytes = 0;
    for (size_t i = 0; i < ARRAY_LEN(FILES); i++) {
        char *path auto_free = str_printf("%s/%s", dir, FILES[i]);
        struct stat st;
        if (stat(path, &st) == 0)
            *bytes += (int64_t)st.st_blocks * 512;
        else if (with_memory || errno != ENOENT)
            return err_sys(e, errno, "look at %s", path);
    }
    return 0;
}

// ---- does the image fit

static int check_member(const json_t *image, const char *key, const char *wanted,
                        const struct template *t, struct err *e)
{
    const char *has = json_string_value(json_object_get(image, key));
    if (str_eq(has, wanted))
        return 0;
    return err_set(e, ERR_PRECONDITION,
                   "the image belongs to another build of template %s (%s \"%s\", now \"%s\"); "
                   "create a new sandbox from the template",
                   t->name, key, has ? has : "", wanted);
}

static int check_number(const json_t *image, const char *key, int64_t wanted, struct err *e)
{
    json_int_t has = json_integer_value(json_object_get(image, key));
    if (has == wanted)
        return 0;
    return err_set(e, ERR_PRECONDITION, "the image was saved from a machine with %s %lld, not %lld",
                   key, (long long)has, (long long)wanted);
}

// The guest sees the host's own processor under KVM. Images of older versions do not name it.
static int check_processor(const json_t *image, const struct template *t, struct err *e)
{
    const char *saved = json_string_value(json_object_get(image, "processor"));
    char *here auto_free = saved && str_eq(t->accel, "kvm") ? processor_here() : NULL;
    struct buf why auto_buf = BUF_INIT;
    if (processor_fits(saved, here, &why))
        return 0;
    return err_set(e, ERR_PRECONDITION,
                   "the image does not fit this host's processor (%s); run \"cubby template build "
                   "%s\" and create a new sandbox",
                   buf_str(&why), t->name);
}

static int check_json(const json_t *image, const struct template *t, struct err *e)
{
    if (json_integer_value(json_object_get(image, "format")) != IMAGE_FORMAT)
        return err_set(e, ERR_INVALID, "this version of Cubby cannot read the image");
    size_t same = has_memory(image) ? ARRAY_LEN(SAME) : 1;
    for (size_t i = 0; i < same; i++) {
        if (check_member(image, SAME[i].key, member(t, SAME[i].at), t, e) != 0)
            return -1;
    }
    if (!has_memory(image))
        return 0;
    if (check_number(image, "memory_mb", t->memory_mb, e) != 0)
        return -1;
    if (check_number(image, "cpus", t->cpus, e) != 0)
        return -1;
    return check_processor(image, t, e);
}

// ---- is the image whole

static int damaged(struct err *e, const char *dir, const char *name, const char *why)
{
    return err_set(e, ERR_INVALID, "the image is damaged: %s/%s %s", dir, name, why);
}

static int check_size(const char *dir, const char *name, const json_t *kept, struct err *e)
{
    int64_t has, wanted;
    if (size_of(dir, name, &has, e) != 0)
        return err_wrap(e, "the image is damaged");
    if (!kept)
        return 0;
    wanted = json_integer_value(json_object_get(kept, "bytes"));
    char *why auto_free = str_printf("has %lld bytes, not the %lld that were saved", (long long)has,
                                     (long long)wanted);
    return has == wanted ? 0 : damaged(e, dir, name, why);
}

static int check_sum(const char *dir, const char *name, const json_t *kept, struct err *e)
{
    const char *wanted = json_string_value(json_object_get(kept, "sum"));
    char has[SUM_CHARS];
    if (!wanted)
        return 0;
    if (sum_of(dir, name, json_integer_value(json_object_get(kept, "bytes")), has, e) != 0)
        return -1;
    return str_eq(has, wanted) ? 0 : damaged(e, dir, name, "is not what was saved");
}

static int check_disk(const char *dir, struct err *e)
{
    char *path auto_free = str_printf("%s/" MACHINE_IMAGE_DISK, dir);
    char magic[sizeof DISK_MAGIC] = {0};
    int fd auto_close = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || read(fd, magic, sizeof magic) < 0)
        return err_sys(e, errno, "read %s", path);
    if (memcmp(magic, DISK_MAGIC, sizeof magic) != 0)
        return damaged(e, dir, MACHINE_IMAGE_DISK, "is not a disk");
    return 0;
}

static int check_pages(const char *dir, const struct template *t, struct err *e)
{
    char *path auto_free = str_printf("%s/" MACHINE_IMAGE_PAGES, dir);
    struct page_file pages;
    if (page_file_open(&pages, path, (uint64_t)t->memory_mb * 1024 * 1024, e) != 0)
        return err_wrap(e, "the image is damaged");
    page_file_close(&pages);
    return 0;
}

static int check_files(const char *dir, const struct template *t, const json_t *image,
                       struct err *e)
{
    const json_t *files = json_object_get(image, "files");
    for (size_t i = 0; i < kept_of(has_memory(image)); i++) {
        if (check_size(dir, KEPT[i].name, json_object_get(files, KEPT[i].name), e) != 0)
            return -1;
    }
    if (check_disk(dir, e) != 0)
        return -1;
    if (!has_memory(image))
        return 0;
    if (check_pages(dir, t, e) != 0)
        return -1;
    return check_sum(dir, MACHINE_IMAGE_VMSTATE, json_object_get(files, MACHINE_IMAGE_VMSTATE), e);
}

static json_t *read_image_json(const char *dir, struct err *e)
{
    char *path auto_free = str_printf("%s/" MACHINE_IMAGE_JSON, dir);
    json_t *json = json_file_read(path, IMAGE_JSON_BYTES, e);
    if (!json)
        err_wrap(e, "there is no saved machine in %s", dir);
    return json;
}

int machine_image_check(const char *dir, const struct template *t, struct err *e)
{
    json_t *image = read_image_json(dir, e);
    int result = image ? check_json(image, t, e) : -1;
    if (result == 0)
        result = check_files(dir, t, image, e);
    json_decref(image);
    return result == 0 ? 0 : err_wrap(e, "the saved machine in %s cannot be used", dir);
}

int machine_image_has_memory(const char *dir, bool *out, struct err *e)
{
    json_t *image = read_image_json(dir, e);
    if (!image)
        return -1;
    *out = has_memory(image);
    json_decref(image);
    return 0;
}

int machine_image_check_pages(const char *dir, struct err *e)
{
    json_t *image = read_image_json(dir, e);
    const json_t *files = json_object_get(image, "files");
    int result =
        image ? check_sum(dir, MACHINE_IMAGE_PAGES, json_object_get(files, MACHINE_IMAGE_PAGES), e)
              : -1;
    json_decref(image);
    return result;
}

void machine_image_empty(const char *dir)
{
    for (size_t i = 0; i < ARRAY_LEN(FILES); i++) {
        char *path auto_free = str_printf("%s/%s", dir, FILES[i]);
        // Truncate the file first: QEMU may keep it open, and its room would stay in use.
        if (truncate(path, 0) == 0 || errno != ENOENT)
            unlink(path);
    }
}
