// SPDX-License-Identifier: Apache-2.0
// The files in an archive.
#include "sandbox-backend/template/move/carry.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/home.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/drivers/host/tool.h"

#define MIB         (1024LL * 1024)
#define PART_BYTES  (1024 * 1024)
#define EXTENTS_MAX 1000000
#define SPARE_BYTES (256 * MIB) // left on the file system of an import

static int check_going_on(struct err *e)
{
    return tool_interrupted() ? err_set(e, ERR_CANCELED, "interrupted") : 0;
}

// ---- writing
void carry_init(struct carry *c)
{
    c->files = json_array();
    for (size_t i = 0; i < CARRY_FILES_MAX; i++)
        c->fds[i] = -1;
}

void carry_fini(struct carry *c)
{
    for (size_t i = 0; i < CARRY_FILES_MAX; i++)
        mem_close_fd(&c->fds[i]);
    json_decref(c->files);
    c->files = NULL;
}

int carry_check_path(const char *path, struct err *e)
{
    if (!file_exists(path))
        return 0;
    return err_set(e, ERR_CONFLICT, "%s exists already; choose another name", path);
}

static json_t *extents_of(int fd, int64_t size, struct err *e)
{
    json_t *extents = json_array();
    for (off_t at = 0; at < size;) {
        off_t data = lseek(fd, at, SEEK_DATA);
        if (data < 0 && errno == ENXIO)
            break; // a hole up to the end
        off_t hole = data < 0 ? -1 : lseek(fd, data, SEEK_HOLE);
        if (hole < 0 || json_array_size(extents) == EXTENTS_MAX) {
            if (hole < 0)
                err_sys(e, errno, "look for the holes of a file");
            else
                err_set(e, ERR_LIMIT, "a file is in more than %d pieces", EXTENTS_MAX);
            json_decref(extents);
            return NULL;
        }
        json_array_append_new(extents,
                              json_pack("[I,I]", (json_int_t)data, (json_int_t)(hole - data)));
        at = hole;
    }
    return extents;
}

