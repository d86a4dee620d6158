// SPDX-License-Identifier: Apache-2.0
// A file that carries a template to another machine.
#include "sandbox-backend/template/move/archive.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zstd.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

#define MAGIC          "CUBBYTP1"
#define MAGIC_BYTES    8
#define LEVEL          3
#define WINDOW_LOG_MAX 27 // 128 MiB: the memory that an archive can make its reader use
#define BUFFER_BYTES   (256 * 1024)

struct archive_writer {
    int fd;
    char *path;                 // owned
    ZSTD_CStream *stream;       // owned
    struct sha256_stream *hash; // owned
    char out[BUFFER_BYTES];
};

struct archive_reader {
    int fd;
    char *path;                 // owned
    ZSTD_DStream *stream;       // owned
    struct sha256_stream *hash; // owned
    char in[BUFFER_BYTES];
    ZSTD_inBuffer unread; // of `in`
    bool has_ended;       // the stream's frame
};

// ---- writing

static int compress(struct archive_writer *w, const void *data, size_t len,
                    ZSTD_EndDirective directive, struct err *e)
{
    ZSTD_inBuffer in = {data, len, 0};
    for (size_t left = 1; left > 0 || in.pos < in.size;) {
        ZSTD_outBuffer out = {w->out, sizeof w->out, 0};
        left = ZSTD_compressStream2(w->stream, &out, &in, directive);
        if (ZSTD_isError(left))
            return err_set(e, ERR_INTERNAL, "%s", ZSTD_getErrorName(left));
        if (fd_write_all(w->fd, w->out, out.pos, e) < 0)
            return err_wrap(e, "write %s", w->path);
        if (directive == ZSTD_e_continue && in.pos == in.size)
            break;
    }
    return 0;
}

int archive_write(struct archive_writer *w, const void *data, size_t len, struct err *e)
{
    sha256_add(w->hash, data, len);
    return compress(w, data, len, ZSTD_e_continue, e);
}

static int write_head(struct archive_writer *w, const json_t *manifest, struct err *e)
{
    char *text auto_free = json_to_string(manifest);
    uint64_t length = htole64(strlen(text));
    if (strlen(text) > ARCHIVE_MANIFEST_BYTES_MAX)
        return err_set(e, ERR_LIMIT, "the disk is in too many pieces");
    return archive_write(w, MAGIC, MAGIC_BYTES, e) < 0 ||
                   archive_write(w, &length, sizeof length, e) < 0
               ? -1
               : archive_write(w, text, strlen(text), e);
}

struct archive_writer *archive_create(const char *path, mode_t mode, const json_t *manifest,
                                      struct err *e)
{
    struct archive_writer *w = xcalloc(1, sizeof *w);
    w->path = xstrdup(path);
    w->stream = ZSTD_createCStream();
    w->hash = sha256_begin();
    w->fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    if (w->fd < 0)
        err_sys(e, errno, "create %s", path);
    else if (!w->stream)
        err_set(e, ERR_LIMIT, "no memory for the compression");
    if (w->fd >= 0 && w->stream) {
        ZSTD_CCtx_setParameter(w->stream, ZSTD_c_compressionLevel, LEVEL);
        ZSTD_CCtx_setParameter(w->stream, ZSTD_c_checksumFlag, 1);
        if (write_head(w, manifest, e) == 0)
            return w;
    }
    archive_writer_free(w);
    return NULL;
}

int archive_write_end(struct archive_writer *w, struct sha256 *digest, struct err *e)
{
    sha256_end(steal(&w->hash), digest);
    if (compress(w, digest->bytes, sizeof digest->bytes, ZSTD_e_end, e) < 0)
        return -1;
    return fsync(w->fd) < 0 ? err_sys(e, errno, "sync %s", w->path) : 0;
}

void archive_writer_free(struct archive_writer *w)
{
    if (!w)
        return;
    if (w->fd >= 0)
        close(w->fd);
    ZSTD_freeCStream(w->stream);
    if (w->hash)
        sha256_end(w->hash, NULL);
    free(w->path);
    free(w);
}

// ---- reading

static int damaged(const struct archive_reader *r, const char *how, struct err *e)
{
    return err_set(e, ERR_INVALID, "%s is not an archive of Cubby, or is damaged: %s", r->path,
                   how);
}

static int refill(struct archive_reader *r, struct err *e)
{
    ssize_t n;
    do
        n = read(r->fd, r->in, sizeof r->in);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return err_sys(e, errno, "read %s", r->path);
    if (n == 0)
        return damaged(r, "it ends too early", e);
    r->unread = (ZSTD_inBuffer){r->in, (size_t)n, 0};
    return 0;
}

