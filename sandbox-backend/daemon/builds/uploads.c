// SPDX-License-Identifier: Apache-2.0
// Uploads: the archives that COPY steps of builds need.
#include "sandbox-backend/daemon/builds/uploads.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/home.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/json_fields.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/log/log.h"

#define TOKEN_BYTES 20
#define FACTS_BYTES 4096
#define HASH_CHARS  64
#define PART_PREFIX ".part-"
#define MIB         (1024LL * 1024)

struct upload_grant {
    TAILQ_ENTRY(upload_grant) link;
    char *token, *owner, *name, *hash; // owned; owner NULL: the operator
    int64_t until_ms;
};

struct upload_file {
    TAILQ_ENTRY(upload_file) link;
    char *owner, *name, *hash; // owned
    char sha256[SHA256_HEX_CHARS + 1];
    int64_t bytes;
    int64_t used_ns; // wall clock
};

struct upload {
    struct uploads *all;
    struct upload_grant *grant; // owned; in no list
    struct sha256_stream *sum;  // owned
    char *part;                 // owned; path
    int fd;                     // owned
    int64_t bytes, most;
};

static char *path_of(const struct uploads *u, const char *name, const char *hash, const char *end)
{
    return str_printf("%s/%s/%s.%s", u->dir, name, hash, end);
}

// ---- the files
static struct upload_file *find(const struct uploads *u, const char *name, const char *hash)
{
    struct upload_file *f = NULL;
    TAILQ_FOREACH (f, &u->files, link)
        if (strcmp(f->name, name) == 0 && strcmp(f->hash, hash) == 0)
            return f;
    return NULL;
}

static void file_free(struct uploads *u, struct upload_file *f)
{
    TAILQ_REMOVE(&u->files, f, link);
    free(f->owner);
    free(f->name);
    free(f->hash);
    free(f);
}

static void file_remove(struct uploads *u, struct upload_file *f)
{
    char *tar auto_free = path_of(u, f->name, f->hash, "tar");
    char *json auto_free = path_of(u, f->name, f->hash, "json");
    unlink(json);
    unlink(tar);
    file_free(u, f);
}

static struct upload_file *file_new(struct uploads *u, const char *owner, const char *name,
                                    const char *hash)
{
    struct upload_file *f = xcalloc(1, sizeof *f);
    f->owner = owner ? xstrdup(owner) : NULL;
    f->name = xstrdup(name);
    f->hash = xstrdup(hash);
    f->used_ns = clock_wall_ns();
    TAILQ_INSERT_TAIL(&u->files, f, link);
    return f;
}

// Add the archive that <hash>.json describes. A file that cannot be read is removed.
static void read_file(struct uploads *u, const char *name, const char *hash)
{
    struct stat st;
    char *path auto_free = path_of(u, name, hash, "json");
    char *tar auto_free = path_of(u, name, hash, "tar");
    json_t *facts = json_file_read(path, FACTS_BYTES, NULL);
    const char *sum = json_string_value(json_object_get(facts, "sha256"));
    struct upload_file *f =
        file_new(u, json_string_value(json_object_get(facts, "owner")), name, hash);
    if (sum && strlen(sum) == SHA256_HEX_CHARS && file_exists(tar) && stat(path, &st) == 0) {
        memcpy(f->sha256, sum, SHA256_HEX_CHARS);
        f->bytes = json_integer_value(json_object_get(facts, "bytes"));
        f->used_ns = (int64_t)st.st_mtime * 1000000000;
    } else {
        file_remove(u, f);
    }
    json_decref(facts);
}

static void read_dir(struct uploads *u, const char *name)
{
    char *path auto_free = str_printf("%s/%s", u->dir, name);
    DIR *dir = opendir(path);
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        char *file auto_free = str_printf("%s/%s", path, entry->d_name);
        if (str_starts(entry->d_name, PART_PREFIX))
            unlink(file);
        if (strlen(entry->d_name) != HASH_CHARS + 5 || !str_ends(entry->d_name, ".json"))
            continue;
        char *hash auto_free = xstrndup(entry->d_name, HASH_CHARS);
        read_file(u, name, hash);
    }
    if (dir)
        closedir(dir);
}

int uploads_open(struct uploads *u, const char *home, int64_t one_bytes, int64_t all_bytes,
                 struct err *e)
{
    *u = (struct uploads){.one_bytes = one_bytes, .all_bytes = all_bytes};
    TAILQ_INIT(&u->grants);
    TAILQ_INIT(&u->files);
    u->dir = home_path(home, "builds/files");
    if (dir_make(u->dir, 0700, e) < 0)
        return -1;
    DIR *dir = opendir(u->dir);
    for (struct dirent *entry; dir && (entry = readdir(dir));)
        if (entry->d_name[0] != '.')
            read_dir(u, entry->d_name);
    if (dir)
        closedir(dir);
    uploads_sweep(u);
    return 0;
}

