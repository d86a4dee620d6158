// SPDX-License-Identifier: Apache-2.0
// POST /files: one file as application/octet-stream, or any number as multipart/form-data; either
// may be compressed (Content-Encoding: gzip). Each file gets the metadata of X-Metadata-* headers.
//
// Each file is written to a temporary file as its bytes arrive, and renamed at its end. After a
// failure envd reads and drops the rest of the body, so that the client, which is still sending,
// reads the error. A client that leaves in the middle leaves no temporary file.
#include <string.h>
#include <strings.h>

#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/envd/core/paths.h"
#include "sandbox-backend/envd/files/file_sink.h"
#include "sandbox-backend/envd/files/files_internal.h"
#include "sandbox-backend/envd/files/multipart.h"
#include "sandbox-backend/envd/fs/entry.h"
#include "sandbox-backend/net/gzip.h"

#define FILES_MAX 10000 // in one upload

struct upload {
    struct envd *envd;
    struct http_request *req;
    struct user user;
    char *path;        // owned; from the query, absolute; NULL: the parts have names
    struct gzip *gzip; // owned; NULL: the body is not compressed
    bool is_multipart;
    struct multipart multipart;
    struct file_sink sink;
    char *writing;    // owned; the path that is being written
    json_t *targets;  // owned; an object whose keys are the paths so far
    json_t *written;  // owned; the response
    json_t *metadata; // owned; for each file
    struct err e;
};

static void free_upload(struct upload *u)
{
    file_sink_abort(&u->sink);
    if (u->is_multipart)
        multipart_fini(&u->multipart);
    gzip_free(u->gzip);
    free(u->path);
    free(u->writing);
    json_decref(u->targets);
    json_decref(u->written);
    json_decref(u->metadata);
    free(u);
}

static void on_closed(void *ctx)
{
    free_upload(ctx);
}

// ---- one file

static int begin_file(struct upload *u, char *path)
{
    free(u->writing);
    u->writing = path;
    if (json_array_size(u->written) == FILES_MAX)
        return err_set(&u->e, ERR_INVALID, "more than %d files in one upload", FILES_MAX);
    struct buf key auto_buf = BUF_INIT;
    utf8_sanitize(&key, path, strlen(path));
    if (json_object_get(u->targets, buf_str(&key)))
        return err_set(&u->e, ERR_INVALID, "path '%s' is given twice in one upload", path);
    json_object_set_new(u->targets, buf_str(&key), json_true());
    if (file_sink_open(&u->sink, path, &u->user, &u->e) < 0)
        return -1;
    return metadata_replace(u->sink.fd, u->metadata, &u->e);
}

static int end_file(struct upload *u)
{
    if (file_sink_commit(&u->sink, &u->e) < 0)
        return -1;
    const char *base = str_base(u->writing);
    json_t *entry =
        json_pack("{s:o, s:o, s:s}", "path", json_lossy_string(u->writing, strlen(u->writing)),
                  "name", json_lossy_string(base, strlen(base)), "type", "file");
    if (json_object_size(u->metadata))
        json_object_set(entry, "metadata", u->metadata);
    json_array_append_new(u->written, entry);
    return 0;
}

// ---- parts

static int on_part(const char *name, const char *filename, void *ctx)
{
    struct upload *u = ctx;
    if (!str_eq(name, "file"))
        return 0; // ignore other fields of the form
    if (u->path)
        return begin_file(u, xstrdup(u->path));
    if (!filename || !*filename)
        return err_set(
            &u->e, ERR_INVALID,
            "the uploaded file has no name: set its filename or the path query parameter");
    char *path = path_resolve(filename, &u->user, u->envd->settings.default_workdir, &u->e);
    return path ? begin_file(u, path) : -1;
}

static int on_part_data(const char *data, size_t len, void *ctx)
{
    struct upload *u = ctx;
    return u->sink.fd >= 0 ? file_sink_write(&u->sink, data, len, &u->e) : 0;
}

static int on_part_end(void *ctx)
{
    struct upload *u = ctx;
    return u->sink.fd >= 0 ? end_file(u) : 0;
}

// ---- the body

static int take_plain(const char *data, size_t len, void *ctx)
{
    struct upload *u = ctx;
    return u->is_multipart ? multipart_feed(&u->multipart, data, len, &u->e)
                           : file_sink_write(&u->sink, data, len, &u->e);
}

