// SPDX-License-Identifier: Apache-2.0
// Files into a sandbox and out of it: POST and GET /files, streamed, or read into memory. And files
// into a volume and out of it. A transfer has no time limit as long as bytes move; a stalled one
// ends. An envd older than 0.5.7 takes a file only as a part of a form.
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/client/access.h"
#include "sandbox-backend/client/call.h"
#include "sandbox-backend/client/client_internal.h"
#include "sandbox-backend/net/deadline.h"

#define STALL_MS 120000

struct transfer {
    struct client_op base;
    struct call *call; // borrowed; NULL once it has ended
    client_file_cb cb;
    client_read_cb read_cb; // one of the two
    void *ctx;
    char *path;         // owned; in the sandbox
    int fd;             // owned; -1: none
    struct buf content; // what was read into memory
    int64_t bytes, limit;
    struct buf head, tail; // around a file that is a part of a form
    size_t head_at, tail_at;
    struct err err;
    struct deadline stall;
};

static void cancel(struct client_op *base)
{
    struct transfer *op = container_of(base, struct transfer, base);
    if (op->call)
        call_cancel(op->call);
}

static void on_stalled(struct deadline *deadline)
{
    struct transfer *op = container_of(deadline, struct transfer, stall);
    err_set(&op->err, ERR_TIMEOUT, "no data of the file arrived or left for %d s", STALL_MS / 1000);
    call_cancel(op->call);
}

static struct transfer *transfer_new(struct client *c, const char *path, int fd, client_file_cb cb,
                                     void *ctx)
{
    struct transfer *op = xcalloc(1, sizeof *op);
    op->path = xstrdup(path);
    op->fd = fd;
    op->cb = cb;
    op->ctx = ctx;
    deadline_init(&op->stall, c->loop, on_stalled);
    deadline_arm(&op->stall, STALL_MS);
    op_begin(&op->base, c, cancel);
    return op;
}

static void on_stall_closed(struct deadline *deadline)
{
    struct transfer *op = container_of(deadline, struct transfer, stall);
    if (op->fd >= 0)
        close(op->fd);
    op_end(&op->base);
    const struct err *e = err_is(&op->err) ? &op->err : NULL;
    if (op->read_cb)
        op->read_cb(e ? NULL : buf_str(&op->content), e ? 0 : op->content.len, e, op->ctx);
    else
        op->cb(op->path, op->bytes, e, op->ctx);
    buf_fini(&op->content);
    buf_fini(&op->head);
    buf_fini(&op->tail);
    free(op->path);
    free(op);
}

// An error of our own counts more than the end of the call that it caused.
static void complete(struct transfer *op, const struct err *e)
{
    op->call = NULL;
    if (e && !err_is(&op->err))
        op->err = *e;
    deadline_close(&op->stall, on_stall_closed);
}

static void start(struct transfer *op, const char *id, const char *user, struct call_opts *opts,
                  const struct call_events *events)
{
    struct buf target auto_buf = BUF_INIT;
    struct client *c = op->base.client;
    envd_call_check(c, id, user, &op->err);
    if (!*op->path)
        err_set(&op->err, ERR_INVALID, "the path in the sandbox is empty");
    buf_adds(&target, "/files?path=");
    percent_encode(&target, op->path, true);
    if (user) {
        buf_adds(&target, "&username=");
        percent_encode(&target, user, false);
    }
    opts->sandbox = id;
    opts->target = buf_str(&target);
    opts->user = user;
    opts->refused = err_is(&op->err) ? &op->err : NULL;
    op->call = call_start(c, opts, events, op);
}

// ---- into the sandbox
static void on_upload_end(int status, const char *body, size_t len, const struct err *e, void *ctx)
{
    (void)status;
    struct transfer *op = ctx;
    struct err odd = ERR_INIT;
    json_t *answer = e ? NULL : json_parse(body, len, &odd);
    const char *path = json_string_value(json_object_get(json_array_get(answer, 0), "path"));
    if (path) { // the absolute path of a relative one
        free(op->path);
        op->path = xstrdup(path);
    } else if (!e) {
        err_set(&odd, ERR_INTERNAL, "the path is missing");
        err_wrap(&odd, "envd sent an invalid answer to an upload");
    }
    json_decref(answer);
    complete(op, e ? e : err_is(&odd) ? &odd : NULL);
}

