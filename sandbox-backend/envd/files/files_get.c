// SPDX-License-Identifier: Apache-2.0
// GET and HEAD /files: choose the response. That is its headers, whether the client has the file
// already, the whole file or a range, and whether it is compressed. download.c sends the bytes.
//
// A file that fits in one chunk takes one read and one write, and its size is the length of that
// read, because stat(2) reports another size for files of /proc and /sys. A longer file without a
// size is read to its end.
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/envd/core/accept_encoding.h"
#include "sandbox-backend/envd/core/paths.h"
#include "sandbox-backend/envd/files/files_internal.h"
#include "sandbox-backend/envd/files/representation.h"
#include "sandbox-backend/net/gzip.h"

#define HELD_BYTES (64 * 1024)

static char held[HELD_BYTES]; // the contents of the present file, if it is short

struct file {
    int fd; // owned
    struct stat st;
    int64_t size; // -1: unknown
    bool is_held; // the whole file is in `held`
    bool has_validator;
    struct validator validator;
    const char *type;
    bool gzip; // send it compressed
};

// ---- the file

static int open_file(struct http_request *req, const char *path, struct stat *st)
{
    // Non-blocking: a FIFO without a writer, or a device, must not block the loop.
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0 && (errno == ENOENT || errno == ENOTDIR))
        http_respond_error(req, 404, "path '%s' does not exist", path);
    else if (fd < 0 && (errno == ENXIO || errno == ENODEV)) // a socket, or no such device
        http_respond_error(req, 400, "path '%s' is not a regular file", path);
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

// Read a short file into `held`. False: it cannot be read.
static bool hold(struct file *f)
{
    size_t have = 0;
    f->size = f->st.st_size;
    if (f->size >= HELD_BYTES)
        return true;
    while (have < HELD_BYTES) {
        ssize_t n = pread(f->fd, held + have, HELD_BYTES - have, (off_t)have);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && have == 0)
            return false;
        if (n <= 0)
            break;
        have += (size_t)n;
    }
    f->is_held = have < HELD_BYTES;
    f->size = f->is_held ? (int64_t)have : -1;
    return true;
}

// ---- headers

static bool is_token(const char *s)
{
    for (; *s; s++)
        if ((unsigned char)*s <= ' ' || (unsigned char)*s >= 0x7F ||
            strchr("()<>@,;:\\\"/[]?=", *s))
            return false;
    return true;
}

