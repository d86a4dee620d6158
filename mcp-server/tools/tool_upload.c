// SPDX-License-Identifier: Apache-2.0
// upload_file_from_local_to_sandbox: 1. open the local file, 2. find its place, 3. upload.
#include <unistd.h>

#include "mcp-server/tools/local_dirs.h"
#include "mcp-server/tools/place.h"
#include "mcp-server/tools/text.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

struct upload {
    int fd; // owned until the upload takes it
};

static void fail_local(struct tool_call *c, const struct err *e)
{
    if (e->code == ERR_DENIED)
        tool_call_fail(c, "local_path_denied",
                       "%s. Copy the file there, or start cubby-mcp with --local-dir for its "
                       "directory",
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
        c->op = client_upload(c->toolbox->client, c->id, fd, path, NULL, on_uploaded, c);
    }
    free(path);
}

// ---- 1., 2.

static void start(struct tool_call *c)
{
    struct err e = ERR_INIT;
    const char *local = tool_call_string(c, "local_file_path");
    const struct local_dirs *dirs = toolbox_dirs(c->toolbox, &e);
    int fd auto_close = dirs ? local_dirs_open(dirs, local, &e) : -1;
    if (fd < 0) {
        fail_local(c, &e);
        return;
    }
    if (!tool_call_client(c, 0))
        return;
    struct upload *u = xmalloc(sizeof *u);
    *u = (struct upload){.fd = steal_fd(&fd)};
    place_find(c, tool_call_string(c, "sandbox_file_path"), str_base(local), on_found, u);
}

static char *text_of(const json_t *o)
{
    return text_of_file("File uploaded to", o);
}

const struct tool TOOL_UPLOAD = {"upload_file_from_local_to_sandbox", start, text_of};