// The file name has no effect: the path in the query counts.
static void write_form(struct transfer *op, const char *boundary)
{
    buf_printf(&op->head, "--%s\r\nContent-Disposition: form-data; name=\"file\"; filename=\"",
               boundary);
    for (const char *at = str_base(op->path); *at; at++) {
        if (*at == '"' || *at == '\r' || *at == '\n')
            buf_printf(&op->head, "%%%02X", *at);
        else
            buf_addc(&op->head, *at);
    }
    buf_adds(&op->head, "\"\r\nContent-Type: application/octet-stream\r\n\r\n");
    buf_printf(&op->tail, "\r\n--%s--\r\n", boundary);
}

static void on_upload_access(struct call *call, const struct access *a, void *ctx)
{
    struct transfer *op = ctx;
    if (!access_envd_older(a, 0, 5, 7)) {
        call_add_header(call, "Content-Type", "application/octet-stream");
        return;
    }
    char *boundary auto_free = random_hex(16);
    char *type auto_free = str_printf("multipart/form-data; boundary=%s", boundary);
    call_add_header(call, "Content-Type", type);
    write_form(op, boundary);
    if (op->fd < 0)
        call_wrap_body(call, &op->head, &op->tail);
    else
        call_set_body_total(call, op->limit + (int64_t)(op->head.len + op->tail.len));
}

static size_t give(const struct buf *from, size_t *at, void *into, size_t room)
{
    size_t n = from->len - *at < room ? from->len - *at : room;
    memcpy(into, from->data + *at, n);
    *at += n;
    return n;
}

// A regular file: reading it does not block for long. Its length was sent at the start.
static ssize_t read_file(void *into, size_t room, void *ctx)
{
    struct transfer *op = ctx;
    int64_t left = op->limit - op->bytes;
    deadline_arm(&op->stall, STALL_MS);
    if (op->head_at < op->head.len)
        return (ssize_t)give(&op->head, &op->head_at, into, room);
    if (left == 0 && op->tail_at < op->tail.len)
        return (ssize_t)give(&op->tail, &op->tail_at, into, room);
    if ((int64_t)room > left)
        room = (size_t)left;
    ssize_t n = room ? read(op->fd, into, room) : 0;
    if (n > 0)
        op->bytes += n;
    if (n > 0 || room == 0)
        return n;
    if (n < 0)
        err_sys(&op->err, errno, "read the local file");
    else
        err_set(&op->err, ERR_CONFLICT,
                "the local file became shorter while it was being uploaded; upload it again");
    return HTTP_READ_ABORT;
}

// Set op->limit to the size of the local file.
static void measure(struct transfer *op)
{
    struct stat st;
    if (fstat(op->fd, &st) < 0)
        err_sys(&op->err, errno, "stat the local file");
    else if (!S_ISREG(st.st_mode))
        err_set(&op->err, ERR_INVALID, "the local file is not a regular file");
    else
        op->limit = st.st_size;
}

struct client_op *client_upload(struct client *c, const char *id, int fd, const char *path,
                                const char *user, client_file_cb cb, void *ctx)
{
    static const struct call_events EVENTS = {.on_access = on_upload_access,
                                              .on_end = on_upload_end};
    struct transfer *op = transfer_new(c, path, fd, cb, ctx);
    measure(op);
    struct call_opts opts = {
        .method = "POST",
        .read_body = read_file,
        .body_total = op->limit,
    };
    start(op, id, user, &opts, &EVENTS);
    return &op->base;
}

struct client_op *client_upload_bytes(struct client *c, const char *id, const void *data,
                                      size_t len, const char *path, const char *user,
                                      client_file_cb cb, void *ctx)
{
    static const struct call_events EVENTS = {.on_access = on_upload_access,
                                              .on_end = on_upload_end};
    struct transfer *op = transfer_new(c, path, -1, cb, ctx);
    op->bytes = (int64_t)len;
    struct call_opts opts = {
        .method = "POST",
        .body = len ? data : "",
        .body_len = len,
    };
    start(op, id, user, &opts, &EVENTS);
    return &op->base;
}

// ---- out of the sandbox
static void too_large(struct transfer *op)
{
    err_set(&op->err, ERR_TOO_LARGE, "the file is larger than %lld bytes", (long long)op->limit);
    call_cancel(op->call);
}