void uploads_sweep(struct uploads *u)
{
    int64_t before = clock_wall_ns() - UPLOADS_KEEP_NS;
    struct upload_file *next = NULL;
    for (struct upload_file *f = TAILQ_FIRST(&u->files); f; f = next) {
        next = TAILQ_NEXT(f, link);
        if (f->used_ns < before)
            file_remove(u, f);
    }
}

bool uploads_has(const struct uploads *u, const char *name, const char *hash)
{
    return find(u, name, hash) != NULL;
}

// ---- grants
static void grant_free(struct upload_grant *g)
{
    free(g->token);
    free(g->owner);
    free(g->name);
    free(g->hash);
    free(g);
}

static void drop_grant(struct uploads *u, struct upload_grant *g)
{
    TAILQ_REMOVE(&u->grants, g, link);
    u->grant_count--;
}

static void expire_grants(struct uploads *u)
{
    struct upload_grant *g = NULL;
    // NOLINTNEXTLINE(clang-analyzer-unix.Malloc): drop_grant takes it out of the list
    while ((g = TAILQ_FIRST(&u->grants)) && g->until_ms < clock_mono_ms()) {
        drop_grant(u, g);
        grant_free(g);
    }
}

// A proxy finds the node by its name before the random digits.
static char *make_token(const char *node)
{
    char *random auto_free = random_hex(TOKEN_BYTES);
    return str_printf("%s%s%s", node ? node : "", node ? "-" : "", random);
}

const char *uploads_grant(struct uploads *u, const char *owner, const char *name, const char *hash,
                          struct err *e)
{
    expire_grants(u);
    if (u->grant_count >= UPLOADS_GRANTS) {
        err_set(e, ERR_LIMIT, "%d uploads are announced and have not begun; try again later",
                UPLOADS_GRANTS);
        e->retry_s = 60;
        return NULL;
    }
    struct upload_grant *g = xcalloc(1, sizeof *g);
    *g = (struct upload_grant){.token = make_token(u->node),
                               .owner = owner ? xstrdup(owner) : NULL,
                               .name = xstrdup(name),
                               .hash = xstrdup(hash),
                               .until_ms = clock_mono_ms() + UPLOADS_GRANT_MS};
    TAILQ_INSERT_TAIL(&u->grants, g, link);
    u->grant_count++;
    return g->token;
}

static struct upload_grant *take_grant(struct uploads *u, const char *token)
{
    struct upload_grant *g = NULL;
    expire_grants(u);
    TAILQ_FOREACH (g, &u->grants, link)
        if (str_eq_secret(g->token, token))
            break;
    if (g)
        drop_grant(u, g);
    return g;
}

void uploads_fini(struct uploads *u)
{
    for (struct upload_grant *g; (g = TAILQ_FIRST(&u->grants));) {
        drop_grant(u, g); // NOLINT(clang-analyzer-unix.Malloc)
        grant_free(g);
    }
    while (!TAILQ_EMPTY(&u->files))
        file_free(u, TAILQ_FIRST(&u->files)); // NOLINT(clang-analyzer-unix.Malloc)
    free(u->dir);
}

// ---- one upload
// Return how many bytes an owner's new archive may have. The one that it replaces does not count.
static int64_t space_for(const struct uploads *u, const struct upload_grant *g)
{
    int64_t all = 0, own = 0;
    const struct upload_file *f = NULL;
    TAILQ_FOREACH (f, &u->files, link) {
        // NOLINTNEXTLINE(clang-analyzer-unix.Malloc): file_free takes files out of the list
        bool replaced = strcmp(f->name, g->name) == 0 && strcmp(f->hash, g->hash) == 0;
        all += replaced ? 0 : f->bytes;
        own += replaced || !str_eq(f->owner, g->owner) ? 0 : f->bytes;
    }
    int64_t left = u->all_bytes - all;
    int64_t share = g->owner ? u->all_bytes / 2 - own : left;
    return left < share ? left : share;
}

