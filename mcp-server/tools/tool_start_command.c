// SPDX-License-Identifier: Apache-2.0
// start_command: starts the keeper of a command, reads its first output or its immediate failure,
// and leaves it. If a proxy holds the output back, the tool leaves the keeper as soon as it runs,
// and reads the output by a script, as read_output does.
#include <string.h>

#include "mcp-server/tools/run/background.h"
#include "mcp-server/tools/run/run.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/net/deadline.h"

#define SILENT_MS       100 // what prints nothing is left then
#define SETTLE_MS       20  // after it has printed something, for the rest
#define COMPLAINT_BYTES ((size_t)1024)
#define HELD_MS         300 // what is held back is left then, unless it has failed

struct starting {
    struct tool_call *call;
    char *id; // owned
    struct buf output, complaint;
    int64_t total; // bytes printed
    bool is_known; // it can be found by its id
    bool is_running, is_lost;
    int exit_code;
    struct err err;
    struct deadline leave;
};

// ---- 2. its end

// The keeper could not make its files.
static void fail_without_files(struct starting *s)
{
    int len;
    const char *why = guest_script_complaint(&s->complaint, &len);
    if (strstr(why, "No space left") || strstr(why, "quota exceeded"))
        tool_call_fail(s->call, "failed",
                       "could not start the command: the disk of the sandbox is full, and the "
                       "command's output could not be kept. Delete files and try again (%.*s)",
                       len, why);
    else
        tool_call_fail(s->call, "failed",
                       "could not start the command: its output cannot be kept (%.*s)", len, why);
}

static void fail(struct starting *s)
{
    struct tool_call *c = s->call;
    if (s->is_lost)
        tool_call_fail(
            c, "command_lost",
            "could not start the command: %s. It may be running as command_id %s%s", s->err.msg,
            s->id,
            tool_call_hint(c, "read_output", ": check with read_output before you start it again"));
    else if (err_is(&s->err))
        tool_call_fail_err(c, "start the command", &s->err);
    else
        fail_without_files(s);
}

static void finish(struct starting *s)
{
    struct background_page page = {
        .is_running = s->is_running, .exit_code = s->exit_code, .data = buf_str(&s->output)};
    background_page_end(&page, s->output.len, s->total);
    background_finish(s->call, s->id, &page, 0);
}

static void starting_free(struct starting *s)
{
    buf_fini(&s->output);
    buf_fini(&s->complaint);
    free(s->id);
    free(s);
}

// ---- 2. its output, if that is held back

static void on_held_page(struct tool_call *c, const struct background_page *page, void *ctx)
{
    struct starting *s = ctx;
    if (page)
        background_finish(c, s->id, page, 0);
    starting_free(s);
}

static void read_held(struct starting *s)
{
    struct tool_call *c = s->call;
    background_read(c,
                    &(struct background_read){.id = s->id,
                                              .max_bytes = (size_t)c->context->config->output_bytes,
                                              .wait_ms = SILENT_MS,
                                              .is_new = true},
                    on_held_page, s);
}

static void on_leave_closed(struct deadline *leave)
{
    struct starting *s = container_of(leave, struct starting, leave);
    struct tool_call *c = s->call;
    if (c->cancelled && (!err_is(&s->err) || s->err.code == ERR_CANCELED))
        background_abandon(c, s->id); // the keeper was killed, at most
    else if (!err_is(&s->err) && s->is_running && !s->is_known)
        return read_held(s);
    else if (err_is(&s->err) || !s->is_known)
        fail(s);
    else
        finish(s);
    starting_free(s);
}

static void on_end(const struct command_result *r, const struct err *e, void *ctx)
{
    struct starting *s = ctx;
    s->call->op = NULL;
    s->is_running = r->end == COMMAND_LEFT;
    s->exit_code = r->end == COMMAND_EXITED ? r->exit_code : -1;
    s->is_lost = e && r->may_have_run;
    if (e)
        s->err = *e;
    deadline_close(&s->leave, on_leave_closed);
}

// ---- 1. what it prints at once

static void on_leave(struct deadline *leave)
{
    client_leave(container_of(leave, struct starting, leave)->call->op);
}

static void on_stdout(const char *data, size_t len, void *ctx)
{
    struct starting *s = ctx;
    if (!s->is_known) { // the keeper's word
        s->is_known = true;
        deadline_arm(&s->leave, SILENT_MS);
        data++;
        len--;
    }
    if (len == 0)
        return;
    size_t room = (size_t)s->call->context->config->output_bytes - s->output.len;
    if (s->total == 0)
        deadline_arm(&s->leave, SETTLE_MS);
    s->total += (int64_t)len;
    buf_add(&s->output, data, len < room ? len : room);
    tool_call_output(s->call, PROGRESS_STDOUT, data, len);
}

static void on_stderr(const char *data, size_t len, void *ctx)
{
    struct starting *s = ctx;
    size_t room = COMPLAINT_BYTES - s->complaint.len;
    buf_add(&s->complaint, data, len < room ? len : room);
}

static void on_held(void *ctx)
{
    struct starting *s = ctx;
    deadline_arm(&s->leave, HELD_MS);
}

static void start(struct tool_call *c)
{
    const char *command = tool_call_string(c, "command");
    const char *user = tool_call_string(c, "user");
    if (strlen(command) > RUN_ARGUMENT_MAX) {
        tool_call_fail(c, "invalid_argument",
                       "the command has %zu bytes and at most %zu can be passed; put it into a "
                       "file%s",
                       strlen(command), RUN_ARGUMENT_MAX,
                       tool_call_hint(c, "write_file", " with write_file"));
        return;
    }
    if (!run_envs_fit(c))
        return;
    struct client *client = tool_call_client(c, 60);
    if (!client)
        return;
    static const struct command_events EVENTS = {
        .on_stdout = on_stdout, .on_stderr = on_stderr, .on_held = on_held, .on_end = on_end};
    struct starting *s = xcalloc(1, sizeof *s);
    s->call = c;
    s->id = background_new_id(user);
    deadline_init(&s->leave, c->context->loop, on_leave);
    const char *const args[] = {"-c", BACKGROUND_RUN, "cubby", s->id, command, NULL};
    json_t *envs = run_envs(c);
    struct command_opts opts = {
        .cmd = "/bin/bash",
        .args = args,
        .envs = envs,
        .cwd = tool_call_string(c, "cwd"),
        .user = user,
        .open_stdin = true,
        .tag = s->id,
    };
    c->op = client_command(client, c->id, &opts, &EVENTS, s);
    json_decref(envs);
}

const struct tool tool_start_command = {
    .name = "start_command", .start = start, .text = background_text};
