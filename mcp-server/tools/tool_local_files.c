// SPDX-License-Identifier: Apache-2.0
// Files between the computer of this server and a sandbox.
#include <string.h>
#include <unistd.h>

#include "mcp-server/context/local_dirs.h"
#include "mcp-server/text/text.h"
#include "mcp-server/tools/call/tools.h"
#include "mcp-server/tools/files/guest_file.h"
#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/base/visible.h"

// ---- upload_file_from_local_to_sandbox: 1. open the local file, 2. find its new path, 3. upload.

struct upload {
    int fd; // owned until the upload takes it
};

// No directory is allowed at all.
static void fail_without_dirs(struct tool_call *c, const struct err *e)
{
    tool_call_fail(c, "local_path_denied",
                   "%s. Ask the user to allow one (--local-dir of cubby-mcp)", e->msg);
}

static void fail_to_read(struct tool_call *c, const struct err *e)
{
    if (e->code == ERR_DENIED)
        tool_call_fail(c, "local_path_denied",
                       "%s. Ask the user to copy the file there, or to allow its directory "
                       "(--local-dir of cubby-mcp)",
                       e->msg);
    else if (e->code == ERR_NOT_FOUND)
        tool_call_fail(c, "local_file_not_found",
                       "%s. local_file_path is a path where this server runs, not in the sandbox",
                       e->msg);
    else
        tool_call_fail(c, "local_file_unusable", "%s", e->msg);
}

// ---- 3.

static void on_uploaded(const char *path, int64_t bytes, const struct err *e, void *ctx)
{
    struct tool_call *c = ctx;
    c->op = NULL;
    if (e) {
        tool_call_fail_err(c, "upload the file", e);
        return;
    }
    json_t *structured = json_object();
    json_object_set_new(structured, "path", json_string(path));
    json_object_set_new(structured, "bytes", json_integer(bytes));
    tool_call_add_link(c, path, NULL, bytes);
    tool_call_finish(c, structured);
}

static void on_found(struct tool_call *c, char *path, void *ctx)
{
    struct upload *u = ctx;
    int fd = u->fd;
    free(u);
    if (c->cancelled) {
        close(fd);
        tool_call_fail(c, "cancelled", "the call was cancelled");
    } else {
        c->op = client_upload(c->context->client, c->id, fd, path, NULL, on_uploaded, c);
    }
    free(path);
}

// ---- 1., 2.

static void start_upload(struct tool_call *c)
{
    struct err e = ERR_INIT;
    const char *local = tool_call_string(c, "local_file_path");
    const struct local_dirs *dirs = context_dirs(c->context, &e);
    if (!dirs) {
        fail_without_dirs(c, &e);
        return;
    }
    int fd auto_close = local_dirs_open(dirs, local, &e);
    if (fd < 0) {
        fail_to_read(c, &e);
        return;
    }
    if (!tool_call_client(c, 0))
        return;
    struct upload *u = xmalloc(sizeof *u);
    *u = (struct upload){.fd = steal_fd(&fd)};
    guest_path_find(c, tool_call_string(c, "sandbox_file_path"), str_base(local), on_found, u);
}

static char *text_of_upload(const json_t *o)
{
    return text_of_file("File uploaded to", o);
}

const struct tool tool_upload_file_from_local_to_sandbox = {
    .name = "upload_file_from_local_to_sandbox", .start = start_upload, .text = text_of_upload};

// ---- download_file_from_sandbox_to_local: into a file that gets its name when it is complete

#define UNNAMED "downloaded_file"

struct download {
    struct tool_call *call;
    struct local_file file;
    char *shown; // owned: the path as the result names it
};

static void download_free(struct download *d)
{
    free(d->shown);
    free(d);
}

static bool is_blank(const char *s)
{
    return !s || s[strspn(s, " \t\r\n")] == '\0';
}

