// SPDX-License-Identifier: Apache-2.0
// Moving templates between machines.
//
// The manifest of an archive is {"format", "template": {...}, "files": [{"name", "size", "extents":
// [[offset, length], ...]}]}. The data has the extents of each file, one after the other; the rest
// of a file is a hole. So an archive cannot make its reader write more than it holds, apart from
// the ratio of the compression, and free space is checked before the first byte is written.
#include "sandbox-backend/template/move/transfer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/home.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/base/version.h"
#include "sandbox-backend/drivers/host/tool.h"
#include "sandbox-backend/drivers/microvm/image/template.h"
#include "sandbox-backend/template/move/archive.h"

#define FORMAT          1
#define MIB             (1024LL * 1024)
#define JSON_BYTES_MAX  (64 * 1024)
#define PART_BYTES      (1024 * 1024)
#define EXTENTS_MAX     1000000
#define SPARE_BYTES     (256 * MIB) // left on the file system of an import
#define FETCH_MS        (4 * 3600 * 1000)
#define FETCH_BYTES_MAX "64G"

// The files of an archive, in their order, and their largest sizes.
static const struct {
    const char *name;
    int64_t max;
} FILES[] = {
    {TEMPLATE_KERNEL, 256 * MIB},
    {TEMPLATE_INITRD, 512 * MIB},
    {TEMPLATE_PACKAGES, 16 * MIB},
    {TEMPLATE_DISK, 1024LL * 1024 * MIB},
};

// The members of template.json that say how to build the machine again.
static const char *const KEPT[] = {"name",  "kernel",      "memory_mb", "cpus", "disk_mb",
                                   "image", "environment", "start",     "key",  "modules"};

// ---- export

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
                err_sys(e, errno, "look for the holes of the disk");
            else
                err_set(e, ERR_LIMIT, "the disk is in more than %d pieces", EXTENTS_MAX);
            json_decref(extents);
            return NULL;
        }
        json_array_append_new(extents,
                              json_pack("[I,I]", (json_int_t)data, (json_int_t)(hole - data)));
        at = hole;
    }
    return extents;
}

struct export
{
    int fds[ARRAY_LEN(FILES)];
    json_t *manifest; // owned
};

static int open_files(struct export *x, int dir, struct err *e)
{
    json_t *files = json_object_get(x->manifest, "files");
    for (size_t i = 0; i < ARRAY_LEN(FILES); i++) {
        struct stat st;
        x->fds[i] = openat(dir, FILES[i].name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
        if (x->fds[i] < 0 || fstat(x->fds[i], &st) < 0)
            return err_sys(e, errno, "open %s", FILES[i].name);
        json_t *extents = extents_of(x->fds[i], st.st_size, e);
        if (!extents)
            return -1;
        json_array_append_new(files, json_pack("{s:s, s:I, s:o}", "name", FILES[i].name, "size",
                                               (json_int_t)st.st_size, "extents", extents));
    }
    return 0;
}

static json_t *kept_of(int dir, struct err *e)
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
    json_t *kept = json_object();
    for (size_t i = 0; i < ARRAY_LEN(KEPT); i++) {
        json_t *value = json_object_get(facts, KEPT[i]);
        if (value)
            json_object_set(kept, KEPT[i], value);
    }
    json_decref(facts);
    return kept;
}

static int check_going_on(struct err *e)
{
    return tool_interrupted() ? err_set(e, ERR_CANCELED, "interrupted") : 0;
}

static int write_extent(struct archive_writer *w, int fd, int64_t at, int64_t left, struct err *e)
{
    char *part auto_free = xmalloc(PART_BYTES);
    while (left > 0) {
        ssize_t n = pread(fd, part, (size_t)(left < PART_BYTES ? left : PART_BYTES), at);
        if (n <= 0)
            return n < 0 ? err_sys(e, errno, "read the template")
                         : err_set(e, ERR_INTERNAL, "a file of the template became shorter");
        if (archive_write(w, part, (size_t)n, e) < 0 || check_going_on(e) < 0)
            return -1;
        at += n;
        left -= n;
    }
    return 0;
}

static int write_files(const struct export *x, struct archive_writer *w, struct err *e)
{
    const json_t *files = json_object_get(x->manifest, "files");
    for (size_t i = 0; i < ARRAY_LEN(FILES); i++) {
        size_t at;
        const json_t *extent;
        json_array_foreach (json_object_get(json_array_get(files, i), "extents"), at, extent)
            if (write_extent(w, x->fds[i], json_integer_value(json_array_get(extent, 0)),
                             json_integer_value(json_array_get(extent, 1)), e) < 0)
                return -1;
    }
    return 0;
}

