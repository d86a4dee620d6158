// SPDX-License-Identifier: Apache-2.0
// A command that a tool runs in a sandbox.
//
// Steps: 1. the command, until it has ended; 2. and 3. the whole of stdout and stderr into files in
// the sandbox, if the result lacks their middle; 4. what the network refused meanwhile, if the
// command failed or its output reads like a network error; 5. the tool's on_done.
#include "mcp-server/tools/run/run.h"

#include <string.h>

#include "mcp-server/tools/run/network_hint.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/log/log.h"

#define NAME_SHOWN        80 // characters of a variable's name in an error
#define SAVED_PATH_FORMAT "/tmp/cubby-%s-%s.txt"

struct run *run_new(struct tool_call *c)
{
    size_t limit = (size_t)c->context->config->output_bytes;
    struct run *r = xmalloc(sizeof *r);
    *r = (struct run){.call = c, .exit_code = -1};
    output_init(&r->out, limit);
    output_init(&r->err, limit);
    return r;
}

void run_free(struct run *r)
{
    if (r->on_free)
        r->on_free(r);
    output_fini(&r->out);
    output_fini(&r->err);
    free(r->status);
    free(r->hint);
    free(r->out_path);
    free(r->err_path);
    free(r);
}

int64_t run_timeout_ms(const struct tool_call *c)
{
    const json_t *timeout = json_object_get(c->args, "timeout");
    if (timeout)
        return (int64_t)(json_number_value(timeout) * 1000);
    return config_command_timeout_ms(c->context->config, c->takes_progress);
}

bool run_envs_fit(struct tool_call *c)
{
    size_t i;
    json_t *one;
    json_array_foreach (json_object_get(c->args, "envs"), i, one) {
        if (json_string_length(one) <= RUN_ARGUMENT_MAX)
            continue;
        const char *text = json_string_value(one);
        int name = (int)strcspn(text, "=");
        tool_call_fail(c, "invalid_argument",
                       "the environment variable %.*s has %zu bytes with its name and at most %zu "
                       "can be passed; put the value into a file%s",
                       name < NAME_SHOWN ? name : NAME_SHOWN, text, json_string_length(one),
                       RUN_ARGUMENT_MAX, tool_call_hint(c, "write_file", " with write_file"));
        return false;
    }
    return true;
}

json_t *run_envs(const struct tool_call *c)
{
    const json_t *list = json_object_get(c->args, "envs");
    json_t *envs = list ? json_object() : NULL;
    size_t i;
    json_t *entry;
    json_array_foreach (list, i, entry) {
        const char *text = json_string_value(entry);
        size_t len = strcspn(text, "=");
        char *name auto_free = xstrndup(text, len);
        json_object_set_new(envs, name, json_string(text[len] ? text + len + 1 : ""));
    }
    return envs;
}

// The output so far is lost with the sandbox, so it follows the error.
static char *last_words(const struct run *r)
{
    struct buf words = BUF_INIT;
    json_t *out = output_text(&r->out, "the rest could not be saved");
    json_t *err = output_text(&r->err, "the rest could not be saved");
    buf_printf(&words, "\n\nIts output until then:\n%s%s", json_string_value(out),
               json_string_value(err));
    json_decref(out);
    json_decref(err);
    return buf_take(&words);
}

void run_fail(struct run *r, const char *what, const struct err *e)
{
    struct tool_call *c = r->call;
    struct err copy = *e;
    if (output_total(&r->out) + output_total(&r->err) > 0 && !c->cancelled)
        c->note = last_words(r);
    run_free(r);
    tool_call_fail_err(c, what, &copy);
}

// ---- 1. the command

void run_add_stdout(struct run *r, const char *data, size_t len)
{
    r->call->bytes += (int64_t)len;
    output_add(&r->out, data, len);
    tool_call_output(r->call, PROGRESS_STDOUT, data, len);
}

void run_add_stderr(struct run *r, const char *data, size_t len)
{
    r->call->bytes += (int64_t)len;
    output_add(&r->err, data, len);
    tool_call_output(r->call, PROGRESS_STDERR, data, len);
}

static void on_stdout(const char *data, size_t len, void *ctx)
{
    run_add_stdout(ctx, data, len);
}

static void on_stderr(const char *data, size_t len, void *ctx)
{
    struct run *r = ctx;
    if (r->filter)
        r->filter(r, data, len);
    else
        run_add_stderr(r, data, len);
}

// The message must not say "try again": the command would run twice.
void run_fail_lost(struct run *r, const struct err *e)
{
    struct tool_call *c = r->call;
    struct err copy = *e;
    if (output_total(&r->out) + output_total(&r->err) > 0)
        c->note = last_words(r);
    run_free(r);
    tool_call_fail(c, "command_lost",
                   "%s. The command may have run or may still be running: check (ps, its files) "
                   "before you run it again",
                   copy.msg);
}