static void on_download_head(int64_t length, void *ctx)
{
    struct transfer *op = ctx;
    if (length > op->limit)
        too_large(op);
}

static int keep(struct transfer *op, const char *data, size_t len)
{
    if (op->read_cb)
        return buf_try_add(&op->content, data, len, (size_t)op->limit)
                   ? 0
                   : err_set(&op->err, ERR_LIMIT, "there is not enough memory for the file");
    if (fd_write_all(op->fd, data, len, &op->err) < 0)
        return err_wrap(&op->err, "write the local file");
    return 0;
}

static void on_download_data(const char *data, size_t len, void *ctx)
{
    struct transfer *op = ctx;
    if (err_is(&op->err))
        return;
    if ((int64_t)len > op->limit - op->bytes) {
        too_large(op);
    } else if (keep(op, data, len) < 0) {
        call_cancel(op->call);
    } else {
        op->bytes += (int64_t)len;
        deadline_arm(&op->stall, STALL_MS);
    }
}

static void on_end_of_file(int status, const char *body, size_t len, const struct err *e, void *ctx)
{
    (void)status;
    (void)body;
    (void)len;
    struct transfer *op = ctx;
    // A network file system may report only now that it is full.
    if (!e && op->fd >= 0 && close(steal_fd(&op->fd)) < 0 && errno != EINTR)
        err_sys(&op->err, errno, "write the local file");
    complete(op, e);
}

static const struct call_events DOWNLOAD = {
    .on_head = on_download_head, .on_data = on_download_data, .on_end = on_end_of_file};

static void start_download(struct transfer *op, const char *id, const char *user)
{
    struct call_opts opts = {.method = "GET"};
    start(op, id, user, &opts, &DOWNLOAD);
}

struct client_op *client_download(struct client *c, const char *id, const char *path, int fd,
                                  int64_t max_bytes, const char *user, client_file_cb cb, void *ctx)
{
    struct transfer *op = transfer_new(c, path, fd, cb, ctx);
    op->limit = max_bytes;
    start_download(op, id, user);
    return &op->base;
}

struct client_op *client_read(struct client *c, const char *id, const char *path, int64_t max_bytes,
                              const char *user, client_read_cb cb, void *ctx)
{
    struct transfer *op = transfer_new(c, path, -1, NULL, ctx);
    op->read_cb = cb;
    op->limit = max_bytes;
    start_download(op, id, user);
    return &op->base;
}

// ---- of a volume (volumes.c)
static void start_volume(struct transfer *op, const struct volume_ref *v, struct call_opts *opts,
                         const struct call_events *events)
{
    struct buf target auto_buf = BUF_INIT;
    char *bearer auto_free = str_printf("Bearer %s", v->token);
    const struct http_header headers[] = {{"Authorization", bearer},
                                          {"Content-Type", "application/octet-stream"}};
    volume_target(&target, v, "file", op->path);
    if (opts->read_body)
        buf_adds(&target, "&force=true");
    opts->target = buf_str(&target);
    opts->headers = headers;
    opts->header_count = opts->read_body ? 2 : 1;
    opts->needs = FEATURE_VOLUMES;
    opts->refused = err_is(&op->err) ? &op->err : NULL;
    op->call = call_start(op->base.client, opts, events, op);
}

struct client_op *client_volume_upload(struct client *c, const struct volume_ref *v, int fd,
                                       const char *path, client_file_cb cb, void *ctx)
{
    static const struct call_events EVENTS = {.on_end = on_end_of_file};
    struct transfer *op = transfer_new(c, path, fd, cb, ctx);
    measure(op);
    struct call_opts opts = {.method = "PUT", .read_body = read_file, .body_total = op->limit};
    start_volume(op, v, &opts, &EVENTS);
    return &op->base;
}

struct client_op *client_volume_download(struct client *c, const struct volume_ref *v,
                                         const char *path, int fd, int64_t max_bytes,
                                         client_file_cb cb, void *ctx)
{
    struct transfer *op = transfer_new(c, path, fd, cb, ctx);
    struct call_opts opts = {.method = "GET"};
    op->limit = max_bytes;
    start_volume(op, v, &opts, &DOWNLOAD);
    return &op->base;
}
