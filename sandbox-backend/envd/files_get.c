// SPDX-License-Identifier: Apache-2.0
// GET and HEAD /files.
//
// A file that fits in one chunk is one read and one write. A longer one is read a few chunks a turn
// of the loop, and only while the client takes them. Reads are blocking: the disk is local, and a
// chunk is short. What has no size of its own (/proc) is read to its end.
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/envd/files.h"
#include "sandbox-backend/envd/paths.h"

#define CHUNK_BYTES     (64 * 1024)
#define CHUNKS_PER_TURN 4
#define FILE_TYPE       "application/octet-stream"

static char chunk[CHUNK_BYTES];

struct download {
    struct http_request *req;
    int fd;       // owned
    int64_t left; // -1: until the file ends
    uv_idle_t idle;
};

static void on_idle(uv_idle_t *idle);

// ---- the request's wishes

// Whether Accept-Encoding leaves nothing that we send: we send identity.
static bool refuses_identity(const char *accept)
{
    bool star_refused = false;
    for (const char *p = accept ? accept : ""; *p;) {
        p += strspn(p, " ,\t");
        size_t len = strcspn(p, ",");
        size_t name = strcspn(p, ",; \t");
        const char *q = memchr(p, '=', len);
        bool zero = q && strtod(q + 1, NULL) == 0;
        if (name == 8 && strncasecmp(p, "identity", 8) == 0)
            return zero;
        if (name == 1 && *p == '*')
            star_refused = zero;
        p += len;
    }
    return star_refused;
}

enum range { RANGE_NONE, RANGE_GOOD, RANGE_BAD };

// One range of bytes (RFC 9110, 14.1.2); several, or what we do not understand, is the whole file.
static enum range read_range(const char *header, int64_t size, int64_t *from, int64_t *len)
{
    char first[24] = "";
    char last[24] = "";
    int64_t a = 0;
    int64_t b = size - 1;
    if (!header || strncasecmp(header, "bytes=", 6) != 0 || strchr(header, ','))
        return RANGE_NONE;
    const char *dash = strchr(header + 6, '-');
    if (!dash || (size_t)(dash - header - 6) >= sizeof first || strlen(dash + 1) >= sizeof last)
        return RANGE_NONE;
    memcpy(first, header + 6, (size_t)(dash - header - 6));
    memcpy(last, dash + 1, strlen(dash + 1));
    if ((*first && !str_to_int(first, 0, INT64_MAX, &a)) ||
        (*last && !str_to_int(last, 0, INT64_MAX, &b)) || (!*first && !*last) ||
        (*first && *last && b < a))
        return RANGE_NONE;
    if (!*first) { // "-n": the last n bytes
        a = b < size ? size - b : 0;
        b = size - 1;
    }
    if (b > size - 1)
        b = size - 1;
    *from = a;
    *len = b - a + 1;
    return *len > 0 ? RANGE_GOOD : RANGE_BAD;
}

// ---- the answer's head

static bool is_token(const char *s)
{
    for (; *s; s++)
        if ((unsigned char)*s <= ' ' || (unsigned char)*s >= 0x7F ||
            strchr("()<>@,;:\\\"/[]?=", *s))
            return false;
    return true;
}

// inline; filename=a, filename="a b", or filename*=utf-8''%C3%A4 (RFC 6266, RFC 8187).
static void add_disposition(struct http_request *req, const char *path)
{
    const char *base = str_base(path);
    struct buf value auto_buf = BUF_INIT;
    buf_adds(&value, "inline; filename");
    bool plain = true;
    for (const char *p = base; *p; p++)
        plain = plain && (unsigned char)*p >= ' ' && (unsigned char)*p < 0x7F;
    if (!plain) {
        buf_adds(&value, "*=utf-8''");
        percent_encode(&value, base, false);
    } else if (is_token(base)) {
        buf_printf(&value, "=%s", base);
    } else {
        buf_adds(&value, "=\"");
        for (const char *p = base; *p; p++) {
            if (*p == '"' || *p == '\\')
                buf_addc(&value, '\\');
            buf_addc(&value, *p);
        }
        buf_addc(&value, '"');
    }
    http_response_header(req, "Content-Disposition", buf_str(&value));
}

static void add_headers(struct http_request *req, const char *path, const struct stat *st)
{
    char modified[64];
    struct tm tm;
    gmtime_r(&st->st_mtim.tv_sec, &tm);
    strftime(modified, sizeof modified, "%a, %d %b %Y %H:%M:%S GMT", &tm);
    http_response_header(req, "Vary", "Accept-Encoding");
    add_disposition(req, path);
    if (st->st_size > 0) {
        http_response_header(req, "Accept-Ranges", "bytes");
        http_response_header(req, "Last-Modified", modified);
    }
}

// ---- the body

static void on_idle_closed(uv_handle_t *handle)
{
    free(container_of((uv_idle_t *)handle, struct download, idle));
}

static void release(struct download *d)
{
    close(steal_fd(&d->fd));
    uv_close((uv_handle_t *)&d->idle, on_idle_closed);
}

static void on_closed(void *ctx)
{
    release(ctx);
}

// Reads until the chunk is full, the file ends, or `max` bytes are there. -1: an error.
static ssize_t fill_chunk(int fd, int64_t max)
{
    size_t want = max >= 0 && max < CHUNK_BYTES ? (size_t)max : CHUNK_BYTES;
    size_t have = 0;
    while (have < want) {
        ssize_t n = read(fd, chunk + have, want - have);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && have == 0)
            return -1;
        if (n <= 0)
            break;
        have += (size_t)n;
    }
    return (ssize_t)have;
}

