// SPDX-License-Identifier: Apache-2.0
// upload_directory and download_directory: whole directories, between this computer and a sandbox.
// Both start `cubby sync` for one way, so there is one implementation, with its rules: what
// .cubbyignore hides stays, .git and what a mount hides do, links lead nowhere out, and nothing is
// lost.
//
// The operator names each directory (--project-dir). A model chooses among them; it cannot name
// another, nor one below, where the .cubbyignore of the directory above would not count. From the
// sandbox no name that begins with '.' is taken, because programs run what they find there. The
// program gets an open descriptor of the directory, because a sandbox with a mount might put a link
// in the directory's place.
//
// 1. choose the directory and find the sandbox, 2. start the program, 3. read what it prints, 4.
// make the result.
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#include "mcp-server/text/text.h"
#include "mcp-server/tools/call/tools.h"
#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/home.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/base/visible.h"

#define PROGRAM      "cubby"
#define ARGS_MAX     32
#define OUTPUT_BYTES (4 << 20)
#define ERRORS_BYTES 4096
#define DIR_FD       3 // of the program: the directory of this computer
#define DIR_OF_FD    "/proc/self/fd/3"

struct copying {
    struct tool_call *call;
    const char *only; // "in" or "out"
    char *dir;        // owned; of this computer
    int dir_fd;       // owned; the same, opened
    char *guest;      // owned; as the result names it
    uv_process_t process;
    uv_pipe_t out, err;
    struct buf out_text, err_text;
    int open; // handles
    int64_t status;
    int signal;
};

static void start_program(struct copying *d);
static void end(struct copying *d);

static void copying_free(struct copying *d)
{
    mem_close_fd(&d->dir_fd);
    free(d->dir);
    free(d->guest);
    buf_fini(&d->out_text);
    buf_fini(&d->err_text);
    free(d);
}

// ---- 1. the directory

static bool is_called(const char *dir, const char *wanted)
{
    char *path auto_free = xstrdup(dir);
    for (size_t len = strlen(path); len > 1 && path[len - 1] == '/';)
        path[--len] = '\0';
    return str_eq(path, wanted) || str_eq(dir, wanted) || str_eq(str_base(path), wanted);
}

// Return the directory that the call names; NULL with the call failed.
static const struct host_dir *choose_dir(struct tool_call *c)
{
    const struct opt_list *dirs = &c->context->config->project_dirs;
    const char *wanted = tool_call_string(c, "local_directory");
    struct buf names auto_buf = BUF_INIT;
    int found = 0;
    int count = !wanted && dirs->count == 1;
    for (int i = 0; i < dirs->count; i++) {
        buf_printf(&names, "%s%s", i ? ", " : "", dirs->items[i]);
        if (wanted && is_called(dirs->items[i], wanted)) {
            found = i;
            count++;
        }
    }
    if (count != 1) {
        tool_call_fail(c, "local_path_denied",
                       "local_directory must be one of: %s. Ask the user "
                       "to allow another one (--project-dir of cubby-mcp)",
                       buf_str(&names));
        return NULL;
    }
    const struct host_dir *dir = &c->context->config->found_projects.items[found];
    if (dir->path)
        return dir;
    tool_call_fail(c, "local_file_not_found",
                   "the directory %s was not there when this server started. Ask the user to make "
                   "it and to start cubby-mcp again",
                   dirs->items[found]);
    return NULL;
}

// Return a descriptor of the directory; -1 with the call failed.
static int open_dir(struct tool_call *c, const struct host_dir *dir)
{
    struct err e = ERR_INIT;
    int fd = host_dir_open(dir, &e);
    if (fd < 0)
        tool_call_fail(c, "local_path_denied", "--project-dir of cubby-mcp: %s", e.msg);
    return fd;
}

// Return the sandbox's directory: by default the one of this name, in the home. New string.
static char *guest_of(const struct tool_call *c, const char *dir)
{
    const char *given = tool_call_string(c, "sandbox_directory");
    const char *name = str_base(dir);
    return given ? xstrdup(given) : str_printf("~/%s", *name ? name : "project");
}

