// SPDX-License-Identifier: Apache-2.0
// The files of a volume: E2B's volume content API, /volumecontent/{id}/path, /dir and /file. The
// volume's token authorizes a request (Authorization: Bearer), not an API key.
//
// The work on the disk is done by a thread of the pool, except that an upload's bytes are written
// as they come. A request that changes the volume first waits for its turn, outside the pool. An
// upload is written beside the volume's files and moved to its place at its end, so one that breaks
// changes nothing.
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>
#include <unistd.h>
#include <uv.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/daemon/api/api.h"
#include "sandbox-backend/daemon/api/body.h"
#include "sandbox-backend/daemon/api/volume_turn.h"
#include "sandbox-backend/daemon/http/reply.h"
#include "sandbox-backend/daemon/sandbox/store.h"
#include "sandbox-backend/daemon/volumes/volume_files.h"
#include "sandbox-backend/daemon/volumes/volumes.h"

#define BEARER   "Bearer "
#define CHUNK    262144
#define PUT_ROOM 16

enum kind { STAT, LIST, MAKE_DIR, CHANGE, REMOVE, OPEN, ROOM, PUT };

// A request for a file. It outlives its client while a thread works on it.
struct content {
    uv_work_t work;
    struct volume_turn turn; // of a change, while it works or waits for that
    enum kind kind;
    struct http_request *req;   // NULL once the client has gone
    char *dir, *path;           // owned; the volume's, and the file's
    int root;                   // the volume's files
    struct volume_space *space; // a reference; the volume's room
    struct volume_meta meta;
    bool force;
    int64_t depth;
    json_t *out;        // owned; the result
    int fd;             // of a download or an upload; -1: none
    int64_t size, left; // of a download; for an upload, what is left of `reserved`
    int64_t reserved;   // of the volume's room, in bytes
    char *part;         // owned; the upload; NULL: none
    bool working;
    struct err err;
};

static void on_turn_closed(struct deadline *again)
{
    struct volume_turn *turn = container_of(again, struct volume_turn, again);
    free(container_of(turn, struct content, turn));
}

static void content_free(struct content *c)
{
    volume_turn_close(&c->turn, on_turn_closed);
    if (c->fd >= 0)
        close(c->fd);
    if (c->part)
        unlink(c->part); // nothing is there after volume_put
    if (c->space)
        space_arrived(&c->space->space, c->reserved);
    volume_space_unref(c->space);
    mem_close_fd(&c->root);
    free(c->dir);
    free(c->path);
    free(c->part);
    json_decref(c->out);
}

static void on_client_gone(void *ctx)
{
    struct content *c = ctx;
    c->req = NULL;
    if (!c->working)
        content_free(c);
}

// ---- the request
static void on_turn(struct volume_turn *turn, bool has_lock);

static int read_number(struct http_request *req, const char *name, int64_t max, int64_t *out,
                       struct err *e)
{
    const char *text = http_request_query(req, name, NULL);
    char *end = NULL;
    if (!text)
        return 0;
    *out = strtoll(text, &end, 10);
    return *text && !*end && *out >= 0 && *out <= max
               ? 0
               : err_set(e, ERR_INVALID, "%s must be a number from 0 to %lld", name,
                         (long long)max);
}

static int read_query(struct content *c, struct http_request *req, struct err *e)
{
    const char *path = http_request_query(req, "path", NULL);
    const char *force = http_request_query(req, "force", NULL);
    c->meta = (struct volume_meta){-1, -1, -1};
    c->depth = 1;
    c->force = str_eq(force, "true") || str_eq(force, "1") || str_eq(force, "True");
    if (!path)
        return err_set(e, ERR_INVALID, "path is required");
    c->path = xstrdup(path);
    if (read_number(req, "uid", UINT32_MAX, &c->meta.uid, e) < 0 ||
        read_number(req, "gid", UINT32_MAX, &c->meta.gid, e) < 0 ||
        read_number(req, "mode", 07777, &c->meta.mode, e) < 0)
        return -1;
    return read_number(req, "depth", VOLUME_DEPTH_MAX, &c->depth, e);
}