// Read `len` bytes without hashing them.
static int read_bytes(struct archive_reader *r, void *data, size_t len, struct err *e)
{
    ZSTD_outBuffer out = {data, len, 0};
    while (out.pos < out.size) {
        if (r->has_ended)
            return damaged(r, "it ends too early", e);
        size_t before = out.pos;
        size_t left = ZSTD_decompressStream(r->stream, &out, &r->unread);
        if (ZSTD_isError(left))
            return damaged(r, ZSTD_getErrorName(left), e);
        r->has_ended = left == 0;
        bool needs_more = out.pos == before && r->unread.pos == r->unread.size;
        if (needs_more && !r->has_ended && refill(r, e) < 0)
            return -1;
    }
    return 0;
}

int archive_read(struct archive_reader *r, void *data, size_t len, struct err *e)
{
    if (read_bytes(r, data, len, e) < 0)
        return -1;
    sha256_add(r->hash, data, len);
    return 0;
}

static json_t *read_head(struct archive_reader *r, struct err *e)
{
    char magic[MAGIC_BYTES];
    uint64_t length = 0;
    if (archive_read(r, magic, sizeof magic, e) < 0)
        return NULL;
    if (memcmp(magic, MAGIC, MAGIC_BYTES) != 0)
        damaged(r, "it begins with other bytes than " MAGIC, e);
    else if (archive_read(r, &length, sizeof length, e) == 0 &&
             le64toh(length) > ARCHIVE_MANIFEST_BYTES_MAX)
        damaged(r, "its manifest is too long", e);
    if (e->code != ERR_NONE)
        return NULL;
    size_t len = (size_t)le64toh(length);
    char *text auto_free = xmalloc(len + 1);
    text[len] = '\0';
    if (archive_read(r, text, len, e) < 0)
        return NULL;
    json_t *manifest = json_parse(text, len, e);
    if (json_is_object(manifest))
        return manifest;
    json_decref(manifest);
    err_set(e, ERR_INVALID, "not a JSON object"); // unless the parser has set an error
    err_wrap(e, "%s is not an archive of Cubby, or is damaged: its manifest", r->path);
    return NULL;
}

struct archive_reader *archive_open(const char *path, json_t **manifest, struct err *e)
{
    struct archive_reader *r = xcalloc(1, sizeof *r);
    r->path = xstrdup(path);
    r->hash = sha256_begin();
    r->stream = ZSTD_createDStream();
    r->unread = (ZSTD_inBuffer){r->in, 0, 0};
    r->fd = open(path, O_RDONLY | O_CLOEXEC);
    *manifest = NULL;
    if (r->fd < 0)
        err_sys(e, errno, "open %s", path);
    else if (!r->stream)
        err_set(e, ERR_LIMIT, "no memory for the decompression");
    else if (!ZSTD_isError(ZSTD_DCtx_setParameter(r->stream, ZSTD_d_windowLogMax, WINDOW_LOG_MAX)))
        *manifest = read_head(r, e);
    if (*manifest)
        return r;
    archive_reader_free(r);
    return NULL;
}

int archive_read_end(struct archive_reader *r, struct sha256 *digest, struct err *e)
{
    struct sha256 told;
    char more;
    sha256_end(steal(&r->hash), digest);
    if (read_bytes(r, told.bytes, sizeof told.bytes, e) < 0)
        return -1;
    if (!sha256_equal(&told, digest))
        return damaged(r, "its contents do not have the digest at its end", e);
    // The end of the frame has a checksum, which the decompressor checks.
    while (!r->has_ended) {
        ZSTD_outBuffer out = {&more, 1, 0};
        if (r->unread.pos == r->unread.size && refill(r, e) < 0)
            return -1;
        size_t left = ZSTD_decompressStream(r->stream, &out, &r->unread);
        if (ZSTD_isError(left))
            return damaged(r, ZSTD_getErrorName(left), e);
        if (out.pos)
            return damaged(r, "bytes follow its end", e);
        r->has_ended = left == 0;
    }
    if (r->unread.pos < r->unread.size || read(r->fd, &more, 1) != 0)
        return damaged(r, "bytes follow its end", e);
    return 0;
}

void archive_reader_free(struct archive_reader *r)
{
    if (!r)
        return;
    if (r->fd >= 0)
        close(r->fd);
    ZSTD_freeDStream(r->stream);
    if (r->hash)
        sha256_end(r->hash, NULL);
    free(r->path);
    free(r);
}