static void on_found(const json_t *sandbox, const struct err *e, void *ctx)
{
    (void)sandbox;
    struct copying *d = ctx;
    struct tool_call *c = d->call;
    c->op = NULL;
    if (!e && !c->cancelled) {
        start_program(d);
        return;
    }
    copying_free(d);
    if (c->cancelled)
        tool_call_fail(c, "cancelled", "the call was cancelled");
    else
        tool_call_fail_err(c, "copy the directory", e);
}

static void start(struct tool_call *c, const char *only)
{
    const struct host_dir *dir = choose_dir(c);
    int fd auto_close = dir ? open_dir(c, dir) : -1;
    struct client *client = fd < 0 ? NULL : tool_call_client(c, 0);
    if (!client)
        return;
    struct copying *d = xcalloc(1, sizeof *d);
    d->call = c;
    d->only = only;
    d->guest = guest_of(c, dir->path);
    d->dir = xstrdup(dir->path);
    d->dir_fd = steal_fd(&fd);
    c->op = client_get(client, c->id, on_found, d);
}

// ---- 2. the program

static void on_closed(uv_handle_t *handle)
{
    struct copying *d = handle->data;
    if (--d->open == 0)
        end(d);
}

static void close_handle(uv_handle_t *handle)
{
    if (!uv_is_closing(handle))
        uv_close(handle, on_closed);
}

static void on_ended(uv_process_t *process, int64_t status, int number)
{
    struct copying *d = process->data;
    d->status = status;
    d->signal = number;
    close_handle((uv_handle_t *)process);
}

static void on_cancel(struct tool_call *c)
{
    struct copying *d = c->state;
    if (!uv_is_closing(
            (uv_handle_t *)&d->process)) // else it has ended, and its pid may be another's
        uv_process_kill(&d->process, SIGTERM);
}

// The words of the command line; the first ones of `args` are there. Secrets go by `env`.
static void add_backend(const char **args, int *n, const struct config *config)
{
    const struct {
        const char *option, *value;
    } ROWS[] = {{"--dialect", config->dialect},
                {"--sandbox-url", config->sandbox_url},
                {"--backend-proxy", config->backend_proxy},
                {"--backend-ca", config->backend_ca},
                {"--cube-master", config->cube_master}};
    args[(*n)++] = "--backend";
    args[(*n)++] = config_is_remote(config) ? config->api_url : "local";
    for (size_t i = 0; config_is_remote(config) && i < ARRAY_LEN(ROWS); i++) {
        if (!ROWS[i].value)
            continue;
        args[(*n)++] = ROWS[i].option;
        args[(*n)++] = ROWS[i].value;
    }
}

// Return the environment with the API key of the configuration, NULL-terminated. Only the array and
// its first string are new.
static char **environment(const struct config *config)
{
    size_t count = 0;
    while (environ[count])
        count++;
    char **env = xcalloc(count + 2, sizeof *env);
    size_t n = 0;
    env[n++] = str_printf("E2B_API_KEY=%s", config->api_key ? config->api_key : "");
    for (size_t i = 0; i < count; i++)
        if (!str_starts(environ[i], "E2B_API_KEY="))
            env[n++] = environ[i];
    return env;
}

static int spawn(struct copying *d, const char *program, const char **args)
{
    const struct config *config = d->call->context->config;
    uv_loop_t *loop = d->call->context->loop;
    uv_stdio_container_t stdio[] = {
        {.flags = UV_IGNORE},
        {.flags = UV_CREATE_PIPE | UV_WRITABLE_PIPE, .data.stream = (uv_stream_t *)&d->out},
        {.flags = UV_CREATE_PIPE | UV_WRITABLE_PIPE, .data.stream = (uv_stream_t *)&d->err},
        [DIR_FD] = {.flags = UV_INHERIT_FD, .data.fd = d->dir_fd},
    };
    char **env = environment(config);
    const uv_process_options_t options = {
        .exit_cb = on_ended,
        .file = program,
        .args = (char **)(uintptr_t)args,
        .env = env,
        .stdio_count = (int)ARRAY_LEN(stdio),
        .stdio = stdio,
    };
    uv_pipe_init(loop, &d->out, 0);
    uv_pipe_init(loop, &d->err, 0);
    d->out.data = d->err.data = d->process.data = d;
    d->open = 3;
    int rc = uv_spawn(loop, &d->process, &options);
    free(env[0]);
    free(env);
    return rc;
}