// Find the volume, whose token the request must have. One answer for both, so that nobody can find
// out which ids exist.
static struct content *content_new(struct api_call *call, enum kind kind, struct err *e)
{
    struct volume *volume = volumes_find(&call->store->volumes, call->arg);
    const char *said = http_request_header(call->req, "Authorization");
    bool known = volume && said && str_starts(said, BEARER) &&
                 str_eq_secret(said + strlen(BEARER), volume->token);
    if (!known) {
        err_set(e, ERR_UNAUTHENTICATED,
                "the volume's token is needed (Authorization: Bearer), which GET /volumes/{id} "
                "tells");
        return NULL;
    }
    struct content *c = xcalloc(1, sizeof *c);
    *c = (struct content){.kind = kind,
                          .req = call->req,
                          .dir = xstrdup(volume->dir),
                          .root = volumes_open_files(&call->store->volumes, volume, e),
                          .fd = -1};
    c->work.data = c;
    volume_turn_init(&c->turn, call->store->loop, on_turn);
    c->space = c->root < 0 ? NULL : volumes_space(volume, call->store->limits.volume_bytes, e);
    if (c->space && read_query(c, call->req, e) == 0)
        return c;
    content_free(c);
    return NULL;
}

// ---- the work, in a thread
static void run(uv_work_t *work)
{
    struct content *c = work->data;
    const struct volume_path p = {c->root, c->path, &c->space->space};
    switch (c->kind) {
    case STAT:
        volume_stat(&p, &c->out, &c->err);
        break;
    case LIST:
        volume_list(&p, c->depth, &c->out, &c->err);
        break;
    case MAKE_DIR:
        volume_make_dir(&p, &c->meta, c->force, &c->out, &c->err);
        break;
    case CHANGE:
        volume_change(&p, &c->meta, &c->out, &c->err);
        break;
    case REMOVE:
        volume_remove(&p, &c->err);
        break;
    case OPEN:
        c->fd = volume_open(&p, &c->size, &c->err);
        break;
    case ROOM:
        volume_expect(&p, c->left, &c->reserved, &c->err);
        break;
    case PUT:
        volume_put(&p, c->part, &c->meta, c->force, &c->out, &c->err);
        break;
    }
}

static void send_file(struct content *c);
static void begin_upload(struct content *c);

// The work is done, or could not begin.
static void finish(struct content *c)
{
    if (!err_is(&c->err) && c->kind == OPEN) {
        send_file(c);
        return;
    }
    if (!err_is(&c->err) && c->kind == ROOM) {
        begin_upload(c);
        return;
    }
    http_request_on_close(c->req, NULL, NULL);
    if (err_is(&c->err))
        reply_err(c->req, c->err.code == ERR_BUSY ? "volume_in_use" : NULL, &c->err);
    else if (c->kind == REMOVE)
        reply_empty(c->req);
    else
        reply_json(c->req, c->kind == MAKE_DIR || c->kind == PUT ? 201 : 200, steal(&c->out));
    content_free(c);
}

static void on_done(uv_work_t *work, int status)
{
    (void)status;
    struct content *c = work->data;
    c->working = false;
    volume_turn_end(&c->turn);
    if (c->req)
        finish(c);
    else
        content_free(c);
}

static void work_on(struct content *c)
{
    c->working = true;
    uv_queue_work(http_request_loop(c->req), &c->work, run, on_done);
}

static void on_turn(struct volume_turn *turn, bool has_lock)
{
    struct content *c = container_of(turn, struct content, turn);
    if (has_lock) {
        work_on(c);
        return;
    }
    volume_turn_end(turn);
    err_set(&c->err, ERR_BUSY, "the volume is in use; try again in a moment");
    finish(c);
}

static void start(struct content *c)
{
    bool changes = c->kind == MAKE_DIR || c->kind == REMOVE || c->kind == ROOM || c->kind == PUT;
    if (changes)
        volume_turn_begin(&c->turn, c->space);
    else
        work_on(c);
}

static int take(struct api_call *call, enum kind kind, struct err *e)
{
    struct content *c = content_new(call, kind, e);
    if (!c)
        return -1;
    http_request_on_close(c->req, on_client_gone, c);
    start(c);
    return 0;
}

int api_volume_stat(struct api_call *c, struct err *e)
{
    return take(c, STAT, e);
}

int api_volume_list(struct api_call *c, struct err *e)
{
    return take(c, LIST, e);
}

int api_volume_make_dir(struct api_call *c, struct err *e)
{
    return take(c, MAKE_DIR, e);
}