static int refuse_size(const struct uploads *u, int64_t most, struct err *e)
{
    if (most >= u->one_bytes)
        return err_set(e, ERR_TOO_LARGE,
                       "the archive is larger than %lld MB; copy less, or start the daemon with a "
                       "higher --max-build-upload",
                       (long long)(u->one_bytes / MIB));
    return err_set(e, ERR_LIMIT,
                   "uploads may take up %lld MB together, and there is no room for this one; "
                   "they are removed a day after their last use",
                   (long long)(u->all_bytes / MIB));
}

struct upload *upload_begin(struct uploads *u, const char *token, int64_t length, struct err *e)
{
    struct upload_grant *g = take_grant(u, token);
    if (!g) {
        err_set(e, ERR_NOT_FOUND,
                "this upload is unknown: its URL was used before, or is older than an hour");
        return NULL;
    }
    uploads_sweep(u);
    int64_t space = space_for(u, g);
    int64_t most = space < u->one_bytes ? space : u->one_bytes;
    char *dir auto_free = str_printf("%s/%s", u->dir, g->name);
    char *part auto_free = str_printf("%s/" PART_PREFIX "%s", dir, g->token);
    int fd = -1;
    if (length > most)
        refuse_size(u, most, e);
    else if (dir_make(dir, 0700, e) == 0 &&
             (fd = open(part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600)) < 0)
        err_sys(e, errno, "create %s", part);
    if (fd < 0) {
        grant_free(g);
        return NULL;
    }
    struct upload *up = xcalloc(1, sizeof *up);
    *up = (struct upload){
        .all = u, .grant = g, .sum = sha256_begin(), .part = steal(&part), .fd = fd, .most = most};
    return up;
}

int upload_write(struct upload *up, const void *data, size_t len, struct err *e)
{
    up->bytes += (int64_t)len;
    if (up->bytes > up->most)
        return refuse_size(up->all, up->most, e);
    sha256_add(up->sum, data, len);
    return fd_write_all(up->fd, data, len, e);
}

static void upload_free(struct upload *up, struct sha256 *sum)
{
    sha256_end(up->sum, sum);
    close(up->fd);
    unlink(up->part); // nothing is there after upload_end has renamed it
    grant_free(up->grant);
    free(up->part);
    free(up);
}

void upload_cancel(struct upload *up)
{
    upload_free(up, NULL);
}

// The facts come last, because an archive without them does not count.
static int keep(struct upload *up, const char *sha256, struct err *e)
{
    const struct upload_grant *g = up->grant;
    struct buf text auto_buf = BUF_INIT;
    char *tar auto_free = path_of(up->all, g->name, g->hash, "tar");
    char *facts auto_free = path_of(up->all, g->name, g->hash, "json");
    struct upload_file *old = find(up->all, g->name, g->hash);
    if (old)
        file_remove(up->all, old);
    if (rename(up->part, tar) < 0)
        return err_sys(e, errno, "rename %s", up->part);
    json_t *json = json_pack("{s:s?, s:s, s:I}", "owner", g->owner, "sha256", sha256, "bytes",
                             (json_int_t)up->bytes);
    json_to_buf(&text, json);
    json_decref(json);
    if (file_replace(facts, text.data, text.len, 0600, e) < 0) {
        unlink(tar);
        return -1;
    }
    struct upload_file *f = file_new(up->all, g->owner, g->name, g->hash);
    memcpy(f->sha256, sha256, SHA256_HEX_CHARS);
    f->bytes = up->bytes;
    log_info("upload.made", "template=%s hash=%s bytes=%lld", g->name, g->hash,
             (long long)up->bytes);
    return 0;
}

int upload_end(struct upload *up, struct err *e)
{
    struct sha256 sum;
    char hex[SHA256_HEX_CHARS + 1];
    sha256_end(up->sum, &sum);
    up->sum = sha256_begin(); // upload_free ends one
    hex_encode(hex, sum.bytes, sizeof sum.bytes);
    int rc = keep(up, hex, e);
    upload_free(up, NULL);
    return rc;
}

char *uploads_link(struct uploads *u, const char *name, const char *hash, const char *to,
                   struct err *e)
{
    struct upload_file *f = find(u, name, hash);
    char *tar auto_free = path_of(u, name, hash, "tar");
    char *facts auto_free = path_of(u, name, hash, "json");
    if (!f) {
        err_set(e, ERR_NOT_FOUND, "the files of hash %s were not uploaded", hash);
        return NULL;
    }
    if (link(tar, to) < 0 && errno != EEXIST) {
        err_sys(e, errno, "link %s", tar);
        return NULL;
    }
    f->used_ns = clock_wall_ns();
    utimensat(AT_FDCWD, facts, NULL, 0);
    return xstrdup(f->sha256);
}