// ---- 3. what it prints

static void on_room(uv_handle_t *handle, size_t suggested, uv_buf_t *out)
{
    static char block[65536]; // one loop, and each read is taken before the next
    (void)handle;
    (void)suggested;
    *out = uv_buf_init(block, sizeof block);
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *data)
{
    struct copying *d = stream->data;
    bool is_out = stream == (uv_stream_t *)&d->out;
    size_t max = is_out ? OUTPUT_BYTES : ERRORS_BYTES;
    struct buf *text = is_out ? &d->out_text : &d->err_text;
    size_t room = max - text->len;
    if (n < 0)
        close_handle((uv_handle_t *)stream);
    else
        buf_add(text, data->base, (size_t)n < room ? (size_t)n : room);
}

static void start_program(struct copying *d)
{
    struct tool_call *c = d->call;
    struct err e = ERR_INIT;
    const struct config *config = c->context->config;
    char *program auto_free = self_program(PROGRAM, &e);
    if (!program) {
        copying_free(d);
        tool_call_fail_err(c, "copy the directory", &e);
        return;
    }
    char *most auto_free = str_printf("%lld", (long long)config->max_download_bytes);
    char *there auto_free = str_printf("%s:%s", c->id, d->guest);
    char *self auto_free = str_printf("%d", (int)getpid());
    const char *args[ARGS_MAX] = {PROGRAM,      "sync",  "--json",      "--quiet",
                                  "--only",     d->only, "--no-hidden", "--no-secrets",
                                  "--max-size", most,    "--parent",    self};
    int n = 12;
    add_backend(args, &n, config);
    if (config->backend_user) {
        args[n++] = "--user";
        args[n++] = config->backend_user;
    }
    args[n++] = "--";
    args[n++] = DIR_OF_FD;
    args[n++] = there;
    c->state = d;
    c->on_cancel = on_cancel;
    int rc = spawn(d, program, args);
    if (rc < 0) {
        buf_printf(&d->err_text, "start %s: %s", program, uv_strerror(rc));
        d->status = 1;
        close_handle((uv_handle_t *)&d->process);
        close_handle((uv_handle_t *)&d->out);
        close_handle((uv_handle_t *)&d->err);
        return;
    }
    uv_read_start((uv_stream_t *)&d->out, on_room, on_read);
    uv_read_start((uv_stream_t *)&d->err, on_room, on_read);
}

// ---- 4. the result

// Return a list of the program's answer, which has its first names only; new reference.
static json_t *list_of(const json_t *answer, const char *name)
{
    json_t *list = json_object_get(answer, name);
    return json_is_array(list) ? json_incref(list) : json_array();
}

static json_t *result_of(const struct copying *d, const json_t *answer)
{
    static const char *const COUNTS[] = {"files", "links", "bytes", "deleted", "waiting"};
    json_t *o = json_pack("{s:o, s:o, s:o, s:o}", "local_directory",
                          json_lossy_string(d->dir, strlen(d->dir)), "sandbox_directory",
                          json_lossy_string(d->guest, strlen(d->guest)), "conflicts",
                          list_of(answer, "conflicts"), "skipped", list_of(answer, "skipped"));
    for (size_t i = 0; i < ARRAY_LEN(COUNTS); i++)
        json_object_set_new(o, COUNTS[i], json_integer(text_int(answer, COUNTS[i])));
    json_object_set_new(o, "conflict_count", json_integer(text_int(answer, "conflictCount")));
    json_object_set_new(o, "skipped_count", json_integer(text_int(answer, "skippedCount")));
    return o;
}

