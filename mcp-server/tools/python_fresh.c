// SPDX-License-Identifier: Apache-2.0
// A piece of Python in a fresh interpreter, its end told as a notebook tells it.
//
// Steps: 1. code that is too long for an argument goes into a file; 2. the interpreter, under a
// login shell, so that it finds what run_command finds; 3. the result.
#include <string.h>

#include "mcp-server/tools/python.h"
#include "mcp-server/tools/python_runner.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

#define ARGUMENT_MAX ((size_t)96 * 1024) // Linux takes 128 KiB (MAX_ARG_STRLEN)

struct python {
    struct python_record record;
    char *path; // owned: the file of long code, or NULL
};

static void on_free(struct run *r)
{
    struct python *p = r->ctx;
    python_record_fini(&p->record);
    free(p->path);
    free(p);
}

// ---- 3. the result

static json_t *died(const struct run *r)
{
    json_t *error = json_object();
    json_object_set_new(error, "name", json_string("InterpreterDied"));
    json_object_set_new(error, "value", json_lossy_string(r->status, strlen(r->status)));
    char *text auto_free =
        str_printf("InterpreterDied: Python ended without finishing (%s)", r->status);
    json_object_set_new(error, "traceback", json_lossy_string(text, strlen(text)));
    return error;
}

static bool is_error(const json_t *error)
{
    return json_is_string(json_object_get(error, "name")) &&
           json_is_string(json_object_get(error, "value")) &&
           json_is_string(json_object_get(error, "traceback"));
}

static void on_done(struct run *r)
{
    struct python *p = r->ctx;
    struct tool_call *c = r->call;
    json_t *record = python_record_end(&p->record);
    json_t *structured = run_structured(r);
    json_t *result = json_object_get(record, "result");
    json_t *error = json_object_get(record, "error");
    if (json_is_string(result))
        json_object_set(structured, "result", result);
    if (is_error(error))
        json_object_set(structured, "error", error);
    else if (!record && !r->timed_out)
        json_object_set_new(structured, "error", died(r));
    json_decref(record);
    run_free(r);
    tool_call_finish(c, structured);
}

// ---- 2. the interpreter

static void on_stderr(struct run *r, const char *data, size_t len)
{
    struct python *p = r->ctx;
    python_record_feed(&p->record, data, len);
}

static void on_users_stderr(const char *data, size_t len, void *ctx)
{
    run_add_stderr(ctx, data, len);
}

static void interpret(struct run *r)
{
    struct python *p = r->ctx;
    const char *code = p->path ? p->path : tool_call_string(r->call, "code_block");
    const char *const args[] = {
        "-l", "-c",          "exec python3 \"$@\"", "python3",
        "-c", PYTHON_RUNNER, p->record.mark + 1,    p->path ? "file" : "code",
        code, NULL};
    r->filter = on_stderr;
    r->on_done = on_done;
    run_start(r, &(struct run_spec){.cmd = "/bin/bash", .args = args});
}

// ---- 1. long code

static void on_uploaded(const char *path, int64_t bytes, const struct err *e, void *ctx)
{
    (void)path, (void)bytes;
    struct run *r = ctx;
    struct tool_call *c = r->call;
    c->op = NULL;
    if (!e && !c->cancelled) {
        interpret(r);
        return;
    }
    struct err copy = e ? *e : (struct err){.code = ERR_CANCELED};
    run_free(r);
    tool_call_fail_err(c, "upload the code", &copy);
}

void python_fresh_start(struct tool_call *c)
{
    const char *code = tool_call_string(c, "code_block");
    struct python *p = xcalloc(1, sizeof *p);
    struct run *r = run_new(c);
    python_record_init(&p->record, on_users_stderr, r);
    r->ctx = p;
    r->on_free = on_free;
    if (strlen(code) <= ARGUMENT_MAX) {
        interpret(r);
        return;
    }
    struct client *client = tool_call_client(c, 0);
    if (!client) {
        run_free(r);
        return;
    }
    char *name auto_free = random_hex(4);
    p->path = str_printf("/tmp/cubby-%s.py", name);
    c->op = client_upload_bytes(client, c->id, code, strlen(code), p->path, NULL, on_uploaded, r);
}