static int write_archive(const struct export *x, const char *path, struct sha256 *digest,
                         struct err *e)
{
    char *part auto_free = str_printf("%s.part", path);
    unlink(part);
    struct archive_writer *w = archive_create(part, x->manifest, e);
    int result = w ? write_files(x, w, e) : -1;
    if (result == 0)
        result = archive_write_end(w, digest, e);
    archive_writer_free(w);
    if (result == 0 && link(part, path) < 0)
        result = err_sys(e, errno, "create %s", path);
    if (w)
        unlink(part);
    return result;
}

int transfer_export(const char *home, const char *name, const char *path, struct sha256 *digest,
                    struct err *e)
{
    char *dir_path auto_free = template_dir(home, name);
    struct template t;
    if (file_exists(path))
        return err_set(e, ERR_CONFLICT, "%s exists already; choose another name", path);
    if (template_load(dir_path, &t, e) < 0)
        return -1;
    template_fini(&t);
    int dir auto_close = open(dir_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0)
        return err_sys(e, errno, "open %s", dir_path);
    json_t *kept = kept_of(dir, e);
    if (!kept)
        return -1;
    struct export x = {.manifest = json_pack("{s:i, s:s, s:o, s:[]}", "format", FORMAT, "cubby",
                                             CUBBY_VERSION, "template", kept, "files")};
    for (size_t i = 0; i < ARRAY_LEN(x.fds); i++)
        x.fds[i] = -1;
    int result = open_files(&x, dir, e);
    if (result == 0)
        result = write_archive(&x, path, digest, e);
    for (size_t i = 0; i < ARRAY_LEN(x.fds); i++)
        if (x.fds[i] >= 0)
            close(x.fds[i]);
    json_decref(x.manifest);
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

// Check one file of the manifest, and add the bytes of its extents to `total`.
static int check_file(const json_t *file, size_t i, int64_t *total, struct err *e)
{
    const json_t *extents = json_object_get(file, "extents");
    int64_t size = number_of(json_object_get(file, "size"));
    int64_t end = 0;
    size_t n;
    const json_t *extent;
    if (!str_eq(json_string_value(json_object_get(file, "name")), FILES[i].name))
        return refuse(e, "it has other files than a template");
    if (size < 0 || size > FILES[i].max || !json_is_array(extents) ||
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

int transfer_check_manifest(const json_t *manifest, const char *dir, struct err *e)
{
    const json_t *files = json_object_get(manifest, "files");
    int64_t format = number_of(json_object_get(manifest, "format"));
    int64_t total = 0;
    if (format != FORMAT)
        return err_set(e, ERR_INVALID,
                       "the archive has format %lld, but this version of Cubby reads only format "
                       "%d; export it again, or use a newer Cubby",
                       (long long)format, FORMAT);
    if (!json_is_array(files) || json_array_size(files) != ARRAY_LEN(FILES))
        return refuse(e, "it has other files than a template");
    for (size_t i = 0; i < ARRAY_LEN(FILES); i++)
        if (check_file(json_array_get(files, i), i, &total, e) < 0)
            return -1;
    int64_t free_bytes = dir_free_bytes(dir);
    if (free_bytes >= 0 && total > free_bytes - SPARE_BYTES)
        return err_set(e, ERR_LIMIT,
                       "the archive has %lld MB, but only %lld MB are free in %s; make room and "
                       "import it again",
                       (long long)(total / MIB), (long long)(free_bytes / MIB), dir);
    return check_facts(json_object_get(manifest, "template"), e);
}

// ---- import: the files

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
                return err_sys(e, errno, "write the template");
            done += (size_t)written;
        }
        at += (int64_t)n;
        left -= (int64_t)n;
    }
    return 0;
}

static int read_file(struct archive_reader *r, const char *dir, const json_t *file, size_t i,
                     struct err *e)
{
    char *path auto_free = str_printf("%s/%s", dir, FILES[i].name);
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

static int make_dir(struct transfer *t, const char *home, struct err *e)
{
    char *cache auto_free = home_path(home, "cache");
    char *unique auto_free = random_hex(4);
    if (dir_make(cache, 0700, e) < 0)
        return -1;
    t->dir = str_printf("%s/import-%s", cache, unique);
    if (mkdir(t->dir, 0700) < 0)
        return err_sys(e, errno, "make %s", t->dir);
    t->lock = dir_lock(t->dir);
    return t->lock < 0 ? err_sys(e, errno, "lock %s", t->dir) : 0;
}

static int read_all(struct transfer *t, struct archive_reader *r, const json_t *manifest,
                    const struct sha256 *expected, struct err *e)
{
    const json_t *files = json_object_get(manifest, "files");
    if (transfer_check_manifest(manifest, t->dir, e) < 0)
        return -1;
    for (size_t i = 0; i < ARRAY_LEN(FILES); i++)
        if (read_file(r, t->dir, json_array_get(files, i), i, e) < 0)
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
    int result = r ? make_dir(t, home, e) : -1;
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
