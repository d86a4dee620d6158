// SPDX-License-Identifier: Apache-2.0
// POST /files/compose: concatenate several files into one, and remove them.
//
// The result is written to a temporary file and renamed at the end; then the sources are removed. A
// failure before that changes nothing. The guest kernel copies the bytes where it can, a slice in
// each turn of the loop. If the client leaves, the composition ends.
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/limits.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/envd/core/paths.h"
#include "sandbox-backend/envd/files/file_sink.h"
#include "sandbox-backend/envd/files/files_internal.h"

#define SOURCES_MAX 10000
#define SLICE_BYTES (1024 * 1024)
#define COPY_BYTES  (64 * 1024)

struct composition {
    struct envd *envd;
    struct http_request *req;
    char *basic; // owned; may be NULL
    struct user user;
    char **sources; // owned, as each path is; absolute
    size_t count;
    size_t next;       // the next source to open; while fd >= 0, the one before it is being copied
    int fd;            // owned
    char *destination; // owned; absolute
    struct file_sink sink;
    uv_idle_t idle;
};

// ---- the end

static void composition_free(struct composition *c)
{
    file_sink_abort(&c->sink);
    mem_close_fd(&c->fd);
    for (size_t i = 0; i < c->count; i++)
        free(c->sources[i]);
    free(c->sources);
    free(c->destination);
    free(c->basic);
    free(c);
}

static void on_idle_closed(uv_handle_t *handle)
{
    composition_free(container_of((uv_idle_t *)handle, struct composition, idle));
}

static void release(struct composition *c)
{
    file_sink_abort(&c->sink);
    uv_close((uv_handle_t *)&c->idle, on_idle_closed);
}

static void on_closed(void *ctx)
{
    release(ctx);
}

// A wrong path is the client's mistake; a failure of the disk is envd's, or 507 if it is full.
static int status_of(enum err_code code)
{
    int status = err_http_status(code);
    return status == 400 || status == 403 || status == 404 || status == 507 ? status : 500;
}

static void fail(struct composition *c, const struct err *e)
{
    http_request_on_close(c->req, NULL, NULL);
    file_sink_abort(&c->sink); // before the client can look
    http_respond_error(c->req, status_of(e->code), "%s", e->msg);
    release(c);
}

static void succeed(struct composition *c)
{
    const char *base = str_base(c->destination);
    json_t *entry = json_pack("{s:o, s:o, s:s}", "path",
                              json_lossy_string(c->destination, strlen(c->destination)), "name",
                              json_lossy_string(base, strlen(base)), "type", "file");
    char *text auto_free = json_to_string(entry);
    json_decref(entry);
    http_request_on_close(c->req, NULL, NULL);
    http_respond(c->req, 200, "application/json", text, strlen(text));
    release(c);
}

// ---- 3. the copy

static int open_source(struct composition *c, struct err *e)
{
    const char *path = c->sources[c->next++];
    struct stat st;
    c->fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (c->fd < 0 && (errno == ENOENT || errno == ENOTDIR))
        return err_set(e, ERR_NOT_FOUND, "source file not found: %s", path);
    if (c->fd < 0 || fstat(c->fd, &st) < 0)
        return err_sys(e, errno, "open %s", path);
    if (!S_ISREG(st.st_mode))
        return err_set(e, ERR_INVALID, "source is not a regular file: %s", path);
    return 0;
}

// Copy a slice of the open source. Return the number of bytes, 0 at its end.
static ssize_t copy_slice(struct composition *c, struct err *e)
{
    static char chunk[COPY_BYTES];
    ssize_t n = sendfile(c->sink.fd, c->fd, NULL, SLICE_BYTES);
    if (n > 0 || (n < 0 && errno != EINVAL && errno != ENOSYS))
        return n < 0 ? err_sys(e, errno, "write %s", c->destination) : n;
    n = read(c->fd, chunk, sizeof chunk);
    if (n < 0)
        return err_sys(e, errno, "read %s", c->sources[c->next - 1]);
    return fd_write_all(c->sink.fd, chunk, (size_t)n, e) < 0 ? -1 : n;
}

static int finish(struct composition *c, struct err *e)
{
    if (file_sink_commit(&c->sink, e) < 0)
        return -1;
    for (size_t i = 0; i < c->count; i++)
        if (unlink(c->sources[i]) < 0 && errno != ENOENT)
            err_sys(e, errno, "%s is written, but %s could not be removed", c->destination,
                    c->sources[i]);
    return err_is(e) ? -1 : 0;
}

