// SPDX-License-Identifier: Apache-2.0
// run_command: a command line for bash, as a user types it after logging in, in a new shell or in
// the named shell of a session.
#include <string.h>

#include "mcp-server/text/text.h"
#include "mcp-server/tools/run/named_shell.h"
#include "mcp-server/tools/run/run.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

static void on_done(struct run *r)
{
    struct tool_call *c = r->call;
    json_t *structured = run_structured(r);
    if (tool_call_string(c, "session"))
        json_object_set_new(structured, "session", named_shell_view(r));
    run_free(r);
    tool_call_finish(c, structured);
}

static void start(struct tool_call *c)
{
    const char *command = tool_call_string(c, "command");
    if (strlen(command) > RUN_ARGUMENT_MAX) {
        tool_call_fail(c, "invalid_argument",
                       "the command has %zu bytes and at most %zu can be passed; put it into a "
                       "file%s%s",
                       strlen(command), RUN_ARGUMENT_MAX,
                       tool_call_hint(c, "write_file", " with write_file"),
                       tool_call_hint(c, "run_python_code", ", or use run_python_code"));
        return;
    }
    if (!run_envs_fit(c))
        return;
    const char *const args[] = {"-l", "-c", command, NULL};
    struct run *r = run_new(c);
    r->user = tool_call_string(c, "user");
    r->on_done = on_done;
    const char *session = tool_call_string(c, "session");
    if (session) {
        named_shell_run(r, session);
        return;
    }
    json_t *envs = run_envs(c);
    run_start(r, &(struct run_spec){
                     .cmd = "/bin/bash",
                     .args = args,
                     .envs = envs,
                     .cwd = tool_call_string(c, "cwd"),
                 });
    json_decref(envs);
}

// Append, on a line of its own, what is unusual about the session.
static void add_session(struct buf *out, const json_t *o)
{
    const json_t *session = json_object_get(o, "session");
    const char *name = text_string(session, "name");
    const char *before = "; other sessions: ";
    size_t i;
    json_t *other;
    if (json_is_true(json_object_get(session, "ended")))
        buf_printf(out,
                   "\n[session %s: its shell has ended; the next call gets a new shell, without "
                   "the old variables and directory]",
                   name);
    else if (json_is_true(json_object_get(o, "timed_out")))
        buf_printf(out, "\n[session %s is kept, with its variables and directory]", name);
    if (!json_is_true(json_object_get(session, "new")))
        return;
    buf_printf(out, "\n[session %s: a new shell", name);
    json_array_foreach (json_object_get(session, "sessions"), i, other) {
        if (str_eq(json_string_value(other), name))
            continue;
        buf_printf(out, "%s%s", before, json_string_value(other));
        before = ", ";
    }
    buf_addc(out, ']');
}

static char *text_of(const json_t *o)
{
    struct buf out = BUF_INIT;
    const char *err = text_string(o, "stderr");
    const char *stdout_text = text_string(o, "stdout");
    text_add_part(&out, *err && *stdout_text ? "stdout" : NULL, stdout_text);
    text_add_part(&out, *err ? "stderr" : NULL, err);
    if (out.len == 0)
        buf_adds(&out, "(no output)\n");
    text_add_end(&out, o);
    if (json_object_get(o, "session"))
        add_session(&out, o);
    text_add_network_hint(&out, o);
    return buf_take(&out);
}

static const char *hint_of(const json_t *o)
{
    return json_is_true(json_object_get(o, "timed_out")) ? TEXT_TIMEOUT_HINT : NULL;
}

// A named shell runs one command at a time.
static char *uses(const struct tool_call *c)
{
    const char *session = tool_call_string(c, "session");
    return session ? str_printf("session %s", session) : NULL;
}

const struct tool tool_run_command = {
    .name = "run_command", .start = start, .text = text_of, .hint = hint_of, .uses = uses};