int carry_add(struct carry *c, int dir, const char *path, const char *name, struct err *e)
{
    size_t i = json_array_size(c->files);
    struct stat st;
    if (i == CARRY_FILES_MAX)
        return err_set(e, ERR_LIMIT, "an archive cannot have more than %d files", CARRY_FILES_MAX);
    c->fds[i] = openat(dir, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (c->fds[i] < 0 || fstat(c->fds[i], &st) < 0)
        return err_sys(e, errno, "open %s", path);
    json_t *extents = extents_of(c->fds[i], st.st_size, e);
    if (!extents)
        return -1;
    json_array_append_new(c->files, json_pack("{s:s, s:I, s:o}", "name", name, "size",
                                              (json_int_t)st.st_size, "extents", extents));
    return 0;
}

static int write_extent(struct archive_writer *w, int fd, int64_t at, int64_t left, struct err *e)
{
    char *part auto_free = xmalloc(PART_BYTES);
    while (left > 0) {
        ssize_t n = pread(fd, part, (size_t)(left < PART_BYTES ? left : PART_BYTES), at);
        if (n <= 0)
            return n < 0 ? err_sys(e, errno, "read a file for the archive")
                         : err_set(e, ERR_INTERNAL, "a file became shorter; export it again");
        if (archive_write(w, part, (size_t)n, e) < 0 || check_going_on(e) < 0)
            return -1;
        at += n;
        left -= n;
    }
    return 0;
}

static int write_files(const struct carry *c, struct archive_writer *w, struct err *e)
{
    size_t i, n;
    const json_t *file, *extent;
    json_array_foreach (c->files, i, file) {
        json_array_foreach (json_object_get(file, "extents"), n, extent)
            if (write_extent(w, c->fds[i], json_integer_value(json_array_get(extent, 0)),
                             json_integer_value(json_array_get(extent, 1)), e) < 0)
                return -1;
    }
    return 0;
}

int carry_write(const struct carry *c, json_t *manifest, const char *path, mode_t mode,
                struct sha256 *digest, struct err *e)
{
    char *part auto_free = str_printf("%s.part", path);
    json_object_set(manifest, "files", c->files);
    unlink(part);
    struct archive_writer *w = archive_create(part, mode, manifest, e);
    int result = w ? write_files(c, w, e) : -1;
    if (result == 0)
        result = archive_write_end(w, digest, e);
    archive_writer_free(w);
    if (result == 0 && link(part, path) < 0)
        result = err_sys(e, errno, "create %s", path);
    if (w)
        unlink(part);
    return result;
}

// ---- what a manifest says
static int refuse(struct err *e, const char *what)
{
    return err_set(e, ERR_INVALID, "the archive cannot be imported: %s", what);
}

static int64_t number_of(const json_t *value)
{
    return json_is_integer(value) ? json_integer_value(value) : -1;
}

// Check one file of the manifest, and add the bytes of its extents to `total`.
static int check_file(const json_t *file, const struct carry_rule *rule, int64_t *total,
                      struct err *e)
{
    const json_t *extents = json_object_get(file, "extents");
    int64_t size = number_of(json_object_get(file, "size"));
    int64_t end = 0;
    size_t n;
    const json_t *extent;
    if (size < 0 || size > rule->max || !json_is_array(extents) ||
        json_array_size(extents) > EXTENTS_MAX)
        return refuse(e, "a file is too large");
    json_array_foreach (extents, n, extent) {
        int64_t at = number_of(json_array_get(extent, 0));
        int64_t length = number_of(json_array_get(extent, 1));
        if (at < end || length <= 0 || at > size || length > size - at)
            return refuse(e, "the pieces of a file do not fit");
        end = at + length;
        *total += length;
    }
    return 0;
}

static int check_room(int64_t total, const char *dir, struct err *e)
{
    int64_t free_bytes = dir_free_bytes(dir);
    if (free_bytes < 0 || total <= free_bytes - SPARE_BYTES)
        return 0;
    return err_set(e, ERR_LIMIT,
                   "the archive needs %lld MB and %lld MB to spare, but only %lld MB are free in "
                   "%s; make room there, and try again",
                   (long long)(total / MIB), (long long)(SPARE_BYTES / MIB),
                   (long long)(free_bytes / MIB), dir);
}

int carry_check(const json_t *files, const struct carry_rule *rules, size_t count, const char *dir,
                const char *what, struct err *e)
{
    size_t at = 0;
    int64_t total = 0;
    bool fits = json_is_array(files);
    for (size_t i = 0; fits && i < count; i++) {
        const json_t *file = json_array_get(files, at);
        bool found = str_eq(json_string_value(json_object_get(file, "name")), rules[i].name);
        fits = found || rules[i].optional;
        if (found && check_file(file, &rules[i], &total, e) < 0)
            return -1;
        at += found;
    }
    if (!fits || at != json_array_size(files))
        return err_set(e, ERR_INVALID,
                       "the archive cannot be imported: it has other files than a %s", what);
    return check_room(total, dir, e);
}

// ---- reading
static int read_extent(struct archive_reader *r, int fd, int64_t at, int64_t left, struct err *e)
{
    char *part auto_free = xmalloc(PART_BYTES);
    while (left > 0) {
        size_t n = (size_t)(left < PART_BYTES ? left : PART_BYTES);
        if (archive_read(r, part, n, e) < 0 || check_going_on(e) < 0)
            return -1;
        for (size_t done = 0; done < n;) {
            ssize_t written = pwrite(fd, part + done, n - done, at + (off_t)done);
            if (written < 0)
                return err_sys(e, errno, "write a file of the archive");
            done += (size_t)written;
        }
        at += (int64_t)n;
        left -= (int64_t)n;
    }
    return 0;
}

static int read_file(struct archive_reader *r, const char *dir, const json_t *file, struct err *e)
{
    char *path auto_free =
        str_printf("%s/%s", dir, json_string_value(json_object_get(file, "name")));
    int fd auto_close = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    size_t n;
    const json_t *extent;
    if (fd < 0 || ftruncate(fd, number_of(json_object_get(file, "size"))) < 0)
        return err_sys(e, errno, "create %s", path);
    json_array_foreach (json_object_get(file, "extents"), n, extent)
        if (read_extent(r, fd, number_of(json_array_get(extent, 0)),
                        number_of(json_array_get(extent, 1)), e) < 0)
            return -1;
    return 0;
}

int carry_read(struct archive_reader *r, const json_t *files, const char *dir, struct err *e)
{
    size_t i;
    const json_t *file;
    json_array_foreach (files, i, file)
        if (read_file(r, dir, file, e) < 0)
            return -1;
    return 0;
}

char *carry_dir(const char *home, int *lock, struct err *e)
{
    char *cache auto_free = home_path(home, "cache");
    char *unique auto_free = random_hex(4);
    char *dir = str_printf("%s/import-%s", cache, unique);
    *lock = -1;
    if (dir_make(cache, 0700, e) == 0) {
        if (mkdir(dir, 0700) < 0)
            err_sys(e, errno, "make %s", dir);
        else if ((*lock = dir_lock(dir)) >= 0)
            return dir;
        else
            err_sys(e, errno, "lock %s", dir);
    }
    free(dir);
    return NULL;
}
