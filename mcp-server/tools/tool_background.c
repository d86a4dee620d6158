// SPDX-License-Identifier: Apache-2.0
// Tools for a background command that start_command has started: read_output, send_input and
// stop_command.
#include <stdio.h>
#include <string.h>

#include "mcp-server/text/text.h"
#include "mcp-server/tools/run/background.h"
#include "mcp-server/tools/run/network_hint.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

#define WAIT_MS_MAX 50000 // clients that hear no progress give a request up after 60 s

// ---- read_output: the output since a cursor; waits for more if asked

static void on_page(struct tool_call *c, const struct background_page *p, void *ctx)
{
    (void)ctx;
    if (p)
        background_finish(c, tool_call_string(c, "command_id"), p, NETWORK_HINT_BACKGROUND_S);
}

static int64_t wait_ms(const struct tool_call *c)
{
    int64_t ms = (int64_t)(json_number_value(json_object_get(c->args, "wait_seconds")) * 1000);
    return ms > WAIT_MS_MAX && !c->takes_progress ? WAIT_MS_MAX : ms;
}

static void start_reading(struct tool_call *c)
{
    const json_t *most = json_object_get(c->args, "max_bytes");
    if (!background_check_id(c) || !tool_call_client(c, wait_ms(c) / 1000 + 60))
        return;
    background_read(c,
                    &(struct background_read){
                        .id = tool_call_string(c, "command_id"),
                        .cursor = json_integer_value(json_object_get(c->args, "cursor")),
                        .max_bytes = (size_t)(most ? json_integer_value(most)
                                                   : c->context->config->output_bytes),
                        .wait_ms = wait_ms(c),
                    },
                    on_page, NULL);
}

const struct tool tool_read_output = {
    .name = "read_output", .start = start_reading, .text = background_text};

// ---- send_input: to the stdin of the command. 1. Find its process; 2. send the text; 3. close
// stdin if asked.

#define TIMEOUT_MS 20000

static void close_stdin(struct tool_call *c);

static const char *input_text(const struct tool_call *c)
{
    const char *s = tool_call_string(c, "text");
    return s ? s : "";
}

static bool wants_close(const struct tool_call *c)
{
    return json_is_true(json_object_get(c->args, "close_stdin"));
}

// envd holds the stdin of the keeper, which the command inherits.
static json_t *selector(const struct tool_call *c)
{
    return json_pack("{s:I}", "pid", (json_int_t)(intptr_t)c->state);
}

static void finish_sending(struct tool_call *c)
{
    json_t *o = json_object();
    json_object_set(o, "command_id", json_object_get(c->args, "command_id"));
    json_object_set_new(o, "bytes", json_integer((json_int_t)strlen(input_text(c))));
    json_object_set_new(o, "closed", json_boolean(wants_close(c)));
    tool_call_finish(c, o);
}

static bool has_failed_to_send(struct tool_call *c, const char *what, const struct err *e)
{
    c->op = NULL;
    if (e && (e->code == ERR_NOT_FOUND || e->code == ERR_INTERNAL))
        tool_call_fail(
            c, "stdin_closed",
            "could not %s: %s. The stdin of the command is closed, or the command has ended", what,
            e->msg);
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
    if (!has_failed_to_send(ctx, "close the command's stdin", e))
        finish_sending(ctx);
}

static void close_stdin(struct tool_call *c)
{
    json_t *request = json_pack("{s:o}", "process", selector(c));
    c->op = client_rpc(c->context->client, c->id, "process.Process/CloseStdin", request, NULL,
                       on_closed, c);
    json_decref(request);
}

// ---- 2.

static void on_sent(const json_t *answer, const struct err *e, void *ctx)
{
    (void)answer;
    struct tool_call *c = ctx;
    if (has_failed_to_send(c, "write to the command's stdin", e))
        return;
    if (wants_close(c))
        close_stdin(c);
    else
        finish_sending(c);
}

static void send_text(struct tool_call *c)
{
    struct buf base64 auto_buf = BUF_INIT;
    base64_encode(&base64, input_text(c), strlen(input_text(c)));
    json_t *request =
        json_pack("{s:o, s:{s:s}}", "process", selector(c), "input", "stdin", buf_str(&base64));
    c->op = client_rpc(c->context->client, c->id, "process.Process/SendInput", request, NULL,
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
        if (*input_text(c))
            send_text(c);
        else
            close_stdin(c);
    }
}

static void start_sending(struct tool_call *c)
{
    if (!*input_text(c) && !wants_close(c)) {
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

static char *text_of_sending(const json_t *o)
{
    bool closed = json_is_true(json_object_get(o, "closed"));
    return str_printf("%lld bytes sent to command %s%s", text_int(o, "bytes"),
                      text_string(o, "command_id"), closed ? ", its stdin is closed" : "");
}

const struct tool tool_send_input = {
    .name = "send_input", .start = start_sending, .text = text_of_sending};

// ---- stop_command: a signal to the command and its process group, and later KILL to what still
// runs

#define GRACE_S 5

static void on_stopped(struct tool_call *c, struct guest_result *r, const struct err *e, void *ctx)
{
    (void)ctx;
    int ran;
    int hard;
    int code;
    if (e || r->exit_code != 0 || sscanf(buf_str(&r->out), "%d %d %d", &ran, &hard, &code) != 3) {
        background_fail(c, "stop the command", r, e);
        return;
    }
    json_t *o = json_object();
    json_object_set(o, "command_id", json_object_get(c->args, "command_id"));
    json_object_set_new(o, "was_running", json_boolean(ran));
    json_object_set_new(o, "killed", json_boolean(hard));
    if (code >= 0)
        json_object_set_new(o, "exit_code", json_integer(code));
    tool_call_finish(c, o);
}

static void start_stopping(struct tool_call *c)
{
    const json_t *given = json_object_get(c->args, "grace_seconds");
    double grace = given ? json_number_value(given) : GRACE_S;
    if (!background_check_id(c) || !tool_call_client(c, 60))
        return;
    background_stop(c, tool_call_string(c, "command_id"), tool_call_string(c, "signal"), grace,
                    on_stopped);
}

static char *text_of_stopping(const json_t *o)
{
    const json_t *code = json_object_get(o, "exit_code");
    char *how auto_free =
        code ? str_printf(" (exit code %lld)", (long long)json_integer_value(code)) : xstrdup("");
    if (!json_is_true(json_object_get(o, "was_running")))
        return str_printf("Command %s had already ended%s", text_string(o, "command_id"), how);
    return str_printf("Command %s stopped%s%s", text_string(o, "command_id"),
                      json_is_true(json_object_get(o, "killed")) ? ", by KILL" : "", how);
}

const struct tool tool_stop_command = {
    .name = "stop_command", .start = start_stopping, .text = text_of_stopping};