// inline; filename=a, filename="a b", or filename*=utf-8''%C3%A4 (RFC 6266, RFC 8187).
static void add_disposition(struct http_request *req, const char *base)
{
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

static void add_headers(struct http_request *req, const char *base, const struct file *f)
{
    http_response_header(req, "Vary", "Accept-Encoding");
    add_disposition(req, base);
    if (f->gzip)
        http_response_header(req, "Content-Encoding", "gzip");
    else if (f->size >= 0)
        http_response_header(req, "Accept-Ranges", "bytes");
    if (!f->has_validator)
        return;
    http_response_header(req, "ETag", f->validator.etag);
    if (*f->validator.date)
        http_response_header(req, "Last-Modified", f->validator.date);
}

// ---- the request

// Ranges and versions refer to the file's own bytes.
static bool asks_for_own_bytes(const struct http_request *req)
{
    static const char *const NAMES[] = {"Range",    "If-Match",          "If-None-Match",
                                        "If-Range", "If-Modified-Since", "If-Unmodified-Since"};
    for (size_t i = 0; i < ARRAY_LEN(NAMES); i++)
        if (http_request_header(req, NAMES[i]))
            return true;
    return false;
}

// Answer 406 and return false if the client accepts no coding that envd has.
static bool choose_coding(struct http_request *req, struct file *f)
{
    enum coding coding = accept_encoding(http_request_header(req, "Accept-Encoding"));
    f->gzip = coding == CODING_GZIP_ONLY || (coding == CODING_GZIP && !asks_for_own_bytes(req));
    if (coding == CODING_NONE)
        http_respond_error(req, 406,
                           "error parsing Accept-Encoding: no acceptable encoding found, "
                           "supported: [gzip]");
    return coding != CODING_NONE;
}

static int evaluate(const struct http_request *req, const struct file *f)
{
    const struct validator_conditions conditions = {
        .if_match = http_request_header(req, "If-Match"),
        .if_none_match = http_request_header(req, "If-None-Match"),
        .if_modified_since = http_request_header(req, "If-Modified-Since"),
        .if_unmodified_since = http_request_header(req, "If-Unmodified-Since"),
    };
    return f->has_validator ? validator_evaluate(&f->validator, &conditions) : 200;
}

static enum byte_range find_range(const struct http_request *req, const struct file *f,
                                  int64_t *from, int64_t *len)
{
    const char *if_range = http_request_header(req, "If-Range");
    if (f->gzip || f->size < 0 || strcmp(http_request_method(req), "GET") != 0)
        return BYTE_RANGE_NONE;
    if (if_range && !(f->has_validator && validator_allows_range(&f->validator, if_range)))
        return BYTE_RANGE_NONE;
    return byte_range_parse(http_request_header(req, "Range"), f->size, from, len);
}

// ---- responses

static void send_gzip(struct envd *envd, struct http_request *req, struct file *f)
{
    struct buf body auto_buf = BUF_INIT;
    struct err e = ERR_INIT;
    if (!f->is_held)
        download_start(envd, req,
                       &(struct download_spec){.status = 200,
                                               .fd = steal_fd(&f->fd),
                                               .length = -1,
                                               .type = f->type,
                                               .gzip = true});
    else if (gzip_compress(&body, held, (size_t)f->size, &e) < 0)
        http_respond_error(req, 503, "%s: try again", e.msg);
    else
        http_respond(req, 200, f->type, body.data, body.len);
}

static void send_bytes(struct envd *envd, struct http_request *req, struct file *f, int status,
                       int64_t from, int64_t len)
{
    if (f->is_held)
        http_respond(req, status, f->type, held + from, (size_t)len);
    else
        download_start(envd, req,
                       &(struct download_spec){.status = status,
                                               .fd = steal_fd(&f->fd),
                                               .from = from,
                                               .length = len,
                                               .type = f->type});
}

static void send_head(struct http_request *req, const struct file *f)
{
    http_response_header(req, "Content-Type", f->type);
    http_response_begin(req, 200, f->gzip ? -1 : f->size);
    http_response_end(req);
}

static void send_range(struct envd *envd, struct http_request *req, struct file *f, int64_t from,
                       int64_t len)
{
    char value[96];
    snprintf(value, sizeof value, "bytes %" PRId64 "-%" PRId64 "/%" PRId64, from, from + len - 1,
             f->size);
    http_response_header(req, "Content-Range", value);
    send_bytes(envd, req, f, 206, from, len);
}

static void refuse_range(struct http_request *req, const struct file *f)
{
    char value[48];
    snprintf(value, sizeof value, "bytes */%" PRId64, f->size);
    http_response_header(req, "Content-Range", value);
    http_respond_error(req, 416, "the range is outside the file, which has %" PRId64 " bytes",
                       f->size);
}

static void answer(struct envd *envd, struct http_request *req, struct file *f)
{
    int64_t from = 0;
    int64_t len = f->size;
    int status = evaluate(req, f);
    enum byte_range range = find_range(req, f, &from, &len);
    if (status == 304)
        http_respond(req, 304, NULL, NULL, 0);
    else if (status == 412)
        http_respond_error(req, 412, "the file is not the version that the request names");
    else if (strcmp(http_request_method(req), "HEAD") == 0)
        send_head(req, f);
    else if (f->gzip)
        send_gzip(envd, req, f);
    else if (range == BYTE_RANGE_OUTSIDE)
        refuse_range(req, f);
    else if (range == BYTE_RANGE_PART)
        send_range(envd, req, f, from, len);
    else
        send_bytes(envd, req, f, 200, 0, f->size);
}

static void serve(struct envd *envd, struct http_request *req, const char *path)
{
    struct file f = {.type = media_type_of(path)};
    struct timespec now;
    f.fd = open_file(req, path, &f.st);
    if (f.fd < 0)
        return;
    if (!hold(&f)) {
        http_respond_error(req, 500, "error reading file '%s': %s", path, strerror(errno));
    } else if (choose_coding(req, &f)) {
        clock_gettime(CLOCK_REALTIME, &now);
        f.has_validator = f.size == f.st.st_size;
        validator_init(&f.validator, &f.st, f.gzip ? "gzip" : "", &now);
        add_headers(req, str_base(path), &f);
        answer(envd, req, &f);
    }
    mem_close_fd(&f.fd);
}

void files__get(struct envd *envd, struct http_request *req, const struct user *user)
{
    bool bad;
    const char *asked = http_request_query(req, "path", &bad);
    if (bad) {
        http_respond_error(req, 400, "the path contains a NUL byte");
        return;
    }
    struct err e = ERR_INIT;
    char *path auto_free =
        path_resolve(asked ? asked : "", user, envd->settings.default_workdir, &e);
    if (path)
        serve(envd, req, path);
    else
        http_respond_error(req, 400, "%s", e.msg);
}
