// SPDX-License-Identifier: Apache-2.0
// download_file_from_sandbox_to_local: into a file that takes its name when it is whole.
#include <string.h>

#include "mcp-server/tools/local_dirs.h"
#include "mcp-server/tools/text.h"
#include "mcp-server/tools/tools.h"
#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/base/visible.h"

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

// The guest chose it: nothing that a terminal or a shell obeys, and nothing that looks like another
// name than it is.
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

// A name alone goes to LOGS_DIR/tmpfiles or the first directory that is allowed, marked with the
// sandbox's id, and so replaces at most an earlier download from there; one with a directory is a
// path, used as it is, and replaces nothing.
static char *target(const struct tool_call *c, const struct local_dirs *dirs, bool *replace)
{
    const char *logs = c->toolbox->config->logs_dir;
    const char *given = tool_call_string(c, "local_filename");
    *replace = is_blank(given) || !strchr(given, '/');
    if (!*replace)
        return xstrdup(given);
    char *name auto_free =
        tidy(is_blank(given) ? str_base(tool_call_string(c, "sandbox_file_path")) : given);
    if (logs && !c->toolbox->config->http)
        return str_printf("%s/tmpfiles/sandbox_%s_%s", logs, c->id, *name ? name : UNNAMED);
    return str_printf("%s/sandbox_%s_%s", local_dirs_first(dirs), c->id, *name ? name : UNNAMED);
}

static void fail_local(struct tool_call *c, const struct err *e)
{
    if (e->code == ERR_DENIED)
        tool_call_fail(c, "local_path_denied",
                       "%s. Give local_filename a plain name, or start cubby-mcp with --local-dir "
                       "for the directory",
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
        tool_call_fail_err(c, "download the file", e);
        return;
    }
    if (local_file_commit(&d->file, &failed) < 0) {
        download_free(d);
        fail_local(c, &failed);
        return;
    }
    json_t *structured = json_object();
    json_object_set_new(structured, "path", json_lossy_string(d->shown, strlen(d->shown)));
    json_object_set_new(structured, "bytes", json_integer(bytes));
    download_free(d);
    tool_call_finish(c, structured);
}

static void start(struct tool_call *c)
{
    struct err e = ERR_INIT;
    const struct config *config = c->toolbox->config;
    const struct local_dirs *dirs = toolbox_dirs(c->toolbox, &e);
    struct download *d = xmalloc(sizeof *d);
    bool replace = false;
    *d = (struct download){.call = c, .shown = dirs ? target(c, dirs, &replace) : NULL};
    if (!dirs || local_file_create(&d->file, dirs, d->shown, replace, &e) < 0) {
        download_free(d);
        fail_local(c, &e);
        return;
    }
    // MiroFlow's client joins the path itself, so there it stays as LOGS_DIR was given.
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

static char *text_of(const json_t *o)
{
    return text_of_file("File downloaded successfully to:", o);
}

const struct tool TOOL_DOWNLOAD_LOCAL = {"download_file_from_sandbox_to_local", start, text_of};