static void on_idle(uv_idle_t *idle)
{
    struct composition *c = container_of(idle, struct composition, idle);
    struct err e = ERR_INIT;
    bool over = false;
    if (c->fd >= 0) {
        if (copy_slice(c, &e) == 0)
            close(steal_fd(&c->fd));
    } else if (c->next < c->count) {
        open_source(c, &e);
    } else {
        over = finish(c, &e) == 0;
    }
    if (err_is(&e))
        fail(c, &e);
    else if (over)
        succeed(c);
}

// ---- 2. the request

static bool is_same_file(const char *a, const char *b)
{
    struct stat x;
    struct stat y;
    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

// Check all sources before the copy, so that a list with a mistake costs nothing.
static int check_source(const struct composition *c, const char *path, struct err *e)
{
    struct stat st;
    if (str_eq(path, c->destination) || is_same_file(path, c->destination))
        return err_set(e, ERR_INVALID, "source and destination are the same file: %s", path);
    if (stat(path, &st) < 0) {
        if (errno == ENOENT || errno == ENOTDIR)
            return err_set(e, ERR_NOT_FOUND, "source file not found: %s", path);
        return err_sys(e, errno, "stat %s", path);
    }
    if (!S_ISREG(st.st_mode))
        return err_set(e, ERR_INVALID, "source is not a regular file: %s", path);
    return 0;
}

static int take_sources(struct composition *c, const json_t *list, struct err *e)
{
    size_t count = json_array_size(list);
    if (count == 0)
        return err_set(e, ERR_INVALID, "source_paths must be an array of at least one path");
    if (count > SOURCES_MAX)
        return err_set(e, ERR_INVALID, "more than %d source_paths", SOURCES_MAX);
    c->sources = xcalloc(count, sizeof *c->sources);
    for (size_t i = 0; i < count; i++) {
        const char *path = json_string_value(json_array_get(list, i));
        if (!path || !*path)
            return err_set(e, ERR_INVALID, "source_paths[%zu] must be a non-empty string", i);
        char *resolved = path_resolve(path, &c->user, c->envd->settings.default_workdir, e);
        if (!resolved)
            return -1;
        c->sources[c->count++] = resolved;
        if (check_source(c, resolved, e) < 0)
            return -1;
    }
    return 0;
}

static int take_request(struct composition *c, const json_t *body, struct err *e)
{
    const char *destination;
    if (json_get_string(body, "destination", &destination, "", e) < 0)
        return -1;
    if (!*destination)
        return err_set(e, ERR_INVALID, "destination must be a path");
    c->destination = path_resolve(destination, &c->user, c->envd->settings.default_workdir, e);
    if (!c->destination || take_sources(c, json_object_get(body, "source_paths"), e) < 0)
        return -1;
    return file_sink_open(&c->sink, c->destination, &c->user, e);
}

// ---- 1. the body

static void on_body(struct http_request *req, const char *text, size_t len, void *ctx)
{
    struct composition *c = ctx;
    struct err e = ERR_INIT;
    const char *username = NULL;
    json_t *body = json_parse(text, len, &e);
    if (body && !json_is_object(body))
        err_set(&e, ERR_INVALID, "the body must be a JSON object");
    if (!err_is(&e))
        json_get_string(body, "username", &username, NULL, &e);
    if (!err_is(&e) && files__user(c->envd, req, username, c->basic, &c->user) < 0) {
        composition_free(c);
        json_decref(body);
        return;
    }
    if (!err_is(&e))
        take_request(c, body, &e);
    json_decref(body);
    if (err_is(&e)) {
        http_respond_error(req, status_of(e.code), "%s", e.msg);
        composition_free(c);
        return;
    }
    uv_idle_init(c->envd->loop, &c->idle);
    uv_idle_start(&c->idle, on_idle);
    http_request_on_close(req, on_closed, c);
}

static void on_gone(void *ctx)
{
    composition_free(ctx);
}

void files_serve_compose(struct envd *envd, struct http_request *req, const char *basic)
{
    struct composition *c = xcalloc(1, sizeof *c);
    c->envd = envd;
    c->req = req;
    c->basic = basic ? xstrdup(basic) : NULL;
    c->fd = -1;
    c->sink = FILE_SINK_INIT;
    http_request_on_close(req, on_gone, c);
    http_request_collect(req, LIMIT_JSON_BODY_BYTES, on_body, c);
}
