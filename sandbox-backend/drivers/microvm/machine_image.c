// SPDX-License-Identifier: Apache-2.0
// An image: what machine_save leaves in a directory.
#include "sandbox-backend/drivers/microvm/machine_image.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stddef.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

#define IMAGE_FORMAT     1
#define IMAGE_JSON_BYTES (64 * 1024)

static const char *const FILES[] = {MACHINE_IMAGE_JSON, MACHINE_IMAGE_VMSTATE, MACHINE_IMAGE_PAGES,
                                    MACHINE_IMAGE_DISK};

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

static int sync_file(const char *dir, const char *name, int flags, struct err *e)
{
    char *path auto_free = str_printf("%s/%s", dir, name);
    int fd auto_close = open(path, flags | O_CLOEXEC);
    if (fd < 0 || fsync(fd) != 0)
        return err_sys(e, errno, "write %s", path);
    return 0;
}

static int write_json(const char *dir, const struct template *t, struct err *e)
{
    json_t *object = json_pack("{s:i, s:s, s:I, s:I}", "format", IMAGE_FORMAT, "template", t->name,
                               "memory_mb", (json_int_t)t->memory_mb, "cpus", (json_int_t)t->cpus);
    for (size_t i = 0; i < ARRAY_LEN(SAME); i++)
        json_object_set_new(object, SAME[i].key, json_string(member(t, SAME[i].at)));
    char *path auto_free = str_printf("%s/" MACHINE_IMAGE_JSON, dir);
    struct buf text auto_buf = BUF_INIT;
    json_to_buf(&text, object);
    buf_addc(&text, '\n');
    json_decref(object);
    return file_write_atomic(path, text.data, text.len, 0600, e);
}

int machine_image_seal(const char *dir, const struct template *t, int64_t *bytes, struct err *e)
{
    if (sync_file(dir, MACHINE_IMAGE_VMSTATE, O_RDONLY, e) != 0 ||
        sync_file(dir, MACHINE_IMAGE_DISK, O_RDONLY, e) != 0 || write_json(dir, t, e) != 0)
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

int machine_image_check(const char *dir, const struct template *t, struct err *e)
{
    char *path auto_free = str_printf("%s/" MACHINE_IMAGE_JSON, dir);
    struct buf text auto_buf = BUF_INIT;
    if (file_read(path, IMAGE_JSON_BYTES, &text, e) < 0)
        return err_wrap(e, "there is no saved machine in %s", dir);
    json_t *image = json_parse(buf_str(&text), text.len, e);
    int result = image ? check_json(image, t, e) : -1;
    json_decref(image);
    return result == 0 ? 0 : err_wrap(e, "the saved machine in %s cannot be used", dir);
}

void machine_image_empty(const char *dir)
{
    for (size_t i = 0; i < ARRAY_LEN(FILES); i++) {
        char *path auto_free = str_printf("%s/%s", dir, FILES[i]);
        // QEMU keeps the file of a "xen-save-devices-state" that failed open.
        if (truncate(path, 0) == 0 || errno != ENOENT)
            unlink(path);
    }
}
