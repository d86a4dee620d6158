// SPDX-License-Identifier: Apache-2.0
// send_input: to the stdin of a command in the background. 1. its process, if it runs; 2. the text;
// 3. the end of it, when asked for.
#include <string.h>

#include "mcp-server/tools/background.h"
#include "mcp-server/tools/text.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

#define TIMEOUT_MS 20000

static void close_stdin(struct tool_call *c);

static const char *text(const struct tool_call *c)
{
    const char *s = tool_call_string(c, "text");
    return s ? s : "";
}

static bool wants_close(const struct tool_call *c)
{
    return json_is_true(json_object_get(c->args, "close_stdin"));
}

// The process whose stdin envd holds is the keeper.
static json_t *selector(const struct tool_call *c)
{
    return json_pack("{s:I}", "pid", (json_int_t)(intptr_t)c->state);
}

static void finish(struct tool_call *c)
{
    json_t *o = json_object();
    json_object_set(o, "command_id", json_object_get(c->args, "command_id"));
    json_object_set_new(o, "bytes", json_integer((json_int_t)strlen(text(c))));
    json_object_set_new(o, "closed", json_boolean(wants_close(c)));
    tool_call_finish(c, o);
}

static bool has_failed(struct tool_call *c, const char *what, const struct err *e)
{
    c->op = NULL;
    if (e && (e->code == ERR_NOT_FOUND || e->code == ERR_INTERNAL))
        tool_call_fail(c, "stdin_closed", "could not %s: %s. Its stdin is closed, or it has ended",
                       what, e->msg);
    else if (e)
        tool_call_fail_err(c, what, e);
    else if (c->cancelled)
        tool_call_fail(c, "cancelled", "the call was cancelled");
    else
        return false;
    return true;
}

// ---- 3.

static void on_closed(const json_t *answer, const struct err *e, void *ctx)
{
    (void)answer;
    if (!has_failed(ctx, "close the command's stdin", e))
        finish(ctx);
}

static void close_stdin(struct tool_call *c)
{
    json_t *request = json_pack("{s:o}", "process", selector(c));
    c->op = client_rpc(c->toolbox->client, c->id, "process.Process/CloseStdin", request, NULL,
                       on_closed, c);
    json_decref(request);
}

// ---- 2.

static void on_sent(const json_t *answer, const struct err *e, void *ctx)
{
    (void)answer;
    struct tool_call *c = ctx;
    if (has_failed(c, "write to the command's stdin", e))
        return;
    if (wants_close(c))
        close_stdin(c);
    else
        finish(c);
}

static void send_text(struct tool_call *c)
{
    struct buf base64 auto_buf = BUF_INIT;
    base64_encode(&base64, text(c), strlen(text(c)));
    json_t *request =
        json_pack("{s:o, s:{s:s}}", "process", selector(c), "input", "stdin", buf_str(&base64));
    c->op = client_rpc(c->toolbox->client, c->id, "process.Process/SendInput", request, NULL,
                       on_sent, c);
    json_decref(request);
}

// ---- 1.

static void on_pid(struct tool_call *c, struct guest_result *r, const struct err *e, void *ctx)
{
    (void)ctx;
    int64_t pid = 0;
    size_t digits = strcspn(buf_str(&r->out), "\n");
    char *number auto_free = xstrndup(buf_str(&r->out), digits);
    if (!e && r->exit_code == 41)
        tool_call_fail(c, "command_ended", "command %s has ended%s",
                       tool_call_string(c, "command_id"),
                       tool_call_hint(c, "read_output", "; read_output has its output"));
    else if (e || r->exit_code != 0 || !str_to_int(number, 1, INT32_MAX, &pid))
        background_fail(c, "find the command", r, e);
    else if (c->cancelled)
        tool_call_fail(c, "cancelled", "the call was cancelled");
    else {
        c->state = (void *)(intptr_t)pid;
        if (*text(c))
            send_text(c);
        else
            close_stdin(c);
    }
}

static void start(struct tool_call *c)
{
    if (!*text(c) && !wants_close(c)) {
        tool_call_fail(c, "invalid_argument", "give text, or close_stdin: true, or both");
        return;
    }
    if (!background_check_id(c) || !tool_call_client(c, 60))
        return;
    const char *id = tool_call_string(c, "command_id");
    const char *const args[] = {id, NULL};
    guest_script_run(c,
                     &(struct guest_script){
                         .text = BACKGROUND_PID,
                         .args = args,
                         .user = background_user(id),
                         .cwd = "/",
                         .timeout_ms = TIMEOUT_MS,
                         .out_max = 4096,
                     },
                     on_pid, NULL);
}

static char *text_of(const json_t *o)
{
    bool closed = json_is_true(json_object_get(o, "closed"));
    return str_printf("%lld bytes sent to command %s%s", text_int(o, "bytes"),
                      text_string(o, "command_id"), closed ? ", its stdin is closed" : "");
}

const struct tool TOOL_SEND_INPUT = {"send_input", start, text_of};