int api_volume_delete(struct api_call *c, struct err *e)
{
    return take(c, REMOVE, e);
}

int api_volume_download(struct api_call *c, struct err *e)
{
    return take(c, OPEN, e);
}

int api_volume_change(struct api_call *call, struct err *e)
{
    struct content *c = content_new(call, CHANGE, e);
    if (!c)
        return -1;
    if (body_check_members(call->body, "", e, "uid", "gid", "mode") < 0 ||
        json_get_int(call->body, "uid", 0, UINT32_MAX, &c->meta.uid, -1, e) < 0 ||
        json_get_int(call->body, "gid", 0, UINT32_MAX, &c->meta.gid, -1, e) < 0 ||
        json_get_int(call->body, "mode", 0, 07777, &c->meta.mode, -1, e) < 0) {
        content_free(c);
        return -1;
    }
    http_request_on_close(c->req, on_client_gone, c);
    start(c);
    return 0;
}

// ---- a download. Its pages are in the page cache or read ahead, as for every file of this daemon.
static void on_drain(void *ctx)
{
    struct content *c = ctx;
    char chunk[65536];
    bool more = true;
    while (c->left > 0 && more) {
        ssize_t n = read(c->fd, chunk, (size_t)MIN(c->left, (int64_t)sizeof chunk));
        if (n <= 0) { // the file has become shorter: the client sees a broken answer
            struct http_request *req = c->req;
            http_request_on_close(req, NULL, NULL);
            content_free(c);
            http_response_abort(req);
            return;
        }
        c->left -= n;
        more = http_response_write(c->req, chunk, (size_t)n);
    }
    if (c->left > 0)
        return;
    struct http_request *req = c->req;
    http_request_on_close(req, NULL, NULL);
    http_response_on_drain(req, NULL, NULL);
    content_free(c);
    http_response_end(req);
}

static void send_file(struct content *c)
{
    c->left = c->size;
    http_response_header(c->req, "Content-Type", "application/octet-stream");
    http_response_header(c->req, "X-Content-Type-Options", "nosniff");
    http_response_begin(c->req, 200, c->size);
    http_response_on_drain(c->req, on_drain, c);
    on_drain(c);
}

// ---- an upload
static void fail(struct content *c, const struct err *e)
{
    struct http_request *req = c->req;
    http_request_on_close(req, NULL, NULL);
    content_free(c);
    reply_err(req, NULL, e);
}

// Reserve room for more of an upload whose length is not known.
static bool reserve_more(struct content *c, int64_t bytes)
{
    int64_t more = MAX(bytes, CHUNK);
    if (!space_expect(&c->space->space, more) &&
        !space_expect(&c->space->space, more = bytes)) // the last bytes may just fit
        return false;
    c->reserved += more;
    c->left += more;
    return true;
}

static void on_data(struct http_request *req, const char *data, size_t len, void *ctx)
{
    (void)req;
    struct content *c = ctx;
    struct err e = ERR_INIT;
    bool fits = c->left >= (int64_t)len || reserve_more(c, (int64_t)len - c->left);
    c->left -= (int64_t)len;
    if (fits && fd_write_all(c->fd, data, len, &e) == 0)
        return;
    if (!err_is(&e))
        volume_full(&c->space->space, &e);
    fail(c, &e);
}

static void on_end(struct http_request *req, void *ctx)
{
    (void)req;
    struct content *c = ctx;
    close(c->fd);
    c->fd = -1;
    c->kind = PUT;
    start(c);
}

static void begin_upload(struct content *c)
{
    static const struct http_body_events EVENTS = {.on_data = on_data, .on_end = on_end};
    struct err e = ERR_INIT;
    char *name auto_free = random_hex(PUT_ROOM);
    c->part = str_printf("%s/" VOLUME_PUT "%s", c->dir, name);
    c->left = c->reserved - SPACE_NAME_BYTES;
    if ((c->fd = open(c->part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600)) < 0)
        err_sys(&e, errno, "create %s", c->part);
    if (err_is(&e))
        fail(c, &e);
    else
        http_request_stream(c->req, &EVENTS, c);
}

int api_volume_upload(struct api_call *call, struct err *e)
{
    struct content *c = content_new(call, ROOM, e);
    if (!c)
        return -1;
    c->left = http_request_length(c->req); // -1: not known
    http_request_on_close(c->req, on_client_gone, c);
    start(c);
    return 0;
}