static void on_end(const struct command_result *result, const struct err *e, void *ctx)
{
    struct run *r = ctx;
    r->call->op = NULL;
    if (e && result->may_have_run && e->code != ERR_CANCELED) {
        run_fail_lost(r, e);
        return;
    }
    if (e) {
        run_fail(r, "run the command", e);
        return;
    }
    r->timed_out = result->end == COMMAND_TIMED_OUT;
    if (result->end == COMMAND_EXITED)
        r->exit_code = result->exit_code;
    run_end(r, result->status ? result->status : "");
}

void run_start(struct run *r, const struct run_spec *spec)
{
    static const struct command_events EVENTS = {
        .on_stdout = on_stdout, .on_stderr = on_stderr, .on_end = on_end};
    struct tool_call *c = r->call;
    int64_t timeout_ms = run_timeout_ms(c);
    struct command_opts opts = {
        .cmd = spec->cmd,
        .args = spec->args,
        .envs = spec->envs,
        .cwd = spec->cwd,
        .user = r->user,
        .timeout_ms = timeout_ms,
    };
    struct client *client = tool_call_client(c, timeout_ms / 1000 + RUN_SLIDE_MARGIN_S);
    if (!client) {
        run_free(r);
        return;
    }
    c->op = client_command(client, c->id, &opts, &EVENTS, r);
}

// ---- 2., 3. what is too long to show

// Start the upload of one stream. False: there is nothing to upload, or it cannot be uploaded.
static bool save(struct run *r, struct output *o, const char *stream, char **path,
                 client_file_cb on_saved)
{
    int fd = output_is_cut(o) && !r->call->cancelled ? output_take_fd(o) : -1;
    if (fd < 0)
        return false;
    char *name auto_free = random_hex(4);
    *path = str_printf(SAVED_PATH_FORMAT, name, stream);
    r->call->op =
        client_upload(r->call->context->client, r->call->id, fd, *path, r->user, on_saved, r);
    return true;
}

static void settle(struct run *r, char **path, int64_t bytes, const struct err *e)
{
    r->call->op = NULL;
    if (!e) {
        tool_call_add_link(r->call, *path, "text/plain", bytes);
        return;
    }
    log_warn("output.upload", "error=%s", e->msg);
    free(steal(path));
}

static void ask_why(struct run *r);

static void on_stderr_saved(const char *path, int64_t bytes, const struct err *e, void *ctx)
{
    (void)path;
    struct run *r = ctx;
    settle(r, &r->err_path, bytes, e);
    ask_why(r);
}

static void save_stderr(struct run *r)
{
    if (!save(r, &r->err, "stderr", &r->err_path, on_stderr_saved))
        ask_why(r);
}

static void on_stdout_saved(const char *path, int64_t bytes, const struct err *e, void *ctx)
{
    (void)path;
    struct run *r = ctx;
    settle(r, &r->out_path, bytes, e);
    save_stderr(r);
}

static void save_stdout(struct run *r)
{
    if (!save(r, &r->out, "stdout", &r->out_path, on_stdout_saved))
        save_stderr(r);
}

void run_end(struct run *r, const char *status)
{
    r->status = xstrdup(status);
    save_stdout(r);
}

// ---- 4. why it may have failed
static void on_hint(struct tool_call *c, char *hint, void *ctx)
{
    (void)c;
    struct run *r = ctx;
    r->hint = hint;
    r->on_done(r);
}

static bool reads_refused(const struct output *o)
{
    struct buf text auto_buf = BUF_INIT;
    excerpt_get(&o->shown, &text);
    return text.len && network_hint_is_likely(text.data, text.len);
}

static void ask_why(struct run *r)
{
    bool is_worth_it = r->exit_code != 0 || reads_refused(&r->err) || reads_refused(&r->out);
    if (!is_worth_it || !network_hint_ask(r->call, 0, on_hint, r))
        r->on_done(r);
}

// ---- 5. the result

static void add_stream(json_t *o, const struct output *stream, const char *name, const char *path)
{
    char *where auto_free = NULL;
    if (!path)
        where = xstrdup("the rest could not be saved");
    else if (stream->saved < output_total(stream))
        where = str_printf("the first %lld bytes are in %s", (long long)stream->saved, path);
    else
        where = str_printf("all of it is in %s", path);
    char *bytes auto_free = str_printf("%s_bytes", name);
    json_object_set_new(o, name, output_text(stream, where));
    json_object_set_new(o, bytes, json_integer(output_total(stream)));
    if (path) {
        char *key auto_free = str_printf("%s_path", name);
        json_object_set_new(o, key, json_string(path));
    }
}

json_t *run_structured(const struct run *r)
{
    json_t *o = json_object();
    add_stream(o, &r->out, "stdout", r->out_path);
    add_stream(o, &r->err, "stderr", r->err_path);
    json_object_set_new(o, "exit_code", json_integer(r->exit_code));
    json_object_set_new(o, "status", json_lossy_string(r->status, strlen(r->status)));
    json_object_set_new(o, "timed_out", json_boolean(r->timed_out));
    json_object_set_new(o, "truncated",
                        json_boolean(output_is_cut(&r->out) || output_is_cut(&r->err)));
    if (r->hint)
        json_object_set_new(o, "network_hint", json_lossy_string(r->hint, strlen(r->hint)));
    return o;
}
