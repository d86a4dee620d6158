// SPDX-License-Identifier: Apache-2.0
// An image: what machine_save leaves in a directory.
#include "sandbox-backend/drivers/microvm/machine_image.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sandbox-backend/base/checksum.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/drivers/microvm/page_file.h"

#define IMAGE_FORMAT     1
#define IMAGE_JSON_BYTES (64 * 1024)

static const char *const FILES[] = {MACHINE_IMAGE_JSON, MACHINE_IMAGE_VMSTATE, MACHINE_IMAGE_PAGES,
                                    MACHINE_IMAGE_DISK};

// What image.json says of each; an image without that, as older ones are, is taken as it is. A disk
// has no sum: QEMU reads of it what the guest asks for, and nothing reads all.
static const struct {
    const char *name;
    bool summed;
    int64_t most; // bytes
} KEPT[] = {
    {MACHINE_IMAGE_VMSTATE, true, MACHINE_IMAGE_VMSTATE_BYTES_MAX},
    {MACHINE_IMAGE_PAGES, true, INT64_MAX},
    {MACHINE_IMAGE_DISK, false, INT64_MAX},
};

#define SUM_CHARS 17 // with its NUL

static const char DISK_MAGIC[4] = {'Q', 'F', 'I', '\xfb'};

// What must be the same for devices and pages to fit.
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

static const char *member(const struct template *t, size_t at)
{
    return *(char *const *)(const void *)((const char *)t + at);
}

// Their way to the disk begins while what is in them is summed up, and is waited for afterwards.
static void begin_sync(const char *dir)
{
    for (size_t i = 0; i < ARRAY_LEN(KEPT); i++) {
        char *path auto_free = str_printf("%s/%s", dir, KEPT[i].name);
        int fd auto_close = open(path, O_RDONLY | O_CLOEXEC);
        if (fd >= 0)
            sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WRITE);
    }
}

static int end_sync(const char *dir, struct err *e)
{
    for (size_t i = 0; i < ARRAY_LEN(KEPT); i++) {
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

// What QEMU writes is as long as it likes, and all of it would be read.
static int check_most(const char *name, int64_t size, int64_t most, struct err *e)
{
    if (size <= most)
        return 0;
    return err_set(e, ERR_TOO_LARGE, "QEMU wrote %lld bytes of %s, and %lld are the most",
                   (long long)size, name, (long long)most);
}

// NULL on failure.
static json_t *describe_files(const char *dir, struct err *e)
{
    json_t *files = json_object();
    for (size_t i = 0; i < ARRAY_LEN(KEPT); i++) {
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

// NULL on failure.
static json_t *describe(const char *dir, const struct template *t, struct err *e)
{
    json_t *files = describe_files(dir, e);
    if (!files)
        return NULL;
    json_t *object = json_pack("{s:i, s:s, s:I, s:I, s:o}", "format", IMAGE_FORMAT, "template",
                               t->name, "memory_mb", (json_int_t)t->memory_mb, "cpus",
                               (json_int_t)t->cpus, "files", files);
    for (size_t i = 0; i < ARRAY_LEN(SAME); i++)
        json_object_set_new(object, SAME[i].key, json_string(member(t, SAME[i].at)));
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

int machine_image_seal(const char *dir, const struct template *t, bool sync, int64_t *bytes,
                       struct err *e)
{
    if (sync)
        begin_sync(dir);
    json_t *object = describe(dir, t, e);
    bool written =
        object && (!sync || end_sync(dir, e) == 0) && write_json(dir, object, sync, e) == 0;
    json_decref(object);
    if (!written)
        return -1;
    *bytes = 0;
    for (size_t i = 0; i < ARRAY_LEN(FILES); i++) {
        char *path auto_free = str_printf("%s/%s", dir, FILES[i]);
        struct stat st;
        if (stat(path, &st) != 0)
            return err_sys(e, errno, "look at %s", path);
        *bytes += (int64_t)st.st_blocks * 512;
    }
    return 0;
}

// ---- whether it fits

static int check_member(const json_t *image, const char *key, const char *wanted,
                        const struct template *t, struct err *e)
{
    const char *has = json_string_value(json_object_get(image, key));
    if (str_eq(has, wanted))
        return 0;
    return err_set(e, ERR_PRECONDITION,
                   "it was saved from another build of template %s (%s \"%s\", now \"%s\") and "
                   "cannot go on; make a new sandbox from the template",
                   t->name, key, has ? has : "", wanted);
}

static int check_number(const json_t *image, const char *key, int64_t wanted, struct err *e)
{
    json_int_t has = json_integer_value(json_object_get(image, key));
    if (has == wanted)
        return 0;
    return err_set(e, ERR_PRECONDITION, "it was saved from a machine with %s %lld, not %lld", key,
                   (long long)has, (long long)wanted);
}

static int check_json(const json_t *image, const struct template *t, struct err *e)
{
    if (json_integer_value(json_object_get(image, "format")) != IMAGE_FORMAT)
        return err_set(e, ERR_INVALID, "it is not an image that this version reads");
    for (size_t i = 0; i < ARRAY_LEN(SAME); i++) {
        if (check_member(image, SAME[i].key, member(t, SAME[i].at), t, e) != 0)
            return -1;
    }
    if (check_number(image, "memory_mb", t->memory_mb, e) != 0)
        return -1;
    return check_number(image, "cpus", t->cpus, e);
}

// ---- whether it is whole

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
    for (size_t i = 0; i < ARRAY_LEN(KEPT); i++) {
        if (check_size(dir, KEPT[i].name, json_object_get(files, KEPT[i].name), e) != 0)
            return -1;
    }
    if (check_disk(dir, e) != 0 || check_pages(dir, t, e) != 0)
        return -1;
    return check_sum(dir, MACHINE_IMAGE_VMSTATE, json_object_get(files, MACHINE_IMAGE_VMSTATE), e);
}

// NULL on failure.
static json_t *read_json(const char *dir, struct err *e)
{
    char *path auto_free = str_printf("%s/" MACHINE_IMAGE_JSON, dir);
    struct buf text auto_buf = BUF_INIT;
    if (file_read(path, IMAGE_JSON_BYTES, &text, e) < 0) {
        err_wrap(e, "there is no saved machine in %s", dir);
        return NULL;
    }
    return json_parse(buf_str(&text), text.len, e);
}

int machine_image_check(const char *dir, const struct template *t, struct err *e)
{
    json_t *image = read_json(dir, e);
    int result = image ? check_json(image, t, e) : -1;
    if (result == 0)
        result = check_files(dir, t, image, e);
    json_decref(image);
    return result == 0 ? 0 : err_wrap(e, "the saved machine in %s cannot be used", dir);
}

int machine_image_check_pages(const char *dir, struct err *e)
{
    json_t *image = read_json(dir, e);
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
        // QEMU may keep one of them open.
        if (truncate(path, 0) == 0 || errno != ENOENT)
            unlink(path);
    }
}