static void on_data(struct http_request *req, const char *data, size_t len, void *ctx)
{
    (void)req;
    struct upload *u = ctx;
    if (err_is(&u->e))
        return;
    if (u->gzip)
        gzip_feed(u->gzip, data, len, take_plain, u, &u->e);
    else
        take_plain(data, len, u);
    if (err_is(&u->e))
        file_sink_abort(&u->sink); // frees room on a full disk at once
}

// An impossible path is the client's mistake; a failure of the disk is envd's, or 507 if it is
// full.
static int status_of(enum err_code code)
{
    if (code == ERR_NO_SPACE)
        return 507;
    int status = err_http_status(code);
    return status == 400 || status == 403 ? status : 500;
}

static void on_end(struct http_request *req, void *ctx)
{
    struct upload *u = ctx;
    if (!err_is(&u->e) && u->gzip)
        gzip_finish(u->gzip, take_plain, u, &u->e);
    if (!err_is(&u->e) && u->is_multipart)
        multipart_finish(&u->multipart, &u->e);
    else if (!err_is(&u->e))
        end_file(u);
    http_request_on_close(req, NULL, NULL);
    if (err_is(&u->e)) {
        file_sink_abort(&u->sink); // before the client can look
        http_respond_error(req, status_of(u->e.code), "%s", u->e.msg);
    } else {
        char *answer auto_free = json_to_string(u->written);
        // E2B's envd sends this type, which is Go's guess for the text.
        http_respond(req, 200, "text/plain; charset=utf-8", answer, strlen(answer));
    }
    free_upload(u);
}

// ---- the head

static bool is_type(const char *value, const char *type)
{
    size_t n = strlen(type);
    return strncasecmp(value, type, n) == 0 && (!value[n] || strchr("; \t", value[n]));
}

static int prepare(struct upload *u, const char *type, struct err *e)
{
    if (is_type(type, "multipart/form-data")) {
        static const struct multipart_events EVENTS = {on_part, on_part_data, on_part_end};
        u->is_multipart = true;
        return multipart_init(&u->multipart, type, &EVENTS, u, e);
    }
    if (!is_type(type, "application/octet-stream"))
        return err_set(e, ERR_INVALID,
                       "unsupported content type: %s, expected multipart/form-data or "
                       "application/octet-stream",
                       type);
    if (!u->path)
        return err_set(e, ERR_INVALID, "path query parameter is required for raw body upload");
    // If the target cannot be written, the error is sent at the end of the body, like an error in
    // the body.
    begin_file(u, xstrdup(u->path));
    return 0;
}

static struct upload *upload_new(struct envd *envd, struct http_request *req,
                                 const struct user *user)
{
    struct upload *u = xcalloc(1, sizeof *u);
    u->envd = envd;
    u->req = req;
    u->user = *user;
    u->sink = FILE_SINK_INIT;
    u->targets = json_object();
    u->written = json_array();
    return u;
}

static int take_encoding(struct upload *u, const char *encoding, struct err *e)
{
    if (!encoding || !*encoding || strcasecmp(encoding, "identity") == 0)
        return 0;
    if (strcasecmp(encoding, "gzip") != 0)
        return err_set(e, ERR_INVALID,
                       "unsupported content encoding: %s, expected gzip or identity", encoding);
    u->gzip = gzip_decompress_new();
    return u->gzip ? 0 : err_set(e, ERR_LIMIT, "not enough memory to decompress the upload");
}

static int take_head(struct upload *u, struct err *e)
{
    bool bad;
    size_t count;
    const struct http_header *headers = http_request_headers(u->req, &count);
    const char *path = http_request_query(u->req, "path", &bad);
    if (bad)
        return err_set(e, ERR_INVALID, "the path contains a NUL byte");
    if (take_encoding(u, http_request_header(u->req, "Content-Encoding"), e) < 0)
        return -1;
    u->metadata = metadata_from_headers(headers, count, e);
    if (u->metadata && path && *path)
        u->path = path_resolve(path, &u->user, u->envd->settings.default_workdir, e);
    return err_is(e) ? -1 : 0;
}

void files__post(struct envd *envd, struct http_request *req, const struct user *user)
{
    static const struct http_body_events EVENTS = {on_data, on_end};
    struct err e = ERR_INIT;
    struct upload *u = upload_new(envd, req, user);
    const char *type = http_request_header(req, "Content-Type");
    if (take_head(u, &e) < 0 || prepare(u, type ? type : "", &e) < 0) {
        http_respond_error(req, err_http_status(e.code), "%s", e.msg);
        free_upload(u);
        return;
    }
    http_request_on_close(req, on_closed, u);
    http_request_stream(req, &EVENTS, u);
}