// The guest chose the name, so it gets no characters that a terminal or shell interprets, and none
// that make it look like another name.
static char *tidy(const char *name)
{
    struct buf clean = BUF_INIT;
    size_t len = strlen(name);
    for (size_t i = 0; i < len;) {
        size_t n = visible_length(name + i, len - i);
        buf_add(&clean, n ? name + i : "_", n ? n : 1);
        i += n ? n : 1;
    }
    return clean.len ? buf_take(&clean) : xstrdup("");
}

// A plain name goes to LOGS_DIR/tmpfiles or the first allowed directory, marked with the sandbox's
// id, so it can replace only an earlier download. A name with a directory is a path, is used as it
// is, and replaces nothing.
static char *target(const struct tool_call *c, const struct local_dirs *dirs, bool *replace)
{
    const char *logs = c->context->config->logs_dir;
    const char *given = tool_call_string(c, "local_filename");
    *replace = is_blank(given) || !strchr(given, '/');
    if (!*replace)
        return xstrdup(given);
    char *name auto_free =
        tidy(is_blank(given) ? str_base(tool_call_string(c, "sandbox_file_path")) : given);
    if (logs && !c->context->config->http)
        return str_printf("%s/tmpfiles/sandbox_%s_%s", logs, c->id, *name ? name : UNNAMED);
    return str_printf("%s/sandbox_%s_%s", local_dirs_first(dirs), c->id, *name ? name : UNNAMED);
}

static void fail_to_write(struct tool_call *c, const struct err *e)
{
    if (e->code == ERR_DENIED)
        tool_call_fail(
            c, "local_path_denied",
            "%s. Give local_filename a plain name, or ask the user to allow the directory "
            "(--local-dir of cubby-mcp)",
            e->msg);
    else
        tool_call_fail(c, e->code == ERR_EXISTS ? "local_file_exists" : "local_file_unusable", "%s",
                       e->msg);
}

static void on_downloaded(const char *path, int64_t bytes, const struct err *e, void *ctx)
{
    (void)path;
    struct download *d = ctx;
    struct tool_call *c = d->call;
    struct err failed = ERR_INIT;
    c->op = NULL;
    if (e) {
        local_file_abort(&d->file);
        download_free(d);
        guest_file_fail(c, "download the file", e);
        return;
    }
    if (local_file_commit(&d->file, &failed) < 0) {
        download_free(d);
        fail_to_write(c, &failed);
        return;
    }
    json_t *structured = json_object();
    json_object_set_new(structured, "path", json_lossy_string(d->shown, strlen(d->shown)));
    json_object_set_new(structured, "bytes", json_integer(bytes));
    download_free(d);
    tool_call_finish(c, structured);
}

static void start_download(struct tool_call *c)
{
    struct err e = ERR_INIT;
    const struct config *config = c->context->config;
    const struct local_dirs *dirs = context_dirs(c->context, &e);
    if (!dirs) {
        fail_without_dirs(c, &e);
        return;
    }
    struct download *d = xmalloc(sizeof *d);
    bool replace = false;
    *d = (struct download){.call = c, .shown = target(c, dirs, &replace)};
    if (local_file_create(&d->file, dirs, d->shown, replace, &e) < 0) {
        download_free(d);
        fail_to_write(c, &e);
        return;
    }
    // MiroFlow's client joins the path itself, so there LOGS_DIR stays as given.
    if (!config_is_miroflow(config)) {
        free(d->shown);
        d->shown = xstrdup(d->file.path);
    }
    struct client *client = tool_call_client(c, 0);
    if (!client) {
        local_file_abort(&d->file);
        download_free(d);
        return;
    }
    c->op =
        client_download(client, c->id, tool_call_string(c, "sandbox_file_path"),
                        steal_fd(&d->file.fd), config->max_download_bytes, NULL, on_downloaded, d);
}

static char *text_of_download(const json_t *o)
{
    return text_of_file("File downloaded successfully to:", o);
}

const struct tool tool_download_file_from_sandbox_to_local = {
    .name = "download_file_from_sandbox_to_local",
    .start = start_download,
    .text = text_of_download};
