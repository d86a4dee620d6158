// SPDX-License-Identifier: Apache-2.0
// cubby selftest: blocking calls into a sandbox.
#include <string.h>

#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/limits.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/cli/selftest/selftest.h"

#define OUTPUT_BYTES_MAX (1 << 20)
#define FILE_BYTES_MAX   (64 << 20)
#define COMMAND_MS       60000

struct call_wait {
    uv_loop_t *loop;   // borrowed
    struct buf *out;   // borrowed; or NULL
    struct buf errors; // what the command wrote to its standard error
    bool done;
    struct err *e;
};

static void finish(struct call_wait *w, const struct err *e)
{
    if (e && !err_is(w->e))
        *w->e = *e;
    w->done = true;
    uv_stop(w->loop);
}

static int wait_for(struct call_wait *w)
{
    while (!w->done)
        uv_run(w->loop, UV_RUN_DEFAULT);
    buf_fini(&w->errors);
    return err_is(w->e) ? -1 : 0;
}

static void add_output(struct call_wait *w, struct buf *to, const char *data, size_t len)
{
    if (to && !buf_try_add(to, data, len, OUTPUT_BYTES_MAX))
        err_set(w->e, ERR_TOO_LARGE, "the sandbox sent more than %d bytes", OUTPUT_BYTES_MAX);
}

// ---- commands

static void on_stdout(const char *data, size_t len, void *ctx)
{
    struct call_wait *w = ctx;
    add_output(w, w->out, data, len);
}

static void on_stderr(const char *data, size_t len, void *ctx)
{
    struct call_wait *w = ctx;
    add_output(w, &w->errors, data, len);
}

static void on_command_end(const struct command_result *r, const struct err *e, void *ctx)
{
    struct call_wait *w = ctx;
    if (!e && (r->end != COMMAND_EXITED || r->exit_code != 0))
        err_set(w->e, ERR_INTERNAL, "a command ended with \"%s\": %.120s", r->status,
                buf_str(&w->errors));
    finish(w, e);
}

int guest_run(struct selftest *t, const char *id, const char *command, struct buf *out,
              struct err *e)
{
    static const struct command_events EVENTS = {
        .on_stdout = on_stdout, .on_stderr = on_stderr, .on_end = on_command_end};
    const char *const args[] = {"-c", command, NULL};
    const struct command_opts opts = {.cmd = "/bin/sh", .args = args, .timeout_ms = COMMAND_MS};
    struct call_wait w = {.loop = &t->c.loop, .out = out, .e = e};
    client_command(t->c.client, id, &opts, &EVENTS, &w);
    return wait_for(&w);
}

int guest_expect(struct selftest *t, const char *id, const char *command, const char *wanted,
                 struct err *e)
{
    struct buf out auto_buf = BUF_INIT;
    if (guest_run(t, id, command, &out, e) < 0)
        return -1;
    size_t len = strcspn(buf_str(&out), "\n");
    if (len == strlen(wanted) && memcmp(buf_str(&out), wanted, len) == 0)
        return 0;
    return err_set(e, ERR_INTERNAL, "\"%.80s\" printed \"%.60s\" instead of \"%.60s\"", command,
                   buf_str(&out), wanted);
}

// ---- files

static void on_written(const char *path, int64_t bytes, const struct err *e, void *ctx)
{
    (void)path, (void)bytes;
    finish(ctx, e);
}

int guest_write(struct selftest *t, const char *id, const char *path, const struct buf *data,
                struct err *e)
{
    struct call_wait w = {.loop = &t->c.loop, .e = e};
    client_upload_bytes(t->c.client, id, data->data, data->len, path, NULL, on_written, &w);
    return wait_for(&w);
}

static void on_read(const char *data, size_t len, const struct err *e, void *ctx)
{
    struct call_wait *w = ctx;
    if (data)
        buf_add(w->out, data, len);
    finish(w, e);
}

int guest_read(struct selftest *t, const char *id, const char *path, struct buf *out, struct err *e)
{
    struct call_wait w = {.loop = &t->c.loop, .out = out, .e = e};
    client_read(t->c.client, id, path, FILE_BYTES_MAX, NULL, on_read, &w);
    return wait_for(&w);
}

// ---- Python

static void on_line(const char *line, size_t len, void *ctx)
{
    struct call_wait *w = ctx;
    json_t *o = json_parse_nul(line, len, NULL);
    const char *type = json_string_value(json_object_get(o, "type"));
    const json_t *text = json_object_get(o, "text");
    const char *value = json_string_value(json_object_get(o, "value"));
    if (str_eq(type, "error"))
        err_set(w->e, ERR_INTERNAL, "the Python kernel raised an error: %.120s",
                value ? value : "");
    else if ((str_eq(type, "stdout") || str_eq(type, "result")) && json_is_string(text))
        add_output(w, w->out, json_string_value(text), json_string_length(text));
    json_decref(o);
}

static void on_stream_end(int status, const struct err *e, void *ctx)
{
    (void)status;
    finish(ctx, e);
}

int guest_python(struct selftest *t, const char *id, const char *code, struct buf *result,
                 struct err *e)
{
    static const struct stream_events EVENTS = {.on_line = on_line, .on_end = on_stream_end};
    struct call_wait w = {.loop = &t->c.loop, .out = result, .e = e};
    json_t *body = json_pack("{s:s}", "code", code);
    client_stream(t->c.client, id, KERNEL_PORT, "POST", "/execute", body, &EVENTS, &w);
    json_decref(body);
    return wait_for(&w);
}