static void end(struct download *d, bool whole)
{
    struct http_request *req = d->req;
    http_request_on_close(req, NULL, NULL);
    release(d);
    if (whole)
        http_response_end(req);
    else
        http_response_abort(req); // the client must not take it for the file
}

static void on_drain(void *ctx)
{
    struct download *d = ctx;
    uv_idle_start(&d->idle, on_idle);
}

// Sends one chunk. False: wait, or it is over.
static bool send_chunk(struct download *d)
{
    ssize_t n = fill_chunk(d->fd, d->left);
    bool short_of_size = d->left > 0 && n == 0;
    if (n <= 0) {
        end(d, n == 0 && !short_of_size);
        return false;
    }
    if (d->left > 0)
        d->left -= n;
    bool room = http_response_write(d->req, chunk, (size_t)n);
    if (d->left == 0) {
        end(d, true);
        return false;
    }
    if (!room)
        uv_idle_stop(&d->idle);
    return room;
}

static void on_idle(uv_idle_t *idle)
{
    struct download *d = container_of(idle, struct download, idle);
    for (int i = 0; i < CHUNKS_PER_TURN && send_chunk(d); i++)
        ;
}

static void stream(struct envd *envd, struct http_request *req, int status, int fd, int64_t length)
{
    struct download *d = xcalloc(1, sizeof *d);
    *d = (struct download){.req = req, .fd = fd, .left = length};
    uv_idle_init(envd->loop, &d->idle);
    http_request_on_close(req, on_closed, d);
    http_response_on_drain(req, on_drain, d);
    http_response_header(req, "Content-Type", FILE_TYPE);
    http_response_begin(req, status, length);
    uv_idle_start(&d->idle, on_idle);
}

// ---- the cases

static void send_head(struct http_request *req, int64_t size)
{
    http_response_header(req, "Content-Type", FILE_TYPE);
    http_response_begin(req, 200, size);
    http_response_end(req);
}

static void send_whole(struct envd *envd, struct http_request *req, int *fd, const struct stat *st)
{
    if (st->st_size >= CHUNK_BYTES) {
        stream(envd, req, 200, steal_fd(fd), st->st_size);
        return;
    }
    ssize_t n = fill_chunk(*fd, -1);
    if (n < 0)
        http_respond_error(req, 500, "error reading file: %s", strerror(errno));
    else if (n < CHUNK_BYTES)
        http_respond(req, 200, FILE_TYPE, chunk, (size_t)n);
    else if (lseek(*fd, 0, SEEK_SET) < 0)
        http_respond_error(req, 500, "error reading file: %s", strerror(errno));
    else
        stream(envd, req, 200, steal_fd(fd), -1);
}

static void send_file(struct envd *envd, struct http_request *req, int *fd, const struct stat *st)
{
    int64_t from;
    int64_t len;
    enum range range = RANGE_NONE;
    // If-Range asks for the whole when the file has changed: the whole is always right.
    if (st->st_size > 0 && !http_request_header(req, "If-Range"))
        range = read_range(http_request_header(req, "Range"), st->st_size, &from, &len);
    if (strcmp(http_request_method(req), "HEAD") == 0) {
        send_head(req, st->st_size);
    } else if (range == RANGE_NONE) {
        send_whole(envd, req, fd, st);
    } else {
        char value[96];
        if (range == RANGE_BAD)
            snprintf(value, sizeof value, "bytes */%" PRId64, (int64_t)st->st_size);
        else
            snprintf(value, sizeof value, "bytes %" PRId64 "-%" PRId64 "/%" PRId64, from,
                     from + len - 1, (int64_t)st->st_size);
        http_response_header(req, "Content-Range", value);
        if (range == RANGE_BAD)
            http_respond_error(req, 416, "the range is not in the file");
        else if (lseek(*fd, from, SEEK_SET) < 0)
            http_respond_error(req, 500, "error reading file: %s", strerror(errno));
        else
            stream(envd, req, 206, steal_fd(fd), len);
    }
}

static int open_file(struct http_request *req, const char *path, struct stat *st)
{
    // Non-blocking: a FIFO without a writer, or a device, must not hold the loop.
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0 && (errno == ENOENT || errno == ENOTDIR))
        http_respond_error(req, 404, "path '%s' does not exist", path);
    else if (fd < 0 || fstat(fd, st) < 0)
        http_respond_error(req, errno == EACCES ? 403 : 500, "error opening file '%s': %s", path,
                           strerror(errno));
    else if (S_ISDIR(st->st_mode))
        http_respond_error(req, 400, "path '%s' is a directory", path);
    else if (!S_ISREG(st->st_mode))
        http_respond_error(req, 400, "path '%s' is not a regular file", path);
    else
        return fd;
    mem_close_fd(&fd);
    return -1;
}

char *files_path(const struct envd *envd, struct http_request *req, const struct user *user,
                 const char *path)
{
    struct err e = ERR_INIT;
    char *resolved = path_resolve(path, user, envd->settings.default_workdir, &e);
    if (!resolved)
        http_respond_error(req, 400, "%s", e.msg);
    return resolved;
}

void files_get(struct envd *envd, struct http_request *req, const struct user *user)
{
    bool bad;
    const char *asked = http_request_query(req, "path", &bad);
    if (bad) {
        http_respond_error(req, 400, "the path holds a NUL");
        return;
    }
    if (refuses_identity(http_request_header(req, "Accept-Encoding"))) {
        http_respond_error(req, 406,
                           "error parsing Accept-Encoding: no acceptable encoding found, "
                           "supported: [identity]");
        return;
    }
    char *path auto_free = files_path(envd, req, user, asked ? asked : "");
    struct stat st;
    int fd auto_close = path ? open_file(req, path, &st) : -1;
    if (fd < 0)
        return;
    add_headers(req, path, &st);
    send_file(envd, req, &fd, &st);
}
