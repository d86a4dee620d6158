// SPDX-License-Identifier: Apache-2.0
// The files of a saved machine, and the proof that a machine can go on from them.
#include "sandbox-backend/drivers/gvisor/checkpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/drivers/gvisor/runsc_pin.h"
#include "sandbox-backend/drivers/host/read_only.h"

#define JSON_NAME      "image.json"
#define JSON_BYTES_MAX 4096
#define FORMAT         1
#define FULL_BYTES     262144 // free bytes below which a disk counts as full

static const char *const NAMES[CHECKPOINT_FILES] = {
    [CHECKPOINT_STATE] = "checkpoint.img",
    [CHECKPOINT_META] = "pages_meta.img",
    [CHECKPOINT_PAGES] = "pages.img",
};

bool checkpoint_exists_at(int dir)
{
    return faccessat(dir, JSON_NAME, F_OK, 0) == 0;
}

void checkpoint_close(int fds[CHECKPOINT_FILES])
{
    for (int i = 0; i < CHECKPOINT_FILES; i++) {
        mem_close_fd(&fds[i]);
        fds[i] = -1;
    }
}

int checkpoint_create(const char *dir, int fds[CHECKPOINT_FILES], struct err *e)
{
    for (int i = 0; i < CHECKPOINT_FILES; i++)
        fds[i] = -1;
    for (int i = 0; i < CHECKPOINT_FILES; i++) {
        char *path auto_free = str_printf("%s/%s", dir, NAMES[i]);
        fds[i] = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        if (fds[i] < 0) {
            err_sys(e, errno, "create %s", path);
            checkpoint_close(fds);
            return -1;
        }
    }
    return 0;
}

bool checkpoint_fills_disk(const char *dir, const struct err *e)
{
    int64_t room = dir_free_bytes(dir); // -1: unknown
    return e->code == ERR_NO_SPACE || (room >= 0 && room < FULL_BYTES);
}

static int sync_path(const char *path, struct err *e)
{
    int fd auto_close = open(path, O_RDONLY | O_CLOEXEC);
    return fd >= 0 && fsync(fd) == 0 ? 0 : err_sys(e, errno, "sync %s", path);
}

int checkpoint_seal(const char *dir, const struct bundle_template *t, bool sync, int64_t *bytes,
                    struct err *e)
{
    json_t *files = json_object();
    int result = 0;
    *bytes = 0;
    for (int i = 0; i < CHECKPOINT_FILES && result == 0; i++) {
        char *path auto_free = str_printf("%s/%s", dir, NAMES[i]);
        struct stat st = {0};
        if (stat(path, &st) < 0)
            result = err_sys(e, errno, "read %s", path);
        else if (sync)
            result = sync_path(path, e);
        *bytes += st.st_size;
        json_object_set_new(files, NAMES[i], json_integer(st.st_size));
    }
    json_t *json =
        json_pack("{s:i, s:s, s:s, s:s, s:I, s:I, s:o}", "format", FORMAT, "runsc", RUNSC_SHA256,
                  "version", RUNSC_VERSION, "rootfs", t->rootfs, "memory_mb",
                  (json_int_t)t->memory_mb, "disk_mb", (json_int_t)t->disk_mb, "files", files);
    char *text auto_free = json_to_string(json);
    char *path auto_free = str_printf("%s/" JSON_NAME, dir);
    json_decref(json);
    if (result < 0)
        return -1;
    return sync ? file_write_atomic(path, text, strlen(text), 0600, e)
                : file_replace(path, text, strlen(text), 0600, e);
}

static int open_files(int from, const char *dir, const json_t *json, int fds[CHECKPOINT_FILES],
                      struct err *e)
{
    const json_t *files = json_object_get(json, "files");
    for (int i = 0; i < CHECKPOINT_FILES; i++) {
        struct stat st;
        fds[i] = openat(from, NAMES[i], O_RDONLY | O_CLOEXEC);
        if (fds[i] < 0 || fstat(fds[i], &st) < 0 ||
            st.st_size != json_integer_value(json_object_get(files, NAMES[i])))
            return err_set(e, ERR_INVALID,
                           "the image is damaged: %s/%s is missing or has the wrong size", dir,
                           NAMES[i]);
    }
    return 0;
}

static int check_json(const json_t *json, const struct bundle_template *t, struct err *e)
{
    const char *runsc = json_string_value(json_object_get(json, "runsc"));
    const char *version = json_string_value(json_object_get(json, "version"));
    if (json_integer_value(json_object_get(json, "format")) != FORMAT || !runsc)
        return err_set(e, ERR_INVALID, "the image is damaged: " JSON_NAME " is malformed");
    if (!str_eq(runsc, RUNSC_SHA256))
        return err_set(e, ERR_PRECONDITION,
                       "the image was saved by runsc %.40s, and Cubby's runsc " RUNSC_VERSION
                       " cannot read it",
                       version ? version : "of another build");
    if (!str_eq(json_string_value(json_object_get(json, "rootfs")), t->rootfs))
        return err_set(e, ERR_PRECONDITION, "the image belongs to another build of its template");
    if (json_integer_value(json_object_get(json, "disk_mb")) != t->disk_mb)
        return err_set(e, ERR_PRECONDITION,
                       "the image was saved from a machine with another disk size");
    return 0;
}

static int open_image(int from, const char *dir, const struct bundle_template *t,
                      int fds[CHECKPOINT_FILES], struct err *e)
{
    struct buf text auto_buf = BUF_INIT;
    int file auto_close = from < 0 ? -1 : openat(from, JSON_NAME, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return err_set(e, ERR_NOT_FOUND, "there is no image in %s", dir);
    if (fd_read_all(file, JSON_BYTES_MAX, &text, e) < 0)
        return -1;
    json_t *json = json_parse(buf_str(&text), text.len, NULL);
    int result = check_json(json, t, e);
    if (result == 0)
        result = open_files(from, dir, json, fds, e);
    json_decref(json);
    return result;
}

int checkpoint_open_at(int from, const char *dir, const struct bundle_template *t,
                       int fds[CHECKPOINT_FILES], struct err *e)
{
    for (int i = 0; i < CHECKPOINT_FILES; i++)
        fds[i] = -1;
    if (open_image(from, dir, t, fds, e) == 0)
        return 0;
    checkpoint_close(fds);
    return -1;
}

int checkpoint_open(const char *dir, const struct bundle_template *t, int fds[CHECKPOINT_FILES],
                    struct err *e)
{
    struct err unused = ERR_INIT; // a directory that is not there is an image that is not there
    int from auto_close = read_only_open(dir, file_exists(dir) ? e : &unused);
    if (from < 0 && err_is(e))
        return -1;
    return checkpoint_open_at(from, dir, t, fds, e);
}

int checkpoint_check(const char *dir, const struct bundle_template *t, struct err *e)
{
    int fds[CHECKPOINT_FILES];
    int from auto_close = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (checkpoint_open_at(from, dir, t, fds, e) < 0)
        return -1;
    checkpoint_close(fds);
    return 0;
}

void checkpoint_empty_at(int dir)
{
    unlinkat(dir, JSON_NAME, 0);
    for (int i = 0; i < CHECKPOINT_FILES; i++)
        unlinkat(dir, NAMES[i], 0);
}