static void fail(struct tool_call *c, struct buf *complaint)
{
    char *text = (char *)(uintptr_t)buf_str(complaint);
    if (complaint->len)
        text[strcspn(text, "\n")] = '\0';
    char *shown auto_free =
        visible_text(str_starts(text, PROGRAM ": ") ? text + strlen(PROGRAM ": ") : text);
    tool_call_fail(c, "copy_failed", "%s",
                   *shown ? shown : "the copy ended without an answer; call the tool again");
}

static void end(struct copying *d)
{
    struct tool_call *c = d->call;
    struct err e = ERR_INIT;
    c->on_cancel = NULL;
    c->state = NULL;
    // 1 with an answer: something changed while it was copied, and is among what was left out
    json_t *answer = d->status <= 1 && d->signal == 0 && d->out_text.len
                         ? json_parse(buf_str(&d->out_text), d->out_text.len, &e)
                         : NULL;
    if (d->status == 1 && json_object_get(answer, "error")) {
        json_decref(answer);
        answer = NULL;
    }
    if (c->cancelled)
        tool_call_fail(c, "cancelled", "the call was cancelled");
    else if (json_is_object(answer))
        tool_call_finish(c, result_of(d, answer));
    else
        fail(c, &d->err_text);
    json_decref(answer);
    copying_free(d);
}

static void add_list(struct buf *out, const json_t *o, const char *name, const char *count,
                     const char *key, const char *title)
{
    size_t i;
    json_t *one;
    const json_t *list = json_object_get(o, name);
    json_array_foreach (list, i, one) {
        char *path auto_free = visible_text(text_string(one, "path"));
        char *other auto_free = visible_text(text_string(one, key));
        buf_printf(out, "\n%s %s: %s", title, path, other);
    }
    if (text_int(o, count) > (long long)json_array_size(list))
        buf_printf(out, "\n%s %lld more, which are not named here", title,
                   text_int(o, count) - (long long)json_array_size(list));
}

static char *text_of(const json_t *o, const char *from, const char *to, const char *waits)
{
    struct buf out = BUF_INIT;
    char *a auto_free = visible_text(text_string(o, from));
    char *b auto_free = visible_text(text_string(o, to));
    buf_printf(&out, "%s -> %s: copied %lld files (%lld bytes), deleted %lld", a, b,
               text_int(o, "files"), text_int(o, "bytes"), text_int(o, "deleted"));
    if (text_int(o, "waiting"))
        buf_printf(&out, "\n%lld changes %s", text_int(o, "waiting"), waits);
    add_list(&out, o, "conflicts", "conflict_count", "kept",
             "Changed on both sides; the sandbox's version of");
    add_list(&out, o, "skipped", "skipped_count", "reason", "Left out");
    return buf_take(&out);
}

static char *text_of_upload(const json_t *o)
{
    return text_of(o, "local_directory", "sandbox_directory",
                   "of the sandbox were not brought out (download_directory)");
}

static char *text_of_download(const json_t *o)
{
    return text_of(o, "sandbox_directory", "local_directory",
                   "of this computer were not brought in (upload_directory)");
}

static void start_upload(struct tool_call *c)
{
    start(c, "in");
}

static void start_download(struct tool_call *c)
{
    start(c, "out");
}

static bool is_allowed(const struct config *config)
{
    return config->project_dirs.count > 0;
}

// Two copies of one pair of directories would each find the other's files.
static char *uses(const struct tool_call *c)
{
    (void)c;
    return xstrdup("directories");
}

const struct tool tool_upload_directory = {.name = "upload_directory",
                                           .start = start_upload,
                                           .text = text_of_upload,
                                           .uses = uses,
                                           .is_allowed = is_allowed};
const struct tool tool_download_directory = {.name = "download_directory",
                                             .start = start_download,
                                             .text = text_of_download,
                                             .uses = uses,
                                             .is_allowed = is_allowed};
